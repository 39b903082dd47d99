"""References in layers: what a metric must reach, where the reference comes from, and its result.

physics
    Fraction of the fabric's line rate x rails, from the site's own
    description; computed, never learned.
learned
    ``site_configs/<system>/references.yaml``, read by ReFrame through ``$ref``/``$index``, each
    entry with its provenance (session, date, n, spread).

A metric without a reference in any layer is recorded; that never counts as a pass. A learned
reference that is never used is an error: tests are the leaves of ``reframe_tests/``; partitions,
fabrics, node counts and stack patterns are the system's, and metrics are those that the test's
group can have at some level (:func:`catalogue.planned_metrics`).
"""

from __future__ import annotations

import ast
import difflib
import fnmatch
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import schema
from ..machine.fabric import ANY_PINNING, Fabric
from ..mpis import registry as mpis
from ..samples import NO_REFERENCE, ReferenceCheck, outcome_of
from ..suites import benchmark, catalogue, node_memory
from ..vocabulary import (
    ALL_NODES,
    HIGHER,
    LOWER,
    PINNING_POLICIES,
    ROOT,
    SCOPE_NODE,
    BadInput,
    Quantity,
    meant,
)
from . import systems

#: Attributes of a test that index its learned references, outermost
#: first (``$index`` of references.yaml).
INDEX = ("$partition", "$environ", "fabric", "nodes", "ranks_per_node", "pinning")
#: Form of the file; what its words must be, code asks.
SCHEMA = ROOT / "site_configs" / "references.schema.json"

#: What may be measured above the line rate before another network
#: must have helped: timer and rounding error.
PHYSICS_EXCESS = 0.01

#: What may be measured above the payload that fits into packets
#: (:class:`machine.transport.Transport`): the last segments of a message leave a shaper, or reach a
#: buffer, all at once.
PAYLOAD_EXCESS = 0.03

#: Bits of a Gbit/s in one MB/s (1e6 bytes per second): 8e6 / 1e9.
GBIT_PER_MB = 0.008

Reference = tuple[float, float | None, float | None, str]


class ReferenceError(BadInput):
    """A references.yaml that cannot be used."""


def line_rate_fraction(
    bandwidth_mb_per_s: float, fabric: Fabric, directions: float
) -> float | None:
    """Measured bandwidth as a fraction of line rate x rails x directions;
    ``None`` if the fabric has no line rate.

    :param bandwidth_mb_per_s: bandwidth in MB/s (1e6 bytes per second) of all pairs together.
    :param directions: 1 where all data flows one way over each link, 2 where it flows both ways at
        once; times the links that carry it.
    """
    rate = fabric.line_rate_gbit_per_s
    return None if rate is None else bandwidth_mb_per_s * GBIT_PER_MB / (rate * directions)


def payload_limit(fabric: Fabric) -> float:
    """Largest fraction of the line rate that can be payload: 0.9415 for
    TCP at an MTU of 1500, 0.9900 at 9000, else 1.
    """
    packet = mpis.transport(fabric.transport)
    if packet.headers_bytes is None or fabric.mtu_bytes is None:
        return 1.0
    return (fabric.mtu_bytes - packet.headers_bytes) / (fabric.mtu_bytes + packet.framing_bytes)


def above_line_rate(
    subject: str, bandwidth_mb_per_s: float, fabric: Fabric, directions: int
) -> str:
    """Sentence on a bandwidth that the fabric's links cannot carry;
    empty where they can, or have no line rate.

    Counters show which networks carried the bytes; this shows what that made of the number. 99.7 %
    of a 40 Gbit/s link was once published; TCP over it cannot show more than 94 %, or 99 % with
    jumbo frames: two networks were in use.

    :param subject: benchmark and size, for the sentence.
    """
    fraction = line_rate_fraction(bandwidth_mb_per_s, fabric, directions)
    limit = payload_limit(fabric)
    if fraction is None or fraction <= limit * (1 + PAYLOAD_EXCESS):
        return ""
    ways = " each way" if directions == 2 else ""
    if fabric.rails and fabric.line_rate_gbit_per_s != sum(
        rail.line_rate_gbit_per_s or 0 for rail in fabric.rails
    ):
        ways += ", by pcie_gbit_per_s of its GPUs"
    return (
        f"{subject} shows {bandwidth_mb_per_s:.1f} MB/s, {fraction / limit:.2f} times what "
        f"{fabric.name} ({fabric.line_rate_gbit_per_s:g} Gbit/s{ways}) can carry as payload: this "
        f"cannot be the bandwidth of {fabric.name}."
    )


def physics_reference(
    fabric: Fabric, share: float = 1.0, pinning: str = ANY_PINNING, most: float = 1.0
) -> Reference | None:
    """Reference tuple of a line-rate fraction on this fabric: at least
    its minimum efficiency, at most the line rate.

    :param share: share of the minimum efficiency that is enough
        (``benchmark.Level.link_share``, :meth:`Fabric.share_used`).
    :param most: how many times the line rate is possible (``catalogue.Expected.most``).
    :param pinning: policy of the ranks.
    """
    efficiency = fabric.efficiency(pinning)
    if fabric.line_rate_gbit_per_s is None or efficiency is None:
        return None
    upper = round(most * (1 + PHYSICS_EXCESS) - 1, 9) if math.isfinite(most) else None
    return (1.0, round(efficiency * share - 1.0, 9), upper, "1")


def exact(bound: float) -> float:
    """A bound without the rounding error of its sum: 0.34 of 0.33999999999999997."""
    return float(f"{bound:.12g}")


def judge(
    metric: str,
    layer: str,
    value: float,
    reference: Reference | tuple[str, Reference] | None,
    unit: str,
) -> ReferenceCheck:
    """Compare a value with its reference as ReFrame does.

    Bounds are ``ref * (1 + threshold)``; for a reference of zero the thresholds are absolute
    (ReFrame manual, ``RegressionTest.reference``, since 4.8). An expected failure (``$xfail``,
    ReFrame's ``xfail``: message and tuple) is ReFrame's to judge, and no reference here.
    """
    if reference is None or len(reference) == 2 or (reference[1] is None and reference[2] is None):
        return ReferenceCheck(metric, layer, value, None, None, None, unit, NO_REFERENCE)
    ref = reference[0]
    low = reference[1]
    high = reference[2]

    def bound(threshold: float | None) -> float | None:
        if threshold is None:
            return None
        return threshold if ref == 0 else exact(ref + abs(ref) * threshold)

    lower = bound(low)
    upper = bound(high)
    return ReferenceCheck(
        metric, layer, value, ref, lower, upper, unit, outcome_of(value, lower, upper)
    )


@dataclass(frozen=True)
class ReferenceFault:
    """What is wrong with an entry of a references.yaml.

    :param keys: of the entry, outermost first, the test by the name it has today; of what is wrong
        with several entries, those they have in common.
    :param sentence: naming file, key and remedy.
    """

    keys: tuple[Any, ...]
    sentence: str

    def concerns(self, index: tuple[Any, ...]) -> bool:
        """Whether a case looks the entry up; ``index``: its test
        and the values of :data:`INDEX`.
        """
        return all(mine == theirs for mine, theirs in zip(self.keys, index, strict=False))


#: Folder of the test files.
TESTS = Path(__file__).resolve().parents[2]
#: What stands for stack, node count and pinning of a group that is measured without MPI, and for
#: its fabric where it has none.
WITHOUT_MPI: Mapping[str, Mapping[str, Any]] = {
    catalogue.MEMORY: {
        "stack": "builtin",
        "fabric": node_memory.FABRIC,
        "nodes": 1,
        "pinning": "bunch",
    },
    **{group: {"stack": "builtin", "nodes": 2, "pinning": "default"} for group in catalogue.PAIRS},
}
#: Base class of the tests below MPI that are for three nodes or more.
WIRE_MAP = "WireMapTest"
_METRIC = re.compile(rf"(?P<name>.+?)(?:\.(?P<size>[0-9]{{{catalogue.SIZE_DIGITS}}}))?")


@lru_cache(maxsize=4)
def _read_tests(folder: Path) -> tuple[Mapping[str, str], frozenset[str]]:
    """Tests to their groups, as their class bodies assign it, and those
    of :data:`WIRE_MAP`; nothing is imported.
    """
    groups = {}
    wires = set()
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.py")))
    for node in (
        node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ):
        if any(isinstance(base, ast.Name) and base.id == WIRE_MAP for base in node.bases):
            wires.add(node.name)
        for row in node.body:
            if (
                isinstance(row, ast.Assign)
                and ast.unparse(row.targets[0]) == "group"
                and isinstance(row.value, ast.Constant)
            ):
                groups[node.name] = str(row.value.value)
    return {test: group for test, group in groups.items() if group in catalogue.GROUPS}, frozenset(
        wires
    )


def tests(folder: Path = TESTS) -> Mapping[str, str]:
    """Test to its group."""
    return _read_tests(folder)[0]


def maps_of_the_wire(folder: Path = TESTS) -> frozenset[str]:
    """Tests below MPI that measure on as many nodes as there are."""
    return _read_tests(folder)[1]


@lru_cache(maxsize=64)
def _metrics(group: str) -> Mapping[str, tuple[Quantity, frozenset[int | None]]]:
    return catalogue.planned_metrics(group)


def quantity_of(test: str, metric: str) -> Quantity | None:
    """Quantity of a metric; ``None`` if the test never gives one of that name and size."""
    match = _METRIC.fullmatch(metric)
    if not match or test not in tests():
        return None
    size = int(match["size"]) if match["size"] else None
    planned = _metrics(tests()[test])
    start = match["name"].partition(".")[0] + "."
    exact, sizes = planned.get(match["name"], (None, frozenset()))
    if exact and size in sizes:
        return exact
    # only those of the benchmark: there are thousands under all options
    for pattern, (quantity, sizes) in planned.items():
        if (
            pattern.startswith(start)
            and fnmatch.fnmatchcase(match["name"], pattern)
            and size in sizes
        ):
            return quantity
    return None


def check_file(path: str, content: Any, system: Mapping[str, Any] | None = None) -> None:
    """Refuse a parsed references.yaml for its first fault.

    :param system: as for :func:`find_faults`.
    :raises ReferenceError: naming file, key and remedy.
    """
    for fault in find_faults(path, content, system):
        raise ReferenceError("configuration-unusable", fault.sentence)


def find_faults(
    path: str, content: Any, system: Mapping[str, Any] | None = None
) -> Iterator[ReferenceFault]:
    """Check a parsed references.yaml: every key names something that is
    measured, every value can be compared with it.

    :param system: the system's description (``site.read_system``), to resolve
        partitions, stacks, fabrics and node counts.
    """
    if content is None:
        return
    errors = schema.validator(SCHEMA).iter_errors(content)
    damaged = [_fault_of_form(path, error) for error in errors]
    yield from damaged
    if any(not fault.keys for fault in damaged):
        return
    provenance = content.get("provenance", {})
    for test, entries in content.items():
        if test == "provenance":
            continue
        for keys, value in _leaves(entries, (test,)):
            if (
                keys[1:2] != ("$index",)
                and not any(fault.concerns(keys) for fault in damaged)
                and (fault := _fault_of_entry(keys, value, provenance, system))
            ):
                yield ReferenceFault(keys, f"{path}: {fault}.")


def _fault_of_form(path: str, error: Any) -> ReferenceFault:
    """What the schema has against a file; ``error``: of jsonschema."""
    place = tuple(error.absolute_path)
    name = ".".join(map(str, place)) or "the file"
    described = error.schema.get("description", "")
    sentence = f"{path}: '{name}': {error.message}; expected {described}."
    keys = (key for key in place if key not in ("provenance", "$index"))
    return ReferenceFault(tuple(keys)[: len(INDEX) + 2], sentence)


def stacks_of(content: Any) -> dict[str, int]:
    """Stacks a checked references.yaml names, with the number of their references."""
    counts: dict[str, int] = {}
    for test, entries in (content or {}).items():
        for keys, _ in _leaves(entries, (test,)) if test != "provenance" else ():
            if keys[1] != "$index":
                counts[keys[2]] = counts.get(keys[2], 0) + 1
    return counts


def _leaves(node: Any, keys: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], Any]]:
    if not isinstance(node, Mapping):
        return [(keys, node)]
    return [leaf for key, value in node.items() for leaf in _leaves(value, (*keys, key))]


def _fault_of_entry(
    keys: tuple[Any, ...], value: Any, provenance: Any, system: Mapping[str, Any] | None
) -> str:
    name = ".".join(str(key) for key in keys)
    if fault := fault_of_keys(keys, system):
        return f"'{name}' would never be used: {fault}; correct the key or remove the entry"
    if value[0] == "$xfail":
        value = value[-1]
    quantity = quantity_of(keys[0], keys[-1])
    assert quantity is not None  # or the key would have been a fault
    if fault := _fault_of_value(value, quantity):
        return f"'{name}': {fault}"
    source = provenance
    for key in keys:
        source = source.get(key) if isinstance(source, Mapping) else None
    if source is None:
        return f"'provenance.{name}' is missing: a reference needs its session, date, n and spread"
    return ""


def fault_of_keys(keys: tuple[Any, ...], system: Mapping[str, Any] | None) -> str:
    """What is wrong with the keys of an entry, outermost first, with suggestions; empty if nothing
    is.

    :param system: the system's description; ``None`` if there is none, and
        then only test, pinning and metric are asked.
    """
    test, partition, stack, fabric, nodes, ppn, pinning, metric = keys
    if test not in tests():
        return f"there is no test '{test}'{meant(test, tests())}"
    if pinning not in PINNING_POLICIES:
        return f"there is no pinning policy '{pinning}'{meant(pinning, PINNING_POLICIES)}"
    group = tests()[test]
    growing = nodes == ALL_NODES and type(nodes) is int and benchmark.grow(catalogue.rows(group))
    for noun, number in (("nodes", 1 if growing else nodes), ("processes per node", ppn)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            return (
                f"'{number}' is not a number of {noun}; write the number that a symbolic name "
                "stands for"
            )
    if quantity_of(test, str(metric)) is None:
        return f"{test} has no metric '{metric}'{_meant_metric(test, str(metric))}"
    if system is None:
        return ""
    described = {f"{system['name']}:{row['name']}": row["extras"] for row in system["partitions"]}
    if partition not in described:
        return f"there is no partition '{partition}'{meant(str(partition), described)}"
    extras = described[partition]
    fabrics = systems.fabrics_of(extras)
    patterns = extras.get("stacks", ["*"])
    alone = WITHOUT_MPI.get(group, {})
    given = {"stack": stack, "fabric": fabric, "nodes": nodes, "pinning": pinning}
    for name, wanted in alone.items():
        if given[name] != wanted and not (name == "nodes" and test in maps_of_the_wire()):
            return f"{test} is measured without MPI: its {name} must be {wanted}, not {given[name]}"
    if not alone and not any(fnmatch.fnmatchcase(str(stack), pattern) for pattern in patterns):
        return f"partition '{partition}' has no stack '{stack}' (its stacks: {', '.join(patterns)})"
    if "fabric" not in alone and fabric not in fabrics:
        return f"partition '{partition}' has no fabric '{fabric}'{meant(str(fabric), fabrics)}"
    if not alone:
        counts = (
            [1] if fabrics[fabric].scope == SCOPE_NODE else list(extras.get("node_counts", [2]))
        )
        if nodes not in counts and not (growing and max(counts) > 1):
            return (
                f"'{fabric}' of partition '{partition}' is measured on "
                f"{', '.join(map(str, counts))} nodes, not on {nodes}"
            )
    return ""


def _meant_metric(test: str, metric: str) -> str:
    """The nearest name among those of the nearest benchmark: under all
    options a test has a hundred thousand names.
    """
    planned = _metrics(tests()[test])
    starts = {name.partition(".")[0] for name in planned}
    start = next(
        iter(difflib.get_close_matches(metric.partition(".")[0], sorted(starts), n=1)), None
    )
    named = {name: sizes for name, (_, sizes) in planned.items() if name.partition(".")[0] == start}
    bare = metric.rpartition(".")[0] if metric.rpartition(".")[2].isdecimal() else metric
    close = {name: named[name] for name in difflib.get_close_matches(bare, sorted(named), n=3)}
    names = [
        name if size is None else f"{name}.{size:0{catalogue.SIZE_DIGITS}d}"
        for name, sizes in close.items()
        for size in sorted(sizes, key=lambda size: size or 0)
    ]
    return meant(metric, names)


def _fault_of_value(value: list[Any], quantity: Quantity) -> str:
    """What makes a reference no gate of its quantity; empty if it is
    one, or has no bounds and is none on purpose.
    """
    number, lower, upper, unit = value
    if unit != quantity.unit:
        return f"its unit is '{unit}', but the metric is in '{quantity.unit}'; convert the value"
    if not all(math.isfinite(part) for part in (number, lower, upper) if part is not None):
        return "value and bounds must be finite"
    if lower is None and upper is None:
        return ""
    if number <= 0:
        return (
            f"a bound of {number:g} has no effect: bounds are fractions of the value, which must "
            "be above 0"
        )
    if quantity.direction not in (HIGHER, LOWER):
        return (
            f"{quantity.name} is neither better high nor low, so it cannot have bounds; write null "
            "for both"
        )
    needed, side = (lower, "a lower") if quantity.direction == HIGHER else (upper, "an upper")
    how = "high" if quantity.direction == HIGHER else "low"
    return (
        "" if needed is not None else f"{quantity.name} is better {how}, so it needs {side} bound"
    )
