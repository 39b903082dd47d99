"""An option of a suite's programs as one record: its allowed values, its command-line words, and
its effect on the numbers.

Options are requested by name, with ``-S suite_options=window:allocate`` or ``suite_options`` in a
partition's ``extras``, and become words of the programs' command lines; :mod:`catalogue` turns them
into launches. Most do not change the printed output, and are part of the variant as given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..vocabulary import BadInput, NotMeasured
from .benchmark import Benchmark

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
        a list; ``shape`` says it as text.
    :param since: first version of the suite that knows it.
    :param printed: the output itself gives numbers under it another variant; else the option
        is named in the variant.
    :param words: arguments that a value becomes, beside those of the rows under it.
    :param change: the row under a value.
    :param validates: with it, each row of an output says whether the data received was right.
    """

    name: str
    meaning: str = ""
    default: str = ""
    groups: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    pattern: str = ""
    shape: str = "words of letters, digits, '_' and '.'"
    since: tuple[int, ...] = ()
    printed: bool = False
    words: Callable[[str], tuple[str, ...]] = field(default=lambda value: ())
    change: Change = _same
    validates: bool = False


def describe(chosen: Mapping[str, str]) -> str:
    """Options in one word: ``sync=flush_local,window=allocate``; empty if none is set."""
    return ",".join(f"{name}={value}" for name, value in sorted(chosen.items()))


def as_stored(
    chosen: Mapping[str, str], launches: Iterable[Any]
) -> dict[str, str | dict[str, str]]:
    """Options and the arguments they became, as the condition of a case keeps them.

    :param launches: :class:`catalogue.Launch`.
    """
    return {
        "suite_options": describe(chosen),
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
        if option.values:
            allowed = value in option.values
        else:
            at_default = value == option.default != ""
            allowed = at_default or bool(re.fullmatch(option.pattern, value))
        if not allowed:
            raise BadInput(
                "bad-option",
                f"suite_options: '{value}' is not a value of {name}; give "
                f"{', '.join(option.values) or option.shape}.",
            )


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
                f"{name} is not an option of group {group}, but of {', '.join(known[name].groups)}"
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
        if version and version < option.since:
            since, has = (".".join(map(str, release)) for release in (option.since, version))
            raise NotMeasured(
                f"{name} is an option of {rows[0].suite} since {since}; this stack has {has}"
            )
        changed = [option.change(row, value, ranks) for row in rows]
        if any(changed):
            rows = tuple(after or before for before, after in zip(rows, changed, strict=True))
            words += option.words(value)
            taken[name] = value
    named = describe({name: taken[name] for name in taken if not known[name].printed})
    return Applied(rows, words, taken, named, any(known[name].validates for name in taken))


def possible(
    known: Mapping[str, SuiteOption], group: str, row: Benchmark
) -> Iterator[tuple[Benchmark, str]]:
    """The forms of a row that options can produce, each with its addition to the variant; the plain
    form comes first.

    ``*`` stands for the names and values of options, and for the number of one group of several.
    """
    rows = {(row.variants, row.quantities): row}
    own = [option for _, option in sorted(known.items()) if group in option.groups]
    for option in own:
        for value in option.values:
            changed = [
                option.change(row, value, _MANY) for row in rows.values() if value != option.default
            ]
            rows |= {(row.variants, row.quantities): row for row in changed if row}
    named = ("", "*") if any(not option.printed for option in own) else ("",)
    for under in rows.values():
        variants = dict.fromkeys(
            re.sub(r"\bgroup=[0-9]+$", "group=*", variant) for variant in under.variants
        )
        yield from ((replace(under, variants=tuple(variants)), row) for row in named)
