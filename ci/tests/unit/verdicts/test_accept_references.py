"""Acceptance and references: what the baseline reached and the candidate missed refuses; what left a metric open is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpibench.judge import accept
from mpibench.judge import text as verdict_text
from mpibench.night.confirmation import acceptance as confirmed
from mpibench.night.confirmation.measuring import Remeasured
from mpibench.store.sessions import Session
from mpibench.store.store import Store
from synthetic_session import gate
from synthetic_verdicts import write_session
from test_accept import record, run


def of_reference(value: float) -> dict[str, Any]:
    return {"gates": [gate("Uniband.line_rate_fraction.4194304", value, 0.5, "1", "physics")]}


@pytest.mark.parametrize(("before", "after", "status"), [(0.9, 0.2, 1), (0.9, 0.9, 0), (0.2, 0.2, 0), (0.2, 0.9, 0)])
def test_a_reference_that_the_baseline_reached_and_the_candidate_missed_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: float, after: float, status: int
) -> None:
    """Whatever the curves leave open; what the baseline missed the candidate is not held to."""
    write_session(tmp_path, 0, where=of_reference(before))
    write_session(tmp_path, 1, where=of_reference(after), mpi_version="5.0.11")
    assert run(tmp_path) == status
    first = capsys.readouterr().out.splitlines()[0]
    assert ("NOT ACCEPTED: reference missed that the baseline reached: openmpi-spack on eth1g" in first) is bool(status)
    assert record(tmp_path)["decision"] == ("refused" if status else "accepted")


def test_a_missed_reference_is_measured_again_on_its_nodes_before_it_refuses(tmp_path: Path) -> None:
    first_of_all = write_session(tmp_path, 0, where=of_reference(0.9))
    candidate = write_session(tmp_path, 5, where=of_reference(0.2))
    for number, (value, nodes, decision) in enumerate(
        [(0.3, "n1,n2", accept.REFUSED), (0.9, "n3,n4", accept.REFUSED), (0.9, "n2,n1", accept.ACCEPTED)], start=6
    ):
        first = accept.decide(Store(tmp_path), first_of_all, candidate)
        [case] = confirmed.cases_to_measure(first)
        labels = {"run": "confirmation", "confirms": candidate}
        new = write_session(tmp_path, number, where={**of_reference(value), "nodelist": nodes}, labels=labels)
        again = Remeasured((case,), 30.0, [Session({"uuid": new}, ())], {case: f"{new}:0:0"})
        second = confirmed.confirm(first, Store(tmp_path), [again])
        assert second.decision == decision, second.headline
        assert any("measured it on n3, n4, and not on n1, n2" in line for line in second.sentences) is (nodes == "n3,n4")


def test_what_is_open_though_slower_than_its_margin_says_which_probability_left_it_so() -> None:
    row = {
        "ratio": 3.7,
        "p": 0.04,
        "slower": 2.7,
        "margin_percent": 4.0,
        "spread_percent": 30.0,
        "units": "jobs",
        "needed": None,
    }
    assert verdict_text.needed_text(row, 0.01).startswith("p = 0.04, 0.01 asked for, ")
    assert "spread 30.0 % against a margin of 4 %" in verdict_text.needed_text({**row, "slower": 0.01}, 0.01)
