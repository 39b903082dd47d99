"""From outputs of benchmarks to records: which reader takes a text, and whether its contents are
what was requested.

All or nothing: either every number of complete outputs, or an :class:`benchmark.OutputError` with
one sentence.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from ..machine.gpu import UNSAID
from ..vocabulary import POSITIVE_TIMES, QUANTITIES, ROOT, BadInput
from . import catalogue, preamble
from .benchmark import OutputError, Record
from .model import Parser, Suite

__all__ = [
    "Output",
    "OutputError",
    "check_arguments",
    "check_complete",
    "complete",
    "parse",
    "read",
    "read_log",
    "read_steps",
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


def read(text: str, *, source: str = "<text>", parse: Parser | None = None) -> Output:
    """Read the one output of a suite that a text holds. Harmless lines of others around it are set
    aside and counted; of suites without an extent only known ones, before the title.

    :param source: name of the output, for messages.
    :param parse: reads it in place of the reader of its suite, which has no extent.
    :raises OutputError: if the text is empty, of no known benchmark, incomplete, damaged or mixed
        up, holds two outputs, a value that nothing can take (:data:`vocabulary.POSITIVE_TIMES`), or
        says anywhere that the run failed.
    """
    first, *others = read_log(text, source=source, parse=parse)
    if others:
        raise OutputError(
            "output-mixed",
            f"{source}, line {others[0].line}: a second table starts, from another run; split the "
            "outputs.",
        )
    return first


def read_log(text: str, *, source: str = "<text>", parse: Parser | None = None) -> list[Output]:
    """Read all outputs of a job's log, in their order; lines of others
    between them are set aside by the first.

    :raises OutputError: as :func:`read`, but for a second output.
    """
    outputs, faults = read_steps(text, source=source, parse=parse)
    for fault in faults:
        raise fault
    return outputs


def read_steps(
    text: str, *, source: str = "<text>", parse: Parser | None = None
) -> tuple[list[Output], list[OutputError]]:
    """Read a job's log some of whose steps failed.

    Where no line starts another program, nothing says which of two outputs a
    fault between them is of, so both are left out.

    :returns: outputs that no fault touches, as :func:`read_log`; and what
        is wrong with the others, a sentence each.
    :raises OutputError: as :func:`read_log`, where no output is left.
    """
    if not text.strip():
        raise OutputError(
            "output-empty",
            f"{source}: the output is empty; see the benchmark's standard error.",
        )
    suites = catalogue.SUITES
    text = preamble.plain(text, (suite.first_line for suite in suites.values() if suite.extent))
    titles = sorted(
        (match.start(), suite.name)
        for suite in suites.values()
        for match in suite.first_line.finditer(text)
    )
    lines = text.split("\n")
    if not titles:
        raise (
            _cause(lines, source)
            or _one_end(text, source)
            or OutputError(
                "output-unknown",
                f"{source}: this is not output of a supported benchmark ('mpibench catalogue'); "
                "give a complete output, including its title.",
            )
        )
    suite = suites[titles[0][1]]
    other = next((title for title in titles if title[1] != suite.name), None)
    if not suite.extent or (other and not suites[other[1]].extent):
        own, counts = preamble.part(text, titles[0][0])
        records = _parse(replace(suite, parse=parse or suite.parse), own, source)
        if other:
            fault = (
                f"output of {suites[other[1]].title} is inside that of {suite.title}; outputs are "
                "mixed up"
            )
            raise OutputError(
                "output-damaged",
                f"{source}, line {text.count(chr(10), 0, other[0]) + 1}: {fault}, run the "
                "benchmark again.",
            )
        # below a block that is whole the launcher may say that a rank was killed
        if trouble := _cause([_NUMBERS.sub("[]", line) for line in lines], source):
            raise trouble
        return [Output(records, counts, suite.facts(text).notes)], []
    try:
        return _outputs(
            lines, [(text.count("\n", 0, start), name) for start, name in titles], source
        )
    except OutputError as error:
        raise _cause(lines, source) or error from None


class Whole(NamedTuple):
    """An output, from the place of its first line on, ``end`` being the place after its last."""

    begin: int
    end: int
    output: Output


class Unread(NamedTuple):
    """What is wrong with the lines from ``begin`` up to ``end``."""

    begin: int
    end: int
    error: OutputError


def _outputs(
    lines: Sequence[str], titles: Sequence[tuple[int, str]], source: str
) -> tuple[list[Output], list[OutputError]]:
    """What :func:`read_steps` gives, of suites with an extent.

    :param titles: places of title lines among the lines, and whose they are.
    """
    rest = list(lines)
    whole = list[Whole]()
    failed = list[Unread]()
    end = 0
    for place, name in titles:
        if place < end:
            continue
        suite = catalogue.SUITES[name]
        assert suite.extent is not None  # or it would not be here
        stop = next(
            (other for other, owner in titles if other > place and owner != name), len(lines)
        )
        above = end
        begin, end = suite.extent(lines[:stop], place)
        # Blank lines in front keep the numbers of lines; the last one
        # has its end unless the file ends there.
        own = "\n" * begin + "\n".join(lines[begin:end]) + "\n" * (end < len(lines))
        rest[begin:end] = [""] * (end - begin)
        try:
            records = _parse(suite, own, source)
        except OutputError as error:
            failed.append(Unread(begin, end, error))
            continue
        ends = bool(suite.last_line) and any(
            re.fullmatch(suite.last_line, line.strip()) for line in lines[begin:end]
        )
        doubt = "" if ends else suite.doubt(records[-1], lines[above:begin])
        notes = (*suite.facts(own).notes, *filter(None, [doubt]))
        whole.append(Whole(begin, end, Output(records, {}, notes, place + 1, ends)))
    around = list(enumerate(rest, 1))
    inside = {place for step in failed for place in range(step.begin, step.end)}
    seen = [
        (number, lines[number - 1] if number - 1 in inside else line) for number, line in around
    ]
    if alone := _alone(lines if failed else rest, source):
        raise next(_troubles(seen, source), Unread(0, 0, alone)).error
    troubles = list(_troubles(seen, source))
    untold = [
        step
        for step in failed
        if not any(step.begin <= trouble.begin < step.end for trouble in troubles)
    ]
    faults = [*troubles, *untold, *_others(whole, around, source)]
    outputs = [step.output for step in whole]
    if len(outputs) > 1 and all(
        record.ranks == 1 for output in outputs for record in output.records
    ):
        raise (
            faults[0].error
            if faults
            else _singletons(source, outputs[1].line, lines[outputs[1].line - 1])
        )
    if faults:
        starts = {number - 1 for number, line in around if _STARTS.search(line)}
        steps: list[Whole | Unread] = sorted([*whole, *failed], key=lambda step: step.begin)
        outputs = [step.output for step in whole if not _touched(step, steps, faults, starts)]
        if not outputs:
            raise faults[0].error
        faults += [
            Unread(step.begin, step.end, _beside(step, source))
            for step in whole
            if step.output not in outputs
        ]
    before, known = preamble.part(
        "\n".join(rest), sum(len(line) + 1 for line in rest[: outputs[0].line - 1])
    )
    counts = preamble.count(before.split("\n")) + known
    return [replace(outputs[0], set_aside=dict(counts)), *outputs[1:]], [
        fault.error for fault in faults
    ]


def _touched(
    step: Whole, steps: Sequence[Whole | Unread], faults: Iterable[Unread], starts: Container[int]
) -> bool:
    """Whether a fault stands inside a step or beside it, with no other
    step and no start of a program between.
    """
    for fault in faults:
        first, last = (
            (fault.end, step.begin) if fault.end <= step.begin else (step.end, fault.begin)
        )
        between = any(other.begin < last and first < other.end for other in steps)
        if not between and not any(place in starts for place in range(first, last)):
            return True
    return False


def _beside(step: Whole, source: str) -> OutputError:
    name = step.output.records[0].benchmark
    fault = (
        f"this output of {name} is next to a fault without a program start in between, so it is "
        "ignored, too"
    )
    return OutputError(
        "output-damaged", f"{source}, line {step.output.line}: {fault}; run it again."
    )


def _others(whole: Sequence[Whole], around: Sequence[Numbered], source: str) -> Iterator[Unread]:
    """What around the outputs says that one may be cut, or is not read."""
    begins = [*(step.begin for step in whole), len(around)]
    open_ends = [
        (step.output, around[step.end : after])
        for step, after in zip(whole, begins[1:], strict=True)
        if not step.output.ends
    ]
    for number, line, wrong in itertools.chain(
        _complaints(open_ends), _strays(around), _next_rows(open_ends)
    ):
        error = OutputError("output-damaged", f"{source}, line {number}: '{_shown(line)}' {wrong}.")
        yield Unread(number - 1, number, error)


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
            fault = (
                f"follows a table of {output.records[0].benchmark}, which has no last line, so the "
                "table may be truncated"
            )
            yield (
                *complaint,
                f"{fault}; run it again, or remove that line from the file if the table is "
                "complete",
            )


def _strays(around: Iterable[Numbered]) -> Iterator[Fault]:
    """Around the outputs stands no title that is not read, and no piece of a table."""
    pieces = [suite.piece for suite in catalogue.SUITES.values() if suite.piece]
    for number, line in around:
        if _TITLE_WITHIN.search(line):
            fault = "has a title after other characters, so its table is not read"
            yield (
                number,
                line,
                f"{fault}; give each output unchanged, in its own file",
            )
        if any(piece.fullmatch(line) for piece in pieces):
            fault = (
                "is part of a table without a beginning; outputs are damaged, truncated or mixed up"
            )
            yield number, line, f"{fault}, run the benchmark again"


def _next_rows(open_ends: Iterable[OpenEnd]) -> Iterator[Fault]:
    """Below a table that nothing ends stands not its next row, behind
    other characters or cut before its value.
    """
    for output, below in open_ends:
        if (size := output.records[-1].message_bytes) is not None:
            row = re.compile(_NEXT_ROW.format(size=2 * size or 1))
            for number, line in below[:1]:
                if line.strip() and str(2 * size or 1).startswith(line.strip()):
                    yield (
                        number,
                        line,
                        "is a truncated row of the table above it; run it again",
                    )
            for number, line in below:
                if row.search(line):
                    fault = (
                        "is a row of the table above it after other characters; outputs are mixed "
                        "up"
                    )
                    yield number, line, f"{fault}, run the benchmark again"


#: Titles of suites with an extent that end a line which does not begin with them.
_TITLE_WITHIN = re.compile(
    r"# OSU .+ v[0-9.]+\s*$|# +Intel ?\(R\) MPI Benchmarks [0-9.]+[^,]*, \S+ part\s*$"
)
#: The row that would come next, at the end of a line that something else
#: begins: sizes of a table that nothing ends double.
_NEXT_ROW = r"\S.*{size} {{2,}}[0-9]+\.[0-9]{{2}}(?: {{2,}}\S+)*\s*$"
#: A list of numbers, in which there is nothing to be found.
_NUMBERS = re.compile(r"\[[-0-9.nul, ]+\]")
#: What programs say that were started on another number of ranks than
#: they need, each by itself where all are alone.
_TOO_FEW = re.compile(
    r"requires (?:exactly|at least) \w+ process|This is a test with 1 process|nprocs: 1,"
)


def _one_end(text: str, source: str) -> OutputError | None:
    """That a program's own words are there, where what is read are
    its two ends as a test records them.
    """
    found = (
        (suite, line)
        for suite in catalogue.SUITES.values()
        if suite.by_itself and (line := suite.by_itself.search(text))
    )
    for suite, line in found:
        fault = f"this is the output of one end of {suite.title}, which is incomplete"
        groups = " or ".join(pair.name for pair in suite.pairs)
        remedy = (
            f"give both ends as a test of group {groups} records them ('mpibench catalogue "
            f"{suite.name}')"
        )
        return OutputError(
            "output-empty",
            f"{source}, line {text.count(chr(10), 0, line.start()) + 1}: {fault}; {remedy}.",
        )
    return None


#: A line that shows a command: a launcher with its options, and a benchmark.
_STARTS = re.compile(
    r"\b(?:mpirun|mpirun_rsh|mpiexec(?:\.hydra)?|prterun|prun|orterun|jsrun|aprun|srun"
    r"|flux run)\s+(?:-.*[\s/]|\S*/)?"
    r"(?:osu_\w+|IMB-\w+|\w+_perf(?:_mpi)?)(?:\s|$)"
)


def _cause(lines: Sequence[str], source: str) -> OutputError | None:
    """Why there is no result, as lines say it that no benchmark
    prints beside one; ``None`` if none does.
    """
    trouble = next(_troubles(enumerate(lines, 1), source), None)
    return trouble.error if trouble else _alone(lines, source)


def _troubles(lines: Iterable[Numbered], source: str) -> Iterator[Unread]:
    """Lines that say that a run went wrong."""
    for numbered in lines:
        if trouble := preamble.find_trouble([numbered]):
            number, meaning, line = trouble
            fault = (
                f"{source}, line {number}: {meaning}: '{_shown(line)}'; there is no result to use."
            )
            yield Unread(number - 1, number, OutputError("output-trouble", fault))


def _alone(lines: Sequence[str], source: str) -> OutputError | None:
    """That ranks were each started by themselves, as a program
    says that needs another number of them.
    """
    alone = [(number, line) for number, line in enumerate(lines, 1) if _TOO_FEW.search(line)]
    if len(alone) > 1:
        return _singletons(source, *alone[1])
    if alone and "requires" in alone[0][1]:
        fault = f"the benchmark was started on the wrong number of ranks: '{_shown(alone[0][1])}'"
        return OutputError(
            "options-exclude",
            f"{source}, line {alone[0][0]}: {fault}; use the right number, and a launcher that "
            "this MPI supports.",
        )
    return None


def _singletons(source: str, number: int, line: str) -> OutputError:
    fault = (
        f"more than one rank prints the header ('{_shown(line)}'), so each was started as its own "
        "world (singletons)"
    )
    return OutputError(
        "options-exclude",
        f"{source}, line {number}: {fault}; start them with a launcher that this MPI supports.",
    )


def _shown(line: str) -> str:
    return "".join(ch if ch.isprintable() else "?" for ch in " ".join(line.split())[:100])


def parse(text: str, *, source: str = "<text>") -> list[Record]:
    """Records of the one output of a text, as :func:`read`.

    :raises OutputError: as :func:`read`.
    """
    return read(text, source=source).records


def _parse(suite: Suite, text: str, source: str) -> list[Record]:
    """Records as the suite's reader gives them; where that is a site's own
    and fails, the defect is not the project's.
    """
    try:
        return _possible(suite.parse(text, source), suite, source)
    except BadInput:
        raise
    except Exception as error:
        file = Path(inspect.getfile(suite.parse))
        if file.is_relative_to(ROOT):
            raise
        why = f"{type(error).__name__}: {error}"
        raise OutputError(
            "output-damaged", f"{source}: the reader of {suite.title} in {file} fails ({why})."
        ) from error


def _possible(records: list[Record], suite: Suite, source: str) -> list[Record]:
    """The records, each of a benchmark of the suite and there once, with quantities that are known
    and values that something can take.
    """

    def wrong(record: Record, fault: str) -> OutputError:
        size = "" if record.message_bytes is None else f" at {record.message_bytes} bytes"
        return OutputError(
            "output-damaged", f"{source}: {_label(record.benchmark, record.variant)}{size} {fault}."
        )

    names = {row.name for row in suite.rows}
    seen = set()
    for record in records:
        if record.benchmark not in names:
            raise wrong(
                record,
                f"is not a benchmark of {suite.title}: its reader must return one of the suite's "
                "rows",
            )
        identity = (record.benchmark, record.ranks, record.variant, record.message_bytes)
        if identity in seen:
            raise wrong(record, "appears twice; outputs are mixed up, run it again")
        seen.add(identity)
        for name, value in record.values.items():
            if name not in QUANTITIES:
                raise wrong(
                    record,
                    f"has {name}, which is not a quantity: its reader must return one of "
                    "vocabulary.QUANTITIES",
                )
            if not (0 < value < math.inf or (value == 0 and name not in POSITIVE_TIMES)):
                raise wrong(
                    record,
                    f"has {name} = {value:g}, which is impossible; the output is damaged, run it "
                    "again",
                )
    return records


def check_complete(
    records: Sequence[Record], expected: Iterable[catalogue.Expected], *, source: str = "<records>"
) -> None:
    """Check that the records are exactly those a launch was to give.

    :param expected: in order.
    :raises OutputError: for a missing, extra or misplaced benchmark, another number of ranks or
        repetitions (where they are printed), a missing or extra variant, size or quantity, or data
        that was to be compared and was not.
    """
    items = {item.benchmark: item for item in expected}
    tables: dict[str, list[Record]] = {}
    for record in records:
        tables.setdefault(record.benchmark, []).append(record)
    faults = [
        *(
            f"requested benchmark {name} is missing; run it again"
            for name in items
            if name not in tables
        ),
        *(
            f"benchmark {name} was not requested; this is the output of another launch"
            for name in tables
            if name not in items
        ),
    ]
    if not faults and list(tables) != list(items):
        faults = [
            "the benchmarks are not in the requested order; outputs are mixed up, run it again"
        ]
    for fault in (
        *faults,
        *(fault for name, item in items.items() for fault in _faults(item, tables.get(name, ()))),
    ):
        raise OutputError("output-damaged", f"{source}: {fault}.")


def _faults(item: catalogue.Expected, records: Sequence[Record]) -> Iterator[str]:
    name = item.benchmark
    launch = "this is the output of another launch"
    for record in records:
        if record.ranks not in (item.ranks, None, *item.growing):
            yield (f"{name} ran on {record.ranks} ranks instead of {item.ranks}; check the launch")
        if item.repetitions is not None and record.repetitions not in (item.repetitions, None):
            yield (
                f"{name} made {record.repetitions} repetitions instead of {item.repetitions}; "
                f"{launch}"
            )
        if absent := [quantity for quantity in item.quantities if quantity not in record.values]:
            yield (
                f"{name} lacks the requested column {absent[0]}; {launch}, or of a version with "
                "other columns"
            )
        if item.validated and not record.validated:
            yield f"{name} does not report whether its data was right, as requested (-c)"
    variants = tuple(dict.fromkeys(record.variant for record in records))
    if variants != item.variants:
        shown, wanted = (", ".join(names) or "none" for names in (variants, item.variants))
        yield f"{name} has the variants '{shown}' instead of '{wanted}'; run it again"
    for variant in variants:
        printed = [record.message_bytes for record in records if record.variant == variant]
        if tuple(printed) != item.sizes:
            missing = [f"lacks {_bytes(size)}" for size in item.sizes if size not in printed]
            extra = [
                f"has {_bytes(size)}, which was not requested"
                for size in printed
                if size not in item.sizes
            ]
            fault = [*missing, *extra, "has a size twice or out of order"][0]
            yield f"{_label(name, variant)} {fault}; the output is cut or mixed up, run it again"


def complete(
    records: Sequence[Record], expected: Sequence[catalogue.Expected], *, source: str = "<records>"
) -> list[Record]:
    """Records that are exactly those requested, with the ranks and
    repetitions the suite does not print filled in.

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


def _as_started(
    records: Sequence[Record], expected: Sequence[catalogue.Expected]
) -> Sequence[Record]:
    """The records under the name of the one benchmark that was started, where both have one title.

    Where a program prints another's title, only what was started says which it is.
    """
    printed = {(record.suite, record.benchmark) for record in records}
    asked = {item.benchmark for item in expected}
    if len(printed) != 1 or len(asked) != 1:
        return records
    ((suite, name),), (wanted,) = printed, asked
    titles = {
        row.name: (row.title, row.quantities) for row in catalogue.SUITES[suite].rows if row.title
    }
    if name == wanted or titles.get(name) is None or titles[name] != titles.get(wanted):
        return records
    return [replace(record, benchmark=wanted) for record in records]


def _in_memory(
    records: Sequence[Record], expected: Sequence[catalogue.Expected]
) -> Sequence[Record]:
    """The records with the GPU memory that was requested, where
    an output says only that it was some.
    """
    asked = {
        word
        for item in expected
        for name in item.variants
        for word in name.split(",")
        if word.startswith("memory=")
    }
    if len(asked) != 1:
        return records
    (memory,) = asked
    return [
        replace(record, variant=re.sub(rf"\b{UNSAID}$", memory, record.variant))
        for record in records
    ]


def _by_ranks(
    records: Sequence[Record], expected: Sequence[catalogue.Expected]
) -> Sequence[Record]:
    """The records with their number of ranks in the variant, where a
    launch measures several numbers of them.
    """
    several = {
        item.benchmark for item in expected if any("ranks=" in name for name in item.variants)
    }
    return [
        replace(record, variant=",".join(filter(None, (record.variant, f"ranks={record.ranks}"))))
        if record.benchmark in several
        else record
        for record in records
    ]


def check_arguments(text: str, launch: catalogue.Launch, *, source: str = "<text>") -> None:
    """Make sure that a program that shows its arguments was started
    with those of the launch, in their order.

    IMB-P2P, and all of IMB 2018, print them after they have cut them at
    their commas: ``20`` for ``-iter 20,1``.

    :raises OutputError: with the first that is another.
    """
    shown = catalogue.SUITES[launch.suite].shown_arguments(text)
    if shown is None:
        return
    for there, asked in zip_longest(shown, launch.args, fillvalue="nothing"):
        if there not in (asked, asked.partition(",")[0]):
            fault = f"{launch.binary} says it was started with '{there}' instead of '{asked}'"
            raise OutputError(
                "output-mixed", f"{source}: {fault}; this is the output of another launch."
            )


def _label(name: str, variant: str) -> str:
    return f"{name} ({variant})" if variant else name


def _bytes(size: int | None) -> str:
    return "its only row" if size is None else f"the size of {size} bytes"
