"""Section of the report: key figures."""

from __future__ import annotations

from ...results.quantity_text import size_text, unit_text
from ..section import Content, Section
from ..summary import KEY_FIGURES, key_figures
from ..view import View


def show(view: View) -> Content:
    """The key figures, each a link to its case."""
    table = key_figures(view.session)
    columns = [figure for figure in KEY_FIGURES if any(figure in row for row in table.values())]
    heads = []
    for figure in columns:
        sample = next(row[figure].sample for row in table.values() if figure in row)
        size = "" if sample.message_bytes is None else f", {size_text(sample.message_bytes)}"
        heads.append(f"{figure.title}{size} [{unit_text(sample.unit)}]")
    return {"heads": heads, "rows": [(condition, [row.get(figure) for figure in columns]) for condition, row in table.items()]}


SECTION = Section("figures", 30, show, "Key figures", "Key figures")
