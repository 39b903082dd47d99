"""Which nodes answered, whatever they answered; which did not,
why, and which of them a site misses.
"""

import json
from types import SimpleNamespace

import pytest
from reframe.core.schedulers.slurm import _SlurmNode

from reframe_tests.harness.cases.preflight import node_answers, node_facts


def answer(folder, node, facts):
    path = folder / node_answers.FOLDER / f"{node}{node_facts.SUFFIX}"
    path.parent.mkdir(exist_ok=True)
    path.write_text(facts if isinstance(facts, str) else json.dumps(facts))
    return folder


def test_a_node_leaves_its_file_under_the_name_that_the_scheduler_has(tmp_path, monkeypatch):
    """Slurm's NodeName need not be the host name; images that
    were copied may all have one host name.
    """
    monkeypatch.setattr(node_facts, "collect", lambda node, described: {"state": described})
    monkeypatch.setattr("socket.gethostname", lambda: "c1.cluster.example")
    monkeypatch.setenv("SLURMD_NODENAME", "gpu-0017")
    node_facts.main(str(tmp_path), "eth0")
    assert json.loads((tmp_path / "gpu-0017.json").read_text()) == {"state": ["eth0"]}
    monkeypatch.delenv("SLURMD_NODENAME")
    node_facts.main(str(tmp_path))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["c1.cluster.example.json", "gpu-0017.json"], "and nothing half done"
    with pytest.raises(FileNotFoundError):
        node_facts.main(str(tmp_path / "none"))


@pytest.mark.parametrize(
    "bad",
    [
        '{"kernel": {"": "a"',
        "[" * 99999,
        "1" * 5001,
        {"kernel": {"": ["a"]}},
        {"a": {"": None}},
        {"a": {"": float("nan")}},
        {"a": {"": 2**63}},
    ],
)
def test_what_cannot_be_judged_is_reported_and_hides_no_other_node(tmp_path, bad):
    good = {"kernel": {"": "a"}}
    answer(answer(tmp_path, "n1", bad), "n2", good)
    (tmp_path / node_answers.FOLDER / f"n3{node_facts.SUFFIX}").mkdir()
    found, wrong = node_answers.read(tmp_path)
    assert found == {"n2": good} and len(wrong) == 2
    for node, said in zip(("n1", "n3"), wrong, strict=True):
        assert said.startswith(f"{node}'s facts are unreadable: ")


def test_no_text_of_a_node_moves_a_terminal(tmp_path):
    """Users choose the names of their processes."""
    evil = "a\x1b[2J\x1b]0;owned\x07b\nc\udc80\x85"
    facts = {"processes_of_others": {"": evil}, "x\x1b[1m": {"eth\x07": "v"}}
    found, wrong = node_answers.read(answer(tmp_path, "n1", facts))
    assert wrong == [] and found == {"n1": {"processes_of_others": {"": "ab c"}, "x": {"eth": "v"}}}


@pytest.mark.parametrize(
    ("answered", "there", "expected", "said"),
    [
        ("n1 n2", "n1 n2", 2, []),
        ("n1", "", 1, []),
        # The scheduler forgot the job's nodes, or gave fewer than were asked for.
        ("n1", "", 2, ["1 of 2 nodes answered"]),
        ("n1", "n1", 2, ["1 of 2 nodes answered"]),
        (
            "n1 n3",
            "n1 n2",
            2,
            [
                "1 of 2 nodes answered; silent: n2",
                "n3 answered, but are not nodes of the job (n1, n2)",
            ],
        ),
    ],
)
def test_each_node_of_the_job_must_answer(answered, there, expected, said):
    found = node_answers.find_missing(dict.fromkeys(answered.split()), there.split(), expected)
    assert found == said


def test_nodes_that_were_not_looked_at_are_counted_by_state(tmp_path):
    states = [{"IDLE"}, {"ALLOCATED"}, {"ALLOCATED"}, {"IDLE", "DRAIN"}, set()]
    assert node_answers.count_states(states) == {"allocated": 2, "drain+idle": 1, "unknown": 1}
    assert node_answers.job_nodes(tmp_path) == ()
    (tmp_path / node_answers.NODES_FILE).write_text("c1\nc2\n")
    assert node_answers.job_nodes(tmp_path) == ("c1", "c2")


@pytest.mark.parametrize(
    ("states", "out"),
    [
        ("IDLE ALLOCATED MIXED COMPLETING PLANNED POWERED_DOWN IDLE~ REBOOT", 0),
        ("DOWN DOWN*+DRAIN DRAINING+ALLOCATED FAIL IDLE+INVALID_REG", 1),
    ],
)
def test_a_node_that_comes_back_by_itself_is_none(states, out):
    """As ReFrame reads a line of ``scontrol -a show -o nodes`` of Slurm 22.05 (shortened)."""
    for state in states.split():
        line = f"NodeName=n1 State={state} ThreadsPerCore=1 Partitions=batch"
        node = SimpleNamespace(name="n1", states=set(state.split("+")), descr=line)
        assert len(node_answers.find_out_of_service([node], ["*"])) == out


def test_a_reserved_node_that_must_be_in_service_is_missed():
    """Those of the job's own partition; ReFrame's own nodes, from lines of scontrol."""
    rows = "n1 IDLE batch, n2 IDLE+MAINTENANCE+RESERVED batch, n3 RESERVED other, n4 RESERVED batch"
    line = "NodeName={} ActiveFeatures=(null) State={} ThreadsPerCore=1 Partitions={}"
    everything = {_SlurmNode(line.format(*row.split())) for row in rows.split(", ")}

    def choose(nodes):
        mine = (node for node in nodes if node.partitions >= {"batch"})
        return {node for node in mine if not node.in_state("RESERVED")}

    idle = choose(everything)
    for pattern, wanted in (("n[123]", 1), ("*", 2)):
        found = node_answers.find_reserved(everything, choose, idle, [pattern])
        assert len(found) == wanted and all(one.missed for one in found)
        assert "n2 (idle+maintenance+reserved)" in map(str, found)


def test_a_node_that_the_scheduler_does_not_know_is_missed_by_its_pattern():
    names = ["n3", "n4", "n5"]
    assert node_answers.find_absent(names, ["n*", "n4"]) == []
    [said] = node_answers.find_absent(names, ["n*", "n9", "gpu*"])
    assert "names n9, gpu*, but the partition has no such node" in said
