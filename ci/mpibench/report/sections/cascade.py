"""Section of the report: where bandwidth or latency is lost between wire, transport library and MPI."""

from __future__ import annotations

from ...cascade import chart, judgement, levels
from ..section import Content, Section
from ..view import View


def show(view: View) -> Content | None:
    """A sentence for each question and a chart for each fabric; nothing where nothing was measured below MPI."""
    found = levels.find(view.session)
    if not found:
        return None
    return {
        "fabrics": [
            {
                "cascade": one,
                "sentences": [judgement.sentence(one, answer) for answer in one.answers],
                "chart": chart.draw(one),
            }
            for one in found
        ]
    }


SECTION = Section("cascade", 45, show, "Where bandwidth and latency are lost", "Cascade")
