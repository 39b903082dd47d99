"""Start-up over node counts in dry runs: one job for each of the partition's, or one of all idle nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import startup_programs
from reframe_tests.harness.stacks import metadata

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def run_startup(sandbox: Path, run_reframe: Run, require_stack) -> Run:
    """ReFrame on a cluster that is measured on 2, 4 and 8 nodes, with a stack that has both programs."""
    system = sandbox / "site_configs" / "minicluster" / "system.py"
    text = system.read_text()
    assert text.count('"node_counts": [2]') == 1
    system.write_text(text.replace('"node_counts": [2]', '"node_counts": [2, 4, 8]'))
    name = startup_programs.add_to(require_stack("mpich-wheels"), sandbox / "startup")
    where = ("--dry-run", "--system=minicluster:eth1g", "-p", name, "-n", "OsuStartup%fabric=eth1g%.*%ppn=1%")
    there = {metadata.EXTRA_STACKS: str(sandbox / "startup")}
    return lambda *options: run_reframe(*where, *options, environ=there, top=sandbox, only="startup.py")


def scripts(sandbox: Path) -> dict[int, str]:
    """Job scripts by the number of their ranks."""
    found = [path.read_text() for path in (sandbox / "results").rglob("rfm_job.sh")]
    return {int(ranks[1]): text for text in found if (ranks := re.search(r"^#SBATCH --ntasks=([0-9]+)$", text, re.M))}


def test_each_node_count_is_a_job(run_startup: Run, sandbox: Path) -> None:
    result = run_startup()
    assert result.returncode == 0, result.stdout[-3000:]
    there = scripts(sandbox)
    assert sorted(there) == [2, 4, 8]
    for ranks, text in there.items():
        assert re.search(rf"srun .*--nodes={ranks} --ntasks={ranks}\b", text)
        assert re.search(r"/startup/osu_init$", text, re.M) and re.search(r"/startup/osu_hello$", text, re.M)


def test_all_idle_nodes_are_a_job(run_startup: Run, sandbox: Path) -> None:
    """In a dry run nobody is asked how many are idle: as many as the largest count."""
    result = run_startup("-P", "nodes=all")
    assert result.returncode == 0, result.stdout[-3000:]
    assert "OsuStartup %fabric=eth1g %nodes=all %ppn=1 " in result.stdout
    assert sorted(scripts(sandbox)) == [8]
