"""The algorithms that a stack's library has, as its own programs list them; the manual's where they cannot be asked."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.mpis.tuning.model import Algorithm, Control, Listing, Tuning
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

#: Seconds that a program of the library may take to list what it has.
LIMIT_S = 60


@dataclass(frozen=True)
class Listed:
    """Algorithms of one collective.

    :param source: where the list is from, as the end of a sentence.
    """

    control: Control
    algorithms: tuple[Algorithm, ...]
    source: str


def ask(stack: Stack, tuning: Tuning, collectives: Sequence[str], *, spread: bool = False) -> dict[str, Listed]:
    """The algorithms of some collectives.

    :param spread: there are several nodes with several ranks on each, so that algorithms of two levels have a meaning.
    """
    texts: dict[tuple[str, ...], str] = {}
    found = {}
    for name in collectives:
        control = tuning.find(name)
        listed = _ask(stack, tuning.listing, control.variable, control.algorithms, texts) if tuning.listing else ()
        program = Path(tuning.listing.program[0]).name if tuning.listing else ""
        source = f"{program} of {stack.name}" if listed else tuning.source
        levels = control.levels if spread else None
        more = _ask(stack, levels.listing, levels.variable, levels.algorithms, texts) if levels else ()
        further = tuple(Algorithm(f"{levels.prefix}{each.word}") for each in more) if levels else ()
        found[name] = Listed(control, (*(listed or control.algorithms), *further), source)
    return found


def _ask(
    stack: Stack, listing: Listing, variable: str, known: Sequence[Algorithm], texts: dict[tuple[str, ...], str]
) -> tuple[Algorithm, ...]:
    variable = variable.removeprefix(listing.prefix)
    words = tuple(word.replace("{variable}", variable) for word in listing.program)
    if words not in texts:
        texts[words] = _run(stack, words)
    return parse(texts[words], listing, variable, {each.word: each for each in known})


def parse(text: str, listing: Listing, variable: str, known: Mapping[str, Algorithm]) -> tuple[Algorithm, ...]:
    """What a program's text lists of a variable; empty where it says nothing of it.

    :param known: algorithms of the record, which may know a better title.
    """
    if listing.part:
        part = re.search(listing.part.replace("{variable}", re.escape(variable)), text, re.MULTILINE)
        text = part[1] if part else ""
    found: dict[str, Algorithm] = {}
    for match in re.finditer(listing.pattern.replace("{variable}", re.escape(variable)), text, re.MULTILINE):
        groups = match.groupdict()
        if "last" in groups:
            rows = [Algorithm(str(number)) for number in range(1, int(groups["last"]) + 1)]
        else:
            rows = [Algorithm(groups["word"], groups.get("title") or "")]
        for row in rows:
            if row.word not in listing.ignored:
                found[row.word] = row if row.title else known.get(row.word, row)
    return tuple(found.values())


def _run(stack: Stack, words: Sequence[str]) -> str:
    """What a program of the stack prints; empty where it is not there or fails."""
    program = Path(stack.prefix) / words[0]
    if not program.is_file():
        return ""
    try:
        done = subprocess.run(
            [str(program), *words[1:]],
            env=metadata.enter(stack),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def pick(listed: Listed, words: Sequence[str]) -> tuple[Algorithm, ...]:
    """Some of the algorithms, or all where none are named."""
    there = {each.word: each for each in listed.algorithms}
    for word in words:
        if word not in there:
            rest = (
                "; those of two levels need several nodes with several ranks on each"
                if listed.control.is_of_levels(word)
                else ""
            )
            lists = f"{listed.source} lists {', '.join(there) or 'none'}{rest}"
            raise BadInput("algorithm-unknown", f"{listed.control.collective} has no algorithm {word!r}: {lists}.")
    return tuple(there[word] for word in words) if words else listed.algorithms
