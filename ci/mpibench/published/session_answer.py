"""What ``mpibench claims SYSTEM --session`` answers: lines for people, plain data for programs, and an exit status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reframe_tests.harness.printable import plain_data

from ..results.quantity_text import size_text
from .claims import FAILS, HOLDS
from .relative_claims import NODES, RelativeClaim
from .session_claims import NOT_MEASURED, SessionClaimAnswer, SessionClaims, SizeAnswer, command

#: Exit status where nothing was measured that a claim asks for, or where something was that may not be used.
NOTHING_MEASURED = 3


def status(found: SessionClaims) -> int:
    """Exit status: 0 all that was measured holds, 1 something does not, :data:`NOTHING_MEASURED`."""
    if found.count(FAILS):
        return 1
    return NOTHING_MEASURED if not found.count(HOLDS) or any(one.unusable for one in found.answers) else 0


def lines(found: SessionClaims) -> Iterator[str]:
    """The answer for a terminal: counts; each claim with its sentence and what is said of it; what is not asked; notes."""
    yield headline(found)
    for claim in dict.fromkeys(one.claim.name for one in found.answers):
        answers = [one for one in found.answers if one.claim.name == claim]
        yield f'{claim}: "{answers[0].claim.sentence}" ({answers[0].claim.section})'
        yield from (f"  {answer_text(one)}" for one in answers if one.outcome != NOT_MEASURED)
        yield from (f"  {line}" for line in _unmeasured(found.system, [one for one in answers if one.outcome == NOT_MEASURED]))
    yield from (f"not asked: {claim.name}: {why}" for claim, why in found.not_asked)
    yield from (f"note: {note}" for note in found.notes)


def headline(found: SessionClaims) -> str:
    """System, sessions and counts."""
    sessions = ", ".join(one[:8] for one in found.sessions)
    head = f"{found.system}, session{'s'[: len(found.sessions) != 1]} {sessions}: "
    unusable = sum(one.unusable for one in found.answers)
    said = f"{found.count(HOLDS)} hold, {found.count(FAILS)} do not hold, {found.count(NOT_MEASURED)} not measured"
    if not found.count(HOLDS) + found.count(FAILS):
        said = f"NOTHING MEASURED that a claim asks for ({said})"
    return f"{head}{said}" + (f", {unusable} of these because what was measured may not be used" if unusable else "")


def answer_text(answer: SessionClaimAnswer) -> str:
    """A claim that was answered: where, at which sizes, and at which it is nearest to its bounds or farthest outside."""
    shown = answer.nearest
    first, last = (size_text(one.message_bytes) for one in (answer.sizes[0], answer.sizes[-1]))
    sizes = first if len(answer.sizes) == 1 else f"{first} to {last}"
    others = [size_text(one.message_bytes) for one in answer.failing[1:]]
    also = f"; nor at {', '.join(others)}" if others else ""
    return f"{answer.outcome}: {_where(answer)}: {sizes}; {_figure_text(answer.claim, shown)}{also}"


def _figure_text(claim: RelativeClaim, shown: SizeAnswer) -> str:
    unit = "us" if claim.over.quantity == "latency_us" else "MB/s"
    wanted = [("at least", shown.at_least), ("at most", shown.at_most)]
    bounds = ", ".join(f"{word} {bound:.4g}" for word, bound in wanted if bound is not None)
    value = f"{_number(shown.value)} {unit} at {size_text(shown.message_bytes)}"
    return f"{value} is {shown.ratio:.3f} of {_number(shown.under)} {unit}, wanted {bounds}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _where(answer: SessionClaimAnswer) -> str:
    fabric = answer.over.fabric.name
    against = f" against {answer.other.fabric.name}" if answer.other is not answer.over else ""
    if answer.other.partition != answer.over.partition:
        against = f" against {answer.other.fabric.name} on {answer.other.partition}"
    shape = [f"{NODES} x {answer.ppn}", *([answer.pinning] if answer.pinning else [])]
    return f"{answer.stack or 'any stack'} on {answer.over.partition}, {fabric}{against}, {', '.join(shape)}"


def _unmeasured(system: str, answers: Sequence[SessionClaimAnswer]) -> Iterator[str]:
    """What was not measured, one line for each pair of fabrics and reason, and what would measure it."""
    groups: dict[tuple[Any, ...], list[SessionClaimAnswer]] = {}
    for one in answers:
        key = (one.over.partition, one.over.fabric.name, one.other.partition, one.other.fabric.name, one.why)
        groups.setdefault(key, []).append(one)
    for alike in groups.values():
        where = "; ".join(_where(one) for one in alike)
        yield f"{NOT_MEASURED}: {where}: {alike[0].why}; measure it with: {command(system, alike)}"


def as_data(found: SessionClaims) -> dict[str, Any]:
    """The answer as plain data."""
    data: dict[str, Any] = plain_data(
        {
            "system": found.system,
            "sessions": list(found.sessions),
            "status": status(found),
            "holds": found.count(HOLDS),
            "does_not_hold": found.count(FAILS),
            "not_measured": found.count(NOT_MEASURED),
            "claims": [_as_row(found.system, one) for one in found.answers],
            "not_asked": [{"claim": claim.name, "why": why} for claim, why in found.not_asked],
            "notes": list(found.notes),
        }
    )
    return data


def _as_row(system: str, answer: SessionClaimAnswer) -> dict[str, Any]:
    claim = answer.claim
    return {
        "claim": claim.name,
        "sentence": claim.sentence,
        "section": claim.section,
        "bounds": claim.bounds,
        "note": claim.note,
        "outcome": answer.outcome,
        **{"partition": answer.over.partition, "fabric": answer.over.fabric.name, "stack": answer.stack},
        **{"pinning": answer.pinning, "nodes": NODES, "ppn": answer.ppn, "quantity": claim.over.quantity},
        "against": {"partition": answer.other.partition, "fabric": answer.other.fabric.name, "line_rate": claim.under is None},
        "sizes": [vars(one) for one in answer.sizes],
        "why": answer.why,
        "unusable": answer.unusable,
        "command": command(system, [answer]) if answer.outcome == NOT_MEASURED else None,
    }
