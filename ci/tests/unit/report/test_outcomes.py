"""What stands beside verdicts: that the machine was busy; and names of cases, which are not alike
where these were not measured alike.
"""

from __future__ import annotations

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
