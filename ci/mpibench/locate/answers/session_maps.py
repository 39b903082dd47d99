"""The answers for the maps of a session, each with its condition and with what else is known of its nodes."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, PairMap
from reframe_tests.harness.printable import one_line
from reframe_tests.harness.suites.catalogue import PAIRS
from reframe_tests.harness.vocabulary import MB_PER_GBIT, BadInput

from ...store import eligibility
from ...store.sessions import Case, Session
from .. import facts, judgement, pair_maps, records, search, sentences
from ..effects import Accused
from ..judgement import Localisation

#: Exit statuses: somebody is accused; nobody is, and that could not be decided for all.
ACCUSED, INCONCLUSIVE = 1, 3
#: Groups that measure a link without MPI, each to its test (``reframe_tests/cascade.py``).
WIRES: Mapping[str, str] = MappingProxyType({"wire_tcp": "WireTcp", "wire_rdma": "WireRdma"})
#: Share of the line rate that is not worth a note.
_NEAR_LINE_RATE = 0.8


@dataclass(frozen=True)
class Located:
    """The answer of one map.

    :param title: condition it was measured under.
    :param line_rate_mb_per_s: of a node's link; ``None``: not known.
    :param wires: commands that measure the links of the accused without MPI.
    """

    title: str
    answer: Localisation
    line_rate_mb_per_s: float | None
    wires: tuple[str, ...] = ()

    def say(self, finding: Accused) -> str:
        """A finding as a sentence, with what is known of its nodes beside."""
        beside = [fact for node in finding.nodes for fact in self.answer.facts.get(node, ())]
        return "; ".join([sentences.text(finding, self.line_rate_mb_per_s), *beside])

    @property
    def status(self) -> int:
        """Exit status."""
        return ACCUSED if self.answer.is_accusing else INCONCLUSIVE if self.answer.inconclusive else 0


@dataclass(frozen=True)
class Asked:
    """How a map is to be judged.

    :param rate: innocents accused per run, expected at most.
    :param kinds: ``NAME=PATTERN`` of nodes of another kind.
    :param oversubscribed: whether links between switches are meant to be slower than those below; ``None``: as the site says.
    """

    rate: float = search.RATE
    margins_percent: Mapping[str, float] = field(default_factory=lambda: judgement.MARGINS_PERCENT)
    kinds: Sequence[str] = ()
    oversubscribed: bool | None = None


USUAL = Asked()


def cases_of(session: Session) -> list[Case]:
    """Cases with a map."""
    return [case for case in session.cases if case.pair_map is not None]


def judge_map(pair_map: PairMap, asked: Asked = USUAL) -> Localisation:
    """What a map says by itself, whatever else is known of its nodes.

    :raises BadInput: it holds nothing that can be judged, or a kind fits no node.
    """
    unjudged = []
    if pair_map.shared_cores:
        pair_map = replace(pair_map, values=tuple(row for row in pair_map.values if row.quantity == BANDWIDTH))
        unjudged = [f"latency was not judged: {pair_map.shared_cores}, and it says when they had their turn, nothing of a link"]
    ready = pair_maps.prepare(pair_map)
    places, contradictions = pair_maps.places_of(pair_map.tree, pair_map.nodes)
    meant = asked.oversubscribed
    if meant is None and pair_map.oversubscription is not None:
        meant = pair_map.oversubscription > 1
    kinds = _kinds(asked.kinds, pair_map.nodes)
    answer = judgement.judge(
        ready.parts, places, kinds, rate=asked.rate, margins_percent=asked.margins_percent, oversubscribed=meant
    )
    return replace(
        answer,
        evident=pair_maps.silent_nodes(pair_map),
        inconclusive=(*ready.missing, *contradictions, *answer.inconclusive),
        notes=(*unjudged, *ready.notes, *answer.notes),
    )


def answer_of(session: Session, case: Case, asked: Asked = USUAL, looked_at: Sequence[Case] = ()) -> Located:
    """The answer of one map.

    :param looked_at: cases of the preflight that came before it.
    :raises BadInput: the map holds nothing that can be judged, or a kind fits no node.
    """
    assert case.pair_map is not None
    answer = judge_map(case.pair_map, asked)
    seen = (case, *looked_at)
    known = facts.known(seen)
    why_not = eligibility.why_not(eligibility.facts_of(session, case))
    unproven = [f"the case {why_not} ({one_line(case.reason) or 'no reason was stored'})"] if why_not else []
    answer = replace(
        answer,
        evident={**answer.evident, **facts.odd_links([case])},
        inconclusive=(*unproven, *answer.inconclusive),
        facts={node: [*facts.unlike_others(known, node), *facts.link_errors(seen, node)] for node in answer.accused},
    )
    title = f"{case.stack} on {case.partition}, {case.fabric}"
    line_rate = _line_rate(case.condition)
    answer = replace(answer, notes=(*answer.notes, *_slow_alike(answer, line_rate)))
    transport = case.condition.get("transport")
    # What was measured without MPI already need not be.
    below = (
        "" if case.group in WIRES else next((test for group, test in WIRES.items() if transport in PAIRS[group].transports), "")
    )
    where = f"{case.system}:{case.partition}"
    return Located(title, answer, line_rate, tuple(records.wires(answer, below, str(case.fabric), where)))


def _slow_alike(answer: Localisation, line_rate: float | None) -> list[str]:
    """What a map cannot show: its nodes are held against one another."""
    levels = [level for part in answer.parts if part.seen.directed for level in part.residuals.levels]
    if not line_rate or not levels:
        return []
    share = math.exp(-min(level.slowness for level in levels)) / line_rate
    if share >= _NEAR_LINE_RATE:
        return []
    return [f"also pairs that are not slow reach {100 * share:.0f} % of line rate only: what makes all slow alike no map shows"]


def _line_rate(condition: Mapping[str, object]) -> float | None:
    """Line rate of what one rank a node can use, in MB/s: of one rail, unless messages are striped over all."""
    rate, devices = condition.get("line_rate_gbit_per_s"), condition.get("devices")
    if not isinstance(rate, (int, float)) or isinstance(rate, bool) or rate <= 0:
        return None
    rails = len(devices) if isinstance(devices, (list, tuple)) and not condition.get("striped") else 1
    return rate * MB_PER_GBIT / max(rails, 1)


def _kinds(given: Sequence[str], nodes: Sequence[str]) -> dict[str, str]:
    """Node to its kind, from NAME=PATTERN; the first that fits.

    :raises BadInput: one that is not of this form, or fits no node.
    """
    found: dict[str, str] = {}
    for one in given:
        name, equals, pattern = one.partition("=")
        fitting = fnmatch.filter(nodes, pattern)
        if not (name and equals and fitting):
            raise BadInput(
                f"--kind {one!r}: expected NAME=PATTERN with a pattern that fits nodes of the map ({nodes[0]}, ...)."
            )
        for node in fitting:
            found.setdefault(node, name)
    return found
