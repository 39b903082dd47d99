"""Whether ``PairMap``'s instrument and IMB say the same of one pair of nodes: ``python -m
studies.pair_agreement --runs 5``.

Brings up a cluster of its own, once. Each run is a session on the same two nodes: ``PairMap`` of
these two, and IMB's PingPong, whose bandwidth is that of a message at a time and whose latency is
that of an empty one. One line of JSON is appended to ``--out`` for each run, and the table shows
how often one is of the other, and how far runs of each are apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mpibench.store.sessions import Session, read_session
from mpibench_cluster.plan import LEAF_FABRIC
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY
from reframe_tests.harness.vocabulary import BadInput

from . import located_faults

#: Nodes of the smallest cluster with leaf switches; those that are measured are below one of them.
_NODES = 5
_PAIR = "c1,c2"
#: What is compared: quantity of the map to benchmark, quantity and
#: message sizes of IMB, the first of which there is.
COMPARED: Mapping[str, tuple[str, str, tuple[int, ...]]] = {
    LATENCY: ("PingPong", "latency_us", (8, 0)),
    BANDWIDTH: ("PingPong", "bandwidth_mb_per_s", (1 << 20,)),
}


def values_of(session: Session) -> dict[str, dict[str, float]]:
    """For each quantity what the map and what IMB has, each the
    median over both directions and all repeats.

    :raises BadInput: one of them was not measured.
    """
    found: dict[str, dict[str, float]] = {}
    for quantity, (benchmark, measured, sizes) in COMPARED.items():
        own = [
            row.value
            for case in session.cases
            if case.pair_map
            for row in case.pair_map.rows()
            if row.quantity == quantity and row.value is not None
        ]
        samples = [
            sample
            for size in sizes
            for case in session.cases
            for sample in case.samples
            if (sample.benchmark, sample.quantity, sample.message_bytes)
            == (benchmark, measured, size)
        ]
        theirs = [value for value in (samples[0].values if samples else ()) if value is not None]
        if not own or not theirs:
            reasons = "; ".join(case.reason for case in session.cases if case.reason)
            raise BadInput(
                "tool-failed",
                f"{quantity} was not measured by both "
                f"({reasons[:200] or 'no reason was stored'}): measure again.",
            )
        found[quantity] = {"map": statistics.median(own), benchmark: statistics.median(theirs)}
    return found


def table(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each quantity."""
    for quantity, (benchmark, _, _) in COMPARED.items():
        own = [row[quantity]["map"] for row in records]
        theirs = [row[quantity][benchmark] for row in records]
        ratios = [mine / other for mine, other in zip(own, theirs, strict=True)]
        said = (
            f"map {_spread(own)}, {benchmark} {_spread(theirs)}, one to the other {_spread(ratios)}"
        )
        yield f"{quantity}, {len(records)} runs: {said}"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("pair-agreement.jsonl"),
        help="records, one a line; is added to",
    )
    parser.add_argument("--stack", default="mpich-wheels")
    parser.add_argument("--show", action="store_true", help="only print the table of --out")
    asked = parser.parse_args(argv)
    if not asked.show:
        with located_faults.own_cluster(_NODES) as (cluster, folder):
            series = located_faults.Series(
                cluster, folder, asked.stack, (), located_faults.maps_of(asked.out)
            )
            for run in range(asked.runs):
                options = (
                    "-c",
                    str(located_faults.ROOT / "reframe_tests" / "point_to_point.py"),
                    "-n",
                    f"ImbPointToPoint%fabric={LEAF_FABRIC.name}%nodes=2%ppn=1%pinning=default",
                    "-P",
                    "nodes=2",
                    "-S",
                    "level=smoke",
                    "-J",
                    f"nodelist={_PAIR}",
                    "--exec-policy=serial",
                )
                session = read_session(series.measure(f"agreement-{run}", options) / "results.db")
                record = {
                    "stack": asked.stack,
                    "load": round(os.getloadavg()[0], 1),
                    **values_of(session),
                }
                located_faults.append(asked.out, record)
                print(json.dumps(record), flush=True)
    print("\n".join(table(located_faults.read(asked.out))))


if __name__ == "__main__":
    main()
