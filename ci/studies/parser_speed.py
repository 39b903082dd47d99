"""How fast and how strict the parsers are: MB/s over the recorded
outputs, and what happens to damaged ones.

Run as ``python -m studies.parser_speed [--seconds S] [--mutations N]``. Not a test: it prints what
it finds, and exits 1 only if a damaged output was taken for another result (a silent loss).
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from random import Random

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError, Record
from studies.output_damage import MUTATIONS, good_goldens, read, whole

_VALUE = re.compile(r"^[ \t]+[0-9]+[ \t]+[0-9]+[ \t]+([0-9.]+ ?)+", re.MULTILINE)


def measure_speed(texts: dict[str, str], seconds: float) -> tuple[float, float]:
    """MB/s (1e6 bytes per second) and records per second over all
    texts, read again and again for so long.

    Seconds are of processor time, so that other work on the machine does not count.
    """
    size = records = 0
    start = time.process_time()
    while (passed := time.process_time() - start) < seconds:
        for name, text in texts.items():
            records += len(reader.parse(text, source=name))
            size += len(text)
    return size / passed / 1e6, records / passed


def count_outcomes(texts: dict[str, str], count: int, seed: int) -> Counter[tuple[str, str]]:
    """Outcomes of randomly damaged outputs: (mutation, ``error``
    | ``same`` | ``loss``) to how often.
    """
    random = Random(seed)
    names = list(texts)
    records = {name: whole(name, text) for name, text in texts.items()}
    outcomes: Counter[tuple[str, str]] = Counter()
    for _ in range(count):
        mutation = random.choice(list(MUTATIONS))
        name = random.choice(names)
        other = random.choice(names)
        damaged = MUTATIONS[mutation](texts[name], texts[other], random)
        outcomes[mutation, _outcome(name, damaged, records[name])] += 1
    return outcomes


def count_changed_digits(texts: dict[str, str], count: int, seed: int) -> Counter[str]:
    """Outcomes where one digit of a measured value became another digit:
    nothing but the other columns can show that.
    """
    random = Random(seed)
    places = [(name, found.span(1)) for name, text in texts.items() for found in _cells(text)]
    records = {name: whole(name, text) for name, text in texts.items()}
    outcomes: Counter[str] = Counter()
    for _ in range(count):
        name, (start, end) = random.choice(places)
        text = texts[name]
        where = random.choice([index for index in range(start, end) if text[index].isdigit()])
        digit = random.choice([digit for digit in "0123456789" if digit != text[where]])
        outcomes[_outcome(name, text[:where] + digit + text[where + 1 :], records[name])] += 1
    return outcomes


def _cells(text: str) -> list[re.Match[str]]:
    """Measured values: every number with a decimal point in a row of a table."""
    cell = re.compile(r"(?<= )([0-9]+\.[0-9]+)(?=\s)")
    return [
        found
        for row in _VALUE.finditer(text)
        for found in cell.finditer(text, row.start(), row.end() + 1)
    ]


def _outcome(name: str, damaged: str, expected: list[Record]) -> str:
    try:
        return "same" if read(name, damaged, expected) == expected else "loss"
    except OutputError:
        return "error"


def main(argv: list[str] | None = None) -> int:
    """Print the measures; 1 if there was a silent loss."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--seconds", type=float, default=2.0, help="how long to parse for the speed"
    )
    options.add_argument("--mutations", type=int, default=20_000, help="how many outputs to damage")
    options.add_argument("--seed", type=int, default=1, help="seed of the damage")
    args = options.parse_args(argv)
    texts = good_goldens()
    size = sum(map(len, texts.values()))
    print(f"{len(texts)} recorded outputs, {size / 1e3:.0f} kB")
    speed, records = measure_speed(texts, args.seconds)
    print(f"speed: {speed:.1f} MB/s, {records:.0f} records/s")
    outcomes = count_outcomes(texts, args.mutations, args.seed)
    losses = sum(count for (_, outcome), count in outcomes.items() if outcome == "loss")
    print(f"{args.mutations} damaged outputs: {losses} silent losses")
    print(f"  {'damage':<12} {'error':>7} {'same':>7} {'loss':>7}")
    for mutation in MUTATIONS:
        print(
            f"  {mutation:<12} "
            + " ".join(f"{outcomes[mutation, outcome]:7d}" for outcome in ("error", "same", "loss"))
        )
    digits = count_changed_digits(texts, min(args.mutations, 5_000), args.seed)
    seen = digits["error"] / max(1, sum(digits.values()))
    print(
        f"one digit of a value changed: seen in {seen:.0%} (through the other columns; the rest "
        "looks like a result)"
    )
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())
