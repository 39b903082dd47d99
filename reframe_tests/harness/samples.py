"""What a test stores with its case (samples, evidence, gates): one record each, which writes itself and reads itself back.

Written by the tests into the session's database (``as_dict``), read by whoever judges a session (``read_samples``,
``read_evidence``, ``read_gates``); what is wrong with a stored record is one sentence. The keys are those of all stored
sessions: a record lacks what older ones did not have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .vocabulary import QUANTITIES, BadInput

#: Evidence status of a case; only numbers of the first are eligible for verdicts.
PROVEN, CONTRADICTED, MISSING, DRY_RUN = "proven", "contradicted", "missing", "dry-run"
STATUSES = (PROVEN, CONTRADICTED, MISSING, DRY_RUN)
#: What may come of a comparison with a reference.
PASS, FAIL, NO_REFERENCE = "pass", "fail", "no reference"
OUTCOMES = (PASS, FAIL, NO_REFERENCE)


@dataclass(frozen=True)
class Sample:
    """All repeats of one metric of one case.

    :param ranks: processes active in the benchmark, per group where there are several.
    :param message_bytes: message size in bytes, ``None`` where the benchmark has none.
    :param repetitions: repetitions one value averages over, ``None`` where the suite prints none.
    :param quantity: key of :data:`vocabulary.QUANTITIES`, which gives unit and direction.
    :param values: one value per repeat, in the order they ran, in ``unit``; ``None`` where a repeat gave none.
    """

    suite: str
    benchmark: str
    group: str
    ranks: int
    groups: int
    variant: str
    message_bytes: int | None
    repetitions: int | None
    quantity: str
    values: tuple[float | None, ...]

    @property
    def unit(self) -> str:
        """Unit of the values."""
        return QUANTITIES[self.quantity].unit

    @property
    def direction(self) -> str:
        """Which way is better: ``lower``, ``higher`` or ``none``."""
        return QUANTITIES[self.quantity].direction

    @property
    def measured(self) -> list[float]:
        """Values of the repeats that gave one."""
        return [value for value in self.values if value is not None]

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionary, for the session's database."""
        return {**asdict(self), "unit": self.unit, "direction": self.direction, "values": list(self.values)}


@dataclass(frozen=True)
class ReferenceCheck:
    """One comparison of a metric with its reference; values and bounds in ``unit``, ``None`` where there is none.

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
    outcome: str

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionary, for the session's database."""
        return asdict(self)


@dataclass(frozen=True)
class DeviceTraffic:
    """Bytes one network device of one node moved during one repeat of one launch (``None`` and empty: of the job)."""

    launch: str
    repeat: int | None
    node: str
    device: str
    tx_bytes: int
    rx_bytes: int


@dataclass(frozen=True)
class Evidence:
    """What the ranks of a case recorded of the condition it ran under, and what follows from it.

    :param status: one of :data:`STATUSES`; stored as ``verdict``.
    :param sentences: what is missing or contradicts the condition.
    :param ranks: rank, host, cpus_allowed (kernel's list format), cpu, numa_node of every rank, and where it
        is known boot_id: nodes with the same are on one machine.
    :param seconds: the benchmarks' own time per launch, in seconds.
    :param notes: what a reader should know and what is not a contradiction.
    :param kernel: operating system of each node: its facts by name, in older records its release as text.
    :param links: node, link and settings (MTU, speed, state, ...) of each of the fabric's links; empty in older records.
    :param link_errors: launch, repeat, node, link and counter of each error, drop or retransmission.
    :param link_use: launch, repeat, node and bytes that the ranks and others sent, as ``link_use.NodeUse.as_dict``.
    :param environment: the variables that steer the network, as rank 0 had them.
    """

    status: str
    sentences: tuple[str, ...]
    ranks: tuple[Mapping[str, Any], ...]
    library_version: str
    library: str
    devices: tuple[DeviceTraffic, ...]
    transport: str
    seconds: tuple[float, ...]
    notes: tuple[str, ...] = ()
    kernel: tuple[Mapping[str, Any] | str, ...] = ()
    links: tuple[Mapping[str, Any], ...] = ()
    link_errors: tuple[Mapping[str, Any], ...] = ()
    link_use: tuple[Mapping[str, Any], ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionary, for the session's database."""
        row = asdict(self)
        row = {"verdict": row.pop("status"), **row}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in row.items()}


class _Reader:
    """Takes typed fields out of one dictionary; every refusal names the place."""

    def __init__(self, row: Any, place: str) -> None:
        if not isinstance(row, Mapping):
            raise BadInput(f"{place} is {type(row).__name__}, expected a mapping.")
        self.row, self.place = row, place

    def _refuse(self, key: str, expected: str) -> BadInput:
        return BadInput(f"{self.place}: {key} is {self.row.get(key)!r}, expected {expected}.")

    def text(self, key: str, *, default: str | None = None) -> str:
        value = self.row.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self._refuse(key, "text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(str(row) for row, _ in _rows(self.row.get(key), f"{self.place}.{key}"))

    def mappings(self, key: str) -> tuple[Mapping[str, Any], ...]:
        return tuple(_Reader(row, where).row for row, where in _rows(self.row.get(key), f"{self.place}.{key}"))

    def one_of(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.row.get(key)
        if value not in allowed:
            raise self._refuse(key, f"one of {', '.join(allowed)}")
        return str(value)

    def count(self, key: str, *, bits: int = 63, optional: bool = False, default: int | None = None) -> int | None:
        value = self.row.get(key, default)
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << bits:
            raise self._refuse(key, f"a whole number below 2^{bits}")
        return value

    def number(self, key: str) -> float | None:
        value = self.row.get(key)
        return None if value is None else _finite(value, f"{self.place}: {key}")


def _finite(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadInput(f"{place} is {value!r}, expected a number.")
    if (isinstance(value, int) and abs(value) >= 1 << 1023) or not math.isfinite(value):
        raise BadInput(f"{place} is {value}: a value that is not finite is not a measurement and is refused.")
    return float(value)


def _rows(value: Any, place: str) -> Iterator[tuple[Any, str]]:
    if value is None:
        return
    if not isinstance(value, (list, tuple)):
        raise BadInput(f"{place} is {type(value).__name__}, expected a list.")
    for index, row in enumerate(value):
        yield row, f"{place}[{index}]"


def read_samples(value: Any, place: str) -> tuple[Sample, ...]:
    """Check the ``samples`` of a case.

    :raises BadInput: a field is absent or of the wrong type, a value is not finite, a unit or direction is not that
        of the quantity (:data:`vocabulary.QUANTITIES`), or a metric occurs twice.
    """
    samples: dict[tuple[Any, ...], Sample] = {}
    for row, where in _rows(value, f"{place}: samples"):
        sample = _sample(_Reader(row, where))
        identity = (
            *(sample.suite, sample.benchmark, sample.variant, sample.ranks, sample.groups),
            *(sample.message_bytes, sample.quantity),
        )
        if identity in samples:
            raise BadInput(
                f"{where}: {sample.benchmark} {sample.quantity} at {sample.message_bytes} bytes is there twice; "
                "two measurements under one name are refused."
            )
        samples[identity] = sample
    return tuple(samples.values())


def _sample(reader: _Reader) -> Sample:
    name = reader.text("quantity")
    quantity = QUANTITIES.get(name)
    if quantity is None:
        raise BadInput(f"{reader.place}: quantity {name!r} is unknown: add it to vocabulary.QUANTITIES with its unit.")
    for key, expected in (("unit", quantity.unit), ("direction", quantity.direction)):
        if reader.text(key) != expected:
            raise BadInput(
                f"{reader.place}: {key} of {name} is {reader.text(key)!r}, expected {expected!r}: "
                "units and directions are not mixed."
            )
    values = reader.row.get("values")
    if not isinstance(values, (list, tuple)) or not values:
        raise BadInput(f"{reader.place}: values is {values!r}, expected a list with one value per repeat.")
    return Sample(
        suite=reader.text("suite"),
        benchmark=reader.text("benchmark"),
        group=reader.text("group"),
        ranks=reader.count("ranks", bits=31) or 0,
        groups=reader.count("groups", bits=31, default=1) or 0,
        variant=reader.text("variant", default=""),
        message_bytes=reader.count("message_bytes", optional=True),
        repetitions=reader.count("repetitions", optional=True),
        quantity=name,
        values=tuple(
            None if one is None else _finite(one, f"{reader.place}: {name} of repeat {index}")
            for index, one in enumerate(values, start=1)
        ),
    )


def read_gates(value: Any, place: str) -> tuple[ReferenceCheck, ...]:
    """Check the ``gates`` of a case.

    :raises BadInput: a field is absent or of the wrong type, or a value is not finite.
    """
    return tuple(
        ReferenceCheck(
            metric=reader.text("metric"),
            layer=reader.text("layer"),
            value=reader.number("value"),
            reference=reader.number("reference"),
            lower=reader.number("lower"),
            upper=reader.number("upper"),
            unit=reader.text("unit"),
            outcome=reader.one_of("outcome", OUTCOMES),
        )
        for reader in (_Reader(row, where) for row, where in _rows(value, f"{place}: gates"))
    )


def read_evidence(value: Any, place: str) -> Evidence | None:
    """Check the evidence of a case (``proof`` in what is stored); ``None`` where there is none.

    :raises BadInput: a field is of the wrong type.
    """
    if not value:
        return None
    reader = _Reader(value, f"{place}: proof")
    kernel = _rows(value.get("kernel"), f"{reader.place}.kernel")
    return Evidence(
        status=reader.one_of("verdict", STATUSES),
        sentences=reader.texts("sentences"),
        ranks=reader.mappings("ranks"),
        library_version=reader.text("library_version", default=""),
        library=reader.text("library", default=""),
        devices=tuple(_traffic(value.get("devices"), f"{reader.place}.devices")),
        transport=reader.text("transport", default=""),
        seconds=tuple(_finite(row, where) for row, where in _rows(value.get("seconds"), f"{reader.place}.seconds")),
        notes=reader.texts("notes"),
        kernel=tuple(row if isinstance(row, Mapping) else str(row) for row, _ in kernel),
        links=tuple(_link(row, where) for row, where in _rows(value.get("links"), f"{reader.place}.links")),
        link_errors=reader.mappings("link_errors"),
        link_use=reader.mappings("link_use"),
        environment=_Reader(value.get("environment") or {}, f"{reader.place}.environment").row,
    )


def _link(row: Any, place: str) -> Mapping[str, Any]:
    reader = _Reader(row, place)
    return {**reader.row, "node": reader.text("node"), "link": reader.text("link")}


def _traffic(value: Any, place: str, repeat: int | None = None) -> Iterator[DeviceTraffic]:
    """Flatten ``[[row, ...] per repeat]`` or ``[row with its own repeat, ...]``."""
    for index, (row, where) in enumerate(_rows(value, place), start=1):
        if isinstance(row, (list, tuple)):
            yield from _traffic(row, where, index)
            continue
        reader = _Reader(row, where)
        yield DeviceTraffic(
            launch=reader.text("launch", default=""),
            repeat=reader.count("repeat", optional=True, default=repeat),
            node=reader.text("node", default=""),
            device=reader.text("device"),
            tx_bytes=reader.count("tx_bytes") or 0,
            rx_bytes=reader.count("rx_bytes") or 0,
        )
