"""Measured again counts on the same nodes only, which are asked for by
name; and a withdrawn session still decides.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.night import remeasuring
from mpibench.night.remeasuring import CalledCase
from mpibench.store import confirmations
from test_confirmation import night_with_references, said_of


@pytest.mark.parametrize(
    ("nodes", "status"),
    [("n3,n4", 1), ("n1,n2,n3", 1), ("n1", 1), ("", 1), ("n2,n1", 0), ("n1, n2", 0)],
)
def test_a_reference_is_reached_again_on_the_same_nodes_only(
    tmp_path: Path, nodes: str, status: int
) -> None:
    """A slow port of one node is none of another, and the first result stands."""
    night = night_with_references(tmp_path, 50.0, [(99.0, {"where": {"nodelist": nodes}})])
    said = said_of(tmp_path, night, status)
    assert ("not measured again: session 00000003 measured it on" in said) is bool(status)


@pytest.mark.parametrize(
    ("scheduler", "nodes", "asked"),
    [
        ("slurm", ("c1", "c2"), ["nodelist=c1,c2"]),
        ("slurm", ("c1 --exclusive",), []),
        ("slurm", (), []),
        ("local", ("c1",), []),
    ],
)
def test_the_nodes_are_asked_for_by_name_where_that_is_possible(
    tmp_path: Path, scheduler: str, nodes: tuple[str, ...], asked: list[str]
) -> None:
    case = CalledCase("s", "sys", "p", "a", "X", 0.1, confirmations.MeasuredOn(nodes))
    words = remeasuring.words([case], "reframe -r", tmp_path / "report.json", scheduler)
    assert [words[at + 1] for at, word in enumerate(words) if word == "-J"] == asked
