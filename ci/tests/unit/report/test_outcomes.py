"""What stands beside verdicts: that the machine was busy; and names of cases, which are not alike where these were not measured
alike."""

from __future__ import annotations

import pytest

from mpibench.pages import outcomes
from mpibench.store.sessions import Case, Session
from reframe_tests.harness.evidence.checks import LOST_CORE
from reframe_tests.harness.samples import Sample, read_evidence

TIMED = (Sample("imb", "PingPong", "p2p", 2, 1, "", 8, 100, "latency_us", (1.0,)),)


def case(note: str, samples: tuple[Sample, ...] = TIMED) -> Case:
    proof = read_evidence({"verdict": "proven", "ranks": [], "devices": [], "notes": [note] if note else []}, "here")
    entry = {"system": "s", "partition": "p", "environ": "mpich", "result": "pass", "name": "x"}
    return Case(note or "quiet", 0, entry, {"nodes": 1, "ppn": 2}, samples, proof, ())


def line(*cases: Case) -> str:
    return outcomes.verdict_line(Session({"uuid": "0"}, cases))


def test_busy_cases_are_counted_beside_the_verdict() -> None:
    said = line(case(f"1 rank {LOST_CORE}, rank 0 147 times a second (noted from 10 on)"), case("another note"))
    assert said.endswith(". In 1 of 2 cases ranks often lost their core to other programs: the machine was busy.")


def test_a_quiet_machine_and_untimed_cases_say_nothing() -> None:
    assert "busy" not in line(case(""), case("", ()), case(f"2 ranks {LOST_CORE}", ()))


@pytest.mark.parametrize(
    ("options", "end"),
    [
        ("memory=remote,page_cache=filled", " · bunch · memory=remote,page_cache=filled"),
        ("window=allocate\nPASS", " · bunch · window=allocate PASS"),
        ("", " · bunch"),
        (None, " · bunch"),
    ],
)
def test_a_title_names_the_options_of_the_suite(options: str | None, end: str) -> None:
    condition = {
        "suite_options": options,
        "ppn_symbol": "2",
        "group": "memory",
        "fabric": "memory",
        "nodes": 1,
        "ppn": 2,
        "pinning": "bunch",
    }
    case = Case("1:0:0", 0, {"condition": condition}, condition, (), None, ())
    assert outcomes.title_of(case) == f"memory · memory · 1 node · ppn 2{end}"
    shared = {**condition, "oversubscribed": "2 ranks on 1 core"}
    case = Case("1:0:0", 0, {"condition": shared}, shared, (), None, ())
    assert outcomes.title_of(case) == f"memory · memory · 1 node · ppn 2{end} · oversubscribed: 2 ranks on 1 core"
