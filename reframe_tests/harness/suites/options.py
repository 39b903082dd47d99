"""An option of a suite's programs as one record: what it may be, what it becomes, and what it makes of the numbers.

Each suite has a table of them (``suites/<suite>/options.py``). They are asked for by name, with
``-S suite_options=window:allocate`` or ``suite_options`` in a partition's ``extras``; :mod:`catalogue` makes launches of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from pathlib import Path
from typing import Protocol

from ..vocabulary import BadInput, NotMeasured
from .benchmark import SERIES, Benchmark
from .plans import SizeRange

#: How numbers under an option are kept apart from those without it, beside :func:`describe`, which is part of the condition:
#: not at all, since they are measured alike; by the variant that the output itself gives them; by a variant of this name.
ALIKE, PRINTED, NAMED = "measured alike", "the output says it", "named in the variant"

#: Options named in the variant that may be set together: names of metrics, which references are held against, are as many as
#: their combinations.
TOGETHER = 2

#: Ranks on which every value can be had that depends on their number.
_MANY = 4

#: ``(row, value, ranks)`` to the row under a value; ``None`` where its program does not know the value.
Change = Callable[[Benchmark, str, int], Benchmark | None]


def _same(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    return row


@dataclass(frozen=True)
class SuiteOption:
    """One option.

    :param meaning: what it sets, in a few words.
    :param default: the value without it; an option set to its default is not set.
    :param values: all allowed values; empty where ``pattern`` says what is allowed.
    :param pattern: regular expression of a value, for options without a list; ``shape`` says it in words.
    :param groups: groups it is for.
    :param since: first version of the suite that knows it.
    :param until: first version of the suite that is not known to heed it.
    :param apart: :data:`ALIKE`, :data:`PRINTED` or :data:`NAMED`.
    :param words: arguments that a value becomes, beside those of the rows under it.
    :param change: the row under a value.
    :param sizes: sizes in bytes that a value makes a suite print, where it does; those of a reduction are whole elements.
    :param validates: with it, each row of an output says whether the data received was right.
    :param fault: what is wrong with a value that has the right form, e.g. a file that is not there; empty if nothing is.
    :param resolve: a value as the condition keeps it, for one that names a file.
    :param example: a value that stands for all in what a group can give, for an option without a list that the output says.
    :param refusals: groups it is not for, each with the reason.
    """

    name: str
    meaning: str
    default: str
    groups: tuple[str, ...]
    values: tuple[str, ...] = ()
    pattern: str = ""
    shape: str = ""
    since: tuple[int, ...] = ()
    until: tuple[int, ...] = ()
    apart: str = NAMED
    words: Callable[[str], tuple[str, ...]] = field(default=lambda value: ())
    change: Change = _same
    sizes: Callable[[Benchmark, str], tuple[int, ...]] | None = None
    validates: bool = False
    fault: Callable[[str], str] = field(default=lambda value: "")
    resolve: Callable[[str], str] = field(default=lambda value: value)
    example: str = ""
    refusals: Mapping[str, str] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        """What it may be, for messages."""
        return ", ".join(self.values) or self.shape

    def check(self, value: str) -> None:
        """Make sure that a value is one of this option.

        :raises BadInput: with what is allowed.
        """
        known = value in self.values if self.values else value == self.default or re.fullmatch(self.pattern, value)
        if not known:
            raise BadInput(f"suite_options: '{value}' is not a value of {self.name}; there are {self.allowed}.")
        if value != self.default and (fault := self.fault(value)):
            raise BadInput(f"suite_options: {self.name}: {fault}.")


def by_name(options: Iterable[SuiteOption]) -> dict[str, SuiteOption]:
    """Options by their names.

    :raises BadInput: where two suites give one name to two options.
    """
    known: dict[str, SuiteOption] = {}
    for option in options:
        if option.name in known:
            raise BadInput(f"two suites define the option {option.name}; rename one.")
        known[option.name] = option
    return known


def describe(known: Mapping[str, SuiteOption], chosen: Mapping[str, str]) -> str:
    """Options as the condition keeps them: ``sync=flush_local,window=allocate``; empty where none is set."""
    return ",".join(f"{name}={known[name].resolve(value)}" for name, value in sorted(chosen.items()))


class Started(Protocol):
    """A launch, as far as a record of it goes."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def args(self) -> tuple[str, ...]:
        """Arguments after the program."""


def as_stored(
    known: Mapping[str, SuiteOption], chosen: Mapping[str, str], launches: Iterable[Started]
) -> dict[str, str | dict[str, str]]:
    """Options and the arguments they became, as the condition of a case keeps them."""
    return {
        "suite_options": describe(known, chosen),
        "arguments": {launch.name: " ".join(launch.args) for launch in launches},
    }


def of_group(known: Mapping[str, SuiteOption], group: str, asked: Mapping[str, str]) -> dict[str, str]:
    """Options that are set for a group: those asked for that are not at their default anyway.

    :raises BadInput: for an option or a value that does not exist.
    :raises NotMeasured: if the group has no such option.
    """
    check(known, asked)
    for name in asked:
        if reason := known[name].refusals.get(group, ""):
            raise NotMeasured(f"{name} is no option of group {group}: {reason}")
        if group not in known[name].groups:
            raise NotMeasured(f"{name} is no option of group {group}, but of {', '.join(known[name].groups)}")
    chosen = {name: value for name, value in asked.items() if value != known[name].default}
    named = [name for name in chosen if known[name].apart == NAMED]
    if len(named) > TOGETHER:
        raise NotMeasured(f"{', '.join(named)} change what is measured; set {TOGETHER} of them at most")
    return chosen


def check(known: Mapping[str, SuiteOption], asked: Mapping[str, str]) -> None:
    """Make sure that options exist and can have these values.

    :raises BadInput: with what there is.
    """
    for name, value in asked.items():
        if name not in known:
            raise BadInput(f"suite_options: there is no option '{name}'; there are {', '.join(known)}.")
        known[name].check(value)


@dataclass(frozen=True)
class Applied:
    """What options make of a launch.

    :param rows: its rows under them.
    :param words: the arguments they become, beside those of the rows.
    :param options: those that its programs know.
    :param variant: what they add to the variant of every record, because the output's own does not say it.
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
    """The rows of a launch under options, on a version of their suite; an unknown version (empty) counts as able.

    :raises NotMeasured: if that version is too old, or a value cannot be had on that many ranks.
    """
    words: tuple[str, ...] = ()
    taken: dict[str, str] = {}
    for name, value in asked.items():
        option = known[name]
        if version and version < option.since:
            since, has = (".".join(map(str, each)) for each in (option.since, version))
            raise NotMeasured(f"{name} is an option of {rows[0].suite} from {since} on; this stack has {has}")
        if version and option.until and version >= option.until:
            until, has = (".".join(map(str, each)) for each in (option.until, version))
            raise NotMeasured(f"{name} is not heeded by {rows[0].suite} from {until} on; this stack has {has}")
        changed = [option.change(row, value, ranks) for row in rows]
        if any(changed):
            rows = tuple(after or before for before, after in zip(rows, changed, strict=True))
            words += option.words(value)
            taken[name] = value
    named = ",".join(f"{name}={value}" for name, value in sorted(taken.items()) if known[name].apart == NAMED)
    return Applied(rows, words, taken, named, any(known[name].validates for name in taken))


def possible(known: Mapping[str, SuiteOption], group: str, row: Benchmark) -> Iterator[tuple[Benchmark, str]]:
    """A row of a group as options can make it, each with what they add to its variants; without any comes first.

    ``*`` stands for a value that is none of a list, and for the number of one group of several.
    """
    own = [option for _, option in sorted(known.items()) if group in option.groups]
    rows = [row]
    for option in (each for each in own if each.apart != NAMED):
        values = [value for value in option.values or (option.example,) if value not in (option.default, "")]
        changed = [option.change(each, value, _MANY) for each in rows for value in values]
        rows += [each for each in changed if each]
    named = [option for option in own if option.apart == NAMED]
    for several in (each for count in range(min(TOGETHER, len(named)) + 1) for each in combinations(named, count)):
        free = [
            ["*"] if option.change is _same else [value for value in option.values if value != option.default] or ["*"]
            for option in several
        ]
        for taken in product(*free):
            for each in rows:
                under: Benchmark | None = each
                for option, value in zip(several, taken, strict=True):
                    under = option.change(under, value, _MANY) if under and value != "*" else under
                if under:
                    variants = tuple(re.sub(r"\b(group|ranks)=[0-9]+$", r"\1=*", variant) for variant in under.variants)
                    words = (f"{option.name}={value}" for option, value in zip(several, taken, strict=True))
                    yield replace(under, variants=tuple(dict.fromkeys(variants))), ",".join(words)


def sizes(
    known: Mapping[str, SuiteOption], row: Benchmark, chosen: Mapping[str, str], size_range: SizeRange
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
            raise NotMeasured(f"{name} asks for {max(wanted)} bytes; {row.name} is measured up to {largest} here")
        return wanted
    return ()


def read_lengths(path: str) -> tuple[int, ...]:
    """Message lengths in bytes of a file with one in each line, as IMB's ``-msglen`` reads it; blank lines say nothing.

    :raises BadInput: if it cannot be read, holds no length, something else, or one twice.
    """
    try:
        words = Path(path).read_text().split("\n")
    except (OSError, ValueError) as error:  # also no text, and a path that no file can have
        raise BadInput(f"the file of lengths {path} cannot be read ({getattr(error, 'strerror', '') or 'no text'})") from None
    lengths = []
    for number, word in enumerate((word.strip() for word in words), 1):
        if word and not re.fullmatch("[0-9]{1,15}", word):
            raise BadInput(f"{path}, line {number}: '{word[:40]}' is not a length in bytes")
        if word:
            lengths.append(int(word))
    if not lengths or len(set(lengths)) < len(lengths):
        raise BadInput(f"{path} has {'a length twice' if lengths else 'no length'}; give each length once, one in a line")
    return tuple(lengths)
