"""What jobs use most is tuned first, with its part of the budget; what
Slurm's accounting does not say is not guessed.
"""

import re

import pytest

from mpibench.judge.plan.making import Budget
from mpibench_tune import tuning, workload
from mpibench_tune.measuring import TuneRequest
from mpibench_tune.tuning import NOTHING_BETTER
from mpibench_tune.workload import UsedCondition, Workload
from reframe_tests.harness.sites.tuned_settings import TunedPlace
from refusals import refused_as

#: As sacct of Slurm 22.05 printed it on a cluster of two nodes: srun, a batch script without a
#: step, MPICH 5.0, Intel MPI 2021.18 and Open MPI 5.0 (whose daemon on the first node is no step).
#: Elapsed times, the names of two jobs and what stands between columns (here a semicolon) are ours.
DELIMITER = "kT3vQm0aPzLw"
PRINTED = """\
JobID;JobName;NNodes;NTasks;AllocCPUS;ElapsedRaw
1;a|b;2;;4;3600
1.0;sleep;2;4;4;3600
2;sleep;1;;2;7200
2.batch;batch;1;1;2;7200
7;mpich;2;;4;1800
7.batch;batch;1;1;2;1800
7.0;hydra_pmi_proxy;2;2;4;1800
8;intelmpi;4;;4;7200
8.0;hydra_bstrap_proxy;4;4;4;7200
9;openmpi;2;;4;1800
9.0;prted;1;1;2;1800
10_3;of three;2;;3;360
10_3.0;solver;2;3;3;360
11;serial;1;;1;3600
11.0;solver;1;1;1;3600
""".replace(";", DELIMITER)


def lines(*rows):
    """What sacct prints of some rows, with a semicolon between the columns."""
    text = "\n".join((PRINTED.partition("\n")[0], *rows, ""))
    return text.replace(";", DELIMITER)


def test_a_job_may_be_called_anything(tmp_path):
    """With line ends, rows of a job that ran for years, in any former
    format; none of them takes part of the budget.
    """
    forged = "66666;x;512;;512;99999999\n66666.0;x;512;512;512;99999999"
    path = tmp_path / "sacct.txt"
    for name in ("sleep", forged, forged.replace(";", "|"), "\n", "a\r\nb", "x\n\n", forged + "\n"):
        step = f"1.0{DELIMITER}"
        text = PRINTED.split("2.batch")[0].replace(f"{step}sleep", f"{step}{name}")
        path.write_text(text, newline="")
        found = workload.read(path)
        assert (found.conditions, found.node_hours) == ((UsedCondition(2, 2, 2.0),), 2.0)


def test_steps_count_by_their_node_hours(tmp_path):
    """Steps that run at once share those of their job."""
    path = tmp_path / "sacct.txt"
    path.write_text(PRINTED)
    found = workload.read(path)
    assert found.conditions == (UsedCondition(4, 1, 8.0), UsedCondition(2, 2, 4.0))
    assert (found.node_hours, found.assumed, found.uneven) == pytest.approx((12.2, 10.0, 0.2))
    steps = [f"5.{step};solver;1;8;8;3600" for step in range(4)]
    path.write_text(lines("5;packed;1;;64;3600", *steps))
    assert workload.read(path).conditions == (UsedCondition(1, 8, 1.0),)


@pytest.mark.parametrize("finished", ["2026-11-24T10:00:00Z", ""])
def test_what_was_tuned_to_its_end_is_not_tuned_again(finished, monkeypatch):
    """As where the command was interrupted, and is given again."""
    now = [0.0]
    given = []
    said = []

    def tune_one(request):
        given.append(request.place.nodes)
        now[0] += request.budget_s
        return NOTHING_BETTER if len(given) > 1 else 0

    def ask(nodes, ppn, seconds):
        place = TunedPlace("s", "x", "f", nodes, ppn, "none")
        return TuneRequest(place, "", None, None, {"Bcast": ()}, seconds)

    ends = lambda request: finished if request.place.nodes == 4 else ""  # noqa: E731
    monkeypatch.setattr(tuning, "finished", ends)
    monkeypatch.setattr("mpibench_tune.measuring.time.monotonic", lambda: now[0])
    monkeypatch.setattr(workload, "tune_one", tune_one)
    hours = {4: 60.0, 8: 30.0, 16: 9.0, 2: 1.0}
    used = tuple(UsedCondition(nodes, 8, spent) for nodes, spent in hours.items())
    jobs = Workload("sacct.txt", used, sum(hours.values()))
    workload.tune_most_used(jobs, Budget.parse("10h"), ask, said.append)
    assert given == ([8, 16, 2] if finished else [4, 8, 16, 2])
    assert said[-1] == "tuned: 4 of 4 conditions, with 100 % of the node-hours"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("JobID;JobName;NNodes;NTasks\n1;a;1;1\n", "has no column AllocCPUS, ElapsedRaw"),
        (PRINTED.replace(DELIMITER, "|"), "may have job names that span lines"),
        (lines("1.0;sleep;2;4;4;1:00:00"), "ElapsedRaw of 1.0 is '1:00:00'"),
        (lines("1.0;sleep;2;\u096a;4;3600"), "NTasks of 1.0 is '\u096a', which is not a number"),
        (lines("9.0;prted;1;1;2;1800"), "step 9.0 has no line of its job 9"),
        (lines("2;a;1;;2;9"), "no step of more than one rank of any duration"),
        (PRINTED[:-20], "its last line is incomplete"),
        (lines("1;x;1;;1;9\nrm -rf.0;y;1;9;9;9"), "'rm -rf.0' is not a Slurm job"),
        # A job that was requeued ran on other nodes the second time.
        (lines("9;openmpi;2;;4;1800", "9;openmpi;4;;8;50"), "has two different lines for 9"),
    ],
)
def test_what_is_none_of_sacct_is_refused(text, sentence, tmp_path):
    path = tmp_path / "sacct.txt"
    with refused_as("scheduler-unusable", match="No such file"):
        workload.read(path)
    path.write_text(text)
    with refused_as("scheduler-unusable", match=re.escape(sentence)):
        workload.read(path)
