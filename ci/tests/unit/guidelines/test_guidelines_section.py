"""Guidelines in the report: violations under each condition, what could not
be decided, and nothing where none was measured.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.judge import policy as verdict_policy
from mpibench.judge.policy import Policy
from mpibench.pages import session as report
from mpibench.store.sessions import Session
from page_reader import Reader
from reframe_tests.harness.vocabulary import BadInput
from synthetic_guidelines import sample, samples, session_of
from synthetic_report import HOSTILE

SLOW = {("Allreduce-vs-Reduce-Bcast", 65536): [1.8, 1.81, 1.79, 1.8, 1.82, 1.8]}
HELD = {("Bcast-vs-larger", 64): [0.8, 0.81, 0.8, 0.8, 0.79, 0.8]}
INCONCLUSIVE = {("Scan-vs-parts", 64): [0.5, 2.0, 1.0, 1.1, 0.9, 3.0]}


def section_of(session: Session) -> str:
    """Text of the section, its white space as a browser shows it; empty where the page has none."""
    return " ".join(
        Reader(report.render(report.View(session, Path()))).text.get("guidelines", "").split()
    )


def test_a_violation_is_a_sentence_under_its_condition() -> None:
    said = section_of(session_of(samples({**SLOW, **HELD, **INCONCLUSIVE})))
    assert "1 of 3 guidelines violated, 1 held, 1 inconclusive (1 condition" in said
    assert "MPI_Allreduce at 64 KiB takes 1.8 (1.8 to 1.8) times MPI_Reduce + MPI_Bcast" in said


def test_too_few_repeats_are_shown_without_an_interval() -> None:
    said = section_of(session_of(samples({key: values[:2] for key, values in SLOW.items()})))
    assert "0 violated, 0 held, 1 could not be decided" in said
    assert "MPI_Allreduce" in said and "nan" not in said and "inf" not in said


def test_nothing_is_shown_where_none_was_measured() -> None:
    assert section_of(session_of((sample("PingPong", 8, "latency_us", [1.0]),))) == ""


def test_what_cannot_be_judged_is_said_and_the_page_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = section_of(session_of(samples(SLOW), status="contradicted"))
    assert "1 case not used: has no proof" in said and "tune it" not in said

    def refuse(system: str) -> Policy:
        raise BadInput("file-unreadable", f"site_configs/{system}/policy.yaml is empty.")

    monkeypatch.setattr(verdict_policy, "load", refuse)
    said = section_of(session_of(samples(SLOW)))
    assert "Not judged: site_configs/testbed/policy.yaml is empty." in said


def test_two_systems_are_judged_by_no_policy() -> None:
    session = session_of(samples(SLOW), samples(SLOW))
    session.cases[1].entry["system"] = "other"
    assert "has cases on 2 systems, and one policy judges" in section_of(session)


def test_hostile_names_are_text() -> None:
    page = Reader(report.render(report.View(session_of(samples(SLOW), stack=HOSTILE), Path())))
    assert HOSTILE in page.text["guidelines"]
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe")]
