"""How much rarer ``accept --confirm`` makes false refusals, and what it still finds: ``python -m studies.confirmed_rates``.

Of a trace of recorded noise whole jobs are drawn: a history, a candidate, and the job that measures again what was called. Both
are judged by the decision of ``accept`` against the same history, the second with nothing but the called curves, as in
:mod:`mpibench.confirmation.acceptance`; a session is refused if a metric or a band is regressed in both. Prints, for nothing
changed and for a candidate whose jobs are all slower by ``--slower`` percent, the percentage of draws refused by the first job,
by both, and what the product of the two would be if they were independent.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpibench.error_rates import answer, noise
from mpibench.verdicts import curve_tests
from mpibench.verdicts.curve_tests import BAND, REPEATS, SIZE, CurveTest
from mpibench.verdicts.policy import Policy
from mpibench.verdicts.words import REGRESSED
from reframe_tests.harness.sites.site import ROOT

NOISE = ROOT / "ci" / "tests" / "data" / "golden_noise" / "repeats.parquet"
#: What is called: a size or a band of a curve.
Call = tuple[int, str, tuple[int, ...]]


def calls(
    trace: noise.Trace, history: NDArray[np.int_], candidate: int, slower: float, policy: Policy, curves: Sequence[int]
) -> set[Call]:
    """Sizes and bands that a job is called slower in.

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
    verdicts = curve_tests.combine_verdicts(tests, results, curve_tests.margins(tests, names, policy), policy)
    return {
        (test.curve, test.level, test.places)
        for test, (verdict, _) in zip(tests, verdicts, strict=True)
        if test.level in (SIZE, BAND) and verdict == REGRESSED
    }


def refused(
    trace: noise.Trace, jobs: int, slower: float, policy: Policy, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Share of draws that the first job refuses, and that both do.

    :param jobs: of the history.
    """
    once = twice = 0
    for _ in range(draws):
        drawn = rng.permutation(trace.jobs)[: jobs + 2]
        history, first, second = drawn[:jobs], int(drawn[-2]), int(drawn[-1])
        found = calls(trace, history, first, slower, policy, range(len(trace.curves)))
        if not found:
            continue
        once += 1
        twice += bool(found & calls(trace, history, second, slower, policy, sorted({curve for curve, _, _ in found})))
    return once / draws, twice / draws


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
    print("fabric   history   slower   refused at once   refused twice   if independent   (percent of draws)")
    for trace in noise.read_file(options.noise):
        scaled = trace.scaled(options.spread / 100)
        for jobs in options.history:
            for percent in options.slower:
                rng = np.random.default_rng(1)
                once, twice = refused(scaled, jobs, percent / 100, policy, options.draws, rng)
                shares = f"{100 * once:15.1f}   {100 * twice:13.1f}   {100 * once**2:14.1f}"
                print(f"{trace.fabric:8} {jobs:7d} {percent:6g} % {shares}", flush=True)


if __name__ == "__main__":
    main()
