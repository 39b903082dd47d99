"""Site acceptance: is the machine as good after the upgrade as before? One sentence, one exit
status, one record to sign.

Exit status: 0 accepted; 1 refused (something regressed or is missing, or a case of the candidate is
not proven); 3 inconclusive (more sessions are needed, or unproven cases were allowed for); 2 bad
input. The candidate need not prove what the baseline could not; this is reported, and never counts
in its favour.

The record is three files with the same content (:mod:`mpibench.pages.acceptance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import polars as pl

from reframe_tests.harness.printable import first_line, plural
from reframe_tests.harness.samples import NO_REFERENCE
from reframe_tests.harness.samples import PASS as REACHED
from reframe_tests.harness.vocabulary import BadInput

from ..store import confirmations, session_values
from ..store.confirmations import MissedReference
from ..store.quantity_text import slowness_of
from ..store.session_values import BAND, CONDITION, METRIC, Selection, among, not_among
from ..store.store import Store
from . import comparison, switches
from . import policy as verdict_policy
from . import text as verdict_text
from .comparison import ABSENT, IMPROVED, INCONCLUSIVE, MISSING, PASS, REGRESSED
from .history import (
    SHARED,
    Past,
    differing_node_counts,
    find_history,
    mixed_strata,
    under_both_names,
)
from .switches import MovedSwitch
from .text import VerdictSentence

ACCEPTED = "accepted"
REFUSED = "refused"
#: Exit status per decision; 2 is bad input, as for every command.
STATUS = {ACCEPTED: 0, REFUSED: 1, INCONCLUSIVE: 3}
#: Characters of the finding in the headline.
LONGEST_FINDING = 160
#: Overall verdict to decision.
DECISIONS = {
    PASS: ACCEPTED,
    IMPROVED: ACCEPTED,
    REGRESSED: REFUSED,
    MISSING: REFUSED,
    INCONCLUSIVE: INCONCLUSIVE,
}


#: Metrics that are missing for no reason of their own: that of the whole side holds.
_EXPLAINED = (pl.col("verdict") == MISSING) & (pl.col("why") == ABSENT)


@dataclass(frozen=True)
class AcceptanceOptions:
    """What was requested beside the two sides; part of the record.

    :param allow_unproven: cases of the candidate without proof leave
        it inconclusive and do not refuse it.
    :param history: sessions that show how much nights differ, a selector; ``None``: those before
        the baseline that measured the same; :data:`~mpibench.judge.history.NO_HISTORY`: only the
        baseline's own.
    """

    system: str | None = None
    where: str | None = None
    rename: Mapping[str, str] | None = None
    allow_unproven: bool = False
    history: str | None = None


@dataclass(frozen=True)
class Acceptance:
    """A decision with everything it rests on.

    :param unlike: sentences on what makes the sides unlike as a whole, such
        as their level; they explain what follows.
    :param absence: what that says of the metrics the candidate lacks.
    :param measured_again: sessions of the candidate that were measured again before, as nights,
        each with the session that did.
    :param suspects: what maps of pairs of the candidate flag and
        those of the baseline do not: they refuse.
    :param references: those that the baseline reached and the candidate missed: they refuse.
    """

    baseline: Selection
    candidate: Selection
    policy: verdict_policy.Policy
    judgement: comparison.Judgement
    changed: list[tuple[str, str, str]]
    facts: tuple[Mapping[str, list[str]], Mapping[str, list[str]]]
    decided: datetime
    unlike: tuple[str, ...] = ()
    absence: str = ""
    moves: tuple[MovedSwitch, ...] = ()
    options: AcceptanceOptions = AcceptanceOptions()
    past: Past = field(default_factory=Past)
    measured_again: tuple[tuple[str, str], ...] = ()
    suspects: tuple[str, ...] = ()
    map_notes: tuple[str, ...] = ()
    references: tuple[MissedReference, ...] = ()

    @property
    def decision(self) -> str:
        judged = REFUSED if self.suspects or self.references else DECISIONS[self.judgement.verdict]
        if not self.candidate.unproven.height or judged == REFUSED:
            return judged
        return INCONCLUSIVE if self.options.allow_unproven else REFUSED

    @property
    def headline(self) -> str:
        """The decision in one sentence: what is wrong, what it must
        not be read without, then counts.
        """
        words = {
            ACCEPTED: "ACCEPTED",
            REFUSED: "NOT ACCEPTED",
            INCONCLUSIVE: "INCONCLUSIVE, hence not accepted",
        }
        sides = {"the candidate": self.candidate, "the baseline": self.baseline}
        troubles = [
            verdict_text.part_text(sides),
            *(verdict_text.count_unproven(name, side) for name, side in sides.items()),
            verdict_text.failed_text("the candidate", self.candidate),
            *(verdict_text.busy_text(name, side) for name, side in sides.items()),
        ]
        said = filter(
            None,
            [
                self.finding,
                *troubles,
                verdict_text.summary(self.judgement),
                verdict_text.sessions_text(self.judgement),
            ],
        )
        return f"{words[self.decision]}: {'; '.join(said)}"

    @property
    def finding(self) -> str:
        """The weightiest sentence in short and how many more there
        are; empty for what is accepted.
        """
        # Indented ones tell more of the sentence above them.
        whole = [text for text in self._sentences() if not str(text).startswith(" ")]
        if self.decision == ACCEPTED or not whole:
            return ""
        more = f" and {len(whole) - 1} more" if whole[1:] else ""
        first = whole[0]
        said = str(first)
        # What the decision says is not said again.
        if isinstance(first, VerdictSentence) and first.verdict in (REGRESSED, INCONCLUSIVE):
            said = first.text
        return f"{first_line(said, LONGEST_FINDING)}{more}"

    @property
    def sentences(self) -> list[str]:
        """Why, the weightiest first: what is unlike, unproven, what refuses,
        then too few repeats and what else is open.
        """
        return list(map(str, self._sentences()))

    def _sentences(self) -> list[str | VerdictSentence]:
        few = verdict_text.repeats_sentence(self.judgement, self.policy.minimum_repeats)
        known = _EXPLAINED if self.absence else pl.lit(False)
        count = self.judgement.metrics.filter(known).height
        others = _without(
            replace(self.judgement, metrics=self.judgement.metrics.filter(~known)), self.moves
        )
        verdicts = verdict_text.sentences(others)
        return [
            *self.suspects,
            *self.unlike,
            *(f"not proven: {text}" for text in verdict_text.unproven_sentences(self.candidate)),
            *(f"missed a reference that the baseline met: {miss.text}" for miss in self.references),
            *verdict_text.moved_sentences(move for move in self.moves if move.slower > 0),
            *(said for said in verdicts if said.verdict != INCONCLUSIVE),
            *([f"missing: {plural(count, 'metric')}: {ABSENT}: {self.absence}"] if count else ()),
            *filter(None, [few]),
            *(said for said in verdicts if said.verdict == INCONCLUSIVE),
        ]

    @property
    def metrics(self) -> pl.DataFrame:
        """Verdicts on metrics, those that are absent with the reason that holds for the side."""
        reason = pl.lit(f"{ABSENT}: {self.absence}") if self.absence else pl.col("why")
        return self.judgement.metrics.with_columns(
            why=pl.when(_EXPLAINED).then(reason).otherwise("why")
        )

    @property
    def notes(self) -> list[str]:
        """What was not used on either side, and what is new."""
        sides = (self.baseline, self.candidate)
        mixed = mixed_strata(self.baseline) if len(self.baseline.sessions) > 1 else {}
        without = self.judgement.without_margin
        new = self.judgement.new
        lines = [
            *self.map_notes,
            *(
                f"not proven in the baseline, so not required of the candidate: {text}"
                for text in verdict_text.unproven_sentences(self.baseline)
            ),
            *(
                f"{name}: {text}"
                for name, side in (("baseline", self.baseline), ("candidate", self.candidate))
                for text in side.notes
            ),
            *verdict_text.built_otherwise(sides, "the baseline", "the candidate"),
            *differing_node_counts(
                self.baseline.cases, self.candidate.cases, "the baseline", "the candidate"
            ),
            *(
                "the baseline's sessions do not form one history, so earlier sessions are not "
                f"used: {text}"
                for text in mixed.values()
            ),
            # What was measured again of a night is what it was called for,
            # against other sessions and by another decision.
            *(
                f"candidate: session {first[:8]} was partly measured again by session {again[:8]}; "
                "that does not count here: see `mpibench gate`"
                for first, again in self.measured_again
            ),
            *self.past.sentences(),
            *self._between(),
            *(
                f"the baseline differs from its history: {text}"
                for text in self.judgement.unlike_past.values()
            ),
            *verdict_text.moved_sentences(move for move in self.moves if move.slower <= 0),
        ]
        if without:
            lines.append(
                f"not judged: {plural(without, 'metric')} without a margin in {self.policy.source}"
            )
        if new.height:
            lines.append(
                f"not judged: {plural(new.height, 'metric')} that only the candidate has "
                f"({', '.join(sorted(set(new['benchmark'])))}); if one was renamed, give --rename "
                "OLD=NEW"
            )
        return lines

    def _between(self) -> list[str]:
        """Levels accepted since the baseline: whatever they are about is refused all the same."""
        first, last = (
            side.cases.select(pl.max("started")).item() for side in (self.baseline, self.candidate)
        )
        if first is None or last is None:
            return []
        there = self.candidate.cases.select(SHARED).unique().rows()
        return [
            f"the baseline is older than {level}, which accept does not take into account: choose "
            "a newer baseline"
            for level in self.policy.levels
            if first.date() < level.since <= last.date()
            and any(
                named.covers(*shared)
                for named in under_both_names([level], self.options.rename)
                for shared in there
            )
        ]


def _without(judgement: comparison.Judgement, moves: Sequence[MovedSwitch]) -> comparison.Judgement:
    """What other causes have: without the metrics of moves, and
    without bands in which nothing else is called.
    """
    if not moves:
        return judgement
    explained = pl.concat([move.metrics for move in moves])
    gone = among(judgement.metrics, explained, METRIC)
    metrics = not_among(judgement.metrics, explained, METRIC)
    called = metrics.filter(pl.col("verdict").is_in([REGRESSED, IMPROVED]))
    bands = not_among(gone.select(BAND).unique(), called, BAND)
    return replace(
        judgement,
        metrics=metrics,
        bands=not_among(judgement.bands, bands, BAND),
    )


def decide(
    store: Store, baseline: str, candidate: str, options: AcceptanceOptions = AcceptanceOptions()
) -> Acceptance:
    """Compare two selections of sessions.

    :raises BadInput: a side selects nothing that may be used, the sides share a session, the
        candidate was measured before the baseline, or they have nothing in common.
    """
    # The system that was named, the only one in the dataset, or that of the candidate's session.
    several = options.system is None and len(store.systems) > 1
    name = store.find_session(candidate).system if several else store.system_of(options.system)
    before = store.select(name, baseline, where=options.where, rename=options.rename)
    after = store.select(name, candidate, where=options.where, unproven_too=True)
    shared = sorted(set(before.sessions) & set(after.sessions))
    if shared:
        raise BadInput(
            "options-exclude",
            f"session {shared[0]} is on both sides: choose different sessions.",
        )
    first = before.planned.select(pl.min("started")).item()
    last = after.planned.select(pl.max("started")).item()
    if first is not None and last is not None and last < first:
        raise BadInput(
            "not-comparable",
            f"the candidate ({last:%Y-%m-%d %H:%M} UTC) was measured before the baseline "
            f"({first:%Y-%m-%d %H:%M} UTC): losses would appear as improvements: exchange the two "
            "selectors.",
        )
    policy = verdict_policy.load(name)
    past = find_history(
        store,
        name,
        before.cases,
        policy,
        without=after.sessions,
        selector=options.history,
        where=options.where,
        rename=options.rename,
    )
    judgement = comparison.judge(before, after, policy, past=past.values)
    if after.cases.height and not judgement.metrics.filter(pl.col("verdict") != MISSING).height:
        if judgement.without_margin:
            raise BadInput(
                "configuration-unusable",
                f"{policy.source} gives none of the {judgement.without_margin} common metrics a "
                "margin, so nothing can be decided: add margins for those to judge.",
            )
        for side, selection in (("baseline", before), ("candidate", after)):
            if not selection.measured.height:
                raise BadInput(
                    "session-missing",
                    f"the {side} {selection.selector} holds no value of a judged quantity, though "
                    f"{selection.cases.height} of its cases were measured: export its sessions "
                    "again, or measure again.",
                )
        raise BadInput(
            "nothing-measured",
            "the sides have no metric in common: "
            f"{session_values.describe_condition(before.measured.row(0, named=True))} against "
            f"{session_values.describe_condition(after.measured.row(0, named=True))}.",
        )
    unlike, reason = verdict_text.unlike(before, after, judgement.counts()[MISSING])
    # Of what both measured: a case that one side lacks is missing there, and
    # nothing of the machine has changed with it.
    both = [
        replace(
            side,
            cases=among(side.cases, other.cases, [*CONDITION, "group"]),
        )
        for side, other in ((before, after), (after, before))
    ]
    # What is called because a switch of protocol moved.
    compared = judgement.metrics.drop_nulls(["slower", "margin_percent"])
    margin = slowness_of(compared["margin_percent"].to_numpy() / 100, compared["quantity"])
    called = pl.col("verdict").is_in([REGRESSED, IMPROVED])
    beyond = (1 + pl.col("slower")).log().abs() >= pl.col("margin")
    metrics = compared.with_columns(margin=margin).select(
        *METRIC, "slower", "margin", called=called & beyond
    )
    again = [
        (first, second)
        for first in after.sessions
        for second in confirmations.confirming(store.cases(name), first)["session"].unique(
            maintain_order=True
        )
        if second not in after.sessions
    ]
    return Acceptance(
        baseline=before,
        candidate=after,
        policy=policy,
        judgement=judgement,
        changed=session_values.changes(*map(verdict_text.facts, both)),
        facts=(verdict_text.facts(before), verdict_text.facts(after)),
        decided=datetime.now(timezone.utc),
        unlike=unlike,
        absence=reason,
        moves=tuple(
            switches.explain(switches.changed_curves(metrics, before.values, after.values))
        ),
        options=options,
        past=past,
        measured_again=tuple(again),
        references=tuple(_references(before.cases, after.cases, options.rename or {})),
    )


#: What makes two references one that both sides have; an upgrade changes the rest.
_SAME_REFERENCE = (
    "partition",
    "stack",
    "fabric",
    "nodes",
    "ppn",
    "pinning",
    "group",
    "level",
    "suite_options",
    "striped",
    "quality_of_service",
    "tuned",
    "oversubscribed",
    "metric",
    "layer",
)


def _references(
    before: pl.DataFrame, after: pl.DataFrame, rename: Mapping[str, str]
) -> list[MissedReference]:
    """References that the candidate missed and most runs of the baseline
    reached, the farthest from its bounds first.

    :param before: eligible rows of the table ``cases``, of the
        baseline; ``after``: of the candidate.
    """

    def key(row: Mapping[str, Any]) -> tuple[object, ...]:
        return tuple(
            rename.get(value, value) if isinstance(value := row[name], str) else value
            for name in _SAME_REFERENCE
        )

    reached: dict[tuple[object, ...], int] = {}
    for row in confirmations.reference_checks(before):
        reached[key(row)] = reached.get(key(row), 0) + {REACHED: 1, NO_REFERENCE: 0}.get(
            row["outcome"], -1
        )
    missed = confirmations.missed_references(after, after.clear())
    kept = [miss for miss in missed if reached.get(key(miss.check), 0) > 0]
    return sorted(kept, key=lambda miss: -verdict_text.beyond(miss))
