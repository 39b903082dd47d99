"""Cases of ``nodes=all``: how many nodes each had, and what is not missing because another number of them was idle.

They are one history, whose metrics are named with node counts: those that a job grew over, 2, 4, 8, ... up to all, or its own.
Nights of 62 and of 64 idle nodes have the counts up to 32 in common, and the last ones are never held against one another.
"""

from __future__ import annotations

import polars as pl

from reframe_tests.harness.vocabulary import ALL_NODES

from ...store import selectors
from ...store.dataset_layout import read_condition
from ...store.session_values import BENCHMARK, CONDITION

#: What names such a metric beside its node count, which is its variant and makes its ranks.
_AT_ANY_COUNT = (*CONDITION, *(name for name in BENCHMARK if name not in ("variant", "ranks")), "message_bytes")
#: What makes two cases the same test under the same condition.
_CASE = ("test", *CONDITION)


def missing(absent: pl.DataFrame, there: pl.DataFrame) -> pl.DataFrame:
    """The metrics that are missing: all but those of ``nodes=all`` that are there at other node counts.

    :param absent: metrics that a side lacks, with the columns of :data:`~.session_values.METRIC`.
    :param there: those it has.
    """
    at_other_counts = there.filter(pl.col("nodes") == ALL_NODES)
    return absent.join(at_other_counts, on=_AT_ANY_COUNT, how="anti", nulls_equal=True, maintain_order="left")


def _counts(cases: pl.DataFrame) -> dict[tuple[object, ...], list[int]]:
    """Numbers of nodes of proven cases of ``nodes=all``, by :data:`_CASE`."""
    found: dict[tuple[object, ...], set[int]] = {}
    chosen = (pl.col("nodes") == ALL_NODES) & (pl.col("evidence") == "proven")
    named = cases.filter(chosen).with_columns(test=pl.col("name").str.split(" ").list.first())
    for *key, text in named.select(*_CASE, "condition").iter_rows():
        count = read_condition(text).get("nodes")
        if isinstance(count, int):
            found.setdefault(tuple(key), set()).add(count)
    return {key: sorted(counts) for key, counts in found.items()}


def differing(before: pl.DataFrame, after: pl.DataFrame, older: str, newer: str) -> list[str]:
    """A sentence for each test and fabric that had another number of nodes on one side than on the other.

    :param before: rows of the table ``cases``, and likewise ``after``.
    :param older: what the first side is called, and ``newer`` the second.
    """
    then, now = _counts(before), _counts(after)
    sentences: dict[str, None] = {}
    for key, counts in now.items():
        if then.get(key, counts) != counts:
            test, partition, _, fabric = key[:4]
            had, has = (" and ".join(map(str, each)) for each in (then[key], counts))
            sentences[
                f"nodes=all of {test} on {partition}, {fabric}: {has} nodes in {newer}, {had} in {older}: compared at the node "
                "counts that both have"
            ] = None
    return list(sentences)


def notes(table: pl.LazyFrame, sessions: pl.DataFrame, session: str) -> list[str]:
    """What is said of a session that had another number of nodes than the one of its series before.

    :param table: rows of ``cases``.
    :param sessions: of :func:`.selectors.sessions_table`.
    """
    before = selectors.alike(sessions, session).earlier[-1:]
    if not before:
        return []
    older, newer = (table.filter(pl.col("session") == one).collect() for one in (before[0], session))
    return differing(older, newer, f"session {before[0][:8]} before", "this session")
