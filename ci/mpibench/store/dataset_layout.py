"""Columns of the dataset's tables, and the version of that layout.

Each file has the version of its layout in its Parquet metadata (:data:`VERSION_KEY`). A reader
accepts its own layout and those in :data:`READ`; sessions in other layouts must be exported again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file

#: Version of the layout; another one for every change of a column.
LAYOUT = "1.7"
VERSION_KEY = "mpibench_layout"
#: Where a file belongs: folders of system and day, and its name. One that was copied or moved by
#: hand holds another session.
PLACE_KEY = "mpibench_place"
#: What was written, :data:`SEAL` and a SHA-256 in hexadecimal digits: that of the file with
#: :data:`UNSEALED` for these.
DIGEST_KEY = "mpibench_digest"
SEAL = b"mpibench-sha256:"
UNSEALED = b"0" * 64

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
    "ppn_symbol": pl.String,  # as requested
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
        # repetitions a value averages over; null where the suite prints none
        "repetitions": pl.Int64,
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
        # owes a proof; false for fixtures and foreign tests of the session
        "measurement": pl.Boolean,
        "cmdline": pl.String,  # ReFrame's command line of the session
        "fail_phase": pl.String,
        "reason": pl.String,  # of the failure or of the skip
        "sentences": pl.List(pl.String),  # what the evidence lacks or contradicts
        "library": pl.String,
        "library_version": pl.String,
        # JSON object as the test stored it, and `machine`: what the nodes said of themselves
        "condition": pl.String,
        "samples": pl.Int32,  # metrics x sizes measured
        "gates": pl.List(_GATE),
        "seconds": pl.Float64,  # for which the job held its nodes; null where none was submitted
        "session_seconds": pl.Float64,  # wall time of the session
    }
)

_SWITCH = pl.Struct({"name": pl.String, "parent": pl.String, "nodes": pl.List(pl.String)})

#: ``pair_maps``: one row per map of pairs, whose values are a file of the dataset's folder ``maps``
#: (:class:`~reframe_tests.harness.instruments.pairs.pair_values.MapFile`).
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
        "oversubscription": pl.Float64,  # as the site says it; null: it says nothing
        "shared_cores": pl.String,  # which ranks had to share a core; null: none are known to
        # of maps/, with the values: its digest (SHA-256) and `.parquet`; null in layout 1.6
        "file": pl.String,
    }
)

#: ``reports``: one row, ReFrame's run report of the session, for all that has no column.
REPORTS_SCHEMA = pl.Schema(
    {
        **{name: CASE_COLUMNS[name] for name in ("session", "started")},
        "report": pl.String,  # JSON, layout of ReFrame's data version 4 (``sessions``)
    }
)

SCHEMAS: dict[str, pl.Schema] = {
    "samples": SAMPLES_SCHEMA,
    "cases": CASES_SCHEMA,
    "pair_maps": PAIR_MAPS_SCHEMA,
    "reports": REPORTS_SCHEMA,
}
#: ``pairs`` of layout 1.6: one row per value of a pair of nodes
#: (:class:`~reframe_tests.harness.instruments.pairs.pair_values.PairValue`).
PAIRS_SCHEMA = pl.Schema(
    {
        **CASE_COLUMNS,
        "order": pl.Int32,  # pass over all rounds, from 1
        "round": pl.Int32,  # from 1, through all passes
        # rows of one order, round, phase and quantity were measured at the same time
        "phase": pl.Int32,
        "source": pl.String,  # node that sends, or starts the ping-pong
        "target": pl.String,
        "quantity": pl.String,
        "message_bytes": pl.Int64,
        "repeat": pl.Int32,  # from 1
        "value": pl.Float64,  # us or MB/s; null where the pair was to be measured and was not
        "counted": pl.Boolean,  # the bytes of both nodes are those of the schedule; null: not known
    }
)

#: Tables of layout 1.6, which had the values of maps as a table, and no file of them.
OLD_SCHEMAS: dict[str, pl.Schema] = {
    **SCHEMAS,
    "pair_maps": pl.Schema([*PAIR_MAPS_SCHEMA.items()][:-1]),
    "pairs": PAIRS_SCHEMA,
}
#: Layouts that can be read.
READ: dict[str, dict[str, pl.Schema]] = {LAYOUT: SCHEMAS, "1.6": OLD_SCHEMAS}
#: An export writes both files of a pair: where one is gone, the other is no whole session.
#: ``pair_maps`` are there where the session's report has a map.
PARTNERS = {
    "samples": "cases",
    "cases": "samples",
    "pair_maps": "cases",
    "pairs": "pairs",
    "reports": "cases",
}


def read_labels(text: str | None) -> dict[str, str]:
    """Labels of a session, as ``cases`` has them, each fit for one line
    of a terminal; none where they are null.
    """
    found = _object(text, "labels of a session")
    if not all(isinstance(value, str) for value in found.values()):
        raise BadInput(
            "file-damaged",
            f"the labels {one_line(text or '')[:60]!r} are not all strings: export that session "
            "again.",
        )
    return {one_line(name): one_line(value) for name, value in found.items()}


def read_condition(text: str | None) -> dict[str, Any]:
    """What a case stored of its condition, as ``cases`` has it; nothing if that is null."""
    return _object(text, "condition of a case")


def _object(text: str | None, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadInput(
            "file-damaged",
            f"the {what} {one_line(text or '')[:60]!r} is not a JSON object: export its session "
            "again.",
        )
    return found


def place_of(path: Path) -> str:
    """The value of :data:`PLACE_KEY` for a file."""
    return "/".join(path.parts[-3:])


def sealed(content: bytes) -> bytes:
    """The bytes of a file of the dataset with the digest of
    them in it, whatever digest they had.
    """
    before, seal, behind = content.rpartition(SEAL)
    unsealed = b"".join((before, seal, UNSEALED, behind[len(UNSEALED) :]))
    digest = hashlib.sha256(unsealed).hexdigest().encode()
    return b"".join((before, seal, digest, behind[len(UNSEALED) :]))


def is_as_written(content: bytes) -> bool:
    """Whether the bytes of a file are those that were written."""
    return SEAL in content and sealed(content) == content


def write_file(path: Path, frame: pl.DataFrame, place: str = "") -> None:
    """Write a table of a session; which one, says the path, also that of a partial file.

    :param place: :func:`place_of` the file it will be; default: that of the path.
    """
    frame = frame.select(SCHEMAS[path.parts[-4]].names())
    said = {VERSION_KEY: LAYOUT, PLACE_KEY: place or place_of(path)}
    said[DIGEST_KEY] = (SEAL + UNSEALED).decode()
    whole_file.write_parquet(
        path, frame, finish=sealed, compression="zstd", statistics=True, metadata=said
    )
