"""The report of a session: one HTML file that needs no network, no server and no other file.

``python -m mpibench.report --db results/results.db --out results/report.html`` does what ``mpibench report`` does.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import sys
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from ..published import curves as published_curves
from ..published.curves import Curve
from ..results.sessions import Session, label_of, read_session
from .cases import details, place_of
from .charts import PALETTE, SYMBOLS, curves, index
from .page_policy import content_security_policy
from .published import section
from .summary import summary_lines, write_markdown
from .tables import Tables, words

#: Parts of the page's script, in the order they need each other; together they are one function.
SCRIPTS = ("page.js", "panel.js", "curves.js", "heat.js", "start.js")


def _template(name: str) -> str:
    return (files("mpibench.report") / "templates" / name).read_text(encoding="utf-8")


def _json_block(name: str, value: Any) -> str:
    """A JSON block inside HTML; ``<`` is escaped so that no text can end the block or open a comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def page_style() -> str:
    """Style sheet of all pages, with the colours of the stacks."""
    colours = {theme: " ".join(f"--s{number}: {colour};" for number, colour in enumerate(PALETTE[theme])) for theme in PALETTE}
    signs = "\n".join(
        f'.s{number}::before {{ content: "{sign}"; color: var(--s{number}); }}' for number, sign in enumerate(SYMBOLS.values())
    )
    return Template(_template("report.css")).substitute(colours, stacks=signs)


def _script() -> str:
    parts = "\n".join(_template(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def plotly_source() -> str:
    """Source of plotly.js from the plotly package.

    :raises BadInput: a release of plotly.js that cannot be embedded.
    """
    from plotly.offline import get_plotlyjs

    source = get_plotlyjs()
    if re.search(r"</script|<!--", source, re.IGNORECASE):
        raise BadInput("this release of plotly cannot be embedded in a page: install the one named in pyproject.toml.")
    return source


def render(session: Session, base: Path, stacks: Iterable[Stack] = (), published: Sequence[Curve] = ()) -> str:
    """The page as text.

    :param base: folder the page will be in; links to job directories are relative to it.
    :param stacks: metadata of the stacks on this machine, for the table of what they are made of.
    :param published: curves of papers to draw beside the measured ones.
    """
    places = [place_of(session, case, base) for case in session.cases]
    found = curves(session)
    tables = Tables(session, places, stacks)
    blocks = [_json_block("index", index(session, found, published))]
    blocks += [_json_block(f"curves-{number}", rows) for number, rows in enumerate(found.values())]
    blocks += [
        _json_block(f"case-{number}", details(session, case, place))
        for number, (case, place) in enumerate(zip(session.cases, places, strict=True))
    ]
    nonce = secrets.token_urlsafe(16)
    return Template(_template("report.html")).substitute(
        nonce=nonce,
        policy=content_security_policy(nonce),
        title=escape(f"{', '.join(session.systems)}: {label_of(session)}, {session.started:%Y-%m-%d}"),
        style=page_style(),
        heading=tables.heading(),
        verdict=tables.verdict(),
        failures=tables.failures(),
        skipped=tables.skipped(),
        key_figures=tables.key_figures(),
        gates=tables.gates(),
        published=section(session, published, tables),
        published_link='<a href="#published">Published</a>' if published else "",
        evidence=tables.evidence(),
        provenance=tables.provenance(),
        words=words(),
        chunks="\n".join(blocks),
        plotly=plotly_source(),
        script=_script(),
    )


def write_report(session: Session, out_path: str | Path, stacks: Iterable[Stack] = (), published: Sequence[Curve] = ()) -> Path:
    """Write the page, whole or not at all, and return its path.

    :raises BadInput: the folder cannot be written.
    """
    out_path = Path(out_path)
    try:
        out_path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file.replacing(out_path) as partial:
            partial.write_text(render(session, out_path.parent, stacks, published), encoding="utf-8")
    except OSError as err:
        raise BadInput(f"cannot write {out_path}: {err.strerror}.") from None
    return out_path


def write(db: str | Path, session: str | None, out: str | Path | None = None, published: Sequence[str] = ()) -> list[str]:
    """Write report and Markdown summary of one session and return lines for the terminal.

    :param session: session id or a unique beginning of it; the newest if ``None`` or ``latest``.
    :param out: the one HTML file to write; by default two in the database's folder: ``reports/<session>.html``, which no other
        session replaces, and ``report.html``, the report that was written last.
    :param published: ``FABRIC=SYSTEM/FABRIC`` each: published data to put a fabric beside (:mod:`curves`).
    :raises BadInput: no such database, session or published data, or a damaged one.
    """
    read = read_session(db, None if session in (None, "latest") else session)
    folder = Path(db).parent
    pages = [Path(out)] if out else [folder / "reports" / f"{read.uuid}.html", folder / "report.html"]
    stacks, _ = metadata.discover()
    curves = published_curves.choose(read, published)
    for page in pages:
        write_report(read, page, stacks, curves)
        write_markdown(read, page.with_suffix(".md"))
    return [*summary_lines(read), *published_curves.lines(read, curves), *(f"report: {page}" for page in pages)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of ``python -m mpibench.report``; bad input is one sentence and exit status 2."""
    parser = argparse.ArgumentParser(prog="python -m mpibench.report", description="Write the report of a session.")
    parser.add_argument("--db", type=Path, default=Path("results/results.db"), help="ReFrame's results database")
    parser.add_argument("--session", default="latest", help="session id or a unique beginning of it (default: the newest)")
    parser.add_argument("--out", type=Path, help="HTML file to write")
    options = parser.parse_args(arguments)
    try:
        print("\n".join(write(options.db, options.session, options.out)))
    except BadInput as err:
        print(f"mpibench: {err}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
