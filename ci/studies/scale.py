"""What grows with a machine, and how: ``python -m studies.scale QUESTION``.

Each question prints a line of JSON for each size, with seconds of processor time, of all threads,
and the peak of memory of a process that does nothing else. What no machine here has is
simulated, and the page says so.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mpibench import cli
from mpibench.locate import answers
from mpibench.pages.map import page
from mpibench.store.store import Store
from reframe_tests.harness.cases.job import script
from reframe_tests.harness.evidence import rank_records
from reframe_tests.harness.instruments import reading, schedule
from reframe_tests.harness.instruments.pairs.pair_values import (
    BANDWIDTH,
    LATENCY,
    MEAN,
    QUANTITIES,
    MapFile,
    PairMap,
    read_pair_map,
)
from reframe_tests.harness.machine.switches import YAML, Switch, SwitchTree
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.suites import instruments, reader
from reframe_tests.harness.suites.benchmark import Record

from . import simulated_map as simulated
from .session_cost import TRIVIAL
from .site_speed import BENCHMARKS, write_night

#: Of a healthy pair.
MB_PER_S = 12000.0
US = 1.5
#: What a process is given by the one before it.
OUTPUT = "map.1.out"


def _quantity(
    fabric: simulated.Fabric,
    asked: argparse.Namespace,
    faults: list[simulated.Fault],
    quantity: str,
    seed: int,
) -> pl.DataFrame:
    """Columns of a map of all pairs, or of a sample, as its file has them."""
    rng = np.random.default_rng(seed)
    orders = asked.orders
    rounds = orders * (
        simulated.matchings(fabric.size, asked.rounds, np.random.default_rng(seed))
        if asked.rounds
        else simulated.all_pairs(fabric.size)
    )
    noise = simulated.NOISES["slow tail"]
    late = quantity != BANDWIDTH
    seen = simulated.observe(fabric, rounds, faults, noise, rng, latency=late)
    moment = seen.moment.astype(np.uint32)
    table = pl.DataFrame(
        {
            "order": (moment // (len(rounds) // orders) + 1).astype(np.uint16),
            "round": moment + 1,
            "phase": (seen.together % 2 + 1).astype(np.uint8),
            "source": seen.source.astype(np.uint32),
            "target": seen.target.astype(np.uint32),
            "value": np.round(US * np.exp(seen.slowness), 3)
            if late
            else np.round(MB_PER_S * np.exp(-seen.slowness), 1),
        }
    )
    del seen
    if late:  # who began means nothing: both phases
        back = pl.col("target").alias("source"), pl.col("source").alias("target")
        table = pl.concat([table, table.with_columns(*back, phase=pl.lit(2, pl.UInt8))])
    return table.sort("round", "phase").select(
        "order",
        "round",
        "phase",
        "source",
        "target",
        quantity=pl.lit(quantity).cast(pl.Enum(QUANTITIES)),
        message_bytes=pl.lit(1 << 20 if quantity == BANDWIDTH else 8, pl.Int64),
        repeat=pl.lit(1, pl.UInt16),
        value="value",
        counted=pl.lit(True),
    )


def draw_map(size: int, asked: argparse.Namespace, folder: Path, seed: int = 1) -> dict[str, Any]:
    """Write the map of a fat tree with slow nodes and a slow uplink; its record."""
    fabric = simulated.fat_tree(size)
    rng = np.random.default_rng(seed)
    faults = simulated.place_faults(fabric, ["sends", "receives", "uplink"], 0.5, rng)
    late = simulated.place_faults(fabric, ["latency"], 0.5, rng)
    switches = {"top": Switch()}
    for leaf in range(int(fabric.leaf[-1]) + 1):
        below = np.flatnonzero(fabric.leaf == leaf).tolist()
        pod = f"pod{int(fabric.above[below[0]])}"
        switches.setdefault(pod, Switch("top"))
        switches[f"leaf{leaf}"] = Switch(pod, tuple(fabric.nodes[at] for at in below))
    parts = [folder / f"{name}.parquet" for name in QUANTITIES]
    for name, path in zip(QUANTITIES, parts, strict=True):
        own = faults if name == BANDWIDTH else late
        _quantity(fabric, asked, own, name, seed).write_parquet(path, compression="zstd")
    whole = folder / "whole.parquet"
    pl.scan_parquet(parts).sink_parquet(whole, compression="zstd", maintain_order=True)
    for path in parts:
        path.unlink()
    digest = subprocess.run(["sha256sum", whole], capture_output=True, text=True, check=True)
    file = MapFile(digest.stdout.split()[0], (str(folder),))
    whole.rename(folder / file.name)
    rounds = asked.orders * (asked.rounds or size + size % 2 - 1)
    tree = SwitchTree(YAML, switches)
    measured = PairMap(
        "sampled" if asked.rounds else "all", seed, rounds, fabric.nodes, {}, file, tree
    )
    truth = sorted(name for one in [*faults, *late] for name in next(iter(one.truth)).names)
    return {**measured.keep(folder), "truth": truth}


def print_map(size: int, asked: argparse.Namespace, folder: Path, seed: int = 1) -> None:
    """What the instrument prints of all pairs of such a fat tree: a step of a round is a line."""
    fabric = simulated.fat_tree(size)
    rng = np.random.default_rng(seed)
    noise = simulated.NOISES["slow tail"]
    faults = simulated.place_faults(fabric, ["sends", "receives", "uplink"], 0.5, rng)
    once = simulated.all_pairs(size)
    rounds = asked.orders * once
    slow = simulated.observe(fabric, rounds, faults, noise, rng)
    late = simulated.observe(fabric, rounds, [], noise, rng, latency=True)
    forth, back = np.split(np.round(MB_PER_S * np.exp(-slow.slowness), 1), 2)
    us = np.round(US * np.exp(late.slowness), 3)
    head = {
        "instrument": "pair_map",
        "format": reading.FORMAT,
        "ranks": size,
        "design": "all",
        "seed": seed,
        "rounds": len(once),
        "orders": asked.orders,
        "repeats": 1,
        "latency_count": 100,
        "message_count": 128,
        "switches": "Slurm",
        "nodes": [
            [node, [f"pod{above}", f"leaf{leaf}"]]
            for node, leaf, above in zip(fabric.nodes, fabric.leaf, fabric.above, strict=True)
        ],
    }
    with (folder / OUTPUT).open("w") as file:
        checksum = rows = 0

        def say(content: dict[str, Any]) -> None:
            nonlocal checksum
            line = json.dumps(content) + "\n"
            checksum = zlib.crc32(line.encode(), checksum)
            file.write(line)

        say(head)
        first = 0
        for number, (source, target) in enumerate(rounds):
            here = slice(first, first + len(source))
            first += len(source)
            times = us[here].tolist()
            for size_bytes, values in (
                (8, [[phase, name, times] for phase in (1, 2) for name in (LATENCY, MEAN)]),
                (1 << 20, [[1, BANDWIDTH, forth[here].tolist()]]),
                (1 << 20, [[2, BANDWIDTH, back[here].tolist()]]),
            ):
                rows += 1
                say(
                    {
                        "order": number // len(once) + 1,
                        "round": number + 1,
                        "repeat": 1,
                        "bytes": size_bytes,
                        "source": source.tolist(),
                        "target": target.tolist(),
                        "values": values,
                    }
                )
                say({"so_far": "pair_map", "rows": rows, "crc32": checksum})
        say({"seconds": 1.0})
        say({"end": "pair_map", "rows": rows, "crc32": checksum})


def read_map(folder: Path, _: argparse.Namespace) -> dict[str, Any]:
    """From what was printed to metrics and file, as the test of a map does."""
    began, before = time.process_time(), peak_mb()
    text = script.beginning_of(folder / OUTPUT, 1 << 60)
    size = len(text)
    kept = []

    def parse(text: str, source: str) -> list[Record]:
        kept.append(instruments.read_pairs(text, source))
        return instruments.pair_records(kept[0], source)

    reader.read(text, source=OUTPUT, parse=parse)
    del text
    (printed,) = kept
    printed.values.check(dict.fromkeys(printed.nodes, True))
    measured = PairMap(
        printed.design,
        printed.seed,
        printed.rounds,
        printed.nodes,
        printed.silent,
        printed.values,
        printed.tree,
    )
    measured.keep(folder)
    values = len(printed.values)
    return {
        "values": values,
        "text_mb": round(size / 1e6, 1),
        "seconds": round(time.process_time() - began, 1),
        "peak_mb": round(peak_mb()),
        "bytes_a_value": round((peak_mb() - before) * 1e6 / values, 1),
    }


def walk_rounds(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Make all rounds one after the other, as each rank of a map does."""
    nodes = int((folder / OUTPUT).read_text())
    began, before = time.process_time(), peak_mb()
    _, rounds = schedule.make([0] * nodes, asked.rounds, 1)
    pairs = sum(
        len(one)
        for order in range(1, asked.orders + 1)
        for one in schedule.in_order(rounds, order, 1)
    )
    return {
        "pairs": pairs,
        "seconds": round(time.process_time() - began, 1),
        "more_mb": round(peak_mb() - before, 1),
    }


def judge_map(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Judge a map as ``locate`` does, and make its page."""
    record = json.loads((folder / "record.json").read_text())
    truth = record.pop("truth")
    measured = read_pair_map(record, str(folder))
    assert measured is not None
    began, before = time.process_time(), peak_mb()
    answer = answers.judge_map(measured)
    seconds, peak = time.process_time() - began, peak_mb()
    values = measured.table().select(pl.len()).collect().item()
    assert isinstance(measured.values, MapFile)
    began = time.process_time()
    drawn = page([answer], "simulated")
    if asked.page:
        asked.page.write_text(drawn)
    named = sorted({name for finding in answer.findings for name in finding.names})
    return {
        "values": values,
        "file_mb": round(measured.values.path().stat().st_size / 1e6, 2),
        "seconds": round(seconds, 1),
        "peak_mb": round(peak),
        "bytes_a_value": round((peak - before) * 1e6 / values, 1),
        "right": named == truth,
        "page_mb": round(len(drawn) / 1e6, 2),
        "page_s": round(time.process_time() - began, 1),
    }


def draw_evidence(nodes: int, ranks: int, record: Path, folder: Path) -> None:
    """A file for each node with so many ranks: what one rank left, with other numbers."""
    lines = [json.loads(line) for line in record.read_text().splitlines() if line.strip()]
    process = lines[0]["pid"]
    own = [line for line in lines if line["pid"] == process]
    for node in range(nodes):
        with (folder / f"n{node}.0.jsonl").open("w") as file:
            for rank in range(ranks):
                number = str(node * ranks + rank)
                for line in own:
                    said = {**line, "host": f"n{node}", "pid": 1000 + rank}
                    if line.get("rank"):
                        said["rank"] = {**line["rank"], "value": number}
                    file.write(json.dumps(said, separators=(",", ":")) + "\n")


def read_evidence(folder: Path, _: argparse.Namespace) -> dict[str, Any]:
    """Read the records of all ranks, as a case does for each of its launches."""
    files = list(folder.glob("*.jsonl"))
    began, before = time.process_time(), peak_mb()
    ranks = rank_records.read(folder)
    return {
        "ranks": len(ranks),
        "files": len(files),
        "mb": round(sum(path.stat().st_size for path in files) / 1e6, 1),
        "seconds": round(time.process_time() - began, 1),
        "peak_mb": round(peak_mb()),
        "kb_a_rank_in_memory": round((peak_mb() - before) * 1e3 / len(ranks), 1),
    }


#: What is asked of a dataset of nights, each in a process of its own: gate, drift and all values of
#: the first of its systems, and the site of all.
ASKED_OF_NIGHTS = {
    "gate": "gate --session {newest} --system {system} --max-age 10000000 --json"
    " --dataset {folder}",
    "drift": "drift --system {system} --json --dataset {folder}",
    "site": "site --out {folder}/site --dataset {folder}",
    "csv": "export --csv {folder}/csv --system {system} --out {folder} --sessions 20200101:now",
}


def ask_nights(command: str, folder: Path) -> dict[str, Any]:
    """One of :data:`ASKED_OF_NIGHTS`."""
    system = Store(folder).systems[0]
    newest = Store(folder).sessions_of(system)[-1]
    words = ASKED_OF_NIGHTS[command].format(newest=newest, system=system, folder=folder)
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        status = cli.main([*words.split(), "--dataset-only"])
    if status not in (0, 1, 3):  # answers, as in mpibench.exit_status
        raise SystemExit(f"{command} gave no answer: exit status {status}")
    return {
        f"{command}_s": round(time.process_time() - began, 1),
        f"{command}_status": status,
        f"{command}_peak_mb": round(peak_mb()),
    }


def copy_nights(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Copy a dataset to a bucket, again, and from there; processor time of this side alone."""
    from mpibench_s3.bucket import Bucket  # for this question only: it needs obstore

    bucket = Bucket(asked.bucket.partition("://")[2])
    found: dict[str, Any] = {}
    for name in ("send", "send_again", "fetch"):
        began, clock = time.process_time(), time.monotonic()
        if name == "fetch":
            with bucket.fetched():
                pass
        else:
            bucket.send(folder)
        found |= {
            f"{name}_s": round(time.process_time() - began, 2),
            f"{name}_clock_s": round(time.monotonic() - clock, 1),
        }
    files = [path for path in folder.rglob("*.parquet") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return {**found, "files": len(files), "mb": round(size / 1e6, 1), "peak_mb": round(peak_mb())}


#: A system of as many partitions as are asked, each with four node counts and one fabric.
MANY = """
CORES = 128
HALVES = [hex(((1 << 64) - 1) << (64 * at)) for at in range(2)]
FABRIC = {{
    "transport": "tcp",
    "scope": "cluster",
    "mtu_bytes": 1500,
    "rails": [{{"device": "ib0", "line_rate_gbit_per_s": 200}}],
}}
system = {{
    "name": "many",
    "descr": "Many partitions",
    "hostnames": ["many"],
    "partitions": [
        {{
            "name": f"p{{number}}",
            "descr": "Nodes",
            "scheduler": "slurm",
            "launcher": "srun",
            "access": [f"--partition=p{{number}}"],
            "processor": {{
                "arch": "zen3",
                "num_cpus": CORES,
                "num_cpus_per_core": 1,
                "num_cpus_per_socket": CORES // 2,
                "num_sockets": 2,
                "topology": {{
                    "numa_nodes": HALVES,
                    "sockets": HALVES,
                    "cores": [hex(1 << at) for at in range(CORES)],
                    "caches": [],
                }},
            }},
            "extras": {{
                "node_counts": [2, 4, 6, 8],
                "pinning": ["none", "scatter"],
                "fabrics": {{"hdr": FABRIC}},
            }},
        }}
        for number in range({count})
    ],
}}
"""


def list_cases(count: int, folder: Path) -> dict[str, Any]:
    """ReFrame's own listing of so many cases that do nothing."""
    tests = folder / "trivial.py"
    tests.write_text(TRIVIAL.format(count=count))
    return _list(["-c", str(tests), "-l"], {"RFM_CONFIG_FILES": ""}, folder)


def list_own_cases(count: int, folder: Path) -> dict[str, Any]:
    """The listing of our tests on a system of so many partitions, with the stacks that are here."""
    (folder / "many").mkdir()
    (folder / "many" / "system.py").write_text(MANY.format(count=count))
    environ = {
        "RFM_CONFIG_FILES": str(ROOT / "site_configs" / "settings.py"),
        "RFM_SYSTEM": "many",
        "MPIBENCH_SITES": str(folder),
    }
    return _list(["-c", str(ROOT / "reframe_tests"), "-lC"], environ, folder)


def _list(words: list[str], environ: dict[str, str], folder: Path) -> dict[str, Any]:
    command = [str(Path(sys.executable).parent / "reframe"), *words]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
        cwd=folder,
        check=True,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    [listed] = re.findall(r"^(?:Found|Concretized) (\d+) (?:check|test case)", done.stdout, re.M)
    return {
        "listed": int(listed),
        "seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss / 1e3),
    }


def peak_mb() -> float:
    """Most memory this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def draw(question: str, size: int, asked: argparse.Namespace, folder: Path) -> None:
    """Make what a question is about."""
    if question == "map":
        (folder / "record.json").write_text(json.dumps(draw_map(size, asked, folder)))
    elif question == "reading":
        print_map(size, asked, folder)
    elif question == "rounds":
        (folder / OUTPUT).write_text(str(size))
    elif question == "evidence":
        draw_evidence(size, asked.ranks, asked.record, folder)
    elif question in ("nights", "bucket"):
        for system in range(asked.systems):
            for night in range(size):
                write_night(folder, night, f"system{system}", asked.benchmarks)


ANSWERS = {
    "map": judge_map,
    "reading": read_map,
    "rounds": walk_rounds,
    "evidence": read_evidence,
    "bucket": copy_nights,
}
#: Listings, each in a ReFrame of its own.
LISTINGS = {"listing": list_cases, "own-listing": list_own_cases}


def measure(question: str, size: int, asked: argparse.Namespace) -> dict[str, Any]:
    """One size, in processes of their own."""
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        if question in LISTINGS:
            return LISTINGS[question](size, Path(name))
        again = [sys.executable, "-m", "studies.scale", *sys.argv[1:], "--inside", name]
        found: dict[str, Any] = {}
        for step in ("draw", *(asked.commands if question == "nights" else ["answer"])):
            done = subprocess.run(
                [*again, step, str(size)], stdout=subprocess.PIPE, text=True, check=True
            )
            found |= json.loads(done.stdout or "{}")
            print(json.dumps(found), file=sys.stderr)
        if question == "nights":
            size_bytes = sum(path.stat().st_size for path in Path(name).rglob("*.parquet"))
            found["mb"] = round(size_bytes / 1e6, 1)
    return found


def main() -> None:
    """Print a line for each size, and exponents from the first to the last."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", choices=["nights", *ANSWERS, *LISTINGS])
    parser.add_argument("sizes", type=int, nargs="+", help="nodes, nights, cases or partitions")
    parser.add_argument("--orders", type=int, default=1, help="passes over all pairs of a map")
    parser.add_argument("--rounds", type=int, default=0, help="of a sample; 0: all pairs")
    parser.add_argument("--page", type=Path, help="where the page of a map is kept")
    parser.add_argument("--ranks", type=int, default=128, help="of a node, of evidence")
    parser.add_argument("--record", type=Path, help="file that the recorder left on a node")
    parser.add_argument(
        "--benchmarks", type=int, default=BENCHMARKS, help="of a night: 500 metrics each"
    )
    parser.add_argument("--systems", type=int, default=3, help="of a dataset of nights")
    parser.add_argument("--bucket", help="s3://BUCKET/FOLDER: where nights are copied to")
    parser.add_argument(
        "--commands",
        nargs="+",
        choices=ASKED_OF_NIGHTS,
        default=[*ASKED_OF_NIGHTS],
        help="what is asked of nights",
    )
    parser.add_argument("--folder", type=Path, help="where there is room (default: TMPDIR)")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.question == "evidence" and not asked.record:
        parser.error("evidence needs --record FILE, a .jsonl below evidence/ of a case's output")
    if asked.question == "bucket" and not asked.bucket:
        parser.error("bucket needs --bucket s3://BUCKET/FOLDER")
    if asked.inside:
        name, step, size = asked.inside
        if step == "draw":
            draw(asked.question, int(size), asked, Path(name))
        elif asked.question == "nights":
            print(json.dumps(ask_nights(step, Path(name))))
        else:
            print(json.dumps(ANSWERS[asked.question](Path(name), asked)))
        return
    rows = []
    for size in asked.sizes:
        rows.append({"size": size, **measure(asked.question, size, asked)})
        print(json.dumps(rows[-1]), flush=True)
    first, last = rows[0], rows[-1]
    if len(rows) > 1:
        growth = math.log(last["size"] / first["size"])
        exponents = {
            key: round(math.log(last[key] / first[key]) / growth, 2)
            for key in first
            if key != "size" and isinstance(first[key], (int, float)) and first[key] and last[key]
        }
        print(json.dumps({"exponents": exponents}))


if __name__ == "__main__":
    main()
