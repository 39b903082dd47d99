"""What a map of pairs gives: a value for each pair of nodes, direction and
quantity, and the tree of switches between them.

Stored by the test with its case (``keep``) and read back by whoever judges it (``read_pair_map``).
The values are a Parquet file beside the results, named by its digest; the record has all else, and
that digest. All rows of a map are from one start of one MPI program with one rank a node.
Bandwidths are those of one direction, in MB/s (1e6 bytes per second); latencies are half of a round
trip, in us: medians over the repetitions, and means, which also show who is stopped now and then.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import shutil
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from ...machine.switches import SwitchTree
from ...samples import Count
from ...vocabulary import BadInput
from ...whole_file import replacing

if TYPE_CHECKING:  # tests that measure no map do not wait for it
    import polars as pl

#: Quantities of a map, keys of :data:`vocabulary.QUANTITIES`.
LATENCY, BANDWIDTH, MEAN = QUANTITIES = ("latency_us", "bandwidth_mb_per_s", "latency_mean_us")
#: How pairs were chosen: each with each (circle method), or random
#: perfect matchings, by switch where these are known.
ALL_PAIRS, SAMPLED = DESIGNS = ("all", "sampled")
#: Of the stored record; a reader refuses a newer one. Records of version 1 have the values in
#: themselves (``rows``), as those have that are written where Polars is not installed.
VERSION = 2
#: Folder of the files with values, beside the results database and in a dataset.
MAPS = "maps"
_BLOCK = 1 << 20
#: Why a file cannot have another name there: link(2).
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)


class PairValue(NamedTuple):
    """One measured value.

    Rows with the same order, round, quantity and phase were measured at
    the same time on disjoint pairs of nodes.

    :param order: number of the pass over all rounds, from 1; each has another order of rounds.
    :param round: number of the round in the job, from 1, through all
        passes, in the order in which they ran.
    :param phase: 1 or 2: each pair measures one direction, then the other.
    :param source: node that sends; of a latency, the one that starts the ping-pong.
    :param target: the other node.
    :param quantity: one of :data:`QUANTITIES`; with ``message_bytes`` the size of a message.
    :param repeat: number of the value in its phase, from 1.
    :param value: in the unit of the quantity; ``None`` where the
        pair was to be measured and was not.
    :param counted: whether the bytes that both nodes counted on the fabric are those of the
        schedule; ``None``: not known.
    """

    order: int
    round: int
    phase: int
    source: str
    target: str
    quantity: str
    message_bytes: int
    repeat: int
    value: float | None
    counted: bool | None


#: Types of the columns of :class:`PairColumns`, as :mod:`array` has them: 16 bytes a value; and of
#: what values have in common that were measured at the same time, ``end`` being the place after
#: them.
_TYPES = {"source": "I", "target": "I", "value": "d"}
_ALIKE = {
    "order": "H",
    "round": "I",
    "phase": "B",
    "quantity": "B",
    "message_bytes": "q",
    "repeat": "H",
    "end": "q",
}
#: Of a node whose bytes are not known; else 0 or 1, so that the least of two nodes' is that of the
#: pair.
_UNKNOWN = -1


class PairColumns(Sequence[PairValue]):
    """Values as they were printed, without an object for each.

    Nodes and quantity are numbers in the columns, what was not measured is NaN there.

    :param nodes: by their numbers.
    """

    def __init__(self, nodes: tuple[str, ...] = ()) -> None:
        self.nodes = nodes
        self._columns: dict[str, array[Any]] = {name: array(_TYPES[name]) for name in _TYPES}
        self._alike: dict[str, array[Any]] = {name: array(_ALIKE[name]) for name in _ALIKE}
        self._right: Mapping[str, bool] = {}

    def add(
        self,
        order: int,
        round_: int,
        phase: int,
        source: Sequence[int],
        target: Sequence[int],
        quantity: str,
        message_bytes: int,
        repeat: int,
        value: Sequence[float | None],
    ) -> None:
        """Values of one quantity that were measured at the same time."""
        self._columns["source"].extend(source)
        self._columns["target"].extend(target)
        self._columns["value"].extend(math.nan if one is None else one for one in value)
        number = QUANTITIES.index(quantity)
        alike = (order, round_, phase, number, message_bytes, repeat, len(self))
        for column, one in zip(self._alike.values(), alike, strict=True):
            column.append(one)

    def check(self, right: Mapping[str, bool]) -> None:
        """Whether the bytes of both nodes of each value are those of the schedule.

        :param right: by node; without an entry it is not known.
        """
        self._right = right

    def missing(self) -> Iterator[PairValue]:
        """Values that were to be measured and were not."""
        return (self[at] for at, value in enumerate(self._columns["value"]) if value != value)

    def measured(self, quantity: str) -> tuple[array[int], array[int], array[float]]:
        """Sources, targets and values of a quantity, as numbers, where there is a value."""
        found: list[array[Any]] = [array(kind) for kind in _TYPES.values()]
        begin = 0
        for number, end in zip(self._alike["quantity"], self._alike["end"], strict=True):
            if QUANTITIES[number] == quantity:
                own = bytes(value == value for value in self._columns["value"][begin:end])
                for column, mine in zip(self._columns.values(), found, strict=True):
                    mine.extend(compress(column[begin:end], own))
            begin = end
        source, target, value = found
        return source, target, value

    def message_bytes(self, quantity: str) -> int:
        """Size of the messages of a quantity; 0: none was to be measured."""
        number = QUANTITIES.index(quantity)
        sizes = compress(
            self._alike["message_bytes"], (one == number for one in self._alike["quantity"])
        )
        return next(sizes, 0)

    def table(self) -> pl.DataFrame:
        """The columns as a file has them.

        :raises ImportError: Polars or NumPy is not installed.
        """
        import numpy as np
        import polars as pl

        columns, alike = (
            {name: np.frombuffer(column, column.typecode) for name, column in some.items()}
            for some in (self._columns, self._alike)
        )
        counts = np.diff(alike.pop("end"), prepend=0)
        right = np.array([self._right.get(node, _UNKNOWN) for node in self.nodes], dtype=np.int8)

        def rows(number: int, size: int) -> pl.DataFrame:
            own = (alike["quantity"] == number) & (alike["message_bytes"] == size)
            here = np.repeat(own, counts)
            mine = {name: column[here] for name, column in columns.items()}
            mine |= {name: np.repeat(column[own], counts[own]) for name, column in alike.items()}
            counted = pl.Series(np.minimum(right[mine["source"]], right[mine["target"]]))
            return pl.DataFrame(mine).select(
                "order",
                "round",
                "phase",
                "source",
                "target",
                quantity=pl.lit(QUANTITIES[number], pl.Enum(QUANTITIES)),
                message_bytes="message_bytes",
                repeat="repeat",
                value=pl.col("value").fill_nan(None),
                counted=pl.when(counted != _UNKNOWN).then(counted.cast(pl.Boolean)),
            )

        # A quantity at a time: all rows at once would be there twice.
        kinds = sorted(set(zip(alike["quantity"], alike["message_bytes"], strict=True)))
        return pl.concat([rows(*kind) for kind in kinds or [(0, 0)]])

    def __len__(self) -> int:
        return len(self._columns["value"])

    def __getitem__(self, at: Any) -> Any:
        at = range(len(self))[at]
        run = bisect_right(self._alike["end"], at)
        source, target, value = (column[at] for column in self._columns.values())
        order, round_, phase, quantity, size, repeat, _ = (
            column[run] for column in self._alike.values()
        )
        ends = (self.nodes[source], self.nodes[target])
        counted = min(self._right.get(node, _UNKNOWN) for node in ends)
        return PairValue(
            order,
            round_,
            phase,
            *ends,
            QUANTITIES[quantity],
            size,
            repeat,
            None if math.isnan(value) else value,
            None if counted == _UNKNOWN else bool(counted),
        )


def _digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class MapFile:
    """The values of a map in a file: the columns of :class:`PairValue`, nodes as their places in
    the map's nodes, and the rows of one quantity together.

    :param sha256: of its bytes, and its name.
    :param folders: where it may lie.
    """

    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    folders: tuple[str, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        return f"{self.sha256}.parquet"

    def path(self) -> Path:
        """Where it lies, whole.

        :raises BadInput: it is nowhere, cannot be read, or is another file.
        """
        again = "export that session again, restore it from a copy, or measure the map again."
        there = [path for folder in self.folders if (path := Path(folder, self.name)).is_file()]
        if not there:
            where = " or ".join(dict.fromkeys(self.folders)) or "any folder that is known"
            raise BadInput(
                "file-missing",
                f"the values of a map of pairs, {self.name}, are not in {where}: {again}",
            )
        for path in there:
            try:
                found = _digest_of(path)
            except OSError as error:
                raise BadInput(
                    "file-unreadable", f"cannot read {path}: {error.strerror}."
                ) from None
            if found == self.sha256:
                return path
        raise BadInput(
            "file-damaged",
            f"{there[0]} is damaged or another file: its bytes are not those of the map of "
            f"pairs that was measured; {again}",
        )

    def link(self, folder: Path) -> MapFile:
        """The same file in another folder: one file where both are on one file system.

        :raises BadInput: as :meth:`path`; :raises OSError: it cannot be written.
        """
        linked = replace(self, folders=(str(folder.absolute()),))
        with contextlib.suppress(BadInput):
            linked.path()
            return linked
        source = self.path()
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / self.name) as partial:
            try:
                os.link(source, partial)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                shutil.copyfile(source, partial)
        return linked


@dataclass(frozen=True)
class PairMapRecord:
    """A map of pairs.

    :param design: one of :data:`DESIGNS`; ``seed``: of the random numbers.
    :param rounds: rounds that were planned, in all passes; those that ran are in the values.
    :param nodes: hosts in the order of their ranks, without a domain.
    :param silent: nodes that stopped answering, and why that is known.
    :param values: as measured, or the file that has them.
    :param tree: switches above the nodes; ``None`` where nobody says.
    :param oversubscription: what the nodes below a switch can send together over what its uplink is
        meant to carry; ``None``: nobody says.
    :param shared_cores: which ranks had to share a core, so that latency says
        nothing of a link; empty: none are known to.
    """

    design: str
    seed: int
    rounds: int
    nodes: tuple[str, ...]
    silent: Mapping[str, str]
    values: Sequence[PairValue] | MapFile
    tree: SwitchTree | None = None
    oversubscription: float | None = None
    shared_cores: str = ""

    def table(self) -> pl.LazyFrame:
        """The values in columns, as a file has them.

        :raises BadInput: the file is not there, or is not the one that was written.
        """
        import polars as pl

        if isinstance(self.values, MapFile):
            return pl.scan_parquet(self.values.path())
        if isinstance(self.values, PairColumns):
            return self.values.table().lazy()
        number = {node: at for at, node in enumerate(self.nodes)}
        rows = [(*row[:3], number[row.source], number[row.target], *row[5:]) for row in self.values]
        schema = {
            "order": pl.UInt16(),
            "round": pl.UInt32(),
            "phase": pl.UInt8(),
            "source": pl.UInt32(),
            "target": pl.UInt32(),
            "quantity": pl.Enum(QUANTITIES),
            "message_bytes": pl.Int64(),
            "repeat": pl.UInt16(),
            "value": pl.Float64(),
            "counted": pl.Boolean(),
        }
        table = pl.LazyFrame(rows, schema=schema, orient="row")
        return table.sort("quantity", "message_bytes", maintain_order=True)

    def rows(self) -> Iterator[PairValue]:
        """The values one by one: of a small map."""
        if not isinstance(self.values, MapFile):
            yield from self.values
            return
        for row in self.table().collect().iter_rows():
            yield PairValue._make((*row[:3], self.nodes[row[3]], self.nodes[row[4]], *row[5:]))

    def keep(self, folder: Path) -> dict[str, Any]:
        """Write the values into a folder, or link them there; what is stored with the session is
        the rest, with the digest of the file.

        :raises BadInput: they are in a file that is not there, or is not the one that was written.
        :raises OSError: it cannot be written.
        """
        if isinstance(self.values, MapFile):
            return self._with_file(self.values.link(folder))
        try:
            # In one piece: how many threads there were would be seen in the bytes.
            table = self.table().collect().rechunk()
        except ImportError:  # a centre's own ReFrame may not have Polars
            return self.as_dict()
        content = io.BytesIO()  # not the file: the digest is of these values, whoever writes there
        table.write_parquet(
            content, compression="zstd", metadata={"mpibench_nodes": json.dumps(self.nodes)}
        )
        digest = hashlib.sha256(content.getbuffer()).hexdigest()
        file = MapFile(digest, (str(folder.absolute()),))
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / file.name) as partial:
            partial.write_bytes(content.getbuffer())
        return self._with_file(file)

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionary with all values: rows are lists, nodes in them numbers."""
        number = {node: at for at, node in enumerate(self.nodes)}
        return {
            **self._described(),
            "version": 1,
            "quantities": list(QUANTITIES),
            "columns": list(PairValue._fields),
            "rows": [
                [
                    *row[:3],
                    number[row.source],
                    number[row.target],
                    QUANTITIES.index(row.quantity),
                    *row[6:],
                ]
                for row in self.rows()
            ],
        }

    def _with_file(self, file: MapFile) -> dict[str, Any]:
        return {**self._described(), "version": VERSION, "file": asdict(file)}

    def _described(self) -> dict[str, Any]:
        kept = {
            name: value
            for name, value in vars(self).items()
            if name != "values" and (name != "shared_cores" or value)
        }
        tree = asdict(self.tree) if self.tree else None
        return {**kept, "nodes": list(self.nodes), "silent": dict(self.silent), "tree": tree}


#: What others call it, where no test of that name is near.
PairMap = PairMapRecord


@dataclass(frozen=True)
class _Stored:
    """A record as :meth:`PairMapRecord.keep` writes it; or with rows, which are
    :class:`PairValue` with numbers for nodes and quantity.
    """

    version: int
    design: Annotated[str, msgspec.Meta(pattern="^(all|sampled)$")]
    seed: Count
    rounds: Count
    nodes: tuple[str, ...]
    rows: tuple[
        tuple[Count, Count, Count, Count, Count, Count, Count, Count, float | None, bool | None],
        ...,
    ] = ()
    file: MapFile | None = None
    silent: Mapping[str, str] = field(default_factory=dict)
    tree: SwitchTree | None = None
    oversubscription: Annotated[float, msgspec.Meta(gt=0)] | None = None
    shared_cores: str = ""


def read_pair_map(
    value: Any, place: str, folders: Sequence[str | Path] = ()
) -> PairMapRecord | None:
    """The ``pair_map`` of a case; ``None`` where there is none.

    :param folders: where files with values may lie, besides where they were written.
    :raises BadInput: a field is absent or of the wrong type, or the
        record is newer than this program.
    """
    if not value:
        return None
    if (
        isinstance(value, Mapping)
        and isinstance(version := value.get("version"), int)
        and version > VERSION
    ):
        raise BadInput(
            "other-release",
            f"{place}: pair_map has version {version}, this program reads {VERSION}: read it "
            "with a newer mpibench.",
        )
    try:
        stored = msgspec.convert(value, _Stored)
        nodes = stored.nodes
        values: Sequence[PairValue] | MapFile = tuple(
            PairValue._make((*row[:3], nodes[row[3]], nodes[row[4]], QUANTITIES[row[5]], *row[6:]))
            for row in stored.rows
        )
        if stored.file:
            values = replace(stored.file, folders=(*map(str, folders), *stored.file.folders))
        elif "rows" not in value:
            raise IndexError("it has neither values nor a file of them")
    except (msgspec.ValidationError, IndexError) as error:
        raise BadInput(
            "output-damaged",
            f"{place}: pair_map: {error}; the record is damaged, run the case again.",
        ) from None
    return PairMapRecord(
        stored.design,
        stored.seed,
        stored.rounds,
        stored.nodes,
        stored.silent,
        values,
        stored.tree,
        stored.oversubscription,
        stored.shared_cores,
    )
