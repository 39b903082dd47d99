"""How many nights a lasting loss is called, and what that costs where nothing is lost: ``python -m studies.lasting_changes``.

Of a trace of recorded noise whole jobs are drawn without replacement, each for a night. The nights are judged one after the
other by :func:`mpibench.judge.history.judge_nights`, with what was called kept out of the history, and once
more as
if each night became part of it. Prints the percentage of draws in which the first, second, third... night after the loss is
called, and for nights without a loss how many of those that can be judged are called, and how many of all are kept out.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from mpibench.judge.history import MeasuredCurve, Rows, called_things, judge_nights, tabulate
from mpibench.judge.policy import Policy
from mpibench.judge.statistics.prediction import FEWEST_SESSIONS
from mpibench.judge.statistics.two_sides import Array
from reframe_tests.harness.sites.site import ROOT
from studies.error_rates import answer, noise
from studies.error_rates.draws import job_medians
from studies.error_rates.noise import Trace

NOISE = ROOT / "ci" / "tests" / "data" / "golden_noise" / "repeats.parquet"
#: Nights before the loss, and nights that are judged after it.
QUIET, SLOW = 15, 25
#: Nights after the loss that are shown.
SHOWN = (1, 2, 3, 5, 7, 10, 15, 20, 25)


def rows_of(trace: Trace, logs: Array, policy: Policy) -> Rows:
    """The tests of a trace over its nights; all curves are one thing, as those of one test."""
    nights = [f"{night:03}" for night in range(logs.shape[1])]
    curves, start = [], 0
    for one in trace.curves:
        own = logs[start : start + len(one.sizes)]
        curves.append(MeasuredCurve(one.quantity, one.sizes, own, nights, one.stratum, 0))
        start += len(one.sizes)
    return tabulate(curves, nights, policy)


def called(rows: Rows, count: int, policy: Policy, *, joined: bool) -> tuple[NDArray[np.bool_], int]:
    """Which nights are called, and how many are kept out.

    :param joined: each night becomes part of the history.
    """
    if not joined:
        judged = judge_nights(rows, np.ones((1, count), dtype=bool), policy)
        return judged.called[0], int((~judged.counts[0]).sum())
    before = [np.arange(count)[None, :] < night for night in range(count)]
    return np.array([bool(called_things(rows, before[night], [night], policy)) for night in range(count)]), 0


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--slower", type=float, default=5.0, help="percent")
    parser.add_argument("--spread", type=float, action="append", help="percent; default: 1 and 2")
    asked = parser.parse_args()
    policy = answer.with_margin(Policy(), answer.MARGIN_PERCENT)
    for trace in noise.read_file(NOISE):
        for spread in asked.spread or [1.0, 2.0]:
            report(trace.scaled(spread / 100), spread, policy, asked.draws, np.log1p(asked.slower / 100))


def report(trace: Trace, spread: float, policy: Policy, draws: int, slower: float) -> None:
    """Print the rates of one trace."""
    rng = np.random.default_rng(20261122)
    logs = job_medians(trace)
    quiet = min(QUIET, trace.jobs // 2)
    count = min(quiet + SLOW, trace.jobs)
    loss = np.where(np.arange(count) < quiet, 0.0, slower)
    found: dict[str, list[NDArray[np.bool_]]] = {"kept out": [], "joined": []}
    without: dict[str, list[float]] = {"kept out": [], "joined": []}
    lost: list[float] = []
    for _ in range(draws):
        nights = logs[:, rng.permutation(trace.jobs)[:count]]
        same, changed = rows_of(trace, nights, policy), rows_of(trace, nights + loss, policy)
        for name in found:
            found[name].append(called(changed, count, policy, joined=name == "joined")[0][quiet:])
            false, kept = called(same, count, policy, joined=name == "joined")
            without[name].append(float(false[FEWEST_SESSIONS:].mean()))
            lost += [kept / count] * (name == "kept out")
    print(f"{trace.fabric}, spread {spread:g} %, {quiet} nights before, {draws} draws; percent of draws called on night")
    shown = [night for night in SHOWN if night <= count - quiet]
    print("            " + "".join(f"{night:6}" for night in shown) + "   unchanged nights called, kept out")
    for name, draws_called in found.items():
        share = 100 * np.mean(draws_called, axis=0)
        tail = f"   {100 * np.mean(without[name]):.2f} %" + (f", {100 * np.mean(lost):.2f} %" if name == "kept out" else "")
        print(f"{name:12}" + "".join(f"{share[night - 1]:6.0f}" for night in shown) + tail)


if __name__ == "__main__":
    main()
