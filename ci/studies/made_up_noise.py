"""Rates on noise that is made up, so that its kind is known: ``python -m studies.made_up_noise --kind t2``.

Four curves of six sizes: what a night does to all, to each curve and to each metric, as wide each, scaled to 1 % for a typical
metric; margin 2 %. Every draw is new. Asked is the nightly search as the gate asks it, each night of ``--years`` years in
which nothing changes; ``--draws`` histories of 60 nights and 3, 5 or 8 slower ones; and as many acceptances of each history and
candidate (:func:`studies.error_rates.draws.measure`). ``--noise`` asks the search the same of nights drawn from a recording.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from mpibench.judge.gate import REMEMBERED_NIGHTS
from mpibench.judge.policy import Policy
from mpibench.judge.statistics.two_sides import Array
from studies.error_rates import answer, noise
from studies.error_rates.draws import SLOWDOWNS_PERCENT, job_medians, measure, patterns
from studies.error_rates.nights import YEAR, change_points, nights_called
from studies.error_rates.noise import NoiseCurve, Trace
from studies.error_rates.shares import Setting

SIZES: list[int | None] = [8, 256, 4096, 32768, 1 << 20, 1 << 22]
CURVES, SPREAD = 4, 0.01
QUIET, SLOW = 60, (3, 5, 8)
#: Of a night with the one before; ``disturbed``: share of the nights that are 1.1 to 2 times as slow as a whole.
CORRELATION, DISTURBED = 0.5, 0.1
KINDS = ("normal", "t3", "t2", "disturbed", "dependent")
#: Jobs that acceptances are drawn from.
JOBS = 4000
Drawn = Callable[[int, np.random.Generator], Trace]


def make(kind: str, nights: int, rng: np.random.Generator) -> Trace:
    """Noise of one of :data:`KINDS`."""
    parts: list[Array] = []
    for shape in ((1, 1, nights), (CURVES, 1, nights), (CURVES, len(SIZES), nights)):
        part = rng.standard_t(int(kind[1]), shape) if kind in ("t2", "t3") else rng.standard_normal(shape)
        for night in range(1, nights if kind == "dependent" else 1):
            part[..., night] = CORRELATION * part[..., night - 1] + np.sqrt(1 - CORRELATION**2) * part[..., night]
        parts.append(part)
    curves = sum(parts[1:], parts[0])[..., None]
    trace = Trace(kind, tuple(NoiseCurve(f"B{place}", "latency_us", SIZES, one) for place, one in enumerate(curves)))
    trace = trace.scaled(SPREAD)
    if kind == "disturbed":
        odd = np.where(rng.random(nights) < DISTURBED, np.log(rng.uniform(1.1, 2.0, nights)), 0.0)[:, None]
        trace = Trace(kind, tuple(NoiseCurve(one.benchmark, one.quantity, SIZES, one.logs + odd) for one in trace.curves))
    return trace


def redrawn(trace: Trace) -> Drawn:
    """Nights drawn from recorded jobs, which may come again."""

    def draw(nights: int, rng: np.random.Generator) -> Trace:
        chosen = rng.integers(trace.jobs, size=nights)
        return Trace(
            trace.fabric,
            tuple(NoiseCurve(one.benchmark, one.quantity, one.sizes, one.logs[:, chosen], one.stratum) for one in trace.curves),
        )

    return draw


def nights_until_found(drawn: Drawn, draws: int, policy: Policy, seed: int) -> Iterator[str]:
    """Percent of histories in which a slowdown is called after so many slow nights."""
    found: dict[tuple[str, float, int], list[bool]] = {}
    for number in range(draws):
        rng = np.random.default_rng([seed, number])
        trace = drawn(QUIET + max(SLOW), rng)
        logs = job_medians(trace)
        for name, masks in patterns(trace, policy).items():
            hit = masks[rng.integers(len(masks))]
            for percent in SLOWDOWNS_PERCENT:
                for count in SLOW:
                    slow = np.log1p(percent / 100) * hit[:, None] * (np.arange(QUIET + count) >= QUIET)
                    points = change_points(trace, logs[:, : QUIET + count] + slow, policy, REMEMBERED_NIGHTS)
                    rows = points["row"].filter(points["slower"] > 0).to_numpy()
                    found.setdefault((name, percent, count), []).append(bool(hit[rows].any()))
    for (name, percent, count), hits in found.items():
        yield f"{percent:g} % slower, {name}, after {count} nights: {100 * np.mean(hits):.0f} % of {draws}"


def lines(name: str, drawn: Drawn, asked: argparse.Namespace, policy: Policy) -> Iterator[str]:
    """The report, line by line."""
    shares = []
    for year in range(asked.years):
        years = nights_called(drawn(YEAR, np.random.default_rng([asked.seed, year])), policy, 1, 1, in_order=True)
        shares += years.nights.values if years else []
    if shares:
        yield f"{name}: {100 * np.mean(shares):.2f} % of nights of {len(shares)} years, {sum(map(bool, shares))} years with one"
    yield from nights_until_found(drawn, asked.draws, policy, asked.seed) if asked.draws else ()
    if name not in KINDS:  # recorded sessions are each drawn once: that is what python -m studies.error_rates does
        return
    trace = drawn(JOBS, np.random.default_rng(asked.seed))
    for history in asked.history:
        for candidate in asked.candidate:
            setting = Setting(None, history, candidate, trace.repeats)
            rates = measure(trace, setting, policy, asked.draws, asked.seed, in_order=name == "dependent")
            again = rates.confirmed.mean if rates.confirmed else float("nan")
            text = f"{history}, {candidate}: refused {100 * rates.refused.mean:.1f}, with --confirm {100 * again:.1f} %"
            yield f"{text}, intervals hold {100 * rates.covered.mean:.1f} %"
            for way in (rates.found, rates.found_again or {}):
                for percent, one in way.items():
                    yield f"    {percent:g} %: " + ", ".join(f"{name} {100 * share.mean:.0f}" for name, share in one.items())


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, action="append", default=[])
    parser.add_argument("--noise", type=Path, help="recorded noise, as of python -m studies.error_rates")
    parser.add_argument("--years", type=int, default=40)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--history", type=int, nargs="*", default=[5, 8, 15, 30])
    parser.add_argument("--candidate", type=int, nargs="*", default=[1, 3])
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    policy = answer.with_margin(Policy(), answer.MARGIN_PERCENT)
    sources: dict[str, Drawn] = {}
    for kind in asked.kind:
        sources[kind] = lambda nights, rng, kind=kind: make(kind, nights, rng)
    for trace in noise.read_file(asked.noise) if asked.noise else ():
        sources[trace.fabric] = redrawn(trace.scaled(SPREAD))
    for name, drawn in sources.items():
        for line in lines(name, drawn, asked, policy):
            print(line, flush=True)


if __name__ == "__main__":
    main()
