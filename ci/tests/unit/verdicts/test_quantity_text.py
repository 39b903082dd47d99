"""Changes in words and in answers: of a bandwidth what is lost of it, of a time how much longer it is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from mpibench import cli
from mpibench.judge import drift
from mpibench.pages import site
from mpibench.store import quantity_text
from mpibench.store.store import Store
from synthetic_verdicts import by, write_session

#: A link at 60 %: its messages take 1 / 0.6 as long.
AT_60 = 1 / 0.6


@pytest.mark.parametrize(
    ("ratio", "quantity", "loss", "text"),
    [
        (0.6, "bandwidth_mb_per_s", 0.4, "40.0 % lower bandwidth"),
        (1.2, "bandwidth_mb_per_s", -0.2, "20.0 % higher bandwidth"),
        (0.5, "message_rate_per_s", 0.5, "50.0 % lower message rate"),
        (AT_60, "latency_us", 2 / 3, "66.7 % slower"),
        (0.8, "t_avg_us", -0.2, "20.0 % faster"),
    ],
)
def test_one_formula_by_the_direction(ratio: float, quantity: str, loss: float, text: str) -> None:
    assert quantity_text.loss(ratio, quantity) == pytest.approx(loss)
    slower = (ratio if quantity in quantity_text.LESS_IS_BETTER else 1 / ratio) - 1
    assert quantity_text.own_loss(slower, quantity) == pytest.approx(loss)
    assert quantity_text.change_text(slower, quantity) == text


def test_of_times_and_bandwidths_each_has_its_own_number() -> None:
    rows = pl.DataFrame({"slower": [2 / 3, 0.7, 0.6, 2 / 3], "quantity": ["bandwidth_mb_per_s"] * 3 + ["latency_us"]})
    assert quantity_text.changes_text(rows) == "66.7 % slower and 40.0 % lower bandwidth"


def test_a_link_at_60_percent_has_lost_40_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In acceptance, gate and drift, in their answers for programs, and on the site."""
    data = tmp_path / "data"
    for number in range(18):
        change = by(AT_60 if number > 14 else 1.0, "Uniband")
        write_session(data, number, labels={"run": "nightly"}, change=change)
    words = ["--dataset-only", "--dataset", str(data)]
    assert cli.main(["accept", "--baseline", "latest~5,latest~4,latest~3", "--out", str(tmp_path / "out"), *words]) == 1
    said = capsys.readouterr().out
    assert "Uniband at 8 B to 4 MiB has 40." in said or "Uniband at 8 B to 4 MiB has 39." in said
    record = json.loads((tmp_path / "out" / "accept.json").read_text())
    called = [row["slower"] for row in (*record["metrics"], *record["bands"]) if row["verdict"] == "regressed"]
    assert called == pytest.approx([0.4] * len(called), abs=0.01) and len(called) > 10
    assert " % lower bandwidth" in (tmp_path / "out" / "accept.xml").read_text()
    assert cli.main(["gate", "--session", "latest~2", "--max-age", "9999999", "--json", *words]) == 1
    [problem] = json.loads(capsys.readouterr().out)["problems"]["history"]
    assert problem["slower"] == pytest.approx(0.4, abs=0.01)
    assert problem["metrics"][0]["slower"] == pytest.approx(0.4, abs=0.02) and " % lower bandwidth" in problem["finding"]
    assert cli.main(["drift", "--json", *words]) == 1
    [event] = json.loads(capsys.readouterr().out)["events"]
    assert event["slower"] == pytest.approx(0.4, abs=0.01) and "67" not in event["text"]
    assert " % lower bandwidth, 10 metrics" in event["text"]


@pytest.mark.parametrize(("percent", "accepted"), [(41, True), (35, False)])
def test_a_level_accepts_the_change_that_was_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, percent: float, accepted: bool
) -> None:
    for number in range(20):
        write_session(tmp_path, number, labels={"run": "nightly"}, change=by(AT_60 if number > 14 else 1.0, "Uniband"))
    policy = drift.verdict_policy.Policy(levels=(drift.Level(drift.date(2026, 1, 20), percent, "ticket"),))
    monkeypatch.setattr(drift.verdict_policy, "load", lambda *_: policy)
    [event] = drift.watch(Store(tmp_path), "testbed").events
    assert (event.accepted is not None) is accepted


def test_the_site_says_the_same() -> None:
    nights = np.array([[100.0] * 10 + [60.0], [10.0] * 10 + [10 * AT_60]])
    over = SimpleNamespace(drawn={"median": nights}, columns={"quantity": ["bandwidth_mb_per_s", "latency_us"]})
    worse = [site.slower_than_usual(over, row, 10)[0] for row in (0, 1)]
    assert worse == pytest.approx([0.4, 2 / 3])
