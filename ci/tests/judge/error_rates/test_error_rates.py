"""``python -m studies.error_rates``: what it draws, counts and prints; and its rates are those of
users: stored sessions are decided as the engine decides their array.
"""

import json

import numpy as np
import polars as pl
import pytest
from scipy import stats

from mpibench.judge import accept, engine, gate
from mpibench.judge.engine import RowOutcome
from mpibench.judge.policy import Policy
from mpibench.store.quantity_text import slowness_of
from mpibench.store.store import Store
from studies import error_rates
from synthetic_verdicts import BENCHMARKS, NIGHTLY, write_sessions


def test_a_rate_is_what_counting_gives(tmp_path, monkeypatch):
    monkeypatch.setattr(error_rates, "ASKED", (error_rates.nights_called,))
    monkeypatch.setattr(error_rates, "NIGHTS", (15,))
    words = ("--only", "t2", "--draws", "60", "--json", str(tmp_path / "rates.json"))
    assert error_rates.main([*words, "--page", str(tmp_path / "page.md")]) == 0
    rows = json.loads((tmp_path / "rates.json").read_text())
    [row] = [row for row in rows if row["asked"] == "called"]
    noise = error_rates.made_up("t2")
    called = 0
    limit = 0
    for number in range(60):
        nights = noise.drawn(16, number, np.random.default_rng([1, 0, number]))[:, :-1]
        called += RowOutcome.SLOWER in engine.tonight(nights, noise.rows).outcome
        limit += bool((nights[:, -1] > np.median(nights[:, :-1], axis=1) + np.log(1.1)).any())
    assert 0 < called < 30
    assert (row["share"], row["draws"], row["case"]) == (called / 60, 60, "15 nights before")
    assert next(one["share"] for one in rows if one["asked"] == "fixed 10 %") == limit / 60
    assert f"{round(100 * called / 60, 1):g} [" in (tmp_path / "page.md").read_text()


def test_intervals_hold_as_often_as_they_say():
    count = 25
    draws = [[1.0] * hits + [0.0] * (count - hits) for hits in range(count + 1)]
    ends = [error_rates.interval(values, median=False) for values in draws]
    for share in np.linspace(0.01, 0.99, 50):
        held = [hits for hits, (_, low, high) in enumerate(ends) if low <= share <= high]
        assert stats.binom.pmf(held, count, share).sum() >= 0.95
    assert error_rates.interval([1, 1, 2, 4, np.inf], median=True) == (2, 1, np.inf)
    mean, low, high = error_rates.interval([0.4, 0.5, 0.6], median=False)
    assert (mean, low, high) == pytest.approx((0.5, 0.252, 0.748), abs=0.001)


@pytest.mark.parametrize("kind", ["t2", "disturbed", "bimodal"])
def test_nothing_hides_a_doubled_time(kind):
    noise = error_rates.made_up(kind)
    for number in range(5):
        found = error_rates.doubled_times(noise, number, np.random.default_rng(number), None)
        assert [answer for answer in found if answer[2] and "called" not in answer[1]] == []


SIZES = (8, 256, 4096, 32768, 1 << 20, 1 << 22)
METRICS = [(benchmark, size) for benchmark in BENCHMARKS for size in SIZES]
#: What is slower: metrics, nights, and how much; of 21 nights.
LOSSES = {
    "nothing": (slice(0), slice(0), 0.0),
    "the last night": (slice(None), slice(20, None), 0.15),
    "one curve that night": (slice(6), slice(20, None), 0.4),
    "two sizes for six nights": (slice(2, 4), slice(15, None), 0.2),
    "a night before": (slice(None), slice(12, 13), 0.9),
}


def drawn(kind, number, loss):
    """Slowness of 21 nights of the metrics."""
    metrics, nights, slower = LOSSES[loss]
    values = error_rates.made_up(kind).drawn(21, 0, np.random.default_rng(number))
    values = values[: len(METRICS), :-1].copy()
    values[metrics, nights] += np.log1p(slower)
    return values


def written(folder, values):
    """The same as sessions, one a night."""
    slower = [dict(zip(METRICS, np.exp(night).tolist(), strict=True)) for night in values.T]
    changes = [lambda name, size, _, by=by: by[name, size] for by in slower]
    write_sessions(folder, changes, noise=0.0, repeats=3, sizes=SIZES, labels=NIGHTLY)
    return Store(folder)


def rows():
    """With the margins that a site has without a policy."""
    named = [(BENCHMARKS[benchmark], size) for benchmark, size in METRICS]
    metrics = pl.DataFrame(named, schema=["quantity", "message_bytes"], orient="row")
    policy = Policy()
    margins = slowness_of(policy.margins(metrics), metrics["quantity"])
    bands = policy.bands(metrics["message_bytes"]).to_list()
    return engine.rows_of(margins, [name for name, _ in METRICS], bands, [0] * len(METRICS))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["normal", "t2"])
def test_the_gate_decides_as_the_engine(kind, loss, tmp_path):
    values = drawn(kind, 0, loss)
    found = [ask(values, rows()) for ask in (engine.tonight, engine.lasting)]
    called = any(RowOutcome.SLOWER in one.outcome for one in found)
    decision = gate.decide(written(tmp_path, values), "testbed", max_age_hours=1e6).decision
    assert decision == ("FAIL" if called else "PASS")
    assert kind != "normal" or called == (loss not in ("nothing", "a night before"))


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_accept_decides_as_the_engine(after, loss, tmp_path):
    values = drawn("normal", after, "nothing")
    values[:, -after:] += np.log1p(loss)
    found = engine.hold(values[:, :-after], values[:, -after:], rows(), np.full(len(METRICS), 0.01))
    wide = rows().kinds == engine.WIDE
    refused = RowOutcome.SLOWER in found.outcome
    accepted = not refused and bool((found.upper < rows().all_margins)[wide].all())
    names = [f"latest~{back}" for back in range(21)]
    sides = ",".join(names[after:]), ",".join(names[:after])
    decision = accept.decide(written(tmp_path, values), *sides).decision
    assert decision == ("refused" if refused else "accepted" if accepted else "inconclusive")
    assert (refused, accepted) == (loss > 0, loss == 0)


def test_few_sessions_that_are_alike_are_no_certainty():
    """Of three and one the interval has the spread that sessions are known to have (10 %) for two
    of Student's four degrees of freedom, whose 97.5 % are 2.776; and nothing is shown to be equal.
    """
    same = np.zeros((len(METRICS), 3))
    least = np.full(len(METRICS), 0.1)
    alone = engine.hold(same[:, :1], same[:, :1], rows(), least)
    assert set(alone.outcome) == {RowOutcome.TOO_FEW}
    found = engine.hold(same, same[:, :1], rows(), least)
    assert found.high == pytest.approx(2.776 * 0.1 * np.sqrt(2 / 4 * (1 + 1 / 3)), rel=0.001)
    assert np.isinf(found.upper).all()
