"""A dataset, opened once by a command and passed on: its files, and the sessions, cases and values
in them.

Each file is read once. A file that is truncated, has another layout, exists twice or lost its
partner is named, and nothing is judged until it is exported again or removed; otherwise its
contents would be missing silently.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from reframe_tests.harness.instruments.pairs.pair_values import (
    MAPS,
    MapFile,
    PairMap,
    PairValue,
)
from reframe_tests.harness.machine.switches import Switch, SwitchTree
from reframe_tests.harness.printable import one_line, plural
from reframe_tests.harness.samples import PROVEN, STATUSES
from reframe_tests.harness.vocabulary import HIGHER, JUDGED, POSITIVE_TIMES, BadInput, meant

from . import dataset, eligibility, records, selectors
from .dataset_layout import (
    CASE_COLUMNS,
    LAYOUT,
    OLD_SCHEMAS,
    PARTITION_SCHEMA,
    PARTNERS,
    PLACE_KEY,
    READ,
    SCHEMAS,
    VERSION_KEY,
    is_as_written,
    place_of,
    read_labels,
)
from .records import StoredAnswer, UnreadableSession, Withdrawal, inside
from .session_values import (
    METRIC,
    OVERSUBSCRIBED,
    RENAMED,
    SHARED_CORES,
    VALUES,
    Selection,
    not_among,
)
from .sessions import CONFIRMS, Session, decode, session_starts

#: A clock that is wrong puts nights in a wrong order; sessions may be this much in the future.
CLOCK_TOLERANCE = timedelta(days=1)
#: What Polars raises where it cannot read a file.
_DAMAGED = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_REPAIR = "export that session again, or remove it."
_BEGINNING = re.compile(r"[A-Za-z0-9_.-]{4,100}")


@dataclass(frozen=True)
class StoredPairMap:
    """A map of pairs of the dataset."""

    case: Mapping[str, Any]
    pair_map: PairMap


class Store:
    """A dataset. What it has read of the folder it keeps until
    something is written (:meth:`reread`).
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._looked: dict[tuple[str, str | None], dict[Path, str]] = {}
        self._sessions: dict[tuple[str, bool], pl.DataFrame] = {}
        self._held: dict[str, pl.DataFrame] = {}

    def reread(self) -> None:
        """Forget what was read: something was written."""
        self._looked.clear()
        self._sessions.clear()
        self._held.clear()
        for name in ("systems", "session_systems", "starts", "withdrawn", "refused", "answers"):
            self.__dict__.pop(name, None)

    # Files
    # ----------------------------------------------------------------------------------------------

    @cached_property
    def systems(self) -> list[str]:
        return sorted(
            path.name.removeprefix("system=") for path in inside(self.folder / "cases", "system=*")
        )

    @cached_property
    def session_systems(self) -> dict[str, list[str]]:
        """The sessions it holds, whether they can be read or not, with their systems."""
        found: dict[str, list[str]] = {}
        for path in sorted(self.folder.glob("cases/system=*/date=*/*.parquet")):
            found.setdefault(path.stem, []).append(path.parts[-3].removeprefix("system="))
        return found

    def sessions_of(self, system: str) -> list[str]:
        return [session for session, systems in self.session_systems.items() if system in systems]

    def require(self) -> None:
        """:raises BadInput: there is no dataset."""
        if not self.systems:
            raise BadInput(
                "session-missing",
                f"there is no dataset in {self.folder}: write one with `mpibench export`.",
            )

    def _look(self, table: str, system: str | None) -> dict[Path, str]:
        """Files of a table with the sentence that says why they cannot
        be read, which is empty where they can.

        :param system: only this one; files of others are not even opened.
        :raises BadInput: a folder that cannot be read, whose sessions
            would be missing without a word.
        """
        if (table, system) in self._looked:
            return self._looked[table, system]
        paths, partner_paths = ([*self._paths(name, system)] for name in (table, PARTNERS[table]))
        found = _unreadable(paths, table)
        own = self.folder / table
        partners = self.folder / PARTNERS[table]
        for gone in sorted(
            {path.relative_to(partners) for path in partner_paths}
            - {path.relative_to(own) for path in paths}
        ):
            lost = own / gone
            if table == "pair_maps":
                report = self.folder / "reports" / gone
                if not (_has_map(report) if report.exists() else _measured_map(partners / gone)):
                    continue
                lost = lost if report.exists() else report
            found[own / gone] = (
                f"{lost} is gone, but {partners / gone} exists: export that session again, or "
                "remove it."
            )
        first: dict[tuple[str, str], Path] = {}
        for path in paths:
            other = first.setdefault((path.parts[-3], path.name), path)
            if other is not path and not found[path]:
                found[path] = (
                    f"session {path.stem} is in the dataset twice ({other} and {path}): remove "
                    "one and export it again."
                )
        return self._looked.setdefault((table, system), found)

    def _paths(self, table: str, system: str | None) -> Iterator[Path]:
        for on in inside(self.folder / table, "system=*"):
            if system is None or on.name == f"system={system}":
                for day in inside(on, "date=*"):
                    yield from inside(day, "*.parquet")

    def files(
        self, table: str, system: str | None = None, *, unreadable_too: bool = False
    ) -> list[Path]:
        """Files of a table, sorted.

        :param unreadable_too: those that cannot be read are left out and not refused.
        """
        looked = self._look(table, system)
        why = next(filter(None, looked.values()), "")
        if why and not unreadable_too:
            raise BadInput("file-unreadable", why)
        return sorted(path for path, why in looked.items() if not why)

    def scan(
        self, table: str, system: str | None = None, sessions: Collection[str] | None = None
    ) -> pl.LazyFrame:
        """Rows of a table, the partition columns included, whatever their evidence.

        :param sessions: only these; files of others are not opened.
        """
        paths = self.files(table, system)
        if not paths and table in ("cases", "samples") and not (system and self.systems):
            raise BadInput(
                "session-missing",
                f"there is no dataset in {self.folder}: write one with `mpibench export`.",
            )
        return scan_files(
            paths if sessions is None else [path for path in paths if path.stem in sessions], table
        )

    # Records beside the tables
    # ----------------------------------------------------------------------------------------------

    @cached_property
    def withdrawn(self) -> dict[str, Withdrawal]:
        return Withdrawal.read(self.folder)

    @cached_property
    def refused(self) -> list[UnreadableSession]:
        """Sessions that the export refused and that are not there
        in an older form, the oldest first.
        """
        return [
            lost
            for lost in records.refusals(self.folder)
            if lost.session not in self.session_systems
        ]

    @cached_property
    def answers(self) -> dict[str, list[StoredAnswer]]:
        return records.answers(self.folder)

    def lost(self, *systems: str) -> tuple[UnreadableSession, ...]:
        """Of :attr:`refused` what ran, or may have run, on some systems."""
        return tuple(
            lost
            for lost in self.refused
            if not lost.systems or not systems or set(lost.systems) & set(systems)
        )

    def _whole_id(self, session: str) -> str:
        """The one session with this id or beginning of one."""
        if not _BEGINNING.fullmatch(session):
            raise BadInput(
                "bad-option",
                f"{session!r} is not a session: give its id, or at least its first four "
                "characters.",
            )
        known = {*self.session_systems, *self.withdrawn}
        chosen = (
            [session]
            if session in known
            else sorted(name for name in known if name.startswith(session))
        )
        if not chosen:
            raise BadInput(
                "session-missing",
                f"the dataset {self.folder} holds no session {session}: export it first "
                "(`mpibench export`).",
            )
        if len(chosen) > 1:
            raise BadInput(
                "ambiguous-name",
                f"{session} is the beginning of {len(chosen)} sessions: give more of the id.",
            )
        return chosen[0]

    def withdraw(self, session: str, why: str) -> Withdrawal:
        """Record that a session takes no part in verdicts."""
        reason = one_line(why).strip()
        if not reason:
            raise BadInput(
                "bad-option",
                "--why is empty: say why the session is withdrawn.",
            )
        if len(reason) > records.LONGEST_WHY:
            raise BadInput(
                "bad-option",
                f"--why has {len(reason)} characters; at most {records.LONGEST_WHY} are allowed: "
                "shorten it.",
            )
        uuid = self._whole_id(session)
        if before := self.withdrawn.get(uuid):
            raise BadInput(
                "name-taken",
                f"{before}; it is withdrawn already. `mpibench sessions withdraw --undo {uuid}` "
                "undoes that.",
            )
        try:
            who = one_line(getpass.getuser())
        except (KeyError, OSError):  # a user id without a name, as in containers
            who = "an unnamed user"
        withdrawal = Withdrawal(
            uuid, reason, who, datetime.now(timezone.utc).replace(microsecond=0)
        )
        withdrawal.keep(self.folder)
        self.reread()
        return withdrawal

    def restore(self, session: str) -> Withdrawal:
        """Take a withdrawal back."""
        uuid = self._whole_id(session)
        withdrawal = self.withdrawn.get(uuid)
        if withdrawal is None:
            raise BadInput("session-missing", f"session {uuid} is not withdrawn.")
        Withdrawal.remove(self.folder, uuid)
        self.reread()
        return withdrawal

    def refuse_withdrawn(self, session: str) -> None:
        """:raises BadInput: a session that is named by its id or a
        beginning was withdrawn: by whom and why.
        """
        meant = [uuid for uuid in self.withdrawn if len(session) >= 4 and uuid.startswith(session)]
        if len(meant) == 1:
            raise BadInput(
                "session-missing",
                f"{self.withdrawn[meant[0]]}; it takes part in no verdict; `mpibench sessions "
                f"withdraw --undo {meant[0]}` undoes that.",
            )

    # Sessions and cases
    # ----------------------------------------------------------------------------------------------

    def hold(self, system: str) -> None:
        """Keep the cases of one system in memory: a verdict asks for them in many ways."""
        if system not in self._held:
            self._held = {system: self._read_cases(system).collect()}

    def cases(self, system: str, *, withdrawn_too: bool = False) -> pl.LazyFrame:
        """Table ``cases`` of one system, without the sessions that were withdrawn."""
        held = self._held.get(system)
        cases = self._read_cases(system) if held is None else held.lazy()
        return (
            cases if withdrawn_too else cases.filter(~pl.col("session").is_in(list(self.withdrawn)))
        )

    def _read_cases(self, system: str) -> pl.LazyFrame:
        limit = f"{datetime.now(timezone.utc) + CLOCK_TOLERANCE:%Y-%m-%d}"
        for path in self.files("cases", system):
            if path.parent.name.removeprefix("date=") > limit and path.stem not in self.withdrawn:
                raise BadInput(
                    "bad-option",
                    f"session {path.stem} says it started on {path.parent.name[5:]} UTC, which is "
                    "in the future: correct the clock of this machine, or, if that is right, "
                    f"`mpibench sessions withdraw {path.stem} --why ...`.",
                )
        return self.scan("cases", system)

    def sessions(self, system: str, *, withdrawn_too: bool = False) -> pl.DataFrame:
        """As :func:`.selectors.sessions_table`, of one system."""
        key = (system, withdrawn_too)
        if key not in self._sessions:
            cases = self.cases(system, withdrawn_too=withdrawn_too)
            self._sessions[key] = selectors.sessions_table(cases)
        return self._sessions[key]

    def cases_of(
        self, system: str, sessions: Collection[str], *, withdrawn_too: bool = False
    ) -> pl.DataFrame:
        """Rows of the table ``cases`` of some sessions."""
        cases = self.cases(system, withdrawn_too=withdrawn_too)
        return cases.filter(pl.col("session").is_in(list(sessions))).collect()

    def system_of(self, system: str | None) -> str:
        """The system that is meant: the one named, or the only one."""
        self.require()
        if system is None and len(self.systems) > 1:
            raise BadInput(
                "ambiguous-name",
                f"the dataset holds {len(self.systems)} systems ({', '.join(self.systems)}): "
                "name one with --system.",
            )
        if system is not None and system not in self.systems:
            raise BadInput(
                "unknown-name",
                f"the dataset holds no system {system!r}{meant(system, self.systems)}; it holds "
                f"{', '.join(self.systems)}.",
            )
        return system or self.systems[0]

    def find_session(
        self, selector: str, system: str | None = None, *, among: Collection[str] = ()
    ) -> StoredNight:
        """The one session a selector means.

        The system is derived from the session; it must be named only
        where the session has cases on several.

        :param among: ids of the sessions that can be meant; none: all of them.
        """
        if not self.systems and self.refused:
            raise BadInput("file-unreadable", self.refused[-1].why)
        self.require()
        named = sorted(
            {
                on
                for session, systems in self.session_systems.items()
                if session.startswith(selector)
                for on in systems
            }
        )
        systems = [self.system_of(system)] if system else named or self.systems
        lost = self.lost(*systems)
        self.refuse_withdrawn(selector)
        sessions = pl.concat([self.sessions(name) for name in systems]).sort(
            "started", "session", "system"
        )
        if self.withdrawn and not sessions.height and not lost:
            newest = max(self.withdrawn.values(), key=lambda withdrawal: withdrawal.when)
            raise BadInput(
                "session-missing",
                f"all {len(self.withdrawn)} matching sessions are withdrawn; the newest: {newest}: "
                "measure, or restore one with `mpibench sessions withdraw --undo ID`.",
            )
        meant = sessions.filter(pl.col("session").is_in(among)) if among else sessions
        chosen = selectors.select(selector, meant, unreadable=lost)
        if len(chosen) > 1:
            raise BadInput(
                "ambiguous-name",
                f"{selector!r} means {len(chosen)} sessions, but only one can be judged: give its "
                "id.",
            )
        on = sorted(set(sessions.filter(pl.col("session") == chosen[0])["system"]))
        if len(on) > 1:
            raise BadInput(
                "ambiguous-name",
                f"session {chosen[0]} has cases on {len(on)} systems ({', '.join(on)}): name one "
                "with --system.",
            )
        return StoredNight(self, on[0], chosen[0])

    @cached_property
    def starts(self) -> dict[str, datetime]:
        """All sessions, withdrawn ones and those that the export refused
        too, with their start (UTC), the oldest first.
        """
        found = {lost.session: lost.started for lost in self.refused}
        if self.systems:
            found |= dict(
                self.scan("cases").select("session", "started").unique().collect().iter_rows()
            )
        return dict(sorted(found.items(), key=lambda session: (session[1], session[0])))

    def session(self, session: str = "latest") -> Session:
        """A session as ReFrame reported it, withdrawn or not.

        :param session: its id, a unique beginning of it, or ``latest``:
            the newest that confirms no other one.
        """
        if session == "latest":
            newest = (self.session(uuid) for uuid in reversed(self.starts))
            if found := next(
                (session for session in newest if CONFIRMS not in session.labels), None
            ):
                return found
            raise BadInput(
                "session-missing",
                f"the dataset {self.folder} holds no session: write one with `mpibench export`.",
            )
        for lost in self.refused:
            if lost.session == session:
                raise BadInput("file-unreadable", lost.why)
        uuid = self._whole_id(session)
        path = next(iter(sorted(self.folder.glob(f"reports/system=*/date=*/{uuid}.parquet"))), None)
        if path is None:
            raise BadInput(
                "file-missing",
                f"the dataset {self.folder} has no run report of session {uuid}: export that "
                "session again.",
            )
        if why := _unreadable([path], "reports")[path]:
            raise BadInput("file-unreadable", why)
        report = pl.read_parquet(path, columns=["report"]).item()
        return decode(report, f"session {uuid} in {path}", [self.folder.absolute() / MAPS])

    def session_rows(
        self, system: str | None = None, *, withdrawn_only: bool = False
    ) -> list[dict[str, Any]]:
        """Sessions, the newest last, withdrawn ones too: ``mpibench sessions list``.

        :returns: of each session id, system, start (UTC, ISO 8601), label ``run``, cases that owe a
            proof and those that have one, what was answered of it by whom, and its withdrawal;
            ``None`` if there is none.
        """
        cases = self.scan("cases", system).filter(pl.col("measurement"), ~pl.col("superseded"))
        facts = {"cases": pl.len(), "proven": (pl.col("evidence") == PROVEN).sum()}
        rows = cases.group_by("session", "system").agg(
            pl.min("started"), pl.first("labels"), **facts
        )
        return [
            {
                "session": row["session"],
                "system": row["system"],
                "started": row["started"].isoformat(timespec="seconds"),
                "label": read_labels(row["labels"]).get("run"),
                "cases": row["cases"],
                "proven": row["proven"],
                "answers": {
                    answer.source: {
                        "passed": answer.passed and not answer.unjudged,
                        "unjudged": answer.unjudged,
                        "finding": answer.finding,
                    }
                    for answer in self.answers.get(row["session"], [])
                },
                "withdrawn": msgspec.to_builtins(self.withdrawn[row["session"]])
                if row["session"] in self.withdrawn
                else None,
            }
            for row in rows.sort("started", "session", "system").collect().to_dicts()
            if row["session"] in self.withdrawn or not withdrawn_only
        ]

    # Values
    # ----------------------------------------------------------------------------------------------

    def values(
        self,
        system: str | None = None,
        sessions: Collection[str] | None = None,
        evidence: Sequence[str] = (PROVEN,),
    ) -> pl.LazyFrame:
        """Values for statistics: rows of ``samples`` that hold a
        number, by default only those with proof.
        """
        unknown = sorted(set(evidence) - set(STATUSES))
        if unknown:
            raise BadInput(
                "other-release",
                f"evidence {unknown[0]!r} is unknown: it is one of {', '.join(STATUSES)}.",
            )
        rows = self.scan("samples", system, sessions)
        return rows.filter(pl.col("evidence").is_in(list(evidence)), pl.col("value").is_not_null())

    def select(
        self,
        system: str,
        selector: str,
        *,
        where: str | None = None,
        rename: Mapping[str, str] | None = None,
        for_learning: bool = False,
        unproven_too: bool = False,
        only_zeros: bool = False,
    ) -> Selection:
        """Eligible values of the sessions a selector means.

        :param rename: names of stacks, benchmarks, fabrics or partitions to new ones.
        :param unproven_too: sessions that measured and proved nothing
            are an answer, and not bad input.
        :param only_zeros: as :meth:`values_of`, for those who need no values but the notes.
        :raises BadInput: nothing is selected, nothing of it may be
            used, or it cannot be used together.
        """
        lost = self.lost(system)
        known = self.sessions(system)
        self._refuse_other_systems(system, selector, known)
        for part in selectors.split(selector):
            self.refuse_withdrawn(part)
        sessions = selectors.select(selector, known, unreadable=lost)
        whole = self.cases_of(system, sessions)
        cases = selectors.filter_cases(whole, where)
        outside = not_among(eligibility.owed_proof(whole), cases, "case")
        shared = cases.filter(SHARED_CORES).height if for_learning else 0
        cases = cases.filter(~SHARED_CORES) if shared else cases
        split = eligibility.split_cases(cases, for_learning=for_learning)
        unlearned = (
            [f"{plural(shared, 'case')} not used: oversubscribed, and nothing is learned from that"]
            if shared
            else []
        )
        notes = [
            *split.sentences(),
            *unlearned,
            *(f"session {session.session[:8]} is not used: {session.why}" for session in lost),
        ]
        tried = split.left_out["why"].is_in([eligibility.NO_PROOF, eligibility.FAILED]).any()
        if not split.eligible.height and not (unproven_too and tried):
            why = "; ".join(notes) or "every case was skipped"
            raise BadInput("bad-option", f"selector {selector!r} has no usable cases ({why}).")
        measured, more = self.values_of(system, split.eligible, only_zeros=only_zeros)
        unproven = not_among(eligibility.owed_proof(cases), split.proven, "case")
        planned = cases.filter(pl.col("result") != "skip", ~pl.col("superseded").fill_null(False))
        for old, new in (rename or {}).items():
            if not any(measured[name].eq(old).any() for name in RENAMED):
                there = {value for name in RENAMED for value in measured[name].unique()}
                raise BadInput(
                    "unknown-name",
                    f"--rename {old}={new}: {selector!r} has no stack, benchmark, fabric or "
                    f"partition {old!r}{meant(old, there)}.",
                )
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
            where=where,
            outside=outside,
        )

    def _refuse_other_systems(self, system: str, selector: str, known: pl.DataFrame) -> None:
        """Say so where an id is that of a session of another system,
        which no selection of this one can hold.
        """
        here = set(known["session"])
        for part in selectors.split(selector):
            if len(part) < 4 or any(session.startswith(part) for session in here):
                continue
            for session, systems in self.session_systems.items():
                if session.startswith(part) and systems != [system]:
                    other = next(name for name in systems if name != system)
                    raise BadInput(
                        "not-comparable",
                        f"session {session} was measured on {other} and not on {system}: give "
                        "sessions of one system.",
                    )

    def values_of(
        self, system: str, cases: pl.DataFrame, *, only_zeros: bool = False
    ) -> tuple[pl.DataFrame, list[str]]:
        """Judged values of some cases, zeros among them, and what was left out.

        Variants of cases whose ranks shared cores end in :data:`OVERSUBSCRIBED`.

        :param cases: eligible rows of the table ``cases``.
        :param only_zeros: only the values of points that are zero or impossible in some case: all
            that is said of values that were left out, in a part of the memory.
        """
        point = [name for name in METRIC if name != "quantity"]
        wanted = cases["case"].to_list()
        variant = pl.col("variant").fill_null("")
        named = pl.concat_str(variant, pl.lit(f",{OVERSUBSCRIBED}")).str.strip_chars_start(",")
        shared = pl.col("case").is_in(cases.filter(SHARED_CORES)["case"].to_list())
        rows = (
            self.values(system, set(cases["session"]))
            .filter(pl.col("case").is_in(wanted), pl.col("quantity").is_in(JUDGED))
            .select(VALUES)
            .with_columns(variant=pl.when(shared).then(named).otherwise(pl.col("variant")))
        )
        if only_zeros:
            unusable = (pl.col("value") <= 0) | ~pl.col("value").is_finite()
            odd = rows.filter(unusable).select(point).unique().collect(engine="streaming").lazy()
            rows = rows.join(odd, on=point, how="semi", nulls_equal=True, maintain_order="left")
        samples = rows.collect(engine="streaming" if only_zeros else "auto")
        impossible = samples.filter(
            ~pl.col("value").is_finite()
            | (pl.col("value") < 0)
            | ((pl.col("value") == 0) & pl.col("quantity").is_in(POSITIVE_TIMES))
        )
        if impossible.height:
            row = impossible.row(0, named=True)
            raise BadInput(
                "output-damaged",
                f"{row['benchmark']} {row['quantity']} of case {row['case']} is {row['value']:g}, "
                "which is impossible: its output was damaged; leave the case out with --where "
                f"'case != \"{row['case']}\"' and measure it again.",
            )
        # A message of no bytes has no bandwidth; a larger one that has none is the worst there is.
        zero = (
            (pl.col("direction") == HIGHER)
            & (pl.col("value") == 0)
            & (pl.col("message_bytes") > 0).fill_null(False)
        )
        kept = samples.filter((pl.col("value") > 0) | zero)
        judged = _one_quantity_a_point(kept)
        left = not_among(samples.filter(pl.col("value") == 0), judged.select(point).unique(), point)
        notes = (
            [f"{plural(left.height, 'value')} of zero not used: a ratio to nothing says nothing"]
            if left.height
            else []
        )
        zeros = judged.filter(pl.col("value") == 0)
        if zeros.height:
            names = ", ".join(sorted(set(zeros["benchmark"])))
            notes.append(
                f"{plural(zeros.height, 'value')} of zero where bytes were sent ({names}): the "
                "worst value there is"
            )
        return judged, notes

    # Maps of pairs
    # ----------------------------------------------------------------------------------------------

    def pair_map_cases(self, system: str | None = None) -> pl.DataFrame:
        """Session, start, stack, fabric and evidence of all maps of
        pairs, oldest first, without their values.

        Sessions that were withdrawn are left out.
        """
        columns = ("session", "case", "started", "stack", "fabric", "evidence")
        kept = ~pl.col("session").is_in(list(self.withdrawn))
        return (
            self.scan("pair_maps", system)
            .select(columns)
            .filter(kept)
            .sort("started", "case")
            .collect()
        )

    def pair_maps(
        self, system: str | None = None, sessions: Collection[str] | None = None
    ) -> list[StoredPairMap]:
        """Maps of pairs, oldest first, whatever their evidence; none
        where nothing of the kind was measured.

        :param sessions: only these session ids; those that were withdrawn are left out.
        """
        there = {path.stem for path in self.files("pair_maps", system)} - set(self.withdrawn)
        wanted = there if sessions is None else there & set(sessions)
        old = self.scan("pairs", system, wanted).collect()
        by_case = old.partition_by("session", "case", as_dict=True)
        maps = []
        for row in (
            self.scan("pair_maps", system, wanted)
            .sort("started", "case")
            .collect()
            .iter_rows(named=True)
        ):
            tree = None
            if row["origin"]:
                switches = {
                    switch["name"]: Switch(switch["parent"], tuple(switch["nodes"]))
                    for switch in row["switches"]
                }
                tree = SwitchTree(row["origin"], switches, tuple(row["notes"]))
            folders = (str(self.folder.absolute() / MAPS),)
            values: Sequence[PairValue] | MapFile
            if row["file"]:
                values = MapFile(row["file"].removesuffix(".parquet"), folders)
            elif (own := by_case.get((row["session"], row["case"]))) is not None:
                values = [PairValue(*one) for one in own.select(PairValue._fields).iter_rows()]
            else:
                raise BadInput(
                    "file-missing",
                    f"the values of the map of pairs of session {row['session']} are gone from "
                    f"{self.folder / 'pairs'}: {_REPAIR}",
                )
            silent = {node_row["node"]: node_row["why"] for node_row in row["silent"]}
            about = (
                row["design"],
                row["seed"],
                row["rounds"],
                tuple(row["hosts"]),
                silent,
                values,
                tree,
            )
            found = PairMap(*about, row["oversubscription"], row["shared_cores"] or "")
            maps.append(
                StoredPairMap({name: row[name] for name in (*CASE_COLUMNS, "system")}, found)
            )
        return maps

    # Export
    # ----------------------------------------------------------------------------------------------

    def export(self, db: Path, sessions: Sequence[str] | None = None) -> dataset.Summary:
        """As :func:`dataset.export`, into this one."""
        self.reread()
        return dataset.export(db, self.folder, sessions)

    def bring_up_to_date(self, db: Path, *, without_db: bool = False) -> list[str]:
        """Export the sessions of a results database that are lacking or
        cannot be read; says which it had to leave out.

        :param without_db: the dataset is all there is; nothing newer is expected.
        """
        if without_db:
            self.require()
            return []
        if not db.is_file():
            raise BadInput(
                "session-missing",
                f"there is no results database {db}, so the newest session is not known: name it "
                f"with --db, or say --dataset-only to judge what {self.folder} holds.",
            )
        self.reread()
        known = session_starts(db)
        if not known and self.session_systems:
            raise BadInput(
                "session-missing",
                f"the results database {db} holds no session, but the dataset {self.folder} "
                "does: restore it from a copy, name another one with --db, or say "
                "--dataset-only to judge what the dataset holds.",
            )
        kept = {
            refused.session
            for refused in records.refusals(self.folder)
            if refused.database == str(db.resolve())
        }
        records.forget_refusals(self.folder, kept - set(known))
        unreadable = {
            path.stem for table in SCHEMAS for path, why in self._look(table, None).items() if why
        }
        maps = scan_files(self.files("pair_maps", unreadable_too=True), "pair_maps")
        files = maps.select("session", "file").drop_nulls().collect().iter_rows()
        unreadable |= {uuid for uuid, name in files if not (self.folder / MAPS / name).is_file()}
        lacking = [uuid for uuid in known if uuid not in self.session_systems or uuid in unreadable]
        try:
            if lacking:
                self.export(db, lacking)
        except dataset.RefusedSessions as refused:
            return [f"not exported: {sentence}" for sentence in refused.summary.refused]
        finally:
            self.reread()
        return []


@dataclass(frozen=True)
class StoredNight:
    """One session of one system; what is asked of it is read once and kept.

    :param withdrawn_too: it may be one that was withdrawn, and so may those before it.
    """

    store: Store
    system: str
    session: str
    withdrawn_too: bool = False

    @cached_property
    def alike(self) -> selectors.Alike:
        """The series it belongs to."""
        known = self.store.sessions(self.system, withdrawn_too=self.withdrawn_too)
        return selectors.alike(known, self.session)

    @property
    def series(self) -> list[str]:
        """Ids of the sessions of its series up to itself."""
        return [*self.alike.earlier, self.session]

    @cached_property
    def cases(self) -> pl.DataFrame:
        """Its rows of the table ``cases``."""
        return self._rows([self.session])

    @cached_property
    def eligible(self) -> pl.DataFrame:
        return eligibility.split_cases(self.cases).eligible

    @cached_property
    def earlier(self) -> pl.DataFrame:
        """Rows of the newest sessions of its series before it; none if the dataset lacks it."""
        there = self.cases.height
        return self._rows(self.alike.earlier[-selectors.MOST_EARLIER :] if there else ())

    def _rows(self, sessions: Sequence[str]) -> pl.DataFrame:
        return self.store.cases_of(self.system, sessions, withdrawn_too=self.withdrawn_too)

    @property
    def before(self) -> pl.DataFrame:
        """Rows of the one before it, none where there is none."""
        return self.earlier.filter(pl.col("session").is_in(self.series[-2:-1]))

    @property
    def started(self) -> datetime:
        started: datetime = self.cases["started"][0]
        return started


def _unreadable(paths: Sequence[Path], table: str) -> dict[Path, str]:
    """Why each of some files is none of this table, of this layout, in
    this place, and what to do; empty if it is.

    What its digest fits is what the export wrote, and is trusted.
    """
    return {path: _fault(path, table) for path in paths}


def _fault(path: Path, table: str) -> str:
    try:
        datetime.strptime(path.parent.name, "date=%Y-%m-%d")
    except ValueError:
        return f"{path} is in a folder without a date: remove it and export that session again."
    try:
        content = path.read_bytes()
        schema, said = pl.read_parquet_schema(path), pl.read_parquet_metadata(path)
    except (*_DAMAGED, OSError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"{path} is truncated or not a Parquet file ({first}): {_REPAIR}"
    version = said.get(VERSION_KEY)
    place = said.get(PLACE_KEY)
    if dict(schema) != dict(READ.get(str(version), {}).get(table, {})):
        return (
            f"{path} has another layout than {LAYOUT}, which this program reads "
            f"({version or 'none is named'}): export that session again, or remove it."
        )
    if not is_as_written(content):
        return f"{path} is truncated or damaged (its checksum is wrong): {_REPAIR}"
    if place != place_of(path):
        return f"{path} was moved from {place}: remove it, and export the sessions again."
    return ""


def _measured_map(cases: Path) -> bool:
    """Whether a test of maps was among the cases of a session; also where they cannot be read."""
    try:
        names = pl.read_parquet(cases, columns=["name"], hive_partitioning=False, glob=False)
    except (*_DAMAGED, OSError):
        return True
    return not names.filter(pl.col("name").str.contains(r"^\w*Map\b")).is_empty()


def _has_map(report: Path) -> bool:
    """Whether a session measured a map on the system of a run report; also
    where its report cannot be read.
    """
    try:
        text = pl.read_parquet(
            report, columns=["report"], hive_partitioning=False, glob=False
        ).item()
        return '"pair_map":{"' in text and any(
            case.pair_map and report.parts[-3] == f"system={case.system}"
            for case in decode(text, str(report)).cases
        )
    except (*_DAMAGED, OSError, ValueError, BadInput):
        return True


def _one_quantity_a_point(values: pl.DataFrame) -> pl.DataFrame:
    """A size's latency and bandwidth are one number in two forms: the one that comes first in
    :data:`.vocabulary.JUDGED` stays. So PingPong is judged by its latency at all sizes, and its
    bandwidth by references only.
    """
    point = [name for name in METRIC if name != "quantity"]
    rank = pl.col("quantity").replace_strict(
        {quantity: rank for rank, quantity in enumerate(JUDGED)}, return_dtype=pl.Int32
    )
    return values.filter(rank == rank.min().over(*point))


def scan_files(paths: Sequence[Path], table: str) -> pl.LazyFrame:
    """Rows of readable files, the partition columns included."""
    own = (SCHEMAS if table in SCHEMAS else OLD_SCHEMAS)[table]
    whole = pl.Schema({**own, **PARTITION_SCHEMA})
    if not paths:
        return pl.LazyFrame(schema=whole)
    return pl.scan_parquet(
        [*paths],
        schema=own,
        missing_columns="insert",
        hive_partitioning=True,
        hive_schema=PARTITION_SCHEMA,
    ).select(whole.names())
