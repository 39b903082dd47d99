"""What a site should run, and how often the answer is right: ``python
-m studies.fabric_faults``. All simulated.

Designs: ``all pairs`` (N - 1 rounds, as often as ``PairMap`` passes over them), ``matchings`` (k
random perfect matchings), ``adaptive`` (some matchings, then suspects alone, with healthy
partners). Noise, fabrics and faults are those of :mod:`.simulated_map`; ``mpibench locate``
analyses them.

    --design    rounds needed for 99 % of faults at 0.1 false positives a run, for 1, 3
                and 10 faults (the table of the docs)
    --noise     found and false positives on noise that nothing was tuned to, and
                healthy runs that flag something
    --hiding    several faults at any places, so that one may hide another: found,
                false positives, and runs in which all is decided
    --peers     beside ClusterKit's and LinkTest's rule, on the same data
    --cost      seconds and memory of the analysis
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpibench.locate import judgement, search
from mpibench.locate.findings import MapJudgement
from mpibench.locate.maps import Integers, Observations, Places, Suspect
from reframe_tests.harness.instruments import schedule

from . import peer_rules
from .simulated_map import (
    NOISES,
    Fabric,
    Fault,
    Floats,
    Matching,
    Noise,
    Rng,
    all_pairs,
    dragonfly,
    fat_tree,
    matchings,
    observe,
    place_faults,
    slowness_again,
)

MARGIN = judgement.margin_of("bandwidth_mb_per_s", judgement.MARGINS_PERCENT)
#: Faults drawn in turn; nodes are what fails most.
MIX = (
    "sends",
    "uplink",
    "receives",
    "both",
    "sends",
    "receives",
    "both",
    "uplink",
    "sends",
    "receives",
)
ROUNDS = (4, 6, 8, 10, 12, 16, 20, 24, 32)
WANTED = 0.99
FALSE_POSITIVES = 0.1
#: Nodes that are measured along with each suspect of an adaptive
#: design: slow ones must be rare among them.
_CONTROLS = 9


@dataclass
class Tally:
    """Runs of one setting.

    :param found: faults that were named rightly, of ``faults``; ``wrong``:
        suspects that were flagged and are healthy.
    """

    runs: int = 0
    faults: int = 0
    found: int = 0
    wrong: int = 0
    runs_with_wrong: int = 0

    def add(self, faults: Sequence[Fault], flagged: Sequence[tuple[Suspect, ...]]) -> None:
        """Count one run; directions of one thing count once."""
        true = [
            fault
            for fault in faults
            if any(one in fault.truth for names in flagged for one in names)
        ]
        every = frozenset().union(*(fault.truth for fault in faults))
        wrong = {(names[0].kind, names[0].names) for names in flagged if not set(names) & every}
        self.runs += 1
        self.faults += len(faults)
        self.found += len(true)
        self.wrong += len(wrong)
        self.runs_with_wrong += bool(wrong)

    def text(self) -> str:
        """Found, and false positives per run."""
        share = f"{100 * self.found / self.faults:.1f} % found, " if self.faults else ""
        return (
            f"{share}{self.wrong / self.runs:.3f} false positives per run ({self.runs} runs, "
            f"{self.runs_with_wrong} with any)"
        )

    @property
    def is_good(self) -> bool:
        """Whether it is what the docs promise."""
        return self.found >= WANTED * self.faults and self.wrong <= FALSE_POSITIVES * self.runs


def flag(
    seen: Observations,
    places: Places,
    rate: float = search.RATE,
    oversubscribed: bool | None = None,
) -> list[tuple[Suspect, ...]]:
    """Suspects that are flagged, each with those that cannot be distinguished from it.

    :param oversubscribed: whether links between switches are meant
        to be slower; ``None``: nobody says.
    """
    return named_by(judgement.judge([seen], places, {}, rate=rate, oversubscribed=oversubscribed))


def named_by(answer: MapJudgement) -> list[tuple[Suspect, ...]]:
    """The same of an answer."""
    directions = [one for finding in answer.findings for one in finding.directions]
    return [
        tuple(suspect._replace(load=0) for suspect in (one.suspect, *one.alike))
        for one in directions
    ]


def adaptive(
    fabric: Fabric, rounds: int, faults: Sequence[Fault], noise: Noise, rng: Rng
) -> tuple[int, list[tuple[Suspect, ...]]]:
    """Half of the rounds for all, the other half for suspects alone:
    nodes a third of whose observations were slow.

    What flags is all rounds together, so that the choice of who is measured again does not bias
    the error rate: the second half is judged on its own.

    :returns: rounds that some node took part in, and what is flagged.
    """
    first = observe(fabric, matchings(fabric.size, rounds // 2, rng), faults, noise, rng)
    found = search.residuals(first, fabric.places(), {})
    slow = found.excess > MARGIN
    size = fabric.size
    hits = np.maximum(
        np.bincount(first.source[slow], minlength=size),
        np.bincount(first.target[slow], minlength=size),
    )
    chosen = np.flatnonzero(hits * 3 >= rounds // 2)
    if not len(chosen):
        return rounds // 2, []
    again = observe(
        fabric, _with_partners(chosen, size, rounds - rounds // 2, rng), faults, noise, rng
    )
    return rounds, flag(again, fabric.places())


def _with_partners(chosen: Integers, size: int, rounds: int, rng: Rng) -> list[Matching]:
    """Matchings of suspects with others, and of as many others
    among themselves to hold them against.
    """
    healthy = np.setdiff1d(np.arange(size), chosen)
    found = []
    for _ in range(rounds):
        count = min(_CONTROLS * len(chosen), len(healthy))
        others = (
            rng.permutation(healthy)[: count - (count - len(chosen)) % 2]
            if count > len(chosen)
            else rng.permutation(healthy)
        )
        pairs = others[len(chosen) :]
        here = min(len(chosen), len(others))
        first = chosen[:here]
        second = others[:here]
        found.append((np.concatenate([first, pairs[::2]]), np.concatenate([second, pairs[1::2]])))
    return found


def run(
    fabric: Fabric,
    design: str,
    rounds: int,
    kinds: Sequence[str],
    noise: Noise,
    fraction: float,
    rng: Rng,
) -> tuple[list[Fault], list[tuple[Suspect, ...]]]:
    """One run: faults, and what is flagged."""
    faults = place_faults(fabric, kinds, fraction, rng)
    if design == "adaptive":
        return faults, adaptive(fabric, rounds, faults, noise, rng)[1]
    passes = schedule.usual_orders(fabric.size, 0)
    order = (
        all_pairs(fabric.size) * passes
        if design == "all pairs"
        else matchings(fabric.size, rounds, rng)
    )
    return faults, flag(observe(fabric, order, faults, noise, rng), fabric.places())


def needed(
    fabric: Fabric, design: str, faults: int, noise: Noise, fraction: float, runs: int, rng: Rng
) -> tuple[int | None, Tally]:
    """The fewest rounds that are good enough, and what they gave;
    ``None`` and the most where none is.
    """
    tally = Tally()
    for rounds in ROUNDS:
        tally = Tally()
        for _ in range(runs):
            tally.add(*run(fabric, design, rounds, MIX[:faults], noise, fraction, rng))
            missed = tally.faults - tally.found
            wrong = tally.wrong
            if missed > (1 - WANTED) * runs * faults + 0.5 or wrong > FALSE_POSITIVES * runs + 0.5:
                break  # not to be reached any more
        else:
            if tally.is_good:
                return rounds, tally
    return None, tally


def show_designs(sizes: Sequence[int], fraction: float, runs: int, seed: int) -> None:
    """The table of rounds."""
    noise = NOISES["slow tail"]
    print(
        f"faults at {100 * fraction:.0f} % of the rate, noise: {noise.name}; fewest rounds for "
        f"{100 * WANTED:.0f} % found"
    )
    for size in sizes:
        for fabric in (fat_tree(size), dragonfly(size)):
            for design in ("matchings", "adaptive"):
                for count in (1, 3, 10):
                    rounds, tally = needed(
                        fabric, design, count, noise, fraction, runs, np.random.default_rng(seed)
                    )
                    print(
                        f"{size:6} {fabric.name:6} {design:10} {count:3} faults: {rounds} "
                        f"rounds, {tally.text()}",
                        flush=True,
                    )


def show_noises(size: int, rounds: int, fraction: float, runs: int, seed: int) -> None:
    """Found and false positives on each kind of noise, with faults and without."""
    for noise in NOISES.values():
        for count in (0, 1, 3):
            rng = np.random.default_rng(seed)
            tally = Tally()
            design = "all pairs" if size <= 64 else "matchings"
            fabric = fat_tree(size, leaf=4 if size <= 64 else 32)
            for _ in range(runs):
                tally.add(*run(fabric, design, rounds, MIX[:count], noise, fraction, rng))
            print(f"{size:6} nodes, {noise.name:24} {count} faults: {tally.text()}", flush=True)


#: Faults of one run that may hide one another, and noise of three kinds:
#: as usual, heavy tails, and what comes and goes.
HIDING = (
    ("sends", "sends"),
    ("sends", "receives"),
    ("both", "both"),
    ("uplink", "sends"),
    ("uplink", "both"),
    ("uplink", "uplink"),
    ("sends", "sends", "sends"),
    ("both", "both", "both"),
    ("sends", "receives", "both"),
    ("uplink", "sends", "receives"),
    ("intermittent", "sends"),
    ("intermittent", "uplink"),
)
HIDING_NOISES = (
    "slow tail",
    "t with 3 degrees, 3 %",
    "t with 2 degrees, 5 %",
    "drift of 5 % a round",
)


def show_hiding(size: int, fraction: float, runs: int, seed: int) -> None:
    """Found, false positives and what is inconclusive, of uplinks whose rate the
    site says, and of those of which nobody does.
    """
    fabric = fat_tree(size, leaf=4)
    order = all_pairs(size) * schedule.usual_orders(size, 0)
    for oversubscribed in (False, None):
        everything = Tally()
        for name in HIDING_NOISES:
            tally = Tally()
            decided = 0
            for kinds in HIDING:
                rng = np.random.default_rng(seed)
                for _ in range(runs):
                    faults = place_faults(fabric, kinds, fraction, rng, anywhere=True)
                    seen = observe(fabric, order, faults, NOISES[name], rng)
                    answer = judgement.judge(
                        [seen], fabric.places(), {}, oversubscribed=oversubscribed
                    )
                    for one in (tally, everything):
                        one.add(faults, named_by(answer))
                    decided += not answer.inconclusive
            rates = (
                "rate of uplinks known" if oversubscribed is False else "rate of uplinks not known"
            )
            print(
                f"{size:6} nodes, {name:24} {rates}: {tally.text()}, all decided in {decided}",
                flush=True,
            )
        print(
            f"{size:6} nodes, all of these: {everything.text()}, {everything.found} of "
            f"{everything.faults} faults",
            flush=True,
        )


def show_peers(size: int, fraction: float, runs: int, seed: int) -> None:
    """Nodes named by us and by two other rules, on the same data: one node's fault in each run."""
    for noise in NOISES.values():
        ours = Tally()
        kit = Tally()
        link = Tally()
        rng = np.random.default_rng(seed)
        fabric = fat_tree(size, leaf=4)
        order = all_pairs(size)
        if noise.kinds > 1:
            continue  # the second measurement knows nothing of kinds
        for number in range(runs):
            faults = place_faults(
                fabric,
                () if number % 2 else ("sends", "receives", "both")[number // 2 % 3 :][:1],
                fraction,
                rng,
            )
            seen = observe(fabric, order, faults, noise, rng)

            def again(
                which: Integers, seen: Observations = seen, faults: Sequence[Fault] = faults
            ) -> Floats:
                return slowness_again(fabric, seen, which, faults, noise, rng)  # noqa: B023

            ours.add(faults, flag(seen, fabric.places()))
            for tally, rule in ((kit, peer_rules.clusterkit), (link, peer_rules.linktest)):
                tally.add(
                    faults, [(Suspect("node", (name,), "both"),) for name in rule(seen, again)]
                )
        print(f"{size} nodes, {noise.name}", flush=True)
        for name, tally in (("ours", ours), ("ClusterKit", kit), ("LinkTest", link)):
            print(f"  {name:10} {tally.text()}", flush=True)


def show_cost(sizes: Sequence[int], rounds: Sequence[int], seed: int) -> None:
    """Seconds and memory of the analysis alone."""
    for size in sizes:
        for count in rounds:
            rng = np.random.default_rng(seed)
            fabric = fat_tree(size)
            faults = place_faults(fabric, MIX, 0.5, rng)
            seen = observe(fabric, matchings(size, count, rng), faults, NOISES["slow tail"], rng)
            places = fabric.places()
            began = time.perf_counter()
            flagged = judgement.judge([seen], places, {}).findings
            seconds = time.perf_counter() - began
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"{size} nodes x {count} rounds, {len(seen)} values: {seconds:.1f} s, {most:.2f} "
                f"GiB, {len(flagged)} flagged",
                flush=True,
            )


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("design", "noise", "hiding", "peers", "cost"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument(
        "--nodes", type=int, action="append", help="default: 1000 and 10000; 16 for others"
    )
    parser.add_argument(
        "--rounds", type=int, action="append", help="of --noise and --cost; default: 10"
    )
    parser.add_argument(
        "--fraction", type=float, default=0.5, help="of the rate that a fault leaves"
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rounds = asked.rounds or [10]
    if asked.design:
        show_designs(asked.nodes or (1000, 10000), asked.fraction, asked.runs, asked.seed)
    if asked.noise:
        for size in asked.nodes or (16,):
            show_noises(size, rounds[0], asked.fraction, asked.runs, asked.seed)
    if asked.hiding:
        for size in asked.nodes or (8, 16):
            show_hiding(size, asked.fraction, asked.runs, asked.seed)
    if asked.peers:
        for size in asked.nodes or (16,):
            show_peers(size, asked.fraction, asked.runs, asked.seed)
    if asked.cost:
        show_cost(asked.nodes or (1000, 10000), rounds, asked.seed)


if __name__ == "__main__":
    main()
