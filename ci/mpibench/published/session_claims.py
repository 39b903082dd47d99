"""What a system's stored sessions say of the papers' claims: each claim at each place where it can be asked.

Without the figures that a claim divides it is neither true nor false: it was not measured, and a command says how it would be.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reframe_tests.harness.sites import folders, reference_keys, site, systems
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import SITE_FILES, BadInput

from ..results import session_values
from ..results.quantity_text import size_text
from . import claims, relative_claims
from .claims import FAILS, HOLDS
from .relative_claims import NODES, ClaimSide, LinkedFabric, RelativeClaim
from .session_figures import Figures, Place, linked_fabrics

NOT_MEASURED = "not measured"
#: Levels whose sizes a command may ask for, the quickest first; the first is what ReFrame runs without ``-S level``.
_LEVELS = ("nightly", "acceptance")


@dataclass(frozen=True)
class SizeAnswer:
    """A claim at one message size.

    :param value: the figure, in MB/s or us; ``under``: what it is divided by.
    """

    message_bytes: int
    holds: bool
    value: float
    under: float
    ratio: float
    at_least: float | None
    at_most: float | None

    @property
    def room(self) -> float:
        """How far it is inside its bounds, as a share of the nearer one; below 0: how far outside."""
        low = float("inf") if self.at_least is None else self.ratio / self.at_least - 1
        high = float("inf") if self.at_most is None else 1 - self.ratio / self.at_most
        return min(low, high)


@dataclass(frozen=True)
class SessionClaimAnswer:
    """A claim at one place.

    :param over: fabric of its figure; ``other``: of what it is divided by, the same where that is no figure of another one.
    :param stack: ``None`` where no stack measured anything on that fabric; ``pinning`` likewise.
    :param outcome: :data:`HOLDS`, :data:`FAILS` or :data:`NOT_MEASURED`.
    :param sizes: the sizes that were answered.
    :param why: why it is not answered.
    :param unusable: it was measured, and that may not be used.
    """

    claim: RelativeClaim
    over: LinkedFabric
    other: LinkedFabric
    stack: str | None
    pinning: str | None
    outcome: str
    sizes: tuple[SizeAnswer, ...] = ()
    why: str = ""
    unusable: bool = False

    @property
    def ppn(self) -> int:
        """Ranks on a node of its figure."""
        return self.claim.over.ranks_a_node(self.over.fabric)

    @property
    def sides(self) -> list[tuple[ClaimSide, LinkedFabric]]:
        """Figures that it takes, each with its fabric."""
        return [(self.claim.over, self.over), *([(self.claim.under, self.other)] if self.claim.under else [])]

    @property
    def failing(self) -> list[SizeAnswer]:
        """Sizes at which it does not hold, the worst first."""
        return sorted((one for one in self.sizes if not one.holds), key=lambda one: one.room)

    @property
    def nearest(self) -> SizeAnswer:
        """The size that is nearest to its bounds, or farthest outside."""
        return min(self.sizes, key=lambda one: one.room)


@dataclass(frozen=True)
class SessionClaims:
    """All answers of some sessions.

    :param not_asked: claims that are not asked of this system, or not of all its fabrics, each with the reason.
    :param notes: what was not used and why.
    """

    system: str
    sessions: tuple[str, ...]
    answers: tuple[SessionClaimAnswer, ...]
    not_asked: tuple[tuple[RelativeClaim, str], ...]
    notes: tuple[str, ...]

    def count(self, outcome: str) -> int:
        """Answers with an outcome."""
        return sum(one.outcome == outcome for one in self.answers)


def ask(folder: Path, system: str, selector: str, *, where: str | None = None, root: Path = site.ROOT) -> SessionClaims:
    """Ask the papers' claims of the sessions a selector means.

    :param folder: of the dataset.
    :raises BadInput: no such system or session, one of another system, or sessions that cannot be asked together.
    """
    described = systems.find(system, root)
    if described is None:
        place = folders.of(system, root)
        raise BadInput(f"{place} has no {SITE_FILES}: without the line rates of {system} no claim can be scaled.")
    name = session_values.system_of(folder, system)
    selection = session_values.read(folder, name, selector, where=where, unproven_too=True)
    partitions = described["partitions"]
    known, left_out = linked_fabrics(partitions)
    figures = Figures(selection)
    figures.check_builds()
    gone = figures.check_fabrics({row["name"]: site.fabrics_of(row["extras"]) for row in partitions}, system)
    answers, not_asked = list[SessionClaimAnswer](), list[tuple[RelativeClaim, str]]()
    for claim in (claim for paper in relative_claims.papers(root) for claim in relative_claims.read(paper, root)):
        pairs, reasons = _pairs(claim, known)
        not_asked += [(claim, why) for why in reasons]
        answers += [answer for over, other in pairs for answer in _ask_pair(claim, over, other, figures)]
    notes = (*selection.notes, *left_out, *gone)
    return SessionClaims(system, selection.sessions, tuple(answers), tuple(not_asked), notes)


def _pairs(claim: RelativeClaim, known: Sequence[LinkedFabric]) -> tuple[list[tuple[LinkedFabric, LinkedFabric]], list[str]]:
    """Fabrics a claim is asked of, each with the one it is compared with, and why it is not asked of others."""
    pairs = [(over, other) for over in known if claim.fits(over.fabric) for other in claim.others(over, known)]
    if not pairs:
        return [], [claim.why_not_asked(known)]
    timed, reasons = list[tuple[LinkedFabric, LinkedFabric]](), list[str]()
    for over, other in pairs:
        ranks = NODES * max(side.ranks_a_node(at.fabric) for side, at in _sides(claim, over, other))
        most = min((one.most_ranks for one in (over, other) if one.most_ranks is not None), default=ranks)
        if ranks > most:
            reasons.append(f"it takes {ranks} ranks, and on {over.partition} at most {most} are timed (most_timed_ranks)")
        else:
            timed.append((over, other))
    return timed, list(dict.fromkeys(reasons))


def _sides(claim: RelativeClaim, over: LinkedFabric, other: LinkedFabric) -> list[tuple[ClaimSide, LinkedFabric]]:
    return [(claim.over, over), *([(claim.under, other)] if claim.under else [])]


def _ask_pair(claim: RelativeClaim, over: LinkedFabric, other: LinkedFabric, figures: Figures) -> Iterable[SessionClaimAnswer]:
    """The claim for each stack and pinning on a fabric."""
    stacks = figures.stacks(over.partition, over.fabric.name)
    if not stacks:
        why = f"nothing of these sessions is on {over.fabric.name}"
        yield SessionClaimAnswer(claim, over, other, None, None, NOT_MEASURED, why=why)
    for stack in stacks:
        for pinning in figures.pinnings(over.partition, over.fabric.name, stack, claim.over.ranks_a_node(over.fabric)):
            if not claim.pinning or pinning in claim.pinning:
                yield _ask_place(SessionClaimAnswer(claim, over, other, stack, pinning, NOT_MEASURED), figures)


def _ask_place(asked: SessionClaimAnswer, figures: Figures) -> SessionClaimAnswer:
    claim, over, other = asked.claim, asked.over, asked.other
    place = {"stack": asked.stack, "pinning": asked.pinning}
    places = list(dict.fromkeys(_place(asked, at) for _, at in asked.sides))
    rows = [row for one in places for row in figures.by_place.get(one, [])]
    names = {"partition": over.partition, **place, **claim.over.columns(over.fabric, 0)}
    of_claim = [row for row in rows if all(row[key] == value for key, value in names.items() if key != "message_bytes")]
    sizes = sorted({row["message_bytes"] for row in of_claim if claim.asks(row["message_bytes"])})
    found = [answer for size in sizes if (answer := _ask_size(claim, over, other, size, place, rows))]
    missing = [size for size in claim.sizes if size not in {one.message_bytes for one in found}]
    if any(not one.holds for one in found):
        return replace(asked, outcome=FAILS, sizes=tuple(found))
    if found and not missing:
        return replace(asked, outcome=HOLDS, sizes=tuple(found))
    for side, at in asked.sides:
        if why := figures.why_unusable(_place(asked, at), side.ranks_a_node(at.fabric), side.row.group):
            return replace(asked, why=f"a case of it in these sessions {why}", unusable=True)
    if zero := [size for size in missing if size in sizes and _is_zero(asked, size, rows)]:
        return replace(asked, why=f"what it is compared with is 0 at {size_text(zero[0])}", unusable=True)
    lacking = ", ".join(map(size_text, missing))
    return replace(asked, sizes=tuple(found), why=f"these sessions lack {_lacking_side(asked, missing, rows)} at {lacking}")


def _place(asked: SessionClaimAnswer, at: LinkedFabric) -> Place:
    return (at.partition, str(asked.stack), at.fabric.name, str(asked.pinning))


def _ask_size(
    claim: RelativeClaim,
    over: LinkedFabric,
    other: LinkedFabric,
    size: int,
    place: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
) -> SizeAnswer | None:
    """The claim at one size; ``None`` without its figures."""
    concrete = claim.at(over, other, size, place)
    answer = claims.ask(concrete, rows)
    if answer.ratio is None:
        return None
    value = _value(concrete.over, rows)
    under = _value(concrete.under, rows) if isinstance(concrete.under, Mapping) else float(concrete.under)
    return SizeAnswer(size, answer.outcome == HOLDS, value, under, answer.ratio, concrete.at_least, concrete.at_most)


def _value(wanted: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float:
    return next(float(row["value"]) for row in rows if all(row[key] == value for key, value in wanted.items()))


def _has(side: ClaimSide, at: LinkedFabric, size: int, rows: Sequence[Mapping[str, Any]]) -> list[float]:
    wanted = {"partition": at.partition, **side.columns(at.fabric, size)}
    return [float(row["value"]) for row in rows if all(row[key] == value for key, value in wanted.items())]


def _is_zero(asked: SessionClaimAnswer, size: int, rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(_has(side, at, size, rows) == [0.0] for side, at in asked.sides)


def _lacking_side(asked: SessionClaimAnswer, missing: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> str:
    """The first figure that is not there, in words."""
    for side, at in asked.sides:
        if any(not _has(side, at, size, rows) for size in missing):
            return f"{side.benchmark} with {side.ranks_a_node(at.fabric)} on each of {NODES} nodes on {at.fabric.name}"
    raise AssertionError("a claim with all its figures has a ratio")


def command(system: str, answers: Sequence[SessionClaimAnswer]) -> str:
    """What measures a claim of one pair of fabrics for some stacks and pinnings, both of its figures in one session.

    :param answers: of one claim and one pair of fabrics.
    """
    sides = answers[0].sides
    tests = {group: test for test, group in reference_keys.tests().items()}
    partitions = {at.partition for _, at in sides}
    words = ["reframe", "-c", "reframe_tests", "-r", "-n", "|".join(dict.fromkeys(tests[side.row.group] for side, _ in sides))]
    words += [f"--system={system}:{partitions.pop()}" if len(partitions) == 1 else f"--system={system}"]
    parameters: dict[str, list[object]] = {
        "fabric": [at.fabric.name for _, at in sides],
        "nodes": [NODES],
        "ppn": [*sorted({side.ranks_a_node(at.fabric) for side, at in sides})],
        "pinning": [one.pinning for one in answers if one.pinning],
    }
    for name, values in parameters.items():
        words += ["-P", f"{name}={','.join(map(str, dict.fromkeys(values)))}"] if values else []
    if stacks := list(dict.fromkeys(one.stack for one in answers if one.stack)):
        words += ["-p", "|".join(f"{stack}$" for stack in stacks)]
    if options := sides[0][0].suite_options:
        words += ["-S", f"suite_options={','.join(f'{key}:{value}' for key, value in options.items())}"]
    level = next(level for level in _LEVELS if _measures(answers[0].claim, sides, level))
    words += [] if level == _LEVELS[0] else ["-S", f"level={level}"]
    return shlex.join(words)


def _measures(claim: RelativeClaim, sides: Iterable[tuple[ClaimSide, LinkedFabric]], level: str) -> bool:
    """Whether a level has all sizes that a claim needs."""
    return all(set(claim.sizes) <= _sizes_of(side, level) for side, _ in sides)


def _sizes_of(side: ClaimSide, level: str) -> set[int | None]:
    row = side.row
    plans = (plan for plan in catalogue.GROUPS[row.group].plans if plan.binary == row.binary and row.name in plan.benchmarks)
    ranges = ((plan, plan.size_ranges[level]) for plan in plans if level in plan.size_ranges)
    return {size for plan, sizes in ranges for size in catalogue.SUITES[row.suite].sizes(row, plan, sizes)}
