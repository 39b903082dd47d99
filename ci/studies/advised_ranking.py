"""How well ``mpibench advise`` ranks: ``python -m
studies.advised_ranking [--sessions SEL]``. Prints; asserts nothing.

Runs the programs of :mod:`studies.profiled_patterns` with every choice of the dataset that has as
many ranks (stack, fabric, pinning of this machine), in the way the tests start their jobs, the
choices in turn and several rounds. Each program's profile with one choice is what ``advise`` is
given; its ranking is compared with the times in MPI that all choices recorded (Spearman's rank
correlation, over all choices and, harder, over the stacks of each fabric alone).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

import scipy

from mpibench.judge import policy as policies
from mpibench.stacks import probe
from mpibench.store.store import Store
from mpibench_tune import advice as advising
from mpibench_tune import profiles
from mpibench_tune.advice import Advice, AdvisedChoice, Terms
from mpibench_tune.profiles import Profile
from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.machine import topology
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import PINNING_POLICIES

PROGRAM = Path(__file__).with_name("profiled_patterns.py")
#: Iterations of each pattern: some tenths of a second over TCP.
ITERATIONS = {
    "solver": 3000,
    "transpose": 1500,
    "spectral": 3000,
    "particles": 1000,
    "training": 800,
}
MOST_ITERATIONS = 4000
PATTERNS = ("solver", "transpose", "spectral", "particles", "training", "workers", "ping", "steps")


def run(choice: AdvisedChoice, pattern: str, folder: Path) -> Profile:
    """One run of a pattern with a choice, placed and steered as
    the tests place and steer theirs.
    """
    stack = next(one for one in metadata.discover()[0] if one.name == choice.stack)
    described = systems.find(site_name(choice)) or {}
    (partition,) = [row for row in described["partitions"] if row["name"] == choice.partition]
    extras = partition["extras"]
    cores = len(os.sched_getaffinity(0))
    asked = condition.Asked(
        site.fabrics_of(extras)[choice.fabric], choice.nodes, str(choice.ppn), choice.pinning
    )
    there = condition.Partition(
        topology.describe(1, cores), extras, launcher=partition["launcher"], here=True
    )
    resolved = condition.resolve(stack, asked, there)
    out = folder / "profile.csv"
    out.unlink(missing_ok=True)
    python = stack.python_with("mpi4py.bench")
    iterations = str(ITERATIONS.get(pattern, MOST_ITERATIONS))
    words = [*resolved.launcher_words([], []), *python, str(PROGRAM), pattern, iterations, str(out)]
    silent = {
        name: value
        for name, value in resolved.job_env.items()
        if name not in resolved.setting.debug_env
    }
    status, output = probe.run_inside(
        stack, [os.path.expandvars(word) for word in words], {**os.environ, **silent}, 300, folder
    )
    if status:
        raise SystemExit(
            f"{choice.text}, {pattern}: status {status}: {output[-800:]} ({shlex.join(words)})"
        )
    return profiles.read(out)


def site_name(choice: AdvisedChoice) -> str:
    """The system of this study: the one every machine has."""
    return "generic"


def correlation(predicted: Mapping[str, float], measured: Mapping[str, float]) -> float:
    """Spearman's rank correlation over the choices both have."""
    both = [choice for choice in predicted if choice in measured]
    if len(both) < 2:
        return float("nan")
    found = scipy.stats.spearmanr([predicted[one] for one in both], [measured[one] for one in both])
    return float(found.statistic)


def report(
    pattern: str, advice: Advice, runs: Mapping[AdvisedChoice, list[Profile]]
) -> dict[str, object]:
    """What was predicted and measured for one pattern, and how their ranks agree."""
    measured = {
        choice.text: statistics.median((one.mpi_s or 0.0) / one.ranks for one in profiles)
        for choice, profiles in runs.items()
    }
    predicted = {one.text: one.seconds for one in advice.ranking}
    print(f"{pattern}: {advice.outcome}, covers {100 * advice.covered:.0f} % of the {advice.basis}")
    for one in advice.ranking:
        ratio = measured[one.text] / one.seconds
        print(
            f"  {one.seconds:8.4f} s predicted ({one.low or 0:.4f} to {one.high or 0:.4f}), "
            f"{measured[one.text]:8.4f} s measured, {ratio:5.2f} times: {one.text}"
        )
    for row in advice.not_ranked:
        print(f"  not ranked: {row.text}: {row.why}")
    rows = {"all choices": correlation(predicted, measured)}
    for fabric in sorted({row.fabric for row in advice.ranking}):
        same = {row.text: row.seconds for row in advice.ranking if row.fabric == fabric}
        rows[f"stacks on {fabric}"] = correlation(same, measured)
    best = min(measured, key=lambda text: measured[text]) if measured else None
    hit = best in {row.text for row in advice.ranking if not row.differs_from_the_fastest}
    print(
        "  rank correlation: "
        + ", ".join(f"{name} {value:.2f}" for name, value in rows.items())
        + f"; best found: {hit}"
    )
    return {
        "pattern": pattern,
        "outcome": advice.outcome,
        "covered": advice.covered,
        "correlations": rows,
        "best_found": hit,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Rankings of mpibench advise against measured ones."
    )
    parser.add_argument("--sessions", default="latest")
    parser.add_argument("--dataset", type=Path, default=ROOT / "results" / "dataset")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--patterns", nargs="*", default=PATTERNS, choices=PATTERNS)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    Store(given.dataset).bring_up_to_date(ROOT / "results" / "results.db")
    measured = advising.read_curves(Store(given.dataset), "generic", given.sessions)
    choices = [
        choice
        for choice in measured.by_choice
        if choice.ranks == given.ranks and choice.pinning in PINNING_POLICIES
    ]
    rows = []
    for pattern in given.patterns:
        runs: dict[AdvisedChoice, list[Profile]] = {}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(given.rounds):
                for choice in choices:
                    runs.setdefault(choice, []).append(run(choice, pattern, Path(folder)))
        profile = runs[choices[0]][0]
        advice = advising.advise(
            profile, measured, policies.load("generic"), Terms(little_time=0.0)
        )
        rows.append(report(pattern, advice, runs))
    for name in rows[0]["correlations"] if rows else ():  # type: ignore[attr-defined]
        values = [row["correlations"][name] for row in rows]  # type: ignore[index]
        known = [value for value in values if value == value]
        if known:
            middle = statistics.median(known)
            lowest = min(known)
            print(
                f"{name}: median rank correlation {middle:.2f}, lowest {lowest:.2f}, of "
                f"{len(known)} programs"
            )
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
