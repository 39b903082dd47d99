"""References in layers: what a metric must reach, where that comes from, and what was made of it.

physics
    Fraction of the fabric's line rate x rails, from the site's own description; computed, never learned.
learned
    ``site_configs/<system>/references.yaml``, read by ReFrame through ``$ref``/``$index``, each entry with its
    provenance (session, date, n, spread).

A metric that no layer knows is recorded; that is never called a pass of a gate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..machine.fabric import ANY_PINNING, Fabric
from ..mpis import registry as mpis
from ..samples import FAIL, NO_REFERENCE, PASS, ReferenceCheck
from ..vocabulary import HIGHER, LOWER, BadInput, Quantity
from . import reference_keys

#: Attributes of a test that index its learned references, outermost first (``$index`` of references.yaml).
INDEX = ("$partition", "$environ", "fabric", "nodes", "ranks_per_node", "pinning")
#: Keys that lead to an entry: test, :data:`INDEX`, metric.
LEVELS = len(INDEX) + 2

#: What may be measured above the line rate before another network must have helped: timer and rounding error.
PHYSICS_EXCESS = 0.01

#: What may be measured above the payload that fits into packets (:class:`machine.transport.Transport`): the last segments of
#: a message leave a shaper, or reach a buffer, all at once.
PAYLOAD_EXCESS = 0.03

#: Bits of a Gbit/s in one MB/s (1e6 bytes per second): 8e6 / 1e9.
GBIT_PER_MB = 0.008

Reference = tuple[float, float | None, float | None, str]


class ReferenceError(BadInput):
    """A references.yaml that cannot be used."""


def line_rate_fraction(bandwidth_mb_per_s: float, fabric: Fabric, directions: float) -> float | None:
    """Measured bandwidth as a fraction of line rate x rails x directions; ``None`` where the fabric has no line rate.

    :param bandwidth_mb_per_s: bandwidth in MB/s (1e6 bytes per second) of all pairs together.
    :param directions: 1 where all data flows one way over each link, 2 where it flows both ways at once; times the links that
        carry it.
    """
    rate = fabric.line_rate_gbit_per_s
    return None if rate is None else bandwidth_mb_per_s * GBIT_PER_MB / (rate * directions)


def payload_limit(fabric: Fabric) -> float:
    """Largest fraction of the line rate that can be payload: 0.9415 for TCP at an MTU of 1500, 0.9900 at 9000, else 1."""
    packet = mpis.transport(fabric.transport)
    if packet.headers_bytes is None or fabric.mtu_bytes is None:
        return 1.0
    return (fabric.mtu_bytes - packet.headers_bytes) / (fabric.mtu_bytes + packet.framing_bytes)


def above_line_rate(what: str, bandwidth_mb_per_s: float, fabric: Fabric, directions: int) -> str:
    """Sentence on a bandwidth that the fabric's links cannot carry; empty where they can, or have no line rate.

    Counters show which networks carried the bytes; this shows what that made of the number. 99.7 % of a 40 Gbit/s link was
    once published; TCP over it cannot show more than 94 %, or 99 % with jumbo frames: two networks were in use.

    :param what: benchmark and size, for the sentence.
    """
    fraction = line_rate_fraction(bandwidth_mb_per_s, fabric, directions)
    limit = payload_limit(fabric)
    if fraction is None or fraction <= limit * (1 + PAYLOAD_EXCESS):
        return ""
    ways = " each way" if directions == 2 else ""
    return (
        f"{what} shows {bandwidth_mb_per_s:.1f} MB/s, {fraction / limit:.2f} times what {fabric.name} "
        f"({fabric.line_rate_gbit_per_s:g} Gbit/s{ways}) can carry as payload: it is not the bandwidth of {fabric.name}."
    )


def physics_reference(fabric: Fabric, share: float = 1.0, pinning: str = ANY_PINNING) -> Reference | None:
    """Reference tuple of a line-rate fraction on this fabric: at least its minimum efficiency, at most the line rate.

    :param share: share of the minimum efficiency that is enough (``plans.Level.link_share``, :meth:`Fabric.share_used`).
    :param pinning: policy of the ranks.
    """
    efficiency = fabric.efficiency(pinning)
    if fabric.line_rate_gbit_per_s is None or efficiency is None:
        return None
    return (1.0, round(efficiency * share - 1.0, 9), PHYSICS_EXCESS, "1")


def judge(metric: str, layer: str, value: float, reference: Reference | None, unit: str) -> ReferenceCheck:
    """Compare a value with its reference as ReFrame does.

    Bounds are ``ref * (1 + threshold)``; for a reference of zero the thresholds are absolute (ReFrame manual,
    ``RegressionTest.reference``, since 4.8).
    """
    if reference is None or (reference[1] is None and reference[2] is None):
        return ReferenceCheck(metric, layer, value, None, None, None, unit, NO_REFERENCE)
    ref, low, high = reference[0], reference[1], reference[2]

    def bound(threshold: float | None) -> float | None:
        if threshold is None:
            return None
        return threshold if ref == 0 else ref + abs(ref) * threshold

    lower, upper = bound(low), bound(high)
    fails = (lower is not None and value < lower) or (upper is not None and value > upper)
    return ReferenceCheck(metric, layer, value, ref, lower, upper, unit, FAIL if fails else PASS)


@dataclass(frozen=True)
class ReferenceFault:
    """What is wrong with an entry of a references.yaml.

    :param keys: of the entry, outermost first, the test by the name it has today; of what is wrong with several entries, those
        they have in common.
    :param sentence: naming file, key and remedy.
    """

    keys: tuple[Any, ...]
    sentence: str

    def concerns(self, index: tuple[Any, ...]) -> bool:
        """Whether a case looks the entry up; ``index``: its test and the values of :data:`INDEX`."""
        return all(mine == theirs for mine, theirs in zip(self.keys, index, strict=False))


def check_file(path: str, content: Any, system: Mapping[str, Any] | None = None) -> None:
    """Refuse a parsed references.yaml for its first fault.

    :param system: as for :func:`find_faults`.
    :raises ReferenceError: naming file, key and remedy.
    """
    for fault in find_faults(path, content, system):
        raise ReferenceError(fault.sentence)


def find_faults(path: str, content: Any, system: Mapping[str, Any] | None = None) -> Iterator[ReferenceFault]:
    """Check a parsed references.yaml: every key names something that is measured, every value can be held against it.

    :param system: the system's description (``site.read_system``), to resolve partitions, stacks, fabrics and node counts.
    """
    if content is None:
        return
    if not isinstance(content, Mapping):
        wanted = "expected a mapping of test names at the top; see site_configs/generic/references.yaml"
        yield ReferenceFault((), f"{path}: {wanted}.")
        return
    provenance = content.get("provenance", {})
    if not isinstance(provenance, Mapping):
        yield ReferenceFault((), f"{path}: 'provenance' must be a mapping of test names.")
        return
    for test, entries in content.items():
        if test == "provenance":
            continue
        if not isinstance(entries, Mapping) or tuple(entries.get("$index") or ()) != INDEX:
            sentence = f"{path}: key '{test}.$index' must be {list(INDEX)}; the tests are looked up by it."
            yield ReferenceFault((test,), sentence)
            continue
        for keys, value in _leaves(entries, (test,)):
            if keys[1:] and keys[1] == "$index":
                continue
            try:
                _check_entry(path, keys, value, provenance, system)
            except ReferenceError as error:
                yield ReferenceFault(keys, str(error))


def stacks_of(content: Any) -> dict[str, int]:
    """Stacks a checked references.yaml names, with the number of their references."""
    found: dict[str, int] = {}
    for test, entries in (content or {}).items():
        for keys, _ in _leaves(entries, (test,)) if test != "provenance" else ():
            if keys[1] != "$index":
                found[keys[2]] = found.get(keys[2], 0) + 1
    return found


def _leaves(node: Any, keys: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], Any]]:
    if not isinstance(node, Mapping):
        return [(keys, node)]
    return [leaf for key, value in node.items() for leaf in _leaves(value, (*keys, key))]


def _check_entry(path: str, keys: tuple[Any, ...], value: Any, provenance: Any, system: Mapping[str, Any] | None) -> None:
    name = ".".join(str(key) for key in keys)
    if len(keys) != LEVELS:
        raise ReferenceError(
            f"{path}: '{name}' is {len(keys)} levels deep, expected {LEVELS}: test, {', '.join(INDEX)}, metric."
        )
    for problem in reference_keys.problems(keys, system):
        raise ReferenceError(f"{path}: '{name}' would never be looked up: {problem}; correct the key or remove the entry.")
    if isinstance(value, list) and value and value[0] == "$xfail":
        value = value[-1]
    if not (isinstance(value, list) and len(value) == 4 and _is_number(value[0]) and isinstance(value[3], str)):
        raise ReferenceError(f"{path}: '{name}' must be [value, lower fraction or null, upper fraction or null, unit].")
    quantity = reference_keys.quantity_of(keys[0], keys[-1])
    assert quantity is not None  # or the key would have been a problem
    if problem := _wrong_value(value, quantity):
        raise ReferenceError(f"{path}: '{name}': {problem}.")
    source = provenance
    for key in keys:
        source = source.get(key) if isinstance(source, Mapping) else None
    wanted = {"session", "date", "n", "spread"}
    if not (isinstance(source, Mapping) and wanted <= set(source)):
        raise ReferenceError(
            f"{path}: 'provenance.{name}' must say {', '.join(sorted(wanted))}: a reference without its origin is not used."
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _wrong_value(value: list[Any], quantity: Quantity) -> str:
    """What makes a reference no gate of its quantity; empty if it is one, or has no bounds and is none on purpose."""
    number, lower, upper, unit = value
    if unit != quantity.unit:
        return f"its unit is '{unit}', but the metric is in '{quantity.unit}'; convert the value"
    if not all(bound is None or _is_number(bound) for bound in (lower, upper)):
        return f"its bounds are {lower!r} and {upper!r}; write fractions of the value, or null for none"
    if not all(math.isfinite(part) for part in (number, lower, upper) if part is not None):
        return "value and bounds must be finite: nothing is above or below NaN, and everything is below infinity"
    if lower is None and upper is None:
        return ""
    if number <= 0:
        return f"a bound of {number:g} is none: bounds are fractions of the value, which must be above 0"
    if (lower is not None and not -1 < lower <= 0) or (upper is not None and not 0 <= upper < 1):
        return (
            f"its bounds are {lower!r} and {upper!r}; they are fractions of the value, the lower from 0 down to more than -1, "
            "the upper from 0 up to less than 1: write -0.05 or 0.05 for 5 %"
        )
    needed = {HIGHER: (lower, "a lower bound"), LOWER: (upper, "an upper bound")}.get(quantity.direction)
    if needed is None:
        return f"{quantity.name} is neither better high nor low, so it can have no bounds; write null for both"
    if needed[0] is None:
        return f"{quantity.name} is better {'high' if quantity.direction == HIGHER else 'low'}, so it needs {needed[1]}"
    return ""
