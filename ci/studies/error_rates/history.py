"""Noise of a system's own history: its stored sessions, each a job of a trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from mpibench.judge.history import FACTS, MEASURED, SHARED, describe_facts
from mpibench.store.session_values import CURVE
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput

from .noise import FEWEST_JOBS, Trace, traces

#: Facts that cases of one condition share with those of the other conditions of a history.
OF_ALL = ("mpi_version", "lock_hash", "depth", "run")
#: Those that each condition has for itself.
OF_EACH = tuple(fact.column for fact in FACTS if fact.column not in OF_ALL)
#: What makes a history one of the same thing, beside the curve itself. Within :data:`~mpibench.judge.history.SHARED`
#: verdicts moderate the spreads of metrics, and a newer version takes the place of an older one.
STRATUM = (*SHARED, *OF_ALL)
#: Name of the trace of all conditions together, which an acceptance and the gate judge at once.
TOGETHER = "all together"


def read(folder: Path, system: str | None, selector: str, where: str | None = None) -> tuple[list[Trace], list[str]]:
    """Traces of a system's own sessions; a session is a job of them.

    Conditions, versions and levels are strata, each with a trace of its own. Where there are several conditions, the first
    trace holds all of them, each in its newest version, as one acceptance judges them.

    :returns: traces, and what was left out, one sentence each.
    :raises BadInput: no dataset, nothing selected, or nothing of it is proven.
    """
    name = Store(folder).system_of(system)
    selection = Store(folder).select(name, selector, where=where)
    cases, other = _alike(describe_facts(selection.cases))
    # A ratio to nothing has no logarithm; accept judges zeros by themselves.
    values = selection.values.filter(pl.col("value") > 0).sort("started").join(cases.select("case", *OF_ALL), on="case")
    where_from, left = f"the history of {name}", list(selection.notes)
    left += [f"{other} cases with another {', '.join(OF_EACH)} than the newest of their condition"] * bool(other)
    zeros = selection.values.filter(pl.col("value") <= 0).height
    left += [f"{zeros} values of zero"] * bool(zeros)
    kept = []
    for key, part in values.group_by(STRATUM, maintain_order=True):
        title = _title(dict(zip(STRATUM, map(str, key), strict=True)))
        if part["session"].n_unique() < FEWEST_JOBS:
            left.append(f"{title}: one session, which says nothing of others")
        else:
            kept.append(part.with_columns(pl.lit(title).alias("title")))
    if not kept:
        raise BadInput(
            "too-few-nights",
            f"the history of {name} has nothing that was measured in {FEWEST_JOBS} sessions ({len(left)} of one each, the "
            f"first: {left[0].partition(':')[0] if left else 'none'}): measure more nights, or give --noise.",
        )
    found = [trace for part in kept for trace in traces(_noise(part, "title"), where_from)]
    newest = list(_newest(kept))
    if len(newest) > 1:
        joint = pl.concat(newest).sort("started").with_columns(pl.lit(TOGETHER).alias("together"))
        found = [*traces(_noise(joint, "together", SHARED), where_from), *found]
    return found, left


def _alike(cases: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Of each condition of a stratum those cases that were measured like its newest, and how many were not.

    :param cases: of :func:`mpibench.judge.history.describe_facts`.
    """
    key = list(dict.fromkeys([*MEASURED, *STRATUM]))
    newest = cases.sort("started", "session", "case").unique(key, keep="last", maintain_order=True)
    kept = cases.join(newest, on=[*key, *OF_EACH], how="semi", nulls_equal=True)
    return kept, cases.height - kept.height


def _newest(parts: list[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Of each partition, stack and fabric the version measured last, numbered."""
    last: dict[tuple[object, ...], pl.DataFrame] = {}
    for part in sorted(parts, key=lambda one: one.select(pl.max("started")).item()):
        last[part.select(SHARED).row(0)] = part
    for number, part in enumerate(last.values()):
        yield part.with_columns(pl.lit(number).alias("stratum"))


def _noise(values: pl.DataFrame, title: str, named: tuple[str, ...] = ()) -> pl.DataFrame:
    """Values as the columns of noise.

    :param title: column that becomes the fabric.
    :param named: columns that tell curves apart beside what always does.
    """
    names = [one for one in CURVE if one in named or one not in (*STRATUM, "quantity")]
    label = pl.concat_str([pl.col(one).fill_null("") for one in names], separator=" ")
    unit = pl.struct("case", "repeat").rank("dense").over([*CURVE, *(set(STRATUM) - set(CURVE)), "session", "message_bytes"])
    number = pl.col("stratum") if "stratum" in values.columns else pl.lit(0)
    return values.select(
        *(pl.col(title).alias("fabric"), label.alias("benchmark"), "quantity", pl.col("session").alias("job")),
        *(unit.cast(pl.Int64).alias("repeat"), pl.col("message_bytes").cast(pl.Int64), "value", number.alias("stratum")),
    )


def _title(key: dict[str, str]) -> str:
    version = f" {key['mpi_version']}" if key["mpi_version"] else ""
    depth = f", {key['depth']}" if key["depth"] else ""
    lock = f", lock {key['lock_hash'][:7]}" if key["lock_hash"] else ""
    run = f", run={key['run']}" if key["run"] else ""
    return f"{key['fabric']} ({key['stack']}{version} on {key['partition']}{depth}{lock}{run})"
