"""The one small language in which every command says which sessions and cases it means.

Sessions (ReFrame's session selectors, manual "Querying past results", where ReFrame has them)::

    4f2a7c10-...            one session, by its id
    4f2a                    the same by a unique beginning of it (ours)
    latest, latest~2        the newest session, the third newest (ours)
    20261101:20261115       sessions started in a period, end excluded; YYYYmmdd[THHMM[SS[+ZZZZ]]] or now, each with
                            an offset such as now-7d, in m, h, d or w
    ?'run == "nightly"'     sessions whose labels (--session-extras) fulfil an expression
    now-7d:now?run=="nightly"   both

A session that measured again what was called in another one (label :data:`.sessions.CONFIRMS`) is no night and no sample of the
machine: only its id means it, or an expression that asks for that label.

Several are joined with commas: ``4f2a,77b0``. The expression is Python's: names,
texts, numbers, ``and or not in == != < <= > >=`` and parentheses; nothing else is evaluated. Cases are filtered with the
same expressions over the columns of the table ``cases`` (``--where 'fabric == "lo" and ppn > 1'``).
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import polars as pl

from reframe_tests.harness.vocabulary import BadInput

from . import selection_options
from .dataset_layout import read_labels
from .sessions import CONFIRMS
from .unreadable import Unreadable

#: ReFrame 4.10, ``frontend/reporting/utility.py::_parse_timestamp``.
TIME_FORMATS = ("%Y%m%d", "%Y%m%dT%H%M", "%Y%m%dT%H%M%S", "%Y%m%dT%H%M%S%z")
_OFFSET = re.compile(r"(?P<time>.*?)(?P<amount>[+-]\d+)(?P<unit>[mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LATEST = re.compile(r"latest(?:~(\d{1,6}))?")
_UUID_START = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{2,35}")

_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


class _Unknown(Exception):
    """A name that this row does not have."""


@dataclass(frozen=True)
class Expression:
    """A checked expression over the fields of one session or case.

    :param text: as given.
    """

    text: str
    tree: ast.expr

    @property
    def names(self) -> set[str]:
        """Names it asks for."""
        return {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}

    def holds(self, row: Mapping[str, Any]) -> bool:
        """True where the row fulfils it; a row without one of the names does not (as in ReFrame).

        :raises BadInput: a text is compared with a number.
        """
        try:
            return bool(_value(self.tree, row))
        except _Unknown:
            return False
        except TypeError:
            shown = {name: row.get(name) for name in sorted(self.names)}
            raise BadInput(f"expression {self.text!r} compares text with a number ({shown}): quote the text.") from None


def parse_expression(text: str) -> Expression:
    """Check an expression; nothing but comparisons of names and constants is allowed.

    :raises BadInput: it is not such an expression.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput(f"{text!r} is not an expression: write for instance 'run == \"nightly\"'.") from None
    for node in ast.walk(tree):
        if isinstance(node, (ast.BoolOp, ast.boolop, ast.Compare, ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple)):
            continue
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            continue
        if isinstance(node, (ast.Not, ast.USub)) or type(node) in _COMPARE:
            continue
        raise BadInput(
            f"expression {text!r} holds {type(node).__name__}: only names, constants, comparisons, and, or, not are allowed."
        )
    return Expression(text, tree)


def _value(node: ast.expr, row: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.BoolOp):
        found = (_value(one, row) for one in node.values)
        return all(found) if isinstance(node.op, ast.And) else any(found)
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, row)
        return not value if isinstance(node.op, ast.Not) else -value
    if isinstance(node, ast.Compare):
        left = _value(node.left, row)
        for comparison, right_node in zip(node.ops, node.comparators, strict=True):
            right = _value(right_node, row)
            if not _COMPARE[type(comparison)](left, right):
                return False
            left = right
        return True
    if isinstance(node, ast.Name):
        if row.get(node.id) is None:
            raise _Unknown(node.id)
        return row[node.id]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(one, row) for one in node.elts]
    assert isinstance(node, ast.Constant)
    return node.value


def parse_time(text: str, now: datetime) -> datetime:
    """A point in time as ReFrame writes it; without a zone it is local time, as in ReFrame.

    :raises BadInput: it is none.
    """
    for pattern in TIME_FORMATS:
        try:
            return datetime.strptime(text, pattern).astimezone(timezone.utc)
        except ValueError:
            continue
    if text == "now":
        return now
    match = _OFFSET.fullmatch(text)
    if not match:
        raise BadInput(f"{text!r} is not a point in time: write YYYYmmdd, YYYYmmddTHHMM, now, or one with an offset as now-7d.")
    try:
        return parse_time(match["time"], now) + timedelta(**{_UNITS[match["unit"]]: int(match["amount"])})
    except OverflowError:
        raise BadInput(f"{text!r} is further away than a calendar reaches.") from None


def sessions_table(cases: pl.LazyFrame) -> pl.DataFrame:
    """One row per session and system of the table ``cases``, newest last.

    Columns ``session``, ``started``, ``labels``, ``system``, ``cmdline`` (null where it is not stored) and ``level``, at which
    a session without the label ``run`` was measured; null for the others, whose conditions are not read for it.
    """
    found = cases.group_by("session", "started", "labels", "system").agg(pl.col("cmdline").drop_nulls().first())
    levels = (
        cases.filter(~pl.col("labels").fill_null("").str.contains('"run":', literal=True))
        .select("session", level=pl.col("condition").str.json_path_match("$.depth"))
        .drop_nulls()
        .group_by("session")
        .agg(pl.col("level").unique().sort().str.join(", "))
    )
    return found.join(levels, on="session", how="left").sort("started", "session", "system").collect()


@dataclass(frozen=True)
class Alike:
    """The series a session belongs to: a smoke test is not a night of the nightly series.

    Its label says so. Sessions without one are a series only where they are the same kind of measurement: level, mode and
    selection options are the same. Whole ones count for one with options, too, and none with options for a whole one.

    :param run: label ``run`` of the session; ``None`` without one.
    :param earlier: ids of the sessions of that series that started before, oldest first.
    :param runs: all labels on that system.
    :param other: how many earlier sessions without a label are of another kind, and not taken.
    :param kind: what those without a label that were taken have in common; empty with a label.
    """

    run: str | None
    earlier: tuple[str, ...]
    runs: frozenset[str]
    other: int = 0
    kind: str = ""

    def __str__(self) -> str:
        """Which earlier sessions were taken, as part of a sentence."""
        sessions = f"{len(self.earlier)} earlier session{'' if len(self.earlier) == 1 else 's'}"
        if self.run is not None:
            return f"{sessions} of its label"
        ends = list(dict.fromkeys(one[:8] for one in (*self.earlier[:1], *self.earlier[-1:])))
        taken = f" ({' to '.join(ends)})" if ends else ""
        return f"{sessions} without a label{taken}, {self.kind}" + (f"; {self.other} of another kind" if self.other else "")


class _Kind(NamedTuple):
    """What makes two sessions without a label the same kind of measurement."""

    level: str | None
    mode: str | None
    options: tuple[str, ...]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Kind:
        command = row.get("cmdline") or ""
        return cls(row.get("level"), selection_options.mode_of(command), selection_options.narrowing(command))

    def __str__(self) -> str:
        """As part of a sentence: ``level smoke, mode smoke, whole``."""
        named = [f"{name} {value}" for name, value in (("level", self.level), ("mode", self.mode)) if value]
        return ", ".join([*named, f"whole or with {' '.join(self.options)}" if self.options else "whole"])


def runs_of(sessions: pl.DataFrame) -> dict[str, str | None]:
    """Label ``run`` of each session, in the table's order; ``None`` where it has none.

    :param sessions: :func:`sessions_table` of one system.
    """
    return {session: read_labels(labels).get("run") for session, labels in sessions.select("session", "labels").iter_rows()}


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
    kinds = {row["session"]: _Kind.of(row) for row in sessions.to_dicts() if runs[row["session"]] is None}
    mine = kinds[session]
    earlier = tuple(other for other in same if kinds[other] in (mine, mine._replace(options=())))
    return Alike(None, earlier, labelled, len(same) - len(earlier), str(mine))


def split(text: str) -> list[str]:
    """Parts of a selector, separated by commas outside quotes, parentheses and brackets."""
    parts, depth, quote = [""], 0, ""
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
    selector: str, sessions: pl.DataFrame, *, now: datetime | None = None, unreadable: Sequence[Unreadable] = ()
) -> list[str]:
    """Ids of the sessions a selector means, oldest first, each once.

    :param sessions: :func:`sessions_table`.
    :param unreadable: sessions that exist and cannot be judged. ``latest`` counts them, and none of them is passed over in
        favour of an older one.
    :raises BadInput: it cannot be read, selects nothing, or the newest it means is unreadable.
    """
    rows = sessions.to_dicts()
    now = now or datetime.now(timezone.utc)
    chosen: set[str] = set()
    for part in split(selector):
        _refuse_unreadable(part, rows, unreadable, now)
        found = _select_one(part, rows, now)
        if not found:
            span = f"{rows[0]['started']:%Y-%m-%d} to {rows[-1]['started']:%Y-%m-%d}" if rows else "none"
            count = sessions["session"].n_unique()
            raise BadInput(f"selector {part!r} selects none of the {count} sessions in the dataset ({span}).")
        chosen |= found
    return list(dict.fromkeys(row["session"] for row in rows if row["session"] in chosen))


def _refuse_unreadable(part: str, rows: Sequence[Mapping[str, Any]], unreadable: Sequence[Unreadable], now: datetime) -> None:
    """Refuse a part that means an unreadable session by its place or id, or whose newest session may be one."""
    if not unreadable:
        return
    lost = {one.session: one for one in unreadable}
    beside = [{"session": one.session, "started": one.started, "labels": "{}", "system": ""} for one in unreadable]
    everything = sorted([*rows, *beside], key=lambda row: (row["started"], row["session"]))
    period, mark, _ = part.partition("?")
    # What labels an unreadable session has is not known: it may be meant.
    meant = _select_one(period, everything, now) if period else {row["session"] for row in everything}
    if back := _LATEST.fullmatch(part):
        # Counted back over those that cannot be read, too: behind one of them nobody knows which is meant.
        counted = list(dict.fromkeys(row["session"] for row in _own(everything)))[-1 - int(back[1] or 0) :]
        refused = [one for one in reversed(counted) if one in lost]
    elif not mark and ":" not in part:
        refused = sorted(meant & set(lost))
    else:
        newest = [row["session"] for row in everything if row["session"] in meant][-1:]
        refused = [one for one in newest if one in lost]
    if refused:
        verb = "means" if refused[0] in meant else "counts"
        raise BadInput(f"selector {part!r} {verb} session {refused[0][:8]}, which cannot be read: {lost[refused[0]].why}")


def _own(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows of the sessions that do not confirm another one."""
    return [row for row in rows if CONFIRMS not in read_labels(row["labels"])]


def _select_one(part: str, rows: Sequence[Mapping[str, Any]], now: datetime) -> set[str]:
    ids = list(dict.fromkeys(row["session"] for row in rows))
    if match := _LATEST.fullmatch(part):
        back, known = int(match[1] or 0), list(dict.fromkeys(row["session"] for row in _own(rows)))
        return {known[-1 - back]} if back < len(known) else set()
    if _UUID_START.fullmatch(part) and ":" not in part:
        found = [one for one in ids if one.startswith(part.lower())]
        if len(found) > 1:
            raise BadInput(f"{part!r} is the beginning of {len(found)} sessions: give more of the id.")
        return set(found)
    period, mark, condition = part.partition("?")
    if not mark and ":" not in period:
        if part in ids:  # databases of other tools may use other ids
            return {part}
        raise BadInput(
            f"{part!r} is not a selector: give a session id, latest, a period START:END, or ?'EXPRESSION over session labels'."
        )
    expression = parse_expression(_unquoted(condition)) if mark else None
    kept = list(rows) if expression and CONFIRMS in expression.names else _own(rows)
    if period:
        start, colon, end = period.partition(":")
        if not colon:
            raise BadInput(f"{period!r} is not a period: write START:END, for instance now-7d:now.")
        first, last = parse_time(start, now), parse_time(end, now)
        if first >= last:
            raise BadInput(f"period {period!r} ends before it begins.")
        kept = [row for row in kept if first <= row["started"] < last]
    if mark:
        expression = parse_expression(_unquoted(condition))
        fields = [_fields(row) for row in rows]
        _check_names(expression, fields, "labels of the sessions")
        kept = [row for row in kept if expression.holds(_fields(row))]
    return {row["session"] for row in kept}


def _unquoted(text: str) -> str:
    """An expression that kept the shell's quotes around it."""
    text = text.strip()
    whole = len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and text[0] not in text[1:-1]
    return text[1:-1] if whole else text


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**read_labels(row["labels"]), "uuid": row["session"], "system": row["system"]}


def _check_names(expression: Expression, rows: Iterable[Mapping[str, Any]], what: str) -> None:
    """A name that no row has is a mistake, not an empty selection."""
    known = {name for row in rows for name in row}
    unknown = sorted(expression.names - known)
    if unknown and known:
        raise BadInput(f"{unknown[0]!r} in {expression.text!r} is unknown; the {what} are: {', '.join(sorted(known))}.")


def filter_cases(frame: pl.DataFrame, where: str | None) -> pl.DataFrame:
    """Cases that fulfil an expression over their columns; all of them without one.

    :raises BadInput: the expression cannot be read, names no column, or keeps nothing.
    """
    if not where:
        return frame
    expression = parse_expression(where)
    _check_names(expression, [dict.fromkeys(frame.columns)], "columns of a case")
    # One look per distinct combination: a year of cases has few.
    names = sorted(expression.names)
    distinct = frame.select(names).unique() if names else frame.head(0)
    kept = [row for row in distinct.to_dicts() if expression.holds(row)]
    if not kept:
        raise BadInput(f"--where {where!r} keeps none of {frame.height} cases.")
    return frame.join(pl.DataFrame(kept, schema=distinct.schema), on=names, how="semi", nulls_equal=True)
