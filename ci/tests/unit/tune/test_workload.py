"""What jobs use most is tuned first, with its part of the budget; what Slurm's accounting does not say is not guessed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mpibench.plan.budget import Budget
from mpibench.tune import answer, conditions, workload
from mpibench.tune.tuning import TuneRequest
from mpibench.tune.workload import LEAST_S, UsedCondition, Workload
from reframe_tests.harness.sites.tuned_settings import Place
from reframe_tests.harness.vocabulary import BadInput

#: As sacct of Slurm 22.05 printed it on a cluster of two nodes: srun, a batch script without a step, MPICH 5.0, Intel MPI
#: 2021.18 and Open MPI 5.0 (whose daemon on the first node is no step). Elapsed times and the names of two jobs are ours.
PRINTED = """\
JobID|JobName|NNodes|NTasks|AllocCPUS|ElapsedRaw|State|Partition
1|a|b|2||4|3600|COMPLETED|eth1g
1.0|sleep|2|4|4|3600|COMPLETED|
2|sleep|1||2|7200|COMPLETED|eth1g
2.batch|batch|1|1|2|7200|COMPLETED|
7|mpich|2||4|1800|COMPLETED|eth1g
7.batch|batch|1|1|2|1800|COMPLETED|
7.0|hydra_pmi_proxy|2|2|4|1800|COMPLETED|
8|intelmpi|4||4|7200|COMPLETED|eth1g
8.0|hydra_bstrap_proxy|4|4|4|7200|COMPLETED|
9|openmpi|2||4|1800|COMPLETED|eth1g
9.0|prted|1|1|2|1800|COMPLETED|
10_3|of three|2||3|360|COMPLETED|eth1g
10_3.0|solver|2|3|3|360|COMPLETED|
11|serial|1||1|3600|COMPLETED|eth1g
11.0|solver|1|1|1|3600|COMPLETED|
"""


def test_steps_count_by_their_node_hours(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(PRINTED)
    found = workload.read(path)
    assert found.conditions == (UsedCondition(4, 1, 8.0), UsedCondition(2, 2, 4.0))
    assert (found.node_hours, found.assumed, found.uneven) == pytest.approx((12.2, 10.0, 0.2))
    assert [line.strip() for line in answer.of_workload(found)] == [
        f"{path}: 12.2 node-hours of 2 conditions of nodes and processes per node",
        "82 % were started by an MPI's own daemons, and are taken to have a rank on each core allocated",
        "2 % have other numbers of ranks on each node, and are not tuned",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no column JobID, JobName, NNodes, NTasks, AllocCPUS, ElapsedRaw in its first line"),
        ("JobID|JobName|NNodes|NTasks\n1|a|1|1\n", "has no column AllocCPUS, ElapsedRaw"),
        (PRINTED.replace("1.0|sleep|2|4|4|3600|COMPLETED|", "1.0|sleep|2|4"), "line 3 has 4 fields, and the first line 8"),
        (PRINTED.replace("|2|4|4|3600|", "|2|4|4|1:00:00|"), "ElapsedRaw of 1.0 is '1:00:00', which is no number"),
        (PRINTED.replace("9|openmpi|2||4|1800|COMPLETED|eth1g\n", ""), "step 9.0 has no line of its job 9"),
        (PRINTED.splitlines()[0] + "\n2|a|1||2|9|x|y\n", "no step of more than one rank that took any time"),
    ],
)
def test_what_is_none_of_sacct_is_refused_with_how_to_get_it(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(text)
    with pytest.raises(BadInput) as refused:
        workload.read(path)
    said = str(refused.value)
    assert sentence in said and ("sacct --allusers" in said or "write it again" in said)
    with pytest.raises(BadInput, match="No such file"):
        workload.read(tmp_path / "nonesuch")


USED = tuple(UsedCondition(nodes, 8, hours) for nodes, hours in ((4, 60.0), (8, 30.0), (16, 9.0), (2, 1.0)))


@pytest.mark.parametrize(
    ("hours", "part"),
    [
        (10.0, 0.6),  # all four have enough
        (1.0, 60 / 99),  # the last would have 36 s
        (LEAST_S / 3600, 1.0),  # only one has
        (LEAST_S / 3600 / 2, 0.0),
    ],
)
def test_the_first_gets_its_part_among_those_that_get_enough(hours: float, part: float) -> None:
    assert workload.part_of_first(USED, [3600 * hours] * len(USED)) == pytest.approx(part)


def spend(
    budget: str, monkeypatch: pytest.MonkeyPatch, takes: Sequence[float | str]
) -> tuple[int, list[str], list[tuple[int, float]]]:
    """Exit status, what is said, and nodes and seconds of each tuning.

    :param takes: of each, the part that it takes of its seconds, or the sentence it ends with.
    """
    now = [0.0]
    given: list[tuple[int, float]] = []
    said: list[str] = []
    monkeypatch.setattr("mpibench.tune.conditions.time.monotonic", lambda: now[0])

    def tune_one(request: TuneRequest, kind: object, say: object) -> int:
        taken = takes[len(given)]
        given.append((request.place.nodes, request.budget_s))
        if isinstance(taken, str):
            raise BadInput(taken)
        now[0] += taken * request.budget_s
        return conditions.NOTHING_BETTER if len(given) > 1 else 0

    def ask(each: UsedCondition, seconds: float) -> TuneRequest:
        return TuneRequest(Place("s", "x", "f", each.nodes, each.ppn, "none"), "", ("Bcast",), {"Bcast": ()}, seconds)

    monkeypatch.setattr(conditions, "tune_one", tune_one)
    kind = conditions.Kind(None, None)  # type: ignore[arg-type]
    jobs = Workload("sacct.txt", USED, 100.0)
    status = conditions.tune_most_used(jobs, Budget.parse(budget), ask, kind, said.append)
    return status, said, given


def test_the_budget_is_spent_on_the_most_used_first(monkeypatch: pytest.MonkeyPatch) -> None:
    status, said, given = spend("10h", monkeypatch, [1.0] * 4)
    assert status == 0 and [nodes for nodes, _ in given] == [4, 8, 16, 2]
    assert [seconds for _, seconds in given] == pytest.approx([21600.0, 10800.0, 3240.0, 360.0])
    assert said[1] == "4 x 8, 60 % of the node-hours: 360.0 min of the budget"
    assert said[-1] == "tuned: 4 of 4 conditions, with 100 % of the node-hours"


def test_what_one_does_not_need_the_others_have(monkeypatch: pytest.MonkeyPatch) -> None:
    _, said, given = spend("1h", monkeypatch, [0.1, 1.0, 1.0, 1.0])
    first = 3600 * 60 / 99
    assert given[:2] == [(4, pytest.approx(first)), (8, pytest.approx((3600 - 0.1 * first) * 30 / 39))]
    _, said, given = spend("3m", monkeypatch, [1.0])
    assert [nodes for nodes, _ in given] == [4] and "no budget was left for 3, with 40 %: 8 x 8, 16 x 8, 2 x 8" in said


def test_node_hours_are_fewer_seconds_on_more_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, given = spend("100nodeh", monkeypatch, [1.0] * 4)
    assert [seconds for _, seconds in given] == pytest.approx([54000.0, 13500.0, 2025.0, 1800.0])


def test_a_condition_that_cannot_be_measured_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    status, said, given = spend("10h", monkeypatch, ["no such case.", 1.0, 1.0, 1.0])
    assert status == conditions.NOTHING_BETTER and "not tuned: no such case." in said and len(given) == 4
    assert said[-1] == "tuned: 3 of 4 conditions, with 40 % of the node-hours"
    with pytest.raises(BadInput, match=r"no condition was tuned: 4 x 8: no such case\."):
        spend("10h", monkeypatch, ["no such case."] * 4)
    with pytest.raises(BadInput, match=r"1m is too little for any condition: give a larger --budget"):
        spend("1m", monkeypatch, [])
