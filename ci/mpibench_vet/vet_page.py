"""The page of ``mpibench vet``: the nodes with their verdicts, then the maps."""

from __future__ import annotations

from collections.abc import Sequence

from mpibench.locate.findings import MapJudgement
from mpibench.pages import figures
from mpibench.pages.page import Block, Section, Table, sections

from .vetting import VetAnswer

HEAD = ("node", "verdict", "looked at", "reason", "to decide it")


def page(answer: VetAnswer, maps: Sequence[MapJudgement]) -> str:
    """The answer as one HTML file."""
    headline, *_ = answer.lines()
    rows = [
        (one.node, one.verdict, reason.check, reason.text, reason.remedy)
        for one in answer.nodes
        for reason in one.reasons
    ]
    rows += [(one.node, one.verdict, "", "", "") for one in answer.nodes if not one.reasons]
    notes = [*answer.notes, *answer.applied]
    content: list[Section] = [
        ("Nodes", [headline, Table(HEAD, rows, ()), *([Block("items", notes)] if notes else [])])
    ]
    for judged in maps:
        drawn = figures.map_figures(judged)
        content.append((judged.title, [judged.headline, Block("charts", drawn)]))
    where = f"{answer.system}:{answer.partition}, {answer.fabric}"
    return sections("Vet", f"Before nodes return to service: {where}", content)
