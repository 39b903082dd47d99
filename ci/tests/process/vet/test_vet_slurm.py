"""What is done with Slurm: who is out of reach, and that nothing stays drained or reserved."""

import os

import pytest

from folders import write
from mpibench_vet import PREFIX, slurm
from mpibench_vet.reasons import FACTS, FAIL, NodeReason, NodeVerdict, Why
from refusals import refused_as

NODES = """\
NodeName=c1 Arch=x86_64 State=IDLE Partitions=eth1g,eth10g BootTime=now
NodeName=c2 Arch=x86_64 State=IDLE+DRAIN Partitions=eth1g Reason=mpibench vet 0123: slow [root@2026-11-29T14:00:00]
NodeName=c3 Arch=x86_64 State=IDLE+DRAIN Partitions=eth1g Reason=cable, ticket 4711 [ops@2026-11-29T14:00:00]
NodeName=c4 Arch=x86_64 State=MIXED Partitions=eth1g
NodeName=c5 Arch=x86_64 State=DOWN* Partitions=eth1g Reason=Not responding [slurm@2026-11-29T14:00:00]
NodeName=c6 Arch=x86_64 State=IDLE+RESERVED Partitions=eth1g
NodeName=c7 Arch=x86_64 State=ALLOCATED+DRAIN Partitions=eth1g Reason=mpibench vet 0123: slow [root@now]
"""
#: Writes down what it is asked for; deletes no reservation while a file says that it is in use.
SCONTROL = """#!/bin/sh
echo "$*" >> {folder}/asked
case "$*" in
    "-o show nodes") cat {folder}/nodes;;
    "create "*) echo "$3 " | sed s/reservationname/ReservationName/ > {folder}/reserved;;
    "-o show reservation") cat {folder}/reserved;;
    "show config") echo "SlurmUser = somebody(77777)";;
    "update "*) [ ! -e {folder}/refused ] || {{ echo "Invalid user id" >&2; exit 1; }};;
    "delete "*) [ ! -e {folder}/in-use ] || {{ rm {folder}/in-use; echo "in use" >&2; exit 1; }};;
esac
"""


#: Of job 7 on c4 and c7 with a step that was there before; job 8 has c7, too.
SQUEUE = """#!/bin/sh
case "$*" in
    *"-s "*) cat {folder}/steps;;
    *"-j 7 "*) cat {folder}/state;;
    *"-j "*) echo "Invalid job id specified" >&2; exit 1;;
    *) printf '7 c[4,7]\\n8 c7\\n9 \\n';;
esac
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """What a stand-in for ``scontrol`` was asked for, a line a call."""
    for name, text in (
        ("scontrol", SCONTROL.format(folder=tmp_path)),
        ("squeue", SQUEUE.format(folder=tmp_path)),
        ("scancel", f'#!/bin/sh\necho "$*" >> {tmp_path}/cancelled\n'),
        ("steps", "7.2 c4\n7.interactive c4\n"),
        ("state", f"8 RUNNING 1 c1\n7 RUNNING {os.getuid()} c[4,7]\n"),
        ("nodes", NODES),
    ):
        write(tmp_path / name, text, executable=True)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path / "asked"


def changes(asked):
    return [line for line in asked.read_text().splitlines() if not line.startswith(("-o", "show"))]


def test_a_node_that_no_job_would_get_is_named_with_what_would_decide_it(asked):
    nodes = slurm.named(["c[1-7]"], slurm.read_nodes())
    found = [slurm.out_of_reach(node, reserved=False, resuming=False) for node in nodes]
    assert [one and one.why for one in found] == [
        None,
        Why.DRAINED_BY_VET,
        Why.DRAINED_BY_OTHERS,
        Why.BUSY,
        Why.NOT_THERE,
        Why.RESERVED,
        Why.DRAINED_BY_VET,
    ]
    assert all(one.text and one.remedy for one in found if one)
    inside = [slurm.out_of_reach(one, reserved=False, resuming=False, in_job=True) for one in nodes]
    changed = {"c4": Why.SOME_CORES, "c6": None}
    assert [one and one.why for one in inside] == [
        changed.get(node.name, before and before.why)
        for node, before in zip(nodes, found, strict=True)
    ]
    resuming = [slurm.out_of_reach(node, reserved=True, resuming=True) for node in nodes]
    assert [one.node for one in resuming if one] == ["c3", "c4", "c5", "c7"]
    assert "cable, ticket 4711" in found[2].text


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("mpibench vet 01234567: slow", True),
        ("mpibench vet: link down", True),
        ("mpibench vetted it: burnt", False),
        ("mpibench vet", False),
        ("see ticket: State=IDLE NodeName=c9", False),
    ],
)
def test_what_is_written_beside_a_node_is_read_as_no_more_than_that(asked, reason, ours):
    (asked.parent / "nodes").write_text(
        f"NodeName=c2 State=DOWN+DRAIN Partitions=p Reason={reason} [root@now]\n"
    )
    [node] = slurm.read_nodes().values()
    assert (node.name, node.states, node.is_ours) == ("c2", {"DOWN", "DRAIN"}, ours)


def test_a_node_that_is_none_is_refused_and_so_is_no_slurm(asked, tmp_path, monkeypatch):
    with refused_as("unknown-name", "c9"):
        slurm.named(["c1", "c9"], slurm.read_nodes())
    with refused_as("bad-option"):
        slurm.named([], slurm.read_nodes())
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with refused_as("scheduler-unusable", "scontrol"):
        slurm.read_nodes()


def failing(*names):
    reason = "its link; $(reboot) 'is' slow" * 9
    return [
        NodeVerdict(name, FAIL, (NodeReason(name, FACTS, Why.ODD_FACT, {"said": reason}),))
        for name in names
    ]


def test_no_more_are_drained_than_may_be(asked):
    lines = slurm.drain_lines(failing("c1", "c2", "c4"), "0123abcd-77")
    said = []
    assert not slurm.drain(lines, 2, said.append)
    assert not asked.exists()
    assert "3 nodes" in said[0]
    assert slurm.drain(lines, 3, said.append)
    assert [line.split()[1] for line in changes(asked)] == [
        f"nodename={name}" for name in ("c1", "c2", "c4")
    ]
    [reason] = [word for word in lines[0] if word.startswith("reason=")]
    assert reason.startswith(f"reason={PREFIX} 0123abcd: ")
    assert len(reason) <= slurm.LONGEST + len("reason=")
    assert not set("$'`\"") & set(reason)


def holding(passed, *names):
    """Nodes that are kept for a vetting, which they pass or not."""
    known = slurm.read_nodes()
    return slurm.held([known[name] for name in names], lambda name: passed)


@pytest.mark.parametrize("passed", [True, False])
def test_only_what_this_command_drained_is_resumed_and_stays_so_if_it_passes(asked, passed):
    (asked.parent / "in-use").touch()
    with holding(passed, "c1", "c2") as name:
        pass
    created, resumed, *rest = changes(asked)
    assert f"reservationname={name}" in created
    assert "nodes=c1,c2" in created
    assert resumed == "update nodename=c2 state=resume"
    drained = ["update nodename=c2 state=drain reason=mpibench vet 0123: slow"]
    deleted = [f"delete reservationname={name}"] * 2  # the first time it is still in use
    assert rest == [*([] if passed else drained), *deleted]


def test_where_no_reservation_is_to_be_had_nothing_is_resumed(asked):
    refusing = (asked.parent / "scontrol").read_text().replace('echo "$3 "', "exit 1; echo")
    (asked.parent / "scontrol").write_text(refusing)
    (asked.parent / "reserved").write_text("No reservations in the system")
    with refused_as("scheduler-unusable"), holding(True, "c2"):
        raise AssertionError
    assert [line.split()[0] for line in changes(asked)] == ["create"]


def test_a_signal_leaves_nothing_reserved_or_in_service(asked):
    with pytest.raises(KeyboardInterrupt), holding(False, "c2"):
        raise KeyboardInterrupt
    *_, drained, deleted = changes(asked)
    assert drained.startswith("update nodename=c2 state=drain")
    assert deleted.startswith("delete reservationname=")


def test_who_may_not_drain_is_refused_before_anything_is_measured(asked, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    with refused_as("not-ours"):
        slurm.require_rights()
    monkeypatch.setattr(os, "geteuid", lambda: 77777)
    slurm.require_rights()


def test_a_node_on_which_a_job_is_ending_is_waited_for(asked, monkeypatch):
    nodes = asked.with_name("nodes")
    nodes.write_text(NODES.replace("MIXED", "IDLE+COMPLETING"))
    monkeypatch.setattr(slurm.time, "sleep", lambda seconds: nodes.write_text(NODES))
    assert slurm.settled(["c4"])[0].states == {"MIXED"}


def test_where_draining_is_refused_the_answer_says_so_and_the_others_are_tried(asked):
    lines = slurm.drain_lines(failing("c1", "c3", "c6"), "0123abcd-77")
    (asked.parent / "refused").touch()
    said = []
    assert slurm.drain(lines, 3, said.append)
    assert [line.split(":")[0] for line in said] == [
        "not drained",
        "already drained",
        "not drained",
    ]
    # What somebody else drained keeps its reason.
    assert [line.split()[1] for line in changes(asked)] == ["nodename=c1", "nodename=c6"]


def test_what_cannot_be_drained_again_stays_in_its_reservation(asked):
    with refused_as("scheduler-unusable", "c2.*mpibench-vet-"), holding(False, "c2"):
        (asked.parent / "refused").touch()
    assert not [line for line in changes(asked) if line.startswith("delete")]


def test_what_others_drained_meanwhile_is_left_to_them(asked):
    with holding(False, "c2"):
        (asked.parent / "nodes").write_text(NODES.replace("mpibench vet 0123", "burnt"))
    assert not [line for line in changes(asked) if "state=drain" in line]


def test_a_job_of_the_users_keeps_what_ran_there_before(asked):
    assert slurm.own_job({}) is None
    job = slurm.own_job({"SLURM_JOB_ID": "7"})
    assert job.nodes == ("c4", "c7")
    assert job.others() == {"c7": "job 8", "c4": "step 7.2"}
    inside = slurm.own_job({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2"})
    assert inside.others() == {"c7": "job 8"}
    with pytest.raises(KeyboardInterrupt), job.ending_steps():
        (asked.parent / "steps").write_text("7.2 c4\n7.interactive c4\n7.10 c[4,7]\n7.9 c7\n")
        raise KeyboardInterrupt
    assert (asked.parent / "cancelled").read_text().split() == ["7.10", "7.9"]


@pytest.mark.parametrize(
    ("number", "state", "code"),
    [
        ("7", "", "busy"),
        ("7", f"7 COMPLETING {os.getuid()} c4", "busy"),
        ("9", "", "busy"),
        ("7", "7 RUNNING 77777 c4", "not-ours"),
    ],
)
def test_a_job_that_is_over_or_of_others_is_none_to_vet_in(asked, number, state, code):
    job = slurm.own_job({"SLURM_JOB_ID": "7"})
    assert not job.is_over()
    (asked.parent / "state").write_text(state)
    assert job.is_over()
    with refused_as(code, f"job {number}"):
        slurm.own_job({"SLURM_JOB_ID": number})
