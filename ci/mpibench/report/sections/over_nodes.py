"""Section of the report: curves over the number of nodes."""

from __future__ import annotations

from .. import node_curves, node_drawing
from ..section import Content, Section
from ..view import View


def show(view: View) -> Content | None:
    """A chart and its values for each benchmark and condition; nothing where nothing was measured over nodes."""
    charts = node_curves.find(view.session)
    return {"charts": [(chart, node_drawing.draw(chart)) for chart in charts]} if charts else None


SECTION = Section("over_nodes", 42, show, "Over the number of nodes", "Nodes")
