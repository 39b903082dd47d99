"""IMB on a part of the ranks, the others idle (``npmin``): what ``pairs`` is for OSU, measured through ReFrame, with proof."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reframe_tests.harness.stacks.stack import Stack

Run = Callable[..., Any]


@pytest.mark.parametrize("name", ["intelmpi-wheels", "mpich-wheels"])
def test_one_pair_beside_idle_ranks_and_then_two(
    run_here: Run, sandbox: Path, require_stack: Callable[[str], Stack], name: str
) -> None:
    """On a node that is said to have four cores; nothing is pinned, so that it need not have them."""
    require_stack(name)
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("[cores] a pair needs a core each")
    system = sandbox / "site_configs" / "generic" / "system.py"
    four = ("from reframe_tests.harness.machine import topology", '[partition] = system["partitions"]')
    four += ('partition["processor"], partition["extras"]["remote"] = topology.describe(1, 4), True', "")
    system.write_text("\n".join([system.read_text(), *four]))
    case = "ImbParallelTransfer%fabric=shm%nodes=1%ppn=full%pinning=none"
    words = ("-r", "-n", case, "-p", name, "-S", "level=smoke", "-S", "repeats=1", "-S", "limit_s=200")
    done = run_here(*words, "-S", "suite_options=npmin:2", only="parallel_transfer.py")
    assert done.returncode == 0, done.stdout[-3000:]
    with sqlite3.connect(sandbox / "results" / "results.db") as database:
        [(text,)] = database.execute("select json_blob from sessions").fetchall()
    [stored] = json.loads(text)["runs"][0]["testcases"]
    assert stored["proof"]["verdict"] == "proven"
    assert "npmin=2" in stored["condition"]["suite_options"]
    assert len(stored["proof"]["ranks"]) == 4, "all were started"
    measured = {(row["benchmark"], row["variant"], row["ranks"]) for row in stored["samples"]}
    assert measured == {
        (benchmark, f"ranks={ranks}", ranks) for benchmark in ("Sendrecv", "Exchange", "Uniband", "Biband") for ranks in (2, 4)
    }
    assert any(".ranks2." in metric for metric in stored["perfvalues"])
