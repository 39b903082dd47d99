"""How often a tuning leaves out the best algorithm, what it costs against
an exhaustive sweep, and how many choices hold.

``PYTHONPATH=ci python -m studies.tuning_rates --draws 200
--algorithms 10 --spread 0.05 --sweep 2 --sweep 8``

Drawn: true times of the algorithms relative to the library's own choice (log-normal, standard
deviation ``--range``), whose order changes with the message size; repeats with log-normal noise of
``--spread``, one disturbance in common for each repeat, and one heavy-tailed value in twenty. The
rounds are those of ``mpibench tune`` (:mod:`mpibench_tune.race`), a launch takes its own seconds
and ``OVERHEAD_S``. An exhaustive sweep has as many repeats of every algorithm at every size. The
proof draws fresh repeats of default and tuned. ``--sweep N`` is one session of N short repeats of
every algorithm at every size, and takes the fastest: what a race is worth to someone who knows
before how many repeats the noise needs.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy as np

from mpibench.judge.engine import Array
from mpibench_tune import race, tuning
from mpibench_tune.race import Times
from reframe_tests.harness.mpis.tuning.model import DEFAULT

#: Share of values that are drawn with this many times the spread.
TAIL = 0.05
TAIL_TIMES = 5.0


@dataclass
class Drawn:
    """What one tuning gave.

    :param lost: sizes at which the best algorithm left; ``near``: choices
        within :data:`race.SLACK` of the best.
    :param chosen: choices; ``held``: of them those that the proof shows
        better; ``wrong``: those truly not faster.
    """

    spent_s: float
    whole_s: float
    sizes: int
    lost: int
    chosen: int
    near: int
    held: int
    wrong: int


def noise(rng: np.random.Generator, count: int, spread: float) -> Array:
    """Logarithms of one unit's values."""
    scale = np.where(rng.random(count) < TAIL, TAIL_TIMES * spread, spread)
    return np.asarray(rng.normal(0, 1, count) * scale)


def draw_truth(
    rng: np.random.Generator, algorithms: int, sizes: int, reach: float
) -> dict[int, dict[str, float]]:
    """Message size to algorithm to the logarithm of its time."""
    words = [DEFAULT, *(str(number) for number in range(1, algorithms + 1))]
    slope = rng.normal(0, reach / 2, len(words))
    level = rng.normal(0, reach, len(words))
    centre = np.linspace(-1, 1, sizes)
    return {
        1 << (3 + 2 * at): dict(zip(words, level + slope * centre[at], strict=True))
        for at in range(sizes)
    }


def repeat_all(
    rng: np.random.Generator,
    found: Times,
    truth: dict[int, dict[str, float]],
    asked: race.Survivors,
    unit: tuple[str, int],
    spread: float,
) -> None:
    """Add one repeat of some algorithms."""
    for size, words in asked.items():
        values = noise(rng, len(words), spread) + rng.normal(0, 2 * spread)
        for word, value in zip(words, values, strict=True):
            found.values.setdefault(size, {}).setdefault(word, {})[unit] = size * math.exp(
                truth[size][word] + value
            )


def draw(
    rng: np.random.Generator, algorithms: int, sizes: int, reach: float, spread: float
) -> Drawn:
    """One tuning of one collective."""
    truth = draw_truth(rng, algorithms, sizes, reach)
    listed = list(truth)
    words = list(next(iter(truth.values())))
    found = Times("Allreduce")
    survivors: race.Survivors = {size: tuple(words) for size in listed}
    spent = whole = 0.0
    for number in range(race.MOST_ROUNDS):
        open_sizes = [
            size
            for size, there in survivors.items()
            if len([each for each in there if each != DEFAULT]) > 1
        ]
        if not open_sizes:
            break
        asked = [word for size in open_sizes for word in survivors[size]]
        overhead = race.OVERHEAD_S * len(set(asked)) + race.LAUNCH_S[number] * len(asked) / sizes
        spent += race.REPEATS * overhead
        whole += race.REPEATS * len(words) * (race.OVERHEAD_S + race.LAUNCH_S[number])
        for repeat in range(race.REPEATS):
            repeat_all(
                rng,
                found,
                truth,
                {size: survivors[size] for size in open_sizes},
                (str(number), repeat),
                spread,
            )
        survivors = race.eliminate({"Allreduce": (found, survivors)})["Allreduce"]
    chosen = race.choose(race.compare({"Allreduce": found})).get("Allreduce", {})
    fresh = Times("Allreduce")
    for repeat in range(tuning.REPEATS):
        for size, word in chosen.items():
            values = noise(rng, 2, spread) + rng.normal(0, 2 * spread)
            for label, real, value in ((DEFAULT, DEFAULT, values[0]), ("tuned", word, values[1])):
                kept = fresh.values.setdefault(size, {}).setdefault(label, {})
                kept["proof", repeat] = math.exp(truth[size][real] + value)
    held = race.choose(race.compare({"Allreduce": fresh})).get("Allreduce", {})
    best = {size: min(each, key=lambda word: each[word]) for size, each in truth.items()}
    return Drawn(
        spent,
        whole,
        sizes,
        sum(best[size] not in survivors[size] and best[size] != DEFAULT for size in listed),
        len(chosen),
        sum(
            truth[size][word] <= truth[size][best[size]] + math.log1p(race.SLACK)
            for size, word in chosen.items()
        ),
        len(held),
        sum(truth[size][word] >= truth[size][DEFAULT] for size, word in chosen.items()),
    )


def sweep(
    rng: np.random.Generator, repeats: int, truth: dict[int, dict[str, float]], spread: float
) -> tuple[int, int]:
    """Choices of one sweep, and those within :data:`race.SLACK` of the best."""
    found = Times("Allreduce")
    for repeat in range(repeats):
        repeat_all(
            rng,
            found,
            truth,
            {size: tuple(each) for size, each in truth.items()},
            ("sweep", repeat),
            spread,
        )
    near = 0
    for size, each in truth.items():
        best = min(each, key=lambda word: each[word])
        word = min(each, key=lambda word: found.location(size, word))
        near += each[word] <= each[best] + math.log1p(race.SLACK)
    return len(truth), near


def main() -> None:
    """Draw and print."""
    parser = argparse.ArgumentParser(description="Error rates and cost of a tuning.")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--algorithms", type=int, default=10)
    parser.add_argument("--sizes", type=int, default=9)
    parser.add_argument(
        "--range", type=float, default=0.4, help="standard deviation of the algorithms' log times"
    )
    parser.add_argument(
        "--spread", type=float, default=0.05, help="standard deviation of a repeat's log time"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--sweep",
        type=int,
        action="append",
        default=[],
        metavar="N",
        help="repeats of a sweep; repeatable",
    )
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    rows = [
        draw(rng, asked.algorithms, asked.sizes, asked.range, asked.spread)
        for _ in range(asked.draws)
    ]
    total = {name: sum(getattr(row, name) for row in rows) for name in Drawn.__dataclass_fields__}
    chosen = max(total["chosen"], 1)
    print(
        f"{asked.draws} tunings of {asked.algorithms} algorithms at {asked.sizes} sizes, spread "
        f"{asked.spread:g}: best left out in "
        f"{sum(row.lost > 0 for row in rows) / asked.draws:.1%} of them; cost "
        f"{total['spent_s'] / total['whole_s']:.1%} of an exhaustive sweep, "
        f"{total['spent_s'] / total['sizes']:.1f} s a decision; {chosen} choices, "
        f"{total['near'] / chosen:.1%} within {race.SLACK:.0%} of the best, "
        f"{total['held'] / chosen:.1%} hold in the proof, {total['wrong'] / chosen:.2%} not "
        f"truly faster; {total['spent_s'] / asked.draws:.0f} s each"
    )
    for repeats in asked.sweep:
        counts = [
            sweep(
                rng,
                repeats,
                draw_truth(rng, asked.algorithms, asked.sizes, asked.range),
                asked.spread,
            )
            for _ in range(asked.draws)
        ]
        near = sum(near for _, near in counts) / sum(count for count, _ in counts)
        seconds = repeats * (asked.algorithms + 1) * (race.OVERHEAD_S + race.LAUNCH_S[0])
        print(
            f"  a sweep of {repeats} repeats: {seconds:.0f} s each, {near:.1%} within "
            f"{race.SLACK:.0%} of the best"
        )


if __name__ == "__main__":
    main()
