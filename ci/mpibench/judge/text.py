"""Sentences about the two sides of a comparison and their verdicts: sizes, conditions, changes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from reframe_tests.harness.printable import few, first_line, plural
from reframe_tests.harness.samples import FAIL
from reframe_tests.harness.stacks.metadata import compute_hash
from reframe_tests.harness.vocabulary import QUANTITIES

from ..stacks import compilation
from ..stacks.probe import suite_of
from ..stacks.spack import lock as stack_lock
from ..store import confirmations, eligibility, selection_options, session_values
from ..store.confirmations import MissedReference
from ..store.dataset_layout import read_condition, read_labels
from ..store.quantity_text import LESS_IS_BETTER, change_text, changes_text, percent_text, size_text
from ..store.session_values import CONDITION, Selection, describe_condition, not_among
from .comparison import (
    IMPROVED,
    INCONCLUSIVE,
    MISSING,
    REGRESSED,
    REPEATS,
    SESSIONS,
    Judgement,
)
from .engine import RowOutcome
from .history import own_programs
from .switches import MovedSwitch

#: What one sentence is about.
_SENTENCE = [*CONDITION, "benchmark", "quantity"]
#: Cases and references that a sentence names; characters of a condition in it.
MOST_NAMES = 3
LONGEST_WHERE = 160


def sizes_text(sizes: Iterable[int | None]) -> str:
    """Some sizes of a curve, shortened to their range."""
    ordered = sorted(set(sizes), key=lambda size: -1 if size is None else size)
    if len(ordered) < 3:
        return " and ".join(map(size_text, ordered))
    return f"{size_text(ordered[0])} to {size_text(ordered[-1])}"


def benchmark_text(row: Mapping[str, Any]) -> str:
    """A benchmark with what distinguishes it from others of its
    name: suite, variant, ranks, groups.
    """
    groups = f" x {row['groups']} groups" if (row["groups"] or 1) > 1 else ""
    ranks = f"{row['ranks']} ranks{groups}" if row["ranks"] else ""
    return f"{row['benchmark']} ({', '.join(filter(None, [row['suite'], row['variant'], ranks]))})"


def quantity_text(quantity: str) -> str:
    return QUANTITIES[quantity].title


# -- sides
# --------------------------------------------------------------------------------------------------


def identities(selection: Selection, now: datetime) -> list[dict[str, Any]]:
    """The sessions of a side: ``session`` (whole id), ``started``,
    ``age_days``, ``labels``, ``cases``, ``options``.
    """
    counted = (
        selection.planned.group_by("session", "started", "labels", "cmdline")
        .agg(pl.len())
        .sort("started", "session")
    )
    return [
        {
            "session": session,
            "started": started.isoformat(),
            "age_days": round((now - started).total_seconds() / 86400, 1),
            "labels": read_labels(labels),
            "cases": cases,
            "options": list(selection_options.narrowing(command_line)) if command_line else [],
        }
        for session, started, labels, command_line, cases in counted.iter_rows()
    ]


def identity_lines(name: str, selection: Selection, now: datetime) -> list[str]:
    """Which sessions a selector meant, one line each: whole id, start, age, labels."""
    side = name if name == selection.selector else f"{name} {selection.selector}"
    lines = []
    for row in identities(selection, now):
        labels = ", ".join(f"{key}={value}" for key, value in row["labels"].items()) or "no label"
        lines.append(
            f"{side}: session {row['session']} of {row['started'][:16].replace('T', ' ')} UTC, "
            f"{row['age_days']:g} days old, {labels}, {plural(row['cases'], 'case')}"
        )
    return lines


def facts(selection: Selection) -> dict[str, list[str]]:
    """What the sessions recorded about machine and software, and their labels."""
    labels: dict[str, set[str]] = {}
    for text in selection.cases["labels"].unique():
        for key, value in read_labels(text).items():
            labels.setdefault(f"session label {key}", set()).add(str(value))
    return {
        **{key: sorted(values) for key, values in sorted(labels.items())},
        **session_values.facts(selection.cases),
    }


def unproven_rows(selection: Selection) -> list[dict[str, Any]]:
    """The cases of a side that were to prove their condition
    and did not, and why, as plain data.
    """
    names = (
        "session",
        "case",
        "name",
        "stack",
        "partition",
        "fabric",
        "nodes",
        "ppn",
        "pinning",
        "group",
        "outputdir",
    )
    rows = []
    for row in selection.unproven.sort("started", "stack", "name").to_dicts():
        reason = next(iter(row["sentences"] or ()), None) or next(
            iter((row["reason"] or "").splitlines()), None
        )
        phase = f" in phase {row['fail_phase']}" if row["fail_phase"] else ""
        why = (
            f"{row['evidence'] or 'no evidence'}, {row['result']}{phase}: "
            f"{reason or 'no reason was stored'}"
        )
        if row["result"] == eligibility.INTERRUPTED:
            why = (
                f"did not run: the session was interrupted ({eligibility.cause_of(row['reason'])})"
            )
        rows.append(
            {**{name: row[name] for name in names}, "group": row["group"] or "", "why": why}
        )
    return rows


def unproven_sentences(selection: Selection) -> list[str]:
    """One sentence per reason and condition, most cases first."""
    counted = Counter((describe_condition(row), row["why"]) for row in unproven_rows(selection))
    return [
        f"{where}: {plural(count, 'case')} {why}" for (where, why), count in counted.most_common()
    ]


def count_unproven(name: str, selection: Selection) -> str:
    """How much of a side is not proven; empty if nothing."""
    count = selection.unproven.height
    return f"{count} of {_cases_of(name, selection)} are not proven" if count else ""


def part_text(sides: Mapping[str, Selection]) -> str:
    """Which condition the cases were chosen by, and how many of
    how many; empty for whole sessions.
    """
    where = next((side.where for side in sides.values() if side.where), None)
    if not where:
        return ""
    counts = []
    for name, side in sides.items():
        chosen = eligibility.owed_proof(side.planned).height
        counts.append(f"{chosen} of {plural(chosen + side.outside.height, 'case')} of {name}")
    return (
        f"only a part is judged, {' and '.join(counts)} (--where "
        f"{first_line(where, LONGEST_WHERE)})"
    )


def failed_text(name: str, selection: Selection) -> str:
    """How many proven cases of a side failed, which, and how many
    references they missed; empty for none.
    """
    owed = eligibility.owed_proof(selection.planned).filter(eligibility.OUTCOME == "failed")
    failed = not_among(owed, selection.unproven, "case")
    if not failed.height:
        return ""
    missed = int(failed.select(eligibility.checks(FAIL).sum()).item())
    text = f"{failed.height} of {_cases_of(name, selection)} failed ({_names(failed)})"
    return f"{text} and missed {plural(missed, 'reference')}" if missed else text


def _names(cases: pl.DataFrame) -> str:
    """Names of some cases, each with its stack."""
    names = [
        f"{name} [{stack}]"
        for name, stack in cases.select("name", "stack").unique(maintain_order=True).iter_rows()
    ]
    return few(names, MOST_NAMES)


def _cases_of(name: str, selection: Selection) -> str:
    return f"{plural(eligibility.owed_proof(selection.planned).height, 'case')} of {name}"


def busy_text(name: str, selection: Selection) -> str:
    """That the machine was busy, as :func:`.session_values.busy`
    says it of a side; empty if it was not.
    """
    text = session_values.busy(selection.cases)
    return f"{name}: {text[:1].lower()}{text[1:]}" if text else ""


def troubles(sides: Mapping[str, Selection]) -> list[str]:
    """Caveats of a comparison of two sides, a sentence each: excluded parts, unproven cases, failed
    cases, and the references they missed.
    """
    found = [part_text(sides)]
    for name, side in sides.items():
        unproven = count_unproven(name, side)
        missed = confirmations.missed_references(side.cases, side.cases.clear())
        worst = sorted(missed, key=lambda miss: -beyond(miss))
        found += [
            f"{unproven} ({_names(side.unproven)})" if unproven else "",
            failed_text(name, side),
            *(
                f"the MPI library of {stack} is {fault}"
                for stack, fault in faulty_libraries(side).items()
            ),
            *(f"missed reference of {name}: {miss.text}" for miss in worst[:MOST_NAMES]),
        ]
    return list(filter(None, found))


def faulty_libraries(side: Selection) -> dict[str, str]:
    """Stacks of a side whose MPI library gives no number worth comparing, with the reason
    (:func:`compilation.find_fault`).
    """
    conditions = [read_condition(text) for text in sorted(side.cases["condition"].unique())]
    found = {
        str(row.get("stack")): compilation.find_fault(row.get("compiled") or {})
        for row in conditions
    }
    return {stack: fault for stack, fault in found.items() if fault}


def beyond(missed: MissedReference) -> float:
    """How far a missed reference lies beyond its bounds, as a fraction."""
    return confirmations.distance(*(missed.check[name] for name in ("value", "lower", "upper")))


def unlike(baseline: Selection, candidate: Selection, missing: int) -> tuple[tuple[str, ...], str]:
    """What makes the sides unlike as a whole, and what that says of what the candidate lacks.

    :returns: sentences, and the reason for absences without one of
        their own (empty: none is known).
    """
    sentences = []
    reason = ""
    # at which the cases were measured; the label ``run`` where they do not say
    levels: list[set[str]] = []
    narrowed = {}  # options of each session that made it smaller than a whole one
    for name, side in (("baseline", baseline), ("candidate", candidate)):
        known = side.cases.select("condition", "labels").unique().iter_rows()
        found = (
            read_condition(condition).get("depth") or read_labels(labels).get("run")
            for condition, labels in known
        )
        levels.append({str(level) for level in found if level})
        sessions = side.planned.select("session", "cmdline").unique(maintain_order=True).iter_rows()
        narrowed[name] = {
            session: selection_options.narrowing(line) if line else () for session, line in sessions
        }
    if levels[0] != levels[1] and all(levels):
        before, after = (" and ".join(sorted(several)) for several in levels)
        lost = (
            f"; {plural(missing, 'metric')} missing, including those that {after} does not measure"
            if missing
            else ""
        )
        sentences.append(
            f"different modes: the baseline was measured as {before}, the candidate as "
            f"{after}{lost}: measure both in the same mode (--mode)"
        )
        reason = f"it was measured as {after}, the baseline as {before}"
    if set(narrowed["baseline"].values()) != set(narrowed["candidate"].values()):
        for name, options in narrowed.items():
            partial = {session: words for session, words in options.items() if words}
            for session, words in partial.items():
                sentences.append(
                    f"partial: {name} session {session} was started with {' '.join(words)}"
                )
            reason = reason or ("its session is partial" if partial and name == "candidate" else "")
    return tuple(sentences), reason


def differing(sides: Sequence[Selection]) -> dict[str, str] | None:
    """How the stacks of two sides differ (:func:`stack_lock.things`) according to their locks and
    to their MPI libraries' reports on how they were compiled; ``None`` if one lock is unknown.
    """
    locks = [_stored(side, "built") for side in sides]
    if not all(locks):
        return None
    return stack_lock.things(
        *({**lock, **_compiled(side)} for lock, side in zip(locks, sides, strict=True))
    )


def _stored(side: Selection, key: str) -> dict[str, str]:
    """What a side's conditions say under a key, where all of them say the
    same; empty if they do not, or nothing.
    """
    found = {
        json.dumps(read_condition(text).get(key), sort_keys=True)
        for text in side.cases["condition"].unique()
    }
    value = json.loads(found.pop()) if len(found) == 1 else None
    return value if isinstance(value, dict) else {}


def _compiled(side: Selection) -> dict[str, str]:
    """How a side's MPI library was compiled, as aspects of :func:`stack_lock.things`."""
    mpis = {str(read_condition(text).get("mpi")) for text in side.cases["condition"].unique()}
    return compilation.aspects(min(mpis, default=""), _stored(side, "compiled"))


#: What compilers of one family are called: by Spack, and by themselves.
_FAMILIES = {"gcc": "gcc", "clang": "clang", "llvm": "clang", "oneapi": "oneapi"}


def built_otherwise(sides: Sequence[Selection], first: str, second: str) -> list[str]:
    """How differently the stacks and programs of both sides were built, as possible causes of a
    difference; and whose MPI library does not report it.
    """
    levels = [_stored(side, "compiled").get("optimisation") for side in sides]
    silent = [
        name
        for name, level in zip((first, second), levels, strict=True)
        if level == compilation.UNKNOWN
    ]
    unknown = (
        [f"it is unknown how the MPI library of {' and of '.join(silent)} was compiled"]
        if silent
        else []
    )
    if (things := differing(sides)) is not None:
        texts = "; ".join(things.values())
        if len(things) > 1:
            said = f"{len(things)} things; each may contribute to the difference: {texts}"
        else:
            said = (
                f"{f'{texts} and in nothing else' if texts else 'nothing'} that their locks record"
            )
        names = [] if things else _other_files(sides)
        other = [
            f"but {' and '.join(names)} of {first} and {second} are different files: one was "
            "changed, or belongs to another Spack store"
        ]
        return [f"{first} and {second} differ in {said}", *(other if names else []), *unknown]
    libraries = stack_lock.things(*map(_compiled, sides)).values()
    unknown += [f"their MPI libraries differ in {'; '.join(libraries)}"] if libraries else []
    reported: list[dict[tuple[str, str], set[str]]] = []
    for side in sides:
        values: dict[tuple[str, str], set[str]] = {}
        for group, text in side.cases.select("group", "condition").unique().iter_rows():
            suites = read_condition(text).get("suites") or {}
            for suite in own_programs(group):
                for what in set(session_values.BUILD_FACTS) & set(suites.get(suite, {})):
                    value = suites[suite][what]
                    values.setdefault((suite, what), set()).add(
                        _name_compiler(value) if what == "compiler" else value
                    )
        reported.append(values)
    otherwise: dict[tuple[str, str], list[str]] = {}
    for suite, what in reported[0].keys() & reported[1].keys():
        one, two = (" or ".join(sorted(values[suite, what])) or "none" for values in reported)
        if one != two:
            otherwise.setdefault((what, f"{one} in {first} and {two} in {second}"), []).append(
                suite
            )
    return [
        f"built differently: {' and '.join(sorted(suites))} with {what} {text}: "
        f"part of the difference may be the {what}'{'' if what.endswith('s') else 's'}"
        for (what, text), suites in sorted(otherwise.items())
    ] + unknown


def _digests(side: Selection) -> dict[str, set[str]]:
    """SHA-256 of the programs and libraries that a side has run, by name."""
    digests: dict[str, set[str]] = {}
    for text in side.cases["condition"].unique():
        for name, digest in (read_condition(text).get("programs") or {}).items():
            digests.setdefault(name, set()).add(digest)
    return digests


def _other_files(sides: Sequence[Selection]) -> list[str]:
    """Programs and libraries that both sides have run, and with other digests."""
    before, after = map(_digests, sides)
    return sorted(name for name in before.keys() & after.keys() if before[name] != after[name])


def same_programs(sides: Sequence[Selection]) -> str:
    """States that both sides ran bit-identical benchmark programs, with their digest; empty if a
    common program differs, or there is none.
    """
    ran = [
        {name: found for name, found in _digests(side).items() if suite_of(name)} for side in sides
    ]
    both = {name: ran[0][name] for name in ran[0].keys() & ran[1].keys()}
    if not both or any(found != ran[1][name] or len(found) > 1 for name, found in both.items()):
        return ""
    digests = {name: next(iter(found)) for name, found in both.items()}
    digest = next(iter(digests.values())) if len(digests) == 1 else compute_hash(digests)
    ran_both = "the same program" if len(digests) == 1 else f"the same {len(digests)} programs"
    return f"both ran {ran_both}, digest {digest[:12]}: only the MPI differs"


def _name_compiler(text: str) -> str:
    """``gcc 12.2.0`` for what Spack calls ``gcc@12.2.0`` and the
    compiler ``gcc (Debian 12.2.0-14) 12.2.0``.
    """
    family = next((name for word, name in _FAMILIES.items() if word in text.lower()), "")
    versions = re.findall(r"\d+(?:\.\d+)+", text)
    return f"{family} {versions[-1]}" if family and versions and ", " not in text else text


# -- verdicts
# --------------------------------------------------------------------------------------------------


def moved_text(move: MovedSwitch) -> str:
    """Where a switch was and is; sizes in between were not measured, so
    that each place is one between two sizes.
    """
    old, new = (" and ".join(map(size_text, ends)) for ends in (move.old, move.new))
    return f"the switch of {move.what} moved from between {old} to between {new}"


def because_text(move: MovedSwitch) -> str:
    """The outcome of the sizes between both places."""
    sizes = sizes_text(move.metrics["message_bytes"])
    count = plural(move.metrics.height, "metric")
    return f"{sizes}: {changes_text(move.metrics)} because of it, {count}"


def moved_sentences(moves: Iterable[MovedSwitch]) -> list[str]:
    """One sentence per move, and beneath it what changed because of
    it, one line per benchmark and condition.
    """
    lines = []
    for move in moves:
        lines.append(
            f"{move.stack} on {move.partition}, {move.fabric}: {moved_text(move)}; "
            f"{because_text(move)}"
        )
        for _, rows in move.metrics.group_by(_SENTENCE, maintain_order=True):
            lines.append(f"  {_where(rows)} {_span(rows, max(rows['slower'], key=abs), 'most')}")
    return lines


def _span(rows: pl.DataFrame, worst: float, name: str) -> str:
    """The changes of metrics of one quantity: the median, and the worst with its name."""
    quantity = rows["quantity"][0]
    middle = float(np.median(rows["slower"]))
    # What is in the same direction is said once.
    most = percent_text(worst, quantity) if middle * worst > 0 else change_text(worst, quantity)
    return f"{_verb(quantity)} {change_text(middle, quantity)} ({name} {most})"


def _verb(quantity: str) -> str:
    """A time is slower, and what has a bandwidth has a lower one."""
    return "is" if quantity in LESS_IS_BETTER else "has"


def _where(rows: pl.DataFrame) -> str:
    first = rows.row(0, named=True)
    return (
        f"{describe_condition(first)}: {first['benchmark']} at {sizes_text(rows['message_bytes'])}"
    )


class VerdictSentence(NamedTuple):
    """The sentence on one benchmark under one condition."""

    verdict: str
    text: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.text}"


def sentences(judgement: Judgement) -> list[VerdictSentence]:
    """What stops acceptance, the worst first: one sentence per benchmark and condition."""
    metrics = judgement.metrics
    bands = judgement.bands

    def groups(table: pl.DataFrame, verdict: str) -> list[pl.DataFrame]:
        return table.filter(pl.col("verdict") == verdict).partition_by(
            _SENTENCE, maintain_order=True
        )

    def because(table: pl.DataFrame, verdict: str) -> list[VerdictSentence]:
        return [
            VerdictSentence(verdict, f"{_where(rows)}: {rows['why'][0]}")
            for rows in groups(table, verdict)
        ]

    slower: list[tuple[float, VerdictSentence]] = []
    for rows in groups(metrics.filter(pl.col("slower").is_not_null()), REGRESSED):
        worst = float(rows.select(pl.max("slower")).item())
        span = _span(rows, worst, "worst")
        if rows.height == 1:
            span = f"{_verb(rows['quantity'][0])} {_with_interval(rows.row(0, named=True))}"
        text = f"{_where(rows)} {span}, {plural(rows.height, 'metric')}"
        slower.append((worst, VerdictSentence(REGRESSED, text)))
    # What rests on no ratio says why.
    unmeasured = metrics.filter(pl.col("ratio").is_null())
    lines = because(unmeasured, REGRESSED)
    lines += [text for _, text in sorted(slower, reverse=True)]
    regressed = metrics.filter(pl.col("verdict") == REGRESSED)
    lone = not_among(bands.filter(pl.col("verdict") == REGRESSED), regressed, _SENTENCE)
    for row in lone.to_dicts():
        what = f"{describe_condition(row)}: {row['benchmark']}, {row['band']} messages"
        lines.append(VerdictSentence(REGRESSED, f"{what}: {_with_interval(row)}"))
    lines += [*because(metrics, MISSING), *because(unmeasured, INCONCLUSIVE)]
    for rows in groups(bands, INCONCLUSIVE):
        first = rows.row(0, named=True)
        what = f"{describe_condition(first)}: {first['benchmark']}, {', '.join(rows['band'])}"
        text = f"{what} messages: {_with_interval(first)}; {needed_text(first)}"
        lines.append(VerdictSentence(INCONCLUSIVE, text))
    return lines


def repeats_sentence(judgement: Judgement, minimum: int) -> str:
    """What is to be done where a side has too few values for any
    verdict; empty if it has enough.
    """
    counts = judgement.metrics.filter(pl.col("verdict") == INCONCLUSIVE).select(
        "baseline_repeats", "candidate_repeats"
    )
    few = counts.filter(pl.min_horizontal(pl.all()) < minimum)
    if not few.height:
        return ""
    baseline, candidate = few.min().row(0)
    return (
        f"too few repeats: {plural(few.height, 'metric')} with only {baseline} (baseline) or "
        f"{candidate} (candidate) values; fewer than {minimum} per side are too few for a verdict; "
        f"measure again with -S repeats={max(minimum, 5)}"
    )


#: Metrics of a night of which no loss would have been called that anybody would want to know of.
_NOT_JUDGED = (pl.col("verdict") == INCONCLUSIVE) & pl.col("why").is_in(
    [RowOutcome.TOO_NOISY.value, RowOutcome.TOO_FEW.value]
)
#: Where the least loss that would be called is one that anybody
#: would call seen: below a fourfold time.
_SEEN = (
    pl.col("seen_percent")
    <= pl.when(pl.col("quantity").is_in(LESS_IS_BETTER)).then(300.0).otherwise(75.0)
).fill_null(False)


def from_to(percents: Iterable[float]) -> str:
    """``3 to 7 %``, or ``3 %`` where the ends are alike."""
    ordered = sorted(percents)
    ends = dict.fromkeys(f"{percent:.0f}" for percent in (ordered[0], ordered[-1]))
    return f"{' to '.join(ends)} %"


def sight(rows: pl.DataFrame) -> str:
    """The smallest loss that would have been reported, by fabric, and what was not judged.

    :param rows: metrics of a judgement, with ``seen_percent``, ``quantity`` and ``fabric``.
    """
    asked = rows.filter(pl.col("verdict") != MISSING, ~_NOT_JUDGED)
    parts = []
    for (fabric,), part in asked.filter(_SEEN).group_by("fabric", maintain_order=True):
        span = from_to(part["seen_percent"])
        parts.append(f"{span} on {fabric}" if fabric else span)
    seen = [f"loss seen from {', '.join(parts)}"] if parts else []
    for (why,), part in rows.filter(_NOT_JUDGED).group_by("why", maintain_order=True):
        least = part.filter(_SEEN)["seen_percent"].min()
        known = f" (loss seen from {least:.0f} %)" if isinstance(least, float) else ""
        seen.append(f"{plural(part.height, 'metric')} not judged: {why}{known}")
    return "; ".join(seen)


def sessions_text(judgement: Judgement) -> str:
    """What so many sessions can tell; empty where sides and no sessions were compared."""
    rows = judgement.metrics.filter(pl.col("units") == SESSIONS, pl.col("sessions").is_not_null())
    if not rows.height:
        return ""
    sessions = (
        rows.group_by("sessions").len().sort("len", "sessions", descending=True)["sessions"][0]
    )
    nothing = rows.filter(pl.col("seen_percent").is_null(), pl.col("ratio").is_not_null()).height
    unseen = f"no loss could be detected in {plural(nothing, 'metric')}" if nothing else ""
    seen = "; ".join(filter(None, [sight(rows), unseen]))
    return f"compared with {plural(sessions, 'session')}: {seen}" if seen else ""


def _with_interval(row: Mapping[str, Any]) -> str:
    if row["slower"] is None:
        return "not compared"
    interval = "" if row["low"] is None else f" [{row['low']:.3f}, {row['high']:.3f}]"
    return f"{change_text(row['slower'], row['quantity'])}, ratio {row['ratio']:.3f}{interval}"


def needed_text(row: Mapping[str, Any]) -> str:
    """What left it open, and how much more measuring would decide."""
    if row["ratio"] is None or (row["why"] and row["units"] == REPEATS):
        return str(row["why"])
    known = []
    if row["spread_percent"]:
        known.append(
            f"spread {row['spread_percent']:.1f} % against a margin of {row['margin_percent']:g} %"
        )
    if row["seen_percent"] is not None and row["seen_percent"] <= (
        300 if row["quantity"] in LESS_IS_BETTER else 75
    ):
        known.append(f"losses are visible from {row['seen_percent']:.0f} %")
    if row["needed"] is not None:
        wanted = f"about {plural(row['needed'], 'session')} of the candidate would decide"
    else:
        wanted = (
            "a longer history would decide"
            if row["units"] == SESSIONS
            else "more jobs per side would decide"
        )
    return "; ".join(filter(None, [", ".join(known), wanted]))


def summary(judgement: Judgement) -> str:
    counts = judgement.counts()
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"{plural(judgement.metrics.height, 'metric')}: {words}" + (
        " (improved counts as accepted)" if counts[IMPROVED] else ""
    )
