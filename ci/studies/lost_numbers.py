"""How often is damage to a recorded output read as other numbers than were printed? ``python -m studies.lost_numbers``.

For each suite ``--draws`` times: a recording of it, one of the damages of :mod:`.output_damage` (lines lost, repeated, moved,
cut, corrupted, mixed with another recording), read as a test reads it. What comes out is an error, the same records, or a
silent loss. Prints a line a suite, with the upper end of the exact 95 % interval of the losses (Clopper and Pearson, Biometrika
26, 1934); exit status 1 where there is a loss.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from scipy import stats

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.records import OutputError, Record

from .output_damage import MUTATIONS, good_goldens, read


@dataclass
class Losses:
    """Of one suite's draws.

    :param lost: names of recording and damage, with the seed, of which other records were read.
    """

    suite: str
    refused: int = 0
    same: int = 0
    lost: tuple[str, ...] = ()

    @property
    def draws(self) -> int:
        """All of them."""
        return self.refused + self.same + len(self.lost)

    def __str__(self) -> str:
        most = stats.beta.ppf(0.95 if not self.lost else 0.975, len(self.lost) + 1, self.draws - len(self.lost))
        words = f"{self.draws} damaged outputs: {self.refused} refused, {self.same} harmless, {len(self.lost)} lost"
        return f"{self.suite}: {words} (at most {1e5 * most:.1f} in 100,000)"


def draw(suite: str, texts: Mapping[str, str], records: Mapping[str, list[Record]], draws: int, seed: int) -> Losses:
    """Damage recordings of a suite and read them.

    :param texts: recordings of all suites by name; damage mixes them.
    """
    found, random = Losses(suite), Random(f"{suite} {seed}")
    own, others, kinds = sorted(name for name in records if records[name][0].suite == suite), sorted(texts), sorted(MUTATIONS)
    for _ in range(draws):
        name, kind, number = random.choice(own), random.choice(kinds), random.getrandbits(32)
        damaged = MUTATIONS[kind](texts[name], texts[random.choice(others)], Random(number))
        try:
            answer = read(name, damaged, records[name])
        except OutputError:
            found.refused += 1
        else:
            if answer == records[name]:
                found.same += 1
            else:
                found.lost += (f"{name} {kind} {number}",)
    return found


def study(draws: int, seed: int, wanted: tuple[str, ...] = ()) -> Iterator[Losses]:
    """Each suite with recordings, or those that are wanted."""
    texts = good_goldens()
    records = {name: list(reader.parse(text)) for name, text in texts.items()}
    for suite in dict.fromkeys(rows[0].suite for rows in records.values()):
        if not wanted or suite in wanted:
            yield draw(suite, texts, records, draws, seed)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m studies.lost_numbers", description=__doc__)
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("suites", nargs="*", help="names of suites; default: all with recordings")
    options = parser.parse_args(arguments)
    status, any_suite = 0, False
    for losses in study(options.draws, options.seed, tuple(options.suites)):
        any_suite = True
        print(losses, *(f"  {name}" for name in losses.lost[:5]), sep="\n", flush=True)
        status |= bool(losses.lost)
    if not any_suite:
        print("no recording is of these suites")
    return status if any_suite else 2


if __name__ == "__main__":
    sys.exit(main())
