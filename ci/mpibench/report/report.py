"""The report of a session: one HTML file that needs no network, no server and no other file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file, withdrawals
from ..confirmation import references
from ..confirmation.references import StoredAnswers
from ..pages import page
from ..published import curves as published_curves
from ..published.curves import Curve
from ..results.sessions import Session, label_of, read_session
from . import planned
from . import preflight as preflights
from .cases import details, library_line, placement_text, traffic_text, transport_line
from .charts import curves, index
from .planned import ReportPlan
from .preflight import Preflight
from .sections import in_order
from .summary import counts, format_number, summary_lines, title_of, verdict_line, write_markdown
from .view import NOT_AGAIN, View

TEMPLATES = page.environment(
    __package__,
    number=format_number,
    title_of=title_of,
    library_line=library_line,
    placement_text=placement_text,
    traffic_text=traffic_text,
    transport_line=transport_line,
)


def _facts(session: Session) -> list[tuple[str, str]]:
    """What was run, when, where, by whom and with what."""
    info = session.info
    versions = {case.stack: case.condition["mpi_version"] for case in session.cases if case.condition.get("mpi_version")}
    stacks = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return [
        ("session", session.uuid),
        ("started", f"{session.started:%Y-%m-%d %H:%M:%S} UTC, took {session.seconds:.0f} s"),
        ("on", f"{info.get('hostname', '')}, as {info.get('user', 'unknown user')}"),
        ("with", f"ReFrame {info.get('version', '')}, {stacks}"),
        ("command", str(info.get("cmdline", ""))),
    ]


def _blocks(view: View) -> Iterator[tuple[str, Any]]:
    """Data of the page's script: an index, the curves of each measure, each case; one JSON block each, decoded when needed."""
    found = curves(view.session)
    yield "index", index(view.session, found, view.published)
    for number, rows in enumerate(found.values()):
        yield f"curves-{number}", rows
    for number, (case, place) in enumerate(zip(view.session.cases, view.places, strict=True)):
        yield f"case-{number}", details(view.session, case, place)


def render(
    session: Session,
    base: Path,
    stacks: Iterable[Stack] = (),
    published: Sequence[Curve] = (),
    again: StoredAnswers = NOT_AGAIN,
    preflight: Preflight | None = None,
    plan: ReportPlan | None = None,
    withdrawn: str = "",
) -> str:
    """The page as text.

    :param base: folder the page will be in; links to job directories are relative to it.
    :param stacks: metadata of the stacks on this machine, for the table of what they are made of.
    :param published: curves of papers to draw beside the measured ones.
    :param again: what measuring again gave for cases that missed a reference.
    :param preflight: the session in which the nodes were looked at before.
    :param plan: by which it was measured.
    :param withdrawn: who withdrew it, and why; empty where nobody did.
    """
    view = View.of(session, base, stacks, published, again, preflight, plan)
    systems, label = ", ".join(session.systems), label_of(session)
    contents = ((section, section.content(view)) for section in in_order())
    return page.render(
        TEMPLATES,
        "report.html",
        script=True,
        title=f"{systems}: {label}, {session.started:%Y-%m-%d}",
        systems=systems or "no system",
        label=label,
        failed=counts(session)["failed"] or again.unreadable or withdrawn,
        verdict=f"{withdrawn}. {verdict_line(session)}" if withdrawn else verdict_line(session),
        facts=_facts(session),
        view=view,
        sections=[(section, content) for section, content in contents if content is not None],
        blocks=_blocks(view),
        plotly=page.plotly_source(),
    )


def write_report(
    session: Session,
    out_path: str | Path,
    stacks: Iterable[Stack] = (),
    published: Sequence[Curve] = (),
    again: StoredAnswers = NOT_AGAIN,
    preflight: Preflight | None = None,
    plan: ReportPlan | None = None,
    withdrawn: str = "",
) -> Path:
    """Write the page, whole or not at all, and return its path.

    :raises BadInput: the folder cannot be written.
    """
    out_path = Path(out_path)
    try:
        whole_file.write_text(out_path, render(session, out_path.parent, stacks, published, again, preflight, plan, withdrawn))
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
    again, looked = references.stored(read, Path(db)), preflights.find(read, Path(db))
    plan = planned.find(read, Path(db))
    gone = withdrawals.find(folder / "dataset").get(read.uuid)
    withdrawn = f"WITHDRAWN: {gone}" if gone else ""
    for path in pages:
        write_report(read, path, stacks, curves, again, looked, plan, withdrawn)
        write_markdown(read, path.with_suffix(".md"), [*again.unreadable, *filter(None, [withdrawn])])
    return [
        *summary_lines(read),
        *filter(None, [withdrawn]),
        *again.unreadable,
        *published_curves.lines(read, curves),
        *(f"report: {path}" for path in pages),
    ]
