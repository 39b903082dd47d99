"""The small language in which every command selects sessions and cases.

Sessions (ReFrame's session selectors, manual "Querying past results", where ReFrame has them)::

    4f2a7c10-...            one session, by its id
    4f2a                    the same by a unique beginning of it (ours)
    latest, latest~2        the newest session, the third newest (ours)
    night, night~1          the last night, the one before (ours): sessions
    with a label ``run``, as ``ci/nightly`` gives one,
                            that are whole; if there is none, those with a label, else any
    20261101:20261115       sessions started in a period, end excluded;
    YYYYmmdd[THHMM[SS[+ZZZZ]]] or now, each with
                            an offset such as now-7d, in m, h, d or w
    ?'run == "nightly"'     sessions whose labels (--session-extras) fulfil an expression
    now-7d:now?run=="nightly"   both

A confirmation run (label :data:`.sessions.CONFIRMS`) is neither a night nor a sample of the
machine: only its id selects it, or an expression on that label.

Join several with commas: ``4f2a,77b0``. Expressions are SQL as Polars reads it: names, strings,
numbers, ``and or not in == != < <= > >=`` and parentheses. Cases are filtered with the same
expressions over the columns of the table ``cases`` (``--where 'fabric == "lo" and ppn > 1'``).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple

import polars as pl
import polars.selectors as cs

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput, meant

from . import selection_options
from .dataset_layout import read_labels
from .records import UnreadableSession
from .sessions import CONFIRMS

#: Selectors that count back.
LATEST = "latest"
NIGHT = "night"
_COUNTED = re.compile(rf"({LATEST}|{NIGHT})(?:~(\d{{1,6}}))?")
_UUID_START = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{2,35}")


def parse_expression(text: str) -> pl.Expr:
    """An expression as Polars reads it; strings may use either quotes."""
    # ``group`` is a column of ours and a word of SQL's; between quotes
    # there is an even number of them to the end.
    named = re.sub(r"\bgroup\b(?=[^']*(?:'[^']*'[^']*)*$)", '"group"', text.replace('"', "'"))
    try:
        return pl.sql_expr(named)
    except pl.exceptions.PolarsError:
        raise BadInput(
            "bad-option", f"{text!r} is not an expression: write for instance \"run == 'nightly'\"."
        ) from None


def matching(rows: pl.DataFrame, text: str, what: str) -> pl.DataFrame:
    """Rows that fulfil an expression; one without a field that decides does not."""
    expression = parse_expression(text)
    unknown = sorted(set(expression.meta.root_names()) - set(rows.columns))
    if unknown:
        raise BadInput(
            "unknown-name",
            f"{unknown[0]!r} in {text!r} is unknown{meant(unknown[0], rows.columns)}; the {what} "
            f"are: "
            f"{', '.join(sorted(rows.columns))}.",
        )
    try:
        return rows.filter(expression)
    except pl.exceptions.PolarsError as error:
        raise BadInput(
            "bad-option",
            f"{text!r} cannot be evaluated ({one_line(str(error))[:120]}): quote strings, and only "
            "strings.",
        ) from None


def _period(text: str) -> tuple[datetime, datetime]:
    """Begin and end as ReFrame 4.10 reads them."""
    from reframe.frontend.reporting import utility

    try:
        first, last = (
            datetime.fromtimestamp(stamp, timezone.utc) for stamp in utility.parse_time_period(text)
        )
    except (ValueError, OverflowError, OSError):
        raise BadInput(
            "bad-option",
            f"{text!r} is not a period: write START:END, each YYYYmmdd, YYYYmmddTHHMM or now, with "
            "or without an offset as in now-7d.",
        ) from None
    if first >= last:
        raise BadInput("bad-option", f"period {text!r} ends before it begins.")
    return first, last


def sessions_table(cases: pl.LazyFrame) -> pl.DataFrame:
    """One row per session and system of the table ``cases``, newest last.

    Columns ``session``, ``started``, ``labels``, ``system``, ``cmdline`` (null where it is not
    stored) and ``level``, at which a session without the label ``run`` was measured; null for the
    others, whose conditions are not read for it.
    """
    found = cases.group_by("session", "started", "labels", "system").agg(
        pl.col("cmdline").drop_nulls().first()
    )
    levels = (
        cases.filter(~pl.col("labels").fill_null("").str.contains('"run":', literal=True))
        .select("session", level=pl.col("condition").str.json_path_match("$.depth"))
        .drop_nulls()
        .group_by("session")
        .agg(pl.col("level").unique().sort().str.join(", "))
    )
    return (
        found.join(levels, on="session", how="left").sort("started", "session", "system").collect()
    )


@dataclass(frozen=True)
class Alike:
    """The series a session belongs to: a smoke test is not a night of the nightly series.

    Its label says so. Sessions without one are a series only where they are the same kind of
    measurement: level, mode and selection options are the same. Whole ones count for one with
    options, too, and none with options for a whole one.

    :param earlier: ids of the sessions of that series that started before, oldest first.
    :param other: how many earlier sessions without a label are of another kind, and not taken.
    :param kind: what those without a label that were taken have in common; empty with a label.
    """

    run: str | None
    earlier: tuple[str, ...]
    runs: frozenset[str]
    other: int = 0
    kind: str = ""

    def __str__(self) -> str:
        sessions = f"{len(self.earlier)} earlier session{'' if len(self.earlier) == 1 else 's'}"
        if self.run is not None:
            return f"{sessions} of its label"
        ends = list(
            dict.fromkeys(identity[:8] for identity in (*self.earlier[:1], *self.earlier[-1:]))
        )
        taken = f" ({' to '.join(ends)})" if ends else ""
        return f"{sessions} without a label{taken}, {self.kind}" + (
            f"; {self.other} of another kind" if self.other else ""
        )


class _Kind(NamedTuple):
    """What makes two sessions without a label the same kind of measurement."""

    level: str | None
    mode: str | None
    options: tuple[str, ...]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Kind:
        command = row.get("cmdline") or ""
        return cls(
            row.get("level"),
            selection_options.mode_of(command),
            selection_options.narrowing(command),
        )

    def __str__(self) -> str:
        named = [
            f"{name} {value}"
            for name, value in (("level", self.level), ("mode", self.mode))
            if value
        ]
        return ", ".join(
            [*named, f"whole or with {' '.join(self.options)}" if self.options else "whole"]
        )


def runs_of(sessions: pl.DataFrame) -> dict[str, str | None]:
    """Label ``run`` of each session, in the table's order; ``None`` if it has none.

    :param sessions: :func:`sessions_table` of one system.
    """
    return {
        session: read_labels(labels).get("run")
        for session, labels in sessions.select("session", "labels").iter_rows()
    }


def alike(sessions: pl.DataFrame, session: str) -> Alike:
    """Sessions of the same series as one of them.

    :param sessions: :func:`sessions_table` of one system.
    """
    runs = runs_of(sessions)
    before = list(itertools.takewhile(lambda other: other != session, runs))
    labelled = frozenset(run for run in runs.values() if run is not None)
    same = tuple(other for other in before if runs[other] == runs[session])
    if runs[session] is not None:
        return Alike(runs[session], same, labelled)
    kinds = {
        row["session"]: _Kind.of(row) for row in sessions.to_dicts() if runs[row["session"]] is None
    }
    mine = kinds[session]
    earlier = tuple(other for other in same if kinds[other] in (mine, mine._replace(options=())))
    return Alike(None, earlier, labelled, len(same) - len(earlier), str(mine))


#: Sessions before one that tell what is usual.
MOST_EARLIER = 30


def split(text: str) -> list[str]:
    """Parts of a selector, separated by commas outside quotes, parentheses and brackets."""
    parts = [""]
    depth = 0
    quote = ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts]


def select(
    selector: str, sessions: pl.DataFrame, *, unreadable: Sequence[UnreadableSession] = ()
) -> list[str]:
    """Ids of the sessions a selector means, oldest first, each once.

    :param sessions: :func:`sessions_table`.
    :param unreadable: sessions that exist and cannot be judged. ``latest`` counts them, and none of
        them is passed over in favour of an older one.
    """
    rows = sessions.to_dicts()
    chosen: set[str] = set()
    for part in split(selector):
        _refuse_unreadable(part, rows, unreadable)
        found = _select_one(part, rows)
        if not found:
            span = (
                f"{rows[0]['started']:%Y-%m-%d} to {rows[-1]['started']:%Y-%m-%d}"
                if rows
                else "none"
            )
            count = sessions["session"].n_unique()
            raise BadInput(
                "bad-option",
                f"selector {part!r} selects none of the {count} sessions in the dataset ({span})"
                f"{meant(part, [row['session'][: len(part)] for row in rows])}.",
            )
        chosen |= found
    return list(dict.fromkeys(row["session"] for row in rows if row["session"] in chosen))


def _refuse_unreadable(
    part: str, rows: Sequence[Mapping[str, Any]], unreadable: Sequence[UnreadableSession]
) -> None:
    """Refuse a part that means an unreadable session by its place or
    id, or whose newest session may be one.
    """
    if not unreadable:
        return
    lost = {session.session: session for session in unreadable}
    stand_ins = [
        {"session": session.session, "started": session.started, "labels": "{}", "system": ""}
        for session in unreadable
    ]
    everything = sorted([*rows, *stand_ins], key=lambda row: (row["started"], row["session"]))
    period, mark, _ = part.partition("?")
    # What labels an unreadable session has is unknown: it may be meant.
    asked = _select_one(period, everything) if period else {row["session"] for row in everything}
    if back := _COUNTED.fullmatch(part):
        # Counted back over those that cannot be read, too: behind one
        # of them nobody knows which is meant.
        counted = _counted(back[1], everything, lost)[-1 - int(back[2] or 0) :]
        refused = [identity for identity in reversed(counted) if identity in lost]
    elif not mark and ":" not in part:
        refused = sorted(asked & set(lost))
    else:
        newest = [row["session"] for row in everything if row["session"] in asked][-1:]
        refused = [identity for identity in newest if identity in lost]
    if refused:
        verb = "means" if refused[0] in asked else "counts"
        raise BadInput(
            "file-unreadable",
            f"selector {part!r} {verb} session {refused[0][:8]}, which cannot be read: "
            f"{lost[refused[0]].why}",
        )


def _own(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if CONFIRMS not in read_labels(row["labels"])]


def _counted(word: str, rows: Sequence[Mapping[str, Any]], lost: Container[str] = ()) -> list[str]:
    """Ids of the sessions over which a selector counts back, oldest first.

    :param lost: of those that cannot be read: each may be a night.
    """
    own = _own(rows)
    known = [row for row in own if row["session"] not in lost]
    labelled = [row for row in known if "run" in read_labels(row["labels"])]
    whole = [row for row in labelled if not selection_options.narrowing(row.get("cmdline") or "")]
    nights = {row["session"] for row in (known if word == LATEST else whole or labelled or known)}
    return list(
        dict.fromkeys(
            row["session"] for row in own if row["session"] in nights or row["session"] in lost
        )
    )


def _select_one(part: str, rows: Sequence[Mapping[str, Any]]) -> set[str]:
    ids = list(dict.fromkeys(row["session"] for row in rows))
    if match := _COUNTED.fullmatch(part):
        back = int(match[2] or 0)
        known = _counted(match[1], rows)
        return {known[-1 - back]} if back < len(known) else set()
    if _UUID_START.fullmatch(part) and ":" not in part:
        found = [identity for identity in ids if identity.startswith(part.lower())]
        if len(found) > 1:
            raise BadInput(
                "ambiguous-name",
                f"{part!r} is the beginning of {len(found)} sessions: give more of the id.",
            )
        return set(found)
    period, mark, condition = part.partition("?")
    if not mark and ":" not in period:
        if part in ids:  # databases of other tools may use other ids
            return {part}
        raise BadInput(
            "bad-option",
            f"{part!r} is not a selector{meant(part, (LATEST, NIGHT))}: give a session id, "
            f"{LATEST}, {NIGHT}, a period START:END, or ?'EXPRESSION over session labels'.",
        )
    text = _unquoted(condition)
    kept = (
        list(rows) if mark and CONFIRMS in parse_expression(text).meta.root_names() else _own(rows)
    )
    if period:
        first, last = _period(period)
        kept = [row for row in kept if first <= row["started"] < last]
    if mark:
        fields = [
            {**read_labels(row["labels"]), "uuid": row["session"], "system": row["system"]}
            for row in rows
        ]
        table = pl.DataFrame(fields, infer_schema_length=None)
        chosen = set(matching(table, text, "labels of the sessions")["uuid"]) if rows else set()
        kept = [row for row in kept if row["session"] in chosen]
    return {row["session"] for row in kept}


def _unquoted(text: str) -> str:
    """An expression that kept the shell's quotes around it."""
    text = text.strip()
    whole = len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and text[0] not in text[1:-1]
    return text[1:-1] if whole else text


def filter_cases(frame: pl.DataFrame, where: str | None) -> pl.DataFrame:
    """Cases that fulfil an expression over their columns; all of them without one."""
    if not where:
        return frame
    kept = matching(frame, where, "columns of a case")
    if not kept.height:
        texts = frame.select(cs.string()).unpivot()["value"].drop_nulls().unique()
        asked = re.findall("'([^']+)'", where.replace('"', "'"))
        like = "".join(meant(word, texts) for word in asked if word not in texts)
        raise BadInput(
            "nothing-measured", f"--where {where!r} keeps none of {frame.height} cases{like}."
        )
    return kept
