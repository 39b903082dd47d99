"""How much rarer ``accept --confirm`` makes false refusals, and what it still finds: ``python -m studies.confirmed_rates``.

Of a trace of recorded noise whole jobs are drawn: a history, a candidate, and the job that measures again what was called. Both
are judged by the decision of ``accept`` against the same history, the second with nothing but the called curves, as in
:mod:`mpibench.confirmation.acceptance`; a session is refused if a metric or a band is regressed in both. Prints, for nothing
changed and for a candidate whose jobs are all slower by ``--slower`` percent, the percentage of draws refused by the first job,
by both, and what the product of the two would be if they were independent; of draws that the first job leaves inconclusive
those that :mod:`mpibench.confirmation.inconclusive` refuses after as many further jobs as it asks for; and both ways together,
which is all that ``accept --confirm`` can refuse, with the exact interval of 95 % for so many draws (C. J. Clopper, E. S.
Pearson, The Use of Confidence or Fiducial Limits, Biometrika 26 (1934) 404-413). Jobs stand for sessions.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from mpibench.confirmation.inconclusive import sessions_wanted
from mpibench.error_rates import answer, noise
from mpibench.verdicts import curve_tests
from mpibench.verdicts.curve_tests import BAND, REPEATS, SESSIONS, SIZE, CurveTest
from mpibench.verdicts.policy import Policy
from mpibench.verdicts.words import INCONCLUSIVE, REGRESSED
from reframe_tests.harness.sites.site import ROOT

NOISE = ROOT / "ci" / "tests" / "data" / "golden_noise" / "repeats.parquet"
#: What is called: a size or a band of a curve.
Call = tuple[int, str, tuple[int, ...]]


@dataclass(frozen=True)
class Judged:
    """What the decision of ``accept`` says of one job.

    :param calls: sizes and bands it is called slower in.
    :param inconclusive: those where it is inconclusive, slower than the margin and slower than every job of the history.
    :param slower: of every size and band, its change against the history's median job in log, and whether that is more than
        that of every job of the history.
    :param margins: likewise, in log.
    """

    calls: set[Call]
    inconclusive: set[Call]
    slower: Mapping[Call, tuple[float, bool]]
    margins: Mapping[Call, float]


def judge(
    trace: noise.Trace, history: NDArray[np.int_], candidate: int, slower: float, policy: Policy, curves: Sequence[int]
) -> Judged:
    """Judge a job.

    :param history: jobs of the baseline.
    :param slower: what its jobs are slowed down by, as a fraction.
    :param curves: those that are judged.
    """
    units = curve_tests.choose_units(history.tolist(), [candidate])
    tests: list[CurveTest] = []
    for number in curves:
        one = trace.curves[number]
        left, right = one.logs[:, history, :], one.logs[:, [candidate], :] + np.log1p(slower)
        if units != REPEATS:
            left, right = np.nanmedian(left, axis=2, keepdims=True), np.nanmedian(right, axis=2, keepdims=True)
        tests += curve_tests.tests_of_curve(
            number,
            one.sizes,
            left.reshape(len(left), -1),
            right.reshape(len(right), -1),
            policy,
            units=units,
            between=curve_tests.between_jobs(units, (len(history), 1), policy),
            nights=(tuple(history.tolist()), (candidate,)),
        )
    results = curve_tests.evaluate(tests, policy)
    names = [(one.quantity, one.direction, one.sizes) for one in trace.curves]
    margins = curve_tests.margins(tests, names, policy)
    verdicts = curve_tests.combine_verdicts(tests, results, margins, policy)
    called, open_, changes, limits = set(), set(), {}, {}
    for place, (test, (verdict, _)) in enumerate(zip(tests, verdicts, strict=True)):
        if test.level not in (SIZE, BAND):
            continue
        one = (test.curve, test.level, test.places)
        seen = bool(np.nanmin(test.candidate) > np.nanmax(test.baseline))
        changes[one] = (float(np.nanmedian(test.candidate) - np.nanmedian(test.baseline)), seen)
        limits[one] = float(margins[place])
        if verdict == REGRESSED:
            called.add(one)
        elif verdict == INCONCLUSIVE and units == SESSIONS and seen and results.effect[place] >= margins[place]:
            open_.add(one)
    return Judged(called, open_, changes, limits)


class Shares(NamedTuple):
    """Shares of draws: refused by the first job, refused by both, and refused after being inconclusive at first."""

    once: float
    twice: float
    inconclusive: float


def refused(trace: noise.Trace, jobs: int, slower: float, policy: Policy, draws: int, rng: np.random.Generator) -> Shares:
    """Share of draws that are refused.

    :param jobs: of the history.
    """
    once = twice = inconclusive = 0
    wanted = max(2, sessions_wanted(jobs, policy.false_discovery_rate))
    for _ in range(draws):
        drawn = rng.permutation(trace.jobs)[: jobs + wanted]
        history, first, fresh = drawn[:jobs], int(drawn[jobs]), [int(one) for one in drawn[jobs + 1 :]]
        found = judge(trace, history, first, slower, policy, range(len(trace.curves)))
        curves = sorted({curve for curve, _, _ in found.calls | found.inconclusive})
        if not curves:
            continue
        again = [judge(trace, history, one, slower, policy, curves) for one in fresh[: len(fresh) if found.inconclusive else 1]]
        once += bool(found.calls)
        both = bool(found.calls & again[0].calls)
        twice += both
        inconclusive += not both and any(
            all(one.slower[call][1] for one in again)
            and statistics.median(one.slower[call][0] for one in again) >= found.margins[call]
            for call in found.inconclusive
        )
    return Shares(once / draws, twice / draws, inconclusive / draws)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--noise", type=Path, default=NOISE)
    parser.add_argument("--spread", type=float, default=1.0, help="percent that the typical metric is scaled to")
    parser.add_argument("--slower", type=float, nargs="*", default=[0.0, 5.0], help="percent; 0: nothing has changed")
    parser.add_argument("--history", type=int, nargs="*", default=[1, 15])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--margin", type=float, default=answer.MARGIN_PERCENT)
    options = parser.parse_args()
    policy = answer.with_margin(Policy(), options.margin)
    print("fabric   history   slower   refused at once   refused twice   if independent   inconclusive, then   with --confirm")
    for trace in noise.read_file(options.noise):
        scaled = trace.scaled(options.spread / 100)
        for jobs in options.history:
            for percent in options.slower:
                rng = np.random.default_rng(1)
                found = refused(scaled, jobs, percent / 100, policy, options.draws, rng)
                shares = f"{100 * found.once:15.1f}   {100 * found.twice:13.1f}   {100 * found.once**2:14.1f}"
                both = found.twice + found.inconclusive
                ends = binomtest(round(both * options.draws), options.draws).proportion_ci()
                interval = f"[{100 * ends.low:.1f}, {100 * ends.high:.1f}]"
                shares += f"   {100 * found.inconclusive:18.1f}   {100 * both:14.1f} {interval}"
                print(f"{trace.fabric:8} {jobs:7d} {percent:6g} % {shares}", flush=True)


if __name__ == "__main__":
    main()
