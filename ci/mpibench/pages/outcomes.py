"""The outcome of each case of a session, in words and counts: the part of its page that fits on a
terminal.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reframe_tests.harness.printable import one_line, plural
from reframe_tests.harness.samples import (
    DRY_RUN,
    FAIL,
    NO_REFERENCE,
    PASS,
    PROVEN,
    ReferenceCheck,
    Sample,
)
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.model import KeyFigure
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES

from ..store import confirmations, eligibility
from ..store.dataset import lost_cores
from ..store.quantity_text import metric_text, nodes_text, source_text
from ..store.session_values import busy_sentence
from ..store.sessions import UNJUDGED, Case, Session, label_of


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case or a night, for a reader.

    :param mark: a sign that needs no colour.
    :param word: short form for tables.
    :param meaning: what it claims, and no more.
    """

    name: str
    mark: str
    word: str
    meaning: str


#: In the order a reader needs them. "recorded" is on purpose no kind of pass: nothing was judged.
OUTCOMES = {
    outcome.name: outcome
    for outcome in (
        Outcome(
            "failed", "✕", "failed", "condition not proven, reference missed, or no usable output"
        ),
        Outcome(
            "interrupted",
            "■",
            "interrupted",
            "did not run or finish: the session was interrupted",
        ),
        Outcome("passed", "✓", "passed", "condition proven, and every reference met"),
        Outcome(
            "recorded",
            "○",
            "recorded",
            "condition proven and numbers recorded, but there is no reference to judge them",
        ),
        Outcome("proven", "✓", "proven (untimed)", "condition proven; this test times nothing"),
        Outcome(
            UNJUDGED,
            "○",
            "not judged",
            "missed a reference on a busy machine, or did not miss it when measured again",
        ),
        Outcome("known", "△", "known", "missed a reference that is declared as a known deviation"),
        Outcome("skipped", "\N{EN DASH}", "skipped", "not measured here, for the reason given"),
        Outcome(
            "retried",
            "↻",
            "retried",
            "failed and ran again in the same session; the last run counts",
        ),
        Outcome("dry", "·", "dry run", "prepared only; nothing was measured"),
    )
}


def counted(session: Session) -> list[Case]:
    """Cases a summary counts: measurements, and anything else only if it did not pass."""
    return [case for case in session.cases if case.is_measurement or case.result != "pass"]


def counts(session: Session) -> Counter[str]:
    return Counter(session.outcome(case) for case in counted(session))


def gate_counts(session: Session) -> Counter[str]:
    return Counter(gate.outcome for _, gate in reference_checks(session))


def reference_checks(session: Session) -> Iterator[tuple[Case, ReferenceCheck]]:
    """Comparisons with references, of cases that proved their condition:
    what others measured is compared with nothing.
    """
    for case in session.cases:
        if session.is_proven(case):
            yield from ((case, gate) for gate in case.gates)


def title_of(case: Case) -> str:
    """Short name of a case: group and condition, with options of the suite
    where some were requested, and shared cores.
    """
    if not case.is_measurement:
        return case.name
    ppn = (
        case.ppn_symbol
        if case.ppn is None or case.ppn_symbol == str(case.ppn)
        else f"{case.ppn_symbol} ({case.ppn})"
    )
    nodes = nodes_text(case.nodes)
    options = one_line(str(case.condition.get("suite_options") or ""))
    shared = (
        f"oversubscribed: {text}"
        if (text := one_line(str(case.condition.get("oversubscribed") or "")))
        else ""
    )
    return " · ".join(
        [
            case.group,
            case.fabric,
            nodes,
            f"ppn {ppn}",
            case.pinning,
            *filter(None, (options, shared)),
        ]
    )


def format_number(value: float | None) -> str:
    """A value to four significant digits, without exponent where it can be read without."""
    if value is None:
        return ""
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3e}"
    text = f"{value:.4g}"
    return f"{value:.0f}" if "e" in text or abs(value) >= 1000 else text


def gate_sentence(gate: ReferenceCheck) -> str:
    """A missed reference as a sentence; fractions of the line rate in
    percent, other numbers without unit as they are.
    """
    value = _quantity(gate, gate.value)
    if gate.value is not None and gate.lower is not None and gate.value < gate.lower:
        bound = f"below the {_quantity(gate, gate.lower)} it must reach"
    elif gate.value is not None and gate.upper is not None and gate.value > gate.upper:
        bound = f"above the {_quantity(gate, gate.upper)} it may reach"
    else:
        bound = "out of bounds"
    # what is a fraction has all of it for a reference
    bare = gate.reference if gate.unit != "1" else None
    source = f"reference of {source_text(gate.layer)}"
    source += "" if bare is None else f": {format_number(bare)}"
    return f"{metric_text(gate.metric)} is {value}, {bound} ({source})."


def tightest(session: Session, most: int) -> list[str]:
    """The references that were met most narrowly, as sentences."""
    held = [
        (confirmations.distance(gate.value, gate.lower, gate.upper), case, gate)
        for case, gate in reference_checks(session)
        if gate.outcome == PASS
    ]
    return [
        f"{case.stack} on {case.fabric}: {metric_text(gate.metric)} is "
        f"{_quantity(gate, gate.value)}, must be at "
        + (
            f"least {_quantity(gate, gate.lower)}"
            if gate.lower is not None
            else f"most {_quantity(gate, gate.upper)}"
        )
        for _, case, gate in sorted(held, key=lambda row: -row[0])[:most]
    ]


def _quantity(gate: ReferenceCheck, value: float | None) -> str:
    if value is not None and f".{QUANTITIES['line_rate_fraction'].short}." in gate.metric:
        return f"{100 * value:.3g} % of the line rate"
    return f"{format_number(value)} {gate.unit if gate.unit != '1' else ''}".strip()


def plain_reason(text: str | None) -> str:
    """ReFrame's reason without the name of the exception and the excerpt of the source below it."""
    lines = itertools.takewhile(lambda line: not line.startswith("|"), (text or "").splitlines())
    kept = " ".join(filter(None, map(str.strip, lines)))
    return re.sub(r"^(sanity|performance|reframe) error: ", "", kept).strip().rstrip(":")


def why(
    result: str,
    fail_phase: str,
    evidence: str,
    owes: bool,
    proof: Sequence[str],
    missed: Sequence[ReferenceCheck],
    reason: str | None,
) -> list[str]:
    """Why a case did not pass, most important first, each sentence once; empty for one that did.

    :param owes: it is a measurement.
    :param proof: what its evidence says.
    :param reason: ReFrame's.
    """
    if result == eligibility.INTERRUPTED:
        return [f"did not finish: the session was interrupted ({eligibility.cause_of(reason)})."]
    said = list(proof) if evidence != PROVEN else []
    said += [gate_sentence(check) for check in missed]
    if said or (plain := plain_reason(reason)):
        return list(dict.fromkeys(said or [plain]))
    if result == "pass":
        unproven = owes and evidence not in (PROVEN, DRY_RUN)
        return (
            [
                "passed in ReFrame, but without stored proof of its condition: its numbers are not "
                "used."
            ]
            if unproven
            else []
        )
    if result == "fail_deps":
        return ["a test it depends on failed."]
    return (
        [f"ended with '{result}' in phase '{fail_phase or 'unknown'}' and no reason."]
        if result != "skip"
        else []
    )


def sentences(case: Case) -> list[str]:
    """Why a case of a session did not pass."""
    missed = [gate for gate in case.gates if gate.outcome == FAIL]
    proof = case.proof.sentences if case.proof else ()
    return why(
        case.result, case.fail_phase, case.evidence, case.is_measurement, proof, missed, case.reason
    )


def interrupted(session: Session) -> str:
    """How many cases an interruption kept from running, and what it was; empty without any."""
    cases = [case for case in counted(session) if case.uuid not in session.superseded]
    lost = [case.reason for case in cases if session.outcome(case) == "interrupted"]
    return eligibility.interruption(lost, sum(session.outcome(case) != "skipped" for case in cases))


def skip_reasons(session: Session) -> list[tuple[str, list[Case]]]:
    reasons: dict[str, list[Case]] = {}
    for case in session.cases:
        if session.outcome(case) == "skipped":
            reasons.setdefault(plain_reason(case.reason) or "no reason stored", []).append(case)
    return sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))


def failures(session: Session) -> list[Case]:
    """Failed cases: contradicted conditions first, then missed
    references, then the rest, in session order.
    """
    ranks = {"contradicted": 0, PROVEN: 1}
    failed = [case for case in session.cases if session.outcome(case) == "failed"]
    return sorted(failed, key=lambda case: ranks.get(case.evidence, 2))


#: Latency and bandwidth as the field quotes them; each of one suite,
#: because instruments differ in what they add.
KEY_FIGURES = tuple(figure for suite in catalogue.SUITES.values() for figure in suite.key_figures)


class Best(NamedTuple):
    """The best median over the conditions measured, and where it comes from."""

    value: float
    sample: Sample
    case: Case


def key_figures(session: Session) -> dict[tuple[str, str, int], dict[KeyFigure, Best]]:
    """Key figures per (stack, fabric, nodes): the best of the proven
    conditions, each at one message size.

    The size is the smallest (largest) that any case of the session
    measured for that figure, so that rows compare.
    """
    eligible_cases = [case for case in session.cases if session.why_not(case) is None]
    table: dict[tuple[str, str, int], dict[KeyFigure, Best]] = {}
    for suite, figure in (
        (suite_record.name, figure)
        for suite_record in catalogue.SUITES.values()
        for figure in suite_record.key_figures
    ):
        found = [
            (case, sample)
            for case in eligible_cases
            for sample in case.samples
            if (sample.suite, sample.benchmark, sample.quantity)
            == (suite, figure.benchmark, figure.quantity)
            and sample.measured
            and (figure.empty or sample.message_bytes != 0)
        ]
        sizes = [sample.message_bytes for _, sample in found]
        wanted = (max if figure.largest else min)(sizes, key=lambda size: size or 0, default=None)
        for case, sample in found:
            if sample.message_bytes != wanted:
                continue
            best = Best(statistics.median(sample.measured), sample, case)
            row = table.setdefault((case.stack, case.fabric, case.nodes or 0), {})
            other = row.get(figure)
            if other is None or (best.value < other.value) == (sample.direction == LOWER):
                row[figure] = best
    return dict(sorted(table.items(), key=lambda item: (item[0][1], item[0][2], item[0][0])))


def verdict_line(session: Session) -> str:
    return " ".join(filter(None, (verdict(session), load(session))))


def next_step(session: Session) -> str:
    """What to do about the session, with a command to paste; empty if nothing is to be done."""
    failed = failures(session)
    maps = any(case.pair_map is not None for case in session.cases)
    find = f"mpibench locate --session {session.uuid[:8]}" if maps else "mpibench drift"
    if any(case.evidence not in (PROVEN, DRY_RUN) for case in failed):
        slow = f" Which node is slow: {find}" if maps else ""
        return (
            "Correct the cause of the first failure and measure again: unproven values are not "
            f"used.{slow}"
        )
    if failed:
        return f"To see which part is slow, and since when: {find}"
    number = counts(session)
    if number["recorded"] and not number["passed"]:
        return "To have later nights judged: mpibench rebaseline --sessions now-30d:now"
    return ""


def load(session: Session) -> str:
    """That the machine was busy, as a sentence; empty where it was not."""
    timed = [case for case in session.cases if case.samples and case.proof]
    sentence = busy_sentence(sum(lost_cores(case) for case in timed), len(timed))
    return f"{sentence}." if sentence else ""


def verdict(session: Session) -> str:
    """The session in one sentence; the word 'passed' only for
    cases whose references were reached.
    """
    number = counts(session)
    failed = (
        f"{number['failed']} of {_cases(sum(number.values()) - number['retried'])} failed."
        if number["failed"]
        else ""
    )
    if number[UNJUDGED]:
        failed += (
            f"{' ' if failed else ''}{number[UNJUDGED]} of {_cases(sum(number.values()))} missed a "
            "reference, not judged: measure again when the machine is quiet."
        )
    if number["interrupted"]:
        stopped = interrupted(session)
        return " ".join(filter(None, [f"{stopped[0].upper()}{stopped[1:]}.", failed]))
    if failed:
        return failed
    if number["passed"]:
        rest = (
            f"; {number['recorded']} more without reference were only recorded"
            if number["recorded"]
            else ""
        )
        return f"No case failed: {_cases(number['passed'])} met every reference{rest}."
    if not number["recorded"] and number["proven"]:
        return (
            f"No case failed: the condition of {_cases(number['proven'])} is proven; nothing was "
            "timed."
        )
    if cases := number["recorded"]:
        return (
            "No case failed, but nothing was judged: "
            f"{f'all {cases} cases are' if cases > 1 else 'the only case is'} without reference."
        )
    return "Nothing was measured."


def _cases(number: int) -> str:
    return plural(number, "case")


def _first(texts: Sequence[str], limit: int) -> list[str]:
    rest = len(texts) - limit
    return (
        list(texts)
        if rest <= 0
        else [*texts[: limit - 1], f"  ... and {rest + 1} more, see the report"]
    )


def summary_lines(session: Session) -> list[str]:
    number = counts(session)
    gates = gate_counts(session)
    values = sum(len(sample.measured) for case in session.cases for sample in case.samples)
    curves = sum(len(_curves(case)) for case in session.cases)
    jobs = sum(1 for case in session.cases if case.samples)
    lines = [
        f"session {session.uuid} ({label_of(session)}) on "
        f"{', '.join(session.systems) or 'no system'}, {session.started:%Y-%m-%d %H:%M} UTC, "
        f"{session.seconds:.0f} s",
        verdict_line(session),
        ", ".join(
            f"{number[name]} {outcome.word}" for name, outcome in OUTCOMES.items() if number[name]
        )
        or "no cases",
        f"references: {gates[PASS]} reached, {gates[FAIL]} missed, {gates[NO_REFERENCE]} without "
        "reference",
        f"{plural(values, 'value')}, {plural(curves, 'size curve')} from {plural(jobs, 'job')}",
    ]
    lines += _first(
        [
            f"  {case.stack}: {title_of(case)}: {' '.join(sentences(case)[:1])}"
            for case in failures(session)
        ],
        4,
    )
    skipped = skip_reasons(session)
    rest = f" ({len(skipped) - 1} more reasons in the report)" if len(skipped) > 1 else ""
    lines += [f"  skipped {len(cases)}: {reason}{rest}" for reason, cases in skipped[:1]]
    return lines


def _curves(case: Case) -> set[tuple[str, str, str, int, int, str]]:
    """Complete curves of a case: one per benchmark, quantity
    and rank count, with a message size.
    """
    return {
        (
            sample.suite,
            sample.benchmark,
            sample.variant,
            sample.ranks,
            sample.groups,
            sample.quantity,
        )
        for sample in case.samples
        if sample.message_bytes is not None
    }
