"""HTML pages from Jinja2 templates that need neither network nor server. A page with drawings needs
plotly.js beside it, one file for all pages of a folder (:func:`write`); without it only the
drawings are missing, and the page says so.

Templates are in ``templates``; ``base.html``, ``parts.html`` and ``page.css`` serve all pages, and
``sections.html`` shows what :func:`sections` gets. All inserted text is escaped, except markup from
templates or from the program's own files. An undefined name in a template is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from reframe_tests.harness.printable import one_line, plural
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from ..store.quantity_text import metric_text, size_text, source_text, unit_text
from .outcomes import OUTCOMES, format_number, title_of

#: One colour per stack, on white and on the dark page. The first two are of Okabe and Ito, "Color
#: Universal Design" (2008); the others were searched so that all differ for protan, deutan and
#: normal eyes and stand out from the page (the tests hold them to both). ``charts.js`` draws those
#: of the light page in those of the dark one.
PALETTE = {
    "light": (
        "#0072b2",
        "#d55e00",
        "#19a677",
        "#7a1040",
        "#3f2ad6",
        "#403300",
        "#5b6570",
        "#000000",
    ),
    "dark": (
        "#5bb4f0",
        "#ff9a4d",
        "#2fe0b0",
        "#f0e442",
        "#8a63ff",
        "#b5554d",
        "#2d7a80",
        "#ffffff",
    ),
}
#: Marker per stack, so that a print in black and white can be
#: read: name in plotly.js, sign in text.
SYMBOLS = {
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "x": "✖",
    "cross": "✚",
    "triangle-down": "▼",
    "star": "★",
}
#: How ``tojson`` writes data; it escapes ``<``, ``>``, ``&`` and ``'``
#: itself, so that no text can end its element.
_JSON: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}


@cache
def plotly_script() -> tuple[str, str]:
    """Name of the file that holds plotly.js, with its version and digest, and its text."""
    from plotly.offline import get_plotlyjs, get_plotlyjs_version

    source = get_plotlyjs()
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    return f"plotly-{get_plotlyjs_version()}-{digest}.min.js", source


def write(path: Path, text: str) -> None:
    """Write a page or another text; beside a page that draws plotly.js, unless it is there."""
    whole_file.write_text(path, text)
    if not path.is_file() or "data-plotly" not in text:
        return
    name, source = plotly_script()
    beside = path.with_name(name)
    if not beside.is_file() or beside.read_bytes() != source.encode():
        whole_file.write_text(beside, source)


def _figure_json(figure: Any) -> Markup:
    """A figure, or one as plain data, such that no text in it can end its attribute."""
    plain = isinstance(figure, dict)
    return htmlsafe_json_dumps(
        figure, dumps=lambda drawn: json.dumps(drawn, **_JSON) if plain else drawn.to_json()
    )


#: Templates of all pages.
LOADER = PackageLoader(__package__)
TEMPLATES = Environment(
    loader=LOADER, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
TEMPLATES.policies["json.dumps_kwargs"] = _JSON
TEMPLATES.filters.update(
    metric=metric_text,
    plural=plural,
    size=size_text,
    unit=unit_text,
    source=source_text,
    number=format_number,
    title_of=title_of,
    figure_json=_figure_json,
)
TEMPLATES.globals.update(
    palette=PALETTE,
    symbols=SYMBOLS,
    outcomes=OUTCOMES,
    plotly=lambda: plotly_script()[0],
)


def render(name: str, script: bool = False, **content: Any) -> str:
    """A whole page.

    :param name: a template that extends ``base.html``.
    :param script: without it the page runs none, whatever gets into it.
    :param content: what it and the base page insert.
    """
    return TEMPLATES.get_template(name).render(
        **content, nonce=secrets.token_urlsafe(16) if script else ""
    )


class Cell(NamedTuple):
    """A cell that is more than text: a ``link`` to ``of``, ``code``, a ``stack`` with symbol and
    colour ``of``, or a control that opens the panel of ``case`` number ``of``.
    """

    kind: str
    text: str
    of: object = ""
    title: str = ""


class Table(NamedTuple):
    """A table, under a heading where it has one; ``rows`` of texts, numbers and cells.

    :param numeric: columns of numbers; ``marked``: that of a word
        which is coloured as its name says.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    numeric: Sequence[int] = ()
    marked: int | None = None
    title: str = ""


class Block(NamedTuple):
    """A part of a section, with an optional heading.

    :param kind: ``text``, ``items`` (of texts), ``facts`` (names and what they are), ``pre`` (lines
        as they are), ``charts`` (figures), ``drawing`` (a figure, or one as plain data) or ``fold``
        (blocks that are folded away).
    :param label: class of a text or of items, what a drawing shows, the line of a fold.
    """

    kind: str
    content: Any
    title: str = ""
    label: str = ""
    is_open: bool = False


#: A heading and what stands below it; a text is a paragraph. A section
#: with nothing below its heading is left out.
Section = tuple[str, Sequence[str | Table | Block]]


def sections(kind: str, title: str, content: Sequence[Section]) -> str:
    """A page of sections.

    :param kind: what it is a page of; a line above the title.
    """
    drawn = any(
        isinstance(block, Block) and block.kind in ("charts", "drawing")
        for _, blocks in content
        for block in blocks
    )
    return render("sections.html", drawn, kind=kind, title=title, sections=content)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around what writes a file or folder.

    :raises BadInput: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise BadInput(
            "cannot-write", f"cannot write {error.filename or path}: {error.strerror}."
        ) from None


def flat(value: Any) -> str:
    """A stored value of any shape as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={flat(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(
            f"[{flat(item)}]" if isinstance(item, (list, tuple)) else flat(item) for item in value
        )
    return "" if value is None else str(value)


def markdown(title: str, content: Sequence[Section], level: int = 1) -> str:
    """Sections as Markdown; text is used unchanged."""
    marks = "#" * level
    lines = [f"{marks} {markdown_text(title)}", ""]
    for heading, blocks in content:
        lines += [f"{marks}# {markdown_text(heading)}", ""] if heading and blocks else []
        for block in blocks:
            if isinstance(block, Table):
                rows = [
                    [
                        _code(cell.text) if isinstance(cell, Cell) else markdown_text(cell)
                        for cell in row
                    ]
                    for row in block.rows
                ]
                lines += [
                    f"| {' | '.join(row)} |"
                    for row in (block.head, ["---"] * len(block.head), *rows)
                ]
            else:
                lines += (
                    [f"- {markdown_text(line)}" for line in block.content]
                    if isinstance(block, Block)
                    else [block]
                )
            lines.append("")
    return "\n".join(lines)


def markdown_text(text: object) -> str:
    """A line in which Markdown sees no marks, cells, tags or addresses."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(str(text).split())).replace(
        "://", ":\u200b//"
    )


def _code(text: str) -> str:
    """A value as code: between more backquotes than it has in a row, its cells' marks escaped."""
    fence = "`"
    while fence in text:
        fence += "`"
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{blank}{one_line(text)}{blank}{fence}".replace("|", "\\|")


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table cell; empty if there is none."""
    return "" if value is None else f"{value:.{digits}f}"
