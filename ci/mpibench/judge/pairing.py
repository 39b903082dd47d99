"""Compares stacks, fabrics, ppn or pinning policies: which is faster where, by how much, and is it
more than noise.

Only equals are compared: apart from the subject, everything must be the same, including the nodes
and the placement on them. Other differences are refused by name; ``allow`` admits some of them, and
the result then says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import inf

import polars as pl

from reframe_tests.harness.printable import few, plural
from reframe_tests.harness.vocabulary import BadInput, meant

from ..store import session_values
from ..store.quantity_text import LESS_IS_BETTER
from ..store.session_values import CONDITION, Selection
from ..store.store import Store
from . import comparison
from . import policy as policies
from . import text as verdict_text
from .history import FACTS, NODES, Past, describe_facts, find_history

#: What can be compared.
SUBJECTS = ("stack", "fabric", "ppn", "pinning", "session")
#: What may differ beside the subject, where it is allowed.
MAY_DIFFER = ("nodelist", "placement", "suites")
#: Nobody is ahead by more than noise; there is nothing to compare.
TIE = "tie"
UNKNOWN = "not compared"


@dataclass(frozen=True)
class Comparison:
    """One pair.

    :param bands: band verdicts of ``second`` against ``first`` (:class:`comparison.Judgement`),
        with the columns of :func:`with_winner`.
    :param built: of two stacks, that they ran the same files; how the sides' programs were built
        differently, a sentence each: no condition, and part of the difference.
    :param past: of two sides by session, the sessions before the first that measured the same.
    """

    subject: str
    first: str
    second: str
    judgement: comparison.Judgement
    bands: pl.DataFrame
    metrics: pl.DataFrame
    unequal: tuple[str, ...]
    built: tuple[str, ...]
    sides: tuple[Selection, ...]
    past: Past = field(default_factory=Past)

    @property
    def headline(self) -> str:
        """Who is faster, and what it must not be read without."""
        return "; ".join([self.finding, *self.troubles])

    @property
    def finding(self) -> str:
        """Who is how many times faster on which fabric, by the bands of sizes."""
        bands = self.bands.filter(pl.col("verdict") != comparison.MISSING)
        by_fabric = (
            [("", bands)]
            if self.subject == "fabric"
            else [
                (f" on {fabric}" if fabric else "", rows)
                for (fabric,), rows in bands.group_by("fabric", maintain_order=True)
            ]
        )
        found = "; ".join(self._faster(rows, where) for where, rows in by_fabric)
        found = found or f"{self.first} and {self.second} are {UNKNOWN}"
        return f"{found}; machine busy" if self.loads else found

    def _faster(self, rows: pl.DataFrame, where: str) -> str:
        """Who is how many times faster, the most comparisons first: for which messages, or, where
        sizes of one band differ in that, in how many comparisons.
        """
        known = rows.filter(pl.col("winner") != UNKNOWN)
        if not known.height:
            return f"{self.first} and {self.second} are {UNKNOWN}{where}"
        parts = known.partition_by("winner", maintain_order=True)
        parts.sort(key=lambda part: (-part.height, part["winner"][0] == TIE))
        texts: list[str] = []
        for part in parts:
            winner = part["winner"][0]
            behind = self.first if winner == self.second else self.second
            first = not texts
            if winner == TIE:
                sides = f"{self.first} and {self.second}" if first else "they"
                text = f"{sides} are equal within noise"
            else:
                text = f"{winner} is {times_span(part['times'].sort().to_list())} times faster"
                text += f" than {behind}" if first else ""
            bands = part["band"].unique(maintain_order=True).to_list()
            if len(parts) > 1 and known.filter(pl.col("band").is_in(bands)).height == part.height:
                text += f" for {' and '.join(bands)} messages"
            elif len(parts) > 1:
                text += f" in {part.height}"
                text += f" of {plural(known.height, 'comparison')}" if first else ""
            texts.append(f"{text}{where}" if first else text)
        unknown = rows.height - known.height
        return ", ".join(texts) + (f", and {unknown} are {UNKNOWN}" if unknown else "")

    @property
    def troubles(self) -> list[str]:
        """What the finding must not be read without, a sentence each."""
        return [*self.faults, *self.caveats]

    @property
    def faults(self) -> list[str]:
        """What is wrong with either side (:func:`.text.troubles`)."""
        return verdict_text.troubles(self._named)

    @property
    def _named(self) -> dict[str, Selection]:
        return dict(zip((self.first, self.second), self.sides, strict=True))

    @property
    def loads(self) -> list[str]:
        """That the machine was busy, a sentence for each side where it was."""
        return [text for side in self._named.items() if (text := verdict_text.busy_text(*side))]

    @property
    def caveats(self) -> list[str]:
        """:attr:`loads`, what either side alone has, and values of zero."""
        metrics = self.judgement.metrics
        zeros = self.judgement.zeros
        alone = (metrics.filter(pl.col("verdict") == comparison.MISSING), self.judgement.new)
        found = [
            f"{plural(rows.height, 'metric')} only of {name} ({_names(rows)})"
            for name, rows in zip(self._named, alone, strict=True)
            if rows.height
        ]
        for name, column in zip(self._named, ("baseline_zeros", "candidate_zeros"), strict=True):
            rows = zeros.filter(pl.col(column) > 0) if zeros.height else zeros
            if rows.height:
                metrics_text = plural(rows.height, "metric")
                found.append(f"{name} measured zero in {metrics_text} ({_names(rows)})")
        return [*self.loads, *found]

    @property
    def compares(self) -> bool:
        """At least one band of sizes has a winner or a tie."""
        return bool((self.bands["winner"] != UNKNOWN).any())

    @property
    def things(self) -> dict[str, str] | None:
        """What the sides' locks differ in (:func:`.text.differing`)."""
        return verdict_text.differing(self.sides)


def _names(metrics: pl.DataFrame) -> str:
    return few(sorted(set(metrics["benchmark"])))


def times_span(times: Sequence[float]) -> str:
    """How many times faster the least and the most are, as ``2.2 to 3.4``.

    :param times: sorted.
    """
    digits = 1 if times[0] >= 2 else 2 if times[0] >= 1.01 else 4
    return " to ".join(dict.fromkeys(f"{end:.{digits}f}" for end in (times[0], times[-1])))


def pair(
    store: Store,
    selector: str,
    subject: str,
    first: str,
    second: str,
    *,
    system: str | None = None,
    where: str | None = None,
    allow: Sequence[str] = (),
    history: str | None = None,
) -> Comparison:
    """Compare two values of one subject.

    :param subject: one of :data:`SUBJECTS`; for ``session`` the values are
        selectors and ``selector`` is not used.
    :param history: for ``session``, of the first side, as
        :attr:`~mpibench.judge.accept.AcceptanceOptions.history`.
    :raises BadInput: a side has no case that may be used, or the sides
        differ in something that is not compared.
    """
    if subject not in SUBJECTS:
        raise BadInput(
            "unknown-name",
            f"--by {subject!r} is not one of {', '.join(SUBJECTS)}{meant(subject, SUBJECTS)}.",
        )
    check_allowed(allow)
    if first == second:
        raise BadInput(
            "name-taken",
            f"both sides are {subject} {first}: name another one.",
        )
    if history is not None and subject != "session":
        raise BadInput(
            "options-exclude",
            "--history works only with --by session: stacks, fabrics and placements have no common "
            "history.",
        )
    name = store.system_of(system)
    if subject == "session":
        sides = [store.select(name, selected, where=where) for selected in (first, second)]
    else:
        whole = store.select(name, selector, where=where)
        sides = [
            _side(whole, subject, value, other)
            for value, other in ((first, second), (second, first))
        ]
    differing = _unequal(sides, subject)
    if sharing := [text for what, text in differing if what == session_values.OVERSUBSCRIBED]:
        raise BadInput(
            "not-comparable",
            f"{first} and {second} cannot be compared: the ranks of only one share cores "
            f"({sharing[0]}).",
        )
    refused = [(what, text) for what, text in differing if what not in allow]
    if refused:
        what, text = refused[0]
        # One job has its nodes, whichever it is given.
        together = (
            f"measure both in one job (-p {first} -S paired_stack={second}), or "
            if subject == "stack"
            else ""
        )
        raise BadInput(
            "not-comparable",
            f"{first} and {second} were measured under different conditions: {text}; "
            f"{together if what == 'nodelist' else ''}to compare anyway, --allow {what}.",
        )
    policy = policies.load(name).judging_all()
    past = Past()
    by_session = subject == "session"
    if by_session:
        facts = (*FACTS, *(() if "nodelist" in allow else (NODES,)))
        others = sides[1].sessions
        past = find_history(
            store,
            name,
            sides[0].cases,
            policy,
            without=others,
            selector=history,
            where=where,
            facts=facts,
        )
    asked = comparison.Question.ACCEPTANCE if by_session else comparison.Question.SIDES
    judgement = comparison.judge(
        sides[0],
        sides[1],
        policy,
        asked=asked,
        paired=subject == "stack",
        past=past.values,
    )
    if not judgement.metrics.filter(pl.col("ratio").is_not_null()).height:
        raise BadInput(
            "nothing-measured",
            f"{first} and {second} have no metric in common under equal conditions.",
        )
    order = {band: place for place, band in enumerate(policy.bands_bytes)}
    by_name = [*CONDITION, "benchmark", "suite", "variant", "ranks", "quantity"]
    band = pl.col("band").replace_strict(order, return_dtype=pl.Int32)
    bands = with_winner(judgement.bands, first, second).sort([*by_name, band])
    metrics = with_winner(judgement.metrics, first, second).sort([*by_name, "message_bytes"])
    unequal = tuple(text for _, text in differing)
    same = verdict_text.same_programs(sides) if subject == "stack" else ""
    built = (*filter(None, [same]), *verdict_text.built_otherwise(sides, first, second))
    return Comparison(
        subject, first, second, judgement, bands, metrics, unequal, built, tuple(sides), past
    )


def check_allowed(allow: Sequence[str]) -> None:
    """Reject what cannot be allowed.

    :raises BadInput: naming it.
    """
    if unknown := [what for what in allow if what not in MAY_DIFFER]:
        raise BadInput(
            "unknown-name",
            f"--allow {unknown[0]!r} is not one of {', '.join(MAY_DIFFER)}"
            f"{meant(unknown[0], MAY_DIFFER)}.",
        )


def _side(whole: Selection, subject: str, value: str, other: str) -> Selection:
    """One side, with what is compared given a common name, so that the
    rest of the condition pairs the metrics.
    """
    same = pl.col(subject).cast(pl.String) == value
    cases = whole.cases.filter(same)
    if not cases.height:
        there = sorted({str(known) for known in whole.cases[subject]})
        raise BadInput(
            "unknown-name",
            f"there is no case with {subject} {value!r}{meant(value, there)}; there are "
            f"{', '.join(there)}.",
        )
    common = (
        pl.lit(0, dtype=pl.Int32)
        if subject == "ppn"
        else pl.lit(" or ".join(sorted((value, other))))
    )
    columns = {subject: common}
    if subject == "ppn":  # the number of ranks follows from it
        columns |= dict.fromkeys(("ranks", "groups"), common)
    values, zeros = (
        rows.filter(same).with_columns(**columns) for rows in (whole.values, whole.zeros)
    )
    names = ("planned", "unproven", "outside")
    rows = {name: getattr(whole, name).filter(same) for name in names}
    return replace(whole, cases=cases, values=values, zeros=zeros, **rows)


def every_pair(
    store: Store,
    selector: str,
    *,
    allow: Sequence[str] = (),
    system: str | None = None,
    where: str | None = None,
) -> Iterator[Comparison | str]:
    """All pairs of stacks with a case in the sessions, those that differ in one thing first; a
    sentence for each pair that cannot be compared.

    :raises BadInput: fewer than two stacks have a case that may be used.
    """
    whole = store.select(store.system_of(system), selector, where=where)
    stacks = sorted(set(whole.cases["stack"]))
    if len(stacks) < 2:
        raise BadInput(
            "nothing-measured",
            f"{selector} holds usable cases of {plural(len(stacks), 'stack')}; two are needed.",
        )
    check_allowed(allow)
    found: list[tuple[float, Comparison | str]] = []
    for first, second in combinations(stacks, 2):
        try:
            compared = pair(
                store, selector, "stack", first, second, allow=allow, system=system, where=where
            )
            things = compared.things
            found.append((inf if things is None else len(things), compared))
        except BadInput as error:
            found.append((inf, f"{first} and {second} are not compared: {error}"))
    yield from (compared for _, compared in sorted(found, key=lambda row: row[0]))


def _unequal(sides: Sequence[Selection], subject: str) -> list[tuple[str, str]]:
    """What differs beside the subject: its name and a sentence. Placement
    follows from ppn and pinning where these differ.
    """
    shared = session_values.OVERSUBSCRIBED
    yes_or_no = (
        pl.when(pl.col(shared) != "").then(pl.lit("yes")).otherwise(pl.lit("no")).alias(shared)
    )
    tables = [describe_facts(side.cases).with_columns(yes_or_no) for side in sides]
    found: list[tuple[str, str]] = []
    for what in (*MAY_DIFFER, shared):
        if what == "placement" and subject in ("ppn", "pinning"):
            continue
        # Programs of what both sides measured: what one of them could not run is not compared.
        keys = [name for name in CONDITION if name != subject] + ["group"] * (what == "suites")
        values = [
            table.group_by(keys).agg(pl.col(what).fill_null("").unique().sort()) for table in tables
        ]
        both = values[0].join(values[1], on=keys, suffix="_other", nulls_equal=True)
        texts = []
        for *condition, mine, theirs in both.filter(
            pl.col(what) != pl.col(f"{what}_other")
        ).iter_rows():
            first, second = (
                " and ".join(value or "none" for value in several) for several in (mine, theirs)
            )
            texts.append(
                f"{what} of {', '.join(map(str, condition))} is {first} on one side "
                f"and {second} on the other"
            )
        found += [(what, min(texts))] if texts else []
    return sorted(found)


def with_winner(rows: pl.DataFrame, first: str, second: str) -> pl.DataFrame:
    """Metrics or bands with who is ahead and how many times faster.

    :returns: with ``ahead`` (the side estimated faster), ``times`` (how many times, 1 or more),
        ``times_low`` and ``times_high`` (its interval) and ``winner``: ``ahead`` where the interval
        clears 1, else :data:`TIE`; :data:`UNKNOWN` without a ratio or an interval.
    """
    # A ratio of times is turned, of a bandwidth it is how many times
    # faster; and turned where the first side is ahead.
    lower = pl.col("quantity").is_in(LESS_IS_BETTER)
    leads = (lower & (1 / pl.col("ratio") >= 1)) | (~lower & (pl.col("ratio") >= 1))
    turned = lower == leads
    columns = {
        "times": ("ratio", "ratio"),
        "times_low": ("low", "high"),
        "times_high": ("high", "low"),
    }
    rows = rows.with_columns(
        ahead=pl.when(leads).then(pl.lit(second)).otherwise(pl.lit(first)),
        **{
            name: pl.when(turned).then(1 / pl.col(of)).otherwise(pl.col(own))
            for name, (own, of) in columns.items()
        },
    )
    known = pl.col("times_low").is_not_null()
    return rows.with_columns(
        winner=pl.when(~known)
        .then(pl.lit(UNKNOWN))
        .when(pl.col("times_low") > 1)
        .then(pl.col("ahead"))
        .otherwise(pl.lit(TIE))
    )
