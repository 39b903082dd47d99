"""How far a night is, by what cases took last night, else by their number; and what it may take where nobody says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import planned_sites
from mpibench.commands import nightly
from mpibench.judge.plan.record import ListedCase
from mpibench.night import progress, settings
from synthetic_verdicts import write_session
from tiny_site import write_site

#: As ReFrame 4.10 printed it in a night of this project's own.
RUN = "[ RUN      ] Placement %fabric=shm %nodes=1 %ppn=1 %pinning=bunch /86759943 @generic:default+mpich-wheels"


def ended(number: int, total: int, name: str, status: str = "      OK") -> str:
    return f"[ {status} ] ({number:2}/{total}) {name} %fabric=shm /86759943 @generic:default+mpich-wheels\n"


def case(name: str) -> ListedCase:
    return ListedCase("default", "mpich-wheels", f"{name} %fabric=shm")


class Reader:
    """A night that is read line by line, with its clock."""

    def __init__(self, seconds: Mapping[ListedCase, float]) -> None:
        self.now, self.said = 1000.0, list[str]()
        self.asked = list[str]()
        self._progress = progress.Progress(self._seconds_of, self.said.append, lambda: self.now)
        self._seconds = seconds

    def _seconds_of(self, system: str) -> Mapping[ListedCase, float]:
        self.asked.append(system)
        return self._seconds

    def after(self, seconds: float, line: str) -> None:
        self.now += seconds
        self._progress.read(line)


def test_what_is_left_costs_what_it_took_last_night() -> None:
    """A tenth of the cost is done in twice the time it took: the rest takes twice as long, too."""
    night = Reader({case("Short"): 50.0, case("Long"): 400.0, case("Other"): 50.0})
    night.after(30, RUN)
    night.after(100, ended(1, 3, "Short"))
    assert night.said == []
    night.after(1, RUN)
    assert night.said == ["1 of 3 cases; about 15 min left"] and night.asked == ["generic"]


def test_without_an_earlier_night_the_number_counts_and_that_is_said() -> None:
    night = Reader({})
    night.after(0, RUN)
    night.after(50, ended(1, 6, "One"))
    night.after(200, ended(2, 6, "Other"))
    night.after(0, RUN)
    assert night.said == ["2 of 6 cases; about 8 min left (no earlier night says what they cost)"]


@pytest.mark.parametrize("names", [("New", "Old"), ("Old", "New")])
def test_a_new_case_is_taken_to_cost_what_the_others_do(names: tuple[str, str]) -> None:
    night = Reader({case("Old"): 100.0})
    night.after(0, RUN)
    night.after(200, ended(1, 2, names[0]))
    night.after(0, RUN)
    assert night.said == ["1 of 2 cases; about 3 min left"]


def test_a_part_of_the_cases_is_not_taken_for_all() -> None:
    night = Reader({case(str(number)): 10.0 for number in range(100)})
    night.after(0, RUN)
    night.after(100, ended(1, 3, "7"))
    night.after(0, RUN)
    assert night.said == ["1 of 3 cases; about 3 min left"]


def test_it_is_said_now_and_then_and_not_at_the_end() -> None:
    night = Reader({})
    night.after(0, RUN)
    for number in range(1, 31):
        night.after(20, ended(number, 30, str(number), "    FAIL" if number % 2 else "    SKIP"))
    night.after(1000, "[----------] all spawned checks have finished\n")
    assert len(night.said) == 9 and night.said[0].startswith("3 of 30 cases")


def test_other_lines_say_nothing() -> None:
    night = Reader({})
    for line in (ended(1, 2, "before any began"), "[  PASSED  ] Ran 30/30 test case(s)", "", "[       OK ] (x/y) a /b @c"):
        night.after(100, line)
    assert night.said == [] and night.asked == []


@pytest.mark.parametrize(("seconds", "words"), [(0, "10 s"), (44, "40 s"), (90, "2 min"), (5399, "90 min"), (9000, "2.5 h")])
def test_times_are_as_exact_as_anybody_can_know(seconds: float, words: str) -> None:
    assert progress.duration(seconds) == words


def test_the_newest_night_of_the_label_counts(tmp_path: Path) -> None:
    for number in range(3):
        write_session(tmp_path, number, labels={"run": "nightly"})
    write_session(tmp_path, 4, labels={"run": "other"})
    assert progress.seconds_of_last_night(tmp_path, "absent")("testbed") == {}
    assert progress.seconds_of_last_night(tmp_path / "absent", "nightly")("testbed") == {}
    found = progress.seconds_of_last_night(tmp_path, "nightly")("testbed")
    assert all(seconds > 0 for seconds in found.values())


def test_of_a_planned_night_the_plan_says_what_is_left_and_lines_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of the first one, whose costs are a model's."""
    clock, said, shown = [0.0], list[str](), list[bool]()
    rows = [SimpleNamespace(case=case(name), seconds=seconds, planned=True) for name, seconds in (("A", 50.0), ("B", 450.0))]
    plan: Any = SimpleNamespace(plan=SimpleNamespace(record=SimpleNamespace(id="x", cases=rows)), environ={})

    def run(words: Sequence[str], log: Path, show: Callable[[str], bool], *_: object) -> int:
        assert "run=nightly,plan=x" in words
        for seconds, line in ((0, RUN), (100, ended(1, 2, "A")), (100, RUN), (101, ended(2, 2, "B", "    SKIP"))):
            clock[0] = seconds
            shown.append(show(line))
        return 0

    monkeypatch.setattr(progress.Progress.__init__, "__defaults__", (lambda: clock[0],))
    monkeypatch.setattr(nightly.supervision, "run", run)
    nightly.measure(nightly.Night("nightly", "nightly", [], said.append, plan=plan), ())
    assert said[1:] == ["1 of 2 cases; about 15 min left"] and shown == [False, True, False, False]


@pytest.mark.parametrize(
    ("scheduler", "environ", "mode", "options", "budget"),
    [
        ("slurm", {}, "nightly", (), "8h"),
        ("slurm", {"BUDGET": ""}, "nightly", ("--system=mysystem", "-v"), "8h"),
        ("pbs", {"RFM_SYSTEM": "mysystem"}, "nightly", (), "8h"),
        ("slurm", {"BUDGET": "30m"}, "nightly", (), "30m"),
        ("slurm", {"BUDGET": "none"}, "nightly", (), ""),
        ("slurm", {}, "acceptance", (), ""),
        ("slurm", {}, "nightly", ("-n", "ImbPointToPoint"), ""),
        ("slurm", {}, "nightly", ("--system=mysystem:cpu",), ""),
        ("local", {}, "nightly", (), ""),
        ("local", {"BUDGET": "1h"}, "nightly", (), "1h"),
    ],
)
def test_the_budget_of_a_night(
    tmp_path: Path, scheduler: str, environ: Mapping[str, str], mode: str, options: Sequence[str], budget: str
) -> None:
    system = planned_sites.three_partitions()
    system["hostnames"] = [".*"]
    for partition in system["partitions"]:
        partition["scheduler"] = scheduler
    write_site(tmp_path, system)
    assert settings.budget_of(environ, mode, options, tmp_path) == budget


@pytest.mark.parametrize("budget", ["30m", "none"])
def test_a_plan_is_made_of_what_a_killed_night_left_unexported_too(budget: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ReFrame had stored its session; the dataset, which plans are made of, lacked it."""
    done: list[str] = []
    monkeypatch.setenv("BUDGET", budget)
    monkeypatch.setattr(nightly.Store, "bring_up_to_date", lambda *where: done.append("exported") or ["a note"])
    monkeypatch.setattr(nightly.settings, "plan_night", lambda *asked: done.append("planned"))
    night = nightly.Night("nightly", "nightly", [], print, before=frozenset({"an earlier one"}))
    nightly.make_plan(night)
    assert done == (["exported", "planned"] if budget == "30m" else ["planned"])
    assert night.notes == (["a note"] if budget == "30m" else [])
