"""Jobs and sessions that end in unusual ways, through Slurm and
ReFrame: none passes by accident, none counts twice.
"""

import json
import time
from pathlib import Path

import pytest

import synthetic_session
from folders import write
from live_cluster import STAMP, end_of
from mpibench.store import sessions
from mpibench_cluster.plan import HEAD
from programs import wait_for

STACK = "mpich-wheels"
CASES = "ImbPointToPoint%fabric=eth.*%nodes=2%ppn=1%pinning=default"
REPEATS = 2


@pytest.fixture
def box(box):
    box.keep_partitions("eth1g", "eth10g", "eth40g")
    return box


def job_on(box, partition, states="R"):
    return box.cluster.ask(
        "squeue", "--noheader", f"--states={states}", "-p", partition, "-o", "%i"
    ).strip()


def measured(box, partition):
    """Whether all launches of a case's job have ended well, while the job itself goes on."""
    return any(statuses(path) == ["0"] * REPEATS for path in box.files(partition, "launches.txt"))


def statuses(log):
    """Exit statuses of a job's benchmarks, without the check of received data."""
    return [
        words[2]
        for words in map(str.split, log.read_text().splitlines())
        if words[0] != "data_check"
    ]


def lingering(box):
    """Options for jobs that go on after they measured everything, until the file is there."""
    go = box.top / "go"
    return go, (
        "-S",
        f"repeats={REPEATS}",
        "-S",
        f"postrun_cmds=until [ -e {go} ]; do sleep 0.2; done",
    )


def test_nothing_printed_and_worlds_of_one_rank_are_failures_although_srun_returns_0(
    box, require_stack
):
    document = json.loads(Path(require_stack(STACK).source).read_text())
    mute = write(box.top / "mute", "#!/bin/sh\nexit 0\n", executable=True)
    binaries = dict.fromkeys(document["binaries"], str(mute))
    box.add_stack({**document, "name": "mute", "binaries": binaries})
    box.amend("by_name['eth10g']['extras']['srun_mpi'] = {'mpich': 'none'}")
    for partition, stack in (("eth1g", "mute"), ("eth10g", STACK), ("eth40g", STACK)):
        box.amend(f"by_name['{partition}']['extras']['stacks'] = ['{stack}']")
    status, output = box.run("-S", f"repeats={REPEATS}", names=CASES)
    assert status == 1, output
    cases = box.cases()
    for key, wanted in (
        ("eth1g mute", "the output is empty"),
        (f"eth10g {STACK}", "2 processes started as MPI worlds of one rank each"),
    ):
        case = cases[key]
        assert case["result"] == "fail" and wanted in case["fail_reason"], case["fail_reason"]
        assert wanted in " ".join(case["proof"]["sentences"])
        for log in box.files(key.split()[0], "launches.txt"):
            assert statuses(log) == ["0"] * REPEATS, "srun was content"
    assert cases[f"eth40g {STACK}"]["result"] == "pass", cases[f"eth40g {STACK}"]["fail_reason"]


def test_cancelled_timed_out_and_requeued_jobs(box):
    go, options = lingering(box)
    session = box.begin(*options, "--exec-policy=serial", names=CASES)
    # Cancelled, and over its time limit, when everything had been
    # measured: the outputs alone would pass.
    assert wait_for(lambda: measured(box, "eth1g"))
    box.cluster.on(HEAD, "scancel", job_on(box, "eth1g"))
    assert wait_for(lambda: measured(box, "eth10g"))
    # Slurm refuses an end that has passed when it is told, as "now" may have.
    over = (
        "exec",
        "--node",
        HEAD,
        "--",
        "scontrol",
        "update",
        f"JobId={job_on(box, 'eth10g')}",
        "EndTime=now+3",
    )
    assert wait_for(lambda: box.cluster(*over).returncode == 0)
    # Requeued by hand, against the job's own option, when everything had
    # been measured: it is measured once more.
    assert wait_for(lambda: measured(box, "eth40g"), 240)
    job = job_on(box, "eth40g")
    assert "disabled" in box.cluster("exec", "--", "scontrol", "requeue", job).stderr
    box.cluster.on(HEAD, "scontrol", "update", f"JobId={job}", "Requeue=1")
    box.cluster.on(HEAD, "scontrol", "requeue", job)
    # Slurm would let it wait for minutes, so that the nodes are done with its
    # first run: started before, it fails at once.
    assert wait_for(lambda: job_on(box, "eth40g", "PD") == job and not job_on(box, "eth40g", "CG"))
    later = ("exec", "--", "scontrol", "update", f"JobId={job}", "StartTime=now+5")
    assert wait_for(lambda: box.cluster(*later).returncode == 0)
    assert wait_for(
        lambda: any(
            len(path.read_text().splitlines()) == 2 for path in box.files("eth40g", "starts.txt")
        ),
        400,
    )
    go.touch()
    status, output = end_of(session)
    assert status == 1, output
    cases = box.cases()
    for partition, wanted in (
        ("eth1g", "ended in state CANCELLED: somebody cancelled it"),
        ("eth10g", "ended in state TIMEOUT: it reached the job's time limit"),
    ):
        case = cases[f"{partition} {STACK}"]
        assert (case["result"], wanted in case["fail_reason"]) == ("fail", True), case[
            "fail_reason"
        ]
        [sentence] = case["proof"]["sentences"]
        assert wanted in sentence
        assert case["samples"], "the numbers are kept, marked"
    case = cases[f"eth40g {STACK}"]
    assert (case["result"], case["proof"]["verdict"]) == ("pass", "proven"), case["fail_reason"]
    assert f"job {job} on c1, c2 was started 2 times" in case["proof"]["notes"][0]
    assert all(len(sample["values"]) == REPEATS for sample in case["samples"])
    stored = sessions.read_session(box.database)
    assert sorted(one.partition for one in stored.cases) == ["eth10g", "eth1g", "eth40g"]


def test_a_killed_session_leaves_the_database_readable_and_its_job_is_found(box):
    synthetic_session.run_session(
        [synthetic_session.case(STACK)], box.database.parent, ["run=before"]
    )
    go, options = lingering(box)
    started = time.time()
    session = box.begin(*options, names=CASES, system="minicluster:eth1g")
    assert wait_for(lambda: measured(box, "eth1g"))
    session.kill()  # SIGKILL: `exec` takes the program it runs along
    session.communicate()
    job = job_on(box, "eth1g")
    assert job, "Slurm knows nothing of its end"

    # The orphan is named, with its files, and can be cancelled; one that somebody waits for is left
    # alone. On the fabric without a line rate: how fast it is where others use the cores too is not
    # asked here.
    other = box.begin(*options, "--timestamp=other", names=CASES, system="minicluster:eth40g")
    assert wait_for(lambda: bool(job_on(box, "eth40g", "PD,R")))
    found = box.cluster("exec", "--", *box.command("sessions", "prune"))
    assert found.returncode == 1, found.stderr
    [line] = found.stdout.splitlines()
    assert line.startswith(f"job {job} (RUNNING): its ReFrame (process ")
    assert str(box.stage / "minicluster" / "eth1g") in line
    assert STAMP in line
    assert f"cancelled: {job}" in box.cluster.good(
        "exec", "--", *box.command("sessions", "prune", "--remove")
    )

    # The sessions before are there, whole, and the one that waited gets the nodes and is stored.
    assert box.sessions() == 1
    assert sessions.read_session(box.database).labels == {"run": "before"}
    go.touch()
    status, output = end_of(other)
    assert status == 0, output
    assert box.sessions() == 2
    assert [case["result"] for case in box.cases().values()] == ["pass"]
    assert sessions.read_session(box.database).started.timestamp() >= started
    assert "no orphaned jobs in the queue" in box.cluster.good(
        "exec", "--", *box.command("sessions", "prune")
    )
    exported = box.mpibench("export", "--db", str(box.database), "--out", str(box.top / "dataset"))
    assert exported.returncode == 0, exported.stderr
    page = box.mpibench("report", "--db", str(box.database), "--out", str(box.top / "report.html"))
    assert page.returncode == 0, page.stderr
    assert "mpich-wheels" in (box.top / "report.html").read_text()
