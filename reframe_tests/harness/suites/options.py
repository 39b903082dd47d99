"""An option of a suite's programs as one record: what it may be, what
it becomes, and what it makes of the numbers.

They are asked for by name, with ``-S suite_options=window:allocate`` or ``suite_options`` in a
partition's ``extras``, and become words of the programs' command lines; :mod:`catalogue` makes
launches of them. Most change nothing that must be printed, and are part of the variant as they were
given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..vocabulary import BadInput, NotMeasured
from .benchmark import SERIES, Benchmark, SizeRange

#: How numbers under an option are kept apart from those without it, beside :func:`describe`, which
#: is part of the condition: not at all, since they are measured alike; by the variant that the
#: output itself gives them; by a variant of this name.
ALIKE = "measured alike"
PRINTED = "the output says it"
NAMED = "named in the variant"

#: Ranks on which every value can be had that depends on their number.
_MANY = 4

#: ``(row, value, ranks)`` to the row under a value; ``None`` where
#: its program does not know the value.
Change = Callable[[Benchmark, str, int], Benchmark | None]


def _same(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    return row


@dataclass(frozen=True)
class SuiteOption:
    """One option.

    :param default: the value without it; an option set to its default is not set.
    :param groups: groups it is for.
    :param values: all allowed values; empty where ``pattern`` says what is allowed.
    :param pattern: regular expression of a value, for options without
        a list; ``shape`` says it in words.
    :param since: first version of the suite that knows it.
    :param until: first version of the suite that is not known to heed it.
    :param apart: :data:`ALIKE`, :data:`PRINTED` or :data:`NAMED`.
    :param words: arguments that a value becomes, beside those of the rows under it.
    :param change: the row under a value.
    :param sizes: sizes in bytes that a value makes a suite print, where it
        does; those of a reduction are whole elements.
    :param validates: with it, each row of an output says whether the data received was right.
    :param resolve: a value as the condition keeps it, for one that
        names a file; raises :class:`BadInput`.
    :param example: a value that stands for all in what a group can give, for
        an option without a list that the output says.
    """

    name: str
    meaning: str = ""
    default: str = ""
    groups: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    pattern: str = ""
    shape: str = "words of letters, digits, '_' and '.'"
    since: tuple[int, ...] = ()
    until: tuple[int, ...] = ()
    apart: str = NAMED
    words: Callable[[str], tuple[str, ...]] = field(default=lambda value: ())
    change: Change = _same
    sizes: Callable[[Benchmark, str], tuple[int, ...]] | None = None
    validates: bool = False
    resolve: Callable[[str], str] = field(default=lambda value: value)
    example: str = ""


def describe(known: Mapping[str, SuiteOption], chosen: Mapping[str, str]) -> str:
    """Options as the condition keeps them:
    ``sync=flush_local,window=allocate``; empty where none is set.
    """
    return ",".join(
        f"{name}={known[name].resolve(value)}" for name, value in sorted(chosen.items())
    )


def as_stored(
    known: Mapping[str, SuiteOption], chosen: Mapping[str, str], launches: Iterable[Any]
) -> dict[str, str | dict[str, str]]:
    """Options and the arguments they became, as the condition of a case keeps them.

    :param launches: :class:`catalogue.Launch`.
    """
    return {
        "suite_options": describe(known, chosen),
        "arguments": {launch.name: " ".join(launch.args) for launch in launches},
    }


def check(known: Mapping[str, SuiteOption], asked: Mapping[str, str]) -> None:
    """Make sure that options exist and can have these values.

    :raises BadInput: with what there is.
    """
    for name, value in asked.items():
        if name not in known:
            raise BadInput(
                "unknown-name",
                f"suite_options: there is no option '{name}'; there are {', '.join(known)}.",
            )
        option = known[name]
        if value != option.default or not value:
            if (
                value not in option.values
                if option.values
                else not re.fullmatch(option.pattern, value)
            ):
                allowed = ", ".join(option.values) or option.shape
                raise BadInput(
                    "bad-option",
                    f"suite_options: '{value}' is not a value of {name}; there are {allowed}.",
                )
            try:
                option.resolve(value)
            except BadInput as error:
                raise BadInput("bad-option", f"suite_options: {name}: {error}.") from None


def of_group(
    known: Mapping[str, SuiteOption], group: str, asked: Mapping[str, str]
) -> dict[str, str]:
    """Options that are set for a group: those asked for that are not at their default anyway.

    :raises BadInput: for an option or a value that does not exist.
    :raises NotMeasured: if the group has no such option.
    """
    check(known, asked)
    for name in asked:
        if group not in known[name].groups:
            raise NotMeasured(
                f"{name} is no option of group {group}, but of {', '.join(known[name].groups)}"
            )
    return {name: value for name, value in asked.items() if value != known[name].default}


@dataclass(frozen=True)
class Applied:
    """What options make of a launch.

    :param rows: its rows under them.
    :param words: the arguments they become, beside those of the rows.
    :param options: those that its programs know.
    :param variant: what they add to the variant of every record,
        because the output's own does not say it.
    :param validated: each row of the output must say that the data received was right.
    """

    rows: tuple[Benchmark, ...]
    words: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    variant: str = ""
    validated: bool = False


def apply(
    known: Mapping[str, SuiteOption],
    rows: tuple[Benchmark, ...],
    ranks: int,
    asked: Mapping[str, str],
    version: tuple[int, ...],
) -> Applied:
    """The rows of a launch under options, on a version of their suite;
    an unknown version (empty) counts as able.

    :raises NotMeasured: if that version is too old, or a value cannot be had on that many ranks.
    """
    words: tuple[str, ...] = ()
    taken: dict[str, str] = {}
    for name, value in asked.items():
        option = known[name]
        since, until, has = (
            ".".join(map(str, release)) for release in (option.since, option.until, version)
        )
        if version and version < option.since:
            raise NotMeasured(
                f"{name} is an option of {rows[0].suite} from {since} on; this stack has {has}"
            )
        if version and option.until and version >= option.until:
            raise NotMeasured(
                f"{name} is not heeded by {rows[0].suite} from {until} on; this stack has {has}"
            )
        changed = [option.change(row, value, ranks) for row in rows]
        if any(changed):
            rows = tuple(after or before for before, after in zip(rows, changed, strict=True))
            words += option.words(value)
            taken[name] = value
    named = ",".join(
        f"{name}={value}" for name, value in sorted(taken.items()) if known[name].apart == NAMED
    )
    return Applied(rows, words, taken, named, any(known[name].validates for name in taken))


def possible(
    known: Mapping[str, SuiteOption], group: str, row: Benchmark
) -> Iterator[tuple[Benchmark, str]]:
    """A row of a group as options can make it, each with what they add
    to its variants; without any comes first.

    ``*`` stands for the names and values of options, and for the number of one group of several.
    """
    rows = {(row.variants, row.quantities): row}
    own = [option for _, option in sorted(known.items()) if group in option.groups]
    for option in own:
        for value in option.values or filter(None, (option.example,)):
            changed = [
                option.change(row, value, _MANY) for row in rows.values() if value != option.default
            ]
            rows |= {(row.variants, row.quantities): row for row in changed if row}
    named = ("", "*") if any(option.apart == NAMED for option in own) else ("",)
    for under in rows.values():
        variants = dict.fromkeys(
            re.sub(r"\b(group|ranks)=[0-9]+$", r"\1=*", variant) for variant in under.variants
        )
        yield from ((replace(under, variants=tuple(variants)), row) for row in named)


def sizes(
    known: Mapping[str, SuiteOption],
    row: Benchmark,
    chosen: Mapping[str, str],
    size_range: SizeRange,
) -> tuple[int, ...]:
    """Sizes in bytes that options make a row print; empty where they say none.

    :raises NotMeasured: if they are larger than the plan's, which memory and time are bounded by.
    """
    for name, value in chosen.items():
        given = known[name].sizes
        if given is None or row.sizes != SERIES:
            continue
        wanted = given(row, value)
        if max(wanted) > (largest := 1 << size_range.log2[1]):
            raise NotMeasured(
                f"{name} asks for {max(wanted)} bytes; {row.name} is measured up to {largest} here"
            )
        return wanted
    return ()


def read_lengths(path: str) -> tuple[int, ...]:
    """Message lengths in bytes of a file with one in each line, as IMB's
    ``-msglen`` reads it; blank lines say nothing.

    :raises BadInput: if it cannot be read, holds no length, something else, or one twice.
    """
    try:
        words = Path(path).read_text().split("\n")
    except (OSError, ValueError) as error:  # also no text, and a path that no file can have
        raise BadInput(
            "configuration-unusable",
            f"the file of lengths {path} cannot be read "
            f"({getattr(error, 'strerror', '') or 'no text'})",
        ) from None
    lengths = []
    for number, word in enumerate((word.strip() for word in words), 1):
        if word and not re.fullmatch("[0-9]{1,15}", word):
            raise BadInput(
                "configuration-unusable",
                f"{path}, line {number}: '{word[:40]}' is not a length in bytes",
            )
        if word:
            lengths.append(int(word))
    if not lengths or len(set(lengths)) < len(lengths):
        raise BadInput(
            "configuration-unusable",
            f"{path} has {'a length twice' if lengths else 'no length'}; give each length once, "
            "one in a line",
        )
    return tuple(lengths)
