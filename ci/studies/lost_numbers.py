"""How often is damage to an output read as other numbers than were
printed? ``python -m studies.lost_numbers``.

For each reader ``--draws`` times: one of its outputs, one of the damages of :mod:`.output_damage`
(lines lost, repeated, moved, cut, corrupted, mixed with another output), read as a test reads it.
What comes out is an error, the same, or a silent loss; the same rows in another order are the same
numbers, since each says what it is of. The outputs are recorded but for those that a line calls
composed. Readers are the suites of the catalogue and STREAM (``stream``). Prints a line each, with
the upper end of the exact 95 % interval of the losses (Clopper and Pearson, Biometrika 26, 1934);
exit status 1 where there is a loss.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from scipy import stats

from reframe_tests.harness.cases.memory import stream as memory_stream
from reframe_tests.harness.suites import reader
from reframe_tests.harness.vocabulary import BadInput

from .output_damage import COMPOSED, GOLDEN, MUTATIONS, good_goldens, read


@dataclass(frozen=True)
class Outputs:
    """What one reader reads.

    :param texts: outputs by name, all of them whole.
    :param read: the answer to a text under a name; raises :class:`BadInput`.
    :param composed: no program wrote them.
    """

    name: str
    texts: Mapping[str, str]
    read: Callable[[str, str], object]
    composed: bool = False


@dataclass
class Losses:
    """Of one reader's draws.

    :param lost: names of output and damage, with the seed, of which something else was read.
    """

    name: str
    refused: int = 0
    same: int = 0
    lost: tuple[str, ...] = ()

    @property
    def draws(self) -> int:
        """All of them."""
        return self.refused + self.same + len(self.lost)

    def __str__(self) -> str:
        most = stats.beta.ppf(
            0.95 if not self.lost else 0.975, len(self.lost) + 1, self.draws - len(self.lost)
        )
        words = (
            f"{self.draws} damaged outputs: {self.refused} refused, {self.same} harmless, "
            f"{len(self.lost)} lost"
        )
        return f"{self.name}: {words} (at most {1e5 * most:.1f} in 100,000)"


def draw(outputs: Outputs, others: Mapping[str, str], draws: int, seed: int) -> Losses:
    """Damage outputs of a reader and read them.

    :param others: outputs of all readers by name; damage mixes them.
    """
    found = Losses(outputs.name)
    random = Random(f"{outputs.name} {seed}")
    answers = {name: outputs.read(name, text) for name, text in outputs.texts.items()}
    own = sorted(outputs.texts)
    foreign = sorted(others)
    kinds = sorted(MUTATIONS)
    for _ in range(draws):
        name = random.choice(own)
        kind = random.choice(kinds)
        number = random.getrandbits(32)
        damaged = MUTATIONS[kind](
            outputs.texts[name], others[random.choice(foreign)], Random(number)
        )
        try:
            answer = outputs.read(name, damaged)
        except BadInput:
            found.refused += 1
        else:
            if answer == answers[name]:
                found.same += 1
            else:
                found.lost += (f"{name} {kind} {number}",)
    return found


def known() -> list[Outputs]:
    """Suites, then the readers that are none."""
    goldens = good_goldens()
    records = {name: list(reader.parse(text)) for name, text in goldens.items()}
    suites: dict[str, dict[str, str]] = {}
    for name, text in goldens.items():
        suites.setdefault(records[name][0].suite, {})[name] = text
    found = [
        Outputs(
            suite,
            texts,
            lambda name, text: sorted(read(name, text, records[name]), key=repr),
            all(name.startswith(COMPOSED) for name in texts),
        )
        for suite, texts in suites.items()
    ]
    stream = (GOLDEN.parent / "golden_memory" / "stream_local.txt").read_text()
    return [
        *found,
        Outputs(
            "stream",
            {"stream_local.txt": stream},
            lambda _, text: memory_stream.read(text, "local", "as_is", 10),
        ),
    ]


def study(draws: int, seed: int, wanted: tuple[str, ...] = ()) -> Iterator[tuple[Outputs, Losses]]:
    """Each reader with outputs, or those that are wanted."""
    readers = known()
    texts = {name: text for outputs in readers for name, text in outputs.texts.items()}
    for outputs in readers:
        if not wanted or outputs.name in wanted:
            yield outputs, draw(outputs, texts, draws, seed)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m studies.lost_numbers", description=__doc__)
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("suites", nargs="*", help="names of suites, stream; default: all")
    options = parser.parse_args(arguments)
    status = 0
    any_suite = False
    for outputs, losses in study(options.draws, options.seed, tuple(options.suites)):
        any_suite = True
        print(
            f"{losses}{', composed' if outputs.composed else ''}",
            *(f"  {name}" for name in losses.lost[:5]),
            sep="\n",
            flush=True,
        )
        status |= bool(losses.lost)
    if not any_suite:
        print("no output is of these suites")
    return status if any_suite else 2


if __name__ == "__main__":
    sys.exit(main())
