"""That ranks shared their cores with other programs stands beside the verdict, and not in each case's notes alone."""

from __future__ import annotations

from mpibench.pages import outcomes as summary
from mpibench.store.sessions import Case, Session
from reframe_tests.harness.evidence.checks import LOST_CORE
from reframe_tests.harness.samples import Sample, read_evidence

TIMED = (Sample("imb", "PingPong", "p2p", 2, 1, "", 8, 100, "latency_us", (1.0,)),)


def case(note: str, samples: tuple[Sample, ...] = TIMED) -> Case:
    proof = read_evidence({"verdict": "proven", "ranks": [], "devices": [], "notes": [note] if note else []}, "here")
    entry = {"system": "s", "partition": "p", "environ": "mpich", "result": "pass", "name": "x"}
    return Case(note or "quiet", 0, entry, {"nodes": 1, "ppn": 2}, samples, proof, ())


def line(*cases: Case) -> str:
    return summary.verdict_line(Session({"uuid": "0"}, cases))


def test_busy_cases_are_counted_beside_the_verdict() -> None:
    said = line(case(f"1 rank {LOST_CORE}, rank 0 147 times a second (noted from 10 on)"), case("another note"))
    assert said.endswith(". In 1 of 2 cases ranks often lost their core to other programs: the machine was busy.")


def test_a_quiet_machine_and_untimed_cases_say_nothing() -> None:
    assert "busy" not in line(case(""), case("", ()), case(f"2 ranks {LOST_CORE}", ()))
