"""What a test stores with its case (samples, evidence, gates): one record each, which writes and
reads itself.

Tests write them into the session's database (``as_dict``); whoever judges a session reads them
(``read_samples``, ``read_evidence``, ``read_gates``). A fault in a stored record is one sentence.
The keys are those of all stored sessions; older records may lack some.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import msgspec

from .vocabulary import QUANTITIES, BadInput

#: Evidence status of a case; only numbers of the first are eligible for verdicts.
PROVEN = "proven"
CONTRADICTED = "contradicted"
MISSING = "missing"
DRY_RUN = "dry-run"
STATUSES = (PROVEN, CONTRADICTED, MISSING, DRY_RUN)
#: A count that fits into the dataset's columns.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
SmallCount = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
#: What may come of a comparison with a reference.
PASS = "pass"
FAIL = "fail"
NO_REFERENCE = "no reference"
OUTCOMES = (PASS, FAIL, NO_REFERENCE)
#: Fact of a session: number of cases that were selected, whether they ran or not.
NUM_SELECTED = "num_selected"


@dataclass(frozen=True)
class Sample:
    """All repeats of one metric of one case.

    :param ranks: processes active in the benchmark, per group where there are several.
    :param message_bytes: message size in bytes, ``None`` if the benchmark has none.
    :param repetitions: repetitions one value averages over, ``None`` if the suite prints none.
    :param quantity: key of :data:`vocabulary.QUANTITIES`, which gives unit and direction.
    :param values: one value per repeat, in the order they ran, in
        ``unit``; ``None`` if a repeat gave none.
    """

    suite: str
    benchmark: str
    group: str
    ranks: SmallCount
    groups: SmallCount
    variant: str
    message_bytes: Count | None
    repetitions: Count | None
    quantity: str
    values: tuple[float | None, ...]

    @property
    def unit(self) -> str:
        return QUANTITIES[self.quantity].unit

    @property
    def direction(self) -> str:
        """Which way is better: ``lower``, ``higher`` or ``none``."""
        return QUANTITIES[self.quantity].direction

    @property
    def measured(self) -> list[float]:
        return [value for value in self.values if value is not None]

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "unit": self.unit,
            "direction": self.direction,
            "values": list(self.values),
        }


@dataclass(frozen=True)
class ReferenceCheck:
    """One comparison of a metric with its reference; values and bounds
    in ``unit``, ``None`` if there is none.

    :param metric: performance variable.
    :param layer: ``physics`` or ``learned``.
    :param lower: smallest acceptable value; ``upper``: the largest.
    :param outcome: one of :data:`OUTCOMES`.
    """

    metric: str
    layer: str
    value: float | None
    reference: float | None
    lower: float | None
    upper: float | None
    unit: str
    outcome: Annotated[str, msgspec.Meta(pattern="^(pass|fail|no reference)$")]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def outcome_of(value: float | None, lower: float | None, upper: float | None) -> str:
    """What comes of a comparison of a value with bounds in its unit: one of :data:`OUTCOMES`."""
    if lower is None and upper is None:
        return NO_REFERENCE
    reached = (
        value is not None
        and (lower is None or value >= lower)
        and (upper is None or value <= upper)
    )
    return PASS if reached else FAIL


@dataclass(frozen=True)
class DeviceTraffic:
    """Bytes one network device of one node moved during one repeat of
    one launch (``None`` and empty: of the job).
    """

    launch: str
    repeat: Count | None
    node: str
    device: str
    tx_bytes: Count
    rx_bytes: Count


@dataclass(frozen=True)
class Evidence:
    """What the ranks of a case recorded of the condition it ran under, and what follows from it.

    :param status: one of :data:`STATUSES`; stored as ``verdict``.
    :param sentences: what is missing or contradicts the condition.
    :param ranks: rank, host, cpus_allowed (kernel's list format), cpu, numa_node of every rank, and
        where it is known boot_id: nodes with the same are on one machine; where it used a GPU what
        ``gpu_use.rows_of`` has of it.
    :param seconds: the benchmarks' own time per launch, in seconds.
    :param notes: what a reader should know and what is not a contradiction.
    :param kernel: operating system of each node: its facts by name,
        in older records its release as text.
    :param links: node, link and settings (MTU, speed, state, ...) of each of
        the fabric's links; empty in older records.
    :param link_errors: launch, repeat, node, link and counter of
        each error, drop or retransmission.
    :param link_use: launch, repeat, node and bytes that the ranks and
        others sent, as ``traffic.NodeUse``.
    :param environment: the variables that steer the network, as rank 0 had them.
    :param core_losses_per_s: involuntary context switches per second over all launches, of the rank
        of each with most.
    :param core_wait: share of the time, 0 to 1, that the rank that waited longest in each launch
        was without a core; ``None`` if no kernel counts it, and in older records.
    """

    status: Annotated[str, msgspec.Meta(pattern="^(proven|contradicted|missing|dry-run)$")]
    sentences: tuple[str, ...] = ()
    ranks: tuple[Mapping[str, Any], ...] = ()
    library_version: str = ""
    library: str = ""
    devices: tuple[DeviceTraffic, ...] = ()
    transport: str = ""
    seconds: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    kernel: tuple[Mapping[str, Any] | str, ...] = ()
    links: tuple[Mapping[str, Any], ...] = ()
    link_errors: tuple[Mapping[str, Any], ...] = ()
    link_use: tuple[Mapping[str, Any], ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    core_losses_per_s: float = 0.0
    core_wait: float | None = None

    def as_dict(self) -> dict[str, Any]:
        row = asdict(self)
        row = {"verdict": row.pop("status"), **row}
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in row.items()
        }


def _convert(value: Any, kind: Any, place: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadInput(
            "file-damaged", f"{place}: {error}; the record is damaged, run the case again."
        ) from None


def _finite(values: Iterable[float | None], place: str) -> None:
    if not all(math.isfinite(value) for value in values if value is not None):
        raise BadInput(
            "output-damaged",
            f"{place}: a value is not finite; run the case again.",
        )


def read_samples(value: Any, place: str) -> tuple[Sample, ...]:
    """Check the ``samples`` of a case.

    :raises BadInput: a field is absent or of the wrong type, a value is not finite, a unit or
        direction is not that of the quantity (:data:`vocabulary.QUANTITIES`), or a metric occurs
        twice.
    """
    rows: list[Mapping[str, Any]] = _convert(
        () if value is None else value, list[dict[str, Any]], f"{place}: samples"
    )
    seen: set[tuple[Any, ...]] = set()
    samples: list[Sample] = _convert(rows, list[Sample], f"{place}: samples")
    for index, (row, sample) in enumerate(zip(rows, samples, strict=True)):
        where = f"{place}: samples[{index}]"
        quantity = QUANTITIES.get(sample.quantity)
        if quantity is None:
            raise BadInput(
                "unknown-name",
                f"{where}: quantity {sample.quantity!r} is unknown: add it to "
                "vocabulary.QUANTITIES with its unit.",
            )
        for key, expected in (("unit", quantity.unit), ("direction", quantity.direction)):
            if row.get(key) != expected:
                raise BadInput(
                    "not-comparable",
                    f"{where}: {key} of {sample.quantity} is {row.get(key)!r}; it must be "
                    f"{expected!r}.",
                )
        if not sample.values:
            raise BadInput(
                "nothing-measured", f"{where}: it has no values, but needs one for each repeat."
            )
        _finite(sample.values, f"{where}: {sample.quantity}")
        identity = (
            sample.suite,
            sample.benchmark,
            sample.variant,
            sample.ranks,
            sample.groups,
            sample.message_bytes,
            sample.quantity,
        )
        if identity in seen:
            raise BadInput(
                "name-taken",
                f"{where}: {sample.benchmark} {sample.quantity} at {sample.message_bytes} bytes "
                "appears twice; each measurement needs its own name.",
            )
        seen.add(identity)
    return tuple(samples)


def read_gates(value: Any, place: str) -> tuple[ReferenceCheck, ...]:
    """Check the ``gates`` of a case.

    :raises BadInput: a field is absent or of the wrong type, a value is not finite, or an outcome
        is not that of its value and bounds.
    """
    gates: tuple[ReferenceCheck, ...] = _convert(
        () if value is None else value, tuple[ReferenceCheck, ...], f"{place}: gates"
    )
    for gate in gates:
        _finite(
            (gate.value, gate.reference, gate.lower, gate.upper), f"{place}: gates: {gate.metric}"
        )
        outcome = outcome_of(gate.value, gate.lower, gate.upper)
        if gate.outcome != outcome:
            raise BadInput(
                "file-damaged",
                f"{place}: gates: {gate.metric} says {gate.outcome!r}, but its value and bounds "
                f"give {outcome!r}; the record is damaged, run the case again.",
            )
    return gates


def read_evidence(value: Any, place: str) -> Evidence | None:
    """Check the evidence of a case (``proof`` in what is stored); ``None`` if there is none.

    :raises BadInput: a field is of the wrong type, or a time is not finite.
    """
    if not value:
        return None
    row = _convert(value, dict[str, Any], f"{place}: proof")
    evidence: Evidence = _convert(
        {**row, "status": row.get("verdict")}, Evidence, f"{place}: proof"
    )
    load = (evidence.core_losses_per_s, evidence.core_wait)
    _finite((*evidence.seconds, *load), f"{place}: proof: seconds")
    return evidence
