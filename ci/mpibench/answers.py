"""The records behind ``gate --json``, ``drift --json`` and ``accept.json``; the JSON Schemas are
made from them.

An answer contains only the fields listed here (:func:`schema`). A field without a value that means
"not asked" is left out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Count = Annotated[int, Meta(ge=0)]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Day = Annotated[str, Meta(extra_json_schema={"format": "date"})]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Line = Annotated[str, Meta(description="One sentence, as the command prints it.")]
Finding = Annotated[str, Meta(description="A short form of it.")]
Loss = Annotated[str, Meta(description="How large the loss is, without its place.")]
Slower = Annotated[
    float | None,
    Meta(
        description="Change for the worse as a fraction of the earlier value; negative: better; "
        "null: no ratio exists. Of a time it is new / old - 1, of a bandwidth or rate "
        "1 - new / old; of several metrics that of the middle one, and of times and "
        "bandwidths together that of the kind that changed most."
    ),
]
Ratio = Annotated[float | None, Meta(description="Candidate divided by baseline.")]
End = Annotated[float | None, Meta(description="End of the interval of the ratio.")]
Sessions = Annotated[
    tuple[Count, Count],
    Meta(description="For the metrics with the fewest and with the most sessions."),
]
Seen = Annotated[
    Literal["", "seen twice", "not measured again"],
    Meta(description="Result of the confirmation run; empty if there was none."),
]
Verdict = Literal["regressed", "missing", "inconclusive", "improved", "pass"]
Units = Annotated[
    Literal["sessions", "jobs", "repeats", "pairs"] | None,
    Meta(description="What the interval covers; null if nothing was compared."),
]


class Answer(Struct, kw_only=True, forbid_unknown_fields=True):
    """Plain data, with no key that is not listed."""


class Place(Answer, kw_only=True):
    """Where something was measured; null where it is unknown."""

    partition: str | None
    stack: str | None
    fabric: str | None
    nodes: Count | None
    ppn: Count | None
    pinning: str | None


class CurveName(Place, kw_only=True):
    """What was measured, but for the size."""

    suite: str
    benchmark: str
    variant: str
    ranks: Count
    groups: Count
    quantity: str


class MetricName(CurveName, kw_only=True):
    """What was measured; null bytes: a figure without a size."""

    message_bytes: Count | None


class Fact(Answer, kw_only=True):
    what: str
    before: str
    after: str


class Unreadable(Answer, kw_only=True):
    session: str
    why: str


# ---- gate --json
# --------------------------------------------------------------------------------------------------


class AgeCounts(Answer, kw_only=True):
    """How old the session is, in hours."""

    text: str
    hours: float
    most_hours: float


class EvidenceCounts(Answer, kw_only=True):
    """Cases by what they prove."""

    text: str
    cases: Count
    proven: Count
    measured: Count
    run_again: Count


class MissingCounts(Answer, kw_only=True):
    """Cases by whether they were expected."""

    text: str
    expected: Count
    there: Count
    not_asked: Count


class ReferenceCounts(Answer, kw_only=True):
    """Values by their references."""

    text: str
    held: Count
    missed: Count
    not_seen_again: Count
    without: Count


class HistoryCounts(Answer, kw_only=True):
    """Metrics by what the sessions before say; no numbers where they could not be asked."""

    text: str
    judged: Count | UnsetType = UNSET
    metrics: Count | UnsetType = UNSET
    sessions: Sessions | UnsetType = UNSET
    slower: Count | UnsetType = UNSET
    faster: Count | UnsetType = UNSET
    seen: Annotated[
        str | UnsetType,
        Meta(description="The smallest loss that would have been reported, by fabric, in words."),
    ] = UNSET
    blind: Annotated[
        bool | UnsetType,
        Meta(
            description="There are earlier nights, but not even a doubled time would have been "
            "reported."
        ),
    ] = UNSET
    again: Annotated[
        dict[str, Count] | UnsetType,
        Meta(description="Metrics called slower, by the result of their confirmation run."),
    ] = UNSET


class DriftCounts(Answer, kw_only=True):
    """Changes of the last nights; no numbers where nothing could be asked."""

    text: str
    worse: Count | UnsetType = UNSET
    lasting: Count | UnsetType = UNSET
    absent: Count | UnsetType = UNSET
    nights: Count | UnsetType = UNSET
    recent: Count | UnsetType = UNSET


class GateCounts(Answer, kw_only=True):
    age: AgeCounts
    evidence: EvidenceCounts
    missing: MissingCounts
    reference: ReferenceCounts
    history: HistoryCounts
    drift: DriftCounts


class Problem(Answer, kw_only=True):
    text: Line
    finding: Finding


class AgeProblem(Answer, kw_only=True):
    hours: float
    most_hours: float
    text: Line
    finding: Finding


class EvidenceProblem(Answer, kw_only=True):
    """A case that ran and is not proven; or how many an interruption kept from running."""

    name: str | UnsetType = UNSET
    partition: str | UnsetType | None = UNSET
    stack: str | UnsetType | None = UNSET
    fabric: str | UnsetType | None = UNSET
    nodes: Count | UnsetType | None = UNSET
    ppn: Count | UnsetType | None = UNSET
    pinning: str | UnsetType | None = UNSET
    evidence: str | UnsetType | None = UNSET
    reason: str | UnsetType = UNSET
    interrupted: Annotated[
        Count | UnsetType,
        Meta(description="One problem for all cases that an interruption kept from running."),
    ] = UNSET
    text: Line
    finding: Finding


class ReferenceProblem(Answer, kw_only=True):
    """A missed reference of a case; values in ``unit``."""

    name: str
    partition: str | None
    stack: str | None
    fabric: str | None
    nodes: Count | None
    ppn: Count | None
    pinning: str | None
    metric: str
    layer: str
    value: float | None
    lower: float | None
    upper: float | None
    unit: str
    outcome: Seen
    value_again: float | None
    text: Line
    loss: Loss
    finding: Finding


class SlowerPart(Answer, kw_only=True):
    """A metric (``message_bytes``; null: a figure without a size) or a
    band of sizes (``band``) of a slower curve.
    """

    suite: str
    variant: str | None
    ranks: Count | None
    groups: Count | None
    message_bytes: Count | UnsetType | None = UNSET
    band: str | UnsetType = UNSET
    slower: Slower
    ratio: Ratio
    seen_percent: Annotated[
        float | None, Meta(description="The smallest loss that would have been reported.")
    ]


class HistoryProblem(Place, kw_only=True):
    """A curve that is slower than in the sessions before."""

    benchmark: str
    quantity: str
    outcome: Seen
    slower: Slower
    slower_again: Slower
    sessions: Sessions
    metrics: list[SlowerPart]
    bands: list[SlowerPart]
    text: Line
    loss: Loss
    finding: Finding


class DriftedMetric(MetricName, kw_only=True):
    slower: Slower


class Change(Answer, kw_only=True):
    """A change of the last nights: since which day, of which stack and fabric."""

    text: Line
    since: Day
    session: str
    stack: str
    fabric: str | None
    slower: Slower
    worse: Annotated[bool, Meta(description="For the worse, and not accepted.")]
    accepted: Annotated[str | None, Meta(description="The accepted level that covers it.")]
    changed: Annotated[list[Fact], Meta(description="Facts that differ from the previous night.")]
    metrics: list[DriftedMetric]


class DriftProblem(Answer, kw_only=True):
    """A change of the last nights, or (text and finding alone)
    metrics that the last night lacks.
    """

    text: Line
    since: Day | UnsetType = UNSET
    session: str | UnsetType = UNSET
    stack: str | UnsetType = UNSET
    fabric: str | UnsetType | None = UNSET
    slower: Slower | UnsetType = UNSET
    worse: bool | UnsetType = UNSET
    accepted: str | UnsetType | None = UNSET
    changed: list[Fact] | UnsetType = UNSET
    metrics: list[DriftedMetric] | UnsetType = UNSET
    loss: Loss | UnsetType = UNSET
    finding: Finding


class GateProblems(Answer, kw_only=True):
    """By kind of question; an empty list where nothing is wrong."""

    age: list[AgeProblem]
    evidence: Annotated[
        list[EvidenceProblem],
        Meta(description="The first evidence that contradicts the condition."),
    ]
    missing: Annotated[
        list[Problem],
        Meta(
            description="Expected but missing; mpibench gate --only completeness says why it was "
            "expected."
        ),
    ]
    reference: Annotated[list[ReferenceProblem], Meta(description="The worst first.")]
    history: Annotated[list[HistoryProblem], Meta(description="The worst first.")]
    drift: list[DriftProblem]


class Ticket(Answer, kw_only=True):
    """What is slow on one fabric of a partition: the sentence for
    whoever is on duty, and its facts.
    """

    partition: str | None
    fabric: str | None
    suspect: Annotated[
        Literal["the link or the nodes", "the stack", "the fabric or the stack"],
        Meta(
            description="Whether all stacks measured there are slow, only one is, or it cannot be "
            "decided."
        ),
    ]
    stacks: Annotated[list[str], Meta(description="That are slow.")]
    others: Annotated[
        list[str],
        Meta(description="Stacks that measured the same there, were judged, and are not slower."),
    ]
    nodes: Annotated[
        list[str],
        Meta(
            description="Nodes that all slow cases ran on; those of unaffected cases are left out "
            "where possible."
        ),
    ]
    since: Annotated[Day | None, Meta(description="The night in which it began; null if unknown.")]
    cases: Annotated[Count, Meta(description="That are slow.")]
    busy: Annotated[
        Count,
        Meta(description="Those of them whose ranks often lost their core to other programs."),
    ]
    next: Annotated[str, Meta(description="The command to run next.")]
    text: Line


class Gate(Answer, kw_only=True):
    """Exit status 0: PASS; 1: FAIL; 3: NOT JUDGED. With status 2 (bad input) nothing is written."""

    decision: Literal["PASS", "FAIL", "NOT JUDGED"]
    finding: Annotated[
        str,
        Meta(description="The worst problem, and the number of others by kind; empty if passed."),
    ]
    system: str
    session: str
    label: Annotated[str | None, Meta(description="Its label run.")]
    started: Moment
    options: Annotated[
        list[str],
        Meta(description="Selection options of a partial session; empty for a whole one."),
    ]
    counts: GateCounts
    problems: GateProblems
    tickets: Annotated[
        list[Ticket],
        Meta(description="By fabric and partition; the one with the worst problem comes first."),
    ]
    unjudged: Annotated[
        list[str],
        Meta(description="Slow on a busy machine, and not yet measured again on a quiet one."),
    ]
    began: Annotated[
        list[str], Meta(description="What this session no longer compares with earlier ones.")
    ]
    notes: Annotated[list[str], Meta(description="Information, not problems.")]
    better: Annotated[list[str], Meta(description="Improvements, and changes that were accepted.")]
    unreadable: Annotated[
        list[Unreadable], Meta(description="Sessions of the system that could not be read.")
    ]


# ---- drift --json
# --------------------------------------------------------------------------------------------------


class Drift(Answer, kw_only=True):
    """Exit status 0: unchanged; 1: worse; 3: too few nights, or too noisy.
    With status 2 (bad input) nothing is written.
    """

    decision: Literal["unchanged", "worse", "too few nights", "too noisy"]
    system: str
    session: Annotated[str, Meta(description="The last night's.")]
    started: Moment
    first_night: Day
    nights: Count
    metrics: Annotated[Count, Meta(description="Metrics of all nights.")]
    options: Annotated[
        list[str], Meta(description="Selection options of the last session; empty for a whole one.")
    ]
    events: Annotated[list[Change], Meta(description="Changes of the last nights, losses first.")]
    absent: Annotated[
        list[str],
        Meta(description="What earlier nights had and the last one lacks, a sentence each."),
    ]
    notes: list[str]


# ---- accept.json
# --------------------------------------------------------------------------------------------------


class Options(Answer, kw_only=True):
    system: str | None
    where: str | None
    rename: dict[str, str] | None
    allow_unproven: bool
    history: str | None


class StackIdentity(Answer, kw_only=True):
    session: str
    started: Moment
    age_days: float
    labels: dict[str, str]
    cases: Count
    options: list[str]


class Unproven(Place, kw_only=True):
    session: str
    case: str
    name: str
    group: str
    outputdir: str | None
    why: str


class Job(Place, kw_only=True):
    session: str
    started: str
    job_id: str | None
    nodelist: str | None
    outputdir: str | None


class Side(Answer, kw_only=True):
    """Baseline or candidate: its sessions, its cases without
    proof, its values, its facts and jobs.
    """

    selector: str
    sessions: list[str]
    identities: list[StackIdentity]
    first: Moment
    last: Moment
    cases: Count
    cases_left_out: Annotated[
        Count,
        Meta(
            description="Cases of these sessions that --where excluded and that were "
            "therefore not judged."
        ),
    ]
    unproven: list[Unproven]
    values: Count
    values_sha256: Digest
    facts: Annotated[
        dict[str, list[str]],
        Meta(
            description="What the sessions recorded about machine and software: each fact with all "
            "its values."
        ),
    ]
    jobs: list[Job]
    remarks: list[str]


class LeftOut(Answer, kw_only=True):
    why: str
    sessions: Count


class StackHistory(Answer, kw_only=True):
    """The history of one partition, stack and fabric."""

    partition: str
    stack: str
    fabric: str
    named: Annotated[Count, Meta(description="Sessions of the baseline itself.")]
    enough: bool
    sessions: list[str]
    days: list[Day]
    facts: dict[str, list[str]]
    left_out: list[LeftOut]


class MarginHistory(Answer, kw_only=True):
    """The history that the margins rest on."""

    strata: list[StackHistory]
    unlike_baseline: list[str]
    values: Count
    values_sha256: Digest


class Judged(CurveName, kw_only=True):
    """A verdict on a band of sizes with what it rests on."""

    band: str
    ratio: Ratio
    low: End
    high: End
    slower: Slower
    p: float | None
    spread_percent: float | None
    margin_percent: float | None
    verdict: Verdict
    units: Units
    seen_percent: Annotated[
        float | None, Meta(description="The smallest loss that would have been reported.")
    ]
    sessions: Annotated[Count | None, Meta(description="Sessions that it is compared with.")]
    needed: Annotated[
        Count | None,
        Meta(description="If inconclusive: how many candidate sessions would decide."),
    ]
    why: str | None
    sizes: Count | UnsetType | None = UNSET


class JudgedMetric(Judged, kw_only=True):
    """A verdict on a metric; baseline and candidate are medians of the values, in ``unit``."""

    message_bytes: Count | None
    unit: str | None
    baseline: float | None
    baseline_repeats: Count | None
    baseline_jobs: Count | None
    candidate: float | None
    candidate_repeats: Count | None
    candidate_jobs: Count | None


class Before(Answer, kw_only=True):
    """A session of the candidate that was measured again when it was a night, and by which."""

    session: str
    by: str


class Accept(Answer, kw_only=True):
    """``accept.json``. Exit status 0: accepted; 1: refused; 3: inconclusive.
    With status 2 (bad input) nothing is written.
    """

    decision: Literal["accepted", "refused", "inconclusive"]
    headline: str
    finding: Annotated[
        str, Meta(description="The worst problem, and the number of others; empty if accepted.")
    ]
    sentences: list[str]
    decided: Moment
    decided_on: Annotated[str, Meta(description="Name of the machine.")]
    mpibench: Annotated[str, Meta(description="Version.")]
    system: str
    options: Options
    policy: Annotated[
        dict[str, Any],
        Meta(
            description="The settings it was judged by, named as in policy.yaml; source: the file."
        ),
    ]
    changed: Annotated[list[Fact], Meta(description="Facts in which the sides differ.")]
    baseline: Side
    candidate: Side
    history: MarginHistory
    remarks: list[str]
    counts: Annotated[dict[Verdict, Count], Meta(description="Metrics per verdict.")]
    bands: list[Judged]
    metrics: list[JudgedMetric]
    new: Annotated[list[MetricName], Meta(description="Metrics that only the candidate has.")]
    measured_again_before: list[Before]


#: By command.
ANSWERS: dict[str, type[Answer]] = {"gate --json": Gate, "drift --json": Drift, "accept": Accept}


def schema(command: str) -> dict[str, Any]:
    """JSON Schema (2020-12) of a command's answer, a key of :data:`ANSWERS`."""
    made = msgspec.json.schema(ANSWERS[command])
    for one in made["$defs"].values():
        if "description" in one:
            one["description"] = " ".join(one["description"].split())
    return {"title": f"Answer of mpibench {command}", **made}
