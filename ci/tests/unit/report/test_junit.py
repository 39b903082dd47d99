"""The JUnit file after measuring again: no failure goes that had another reason, and every reader sees both measurements."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mpibench.night.confirmed_night import ReferenceAnswer, all_excused, stored_answers
from mpibench.pages import junit
from mpibench.store import dataset
from mpibench.store.sessions import CONFIRMS, Case, Session
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_report import changed, session_of
from synthetic_session import case, gate


def run_of(number: int, value: float | None, **changes: Any) -> Case:
    """One run of the same case, with a bandwidth of at least 90 MB/s, or contradicted."""
    gates = [] if value is None else [gate("bandwidth", value, 100.0, "MB/s")]
    [one] = session_of(case("mpich-wheels", gates=gates)).cases
    missed = value is not None and value < 90
    entry = {"result": "fail" if value is None or missed else "pass", "fail_phase": "performance" if missed else "sanity"}
    return changed(one, uuid=f"first:{number}:0", run=number, **{**entry, **changes})


def answered(session: Session, second: Case) -> list[ReferenceAnswer]:
    """Where the one case of the session was measured again so."""
    again = Session({**session.info, "uuid": "again", CONFIRMS: "first"}, (changed(second, uuid="again:0:0"),))
    with tempfile.TemporaryDirectory() as folder:
        for one in (session, again):
            dataset.export_session(one, folder)
        return list(stored_answers(Store(folder), "first").answers)


def written(path: Path, session: Session, started: float | None = None) -> Path:
    """A JUnit file as ReFrame writes one, with a suite for each run."""
    root = ElementTree.Element("testsuites")
    stamp = time.strftime("%FT%T", time.localtime(session.info["time_start_unix"] if started is None else started))
    for one in session.cases:
        suite = ElementTree.SubElement(root, "testsuite", timestamp=stamp)
        element = ElementTree.SubElement(suite, "testcase", name=one.name)
        if one.result == "fail":
            ElementTree.SubElement(element, "failure", message=one.fail_phase).text = f"{one.fail_phase}: why"
    ElementTree.ElementTree(root).write(path)
    return path


def failures(path: Path) -> list[list[str]]:
    """Texts of the failures of each run, and what its suite counts, which must be as many."""
    suites = list(ElementTree.parse(path).iter("testsuite"))
    texts = [[str(mark.text) for mark in suite.iter("failure")] for suite in suites]
    assert [suite.get("failures") for suite in suites] == [str(len(one)) for one in texts]
    return texts


def session(runs: Sequence[Case], command: str) -> Session:
    return Session({"uuid": "first", "time_start_unix": 1.75e9 + 0.9, "time_elapsed": 9.0, "cmdline": command}, tuple(runs))


def test_a_run_that_failed_for_another_reason_stays_a_failure(tmp_path: Path) -> None:
    """The first run went over another fabric, the retry missed a reference: only this was measured again."""
    night = session([run_of(0, None), run_of(1, 50.0)], "reframe -r --max-retries=1")
    path = written(tmp_path / "night.xml", night)
    found = answered(night, run_of(0, 97.0))
    assert [one.excused for one in found] == [True] and all_excused(night, found)
    junit.confirm(path, night, found)
    assert failures(path) == [["sanity: why"], []]


def test_each_of_several_runs_is_held_against_what_it_missed(tmp_path: Path) -> None:
    """With reruns each run counts: a second reference that only the first one missed is missed again."""
    rate = {"metric": "rate", "layer": "learned", "value": 1.0, "reference": 10.0, "lower": 9.0, "upper": None, "unit": "/s"}
    low = [{**rate, "outcome": "fail"}, gate("bandwidth", 50.0, 100.0, "MB/s")]
    runs = [session_of(case("mpich-wheels", gates=low)).cases[0], run_of(1, 60.0), run_of(2, 95.0)]
    runs[0] = changed(runs[0], uuid="first:0:0", result="fail", fail_phase="performance")
    night = session(runs, "reframe -r --reruns=2")
    [second] = session_of(
        case("mpich-wheels", gates=[{**rate, "outcome": "fail"}, gate("bandwidth", 97.0, 100.0, "MB/s")])
    ).cases
    found = answered(night, changed(second, result="fail", fail_phase="performance"))
    assert {one.uuid: one.excused for one in found} == {"first:0:0": False, "first:1:0": False}
    assert not all_excused(night, found)
    found = answered(night, run_of(0, 97.0))
    assert {one.uuid: one.excused for one in found} == {"first:0:0": False, "first:1:0": True}
    assert "missed reference not measured again" in found[0].sentence and "rate 1 /s and again nothing" in found[0].sentence
    path = written(tmp_path / "night.xml", night)
    junit.confirm(path, night, found)
    assert [len(one) for one in failures(path)] == [1, 0, 0]


def test_who_shows_only_a_failures_text_shows_both_measurements(tmp_path: Path) -> None:
    night = session([run_of(0, 50.0)], "reframe -r")
    path = written(tmp_path / "night.xml", night)
    junit.confirm(path, night, answered(night, run_of(0, 60.0)))
    [[text]] = failures(path)
    assert "seen twice" in text and "50 MB/s and again 60" in text and text.endswith("\nperformance: why")


def test_a_file_of_an_earlier_night_is_none_of_this_one(tmp_path: Path) -> None:
    night = session([run_of(0, 97.0)], "reframe -r")
    path = written(tmp_path / "night.xml", night, started=night.info["time_start_unix"] - 86400)
    before = path.read_bytes()
    with refused_as("junit-damaged", match=r"is of a session that started 20.*remove it"):
        junit.complete(path, night)
    assert path.read_bytes() == before
