"""From sessions in the dataset to two sides of the same metrics; what has no counterpart is kept and named.

A **curve** is one quantity of one benchmark under one condition over its message sizes; a **metric** is one point of it. A
**unit** is one repeat of one job. Nothing is dropped silently: each case, value or metric that is not used ends in
:attr:`Selection.notes` or in a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.vocabulary import HIGHER, JUDGED, LOWER, POSITIVE_TIMES, BadInput

from . import dataset, eligibility, selectors, unreadable, withdrawals
from .dataset_layout import SCHEMAS, find_files, read_condition
from .sessions import session_starts

#: A clock that is wrong puts nights in a wrong order; sessions may be this much in the future.
CLOCK_TOLERANCE = timedelta(days=1)
#: What makes two conditions the same.
CONDITION = ("partition", "stack", "fabric", "nodes", "ppn", "pinning")
#: What makes two benchmarks the same, under one condition.
BENCHMARK = ("suite", "benchmark", "variant", "ranks", "groups", "quantity")
CURVE = (*CONDITION, *BENCHMARK)
METRIC = (*CURVE, "message_bytes")
#: What makes a band of a curve.
BAND = (*CURVE, "band")
#: What ``--rename`` gives another name.
RENAMED = ("stack", "benchmark", "fabric", "partition")
#: Says in a condition that ranks shared cores. Such numbers are held against nothing but their like: variants end in it here,
#: so that they are other metrics for whoever compares.
OVERSUBSCRIBED = "oversubscribed"
#: Whether a row of ``cases`` is such a case.
SHARED_CORES = pl.col("condition").str.json_path_match(f"$.{OVERSUBSCRIBED}").is_not_null()
#: One unit: a repeat of a job.
UNIT = ("session", "case", "repeat")
#: Columns of a table of values.
VALUES = (*METRIC, *UNIT, "unit", "direction", "value", "started")


@dataclass(frozen=True)
class Selection:
    """Eligible values of some sessions on one system.

    :param values: columns :data:`VALUES`; only judged quantities and positive, finite values.
    :param cases: rows of ``cases`` that were used.
    :param planned: rows of ``cases`` of these sessions that were to be measured, used or not.
    :param notes: what was not used and why, one sentence each.
    :param zeros: columns as ``values``: bandwidths and rates of nothing, which have no ratio and are no loss either.
    :param unproven: rows of ``cases`` that were to prove their condition and did not (:func:`eligibility.owed_proof`).
    :param selector: as given.
    """

    system: str
    sessions: tuple[str, ...]
    values: pl.DataFrame
    cases: pl.DataFrame
    planned: pl.DataFrame
    notes: tuple[str, ...]
    zeros: pl.DataFrame
    unproven: pl.DataFrame
    selector: str

    @property
    def measured(self) -> pl.DataFrame:
        """``values`` and ``zeros``."""
        return pl.concat([self.values, self.zeros])

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs behind the values: session, start (ISO), job id, nodes, condition, folder of script, outputs, evidence."""
        columns = ("session", "started", "job_id", "nodelist", *CONDITION, "outputdir")
        rows = self.cases.select(columns).unique(maintain_order=True).sort("started", "job_id").to_dicts()
        return [{**row, "started": row["started"].isoformat(sep=" ")} for row in rows]


def system_of(folder: Path, system: str | None) -> str:
    """The system that is meant: the one named, or the only one in the dataset.

    :raises BadInput: there are several, or the one named is not there.
    """
    known = sorted({path.name.removeprefix("system=") for path in (folder / "cases").glob("system=*")})
    if not known:
        raise BadInput(f"there is no dataset in {folder}: write one with `mpibench export`.")
    if system is None and len(known) > 1:
        raise BadInput(f"the dataset holds {len(known)} systems ({', '.join(known)}): name one with --system.")
    if system is not None and system not in known:
        raise BadInput(f"the dataset holds no system {system!r}; it holds {', '.join(known)}.")
    return system or known[0]


def find_session(folder: Path, selector: str, system: str | None = None) -> tuple[str, str]:
    """The one session a selector means, and its system.

    The system is derived from the session; it must be named only where the session has cases on several.

    :returns: system and session id.
    :raises BadInput: no such session, several, or one that cannot be read.
    """
    if not (folder / "cases").is_dir():
        lost = unreadable.find(folder)
        raise BadInput(lost[-1].why if lost else f"there is no dataset in {folder}: write one with `mpibench export`.")
    known = sorted({path.name.removeprefix("system=") for path in (folder / "cases").glob("system=*")})
    if system is not None and system not in known:
        raise BadInput(f"the dataset holds no system {system!r}; it holds {', '.join(known)}.")
    systems = [system] if system else known
    named = [path for path in folder.glob("cases/system=*/date=*/*.parquet") if path.stem.startswith(selector)]
    if named and not system:
        systems = sorted({path.parents[1].name.removeprefix("system=") for path in named})
    lost = unreadable.find(folder, systems)
    withdrawn = withdrawals.find(folder)
    withdrawals.refuse(withdrawn, selector)
    sessions = selectors.sessions_table(pl.concat([cases_of(folder, one) for one in systems]))
    if gone := "" if sessions.height or lost else withdrawals.all_of(withdrawn):
        raise BadInput(f"{gone}: measure, or take one back with `mpibench sessions restore ID`.")
    chosen = selectors.select(selector, sessions, unreadable=lost)
    if len(chosen) > 1:
        raise BadInput(f"{selector!r} means {len(chosen)} sessions and one is judged at a time: give its id.")
    on = sorted(set(sessions.filter(pl.col("session") == chosen[0])["system"]))
    if len(on) > 1:
        raise BadInput(f"session {chosen[0]} has cases on {len(on)} systems ({', '.join(on)}): name one with --system.")
    return on[0], chosen[0]


def cases_of(folder: Path, system: str, *, withdrawn_too: bool = False) -> pl.LazyFrame:
    """Table ``cases`` of one system, without the sessions that were withdrawn.

    :param withdrawn_too: with these, too.
    :raises BadInput: no dataset, a damaged file, a session that is there twice or is to come.
    """
    withdrawn = withdrawals.find(folder)
    limit = f"{datetime.now(timezone.utc) + CLOCK_TOLERANCE:%Y-%m-%d}"
    for path in find_files(folder, "cases", [system]).readable:
        if path.parent.name.removeprefix("date=") > limit and path.stem not in withdrawn:
            raise BadInput(
                f"session {path.stem} says it started on {path.parent.name[5:]} UTC, which is to come: correct the clock of "
                f"this machine, or, where that is right, `mpibench sessions withdraw {path.stem} --why ...`."
            )
    cases = dataset.load_cases(folder, [system])
    return cases if withdrawn_too else cases.filter(~pl.col("session").is_in(list(withdrawn)))


def read(
    folder: Path,
    system: str,
    selector: str,
    *,
    where: str | None = None,
    rename: Mapping[str, str] | None = None,
    for_learning: bool = False,
    unproven_too: bool = False,
) -> Selection:
    """Eligible values of the sessions a selector means.

    :param where: expression over the columns of ``cases``.
    :param rename: names of stacks, benchmarks, fabrics or partitions to new ones.
    :param unproven_too: sessions that measured and proved nothing are an answer, and not bad input.
    :raises BadInput: nothing is selected, nothing of it may be used, or it cannot be used together.
    """
    table = cases_of(folder, system)
    lost = unreadable.find(folder, [system])
    known = selectors.sessions_table(table)
    _refuse_other_systems(folder, system, selector, known)
    for part in selectors.split(selector):
        withdrawals.refuse(withdrawals.find(folder), part)
    sessions = selectors.select(selector, known, unreadable=lost)
    cases = selectors.filter_cases(table.filter(pl.col("session").is_in(sessions)).collect(), where)
    shared = cases.filter(SHARED_CORES).height if for_learning else 0
    cases = cases.filter(~SHARED_CORES) if shared else cases
    split = eligibility.split_cases(cases, for_learning=for_learning)
    unlearned = [f"{shared} cases not used: each was oversubscribed, and nothing is learned from that"] if shared else []
    notes = [*split.sentences(), *unlearned, *(f"session {one.session[:8]} is not used: {one.why}" for one in lost)]
    tried = split.left_out["why"].is_in([eligibility.NO_PROOF, eligibility.FAILED]).any()
    if not split.eligible.height and not (unproven_too and tried):
        why = "; ".join(notes) or "every case was skipped"
        raise BadInput(f"selector {selector!r} gives no case that may be used ({why}).")
    measured, more = values_of(folder, system, split.eligible)
    unproven = eligibility.owed_proof(cases).join(split.proven, on="case", how="anti")
    planned = cases.filter(pl.col("result") != "skip", ~pl.col("superseded").fill_null(False))
    for old, new in (rename or {}).items():
        if not any(measured[name].eq(old).any() for name in RENAMED):
            raise BadInput(f"--rename {old}={new}: {selector!r} has no stack, benchmark, fabric or partition {old!r}.")
        measured = measured.with_columns(pl.col(list(RENAMED)).replace(old, new))
        planned = planned.with_columns(pl.col("stack", "fabric", "partition").replace(old, new))
    return Selection(
        system=system,
        sessions=tuple(sessions),
        values=measured.filter(pl.col("value") > 0),
        cases=split.eligible,
        planned=planned,
        notes=(*notes, *more),
        zeros=measured.filter(pl.col("value") == 0),
        unproven=unproven,
        selector=selector,
    )


def _refuse_other_systems(folder: Path, system: str, selector: str, known: pl.DataFrame) -> None:
    """Say so where an id is that of a session of another system, which no selection of this one can hold."""
    here = set(known["session"])
    for part in selectors.split(selector):
        if len(part) < 4 or any(one.startswith(part) for one in here):
            continue
        for path in folder.glob("cases/system=*/date=*/*.parquet"):
            other = path.parents[1].name.removeprefix("system=")
            if path.stem.startswith(part) and other != system:
                raise BadInput(
                    f"session {path.stem} was measured on {other} and not on {system}: two machines are not compared; "
                    "give sessions of one system."
                )


def values_of(folder: Path, system: str, cases: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Judged values of some cases, zeros among them, and what was left out.

    Variants of cases whose ranks shared cores end in :data:`OVERSUBSCRIBED`.

    :param cases: eligible rows of the table ``cases``.
    :raises BadInput: a value that cannot be one.
    """
    wanted = cases["case"].to_list()
    samples = (
        dataset.load(folder, systems=[system], sessions=cases["session"].unique().to_list())
        .filter(pl.col("case").is_in(wanted), pl.col("quantity").is_in(JUDGED))
        .select(VALUES)
        .collect()
    )
    variant = pl.col("variant").fill_null("")
    named = pl.concat_str(variant, pl.lit(f",{OVERSUBSCRIBED}")).str.strip_chars_start(",")
    shared = pl.col("case").is_in(cases.filter(SHARED_CORES)["case"].to_list())
    samples = samples.with_columns(variant=pl.when(shared).then(named).otherwise(pl.col("variant")))
    impossible = samples.filter(
        ~pl.col("value").is_finite()
        | (pl.col("value") < 0)
        | ((pl.col("value") == 0) & pl.col("quantity").is_in(POSITIVE_TIMES)),
    )
    if impossible.height:
        row = impossible.row(0, named=True)
        raise BadInput(
            f"{row['benchmark']} {row['quantity']} of case {row['case']} is {row['value']:g}, which nothing can take: its "
            f"output was damaged; leave the case out with --where 'case != \"{row['case']}\"' and measure it again."
        )
    # A message of no bytes has no bandwidth; a larger one that has none is the worst there is.
    zero = (pl.col("direction") == HIGHER) & (pl.col("value") == 0) & (pl.col("message_bytes") > 0).fill_null(False)
    kept = samples.filter((pl.col("value") > 0) | zero)
    point = [name for name in METRIC if name != "quantity"]
    rank = pl.col("quantity").replace_strict({quantity: rank for rank, quantity in enumerate(JUDGED)}, return_dtype=pl.Int32)
    judged = kept.filter(rank == rank.min().over(*point))
    left = samples.filter(pl.col("value") == 0).join(judged.select(point).unique(), on=point, how="anti", nulls_equal=True)
    notes = [f"{left.height} values of zero not used: a ratio to nothing says nothing"] if left.height else []
    zeros = judged.filter(pl.col("value") == 0)
    if zeros.height:
        names = ", ".join(sorted(set(zeros["benchmark"])))
        notes.append(f"{zeros.height} values are zero where bytes were sent ({names}): the worst value there is")
    return judged, notes


def describe_condition(row: Mapping[str, object]) -> str:
    """A condition in the words of the command line."""
    return f"{row['stack']} on {row['partition']}, {row['fabric']}, {row['nodes']} x {row['ppn']}, {row['pinning']}"


def slowness(values: pl.DataFrame) -> pl.Series:
    """Natural logarithm of each value, turned so that more is worse."""
    sign = pl.when(pl.col("direction") == LOWER).then(1.0).otherwise(-1.0)
    return values.select((sign * pl.col("value").log()).alias("slowness"))["slowness"]


def facts(cases: pl.DataFrame) -> dict[str, list[str]]:
    """What the sessions of a selection say about the machine and its software, each fact with all its values, sorted."""
    found: dict[str, set[str]] = {}
    for row in cases.select("stack", "mpi", "mpi_version", "lock_hash", "library_version", "condition").unique().to_dicts():
        condition = read_condition(row["condition"])
        said = {
            f"MPI of {row['stack']}": f"{row['mpi']} {row['mpi_version']}" if row["mpi"] else None,
            f"library of {row['stack']}": row["library_version"],
            f"lock hash of {row['stack']}": row["lock_hash"],
            f"suite options of {row['stack']}": condition.get("suite_options"),
            f"tuned settings of {row['stack']} on {condition.get('fabric')}": condition.get("tuned"),
            f"striping of {condition.get('fabric')}": "over all rails" if condition.get("striped") else None,
            f"network of {row['stack']} on {condition.get('fabric')}": condition.get("network"),
            f"oversubscription on {condition.get('fabric')}": condition.get("oversubscribed"),
            **{
                f"{name}{what and ' '}{what} of {row['stack']}": suite.get(what or "version")
                for name, suite in _suites(condition)
                for what in ("", *BUILD_FACTS)
            },
            **{str(name): value for name, value in _machine(condition)},
            **_measured_with(condition),
        }
        for name, value in said.items():
            if value:
                found.setdefault(name, set()).add(str(value))
    return {name: sorted(values) for name, values in sorted(found.items())}


#: Of a condition: its ranks often lost their core to other programs (:func:`dataset.lost_cores`).
LOST_CORES = (pl.col("condition").str.json_path_match("$.lost_cores") == "true").fill_null(False)


def busy_sentence(busy: int, timed: int) -> str:
    """Sentence on so many of so many timed cases whose ranks shared their cores with other programs; empty for none."""
    cases = f"{timed} case{'' if timed == 1 else 's'}"
    return f"In {busy} of {cases} ranks often lost their core to other programs: the machine was busy." if busy else ""


def busy(cases: pl.DataFrame) -> str:
    """The same of rows of the table ``cases``, of those that measured."""
    timed = cases.filter(pl.col("samples") > 0)
    return busy_sentence(timed.filter(LOST_CORES).height, timed.height).rstrip(".")


#: How a stack says that a suite of its was built (``suites`` of ``stack.json``), beside the version.
BUILD_FACTS = ("compiler", "target", "flags")
_YES_OR_NO: dict[object, str] = {True: "yes", False: "no"}


def _measured_with(condition: Mapping[str, object]) -> dict[str, object]:
    """Commit and versions of what ran and judged the tests (``sites.session.provenance``), each by a name for a reader."""
    stored = condition.get("measured_with")
    if not isinstance(stored, Mapping):
        return {}
    packages = stored.get("packages")
    unlike, extensions = stored.get("unlike_lock"), stored.get("extensions")
    return {
        "commit of the tests": stored.get("commit"),
        "tests changed since that commit": _YES_OR_NO.get(stored.get("modified")),
        "python": stored.get("python"),
        "requirements.lock": stored.get("lock"),
        "installed unlike requirements.lock": ", ".join(map(str, unlike)) if isinstance(unlike, list) else None,
        "the site's own extensions": ", ".join(map(str, extensions)) if isinstance(extensions, list) else None,
        **({f"package {name}": version for name, version in packages.items()} if isinstance(packages, Mapping) else {}),
    }


def _suites(condition: Mapping[str, object]) -> Sequence[tuple[str, Mapping[str, object]]]:
    suites = condition.get("suites")
    return [(name, row) for name, row in suites.items() if isinstance(row, Mapping)] if isinstance(suites, Mapping) else []


def _machine(condition: Mapping[str, object]) -> list[tuple[str, object]]:
    """Facts about nodes (kernel, driver, firmware, ...) and the settings the test chose."""
    machine = condition.get("machine")
    rows = list(machine.items()) if isinstance(machine, Mapping) else []
    environment = condition.get("environment")
    settings = [(f"setting {name}", value) for name, value in environment.items()] if isinstance(environment, Mapping) else []
    flat = [(name, ", ".join(map(str, value)) if isinstance(value, list) else value) for name, value in rows]
    return [*flat, *settings, *((name, condition.get(name)) for name in ("line_rate_gbit_per_s", "transport"))]


def changes(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> list[tuple[str, str, str]]:
    """Facts that differ between two sides: name, before, after; ``-`` where a side does not know."""
    names = sorted(set(before) | set(after))
    pairs = [(name, ", ".join(before.get(name, ["-"])), ", ".join(after.get(name, ["-"]))) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]


def bring_up_to_date(db: Path, folder: Path, *, without_db: bool = False) -> list[str]:
    """Export the sessions of a results database that the dataset lacks or cannot read; says which it had to leave out.

    :param without_db: the dataset is all there is; nothing newer is expected.
    :raises BadInput: no database, or a damaged one.
    """
    if without_db:
        if not (folder / "cases").is_dir():
            raise BadInput(f"there is no dataset in {folder}: write one with `mpibench export`.")
        return []
    if not db.is_file():
        raise BadInput(
            f"there is no results database {db}, so the newest session is not known: name it with --db, or say "
            f"--dataset-only to judge what {folder} holds."
        )
    known = session_starts(db)
    if not known and any(folder.glob("cases/system=*/date=*/*.parquet")):
        raise BadInput(
            f"the results database {db} holds no session, but the dataset {folder} does: restore it from a copy, name "
            "another one with --db, or say --dataset-only to judge what the dataset holds."
        )
    unreadable.keep_only(folder, known)
    there = {path.stem for path in folder.glob("cases/system=*/date=*/*.parquet")}
    there -= {path.stem for table in SCHEMAS for path in find_files(folder, table).refused}
    lacking = [uuid for uuid in known if uuid not in there]
    if not lacking:
        return []
    try:
        dataset.export(db, folder, lacking)
    except dataset.RefusedSessions as refused:
        return [f"not in the dataset: {sentence}" for sentence in refused.summary.refused]
    return []
