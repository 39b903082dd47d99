"""How often a slower band is taken for a switch of protocol that
moved: ``python -m studies.moved_switches``.

Whole jobs of recorded noise are drawn as baseline and candidate. The curves are those recorded,
with the switches their MPI has. Some neighbouring sizes of one curve are then made slower or faster
by 5 to 50 %, as no moved switch does: whatever is named is wrong. All sizes that differ by more
than the margin count as called, also where nothing but noise is different.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpibench.judge import switches
from mpibench.judge.engine import Array
from reframe_tests.harness.vocabulary import HIGHER, QUANTITIES
from studies.error_rates import RECORDED, Recording, interval, read_file, typical_spread

NOISE = RECORDED / "repeats.parquet"
MARGIN_PERCENT = 2.0
CHANGES = tuple(sign * percent / 100 for percent in (5, 10, 20, 30, 50) for sign in (1, -1))
#: Jobs of the candidate; the baseline has the others, as many as :data:`HISTORY_JOBS` at most.
CANDIDATE_JOBS = 3
HISTORY_JOBS = 15


@dataclass(frozen=True)
class Named:
    """Bands that were changed, and how many of them were taken for a move."""

    wrong: int
    tried: int


def times(recording: Recording, spread: float | None) -> list[tuple[Array, Array]]:
    """Sizes of each curve, and medians of its jobs: logarithms of times, shape (sizes, jobs).

    :param spread: of the typical metric, to which the noise is scaled
        about the curve; ``None``: as recorded.
    """
    factor = 1.0 if spread is None else spread / typical_spread(recording.logs)
    middle = np.nanmedian(recording.logs, axis=1, keepdims=True)
    logs = middle + factor * (recording.logs - middle)
    found = []
    rows = recording.metrics.with_row_index("row").group_by(
        "benchmark", "quantity", maintain_order=True
    )
    for (_, quantity), curve in rows:
        sizes = curve["message_bytes"].fill_null(0).to_numpy().astype(float)
        per_size = np.log(np.maximum(sizes, 1))[:, None]
        higher = QUANTITIES[str(quantity)].direction == HIGHER
        found.append((sizes, logs[curve["row"].to_numpy()] + per_size * higher))
    return found


def measure(recording: Recording, spread: float | None, draws: int, seed: int = 1) -> Named:
    """Change bands of all curves, ``draws`` of each."""
    rng = np.random.default_rng(seed)
    wrong = tried = 0
    for sizes, logs in times(recording, spread):
        margin = np.full(len(sizes), np.log1p(MARGIN_PERCENT / 100))
        for _ in range(draws):
            jobs = rng.permutation(logs.shape[1])
            candidate, baseline = (logs[:, part] for part in np.split(jobs, [CANDIDATE_JOBS]))
            baseline = baseline[:, :HISTORY_JOBS]
            first = int(rng.integers(len(sizes)))
            last = int(rng.integers(first + 1, len(sizes) + 1))
            band = (np.arange(len(sizes)) >= first) & (np.arange(len(sizes)) < last)
            changed = candidate + np.log1p(rng.choice(CHANGES)) * band[:, None]
            called = np.abs(np.nanmedian(changed, axis=1) - np.nanmedian(baseline, axis=1)) > margin
            wrong += switches.find_move(sizes, baseline, changed, called, margin) is not None
            tried += 1
    return Named(wrong, tried)


def lines(path: Path, draws: int) -> Iterator[str]:
    """The report, line by line."""
    for recording in read_file(path):
        for spread in (None, 0.01, 0.02):
            found = measure(recording, spread, draws)
            _, low, high = interval(
                [1.0] * found.wrong + [0.0] * (found.tried - found.wrong), median=False
            )
            scaled = (
                "as recorded" if spread is None else f"scaled to a spread of {100 * spread:g} %"
            )
            yield (
                f"{recording.name}, {scaled}: {found.wrong} of {found.tried} changed bands taken "
                f"for a moved switch ({low:.2%} to {high:.2%})"
            )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--noise",
        type=Path,
        default=NOISE,
        help="recorded noise, as of python -m studies.error_rates",
    )
    parser.add_argument("--draws", type=int, default=500, help="bands changed of each curve")
    options = parser.parse_args()
    for line in lines(options.noise, options.draws):
        print(line, flush=True)


if __name__ == "__main__":
    main()
