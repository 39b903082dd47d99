"""Faults on a real mini-cluster, and whom ``mpibench locate`` names: ``python -m
studies.located_faults --nodes 8 --runs 20``.

Brings up a cluster of its own, once. Each run makes one fault at a place drawn by chance, measures
a map with ``PairMap`` as a user does, asks ``locate``, and undoes the fault. One line of JSON is
appended to ``--out`` for each run: a series that was interrupted goes on where it stopped, and
``--minutes`` begins no run that would take longer than that. ``--show`` prints the table of a file.
Runs of all faults take turns, so that a part of a series has as many of each. The map of each run
is kept beside the file (``FILE.maps/``), and ``--peers`` applies the rules of two other programs
(:mod:`.peer_rules`) to these.

found       anything that is flagged is the faulty thing
named       it is flagged in the direction and by the quantity it is bad in (:data:`FAULTS`)
wrong       other things that are flagged: false positives
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpibench import whole_file
from mpibench.locate import answers, judgement, maps
from mpibench.locate.findings import Flagged, MapJudgement
from mpibench.locate.maps import BOTH, LINK, NODE, RECEIVES, SENDS, UPLINK, Places
from mpibench.store.sessions import read_session
from mpibench_cluster import faults, lifecycle, state
from mpibench_cluster.plan import DEFAULT_LAYOUT, LEAF_FABRIC, ClusterPlan
from mpibench_cluster.plan import make as make_plan
from reframe_tests.harness.instruments.pairs.pair_values import (
    BANDWIDTH,
    LATENCY,
    MEAN,
    PairMap,
    read_pair_map,
)
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import BadInput

from . import peer_rules

#: Seconds after which ReFrame hangs; of a map of a busy machine it needs a part.
_LIMIT_S = 900
#: Layout of the cluster's nodes.
_LAYOUT = DEFAULT_LAYOUT


@dataclass(frozen=True)
class Made:
    """A fault in force.

    :param name: of :data:`mpibench_cluster.faults.FAULTS`; ``what``: its parameters.
    :param thing: the node or leaf switch that is faulty; ``is_named``:
        whether a finding names it rightly.
    """

    name: str
    what: Mapping[str, Any]
    thing: str
    is_named: Callable[[MapJudgement], bool]

    def is_found(self, finding: Flagged) -> bool:
        """Whether a finding is of the faulty thing."""
        kinds = (LINK, UPLINK) if "leaf" in self.what else (NODE,)
        return finding.kind in kinds and self.thing in finding.names


def _named(
    thing: str, kinds: Sequence[str], quantities: Sequence[str], ways: Sequence[str]
) -> Callable[[MapJudgement], bool]:
    def check(answer: MapJudgement) -> bool:
        return any(
            thing in one.names
            and one.kind in kinds
            and one.quantity in quantities
            and one.way in ways
            for one in answer.findings
        )

    return check


def _of_node(
    name: str, quantities: Sequence[str], ways: Sequence[str], **what: Any
) -> Callable[[str], Made]:
    def make(node: str) -> Made:
        where = {"node": node} if name == "slow-cpu" else {"node": node, "fabric": LEAF_FABRIC.name}
        return Made(name, {**where, **what}, node, _named(node, (NODE,), quantities, ways))

    return make


def _uplink(leaf: str) -> Made:
    what = {"leaf": leaf, "fraction": 0.25, "direction": "both"}
    return Made(
        "slow-uplink",
        what,
        leaf,
        _named(leaf, (LINK, UPLINK), (BANDWIDTH,), (SENDS, RECEIVES, BOTH)),
    )


def _mtu(node: str) -> Made:
    what = {"node": node, "fabric": LEAF_FABRIC.name, "mtu": 1400}
    return Made("mtu", what, node, lambda answer: node in answer.evident)


_ANY = (SENDS, RECEIVES, BOTH)
_sends = _of_node("slow-port", (BANDWIDTH,), (SENDS,), fraction=0.5, direction="send")
_delayed = _of_node("delay", (LATENCY,), (BOTH,), delay_us=1000, direction="both")
#: Kind to what makes its faults, one a place.
FAULTS: Mapping[str, tuple[Callable[[str], Made], ...]] = {
    "healthy": (),
    "slow-send": (_sends,),
    "slow-receive": (
        _of_node("slow-port", (BANDWIDTH,), (RECEIVES,), fraction=0.5, direction="receive"),
    ),
    "slow-both": (_of_node("slow-port", (BANDWIDTH,), (BOTH,), fraction=0.5, direction="both"),),
    "slow-uplink": (_uplink,),
    "lossy-cable": (_of_node("lossy-cable", (BANDWIDTH,), _ANY, loss=0.01, direction="both"),),
    "delay": (_delayed,),
    "mtu": (_mtu,),
    "slow-cpu": (_of_node("slow-cpu", (LATENCY, MEAN), (BOTH,), fraction=0.25),),
    "flapping": (
        _of_node(
            "flapping",
            (BANDWIDTH,),
            (SENDS,),
            fraction=0.1,
            direction="send",
            bad_s=1.0,
            good_s=3.0,
        ),
    ),
    "two": (_sends, _delayed),
}


def draw(kind: str, run: int, seed: int, plan: ClusterPlan) -> list[Made]:
    """The faults of a run, at different places that depend on nothing else."""
    chance = random.Random(f"{seed} {kind} {run} {plan.compute}")
    places = (
        [leaf.name for leaf in plan.leaves]
        if kind == "slow-uplink"
        else [node.name for node in plan.compute_nodes]
    )
    chosen = chance.sample(places, len(FAULTS[kind]))
    return [make(place) for make, place in zip(FAULTS[kind], chosen, strict=True)]


def score(answer: MapJudgement, made: Sequence[Made]) -> dict[str, Any]:
    """Which faults were found and rightly named, and what else is flagged."""
    found = [
        any(map(one.is_found, answer.findings))
        or ("node" in one.what and one.thing in answer.evident)
        for one in made
    ]
    wrong = [
        f"{finding.kind} {' and '.join(finding.names)}"
        for finding in answer.findings
        if not any(one.is_found(finding) for one in made)
    ]
    wrong += [
        f"{NODE} {node}" for node in answer.evident if not any(one.thing == node for one in made)
    ]
    return {
        "faults": len(made),
        "found": sum(found),
        "named": sum(one.is_named(answer) for one in made),
        "false_positives": sorted(set(wrong)),
        "inconclusive": list(answer.inconclusive),
    }


def maps_of(records: Path) -> Path:
    """Folder of the maps of a file of records."""
    return records.with_name(f"{records.name}.maps")


def keep_map(folder: Path, record: Mapping[str, Any], measured: PairMap) -> dict[str, str]:
    """Write a map as it is stored with a session; what the record says of it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{record['nodes']}-{record['seed']}-{record['fault']}-{record['run']}.json"
    whole_file.write_text(folder / name, json.dumps(measured.as_dict()))
    return {"map": name}


def peers(path: Path) -> Iterator[str]:
    """Who is named by us and by two other rules on the maps of a series,
    a line for each number of nodes and fault.

    :raises BadInput: a map of the series is not there, or is damaged.
    """
    tallies: dict[tuple[int, str], dict[str, list[dict[str, Any]]]] = {}
    for row in read(path):
        if "map" not in row:
            continue
        file = maps_of(path) / row["map"]
        try:
            measured = read_pair_map(json.loads(file.read_text()), str(file))
        except (OSError, ValueError) as error:
            raise BadInput(
                "tool-failed",
                f"{file}: the map of a run cannot be read ({error}): give the --out of a series "
                "whole.",
            ) from None
        assert measured is not None
        made = draw(row["fault"], row["run"], row["seed"], make_plan(row["nodes"], _LAYOUT))
        named = {"locate": nodes_named(measured), **peer_rules.on_map(measured)}
        for rule, nodes in named.items():
            tallies.setdefault((row["nodes"], row["fault"]), {}).setdefault(rule, []).append(
                score_nodes(nodes, made)
            )
    for (nodes, kind), rules in tallies.items():
        for rule, scores in rules.items():
            count = sum(one["faults"] for one in scores)
            found = (
                f"{sum(one['found'] for one in scores)} of {count} faulty nodes named, "
                if count
                else ""
            )
            wrong = [one["false_positives"] for one in scores]
            yield (
                f"{nodes:3} nodes, {kind:13} {rule:10} {len(scores):3} runs: {found}{sum(wrong)} "
                f"healthy nodes named in {sum(map(bool, wrong))} runs"
            )


def nodes_named(measured: PairMap) -> set[str]:
    """Nodes that ``locate`` flags by their times alone, as the other rules know nothing else."""
    places, _ = maps.places_of(measured.tree, measured.nodes)
    meant = None if measured.oversubscription is None else measured.oversubscription > 1
    return set(judgement.judge(maps.prepare(measured)[0], places, {}, oversubscribed=meant).flagged)


def score_nodes(named: set[str], made: Sequence[Made]) -> dict[str, int]:
    """Of the nodes that a rule names those that are faulty, and the others.
    A switch is no node, nor are those below it.
    """
    faulty = {one.thing for one in made if "node" in one.what}
    return {
        "faults": len(faulty),
        "found": len(named & faulty),
        "false_positives": len(named - faulty),
    }


class Series:
    """Runs on one cluster."""

    def __init__(
        self, cluster: state.State, folder: Path, stack: str, options: Sequence[str], maps: Path
    ) -> None:
        self.maps = maps
        self.plan = cluster.plan
        self.folder = folder
        self.stack = stack
        self.options = tuple(options)

    def run(self, kind: str, number: int, seed: int) -> dict[str, Any]:
        """One run: its record, also where nothing could be measured."""
        made = draw(kind, number, seed, self.plan)
        began = time.time()
        load = os.getloadavg()[0]
        record: dict[str, Any] = {
            "fault": kind,
            "run": number,
            "seed": seed,
            "nodes": self.plan.compute,
            "stack": self.stack,
            "started": began,
            "where": [" ".join([one.name, *map(str, one.what.values())]) for one in made],
            "load": round(load, 1),
        }
        try:
            for one in made:
                faults.make(one.name, **one.what)
            measuring = time.monotonic()
            answer, measured, launch_s = self._locate(f"{kind}-{number}")
            seconds = time.monotonic() - measuring
        except (BadInput, subprocess.SubprocessError) as error:
            return {
                **record,
                "error": str(error)[:300],
                **score(MapJudgement((), Places({}), ()), made),
            }
        finally:
            faults.clear(lambda text: None)
        said = [*answer.evident.values(), *(answer.say(finding) for finding in answer.findings)]
        record |= {
            "said": said,
            "status": answer.status,
            "seconds": round(seconds, 1),
            "launch_s": launch_s,
        }
        return {**record, **score(answer, made), **keep_map(self.maps, record, measured)}

    def _locate(self, name: str) -> tuple[MapJudgement, PairMap, float | None]:
        """Measure as a user does, and ask; with the map, and the seconds of its launch.

        :raises BadInput: no map was stored.
        """
        folder = self.measure(name, self.options)
        session = read_session(folder / "results.db")
        for case in session.cases:
            if case.pair_map:
                launched = [
                    float(path.read_text().split()[3]) for path in folder.rglob("launches.txt")
                ]
                return answers.answer_of(session, case), case.pair_map, max(launched, default=None)
        raise BadInput(
            "tool-failed",
            f"no map was stored: {'; '.join(case.reason for case in session.cases)[:200]}",
        )

    def measure(self, name: str, options: Sequence[str]) -> Path:
        """Folder of a session with a map.

        :raises BadInput: no session was stored.
        """
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        settings = {
            "RFM_CONFIG_FILES": str(ROOT / "site_configs" / "settings.py"),
            "RFM_PREFIX": str(folder),
            "RFM_SQLITE_DB_FILE": str(folder / "results.db"),
            "RFM_SAVE_LOG_FILES": "no",
        }
        programs = Path(sys.executable).parent
        words = [
            str(programs / "mpibench"),
            "cluster",
            "exec",
            "--",
            "env",
            *(f"{key}={value}" for key, value in settings.items()),
            str(programs / "reframe"),
            "-c",
            str(ROOT / "reframe_tests" / "parallel_transfer.py"),
            "-r",
            "-n",
            f"PairMap%fabric={LEAF_FABRIC.name}",
            "-p",
            self.stack,
            f"--system=minicluster:{LEAF_FABRIC.name}",
            *options,
        ]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S)
        if not (folder / "results.db").exists():
            raise BadInput(
                "tool-failed", f"ReFrame stored no session: {(done.stderr or done.stdout)[-200:]}"
            )
        return folder

    def _launch_s(self, name: str, *options: str) -> float:
        """Seconds of the one launch of a session, the start of MPI in it.

        :raises BadInput: it did not end well.
        """
        for path in self.measure(name, ("-S", "orders=1", *options)).rglob("launches.txt"):
            _, _, status, seconds = path.read_text().split()
            if status == "0":
                return float(seconds)
        raise BadInput(
            "tool-failed",
            f"the launch of {name} failed: look at it with 'mpibench cluster exec' and ReFrame.",
        )

    def speed(self, runs: int) -> str:
        """Seconds of one pass over all pairs after one start, beside a launch for each pair;
        medians of the launches alone.
        """
        nodes = self.plan.compute
        pairs = nodes * (nodes - 1) // 2
        whole = statistics.median(self._launch_s("map") for _ in range(runs))
        one = statistics.median(self._launch_s("pair", "-P", "nodes=2") for _ in range(runs))
        return (
            f"{nodes} nodes, medians of {runs}: one start {whole:.1f} s; a launch a pair "
            f"{one:.2f} s, {pairs} of them {pairs * one:.0f} s: {pairs * one / whole:.1f} times "
            f"as long; load {os.getloadavg()[0]:.1f}"
        )


@contextmanager
def own_cluster(nodes: int) -> Iterator[tuple[state.State, Path]]:
    """A cluster that nobody else uses and a folder that its
    nodes see, taken down whatever happens.
    """
    with tempfile.TemporaryDirectory(
        prefix="mpibench-located-faults-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        (folder / "runs").mkdir()
        os.environ[state.RUNTIME_VARIABLE] = str(folder / "cluster")
        try:
            yield lifecycle.up(nodes, _LAYOUT, [folder], lambda text: None), folder / "runs"
        finally:
            lifecycle.down(lambda text: None)


def read(path: Path) -> list[dict[str, Any]]:
    """Records of a file; a last line that was cut off is none.

    :raises BadInput: another line is not a record.
    """
    found = []
    lines = path.read_text().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise BadInput(
                    "tool-failed",
                    f"{path}, line {number} is not a record of this study: give another --out.",
                ) from None
    return found


def append(path: Path, record: Mapping[str, Any]) -> None:
    text = path.read_text() if path.exists() else ""
    whole = text if not text or text.endswith("\n") else text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def table(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What a series says, a line for each number of nodes and fault."""
    for nodes in sorted({row["nodes"] for row in records}):
        for kind in FAULTS:
            rows = [row for row in records if (row["nodes"], row["fault"]) == (nodes, kind)]
            if not rows:
                continue
            count = sum(row["faults"] for row in rows)
            of_faults = (
                f"{sum(row['found'] for row in rows)} found, {sum(row['named'] for row in rows)} "
                f"named of {count}, "
            )
            wrong = sum(len(row["false_positives"]) for row in rows)
            took = [row["seconds"] for row in rows if "seconds" in row]
            unclear = sum(bool(row["inconclusive"]) for row in rows)
            load = statistics.median(row["load"] for row in rows)
            seconds = (
                f"median {statistics.median(took):.0f} s, most {max(took):.0f} s"
                if took
                else "none measured"
            )
            failed = sum("error" in row for row in rows)
            yield (
                f"{nodes:3} nodes, {kind:13} {len(rows):3} runs: "
                f"{of_faults if count else ''}{wrong} false positives in "
                f"{sum(bool(row['false_positives']) for row in rows)} runs, "
                f"{unclear} not all decided, "
                f"{failed} not measured; {seconds}; load {load:.1f}"
            )


def main(argv: Sequence[str] | None = None) -> None:
    """Run what the file lacks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--runs", type=int, default=20, help="of each fault")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="repeatable; default: all")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("located-faults.jsonl"),
        help="records, one a line; is added to",
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="begin no run that would end later"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stack", default="mpich-wheels")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of PairMap, as -S of ReFrame",
    )
    parser.add_argument(
        "--speed",
        action="store_true",
        help="only time maps, and a launch a pair, --runs times each",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="only print who is named on the maps of --out by other rules, too",
    )
    parser.add_argument("--show", action="store_true", help="only print the table of --out")
    asked = parser.parse_args(argv)
    if asked.show or asked.peers:
        print("\n".join(peers(asked.out) if asked.peers else table(read(asked.out))))
        return
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    begin = time.monotonic()
    known = {(row["nodes"], row["seed"], row["fault"], row["run"]) for row in read(asked.out)}
    planned = [(kind, run) for run in range(1, asked.runs + 1) for kind in asked.fault or FAULTS]
    left = [
        (kind, run) for kind, run in planned if (asked.nodes, asked.seed, kind, run) not in known
    ]
    longest = 0.0
    options = [word for one in asked.set for word in ("-S", one)]
    with own_cluster(asked.nodes) as (cluster, folder):
        series = Series(cluster, folder, asked.stack, options, maps_of(asked.out))
        if asked.speed:
            print(series.speed(asked.runs))
            return
        for kind, run in left:
            began = time.monotonic()
            if began - begin + longest > 60 * asked.minutes:
                break
            record = series.run(kind, run, asked.seed)
            append(asked.out, record)
            longest = max(longest, time.monotonic() - began)
            print(
                json.dumps(
                    {
                        name: record.get(name)
                        for name in ("fault", "where", "named", "false_positives", "said", "error")
                    }
                ),
                flush=True,
            )
    print("\n".join(table(read(asked.out))))


if __name__ == "__main__":
    main()
