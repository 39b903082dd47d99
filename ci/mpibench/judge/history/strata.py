"""What makes two cases of different sessions the same measurement, so that they may be one history.

Cases are of one **stratum** where they measured one group under one condition and agree in :data:`FACTS`: the MPI as built, the
level, the placement, the transport, the benchmarks' versions, and the label of the session's series. Strata are never pooled:
what differs in one of these is another measurement, however alike the numbers look. The nodes of a job are no such fact: which
ones a job gets is part of what changes from night to night.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from reframe_tests.harness.suites import catalogue

from ...store.dataset_layout import read_condition
from ...store.session_values import CONDITION, Selection

#: What a history is reported for, and within which spreads between sessions are shared.
SHARED = ("partition", "stack", "fabric")
#: What is measured.
MEASURED = (*CONDITION, "group")


@dataclass(frozen=True)
class Fact:
    """Something in which cases of one history agree.

    :param column: its name in the tables of this room.
    :param title: for one value, ``titles`` for several.
    """

    column: str
    title: str
    titles: str


#: Where the ranks run: a list of cores for each.
PLACEMENT = Fact("placement", "placement", "placements")
#: In the order in which they explain why a session is not of a history; ``depth`` is the stored name of the level.
FACTS = (
    Fact("mpi_version", "MPI version", "MPI versions"),
    Fact("lock_hash", "lock hash", "lock hashes"),
    Fact("depth", "level", "levels"),
    Fact("run", "label run", "labels run"),
    Fact("transport", "transport", "transports"),
    PLACEMENT,
    Fact("suites", "benchmark version", "benchmark versions"),
    Fact("suite_options", "suite options", "suite options"),
    Fact("striped", "striping", "striping"),
    Fact("tuned", "tuned settings", "tuned settings"),
    # Ranks that wait for each other's cores.
    Fact("oversubscribed", "oversubscription", "oversubscription"),
    # Of what ran as shipped.
    Fact("network", "network", "networks"),
)
#: Those of them that the condition holds as they are.
_STORED = ("depth", "transport", "placement", "suite_options", "striped", "tuned", "oversubscribed", "network")
#: Its nodes, where sides are compared that must have the same.
NODES = Fact("nodelist", "node list", "node lists")


def own_programs(group: str | None) -> list[str]:
    """Suites a group runs as programs that stacks bring, each in a version of its own."""
    wanted = catalogue.suites(group) if group and group in catalogue.GROUPS else tuple(catalogue.SUITES)
    return [name for name in wanted if catalogue.SUITES[name].programs]


def describe(cases: pl.DataFrame) -> pl.DataFrame:
    """The cases with a column for each of :data:`FACTS`: text, empty where nothing was stored.

    :param cases: rows of the table ``cases``.
    """
    stored = {name: pl.col("condition").str.json_path_match(f"$.{name}") for name in _STORED}
    found = cases.with_columns(
        **stored,
        run=pl.col("labels").str.json_path_match("$.run"),
        suites=pl.col("condition").str.json_path_match("$.suites"),
    )
    distinct = found.select("group", "suites").unique()
    versions = [_versions(group, text) for group, text in distinct.iter_rows()]
    distinct = distinct.with_columns(versions=pl.Series(versions, dtype=pl.String))
    found = found.join(distinct, on=["group", "suites"], how="left", nulls_equal=True, maintain_order="left")
    return found.with_columns(suites="versions").drop("versions").with_columns(pl.col(_columns(FACTS)).fill_null(""))


def _versions(group: str | None, text: str | None) -> str:
    stored = read_condition(text and f'{{"suites": {text}}}').get("suites")
    if not isinstance(stored, dict):
        return ""
    there = [(name, stored[name]) for name in own_programs(group) if name in stored]
    return ", ".join(f"{name} {row.get('version')}" for name, row in there if isinstance(row, dict))


def name_place(partition: object, stack: object, fabric: object) -> str:
    """What values of :data:`SHARED` are called; what measures nodes alone is on no fabric (``None`` or empty)."""
    return f"{stack} on {partition}" + (f", {fabric}" if fabric else "")


def _columns(facts: Iterable[Fact]) -> list[str]:
    return [fact.column for fact in facts]


def mixed(selection: Selection) -> dict[tuple[str, ...], str]:
    """What makes the sessions of a selection unlike one another, by :data:`SHARED`: such sessions are no history of one thing.

    :returns: sentences; no entry where all facts are the same in all sessions.
    """
    # By the values, which have the names that were changed with --rename.
    named = selection.values.select(*SHARED, "case").unique(maintain_order=True)
    cases = named.join(describe(selection.cases).drop(SHARED), on="case", how="left", maintain_order="left")
    sentences: dict[tuple[str, ...], str] = {}
    for key, part in cases.group_by(SHARED, maintain_order=True):
        differ = [sentence for fact in FACTS if (sentence := _differing(fact, part))]
        if differ:
            partition, stack, fabric = key
            sentences[partition, stack, fabric] = f"{name_place(partition, stack, fabric)}: {', '.join(differ)}"
    return sentences


def _differing(fact: Fact, cases: pl.DataFrame) -> str:
    """The several values of a fact under one condition; empty where each condition has one."""
    counted = cases.group_by("nodes", "ppn", "pinning", "group").agg(pl.col(fact.column).unique())
    values = sorted({value for found in counted[fact.column] if len(found) > 1 for value in found})
    shown = [value or "none" for value in values] if fact is not PLACEMENT else [f"{len(values)} of them"] * bool(values)
    return f"{fact.titles} {' and '.join(shown)}" if shown else ""


def why_not(fact: Fact) -> pl.Expr:
    """What is said of cases that differ in a fact from those whose history is wanted."""
    if fact in (PLACEMENT, NODES):
        return pl.lit(f"with another {fact.title}")
    value = pl.when(pl.col(fact.column) == "").then(pl.lit("none")).otherwise(pl.col(fact.column))
    return pl.format(f"with {fact.title} {{}}", value)
