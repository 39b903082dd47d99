"""How far a night is, by what cases took last night, else by their
number; and what it may take where nobody says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import synthetic_site
from mpibench.commands import nightly
from mpibench.judge.plan.record import ListedCase
from mpibench.night import progress, settings
from synthetic_site import write_site
from synthetic_verdicts import write_session

#: As ReFrame 4.10 printed it in a night of this project's own.
RUN = (
    "[ RUN      ] Placement %fabric=shm %nodes=1 %ppn=1 %pinning=bunch /86759943 "
    "@generic:default+mpich-wheels"
)


def ended(number: int, total: int, name: str, status: str = "      OK") -> str:
    return (
        f"[ {status} ] ({number:2}/{total}) {name} %fabric=shm /86759943 "
        "@generic:default+mpich-wheels\n"
    )


def case(name: str) -> ListedCase:
    return ListedCase("default", "mpich-wheels", f"{name} %fabric=shm")


class Reader:
    """A night that is read line by line, with its clock."""

    def __init__(self, seconds: Mapping[ListedCase, float]) -> None:
        self.now = 1000.0
        self.said = list[str]()
        self.asked = list[str]()
        self._progress = progress.Progress(self._seconds_of, self.said.append, lambda: self.now)
        self._seconds = seconds

    def _seconds_of(self, system: str) -> Mapping[ListedCase, float]:
        self.asked.append(system)
        return self._seconds

    def after(self, seconds: float, line: str) -> None:
        """Let time pass, and then a line come."""
        for _ in range(round(seconds)):
            self.now += 1
            self._progress.tell()
        self._progress.read(line)


def test_skipped_cases_take_nothing_and_what_is_left_is_right_from_the_first() -> None:
    """Ten cases that take 2 min each, twice what was expected, and as many that are skipped."""
    night = Reader({case(str(number)): 60.0 for number in range(10)})
    night.after(0, RUN)
    for number in range(10):
        night.after(0, ended(2 * number + 1, 20, f"skipped {number}", "    SKIP"))
        night.after(120, ended(2 * number + 2, 20, str(number)))
    assert night.said[0] == "1 of 20 cases; an unknown time left"
    left = [f"{(m - 1) // 2 * 2 + 1} of 20 cases; about {20 - m} min left" for m in range(3, 19)]
    assert night.said[2:18] == left


def test_a_minute_never_passes_without_a_sentence() -> None:
    night = Reader({case("A"): 60.0, case("B"): 50.0})
    night.after(61, RUN)
    night.after(60, ended(1, 2, "A"))
    night.after(190, "[  PASSED  ] Ran 30/30 test case(s)")
    late = "1 of 2 cases; what runs now takes longer than expected"
    assert night.said == ["no case has begun yet", "no case has ended yet", late, late, late]
    night.after(0, ended(2, 2, "B"))
    night.after(1000, "[       OK ] (x/y) a /b @c")
    assert len(night.said) == 5


def test_the_newest_night_of_the_label_counts(tmp_path: Path) -> None:
    for number in range(3):
        write_session(tmp_path, number, labels={"run": "nightly"})
    write_session(tmp_path, 4, labels={"run": "other"})
    assert progress.seconds_of_last_night(tmp_path, "absent")("testbed") == {}
    assert progress.seconds_of_last_night(tmp_path / "absent", "nightly")("testbed") == {}
    found = progress.seconds_of_last_night(tmp_path, "nightly")("testbed")
    assert all(seconds > 0 for seconds in found.values())


def test_of_a_planned_night_the_plan_says_what_is_left_and_lines_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of the first one, whose costs are a model's."""
    clock = [0.0]
    said = list[str]()
    shown = list[bool]()
    rows = [
        SimpleNamespace(case=case(name), seconds=seconds, planned=True)
        for name, seconds in (("A", 50.0), ("B", 450.0))
    ]
    made = SimpleNamespace(record=SimpleNamespace(id="x", cases=rows))
    plan: Any = SimpleNamespace(plan=made, environ={})
    lines = [
        (0, RUN),
        (100, ended(1, 2, "A")),
        (100, RUN),
        (101, ended(2, 2, "B", "    SKIP")),
    ]

    def run(words: Sequence[str], log: Path, show: Any, *_: object, tell: Any) -> int:
        assert "run=nightly,plan=x" in words
        for seconds, line in lines:
            clock[0] = seconds
            shown.append(show(line))
            tell()
        return 0

    monkeypatch.setattr(progress.Progress.__init__, "__defaults__", (lambda: clock[0],))
    monkeypatch.setattr(nightly.supervision, "run", run)
    nightly.measure(nightly.Night("nightly", "nightly", [], said.append, plan=plan), ())
    assert said[1:] == ["1 of 2 cases; about 15 min left"] and shown == [False, True, False, False]


@pytest.mark.parametrize(
    ("scheduler", "environ", "mode", "options", "budget"),
    [
        ("slurm", {}, "wide", "", "8h"),
        ("slurm", {"BUDGET": ""}, "nightly", "--system=mysystem -v", "10m"),
        ("pbs", {"RFM_SYSTEM": "mysystem"}, "nightly", "", "10m"),
        ("slurm", {"BUDGET": "none"}, "nightly", "", ""),
        ("slurm", {}, "acceptance", "", ""),
        ("slurm", {}, "nightly", "-n ImbPointToPoint", ""),
        ("slurm", {}, "nightly", "--system=mysystem:cpu", ""),
        ("local", {}, "nightly", "", ""),
        ("local", {"BUDGET": "1h"}, "nightly", "", "1h"),
    ],
)
def test_the_budget_of_a_night(
    tmp_path: Path, scheduler: str, environ: Mapping[str, str], mode: str, options: str, budget: str
) -> None:
    system = synthetic_site.three_partitions()
    system["hostnames"] = [".*"]
    for partition in system["partitions"]:
        partition["scheduler"] = scheduler
    write_site(tmp_path, system)
    assert settings.budget_of(environ, mode, options.split(), tmp_path) == budget


@pytest.mark.parametrize("budget", ["30m", "none"])
def test_a_plan_is_made_of_what_a_killed_night_left_unexported_too(
    budget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ReFrame had stored its session; the dataset, which plans are made of, lacked it."""
    done: list[str] = []
    monkeypatch.setenv("BUDGET", budget)
    monkeypatch.setattr(
        nightly.Store, "bring_up_to_date", lambda *where: done.append("exported") or ["a note"]
    )
    monkeypatch.setattr(nightly.settings, "plan_night", lambda *asked: done.append("planned"))
    night = nightly.Night("nightly", "nightly", [], print, before=frozenset({"an earlier one"}))
    nightly.make_plan(night)
    assert done == (["exported", "planned"] if budget == "30m" else ["planned"])
    assert night.notes == (["a note"] if budget == "30m" else [])
