"""Outputs of benchmarks to records: which reader takes a text, and whether what it read is what was asked for.

All or nothing: either every number of complete outputs, or an :class:`benchmark.OutputError` with one sentence.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from ..machine.gpu import UNSAID
from ..vocabulary import POSITIVE_TIMES, QUANTITIES, ROOT, BadInput
from . import catalogue, preamble
from .benchmark import OutputError, Record
from .model import Suite

__all__ = [
    "Output",
    "OutputError",
    "check_arguments",
    "check_complete",
    "complete",
    "parse",
    "read",
    "read_log",
]


@dataclass(frozen=True)
class Output:
    """One output, read.

    :param records: in printed order.
    :param set_aside: how many lines of others stood around it, by whose they are (:mod:`preamble`).
    :param notes: what it says of how it was measured, as sentences without a full stop.
    :param line: line of its title.
    :param ends: whether a last line says that it is whole.
    """

    records: list[Record]
    set_aside: Mapping[str, int]
    notes: tuple[str, ...] = ()
    line: int = 1
    ends: bool = True


def read(text: str, *, source: str = "<text>") -> Output:
    """Read the one output of a suite that a text holds. Harmless lines of others around it are set aside and counted; of suites
    without an extent only known ones, before the title.

    :param source: name of the output, for messages.
    :raises OutputError: if the text is empty, of no known benchmark, incomplete, damaged or mixed up, holds two outputs, a
        value that nothing can take (:data:`vocabulary.POSITIVE_TIMES`), or says anywhere that the run failed.
    """
    first, *others = read_log(text, source=source)
    if others:
        raise OutputError(
            "output-second-table",
            f"{source}, line {others[0].line}: a second table starts, that of another run; split the outputs.",
        )
    return first


def read_log(text: str, *, source: str = "<text>") -> list[Output]:
    """Read all outputs of a job's log, in their order; lines of others between them are set aside by the first.

    :raises OutputError: as :func:`read`, but for a second output.
    """
    if not text.strip():
        raise OutputError(
            "output-empty", f"{source}: the output is empty; the benchmark printed nothing, see its standard error."
        )
    suites = catalogue.SUITES
    text = preamble.plain(text, (suite.first_line for suite in suites.values() if suite.extent))
    titles = sorted((match.start(), suite.name) for suite in suites.values() for match in suite.first_line.finditer(text))
    lines = text.split("\n")
    if not titles:
        raise _cause(lines, source) or OutputError(
            "output-unknown",
            f"{source}: this is not output of a benchmark that is known here ('mpibench catalogue'); give the whole "
            "output of one, from its title on.",
        )
    suite = suites[titles[0][1]]
    other = next((title for title in titles if title[1] != suite.name), None)
    if not suite.extent or (other and not suites[other[1]].extent):
        own, counts = preamble.part(text, titles[0][0])
        records = _parse(suite, own, source)
        if other:
            fault = f"output of {suites[other[1]].title} stands in that of {suite.title}; outputs are mixed up"
            raise OutputError(
                "output-damaged", f"{source}, line {text.count(chr(10), 0, other[0]) + 1}: {fault}, run the benchmark again."
            )
        if trouble := _cause(lines, source):  # below a block that is whole the launcher may say that a rank was killed
            raise trouble
        return [Output(records, counts, suite.facts(text).notes)]
    try:
        return _outputs(lines, [(text.count("\n", 0, start), name) for start, name in titles], source)
    except OutputError as error:
        raise _cause(lines, source) or error from None


def _outputs(lines: Sequence[str], titles: Sequence[tuple[int, str]], source: str) -> list[Output]:
    """The outputs under titles, of suites with an extent.

    :param titles: places of title lines among the lines, and whose they are.
    """
    rest, outputs, end = list(lines), [], 0
    for place, name in titles:
        if place < end:
            continue
        suite = catalogue.SUITES[name]
        assert suite.extent is not None  # or it would not be here
        stop = next((other for other, owner in titles if other > place and owner != name), len(lines))
        begin, end = suite.extent(lines[:stop], place)
        # Blank lines in front keep the numbers of lines; the last one has its end unless the file ends there.
        own = "\n" * begin + "\n".join(lines[begin:end]) + "\n" * (end < len(lines))
        records = _parse(suite, own, source)
        ends = bool(suite.last_line) and any(re.fullmatch(suite.last_line, line.strip()) for line in lines[begin:end])
        outputs.append(Output(records, {}, suite.facts(own).notes, place + 1, ends))
        rest[begin:end] = [""] * (end - begin)
    around = list(enumerate(preamble.without_report("\n".join(rest))[0].split("\n"), 1))
    if trouble := _cause([line for _, line in around], source):
        raise trouble
    open_ends = [
        (output, around[output.line : after - 1])
        for output, after in zip(outputs, [*(other.line for other in outputs[1:]), len(lines) + 1], strict=True)
        if not output.ends
    ]
    if fault := next(itertools.chain(_complaints(open_ends), _strays(around), _next_rows(open_ends)), None):
        number, line, wrong = fault
        raise OutputError("output-damaged", f"{source}, line {number}: '{_shown(line)}' {wrong}.")
    if len(outputs) > 1 and all(record.ranks == 1 for output in outputs for record in output.records):
        raise _singletons(source, outputs[1].line, lines[outputs[1].line - 1])
    before, known = preamble.part("\n".join(rest), sum(len(line) + 1 for line in rest[: outputs[0].line - 1]))
    counts = preamble.count(before.split("\n")) + known
    return [replace(outputs[0], set_aside=dict(counts)), *outputs[1:]]


#: Line of a text by its number, from 1.
Numbered = tuple[int, str]
#: An output without a last line, and what stands below it until the next one.
OpenEnd = tuple[Output, Sequence[Numbered]]
#: Number of a line, the line, and what is wrong with it.
Fault = tuple[int, str, str]


def _complaints(open_ends: Iterable[OpenEnd]) -> Iterator[Fault]:
    """Below a table that nothing ends stands no complaint."""
    for output, below in open_ends:
        if complaint := preamble.find_complaint(below):
            fault = f"stands below a table of {output.records[0].benchmark}, which prints no last line, so it may be cut off"
            yield *complaint, f"{fault}; run it again, or take that line out of the file if the table is whole"


def _strays(around: Iterable[Numbered]) -> Iterator[Fault]:
    """Around the outputs stands no title that is not read, and no piece of a table."""
    pieces = [suite.piece for suite in catalogue.SUITES.values() if suite.piece]
    for number, line in around:
        if _TITLE_WITHIN.search(line):
            fault = "is a title behind other characters, so its table is not read"
            yield number, line, f"{fault}; give each output as the benchmark printed it, in a file of its own"
        if any(piece.fullmatch(line) for piece in pieces):
            fault = "is a piece of a table whose beginning is not above it; outputs are damaged, cut or mixed up"
            yield number, line, f"{fault}, run the benchmark again"


def _next_rows(open_ends: Iterable[OpenEnd]) -> Iterator[Fault]:
    """Below a table that nothing ends stands not its next row, behind other characters."""
    for output, below in open_ends:
        if (size := output.records[-1].message_bytes) is not None:
            row = re.compile(_NEXT_ROW.format(size=2 * size or 1))
            for number, line in below:
                if row.search(line):
                    fault = "is the next row of the table above it behind other characters; outputs are mixed up"
                    yield number, line, f"{fault}, run the benchmark again"


#: Titles of suites with an extent that end a line which does not begin with them.
_TITLE_WITHIN = re.compile(r"# OSU .+ v[0-9.]+\s*$|# +Intel ?\(R\) MPI Benchmarks [0-9.]+[^,]*, \S+ part\s*$")
#: The row that would come next, at the end of a line that something else begins: sizes of a table that nothing ends double.
_NEXT_ROW = r"\S.*{size} {{2,}}[0-9]+\.[0-9]{{2}}(?: {{2,}}\S+)*\s*$"
#: What programs say that were started on another number of ranks than they need, each by itself where all are alone.
_TOO_FEW = re.compile(r"requires (?:exactly|at least) \w+ process|This is a test with 1 process|nprocs: 1,")


def _cause(lines: Sequence[str], source: str) -> OutputError | None:
    """Why there is no result, as lines say it that no benchmark prints beside one; ``None`` if none does."""
    if trouble := preamble.find_trouble(enumerate(lines, 1)):
        number, meaning, line = trouble
        return OutputError(
            "output-trouble", f"{source}, line {number}: {meaning}: '{_shown(line)}'; there is no result to use."
        )
    alone = [(number, line) for number, line in enumerate(lines, 1) if _TOO_FEW.search(line)]
    if len(alone) > 1:
        return _singletons(source, *alone[1])
    if alone and "requires" in alone[0][1]:
        fault = f"the benchmark was started on another number of ranks than it needs: '{_shown(alone[0][1])}'"
        return OutputError(
            "ranks-alone",
            f"{source}, line {alone[0][0]}: {fault}; start it on that number, with a launcher that this MPI knows.",
        )
    return None


def _singletons(source: str, number: int, line: str) -> OutputError:
    fault = f"more than one rank speaks for itself ('{_shown(line)}'), so each was started as a world of its own (singletons)"
    return OutputError("ranks-alone", f"{source}, line {number}: {fault}; start them with a launcher that this MPI knows.")


def _shown(line: str) -> str:
    return "".join(ch if ch.isprintable() else "?" for ch in " ".join(line.split())[:100])


def parse(text: str, *, source: str = "<text>") -> list[Record]:
    """Records of the one output of a text, as :func:`read`.

    :raises OutputError: as :func:`read`.
    """
    return read(text, source=source).records


def _parse(suite: Suite, text: str, source: str) -> list[Record]:
    """Records as the suite's reader gives them; where that is a site's own and fails, the defect is not the project's."""
    try:
        return _possible(suite.parse(text, source), suite, source)
    except BadInput:
        raise
    except Exception as error:
        file = Path(inspect.getfile(suite.parse))
        if file.is_relative_to(ROOT):
            raise
        why = f"{type(error).__name__}: {error}"
        raise OutputError("reader-failed", f"{source}: the reader of {suite.title} in {file} fails ({why}).") from error


def _possible(records: list[Record], suite: Suite, source: str) -> list[Record]:
    """The records, each of a benchmark of the suite and there once, with quantities that are known and values that something
    can take."""

    def wrong(record: Record, fault: str) -> OutputError:
        size = "" if record.message_bytes is None else f" at {record.message_bytes} bytes"
        return OutputError("output-damaged", f"{source}: {_label(record.benchmark, record.variant)}{size} {fault}.")

    names, seen = {row.name for row in suite.rows}, set()
    for record in records:
        if record.benchmark not in names:
            raise wrong(record, f"is no benchmark of {suite.title}: its reader is to give one of the suite's rows")
        identity = (record.benchmark, record.ranks, record.variant, record.message_bytes)
        if identity in seen:
            raise wrong(record, "is there twice; outputs are mixed up, run it again")
        seen.add(identity)
        for name, value in record.values.items():
            if name not in QUANTITIES:
                raise wrong(record, f"has {name}, which is no quantity: its reader is to give one of vocabulary.QUANTITIES")
            if not (0 < value < math.inf or (value == 0 and name not in POSITIVE_TIMES)):
                raise wrong(record, f"has {name} = {value:g}, which nothing can take; the output is damaged, run it again")
    return records


def check_complete(records: Sequence[Record], expected: Iterable[catalogue.Expected], *, source: str = "<records>") -> None:
    """Check that the records are exactly those a launch was to give.

    :param expected: in order.
    :raises OutputError: for a missing, extra or misplaced benchmark, another number of ranks or repetitions (where they
        are printed), a missing or extra variant, size or quantity, or data that was to be compared and was not.
    """
    items = {item.benchmark: item for item in expected}
    tables: dict[str, list[Record]] = {}
    for record in records:
        tables.setdefault(record.benchmark, []).append(record)
    faults = [
        *(f"benchmark {name} was asked for and is missing; run it again" for name in items if name not in tables),
        *(f"benchmark {name} was not asked for; this is the output of another launch" for name in tables if name not in items),
    ]
    if not faults and list(tables) != list(items):
        faults = ["the benchmarks are in another order than asked for; outputs are mixed up, run again"]
    for fault in (*faults, *(fault for name, item in items.items() for fault in _faults(item, tables.get(name, ())))):
        raise OutputError("output-damaged", f"{source}: {fault}.")


def _faults(item: catalogue.Expected, records: Sequence[Record]) -> Iterator[str]:
    name, launch = item.benchmark, "this is the output of another launch"
    for record in records:
        if record.ranks not in (item.ranks, None, *item.growing):
            yield f"{name} ran on {record.ranks} ranks, asked for were {item.ranks}; check the launch"
        if item.repetitions is not None and record.repetitions not in (item.repetitions, None):
            yield f"{name} made {record.repetitions} repetitions, asked for were {item.repetitions}; {launch}"
        if absent := [quantity for quantity in item.quantities if quantity not in record.values]:
            yield f"{name} has no column of {absent[0]}, which was asked for; {launch}, or of a version with other columns"
        if item.validated and not record.validated:
            yield f"{name} does not say whether its data was right, as was asked for (-c)"
    variants = tuple(dict.fromkeys(record.variant for record in records))
    if variants != item.variants:
        shown, wanted = (", ".join(names) or "none" for names in (variants, item.variants))
        yield f"{name} has the variants '{shown}', asked for were '{wanted}'; run it again"
    for variant in variants:
        printed = [record.message_bytes for record in records if record.variant == variant]
        if tuple(printed) != item.sizes:
            missing = [f"lacks {_bytes(size)}" for size in item.sizes if size not in printed]
            extra = [f"has {_bytes(size)}, which was not asked for" for size in printed if size not in item.sizes]
            fault = [*missing, *extra, "has a size twice or out of order"][0]
            yield f"{_label(name, variant)} {fault}; the output is cut or mixed up, run it again"


def complete(records: Sequence[Record], expected: Sequence[catalogue.Expected], *, source: str = "<records>") -> list[Record]:
    """Records that are exactly those asked for, with the ranks and repetitions the suite does not print filled in.

    :raises OutputError: as :func:`check_complete`.
    """
    records = _by_ranks(_in_memory(_as_started(records, expected), expected), expected)
    check_complete(records, expected, source=source)
    items = [{item.benchmark: item for item in expected}[record.benchmark] for record in records]
    return [
        replace(
            record,
            ranks=item.active(record.variant),
            repetitions=item.repetitions if record.repetitions is None else record.repetitions,
            variant=item.stored_variant(record.variant),
        )
        for record, item in zip(records, items, strict=True)
    ]


def _as_started(records: Sequence[Record], expected: Sequence[catalogue.Expected]) -> Sequence[Record]:
    """The records under the name of the one benchmark that was started, where both have one title.

    Where a program prints another's title, only what was started says which it is.
    """
    printed = {(record.suite, record.benchmark) for record in records}
    asked = {item.benchmark for item in expected}
    if len(printed) != 1 or len(asked) != 1:
        return records
    ((suite, name),), (wanted,) = printed, asked
    titles = {row.name: (row.title, row.quantities) for row in catalogue.SUITES[suite].rows if row.title}
    if name == wanted or titles.get(name) is None or titles[name] != titles.get(wanted):
        return records
    return [replace(record, benchmark=wanted) for record in records]


def _in_memory(records: Sequence[Record], expected: Sequence[catalogue.Expected]) -> Sequence[Record]:
    """The records with the memory of GPUs that was asked for, where an output says only that it was some."""
    asked = {word for item in expected for name in item.variants for word in name.split(",") if word.startswith("memory=")}
    if len(asked) != 1:
        return records
    (memory,) = asked
    return [replace(record, variant=re.sub(rf"\b{UNSAID}$", memory, record.variant)) for record in records]


def _by_ranks(records: Sequence[Record], expected: Sequence[catalogue.Expected]) -> Sequence[Record]:
    """The records with their number of ranks in the variant, where a launch measures several numbers of them."""
    several = {item.benchmark for item in expected if any("ranks=" in name for name in item.variants)}
    return [
        replace(record, variant=",".join(filter(None, (record.variant, f"ranks={record.ranks}"))))
        if record.benchmark in several
        else record
        for record in records
    ]


def check_arguments(text: str, launch: catalogue.Launch, *, source: str = "<text>") -> None:
    """Make sure that a program that shows its arguments was started with those of the launch, in their order.

    IMB-P2P, and all of IMB 2018, print them after they have cut them at their commas: ``20`` for ``-iter 20,1``.

    :raises OutputError: with the first that is another.
    """
    shown = catalogue.SUITES[launch.suite].shown_arguments(text)
    if shown is None:
        return
    for there, asked in zip_longest(shown, launch.args, fillvalue="nothing"):
        if there not in (asked, asked.partition(",")[0]):
            fault = f"{launch.binary} says it was started with '{there}' where '{asked}' was asked for"
            raise OutputError("output-of-another-launch", f"{source}: {fault}; this is the output of another launch.")


def _label(name: str, variant: str) -> str:
    return f"{name} ({variant})" if variant else name


def _bytes(size: int | None) -> str:
    return "its only row" if size is None else f"the size of {size} bytes"
