"""Damage that happens to outputs: lost, repeated, moved, mixed, cut and corrupted lines.

Every damage is a pure function of the text and some numbers, so that the same code serves the
property tests and the benchmark of the parser. None of them makes another valid output on purpose:
a changed digit cannot be seen by anyone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError, Record
from reframe_tests.harness.suites.catalogue import Expected

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "data" / "golden"
#: Before the names of outputs that were composed by hand (README.md there).
COMPOSED = "composed/"
_ROW = re.compile(r"[ \t]*[0-9][0-9.e+\-| \t\u00b1]*")
_WHOLE = re.compile(r"[0-9]+")


def golden(name: str) -> str:
    """A recorded output, line ends as recorded."""
    return (GOLDEN / name).read_bytes().decode()


def good_goldens() -> dict[str, str]:
    """Outputs that are complete, by name: recorded ones, and with :data:`COMPOSED` those of
    programs that could not be run.
    """
    found = {}
    folders = ("", "osu/", "nccl/", COMPOSED)
    for path in (path for folder in folders for path in sorted(GOLDEN.glob(f"{folder}*.txt"))):
        name = str(path.relative_to(GOLDEN))
        text = golden(name)
        try:
            reader.parse(text)
        except OutputError:
            continue
        found[name] = text
    return found


def expectation(records: Sequence[Record]) -> list[Expected]:
    """What a caller who asked for exactly these records expects;
    variants name the ranks where these are several.
    """
    expected = []
    for name in dict.fromkeys(record.benchmark for record in records):
        mine = [record for record in records if record.benchmark == name]
        growing = len({record.ranks for record in mine}) > 1
        ranks: dict[str, int | None] = {}
        for record in mine:
            ranks[
                ",".join(filter(None, (record.variant, f"ranks={record.ranks}" if growing else "")))
            ] = record.ranks
        sizes = tuple(dict.fromkeys(record.message_bytes for record in mine))
        several = tuple(filter(None, ranks.values())) if growing else ()
        expected.append(Expected(name, mine[0].ranks or 0, sizes, tuple(ranks), growing=several))
    return expected


def ends_visibly(name: str) -> bool:
    """Whether the output says by itself what it holds; mpi4py.bench,
    IMB, OSU and one size of perftest do not.
    """
    return not name.startswith(("mpi4py", "imb", "osu/", COMPOSED))


def whole(name: str, text: str) -> list[Record]:
    """A recorded output as :func:`read` reads it undamaged."""
    return read(name, text, reader.parse(text, source=name))


def read(name: str, text: str, original: Sequence[Record]) -> list[Record]:
    """Read as a test does: parse, and complete by what was asked for
    where the output alone cannot show it.
    """
    records = reader.parse(text, source=name)
    return (
        records
        if ends_visibly(name)
        else reader.complete(records, expectation(original), source=name)
    )


def delete(text: str, other: str, random: Random) -> str:
    """Some lines in a row are lost."""
    lines = text.splitlines(keepends=True)
    start = random.randrange(len(lines))
    del lines[start : start + random.choice((1, 1, 1, 2, 5, 20))]
    return "".join(lines)


def duplicate(text: str, other: str, random: Random) -> str:
    """Some lines in a row are there twice, the second time anywhere."""
    lines = text.splitlines(keepends=True)
    start = random.randrange(len(lines))
    block = lines[start : start + random.choice((1, 1, 1, 2, 5, 20))]
    where = start + len(block) if random.random() < 0.5 else random.randrange(len(lines) + 1)
    return "".join([*lines[:where], *block, *lines[where:]])


def truncate(text: str, other: str, random: Random) -> str:
    """The end is lost, from any character on."""
    return text[: random.randrange(len(text))]


def behead(text: str, other: str, random: Random) -> str:
    """The beginning is lost, up to any line."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[random.randrange(1, len(lines)) :])


def swap(text: str, other: str, random: Random) -> str:
    """Two lines change places, unless both are rows of the same size and
    repetitions: that is another valid output.
    """
    lines = text.splitlines(keepends=True)
    for _ in range(100):
        first = random.randrange(len(lines))
        second = random.randrange(len(lines))
        if not _interchangeable(lines[first], lines[second]):
            lines[first], lines[second] = lines[second], lines[first]
            break
    return "".join(lines)


def _interchangeable(first: str, second: str) -> bool:
    # Rows of two tables of GPCNeT with one label: the same program without and with load.
    cells = [line.split("|") for line in (first, second)]
    if min(map(len, cells)) > 4 and cells[0][1] == cells[1][1]:
        return True
    if not (_ROW.fullmatch(first.strip()) and _ROW.fullmatch(second.strip())):
        return False
    columns = [line.split() for line in (first, second)]
    whole = [
        [index for index, word in enumerate(words) if _WHOLE.fullmatch(word)] for words in columns
    ]
    keys = [
        [words[index] for index in places[:3]] for words, places in zip(columns, whole, strict=True)
    ]
    return len(columns[0]) == len(columns[1]) and keys[0][:1] == keys[1][:1]


def corrupt(text: str, other: str, random: Random) -> str:
    """A digit becomes a letter."""
    digits = [found.start() for found in re.finditer("[0-9]", text)]
    where = random.choice(digits)
    return text[:where] + random.choice("abcdefnOolISBxz") + text[where + 1 :]


def interleave(text: str, other: str, random: Random) -> str:
    """Two outputs arrive in one file, line by line."""
    one = text.splitlines(keepends=True)
    two = other.splitlines(keepends=True)
    mixed = []
    while one and two:
        mixed.append((one if random.random() < 0.5 else two).pop(0))
    return "".join([*mixed, *one, *two])


def insert(text: str, other: str, random: Random) -> str:
    """Some lines of another output arrive in the middle."""
    lines = text.splitlines(keepends=True)
    foreign = other.splitlines(keepends=True)
    start = random.randrange(len(foreign))
    where = random.randrange(len(lines) + 1)
    block = foreign[start : start + random.choice((1, 1, 2, 5, 20))]
    return "".join([*lines[:where], *block, *lines[where:]])


def splice(text: str, other: str, random: Random) -> str:
    """A line of another output arrives in the middle of a line, without its end."""
    line = random.choice([line for line in other.split("\n") if line.strip()])
    where = random.randrange(len(text))
    return text[:where] + line + text[where:]


def concatenate(text: str, other: str, random: Random) -> str:
    """Two outputs in one file, one after the other."""
    return text + other


MUTATIONS: dict[str, Callable[[str, str, Random], str]] = {
    function.__name__: function
    for function in (
        delete,
        duplicate,
        truncate,
        behead,
        swap,
        corrupt,
        interleave,
        insert,
        splice,
        concatenate,
    )
}
