"""Which guidelines a session's MPI stacks violate: ratios of a
call to its mock-up, each with an interval.

What is judged is the ratio of the time of a call to that of its mock-up, which one program measured
interleaved (``harness/instruments/guidelines.py``). Each repeat of a job gives one ratio per
guideline and message size: the median over the repetitions of the program.

ratio of a row
    20 % trimmed mean of the logarithms over the repeats; its error from the winsorised variance,
    moderated over all rows of one condition (:func:`mpibench.judge.engine.compare_pairs`);
violated
    "the call takes at most 1 + margin times its mock-up" is rejected, one-sided, with Student's t;
    over all rows of the session the false discovery rate is bounded (Benjamini and Hochberg 1995;
    under positive dependence, as disturbances of a whole job make it, Benjamini and Yekutieli 2001,
    theorem 1.2);
interval of a violation
    as the rows shown are the selected ones, its ends err with (number violated) / (number of rows)
    times that rate each (Benjamini and Yekutieli 2005, J. Am. Stat. Assoc. 100:71, false coverage
    rate): the lower end lies above 1 + margin just where the row is violated;
held
    the upper end of the interval with the policy's confidence is at most
    1 + margin. What is neither is inconclusive.

Hunold et al. (PGMPI, Euro-Par 2016) use a rank test over ten starts of MPI; with a few hundred rows
no rank test over so few starts can reject anything once many tests are accounted for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from msgspec import Struct
from msgspec.structs import asdict

from mpibench.judge import engine
from mpibench.judge import policy as policies
from mpibench.judge.policy import Policy
from mpibench.store.quantity_text import size_text
from mpibench.store.sessions import Session
from reframe_tests.harness.printable import plain_data, plural
from reframe_tests.harness.vocabulary import BadInput

#: The quantity that is judged, and the two it is made of; only the guidelines have them.
RATIO = "call_over_mockup"
CALL = "call_us"
MOCKUP = "mockup_us"
VIOLATED = "violated"
HELD = "held"
INCONCLUSIVE = "inconclusive"
OUTCOMES = (VIOLATED, HELD, INCONCLUSIVE)
#: Partition, stack, fabric, nodes, processes per node, pinning.
_Condition = tuple[str, str, str, int | None, int | None, str]
HOW_TO_MEASURE = "measure them with: reframe -c reframe_tests -r -n Guidelines"


class Ratio(Struct):
    """One guideline at one message size under one condition, as in the answer for programs.

    :param guideline: name of the benchmark: ``CALL-vs-CALL[-CALL]``,
        ``CALL-vs-larger`` or ``CALL-vs-parts``.
    :param ratio: time of the call over that of its mock-up; ``low``,
        ``high``: its interval; ``nan`` if there is none.
    :param call_us: median time of the call over the repeats; ``mockup_us``: of the mock-up.
    :param call: what should be at least as fast as ``mockup``, as text.
    """

    partition: str
    stack: str
    fabric: str
    nodes: int | None
    ppn: int | None
    pinning: str
    guideline: str
    message_bytes: int
    ratio: float
    low: float
    high: float
    call_us: float
    mockup_us: float
    repeats: int
    outcome: str
    call: str
    mockup: str

    @property
    def condition(self) -> str:
        return (
            f"{self.stack} on {self.partition}, {self.fabric}, {self.nodes} x {self.ppn}, "
            f"{self.pinning}"
        )

    @property
    def times(self) -> str:
        """How many times as long as its mock-up a call takes, with
        the interval where there is one.
        """
        known = math.isfinite(self.low) and math.isfinite(self.high)
        return (
            f"{self.ratio:.2g} ({self.low:.2g} to {self.high:.2g})"
            if known
            else f"{self.ratio:.2g}"
        )


@dataclass(frozen=True)
class Findings:
    """All rows of a session.

    :param notes: what was not used and why.
    """

    rows: tuple[Ratio, ...]
    notes: tuple[str, ...]

    @property
    def counts(self) -> Mapping[str, int]:
        number = Counter(row.outcome for row in self.rows)
        return {outcome: number[outcome] for outcome in OUTCOMES}

    def by_condition(self) -> list[Findings]:
        """The rows of each condition, without the notes, which are of the session."""
        conditions = dict.fromkeys(row.condition for row in self.rows)
        return [
            Findings(tuple(row for row in self.rows if row.condition == name), ())
            for name in conditions
        ]

    @property
    def violations(self) -> list[Ratio]:
        """The rows that are violated."""
        return [row for row in self.rows if row.outcome == VIOLATED]


def has_guidelines(session: Session) -> bool:
    return any(sample.quantity == RATIO for case in session.cases for sample in case.samples)


def judge_session(session: Session) -> tuple[Findings, Policy]:
    """As :func:`judge`, by the policy of the session's system.

    :raises BadInput: it has cases on several systems, too.
    """
    if len(session.systems) != 1:
        raise BadInput(
            "ambiguous-name",
            f"session {session.uuid} has cases on {len(session.systems)} systems, but is judged by "
            "one policy: give another.",
        )
    policy = policies.load(session.systems[0])
    return judge(session, policy), policy


def judge(session: Session, policy: Policy) -> Findings:
    """Judge the proven cases of a session.

    :raises BadInput: none measured guidelines, or none of those that did may be used.
    """
    measured = [
        case for case in session.cases if any(sample.quantity == RATIO for sample in case.samples)
    ]
    if not measured:
        raise BadInput(
            "nothing-measured",
            f"session {session.uuid} has no measurement of guidelines; {HOW_TO_MEASURE}.",
        )
    reasons = {case.uuid: session.why_not(case) for case in measured}
    counted = Counter(reason for reason in reasons.values() if reason)
    notes = [f"{plural(count, 'case')} not used: {why}" for why, count in counted.items()]
    values: dict[_Condition, dict[tuple[str, int, str], list[float]]] = {}
    for case in measured:
        if reasons[case.uuid] is None:
            condition = (
                case.partition,
                case.stack,
                case.fabric,
                case.nodes,
                case.ppn,
                case.pinning,
            )
            kept = values.setdefault(condition, {})
            for sample in case.samples:
                if sample.quantity in (RATIO, CALL, MOCKUP) and sample.message_bytes is not None:
                    row = kept.setdefault(
                        (sample.benchmark, sample.message_bytes, sample.quantity), []
                    )
                    row += [value for value in sample.measured if value > 0]
    if not values:
        raise BadInput(
            "nothing-measured",
            f"session {session.uuid} has no usable case of guidelines ({'; '.join(notes)}).",
        )
    return Findings(tuple(_judge(values, policy)), tuple(notes))


def _judge(
    values: Mapping[_Condition, Mapping[tuple[str, int, str], list[float]]], policy: Policy
) -> Iterable[Ratio]:
    """A row of each guideline, size and condition.

    :param values: of the repeats, by guideline, message size and quantity.
    """
    keys = [
        (condition, name, size)
        for condition, kept in values.items()
        for name, size, quantity in kept
        if quantity == RATIO
    ]
    parts = []
    for kept in values.values():
        ratios = [kept[key] for key in kept if key[2] == RATIO]
        table = np.full((len(ratios), max(map(len, ratios))), np.nan)
        for at, row in enumerate(ratios):
            table[at, : len(row)] = np.log(row)
        effects = engine.compare_pairs(table)
        enough = np.array([len(row) for row in ratios]) >= policy.minimum_repeats
        parts.append(
            (
                effects.effect,
                np.where(enough, effects.error, np.nan),
                np.where(enough, effects.df, np.nan),
            )
        )
    effect, error, df = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    bound = math.log1p(policy.guidelines_margin_percent / 100)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = scipy.stats.t.sf((effect - bound) / error, df)
    known = np.isfinite(p)
    called = np.zeros(len(p), dtype=bool)
    called[known] = engine.discoveries(p[known], policy.false_discovery_rate)
    # One-sided errors of the ends of an interval: of the selected rows, and of all others.
    tails = np.where(
        called,
        policy.false_discovery_rate * called.sum() / max(known.sum(), 1),
        (1 - policy.confidence) / 2,
    )
    reach = scipy.stats.t.isf(tails, df) * error
    for at, (condition, name, size) in enumerate(keys):
        kept = values[condition]
        low = effect[at] - reach[at]
        high = effect[at] + reach[at]
        yield Ratio(
            *condition,
            guideline=name,
            message_bytes=size,
            ratio=math.exp(effect[at]),
            low=math.exp(low),
            high=math.exp(high),
            call_us=float(np.median(kept[name, size, CALL])),
            mockup_us=float(np.median(kept[name, size, MOCKUP])),
            repeats=len(kept[name, size, RATIO]),
            outcome=VIOLATED if called[at] else HELD if high <= bound else INCONCLUSIVE,
            call=f"MPI_{name.partition('-vs-')[0]}",
            mockup=mockup_of(name, size),
        )


#: How many times more data, or how many parts, the rows of a call
#: against itself have (``instrument.FACTOR``).
FACTOR = 4


def headline(judgement: Findings, policy: Policy) -> str:
    number = judgement.counts
    rows = len(judgement.rows)
    conditions = len({row.condition for row in judgement.rows})
    return (
        f"{number[VIOLATED]} of {rows} guidelines violated, {number[HELD]} held, "
        f"{number[INCONCLUSIVE]} inconclusive ({plural(conditions, 'condition')}, margin "
        f"{policy.guidelines_margin_percent:g} %, false discovery rate "
        f"{100 * policy.false_discovery_rate:g} %)"
    )


def violations(judgement: Findings) -> list[str]:
    """One sentence per violated guideline and condition: its worst
    size, and at which others it is violated.
    """
    return [f"{rows[0].condition}: {sentence(rows)}" for rows in by_guideline(judgement.violations)]


def by_guideline(rows: Iterable[Ratio]) -> list[list[Ratio]]:
    """Rows of each condition and guideline together, by condition,
    and of one condition the worst first.
    """
    groups: dict[tuple[str, str], list[Ratio]] = {}
    for row in rows:
        groups.setdefault((row.condition, row.guideline), []).append(row)
    return [
        groups[key]
        for key in sorted(groups, key=lambda key: (key[0], -max(row.ratio for row in groups[key])))
    ]


def sentence(rows: Sequence[Ratio]) -> str:
    """What is said of a violated guideline under one condition.

    :param rows: the sizes at which it is violated.
    """
    worst = max(rows, key=lambda row: row.ratio)
    others = [size_text(row.message_bytes) for row in rows if row is not worst]
    also = f"; also at {', '.join(others)}" if others else ""
    return (
        f"{worst.call} at {size_text(worst.message_bytes)} takes {worst.times} times "
        f"{worst.mockup}{also}: tune it"
    )


def mockup_of(guideline: str, message_bytes: int) -> str:
    """What a call is compared with, as text."""
    call, _, mockup = guideline.partition("-vs-")
    if mockup == "larger":
        return f"what it takes with {size_text(FACTOR * message_bytes)}"
    if mockup == "parts":
        return f"{FACTOR} times MPI_{call} with {size_text(message_bytes // FACTOR)}"
    return " + ".join(f"MPI_{name}" for name in mockup.split("-"))


def as_data(session: str, system: str, judgement: Findings, policy: Policy) -> dict[str, Any]:
    """All rows, for programs; a number that is unknown is ``None``."""
    data: dict[str, Any] = {
        "session": session,
        "system": system,
        "margin_percent": policy.guidelines_margin_percent,
        "false_discovery_rate": policy.false_discovery_rate,
        "confidence": policy.confidence,
        **judgement.counts,
        "notes": list(judgement.notes),
        "guidelines": [asdict(row) for row in judgement.rows],
    }
    return plain_data(data)
