"""``mpibench vet`` on a mini-cluster: good nodes pass, a bad one is drained, and returns when it is
good again.
"""

import json
import sys

import pytest

import live_cluster
from mpibench.store import sessions
from mpibench_vet.reasons import FAIL, PASS, UNDECIDED
from programs import wait_for
from reframe_tests.harness.sites.site import ROOT

#: The command, whether its entry point is installed or not.
VET = "import sys; from mpibench.cli import main; from mpibench_vet.commands import app; sys.exit(main(run=app))"
NODES = ("c1", "c2", "c3")
#: What nodes that pass show, beside the database.
LEARNED = "learned/minicluster-eth100m.json"


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    """What the nodes see."""
    made = tmp_path_factory.mktemp("three") / "seen"
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def three(top):
    """A cluster of three nodes, so that there is a majority, with links that busy cores can fill."""
    options = ("--nodes", "3", "--leaf-size", "3", "--share", str(top))
    with live_cluster.running(top.parent, *options) as made:
        yield made


@pytest.fixture
def seen(three, top, request):
    """A folder of the test's own; afterwards all nodes are as they were."""
    folder = top / request.node.name
    folder.mkdir()
    yield folder
    three.good("fault", "clear")
    assert states(three) == "c1=idle c2=idle c3=idle"


def vet(cluster, folder, *words, inside=()):
    """Its whole answer; stage, output and database go to a folder that all nodes see.

    :param inside: command that starts it in a job.
    """
    environ = (
        f"RFM_CONFIG_FILES={ROOT}/site_configs/settings.py",
        f"RFM_PREFIX={folder}",
        f"PYTHONPATH={ROOT}:{ROOT}/ci",
    )
    program = (*inside, "env", *environ, sys.executable, "-c", VET)
    asked = f"c[1-3] --partition eth100m --db {folder}/results.db --json"
    done = cluster("exec", "--", *program, *asked.split(), *words, timeout_s=900)
    assert done.returncode in (0, 1, 3), done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["status"] == done.returncode
    return answer


def verdicts(answer):
    assert [one["node"] for one in answer["nodes"]] == list(NODES)
    return [one["verdict"] for one in answer["nodes"]]


def states(cluster):
    """When Slurm has ended the job on all of its nodes."""

    def asked():
        return " ".join(cluster.ask("sinfo", "-hN", "-p", "eth100m", "-o", "%N=%t").split())

    ending = {"alloc", "comp", "drng"}
    assert wait_for(lambda: not ending & {word.partition("=")[2] for word in asked().split()})
    return asked()


def jobs(cluster):
    """Names of all jobs that Slurm has accounted for, by their numbers."""
    rows = cluster.ask("sacct", "-nXP", "-o", "JobID,JobName").splitlines()
    return dict(row.split("|", 1) for row in rows)


def test_a_bad_node_is_drained_and_returns_when_it_is_good(three, seen):
    folder = seen
    facts = ("--check", "facts", "--apply")
    three.good("fault", "mtu", "c3", "eth100m")
    bad = vet(three, folder, *facts, "drain")
    assert verdicts(bad) == [PASS, PASS, FAIL]
    assert "mtu_bytes" in bad["nodes"][2]["reasons"][0]["numbers"]["said"]
    assert states(three) == "c1=idle c2=idle c3=drain"
    assert verdicts(vet(three, folder, *facts, "resume")) == [PASS, PASS, FAIL]
    assert states(three) == "c1=idle c2=idle c3=drain"
    three.on("c3", "ip", "link", "set", "eth100m", "mtu", "1500")
    assert verdicts(vet(three, folder, *facts, "resume")) == [PASS, PASS, PASS]
    assert states(three) == "c1=idle c2=idle c3=idle"
    assert "No reservations" in three.ask("scontrol", "show", "reservation")
    assert (folder / LEARNED).exists()
    stored = sessions.read_session(folder / "results.db")
    assert stored.labels["run"] == stored.labels["kind"] == "vet"


def test_of_good_nodes_none_fails_and_all_ran_in_one_job(three, seen, mpich):
    """Beside other programs a map may leave something undecided; it flags nothing."""
    answer = vet(three, seen, "--check", "facts", "--check", "pairs", "--check", "memory")
    assert FAIL not in verdicts(answer), answer["nodes"]
    assert answer["commands"] == answer["applied"] == []
    cases = sessions.read_session(seen / "results.db").cases
    assert {case.group for case in cases} == {"preflight", "pair_map", "memory"}
    assert len({case.job_id.partition("-")[0] for case in cases}) == 1
    assert (seen / LEARNED).exists() == (PASS in verdicts(answer))


def test_inside_an_allocation_nothing_is_submitted_and_the_users_step_goes_on(three, seen):
    step = 'srun -N1 -n1 -w c1 sleep 300 & sleep 3; "$@"; rc=$?; squeue -hs -o %j -j $SLURM_JOB_ID >"$0"; exit $rc'
    allocation = ("salloc", "-Q", "-p", "eth100m", "--nodes=3", "--exclusive", "-J", "mine")
    left = seen / "left"
    inside = (*allocation, "sh", "-c", step, str(left))
    before = jobs(three)
    answer = vet(three, seen, "--check", "facts", inside=inside)
    # Somebody's step runs there: the nodes beside it are measured.
    assert verdicts(answer) == [UNDECIDED, PASS, PASS]
    assert answer["nodes"][0]["reasons"][0]["why"] == "not-alone"
    [case] = sessions.read_session(seen / "results.db").cases
    assert case.nodelist == "c2,c3"
    assert "sleep" in left.read_text()
    assert {name for job, name in jobs(three).items() if job not in before} == {"mine"}
