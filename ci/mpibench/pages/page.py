"""HTML pages from Jinja2 templates: one file that needs no network, no server and no other file.

A room that has pages keeps their templates in its folder ``templates``; ``base.html``, ``tables.html``, ``charts.html`` and
``page.css`` here are for all of them. Whatever is inserted is escaped, unless it is markup a template wrote or one of the
program's own files; a name that a template uses and nobody gave it is an error.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from reframe_tests.harness.vocabulary import BadInput

from ..results.quantity_text import size_text, unit_text
from .palette import PALETTE, SYMBOLS

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: How ``tojson`` writes data; it escapes ``<``, ``>``, ``&`` and ``'`` itself, so that no text can end its element.
_JSON = {"separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}


def environment(package: str, **filters: Callable[[Any], Any]) -> Environment:
    """Templates of a room, beside those of all.

    :param package: name of the room's package, e.g. ``mpibench.report``.
    :param filters: what its templates make text with, beside ``size``, ``unit`` and ``figures_json``, which all have.
    """
    loader = ChoiceLoader([PackageLoader(package), PackageLoader(__package__)])
    templates = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.policies["json.dumps_kwargs"] = _JSON
    templates.filters.update(filters, size=size_text, unit=unit_text, figures_json=_figures_json)
    # The text of a file as it is, for scripts.
    source = {"source": lambda name: Markup(loader.get_source(templates, name)[0])}
    templates.globals.update(palette=PALETTE, symbols=SYMBOLS, **source)
    return templates


def render(templates: Environment, name: str, **content: Any) -> str:
    """A whole page.

    :param templates: of :func:`environment`.
    :param name: a template that extends ``base.html``.
    :param content: what it and the base page insert. A page without ``script=True`` runs none, whatever gets into it.
    """
    script = content.pop("script", False)
    return templates.get_template(name).render(**content, nonce=secrets.token_urlsafe(16) if script else "")


def _figures_json(figures: Sequence[go.Figure]) -> Markup:
    """Figures as plotly writes them; like ``tojson``, so that no text in them can end its element."""
    return htmlsafe_json_dumps(figures, dumps=lambda drawn: f"[{','.join(figure.to_json() for figure in drawn)}]")


def plotly_source() -> Markup:
    """Source of plotly.js from the plotly package, to be put into a script element.

    :raises BadInput: a release of plotly.js that cannot be embedded.
    """
    from plotly.offline import get_plotlyjs

    source = get_plotlyjs()
    if re.search(r"</script|<!--", source, re.IGNORECASE):
        raise BadInput("this release of plotly cannot be embedded in a page: install the one named in pyproject.toml.")
    return Markup(source)
