"""Which nodes are not what they must be, or not what the others are.

What has to be equal is judged by the majority: a node is odd if it has another value than more than half of all nodes have.
Without a majority (one node of two, or three thirds) nobody can say which node is right, and all are named.
"""

from __future__ import annotations

import ipaddress
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...evidence.link_state import SLOW_SHARE
from ...machine.fabric import Fabric, Rail
from ...mpis import registry as mpis
from ...vocabulary import SITE_FILES
from .node_answers import FEW, NodeFacts, listed
from .rules import Rule

#: Value of a fact that a node does not show.
ABSENT = None
#: States of a rail that carries data: operstate of an interface (``unknown``: software such as the loopback), RDMA port.
UP = ("up", "unknown", "active")
#: Name of what is judged first of a card: whether it is there.
PRESENCE = "presence"
#: Name of what is judged of a rail's rate where there is none.
UNREADABLE = "no rate"
#: Characters at most of a value in a sentence; the session has all of it.
LONGEST = 300


@dataclass(frozen=True)
class OddNodes:
    """One fact of some nodes that is not as it must be.

    :param instance: port, interface or page size; empty: the node as a whole.
    :param values: value to the nodes that have it, the odd ones.
    :param wanted: what it must be, in words.
    """

    fact: str
    instance: str
    values: tuple[tuple[Any, tuple[str, ...]], ...]
    wanted: str
    why: str
    fix: str
    note: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node for _, nodes in self.values for node in nodes))

    def text(self, instances: Sequence[str] = ()) -> str:
        """One sentence: what, where, what it must be, why, and how to put it right.

        :param instances: all that the same is to be said of; default: its own.
        """
        return f"{self.what(instances)} is {self.found()}; {self.wanted}: {self.why} (to put it right: {self.fix})"

    def what(self, instances: Sequence[str] = ()) -> str:
        """The fact in words.

        :param instances: as of :meth:`text`.
        """
        of = listed(instances or (self.instance,))
        if self.fact == PRESENCE:
            return of
        return f"{self.fact} of {of}" if of else self.fact

    def found(self) -> str:
        found = "; ".join(f"{_shown(value)} on {listed(nodes)}" for value, nodes in self.values[:FEW])
        if len(self.values) > FEW:
            found += f"; {len(self.values) - FEW} other values on {sum(len(nodes) for _, nodes in self.values[FEW:])} nodes"
        return found

    def as_dict(self) -> dict[str, Any]:
        rows = [{"value": value, "nodes": list(nodes)} for value, nodes in self.values]
        return {**vars(self), "values": rows}


def group(found: Iterable[OddNodes]) -> list[tuple[OddNodes, tuple[str, ...]]]:
    """What is odd, once for all ports of which the same is to be said (a card has several of them), with their names."""
    alike: dict[tuple[Any, ...], list[OddNodes]] = {}
    for odd in found:
        alike.setdefault((odd.fact, odd.values, odd.wanted, odd.why, odd.fix, odd.note), []).append(odd)
    return [(odds[0], tuple(odd.instance for odd in odds)) for odds in alike.values()]


def texts(found: Iterable[OddNodes]) -> list[str]:
    """A sentence for each :func:`group`."""
    return [odd.text(instances) for odd, instances in group(found)]


def read(rows: Any) -> list[OddNodes]:
    """What was stored of :meth:`OddNodes.as_dict`.

    :raises ValueError: it is something else.
    """
    try:
        return [
            OddNodes(**{**row, "values": tuple((value["value"], tuple(map(str, value["nodes"]))) for value in row["values"])})
            for row in rows
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not what is stored of odd nodes: {error}") from None


def find_unseen(nodes: Mapping[str, NodeFacts], rules: Iterable[Rule], partition: str) -> list[str]:
    """Sentence on rules that hold nothing, since no node shows what they are about; none without nodes."""
    there = (rule for rule in rules if rule.is_for(partition) and not rule.required)
    unseen = [
        rule.fact if rule.instances == "*" else f"{rule.fact} of {rule.instances}"
        for rule in there
        if not any(rule.concerns(partition, one) for facts in nodes.values() for one in facts.get(rule.fact, {}))
    ]
    return [f"no node shows {', '.join(unseen)}: nothing is known of that"] if nodes and unseen else []


def judge(nodes: Mapping[str, NodeFacts], rules: Iterable[Rule], partition: str, fabrics: Iterable[Fabric]) -> list[OddNodes]:
    """What is odd, what fails first, then in the order of the rules.

    :param nodes: :func:`node_answers.parse`.
    :param fabrics: of the partition; each rail must be there, up, and as described.
    """
    rules, fabrics = tuple(rules), tuple(fabrics)
    found = [*_addresses(nodes, fabrics), *(odd for fabric in fabrics for odd in _rails(nodes, fabric))]
    described = {name for fabric in fabrics for rail in fabric.rails for name in _names(rail)}
    having = _having(nodes)
    for instance, there in having.items():
        about = [rule for rule in rules if rule.concerns(partition, instance) and _shows(nodes, rule.fact, instance)]
        if about and len(there) < len(nodes) and instance not in described:
            found.append(_presence(nodes, instance, there, all(rule.note for rule in about)))
    # What the site says of a rail is what it is held to, and not what most nodes have.
    stated = {(odd.fact, odd.instance) for odd in found}
    for rule in rules:
        instances = dict.fromkeys(instance for facts in nodes.values() for instance in facts.get(rule.fact, {}))
        concerned = [instance for instance in instances if rule.concerns(partition, instance)]
        if not concerned and rule.required and rule.is_for(partition):
            which = "" if rule.instances == "*" else rule.instances
            found.append(_odd(rule, which, [(ABSENT, list(nodes))], "every node must show it"))
        for instance in concerned:
            if (rule.fact, instance) in stated:
                continue
            # A card that is not there is reported once, and not for each of its facts.
            judged = {node: facts for node, facts in nodes.items() if not instance or node in having[instance]}
            found += _judge_one(judged, rule, instance)
    return sorted(found, key=lambda odd: odd.note)


def _having(nodes: Mapping[str, NodeFacts]) -> dict[str, dict[str, None]]:
    """Port, interface or page size to the nodes that show anything of it."""
    having: dict[str, dict[str, None]] = {}
    for node, facts in nodes.items():
        for instance in {instance for values in facts.values() for instance in values if instance}:
            having.setdefault(instance, {})[node] = None
    return dict(sorted(having.items()))


def _shows(nodes: Mapping[str, NodeFacts], fact: str, instance: str) -> bool:
    return any(instance in facts.get(fact, {}) for facts in nodes.values())


def _presence(nodes: Mapping[str, NodeFacts], instance: str, there: Mapping[str, Any], note: bool) -> OddNodes:
    """Nodes without a card that most have, or with one that most have not; all where there is no majority."""
    groups = {"there": tuple(there), "missing": tuple(node for node in nodes if node not in there)}
    counts = {kind: len(group) for kind, group in groups.items()}
    wanted = "nodes of a partition must have the same, and neither half is more than the other"
    if 2 * counts["there"] > len(nodes):
        wanted = f"{counts.pop('there')} of {len(nodes)} nodes have it"
    elif 2 * counts["missing"] > len(nodes):
        wanted = f"{counts.pop('missing')} of {len(nodes)} nodes do not have it"
    values = tuple((kind, groups[kind]) for kind in counts)
    why, fix = "it is broken, missing or called otherwise, or has no driver", "see lspci and the kernel's log"
    return OddNodes(PRESENCE, instance, values, wanted, why, fix, note)


def _judge_one(nodes: Mapping[str, NodeFacts], rule: Rule, instance: str) -> Iterator[OddNodes]:
    values = {node: facts.get(rule.fact, {}).get(instance, ABSENT) for node, facts in nodes.items()}
    if rule.same:
        yield from _unlike(values, rule, instance)
        return
    bad: dict[Any, list[str]] = {}
    for node, value in values.items():
        other = nodes[node].get(rule.equals, {}).get(instance, ABSENT) if rule.equals else value
        # What one node shows all can show.
        if value is ABSENT or not rule.permits(value):
            bad.setdefault(value, []).append(node)
        elif other != value:
            bad.setdefault(f"{_shown(value)} where {rule.equals} is {_shown(other)}", []).append(node)
    if bad:
        yield _odd(rule, instance, sorted(bad.items(), key=str), rule.wanted())


def _unlike(values: Mapping[str, Any], rule: Rule, instance: str) -> Iterator[OddNodes]:
    """Nodes that are unlike the majority; numbers near the middle one are alike where the rule says how near."""
    numbers = [value for value in values.values() if _is_number(value)]
    near = numbers and (rule.within is not None or rule.within_percent is not None)
    middle = float(statistics.median_low(numbers)) if near else None
    kinds = dict(values)
    if middle is not None:
        room = rule.within if rule.within is not None else abs(middle) * (rule.within_percent or 0.0) / 100
        kinds = {node: middle if _is_number(value) and abs(value - middle) <= room else value for node, value in values.items()}
    usual, count = Counter(kinds.values()).most_common(1)[0]
    groups: dict[Any, list[str]] = {}
    for node, kind in kinds.items():
        groups.setdefault(kind, []).append(node)
    if len(groups) == 1:
        return
    if 2 * count <= len(kinds):
        yield _odd(rule, instance, list(groups.items()), "it must be the same on all nodes, and no value is that of most")
        return
    words = f"{count} of {len(kinds)} nodes " + ("do not show it" if usual is ABSENT else f"have {_shown(usual)}")
    if middle is not None and usual == middle:
        words = f"the middle one is {_shown(middle)}, and {_distance(rule)} of it is equal"
    odd = [(kind, nodes) for kind, nodes in groups.items() if kind != usual]
    yield _odd(rule, instance, sorted(odd, key=str), words)


def _distance(rule: Rule) -> str:
    return f"within {rule.within:g}" if rule.within is not None else f"within {rule.within_percent:g} %"


def _odd(rule: Rule, instance: str, rows: Sequence[tuple[Any, Sequence[str]]], wanted: str) -> OddNodes:
    values = tuple((value, tuple(nodes)) for value, nodes in rows)
    return OddNodes(rule.fact, instance, values, wanted, rule.why, rule.fix, rule.note)


def _rails(nodes: Mapping[str, NodeFacts], fabric: Fabric) -> Iterator[OddNodes]:
    """What is not as the site describes the rails of a fabric."""
    interfaces = mpis.transport(fabric.transport).interfaces
    for rail in fabric.rails:
        names = _names(rail)
        rows: dict[str, list[tuple[str, Any]]] = {}
        for node, facts in nodes.items():
            name = next((each for each in names if each in facts.get("state", {})), "")
            state, mtu = (facts.get(fact, {}).get(name, ABSENT) for fact in ("state", "mtu_bytes"))
            rate = facts.get("rate_gbit_per_s", {}).get(name, ABSENT)
            if state not in UP:
                rows.setdefault("state", []).append((node, state))
            if interfaces and fabric.mtu_bytes is not None and mtu != fabric.mtu_bytes and state is not ABSENT:
                rows.setdefault("mtu_bytes", []).append((node, mtu))
            numa = facts.get("numa_node", {}).get(name, ABSENT)
            if rail.numa_node is not None and numa not in (ABSENT, rail.numa_node):
                rows.setdefault("numa_node", []).append((node, numa))
            least = rail.line_rate_gbit_per_s and SLOW_SHARE * rail.line_rate_gbit_per_s
            if least and state in UP and not _is_number(rate):
                rows.setdefault(UNREADABLE, []).append((node, rate))
            elif least and _is_number(rate) and rate < least:
                rows.setdefault("rate_gbit_per_s", []).append((node, rate))
        wanted = {
            "state": (f"a rail of {fabric.name} must be up", "nothing can be measured over it", "see cable, port and its log"),
            "mtu_bytes": (
                f"the site says {fabric.mtu_bytes} for {fabric.name}",
                "nodes with different MTUs lose or split packets",
                f"set it, or correct {SITE_FILES}",
            ),
            "numa_node": (
                f"the site says {rail.numa_node} for {fabric.name}",
                "nic_local and nic_remote would be the wrong way round",
                f"correct numa_node in {SITE_FILES}, or see which slot the card is in",
            ),
            "rate_gbit_per_s": (
                f"the site says {_shown(rail.line_rate_gbit_per_s)} for {fabric.name}",
                "the port came up slower",
                "see cable and switch port",
            ),
            UNREADABLE: (
                f"the site says {_shown(rail.line_rate_gbit_per_s)} for {fabric.name}",
                "whether the port came up slower is not known",
                f"see the driver, or take line_rate_gbit_per_s out of {SITE_FILES}",
            ),
        }
        for fact, pairs in rows.items():
            kinds = dict.fromkeys(value for _, value in pairs)
            values = tuple((kind, tuple(node for node, value in pairs if value == kind)) for kind in kinds)
            # Software interfaces and those of virtual machines have no rate; an RDMA port always has one.
            note = fact == UNREADABLE and interfaces
            yield OddNodes("rate_gbit_per_s" if fact == UNREADABLE else fact, rail.device, values, *wanted[fact], note)


def _addresses(nodes: Mapping[str, NodeFacts], fabrics: Sequence[Fabric]) -> Iterator[OddNodes]:
    """IP addresses of a fabric's interfaces that several nodes have: what is sent to one of them reaches another.

    Of other interfaces that may be meant: those behind a translation of addresses are alike in all virtual machines.
    """
    names = dict.fromkeys(name for fabric in fabrics for name in (*fabric.devices, *fabric.tcp_interfaces))
    for name in names:
        owners: dict[str, list[str]] = {}
        for node, facts in nodes.items():
            for address in str(facts.get("addresses", {}).get(name) or "").split(", "):
                owners.setdefault(address, []).append(node)
        for address, having in owners.items():
            if address and len(having) > 1 and not ipaddress.ip_address(address).is_loopback:
                why = "what is sent to one of them reaches another, and connections are refused or hang"
                fix = "give each its own, and see 'ip neigh' on a third node for the link-layer address that answers"
                values = ((address, tuple(sorted(having))),)
                yield OddNodes("addresses", name, values, "each node must have an address of its own", why, fix)


def _names(rail: Rail) -> tuple[str, str]:
    """What a node calls it: an interface or Slingshot device, or a port of an RDMA device."""
    return (rail.device, f"{rail.device}:{rail.port}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "not to be read"
    text = f"{value:.12g}" if isinstance(value, float) else repr(value) if value == "" else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
