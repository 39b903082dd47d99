"""One table of an IMB output: what its head says, its rows, and whether they are complete and agree with themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..benchmark import Benchmark
from ..records import Record
from . import columns as imb_columns
from .columns import DEFECTS, GROUP, QUANTITY_OF_COLUMN, REPETITIONS, SIZE
from .header import Header
from .rows import NAME

Sizes = Sequence[int | None]


@dataclass
class Section:
    """One table: one benchmark on one number of ranks in one mode.

    :param line: line its name stands on.
    :param multi: whether it says that several groups ran at the same time.
    :param ranks: processes of one group.
    :param idle: processes that waited.
    :param mapped: whether lists of ranks may follow in its head.
    :param cells: rows, as printed; ``numbers`` are their lines.
    """

    row: Benchmark
    line: int
    multi: bool = False
    grid: str = ""
    ranks: int = 0
    groups: int = 1
    idle: int = 0
    threads: int = 0
    mode: str = ""
    mapped: bool = False
    columns: tuple[str, ...] = ()
    cells: list[tuple[str, ...]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Processes IMB was started on."""
        return self.ranks * self.groups + self.idle

    @property
    def variant(self) -> str:
        """Variant of its records, without the group."""
        if self.threads:
            return f"threads={self.threads}"
        return self.mode or (f"grid={self.grid}" if self.grid else "")

    def __str__(self) -> str:
        where = f"{self.groups} groups of {self.ranks}" if self.groups > 1 else str(self.ranks)
        return f"{self.row.name} ({where} processes{', ' + self.mode if self.mode else ''})"


@dataclass
class CommonSizes:
    """Sizes of an output that does not say them (a file of lengths, IMB-MT): those of the first table hold for all.

    With only one table there is nothing to compare with, and the caller must know what was asked for.
    """

    sizes: Sizes = ()
    unit: int = 1
    table: str = ""

    def compare(self, section: Section, header: Header, printed: Sizes) -> None:
        """Compare a table with the first one, both rounded up to whole elements of either's data."""
        unit = header.unit(section.row)
        if not self.table:
            self.sizes, self.unit, self.table = printed, unit, str(section)
        unit = max(unit, self.unit)
        mine, first = ([-(-(size or 0) // unit) * unit for size in sizes] for sizes in (printed, self.sizes))
        if mine != first:
            raise header.wrong(section.line, f"{section} {_difference(mine, first)}, unlike {self.table}; run again")


def read(section: Section, header: Header, common: CommonSizes) -> Iterator[Record]:
    """Records of a finished table.

    :raises OutputError: if rows are missing, repeated, out of order, or contradict themselves.
    """
    if not section.cells:
        raise header.wrong(section.line, f"{section} has no rows; the output is incomplete, run again")
    columns = dict(zip(section.columns, zip(*section.cells, strict=True), strict=True))
    sizes: Sizes = [int(cell) for cell in columns[SIZE]] if SIZE in columns else [None] * len(section.cells)
    groups = [int(cell) for cell in columns[GROUP]] if GROUP in columns else None
    _check_sizes(section, header, common, _sizes_of_group(section, header, sizes, groups))
    if any(float(cell) for cell in columns.get(DEFECTS, ())):
        raise header.wrong(section.line, f"{section} reports wrong data (defects); the MPI library is not to be trusted")
    named = ((QUANTITY_OF_COLUMN.get(name), cells) for name, cells in columns.items())
    values = {quantity: list(map(float, cells)) for quantity, cells in named if quantity}
    if found := imb_columns.contradiction(sizes, values):
        raise header.wrong(section.numbers[found[0]], f"{found[1]}; the columns are damaged or mixed up, run again")
    names, rows = tuple(values), zip(*values.values(), strict=True)
    common_variant = section.variant
    for index, (size, repeated, row) in enumerate(zip(sizes, map(int, columns[REPETITIONS]), rows, strict=True)):
        if not repeated:
            raise header.wrong(section.numbers[index], "a row of 0 repetitions measured nothing; run again")
        variant = common_variant
        if groups is not None:
            variant = f"{variant},group={groups[index]}" if variant else f"group={groups[index]}"
        yield Record(
            NAME,
            section.row.name,
            section.ranks,
            section.groups,
            size,
            repeated,
            dict(zip(names, row, strict=True)),
            variant,
        )


def _sizes_of_group(section: Section, header: Header, sizes: Sizes, groups: Sequence[int] | None) -> Sizes:
    """Sizes as one group prints them, once every group was found to have a row of every size."""
    if groups is None:
        return sizes
    count, rest = divmod(len(groups), section.groups)
    once = sizes[:: section.groups]
    if (
        rest
        or list(groups) != list(range(section.groups)) * count
        or list(sizes) != [s for s in once for _ in range(section.groups)]
    ):
        raise header.wrong(section.line, f"{section} lacks rows of some group, or has them twice; run again")
    return once


def _check_sizes(section: Section, header: Header, common: CommonSizes, printed: Sizes) -> None:
    """Every announced size, once and in order."""
    if len(set(printed)) < len(printed):
        raise header.wrong(section.line, f"{section} has a size twice; outputs are mixed up, run again")
    wanted = header.sizes(section.row)
    if wanted is None:
        common.compare(section, header, printed)
    elif list(printed) != list(wanted):
        raise header.wrong(section.line, f"{section} {_difference(printed, wanted)}; run again")


def _difference(printed: Sizes, wanted: Sizes) -> str:
    """What is wrong with the sizes of a table."""
    missing = [size for size in wanted if size not in printed]
    if missing:
        return "lacks its row" if missing[0] is None else f"lacks the row of {missing[0]} bytes"
    extra = [size for size in printed if size not in wanted]
    return f"has a row of {extra[0]} bytes too many" if extra else "has its rows in another order"
