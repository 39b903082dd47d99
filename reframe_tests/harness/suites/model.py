"""A suite as one record: how its output is recognised and read, what it measures in which groups,
how it is started and built.

Each file of this room outside ``SHARED`` exports one as ``SUITE``; the reader, the catalogue, the
commands and the report are made of these records (:mod:`records`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..machine.gpu import Memory
from ..mpis.transport import Library
from ..stacks.stack import Stack
from .benchmark import ELEMENT, SIZELESS, Benchmark, Plan, Record, SizeRange, doubling_sizes
from .options import SuiteOption
from .pair import PairGroup

#: ``(text, source)`` to the records of one output; raises :class:`benchmark.OutputError`.
Parser = Callable[[str, str], list[Record]]


@dataclass(frozen=True)
class Run:
    """One plan to start: the inputs of a command line.

    :param rows: the plan's benchmarks that this version has and this number
        of ranks allows, in order; at least one.
    :param size_range: sizes and repetitions, bounded by memory and by what the link carries.
    :param options: arguments the rows themselves need
        (:attr:`Benchmark.options`), and those of the suite's options.
    :param chosen: the suite's options that are set, by name.
    :param secs: seconds per size, :attr:`benchmark.Level.secs_per_sample`.
    """

    plan: Plan
    rows: tuple[Benchmark, ...]
    size_range: SizeRange
    ranks: int
    nodes: int
    secs: int
    options: tuple[str, ...] = ()
    chosen: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Benchmarks as arguments; none where the binary is the benchmark."""
        return tuple(row.name for row in self.rows if row.name != self.plan.binary)


@dataclass(frozen=True)
class Group:
    """The rows one job runs together, and how.

    :param description: what it measures, in one line.
    :param plans: its invocations, in this order.
    :param collective: its packets may be added up or multiplied by a switch.
    :param one_sided: ranks write and read each other's memory.
    :param files: ranks write and read files, and a file system may use the network, too.
    """

    description: str
    plans: tuple[Plan, ...] = ()
    collective: bool = False
    one_sided: bool = False
    files: bool = False


@dataclass(frozen=True)
class Probe:
    """A start of a suite's program that only begins and ends all ranks.

    :param order: of several suites a stack has, the one with the smallest number is used.
    """

    binary: str
    args: tuple[str, ...]
    order: int


@dataclass(frozen=True)
class Programs:
    """A suite's programs as files.

    :param glob: shell pattern of their names.
    :param pattern: regular expression of the same.
    :param option: makes a program say its version and end.
    :param version: regular expression whose first group is that version.
    :param ranks: ranks it needs to say so.
    :param sample: the programs started to see that a build runs; ``None``: all.
    :param refusal: regular expression of what a program says that runs,
        but not so and not even to say its version.
    :param version_in_file: regular expression of the version in the file of
        a program that says only its ``refusal``.
    :param unsaid: stands for the version of a suite none of whose
        programs says it without measuring.
    :param files: files it is started beside to say so, name to
        content; ``result``: the file it says so in.
    :param in_file: it knows no such option and measures as long as it
        takes, so that its version is read in its file.
    :param beside_launcher: a distribution that brings it for an MPI puts it where the launcher is.
    :param gpu: platform of GPUs its programs were built for to a regular expression (multi-line) of
        what says so: what one prints with ``gpu_words``, or the name of a library that it is linked
        with.
    :param gpu_words: options with which a program says so and ends;
        ``{kind}`` stands for the platform.
    """

    glob: str
    pattern: str
    option: str
    version: str
    ranks: int = 1
    sample: tuple[str, ...] | None = None
    refusal: str = ""
    version_in_file: str = ""
    unsaid: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    result: str = ""
    in_file: bool = False
    beside_launcher: bool = False
    gpu: Mapping[str, str] = field(default_factory=dict)
    gpu_words: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchmarkPackage:
    """A Spack package that builds a suite.

    :param folder: where below the prefix its programs are.
    :param glob: shell pattern of their names.
    :param gpu: platform of GPUs that it is always built for; empty:
        the one among its variants, if any.
    """

    name: str
    folder: str
    glob: str
    gpu: str = ""


@dataclass(frozen=True)
class Script:
    """A program of the tests themselves that a stack's Python runs.

    :param path: the program.
    :param module: what that Python runs with ``-m`` (key of ``commands`` in ``stack.json``).
    :param suite: the suite that brings it, and so the feature a stack must have.
    """

    path: Path
    module: str
    suite: str


@dataclass(frozen=True)
class KeyFigure:
    """A number people quote.

    :param largest: take the largest message measured, else the smallest.
    :param empty: whether a message of 0 bytes counts; collectives do nothing then.
    """

    title: str
    benchmark: str
    quantity: str
    largest: bool
    empty: bool = False


class Facts(NamedTuple):
    """What an output reveals about how it was measured, besides its numbers.

    :param notes: sentences for the evidence, without a full stop.
    :param hosts: ranks to the hosts they were on, by their names without a
        domain; compared with the ranks' own records.
    :param platform: of GPUs, in small letters; empty if it says none.
    """

    notes: tuple[str, ...] = ()
    hosts: Mapping[int, str] = {}
    platform: str = ""


def sizes_of_doublings(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes of a suite that doubles from the smallest to the
    largest and has no message of 0 bytes.
    """
    if row.sizes == SIZELESS:
        return (None,)
    if row.sizes == ELEMENT:
        return (4,)
    return doubling_sizes(1 << size_range.log2[0], 1 << size_range.log2[1], zero=False)


def no_arguments(run: Run) -> tuple[str, ...]:
    """For programs with everything built in, or that read a file."""
    return ()


def gated_sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes of a row that has the same at every level: those that may carry references."""
    return next(iter(row.gated_sizes.values()))


@dataclass(frozen=True)
class Suite:
    """A benchmark suite.

    :param name: key of ``suites`` in ``stack.json``.
    :param title: name in sentences.
    :param first_line: the line an output of it begins with.
    :param parse: its reader.
    :param rows: its benchmarks, in the order groups run them.
    :param groups: its groups by name; empty for a suite that no stack runs.
    :param pairs: its groups that a server and a client measure without MPI.
    :param arguments: command line of a run after the binary; raises
        :class:`vocabulary.NotMeasured`.
    :param sizes: sizes a row prints for a size range of a plan; ``(None,)`` where it has none.
    :param same_repetitions: it makes the same repetitions at every
        size and does not always print them.
    :param probe: how it starts and ends ranks without timing anything.
    :param programs: its programs as files, where stacks may bring their own.
    :param spack: packages that build it, each for another platform.
    :param key_figures: what the report shows of it first.
    :param script: its program, where it is one of the tests themselves and no stack's own.
    :param options: what of it may be set.
    :param shown_arguments: arguments that an output says its program was
        started with; ``None`` if it does not say.
    :param facts: what an output that was read says of how it was measured.
    :param files: files a run is to find in the folder it is started in, name to content.
    :param extent: of the lines of a file and the place of a title, where its output begins and
        where it ends (the place after its last line), so that others' lines around it can be set
        aside; ``None``: it is the whole file.
    :param last_line: regular expression of what says, in an output with an extent, that it is
        whole; empty, or not printed: nothing does.
    :param piece: a line that can only be part of an output of it, for suites with an extent.
    :param doubt: of the last record of an output that no last line ends, and the lines around it:
        why it may be truncated all the same, as a sentence without a full stop; empty: nothing says
        so.
    :param by_itself: a line (multi-line) of what its program prints, where only
        the record of both ends is read (:mod:`pair`).
    :param result: name of the file it writes its output to, in the
        same folder; empty: to standard output.
    :param variants: variants of a row that follow from a run; ``None``: those of the row.
    :param on_gpu: of a row, a memory and a version of the suite (empty: any), arguments behind all
        others with which the row measures that GPU memory; ``None``: it cannot, or its output
        would not show it. Its records then have :attr:`machine.gpu.Memory.variant`, and ``gpu`` of
        the suite in ``stack.json`` is the platform.
    :param library: what its programs communicate with instead of MPI.
    :param printed_sizes: sizes that a row prints for a size range on so
        many ranks, where they depend on these.
    :param validates: each row of its output says whether the data received was right.
    :param compares_data: its program compares what it receives with what
        was sent, and gives up where they differ.
    :param per_ranks: a program whose name ends in ``.x`` may have been built
        for a number of ranks, which then ends its name.
    """

    name: str
    title: str
    first_line: re.Pattern[str]
    parse: Parser
    rows: tuple[Benchmark, ...]
    groups: Mapping[str, Group] = field(default_factory=dict)
    arguments: Callable[[Run], Sequence[str]] | None = None
    sizes: Callable[[Benchmark, Plan, SizeRange], tuple[int | None, ...]] = sizes_of_doublings
    same_repetitions: bool = False
    probe: Probe | None = None
    programs: Programs | None = None
    spack: tuple[BenchmarkPackage, ...] = ()
    key_figures: tuple[KeyFigure, ...] = ()
    script: Script | None = None
    options: tuple[SuiteOption, ...] = ()
    pairs: tuple[PairGroup, ...] = ()
    shown_arguments: Callable[[str], tuple[str, ...] | None] = field(default=lambda text: None)
    facts: Callable[[str], Facts] = field(default=lambda text: Facts())
    files: Callable[[Run], Mapping[str, str]] = field(default=lambda run: {})
    extent: Callable[[Sequence[str], int], tuple[int, int]] | None = None
    last_line: str = ""
    piece: re.Pattern[str] | None = None
    result: str = ""
    variants: Callable[[Benchmark, Run], tuple[str, ...]] | None = None
    per_ranks: bool = False
    by_itself: re.Pattern[str] | None = None
    doubt: Callable[[Record, Iterable[str]], str] = lambda last, around: ""
    compares_data: bool = False
    library: Library | None = None
    printed_sizes: Callable[[Benchmark, SizeRange, int], tuple[int, ...]] | None = None
    validates: bool = False
    on_gpu: Callable[[Benchmark, Memory, tuple[int, ...]], tuple[str, ...] | None] = field(
        default=lambda row, memory, version: None
    )

    @property
    def feature(self) -> str:
        """The feature of ReFrame environments that can run it."""
        return self.script.suite if self.script else self.name

    def find_program(self, stack: Stack, binary: str, ranks: int) -> tuple[str, ...]:
        """How a stack starts a program of the suite on that many ranks; empty if it has none."""
        if self.script:
            python = stack.python_with(self.script.module)
            return (*python, str(self.script.path)) if python else ()
        program = stack.binaries.get(binary, "")
        if self.per_ranks and not program:
            program = stack.binaries.get(f"{binary.removesuffix('x')}{ranks}", "")
        return tuple(stack.commands.get(binary, ())) or ((program,) if program else ())

    def is_built(self, stack: Stack, binary: str) -> bool:
        """Whether a stack has a program of the suite, for whatever number of ranks."""
        if self.per_ranks and any(
            name.startswith(binary.removesuffix("x")) for name in stack.binaries
        ):
            return True
        return bool(self.find_program(stack, binary, 0))


def options_of(rows: Iterable[Benchmark], version: tuple[int, ...]) -> tuple[str, ...]:
    """Options of the rows themselves, each once, where the suite's version knows them."""
    newer = (row.newer_options for row in rows if not version or row.options_since <= version)
    wanted = dict.fromkeys((*(row.options for row in rows), *newer))
    return tuple(word for options in wanted for word in options)
