"""What a night may take where nobody says: a bound where a batch system runs the jobs of a whole night, else none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import planned_sites
from mpibench.commands import nightly
from mpibench.night import settings
from tiny_site import write_site


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
