"""Whether settings are better: default against tuned, interleaved in fresh jobs, paired; what shows that they were taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reframe_tests.harness.cases.sweep.variants import TUNED
from reframe_tests.harness.mpis.tuning.model import COUNTED, DEFAULT, NAMED, NOT_PROVEN, STRICT, TIMED, Tuning
from reframe_tests.harness.sites import tuned_settings
from reframe_tests.harness.vocabulary import BadInput

from ..night import supervision
from . import measuring, race
from .race import ALL_SIZES, BETTER, INCONCLUSIVE, Compared, Times, compare

#: Repeats of both, and seconds that a launch times its calls for at most, and at least.
REPEATS, LAUNCH_S, LEAST_LAUNCH_S = 8, 2.0, 0.3
LATE = "not done when the budget was used up; give a larger --budget, and the same command goes on with the proof"


@dataclass(frozen=True)
class Proof:
    """Default against tuned.

    :param rows: each collective at each size, and where settings are for all sizes together, of all as well.
    :param evidence: collective to how it is shown that the settings were taken.
    :param unusable: collective to why its measurement cannot be used.
    :param oversubscribed: ``4 ranks on 2 cores``, where ranks waited for each other's cores; else empty.
    """

    session: str
    seconds: float
    rows: tuple[Compared, ...]
    evidence: Mapping[str, str]
    unusable: Mapping[str, str]
    oversubscribed: str = ""


def prove(
    base: measuring.Order,
    tuning: Tuning,
    chosen: Mapping[str, Mapping[int, str]],
    settings: Path,
    folder: Path,
    name: str,
    limit_s: float,
    forced: Mapping[str, Mapping[str, Mapping[str, Sequence[object]]]] | None = None,
    weights: Mapping[str, Mapping[int, float]] | None = None,
) -> Proof:
    """Measure settings against the library's own choice.

    :param chosen: collective to message size to algorithm.
    :param settings: folder of the settings.
    :param forced: what one call of each algorithm sent when it was forced, where counted (:attr:`race.Race.messages`).
    :param weights: collective to message size to calls of an application, where one algorithm is chosen for all sizes.
    """
    asked = dict.fromkeys(chosen, f"{DEFAULT}+{TUNED}")
    seconds = launch_s(len(asked), limit_s)
    order = replace(base, algorithms=asked, repeats=REPEATS, seconds=seconds, tuned_files=str(settings))
    try:
        ran = measuring.run(order, folder, name, limit_s)
    except supervision.OutOfTime:
        raise BadInput("settings-not-proven", f"the settings could not be proven: {LATE}.") from None
    cases = measuring.cases_of(ran.session, tuple(asked))
    unusable = {each: why for each in asked if (why := measuring.why_unusable(cases.get(each)))}
    if ran.late:
        unusable = dict.fromkeys(unusable, LATE)
    if len(unusable) == len(asked):
        first = next(iter(unusable))
        raise BadInput("settings-not-proven", f"the settings could not be proven: {first}: {unusable[first].rstrip('.')}.")
    tables = {}
    for each in (each for each in asked if each not in unusable):
        tables[each] = Times(each)
        tables[each].add(ran.session.uuid, cases[each].samples)
    sums = {name: tables[name].as_one((weights or {}).get(name) or None) for name in tables if tuning.find(name).as_a_whole}
    rows = [*compare({**tables, **sums}), *compare({name: tables[name] for name in sums})]
    labelled = tuple(replace(row, word=_word(chosen[row.collective], row.message_bytes)) for row in rows)
    evidence, installed = {}, tuned_settings.read(settings)
    for each in tables:
        algorithms = cases[each].condition.get("algorithms", {})
        labels = {**(forced or {}).get(each, {}), DEFAULT: algorithms.get(DEFAULT, {}).get("messages", {})}
        evidence[each] = show(tuning, algorithms.get(TUNED, {}), labels, chosen[each], labelled, each, installed.files)
    shared = str(next((cases[each].condition.get("oversubscribed") for each in tables), None) or "")
    return Proof(ran.session.uuid, ran.seconds, labelled, evidence, unusable, shared)


def launch_s(collectives: int, limit_s: float) -> float:
    """Seconds that a launch may time its calls for, so that the proof of so many collectives fits into a limit if it can."""
    each = (limit_s - race.SESSION_S) / (2 * REPEATS * collectives) - race.OVERHEAD_S
    return round(min(LAUNCH_S, max(LEAST_LAUNCH_S, each)), 2)


def _word(chosen: Mapping[int, str], size: int) -> str:
    return chosen.get(size, chosen.get(ALL_SIZES, DEFAULT))


def show(
    tuning: Tuning,
    tuned: Mapping[str, object],
    counted: Mapping[str, Mapping[str, Sequence[object]]],
    chosen: Mapping[int, str],
    rows: Sequence[Compared],
    collective: str,
    files: Mapping[str, str],
) -> str:
    """How it is shown that a collective's algorithms were taken, the strongest first.

    Messages show it where those of the settings are those of the forced algorithms and, at one size at least, others than
    without settings: what a library sends that ignores them.

    :param tuned: what the condition keeps of the settings.
    :param counted: algorithm to message size to what one call of it sent, of the library's own choice as well.
    """
    if _is_named(tuning, tuned, chosen, collective):
        return NAMED
    messages = tuned.get("messages")
    if isinstance(messages, Mapping):
        triples = [
            (list(messages[str(size)]), list(counted[word][str(size)]), list(counted.get(DEFAULT, {}).get(str(size), ())))
            for size, word in chosen.items()
            if str(size) in messages and str(size) in counted.get(word, {})
        ]
        if all(own == forced for own, forced, _ in triples) and any(default and own != default for own, _, default in triples):
            return COUNTED
    # A file's choices are called without a look whether they apply; what a variable forces is looked at.
    if tuned.get(STRICT) or (tuning.strict and not files):
        return STRICT
    mine = [row for row in rows if row.collective == collective and row.outcome != INCONCLUSIVE]
    return TIMED if mine else NOT_PROVEN


def _is_named(tuning: Tuning, tuned: Mapping[str, object], chosen: Mapping[int, str], collective: str) -> bool:
    """Whether the library named each algorithm of two levels that was chosen, and none where another was."""
    control, named = tuning.find(collective), tuned.get("named")
    of_levels = {size for size, word in chosen.items() if control.is_of_levels(word)}
    if not of_levels or not isinstance(named, Mapping):
        return False
    return all(named.get(str(size)) == (word if size in of_levels else None) for size, word in chosen.items())


def recommended(found: Proof) -> list[Compared]:
    """What is better and was shown to be taken."""
    return [row for row in found.rows if row.outcome == BETTER and found.evidence.get(row.collective, NOT_PROVEN) != NOT_PROVEN]
