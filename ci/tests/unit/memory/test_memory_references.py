"""References of STREAM: the keys that stand for stack, fabric, nodes and pinning of what is measured without MPI."""

from __future__ import annotations

from typing import Any

import pytest

from reframe_tests.harness.sites import references
from reframe_tests.harness.suites.node_memory import KERNELS, PAGE_CACHES, PLACEMENTS

SYSTEM = {"name": "big", "partitions": [{"name": "cpu", "extras": {"fabrics": {}, "stacks": ["mpich-*"]}}]}
METRIC = "Triad.local_cache_as_is.bandwidth"
RIGHT = ("Stream", "big:cpu", "builtin", "memory", 1, 64, "bunch", METRIC)


def faults(**changed: Any) -> list[str]:
    names = ("test", "partition", "stack", "fabric", "nodes", "ppn", "pinning", "metric")
    keys = tuple(changed.get(name, value) for name, value in zip(names, RIGHT, strict=True))
    return [fault] if (fault := references.fault_of_keys(keys, SYSTEM)) else []


def test_every_variant_may_have_a_reference() -> None:
    assert faults() == []
    for kernel in KERNELS:
        for memory in PLACEMENTS:
            for cache in PAGE_CACHES:
                assert faults(metric=f"{kernel}.{memory}_cache_{cache}.bandwidth") == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"stack": "mpich-wheels"}, "Stream is measured without MPI: its stack is builtin, not mpich-wheels"),
        ({"fabric": "shm"}, "its fabric is memory, not shm"),
        ({"nodes": 2}, "its nodes is 1, not 2"),
        ({"pinning": "scatter"}, "its pinning is bunch, not scatter"),
        ({"partition": "big:gpu"}, "there is no partition 'big:gpu'"),
        ({"metric": "Triad.bandwidth"}, "Stream never gives a metric 'Triad.bandwidth'"),
        ({"metric": f"{METRIC}.0000000008"}, "Stream never gives a metric"),
    ],
)
def test_a_key_that_no_case_looks_up_is_refused(changed: dict[str, Any], said: str) -> None:
    [sentence] = faults(**changed)
    assert said in sentence
