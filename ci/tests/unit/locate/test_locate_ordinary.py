"""What ordinary sessions show of nodes: a node that is slow in all of
its jobs, and nodes that were always together.
"""

import itertools

import pytest

from mpibench import cli
from synthetic_verdicts import write_session

NODES = tuple(f"n{number}" for number in range(1, 9))


def month(folder, pairs, slow=""):
    """A session a day, each on some nodes."""
    for number, nodes in enumerate(pairs):
        factor = 1.5 if slow in nodes else 1.0
        where = {"nodelist": ",".join(nodes), "nodes": 2}
        write_session(folder, number, change=lambda *_, f=factor: f, where=where, noise=0.01)


@pytest.fixture
def ask(tmp_path, capsys):
    def run():
        words = "locate --ordinary 20260101:20261231 --dataset-only --dataset"
        status = cli.main([*words.split(), str(tmp_path)])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def test_nodes_that_were_always_together_are_both_named_and_none_is_drained(ask, tmp_path):
    month(tmp_path, [("n1", "n2"), ("n3", "n4"), ("n5", "n6"), ("n7", "n8")] * 8, "n1")
    status, said = ask()
    assert status == 1 and "scontrol" not in said
    assert "n1 or n2, which ran all these jobs together: 8 of 8 jobs are slow" in said


@pytest.mark.parametrize("once", [False, True])
def test_a_healthy_month(ask, tmp_path, once):
    """Nodes with one job are no green."""
    pairs = list(itertools.combinations(NODES[:6] if once else NODES, 2)) * 2
    month(tmp_path, [*pairs, *[("n7", "n8")][: 1 if once else 0]])
    status, said = ask()
    assert status == (3 if once else 0), said
    assert ("2 of 8 nodes had fewer than 2 jobs and were not judged" in said) is once
