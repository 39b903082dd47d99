"""Columns of the dataset's tables, the version of that layout, and which files of a dataset can be read.

A file carries the version of its layout in its Parquet metadata (:data:`VERSION_KEY`). A reader takes every file of its own
major version and of older ones: columns a file lacks are null, columns it has beyond ours are left alone. Only a newer major
version, a column of another type, or a file without :data:`REQUIRED` columns is refused, and then that file alone.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file

#: Version of the layout written here. The minor number counts added columns (1.1: ``cmdline`` and ``measurement`` of
#: ``cases``; 1.2: its ``seconds`` and ``session_seconds``; 1.3: the tables of pair maps; 1.4: their
#: ``oversubscription``; 1.5: their ``shared_cores``); the major one changes when a column gets another meaning. Files
#: without a version are 1.0.
LAYOUT = "1.5"
VERSION_KEY = "mpibench_layout"
UNVERSIONED = "1.0"

#: Columns that come from the path.
PARTITION_SCHEMA = pl.Schema({"system": pl.String, "date": pl.Date})

#: Columns that say which case a row belongs to, the same in both tables.
CASE_COLUMNS: dict[str, Any] = {
    "session": pl.String,  # ReFrame's session id
    "started": pl.Datetime("ms", "UTC"),  # start of the session
    "labels": pl.String,  # JSON object of the labels given with --session-extras
    "case": pl.String,  # ReFrame's <session>:<run>:<index>
    "run": pl.Int32,  # above 0 for retries and reruns
    "partition": pl.String,
    "stack": pl.String,
    "mpi": pl.String,
    "mpi_version": pl.String,
    "origin": pl.String,
    "lock_hash": pl.String,
    "fabric": pl.String,
    "nodes": pl.Int32,  # 0: all that were idle; how many, says ``nodes`` of the condition
    "ppn": pl.Int32,  # processes per node as resolved
    "ppn_symbol": pl.String,  # as asked for
    "pinning": pl.String,
    "group": pl.String,
    "result": pl.String,  # ReFrame's: pass, fail, abort, skip, fail_deps, xfail, xpass
    "evidence": pl.String,  # proven, contradicted, missing, dry-run; null for a skipped case
    "job_id": pl.String,
    "nodelist": pl.String,
    "outputdir": pl.String,  # where script, outputs and evidence of the job are
}

#: ``samples``: one row per repeat x metric x message size.
SAMPLES_SCHEMA = pl.Schema(
    {
        **CASE_COLUMNS,
        "suite": pl.String,
        "benchmark": pl.String,
        "variant": pl.String,
        "ranks": pl.Int32,  # processes active in the benchmark
        "groups": pl.Int32,
        "message_bytes": pl.Int64,  # null where the benchmark has none
        "repetitions": pl.Int64,  # repetitions a value averages over; null where the suite prints none
        "quantity": pl.String,
        "unit": pl.String,
        "direction": pl.String,  # lower, higher or none: which way is better
        "repeat": pl.Int32,  # from 1, in the order they ran
        "value": pl.Float64,  # in unit; null where this repeat gave none
    }
)

_GATE = pl.Struct(
    {
        **dict.fromkeys(("metric", "layer"), pl.String),
        **dict.fromkeys(("value", "reference", "lower", "upper"), pl.Float64),
        **dict.fromkeys(("unit", "outcome"), pl.String),
    }
)

#: ``cases``: one row per test case.
CASES_SCHEMA = pl.Schema(
    {
        **CASE_COLUMNS,
        "name": pl.String,
        "superseded": pl.Boolean,  # failed, and was run again in the same session
        "measurement": pl.Boolean,  # owes a proof; false for fixtures and foreign tests of the session; null before 1.1
        "cmdline": pl.String,  # ReFrame's command line of the session; null before 1.1
        "fail_phase": pl.String,
        "reason": pl.String,  # of the failure or of the skip
        "sentences": pl.List(pl.String),  # what the evidence lacks or contradicts
        "library": pl.String,
        "library_version": pl.String,
        "condition": pl.String,  # JSON object as the test stored it, and `machine`: what the nodes said of themselves
        "samples": pl.Int32,  # metrics x sizes measured
        "gates": pl.List(_GATE),
        "seconds": pl.Float64,  # for which the job held its nodes; null before 1.2, and where none was submitted
        "session_seconds": pl.Float64,  # wall time of the session; null before 1.2
    }
)

#: ``pairs``: one row per value of a pair of nodes (:class:`~reframe_tests.harness.pairs.pair_values.PairValue`).
PAIRS_SCHEMA = pl.Schema(
    {
        **CASE_COLUMNS,
        "order": pl.Int32,  # pass over all rounds, from 1
        "round": pl.Int32,  # from 1, through all passes
        "phase": pl.Int32,  # rows of one order, round, phase and quantity were measured at the same time
        "source": pl.String,  # node that sends, or starts the ping-pong
        "target": pl.String,
        "quantity": pl.String,
        "message_bytes": pl.Int64,
        "repeat": pl.Int32,  # from 1
        "value": pl.Float64,  # us or MB/s; null where the pair was to be measured and was not
        "counted": pl.Boolean,  # the bytes of both nodes are those of the schedule; null: not known
    }
)

_SWITCH = pl.Struct({"name": pl.String, "parent": pl.String, "nodes": pl.List(pl.String)})

#: ``pair_maps``: one row per map of pairs.
PAIR_MAPS_SCHEMA = pl.Schema(
    {
        **CASE_COLUMNS,
        "design": pl.String,  # all, sampled
        "seed": pl.Int64,
        "rounds": pl.Int32,  # planned, in all passes
        "hosts": pl.List(pl.String),  # in the order of their ranks
        "silent": pl.List(pl.Struct({"node": pl.String, "why": pl.String})),  # stopped answering
        "origin": pl.String,  # of the tree of switches; null without one
        "notes": pl.List(pl.String),  # on how the tree was read
        "switches": pl.List(_SWITCH),
        "oversubscription": pl.Float64,  # as the site says it; null: it says nothing, and before 1.4
        "shared_cores": pl.String,  # which ranks had to share a core; null: none are known to, and before 1.5
    }
)

#: Column of ``cases`` that begins with the name of the test.
TEST = "name"

SCHEMAS = {"samples": SAMPLES_SCHEMA, "cases": CASES_SCHEMA, "pairs": PAIRS_SCHEMA, "pair_maps": PAIR_MAPS_SCHEMA}

#: Without these a row says nothing.
REQUIRED = {
    "samples": ("session", "started", "case", "evidence", "benchmark", "quantity", "unit", "value"),
    "cases": ("session", "started", "case", "stack", "result", "evidence"),
    "pairs": ("session", "case", "evidence", "order", "round", "source", "target", "quantity", "value"),
    "pair_maps": ("session", "case", "evidence", "design", "hosts", "switches"),
}


@dataclass(frozen=True)
class Files:
    """Files of one table.

    :param readable: files of this layout or an older one, sorted by path.
    :param refused: each other file with the sentence that says why.
    """

    readable: tuple[Path, ...]
    refused: dict[Path, str]


def find_files(folder: Path, table: str, systems: Sequence[str] | None = None) -> Files:
    """Look at the files of a table; cases that measured are refused without the file of their values.

    :param systems: only these systems; files of others are not even opened.
    :raises BadInput: a folder that cannot be read, whose sessions would be missing without a word.
    """
    wanted = None if not systems else {f"system={system}" for system in systems}
    of_systems = [path for path in inside(folder / table, "system=*") if wanted is None or path.name in wanted]
    days = [day for system in of_systems for day in inside(system, "date=*")]
    paths = sorted(path for day in days for path in inside(day, "*.parquet"))
    refused = {path: why for path in paths if (why := _refused(path, table) or _lone(path, table))}
    return Files(tuple(path for path in paths if path not in refused), refused)


def inside(folder: Path, pattern: str) -> list[Path]:
    """What a folder of a dataset holds under names that fit; nothing where there is no such folder.

    :raises BadInput: it cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for entry in entries if fnmatch.fnmatchcase(entry.name, pattern)]
    except OSError as error:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)) and not folder.is_symlink():
            return []
        raise BadInput(
            f"{folder} cannot be read ({error.strerror}), so which sessions it holds is not known: correct its rights, or the "
            "link."
        ) from None


#: Files that this or an earlier program of this layout could read, as they were written then.
_READABLE: set[tuple[str, str, int, int]] = set()


def recall_readable(path: Path) -> None:
    """Take a note of files that could be read: what was not written since need not be opened again to know it."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["layout"] == [LAYOUT, pl.__version__]:
            _READABLE.update((str(table), str(name), int(at), int(size)) for table, name, at, size in stored["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return


def keep_readable(path: Path, folder: Path) -> None:
    """Note which files of a dataset could be read; a note that cannot be written is none."""
    rows = sorted(row for row in _READABLE if Path(row[1]).is_relative_to(folder.absolute()))
    with suppress(OSError), whole_file.replacing(path) as partial:
        partial.write_text(json.dumps({"layout": [LAYOUT, pl.__version__], "files": rows}), encoding="utf-8")


def _refused(path: Path, table: str) -> str:
    """:func:`_refusal` of a file, unless it is known to be readable."""
    row = (table, str(path.absolute()), *_identity(path))
    if row in _READABLE:
        return ""
    why = _refusal(path, table, *_identity(path))
    if not why:
        _READABLE.add(row)
    return why


def _identity(path: Path) -> tuple[int, int]:
    """What changes when a file is written again."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4096)
def _refusal(path: Path, table: str, changed_ns: int, size: int) -> str:
    """Why a file cannot be read, as a sentence; empty if it can. The last two say which writing of it is meant."""
    day = path.parent.name.partition("=")[2]
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", day):
        return f"{path} lies in a folder that names no day ({day!r}): remove it and export that session again."
    try:
        found = pl.read_parquet_schema(path)
        version = pl.read_parquet_metadata(path).get(VERSION_KEY, UNVERSIONED)
    except (pl.exceptions.PolarsError, OSError) as err:
        first = (str(err).strip().splitlines() or [type(err).__name__])[0]
        return f"{path} is cut off or no Parquet file ({first}): export that session again."
    if _major(version) > _major(LAYOUT):
        return f"{path} has layout {version}, this program reads up to {_major(LAYOUT)}.x: read it with a newer mpibench."
    lacking = [name for name in REQUIRED[table] if name not in found]
    if lacking:
        return f"{path} has another layout (no column {lacking[0]}): export that session again."
    odd = [(name, dtype) for name, dtype in SCHEMAS[table].items() if name in found and not _fits(found[name], dtype)]
    if odd:
        name, dtype = odd[0]
        return f"{path} has another layout (column {name} is {found[name]}, expected {dtype}): export that session again."
    if table == "cases" and not pl.scan_parquet(path, hive_partitioning=False).select(pl.len()).collect().item():
        return f"{path} holds no case, and every session has some: export that session again."
    if table == "cases" and "labels" in found:
        try:
            for text in pl.read_parquet(path, columns=["labels"], hive_partitioning=False)["labels"].unique():
                read_labels(text)
        except BadInput as error:
            return f"{path}: {error}"
    return ""


def read_labels(text: str | None) -> dict[str, str]:
    """Labels of a session, as ``cases`` has them, each fit for one line of a terminal; none where they are null.

    :raises BadInput: they are not a JSON object in which each name has one text.
    """
    found = _object(text)
    if found is None or not all(isinstance(value, str) for value in found.values()):
        raise BadInput(f"the labels {_excerpt(text)!r} are not a JSON object of texts: export that session again.")
    return {one_line(name): one_line(value) for name, value in found.items()}


def read_condition(text: str | None) -> dict[str, Any]:
    """What a case stored of its condition, as ``cases`` has it; nothing where that is null.

    :raises BadInput: it is not a JSON object.
    """
    found = _object(text)
    if found is None:
        raise BadInput(f"the condition {_excerpt(text)!r} of a case is not a JSON object: export its session again.")
    return found


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _excerpt(text: str | None) -> str:
    return one_line(text or "")[:60]


def _lone(path: Path, table: str) -> str:
    """Why a file of ``cases`` is not used: its cases measured, and the file of their values is gone; empty otherwise."""
    if table != "cases":
        return ""
    samples = path.parents[3] / "samples" / path.relative_to(path.parents[2])
    if samples.exists() or "samples" not in pl.read_parquet_schema(path):
        return ""
    measured = pl.read_parquet(path, columns=["samples"], hive_partitioning=False).filter(pl.col("samples") > 0).height
    return f"{samples} is gone, with the values of {measured} cases: export that session again." if measured else ""


def _fits(found: Any, wanted: Any) -> bool:
    """Whether a column can be read as another type: the same, but for fields of records, which may be more or fewer."""
    if isinstance(found, pl.List) and isinstance(wanted, pl.List):
        return _fits(found.inner, wanted.inner)
    if isinstance(found, pl.Struct) and isinstance(wanted, pl.Struct):
        theirs = {field.name: field.dtype for field in found.fields}
        return all(_fits(theirs[field.name], field.dtype) for field in wanted.fields if field.name in theirs)
    return found == wanted


def _major(version: str) -> int:
    major = version.partition(".")[0]
    return int(major) if major.isdigit() else 10**9


def scan_files(paths: Sequence[Path], table: str) -> pl.LazyFrame:
    """Rows of readable files, the partition columns included."""
    whole = pl.Schema({**SCHEMAS[table], **PARTITION_SCHEMA})
    if not paths:
        return pl.LazyFrame(schema=whole)
    return pl.scan_parquet(
        list(paths),
        hive_partitioning=True,
        hive_schema=PARTITION_SCHEMA,
        schema=SCHEMAS[table],
        missing_columns="insert",
        extra_columns="ignore",
        cast_options=pl.ScanCastOptions(missing_struct_fields="insert", extra_struct_fields="ignore"),
    ).select(whole.names())


def scan(folder: str | Path, table: str, systems: Sequence[str] | None = None) -> pl.LazyFrame:
    """All readable rows of a table, the partition columns included, whatever their evidence.

    Files that are refused are left out; :func:`.unreadable.find` names their sessions, and a selector that means one of them
    is refused.

    :param table: ``samples`` or ``cases``.
    :param systems: only these systems; files of others are not even looked at.
    :raises BadInput: no dataset there, or not one file of it can be read.
    """
    found = find_files(Path(folder), table, systems)
    if not found.readable and found.refused:
        raise BadInput(next(iter(found.refused.values())))
    if not found.readable and not (systems and any((Path(folder) / table).glob("system=*"))):
        raise BadInput(f"there is no dataset in {folder}: write one with `mpibench export`.")
    return scan_files(found.readable, table)
