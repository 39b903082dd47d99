"""Changes in words and in answers: of a bandwidth what is lost
of it, of a time how much longer it is.
"""

import json

import pytest

from mpibench.judge import drift
from mpibench.store import quantity_text
from mpibench.store.store import Store
from synthetic_verdicts import NIGHTLY, ask, by, write_sessions

#: A link at 60 %: its messages take 1 / 0.6 as long.
AT_60 = 1 / 0.6


@pytest.fixture(scope="module")
def link(tmp_path_factory):
    """Twenty nights, the last five with a link at 60 %."""
    data = tmp_path_factory.mktemp("link")
    write_sessions(data, [1.0] * 15 + [by(AT_60, "Uniband")] * 5, labels=NIGHTLY)
    return data


@pytest.mark.parametrize(
    ("ratio", "quantity", "loss", "text"),
    [
        (0.6, "bandwidth_mb_per_s", 0.4, "40.0 % lower bandwidth"),
        (1.2, "message_rate_per_s", -0.2, "20.0 % higher message rate"),
        (AT_60, "latency_us", 2 / 3, "66.7 % slower"),
    ],
)
def test_one_formula_by_the_direction(ratio, quantity, loss, text):
    assert quantity_text.loss(ratio, quantity) == pytest.approx(loss)
    slower = (ratio if quantity in quantity_text.LESS_IS_BETTER else 1 / ratio) - 1
    assert quantity_text.own_loss(slower, quantity) == pytest.approx(loss)
    assert quantity_text.change_text(slower, quantity) == text


def test_a_link_at_60_percent_has_lost_40_everywhere(tmp_path, link):
    """In acceptance, gate and drift, and in their answers for programs."""

    def run(command):
        said = ask(link, command)
        assert said.status == 1
        return said.out

    run(f"accept --baseline latest~7,latest~6,latest~5 --out {tmp_path}")
    record = json.loads((tmp_path / "accept.json").read_text())
    rows = [*record["metrics"], *record["bands"]]
    called = [row["slower"] for row in rows if row["verdict"] == "regressed"]
    assert called == pytest.approx([0.4] * len(called), abs=0.01) and len(called) > 10
    gate = json.loads(run("gate --session latest~4 --max-age 9999999 --json"))
    [problem] = gate["problems"]["history"]
    assert problem["slower"] == pytest.approx(0.4, abs=0.01)
    assert " % lower bandwidth" in problem["finding"]
    [event] = json.loads(run("drift --json"))["events"]
    assert event["slower"] == pytest.approx(0.4, abs=0.01) and "67" not in event["text"]


@pytest.mark.parametrize(("percent", "accepted"), [(41, True), (35, False)])
def test_a_level_accepts_the_change_that_was_printed(link, monkeypatch, percent, accepted):
    level = drift.AcceptedLevel(drift.date(2026, 1, 20), percent, "ticket")
    policy = drift.verdict_policy.Policy(levels=(level,))
    monkeypatch.setattr(drift.verdict_policy, "load", lambda *_: policy)
    [event] = drift.watch(Store(link), "testbed").events
    assert (event.accepted is not None) is accepted
