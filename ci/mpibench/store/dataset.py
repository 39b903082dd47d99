"""Sessions as a Parquet dataset, so that results outlive the machine's database and any tool can
read them.

Tables, each with Hive partitions (``<table>/system=<name>/date=<UTC day>/<session>.parquet``; the
partition columns are in the path, not in the files):

``samples``
    one row per repeat x metric x message size, of every case that
    measured anything, whatever its evidence;
``cases``
    one row per test case, including those that were skipped or failed before they measured, so that
    missing cases can be judged later;
``pair_maps``
    one row per map of pairs, with the switches;
    its values are a file of the folder ``maps``, named by its digest;
``reports``
    ReFrame's run report, for pages and diagnoses that show what has no column
    (:meth:`.store.Store.session`).
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.evidence import link_state
from reframe_tests.harness.evidence.checks import CONTENTION_PER_S
from reframe_tests.harness.instruments.pairs.pair_values import MAPS, MapFile, read_pair_map
from reframe_tests.harness.printable import plural
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.vocabulary import ALL_NODES, ALL_NODES_WORD, BadInput

from .. import whole_file
from . import records
from .confirmations import MeasuredOn
from .dataset_layout import (
    CASE_COLUMNS,
    CASES_SCHEMA,
    PAIR_MAPS_SCHEMA,
    REPORTS_SCHEMA,
    SAMPLES_SCHEMA,
    place_of,
    write_file,
)
from .sessions import Case, Session, encode, read_session, session_starts, systems_of


@dataclass(frozen=True)
class Summary:
    """What an export wrote.

    :param rows: rows of ``samples``; ``unproven_rows`` of them belong to cases without proof.
    :param refused: one sentence for each session that was not exported.
    """

    out_dir: Path
    sessions: int = 0
    cases: int = 0
    rows: int = 0
    unproven_rows: int = 0
    refused: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        unproven = f", {self.unproven_rows} of them unproven" if self.unproven_rows else ""
        return (
            f"{self.out_dir}: {plural(self.sessions, 'session')}, {plural(self.cases, 'case')}, "
            f"{plural(self.rows, 'value')}{unproven}"
        )


class RefusedSessions(BadInput):
    """Some sessions were not exported; all others were. ``summary`` says which."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        count = len(summary.refused)
        first = summary.refused[0]
        others = (
            f" ({count - 1} more sessions refused; {summary.sessions} exported)"
            if count > 1
            else ""
        )
        super().__init__("file-damaged", first.removesuffix(".") + others + ".")


#: What a case's condition says of its stack.
_OF_STACK = ("mpi", "mpi_version", "origin", "lock_hash")


def _case_values(session: Session, case: Case) -> dict[str, Any]:
    condition = case.condition
    return {
        "session": session.uuid,
        "started": session.started,
        "labels": json.dumps(session.labels, sort_keys=True),
        "case": case.uuid,
        **{name: getattr(case, name) for name in ("run", "partition", "stack", "ppn", "result")},
        **{
            name: None if (said := condition.get(name)) is None else str(said) for name in _OF_STACK
        },
        **{
            name: getattr(case, name) or None
            for name in ("fabric", "ppn_symbol", "pinning", "group", "evidence")
        },
        "nodes": ALL_NODES if condition.get("nodes_symbol") == ALL_NODES_WORD else case.nodes,
        **{name: getattr(case, name) or None for name in ("job_id", "nodelist")},
        "outputdir": case.directory or None,
    }


def lost_cores(case: Case) -> bool:
    """Whether ranks often lost their core to other programs, by the case's evidence."""
    return case.proof is not None and case.proof.core_losses_per_s >= CONTENTION_PER_S


def _beside_condition(case: Case) -> dict[str, Any]:
    """What the dataset keeps with a condition: hosts of ranks where the scheduler names other
    nodes, lost cores and waits for them, the machine, the level (there called ``depth``) and
    what it was measured with.
    """
    hosts = MeasuredOn.of(case).hosts
    level = case.entry.get("level")
    measured_with = case.entry.get("measured_with")
    return {
        **({"hosts": list(hosts)} if hosts else {}),
        **({"lost_cores": True} if lost_cores(case) else {}),
        **({"core_wait": case.proof.core_wait} if case.proof and case.proof.core_wait else {}),
        **_machine(case),
        **({"depth": level} if isinstance(level, str) else {}),
        **(
            {"measured_with": measured_with}
            if isinstance(measured_with, dict) and measured_with
            else {}
        ),
    }


def _machine(case: Case) -> dict[str, Any]:
    """What the nodes' operating systems reported about themselves, each value once: what an upgrade
    changes besides the stack.
    """
    said: dict[str, set[str]] = {}
    for node in case.proof.kernel if case.proof else ():
        for name, value in [("release", node)] if isinstance(node, str) else node.items():
            if value is not None:
                about = (
                    name if name.startswith(("driver of ", "firmware of ")) else f"kernel {name}"
                )
                said.setdefault(about, set()).add(str(value))
    for link in case.proof.links if case.proof else ():
        said.setdefault(f"link {link['link']}", set()).add(link_state.describe(link))
    return {"machine": {name: sorted(values) for name, values in said.items()}} if said else {}


#: Columns of ``samples`` that a sample has under the same name.
_SAMPLE_FIELDS = (
    "group",
    "suite",
    "benchmark",
    "variant",
    "ranks",
    "groups",
    "message_bytes",
    "repetitions",
    "quantity",
    "unit",
    "direction",
)


def _samples_table(session: Session, cases: Sequence[Case]) -> pl.DataFrame:
    fields = (*_SAMPLE_FIELDS, "repeat", "value")
    schema = pl.Schema(
        [("case_number", pl.Int32()), *((name, SAMPLES_SCHEMA[name]) for name in fields)]
    )
    rows = [
        (number, *metric, repeat, value)
        for number, case in enumerate(cases)
        for sample in case.samples
        for metric in [tuple(getattr(sample, name) for name in _SAMPLE_FIELDS)]
        for repeat, value in enumerate(sample.values, start=1)
    ]
    measured = pl.DataFrame(rows, schema=schema, orient="row")
    sample_columns = {
        name: dtype for name, dtype in CASE_COLUMNS.items() if name not in _SAMPLE_FIELDS
    }
    described = pl.DataFrame(
        [_case_values(session, case) for case in cases], schema=sample_columns, orient="row"
    )
    return measured.hstack(described[measured["case_number"]]).select(SAMPLES_SCHEMA.names())


def _case_rows(session: Session, cases: Iterable[Case]) -> list[dict[str, Any]]:
    took_s = session.job_seconds
    return [
        {
            **_case_values(session, case),
            "name": case.name,
            "superseded": case.uuid in session.superseded,
            "measurement": case.is_measurement,
            "cmdline": session.command_line,
            "fail_phase": case.fail_phase or None,
            "reason": case.reason or None,
            "sentences": list(case.proof.sentences) if case.proof else [],
            "library": case.proof.library if case.proof else None,
            "library_version": case.proof.library_version if case.proof else None,
            "condition": json.dumps({**_beside_condition(case), **case.condition}, sort_keys=True),
            "samples": len(case.samples),
            "gates": [vars(gate) for gate in case.gates],
            "seconds": took_s.get(case.uuid),
            "session_seconds": session.seconds,
        }
        for case in cases
    ]


def _pair_tables(session: Session, cases: Iterable[Case]) -> dict[str, pl.DataFrame]:
    maps = [
        (_case_values(session, case), found) for case in cases for found in [case.pair_map] if found
    ]
    if not maps:
        return {}
    rows = [
        {
            **about,
            "design": found.design,
            "seed": found.seed,
            "rounds": found.rounds,
            "hosts": list(found.nodes),
            "silent": [{"node": node, "why": why} for node, why in found.silent.items()],
            "origin": found.tree.origin if found.tree else None,
            "notes": list(found.tree.notes) if found.tree else [],
            "switches": [
                {"name": name, "parent": switch.parent, "nodes": list(switch.nodes)}
                for name, switch in (found.tree.switches.items() if found.tree else ())
            ],
            "oversubscription": found.oversubscription,
            "shared_cores": found.shared_cores or None,
            "file": found.values.name if isinstance(found.values, MapFile) else None,
        }
        for about, found in maps
    ]
    return {"pair_maps": pl.DataFrame(rows, schema=PAIR_MAPS_SCHEMA, orient="row")}


def _with_map_files(session: Session, folder: Path) -> Session:
    """The session with the values of its maps in files of a folder."""

    def kept(case: Case) -> Case:
        if case.pair_map is None:
            return case
        record = case.pair_map.keep(folder)
        entry = {**case.entry, "pair_map": record}
        return replace(case, entry=entry, pair_map=read_pair_map(record, case.uuid))

    return replace(session, cases=tuple(map(kept, session.cases)))


def tables(session: Session, system: str) -> dict[str, pl.DataFrame]:
    """The tables of one session on one system, without the partition columns."""
    cases = [case for case in session.cases if case.system == system]
    return {
        "samples": _samples_table(session, cases),
        "cases": pl.DataFrame(_case_rows(session, cases), schema=CASES_SCHEMA, orient="row"),
        **_pair_tables(session, cases),
        "reports": pl.DataFrame(
            [(session.uuid, session.started, encode(session))], schema=REPORTS_SCHEMA, orient="row"
        ),
    }


def _folder_name(name: str, what: str) -> str:
    """Names become folders: refuse those that would leave the
    dataset or break the name of a partition.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise BadInput(
            "not-ours",
            f"{what} {name!r} cannot name a folder: use letters, digits, '_', '-' and '.'.",
        )
    return name


def export_session(session: Session, out_dir: str | Path) -> Summary:
    """Write all files of one session or none, instead of its earlier ones.

    Readers only see ``*.parquet``, and what is renamed at the end needs no more room.

    :raises BadInput: no case, so that nothing would say that there was a session, or a bad name.
    :raises CannotWrite: the dataset cannot be written; it has of the session what it had before.
    """
    out_dir = Path(out_dir)
    name = f"{_folder_name(session.uuid, 'session')}.parquet"
    if not session.systems:
        raise BadInput(
            "session-missing", f"session {session.uuid} has no cases, so it is not a night."
        )
    try:
        session = _with_map_files(session, out_dir / MAPS)
    except OSError as error:
        raise _cannot_write(out_dir, error) from None
    frames = {
        out_dir
        / table
        / f"system={_folder_name(system, 'system')}"
        / f"date={session.started:%Y-%m-%d}"
        / name: frame
        for system in session.systems
        for table, frame in tables(session, system).items()
    }
    try:
        with contextlib.ExitStack() as files:
            for path, frame in frames.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(files.enter_context(whole_file.replacing(path)), frame, place_of(path))
        for stale in set(out_dir.glob(f"*/system=*/date=*/{name}")) - frames.keys():
            stale.unlink()
    except OSError as error:
        raise _cannot_write(out_dir, error) from None
    evidence = pl.concat(
        frame["evidence"] for path, frame in frames.items() if path.parts[-4] == "samples"
    )
    return Summary(
        out_dir, 1, len(session.cases), evidence.len(), int(evidence.ne_missing(PROVEN).sum())
    )


class CannotWrite(BadInput):
    """Nothing is the matter with the session."""


def _cannot_write(out_dir: Path, error: OSError) -> CannotWrite:
    said = f"cannot write the dataset in {out_dir}: {error.strerror}; export again."
    return CannotWrite("cannot-write", said)


def export(
    db_path: str | Path, out_dir: str | Path, sessions: Sequence[str] | None = None
) -> Summary:
    """Export sessions of a results database; exporting again replaces and never duplicates.

    :param sessions: session ids, or unique beginnings of them; all sessions if ``None`` or empty.
    """
    folder = Path(out_dir)
    database = str(Path(db_path).resolve())
    done: list[Summary] = []
    refused: list[str] = []
    written: set[str] = set()
    starts = session_starts(db_path)
    # Where no start can be read, a session began no later than it was first found.
    starts |= {
        lost.session: min(lost.started, starts[lost.session])
        for lost in records.refusals(folder)
        if lost.session in starts and lost.database == database
    }
    for named in dict.fromkeys(sessions or starts):
        if not named:
            raise BadInput(
                "bad-option", "--session '' names no session: give its id, or a beginning of it."
            )
        try:
            session = read_session(db_path, named)
            if session.uuid in written:
                continue
            written.add(session.uuid)
            done.append(export_session(session, folder))
            records.forget_refusals(folder, [session.uuid])
        except CannotWrite:
            raise
        except BadInput as error:
            refused.append(str(error))
            for uuid in (
                [named] if named in starts else [uuid for uuid in starts if uuid.startswith(named)]
            ):
                records.UnreadableSession(
                    uuid, starts[uuid], systems_of(db_path, uuid), str(error), database
                ).keep(folder)
    cases, rows, unproven = (
        sum(getattr(done_session, name) for done_session in done)
        for name in ("cases", "rows", "unproven_rows")
    )
    total = Summary(folder, len(done), cases, rows, unproven, tuple(refused))
    if refused:
        raise RefusedSessions(total)
    return total
