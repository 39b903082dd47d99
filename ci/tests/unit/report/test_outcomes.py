"""What stands beside verdicts: that the machine was busy; and names of cases, which are not alike
where these were not measured alike.
"""

from __future__ import annotations

from typing import Any

import pytest

from mpibench.pages import outcomes
from mpibench.store.sessions import Case, Session
from reframe_tests.harness.samples import Sample, read_evidence

TIMED = (Sample("imb", "PingPong", "p2p", 2, 1, "", 8, 100, "latency_us", (1.0,)),)


def case(losses_per_s: float, samples: tuple[Sample, ...] = TIMED) -> Case:
    proof = read_evidence(
        {"verdict": "proven", "ranks": [], "devices": [], "core_losses_per_s": losses_per_s}, "here"
    )
    entry = {"system": "s", "partition": "p", "environ": "mpich", "result": "pass", "name": "x"}
    return Case(f"{losses_per_s}", 0, entry, {"nodes": 1, "ppn": 2}, samples, proof, ())


def line(*cases: Case) -> str:
    return outcomes.verdict_line(Session({"uuid": "0"}, cases))


def test_busy_cases_are_counted_beside_the_verdict() -> None:
    said = line(case(147), case(9.9))
    assert "In 1 of 2 cases ranks often lost their core to other programs" in said
    assert "busy" not in line(case(0), case(0, ()), case(147, ()))


@pytest.mark.parametrize(
    ("options", "end"), [("memory=remote\nPASS", " · memory=remote PASS"), (None, "")]
)
def test_a_title_names_the_options_of_the_suite(options: str | None, end: str) -> None:
    condition: dict[str, Any] = {"suite_options": options, "ppn_symbol": "2", "group": "memory"}
    condition |= {"fabric": "memory", "nodes": 1, "ppn": 2, "pinning": "bunch"}
    for more, last in (({}, ""), ({"oversubscribed": "x"}, " · oversubscribed: x")):
        whole = {**condition, **more}
        case = Case("1:0:0", 0, {"condition": whole}, whole, (), None, ())
        title = f"memory · memory · 1 node · ppn 2 · bunch{end}{last}"
        assert outcomes.title_of(case) == title
