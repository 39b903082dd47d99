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
from synthetic_session import HOSTILE
from synthetic_tuning import samples, session_of

SLOW = {("Allreduce-vs-Reduce-Bcast", 65536): [1.8, 1.81, 1.79, 1.8, 1.82, 1.8]}


def section_of(session: Session) -> str:
    """Text of the section, its white space as a browser shows it; empty where the page has none."""
    return " ".join(
        Reader(report.render(report.View(session, Path()))).text.get("guidelines", "").split()
    )


def test_too_few_repeats_are_shown_without_an_interval() -> None:
    said = section_of(session_of(samples({key: values[:2] for key, values in SLOW.items()})))
    assert "0 violated, 0 held, 1 could not be decided" in said
    assert "MPI_Allreduce" in said and "nan" not in said and "inf" not in said


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


def test_hostile_names_are_text() -> None:
    page = Reader(report.render(report.View(session_of(samples(SLOW), stack=HOSTILE), Path())))
    assert HOSTILE in page.text["guidelines"]
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe")]
