"""How far a night is, by what cases took last night, else by their
number; and what it may take where nobody says.
"""

from types import SimpleNamespace

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


def ended(number, name, status="      OK"):
    return (
        f"[ {status} ] ({number:2}/2) {name} %fabric=shm /86759943 @generic:default+mpich-wheels\n"
    )


def test_the_newest_night_of_the_label_counts(tmp_path):
    for number in range(3):
        write_session(tmp_path, number, labels={"run": "nightly"})
    write_session(tmp_path, 4, labels={"run": "other"})
    assert progress.seconds_of_last_night(tmp_path, "absent")("testbed") == {}
    assert progress.seconds_of_last_night(tmp_path / "absent", "nightly")("testbed") == {}
    found = progress.seconds_of_last_night(tmp_path, "nightly")("testbed")
    assert all(seconds > 0 for seconds in found.values())


def test_of_a_planned_night_the_plan_says_what_is_left_and_lines_are_hidden(monkeypatch):
    """Also of the first one, whose costs are a model's."""
    clock = [0.0]
    said = []
    shown = []
    rows = [
        SimpleNamespace(
            case=ListedCase("default", "mpich-wheels", f"{name} %fabric=shm"),
            seconds=seconds,
            planned=True,
        )
        for name, seconds in (("A", 50.0), ("B", 450.0))
    ]
    made = SimpleNamespace(record=SimpleNamespace(id="x", cases=rows))
    plan = SimpleNamespace(plan=made, environ={})
    lines = [(0, RUN), (100, ended(1, "A")), (100, RUN), (101, ended(2, "B", "    SKIP"))]

    def run(words, log, show, *_, tell):
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
def test_the_budget_of_a_night(tmp_path, scheduler, environ, mode, options, budget):
    system = synthetic_site.three_partitions()
    system["hostnames"] = [".*"]
    for partition in system["partitions"]:
        partition["scheduler"] = scheduler
    write_site(tmp_path, system)
    assert settings.budget_of(environ, mode, options.split(), tmp_path) == budget


@pytest.mark.parametrize("budget", ["30m", "none"])
def test_a_plan_is_made_of_what_a_killed_night_left_unexported_too(budget, monkeypatch):
    """ReFrame had stored its session; the dataset, which plans are made of, lacked it."""
    done = []
    monkeypatch.setenv("BUDGET", budget)
    monkeypatch.setattr(
        nightly.Store, "bring_up_to_date", lambda *where: done.append("exported") or ["a note"]
    )
    monkeypatch.setattr(nightly.settings, "plan_night", lambda *asked: done.append("planned"))
    night = nightly.Night("nightly", "nightly", [], print, before=frozenset({"an earlier one"}))
    nightly.make_plan(night)
    assert done == (["exported", "planned"] if budget == "30m" else ["planned"])
    assert night.notes == (["a note"] if budget == "30m" else [])
