"""Maps of pairs with known faults, as the test stores them: 11 MB/s and
50 us where nothing is wrong, and some noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np

from mpibench.store import dataset
from mpibench.store.sessions import Case, Session
from reframe_tests.harness.instruments import schedule
from reframe_tests.harness.instruments.pairs.pair_values import (
    BANDWIDTH,
    LATENCY,
    MEAN,
    PairMap,
    PairValue,
)
from reframe_tests.harness.machine.switch_paths import gpu_of
from reframe_tests.harness.machine.switches import SLURM, Switch, SwitchTree
from reframe_tests.harness.samples import read_evidence

MB_PER_S = 11.0
US = 50.0
#: Factor of the time of a pair: (quantity, source, target, round) to 1.0 where nothing is wrong.
Slow = Callable[[str, str, str, int], float]


def names(count: int) -> tuple[str, ...]:
    return tuple(f"c{number + 1}" for number in range(count))


def tree_of(count: int, leaf: int) -> SwitchTree:
    """Leaves of so many nodes below one spine."""
    nodes = names(count)
    leaves = {
        f"leaf{number + 1}": Switch("spine", nodes[first : first + leaf])
        for number, first in enumerate(range(0, count, leaf))
    }
    return SwitchTree(SLURM, {"spine": Switch(), **leaves})


def pair_map(
    count: int = 8,
    slow: Slow = lambda quantity, source, target, round_: 1.0,
    *,
    leaf: int | None = 4,
    orders: int = 2,
    seed: int = 1,
    noise: float = 0.02,
    silent: Mapping[str, str] | None = None,
    uplink: float | None = None,
    oversubscription: float | None = None,
) -> PairMap:
    """All pairs in some orders, both directions; a silent node
    gives no value from the second order on.

    :param uplink: messages that the uplinks carry at full rate, of which
        those going the other way take a share, too.
    """
    nodes = names(count)
    rng = np.random.default_rng(seed)
    rounds = schedule.circle_rounds(count)
    rows: list[PairValue] = []
    number = 0
    for order in range(1, orders + 1):
        for pairs in schedule.in_order(rounds, order, seed):
            number += 1
            for phase in (1, 2):
                for first, second in pairs:
                    source, target = (nodes[first], nodes[second])[:: 1 if phase == 1 else -1]
                    gone = order > 1 and bool({source, target} & set(silent or {}))
                    for quantity, size, healthy in (
                        (LATENCY, 8, US),
                        (MEAN, 8, US),
                        (BANDWIDTH, 1 << 20, MB_PER_S),
                    ):
                        factor = slow(quantity, source, target, number) * np.exp(
                            rng.exponential(noise)
                        )
                        if (
                            uplink
                            and quantity == BANDWIDTH
                            and leaf
                            and nodes.index(source) // leaf != nodes.index(target) // leaf
                        ):
                            factor *= max(1.0, _load(pairs, leaf) / uplink)
                        value = healthy / factor if quantity == BANDWIDTH else healthy * factor
                        rows.append(
                            PairValue(
                                order,
                                number,
                                phase,
                                source,
                                target,
                                quantity,
                                size,
                                1,
                                None if gone else value,
                                None if gone else True,
                            )
                        )
    tree = tree_of(count, leaf) if leaf else None
    return PairMap(
        "all", seed, number, nodes, dict(silent or {}), tuple(rows), tree, oversubscription
    )


def of_one_node(measured: PairMap, node: str = "n1") -> PairMap:
    """The map of as many GPUs of one node, with no switches."""
    gpu = {name: gpu_of(node, place) for place, name in enumerate(measured.nodes)}
    rows = tuple(
        row._replace(source=gpu[row.source], target=gpu[row.target]) for row in measured.values
    )
    return replace(measured, nodes=tuple(gpu.values()), values=rows, tree=None)


def _load(pairs: Sequence[tuple[int, int]], leaf: int) -> int:
    """Of two leaves, the messages that go the way that more go."""
    up = sum(first // leaf < second // leaf for first, second in pairs)
    return max(up, sum(first // leaf > second // leaf for first, second in pairs))


def sends_slowly(node: str, times: float) -> Slow:
    return lambda quantity, source, target, round_: (
        times if quantity == BANDWIDTH and source == node else 1.0
    )


def late(node: str, times: float, quantities: Sequence[str] = (LATENCY, MEAN)) -> Slow:
    return lambda quantity, source, target, round_: (
        times if quantity in quantities and node in (source, target) else 1.0
    )


def across(leaves: Sequence[Sequence[str]], times: float) -> Slow:
    """All pairs from the first group to the second."""
    first, second = (set(leaf) for leaf in leaves)
    return lambda quantity, source, target, round_: (
        times if quantity == BANDWIDTH and source in first and target in second else 1.0
    )


def session_of(
    *maps: PairMap | None,
    status: str = "proven",
    result: str = "pass",
    links: Sequence[Mapping[str, Any]] = (),
    transport: str = "",
) -> Session:
    cases = []
    for number, measured in enumerate(maps):
        entry = {
            "system": "minicluster",
            "partition": "eth100m",
            "environ": "mpich-wheels",
            "result": result,
            "name": f"PairMap {number}",
            "condition": {},
            "fail_phase": "sanity" if result == "fail" else "",
        }
        condition = {
            "stack": "mpich-wheels",
            "fabric": "eth100m",
            "nodes": 8,
            "ppn": 1,
            "line_rate_gbit_per_s": 0.1,
        }
        condition |= {"transport": transport} if transport else {}
        proof = read_evidence(
            {"verdict": status, "ranks": [], "devices": [], "links": list(links)}, "here"
        )
        sample = _sample()
        cases.append(Case(f"s:0:{number}", 0, entry, condition, (sample,), proof, (), measured))
    return Session(
        {"uuid": "0123abcd-0000", "time_start_unix": 1.0, "time_elapsed": 60.0}, tuple(cases)
    )


#: Start of the first session of :func:`export_map`.
MAPS_BEGAN = datetime(2026, 11, 1, 2, tzinfo=timezone.utc)


def export_map(folder: Path, number: int, measured: PairMap, status: str = "proven") -> str:
    """Add a session with a map to a dataset, so many days after the first; its id."""
    session = session_of(measured, status=status)
    uuid = f"aaaa000{number}-1"
    started = (MAPS_BEGAN + timedelta(days=number)).timestamp()
    info = {**session.info, "uuid": uuid, "time_start_unix": started, "time_end_unix": started + 60}
    cases = tuple(replace(case, uuid=f"{uuid}:0:{at}") for at, case in enumerate(session.cases))
    dataset.export_session(replace(session, info=info, cases=cases), folder)
    return uuid


def _sample() -> Any:
    from reframe_tests.harness.samples import Sample

    return Sample(
        "pair_map", "pairs", "pair_map", 8, 1, "", 1 << 20, 3, "bandwidth_p50_mb_per_s", (MB_PER_S,)
    )
