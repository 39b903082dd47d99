"""What the keys of a references.yaml may name: a reference that nobody ever looks up is a mistake, not a gate.

Tests are the leaves of ``reframe_tests/``; partitions, fabrics, node counts and stack patterns are the system's; metrics are
those the test's group can give at some level (:func:`catalogue.planned_metrics`).
"""

from __future__ import annotations

import ast
import difflib
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..suites import benchmark, catalogue, node_memory
from ..vocabulary import ALL_NODES, PINNING_POLICIES, SCOPE_NODE, Quantity

#: Folder of the test files.
TESTS = Path(__file__).resolve().parents[2]
#: What stands for stack, node count and pinning of a group that is measured without MPI, and for its fabric where it has none.
WITHOUT_MPI: Mapping[str, Mapping[str, Any]] = {
    catalogue.MEMORY: {"stack": "builtin", "fabric": node_memory.FABRIC, "nodes": 1, "pinning": "bunch"},
    **{group: {"stack": "builtin", "nodes": 2, "pinning": "default"} for group in catalogue.PAIRS},
}
#: Base class of the tests below MPI that are for three nodes or more.
WIRE_MAP = "WireMapTest"
_METRIC = re.compile(rf"(?P<name>.+?)(?:\.(?P<size>[0-9]{{{catalogue.SIZE_DIGITS}}}))?")


@lru_cache(maxsize=4)
def _classes(folder: Path) -> tuple[ast.ClassDef, ...]:
    """Classes of the test files; nothing is imported."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.py")))
    return tuple(node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


@lru_cache(maxsize=4)
def tests(folder: Path = TESTS) -> Mapping[str, str]:
    """Test to its group, as its class body assigns it."""
    assigned = ((node.name, row) for node in _classes(folder) for row in node.body if isinstance(row, ast.Assign))
    return {
        test: str(row.value.value)
        for test, row in assigned
        if [to.id for to in row.targets if isinstance(to, ast.Name)] == ["group"]
        and isinstance(row.value, ast.Constant)
        and row.value.value in catalogue.GROUPS
    }


@lru_cache(maxsize=4)
def maps_of_the_wire(folder: Path = TESTS) -> frozenset[str]:
    """Tests below MPI that measure on as many nodes as there are, by the name of their base class."""
    named = ((node.name, base) for node in _classes(folder) for base in node.bases)
    return frozenset(test for test, base in named if isinstance(base, ast.Name) and base.id == WIRE_MAP)


@lru_cache(maxsize=64)
def _metrics(group: str) -> Mapping[str, tuple[Quantity, frozenset[int | None]]]:
    return catalogue.planned_metrics(group)


def quantity_of(test: str, metric: str) -> Quantity | None:
    """Quantity of a metric; ``None`` if the test never gives one of that name and size."""
    found = _METRIC.fullmatch(metric)
    if not found or test not in tests():
        return None
    size = int(found["size"]) if found["size"] else None
    planned, start = _metrics(tests()[test]), found["name"].partition(".")[0] + "."
    exact, sizes = planned.get(found["name"], (None, frozenset()))
    if exact and size in sizes:
        return exact
    for pattern, (quantity, sizes) in planned.items():  # only those of the benchmark: there are thousands under all options
        if pattern.startswith(start) and fnmatch.fnmatchcase(found["name"], pattern) and size in sizes:
            return quantity
    return None


def problems(keys: tuple[Any, ...], system: Mapping[str, Any] | None) -> Iterator[str]:
    """What is wrong with the keys of one entry, outermost first, each with what could have been meant.

    :param keys: test, partition, stack, fabric, nodes, processes per node, pinning, metric.
    :param system: the system's description; ``None`` where there is none, and then only test, pinning and metric are asked.
    """
    test, partition, stack, fabric, nodes, ppn, pinning, metric = keys
    if test not in tests():
        yield f"there is no test '{test}'{_meant(test, tests())}"
        return
    if pinning not in PINNING_POLICIES:
        yield f"there is no pinning policy '{pinning}'{_meant(pinning, PINNING_POLICIES)}"
    growing = nodes == ALL_NODES and type(nodes) is int and benchmark.grow(catalogue.rows(tests()[test]))
    for what, number in (("nodes", 1 if growing else nodes), ("processes per node", ppn)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            yield f"'{number}' is not a number of {what}; symbolic names are resolved before references are looked up"
    if quantity_of(test, str(metric)) is None:
        yield f"{test} never gives a metric '{metric}'{_meant_metric(test, str(metric))}"
    if system is None:
        return
    described = {f"{system['name']}:{row['name']}": row["extras"] for row in system["partitions"]}
    if partition not in described:
        yield f"there is no partition '{partition}'{_meant(str(partition), described)}"
        return
    extras = described[partition]
    if alone := WITHOUT_MPI.get(tests()[test]):
        given = {"stack": stack, "fabric": fabric, "nodes": nodes, "pinning": pinning}
        yield from (
            f"{test} is measured without MPI: its {name} is {wanted}, not {given[name]}"
            for name, wanted in alone.items()
            if given[name] != wanted and not (name == "nodes" and test in maps_of_the_wire())
        )
        if "fabric" not in alone and fabric not in extras.get("fabrics", {}):
            yield f"partition '{partition}' has no fabric '{fabric}'{_meant(str(fabric), extras.get('fabrics', {}))}"
        return
    patterns = extras.get("stacks", ["*"])
    if not any(fnmatch.fnmatchcase(str(stack), pattern) for pattern in patterns):
        yield f"partition '{partition}' enters no stack '{stack}' (its stacks: {', '.join(patterns)})"
    fabrics = extras.get("fabrics", {})
    if fabric not in fabrics:
        yield f"partition '{partition}' has no fabric '{fabric}'{_meant(str(fabric), fabrics)}"
    else:
        counts = [1] if fabrics[fabric]["scope"] == SCOPE_NODE else list(extras.get("node_counts", [2]))
        if nodes not in counts and not (growing and max(counts) > 1):
            yield f"'{fabric}' of partition '{partition}' is measured on {_listed(counts)} nodes, not on {nodes}"


def _meant_metric(test: str, metric: str) -> str:
    """The nearest name among those of the nearest benchmark: under all options a test has a hundred thousand names."""
    planned = _metrics(tests()[test])
    starts = {name.partition(".")[0] for name in planned}
    start = next(iter(difflib.get_close_matches(metric.partition(".")[0], sorted(starts), n=1)), None)
    named = {name: sizes for name, (_, sizes) in planned.items() if name.partition(".")[0] == start}
    bare = metric.rpartition(".")[0] if metric.rpartition(".")[2].isdecimal() else metric
    close = {name: named[name] for name in difflib.get_close_matches(bare, sorted(named), n=3)}
    names = [
        name if size is None else f"{name}.{size:0{catalogue.SIZE_DIGITS}d}"
        for name, sizes in close.items()
        for size in sorted(sizes, key=lambda size: size or 0)
    ]
    return _meant(metric, names)


def _meant(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _listed(counts: Iterable[int]) -> str:
    return ", ".join(map(str, counts))
