"""Sections of a session's page: guidelines, and measured curves beside published ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpibench.commands.options import say, say_json
from mpibench.pages.additions import Addition, Curve
from mpibench.pages.outcomes import format_number
from mpibench.pages.page import Block, Table
from mpibench.pages.session import Content, Part, View
from mpibench.store.quantity_text import size_text, unit_text
from mpibench.store.sessions import Session
from reframe_tests.harness.vocabulary import QUANTITIES, BadInput

from . import guidelines, published
from .guidelines import Ratio

#: Exit statuses: violated, and the policy refuses that; nothing could be decided.
REFUSED = 1
INCONCLUSIVE = 3


def _note(text: str) -> Block:
    return Block("text", text, label="note")


def _fold(line: str, blocks: Sequence[Part], is_open: bool = False) -> Block:
    return Block("fold", blocks, label=line, is_open=is_open)


def _guidelines(view: View) -> Content:
    """Violated guidelines of each condition, and what could not be
    decided; nothing where none was measured.
    """
    if not guidelines.has_guidelines(view.session):
        return None
    note = _note(
        "Is each collective call at least as fast as an equivalent: other calls, itself with four "
        "times the data, or the same data in four parts? Both ran interleaved in one program; "
        "intervals are of the ratio of their times."
    )
    try:
        found, policy = guidelines.judge_session(view.session)
    except BadInput as error:
        return [note, f"Not judged: {error}"]

    def table(rows: Iterable[Ratio]) -> Table:
        head = (
            "call",
            "equivalent",
            "size",
            "times",
            "call (µs)",
            "replacement (µs)",
            "repeats",
        )
        cells = [
            (
                row.call,
                row.mockup,
                size_text(row.message_bytes),
                row.times,
                format_number(row.call_us),
                format_number(row.mockup_us),
                row.repeats,
            )
            for row in rows
        ]
        return Table(head, cells, range(2, 7))

    means = (
        "The policy refuses violations."
        if policy.guidelines_refuse
        else "Violations are advice on what to tune."
    )
    blocks: list[Part] = [note, f"{guidelines.headline(found, policy)}. {means}"]
    for judged in found.by_condition():
        condition = judged.rows[0]
        place = (
            f"{condition.stack} on {condition.partition}, {condition.fabric}, {condition.nodes} "
            f"x {condition.ppn}"
        )
        counts = judged.counts
        by_guideline = guidelines.by_guideline(judged.violations)
        text = (
            f"{counts['violated']} violated, {counts['held']} held, {counts['inconclusive']} "
            "could not be decided."
        )
        blocks.append(Block("text", text, f"{place}, {condition.pinning}"))
        if by_guideline:
            blocks.append(
                Block(
                    "items", [guidelines.sentence(rows) for rows in by_guideline], label="failures"
                )
            )
        violated = [row for rows in by_guideline for row in rows]
        blocks += (
            [_fold(f"Violated, size by size: {counts['violated']}", [table(violated)])]
            if violated
            else []
        )
        undecided = [row for row in judged.rows if row.outcome == guidelines.INCONCLUSIVE]
        few = (
            "Neither clearly slower than the margin allows nor clearly within it; more repeats "
            f"would decide. Fewer than {policy.minimum_repeats} give no interval."
        )
        line = f"Judged, but undecided: {len(undecided)}"
        blocks += [_fold(line, [_note(few), table(undecided)])] if undecided else []
    return [*blocks, *map(_note, found.notes)]


def _published_figures(view: View) -> Content:
    """Measured curves beside published ones, size by size; nothing
    where the site chose no published data.
    """
    if not view.published:
        return None
    blocks: list[Part] = [
        _note(
            "Figures that others published about another machine, from "
            "site_configs/<system>/published: they carry no proof, and nothing here is judged "
            "by them. A ratio is the median measured here over the published figure."
        )
    ]
    alone = []
    for curve in view.published:
        what = f"{curve.benchmark} {QUANTITIES[curve.quantity].title}"
        found = published.beside(view.session, curve)
        if not found:
            alone.append(f"{curve.source}: {what}, {curve.title}")
            continue
        unit = unit_text(QUANTITIES[curve.quantity].unit)
        named = f" ({unit})" if unit else ""
        head = []
        for finding in found:
            where = ", ".join(
                filter(
                    None,
                    (
                        finding.case.stack,
                        finding.case.partition,
                        finding.case.pinning,
                        finding.variant,
                    ),
                )
            )
            head += [f"{where}{named}", "ratio"]
        rows = []
        for size, printed in curve.points.items():
            cells: list[object] = [size_text(size), printed]
            for finding in found:
                cells.append(
                    view.button(finding.case, format_number(finding.measured[size]))
                    if size in finding.measured
                    else ""
                )
                cells.append(f"{finding.ratios[size]:.3f}" if size in finding.ratios else "")
            rows.append(cells)
        spans = (
            f"{finding.case.stack} {min(finding.ratios.values()):.2f} to "
            f"{max(finding.ratios.values()):.2f}"
            for finding in found
        )
        conditions = f"; {curve.conditions}" if curve.conditions else ""
        note = f"Published: {curve.title}; {curve.nodes} nodes, {curve.ppn} per node{conditions}."
        table = Table(("size", f"published{named}", *head), rows, range(1, 2 + len(head)))
        line = f"{curve.fabric}: {what} beside {curve.source}: {', '.join(spans)}"
        blocks.append(_fold(line, [_note(note), table], is_open=len(blocks) == 1))
    return [
        *blocks,
        *(
            [_fold(f"Published, but not measured here: {len(alone)}", [Block("items", alone)])]
            if alone
            else []
        ),
    ]


def _violations(session: Session, _: Sequence[Curve]) -> list[str]:
    """Which collective calls to tune first, for the terminal;
    nothing where no guideline was measured.
    """
    if not guidelines.has_guidelines(session):
        return []
    try:
        found, policy = guidelines.judge_session(session)
    except BadInput as error:
        return [f"guidelines: not judged: {error}"]
    return [
        f"guidelines: {guidelines.headline(found, policy)}",
        *(f"  {line}" for line in guidelines.violations(found)),
    ]


def _say_guidelines(session: Session, as_json: bool) -> int:
    """Say which collective calls are slower than what could replace them; exit status."""
    found, policy = guidelines.judge_session(session)
    if as_json:
        say_json(guidelines.as_data(session.uuid, session.systems[0], found, policy))
    else:
        say(
            [
                f"{session.systems[0]}, session {session.uuid[:8]}: "
                f"{guidelines.headline(found, policy)}"
            ]
        )
        say(f"  {line}" for line in guidelines.violations(found))
        say(f"  note: {line}" for line in found.notes)
    if policy.guidelines_refuse and found.violations:
        return REFUSED
    return 0 if len(found.rows) > found.counts[guidelines.INCONCLUSIVE] else INCONCLUSIVE


GUIDELINES = Addition(
    section=("guidelines", "Performance guidelines", "Guidelines", _guidelines),
    lines=_violations,
    answer=_say_guidelines,
)
PUBLISHED = Addition(
    section=("published", "Comparison with published figures", "Published", _published_figures),
    lines=published.beside_lines,
    curves=published.choose,
)
