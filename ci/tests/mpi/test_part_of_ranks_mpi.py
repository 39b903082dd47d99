"""IMB on a part of the ranks, the others idle (``npmin``): what ``pairs`` is for OSU, measured through ReFrame."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reframe_tests.harness.stacks.stack import Stack


def test_one_pair_beside_idle_ranks_and_then_two(
    run_here: Callable[..., Any], sandbox: Path, require_stack: Callable[[str], Stack]
) -> None:
    """On a node that is said to have four cores; nothing is pinned, so that it need not have them to run."""
    require_stack("intelmpi-wheels")
    system = sandbox / "site_configs" / "generic" / "system.py"
    four = ("from reframe_tests.harness.machine import topology", '[partition] = system["partitions"]')
    four += ('partition["processor"], partition["extras"]["remote"] = topology.describe(1, 4), True', "")
    system.write_text("\n".join([system.read_text(), *four]))
    case = "ImbParallelTransfer%fabric=shm%nodes=1%ppn=full%pinning=none"
    words = ("-r", "-n", case, "-p", "intelmpi-wheels", "-S", "level=smoke", "-S", "repeats=1", "-S", "limit_s=200")
    done = run_here(*words, "-S", "suite_options=npmin:2", only="parallel_transfer.py")
    with sqlite3.connect(sandbox / "results" / "results.db") as database:
        [(text,)] = database.execute("select json_blob from sessions").fetchall()
    [stored] = json.loads(text)["runs"][0]["testcases"]
    # On fewer cores that is what is wrong with it, and nothing else.
    assert [said for said in stored["proof"]["sentences"] if "only: 4 ranks for" not in said] == [], done.stdout[-3000:]
    assert "npmin=2" in stored["condition"]["suite_options"]
    assert len(stored["proof"]["ranks"]) == 4, "all were started"
    measured = {(row["benchmark"], row["variant"], row["ranks"]) for row in stored["samples"]}
    benchmarks = ("Sendrecv", "Exchange", "Uniband", "Biband")
    assert measured == {(name, f"ranks={ranks}", ranks) for name in benchmarks for ranks in (2, 4)}
