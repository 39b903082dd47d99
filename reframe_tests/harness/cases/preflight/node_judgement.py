"""Which nodes differ from what they must be, or from the other nodes.

Facts that must be equal are judged by majority: a node is odd if more than half of all nodes agree
on another value. Without a majority (one node of two, or three thirds) it is impossible to say
which node is right, and all are named.
"""

from __future__ import annotations

import ipaddress
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ...evidence.link_state import SLOW_SHARE
from ...machine.fabric import Fabric, Rail
from ...machine.gpu import Gpu
from ...mpis import registry as mpis
from ...printable import few
from ...vocabulary import SITE_FILES
from .node_answers import FEW, NodeFacts
from .node_facts import GPU_FACTS, VENDORS
from .rules import Rule

#: Value of a fact that a node does not show.
ABSENT = None
#: States of a rail that carries data: operstate of an interface
#: (``unknown``: software such as the loopback), RDMA port.
UP = ("up", "unknown", "active")
#: Name of what is judged first of a card: whether it is there.
PRESENCE = "presence"
#: Name of what is judged of a rail's rate if there is none.
UNREADABLE = "no rate"
#: Characters at most of a value in a sentence; the session has all of it.
LONGEST = 300


class Seen(msgspec.Struct, frozen=True):
    """A value, and the nodes that have it."""

    value: Any
    nodes: tuple[str, ...]


class OddNodes(msgspec.Struct, frozen=True):
    """One fact of some nodes that is not as it must be, as stored with the session.

    :param instance: port, interface or page size; empty: the node as a whole.
    :param values: of the odd nodes.
    :param wanted: what it must be, as text.
    """

    fact: str
    instance: str
    values: tuple[Seen, ...]
    wanted: str
    why: str
    fix: str
    note: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node for seen in self.values for node in seen.nodes))

    def text(self, instances: Sequence[str] = ()) -> str:
        """One sentence: what, where, what it must be, why, and how to put it right.

        :param instances: all that the same is to be said of; default: its own.
        """
        of = few(instances or (self.instance,), FEW)
        subject = of if self.fact == PRESENCE else f"{self.fact} of {of}" if of else self.fact
        shown = "; ".join(
            f"{_shown(seen.value)} on {few(seen.nodes, FEW)}" for seen in self.values[:FEW]
        )
        if rest := self.values[FEW:]:
            shown += f"; {len(rest)} other values on {sum(len(seen.nodes) for seen in rest)} nodes"
        return f"{subject} is {shown}; {self.wanted}: {self.why} (to correct it: {self.fix})"


def group(odd_nodes: Iterable[OddNodes]) -> list[tuple[OddNodes, tuple[str, ...]]]:
    """What is odd, merged for all ports with the same finding (a card has several), with their
    names.
    """
    alike: dict[OddNodes, list[str]] = {}
    for odd in odd_nodes:
        alike.setdefault(msgspec.structs.replace(odd, instance=""), []).append(odd.instance)
    return [(odd, tuple(instances)) for odd, instances in alike.items()]


def texts(odd_nodes: Iterable[OddNodes]) -> list[str]:
    return [odd.text(instances) for odd, instances in group(odd_nodes)]


def find_unseen(
    nodes: Mapping[str, NodeFacts], rules: Iterable[Rule], partition: str, *, gpus: bool = False
) -> list[str]:
    """Sentence on rules that hold nothing, since no node shows
    what they are about; none without nodes.

    :param gpus: the site describes GPUs; where neither it nor a
        node has any nothing is said of them.
    """
    gpus = gpus or any("gpu" in facts for facts in nodes.values())
    unseen = [
        rule.fact if rule.instances == "*" else f"{rule.fact} of {rule.instances}"
        for rule in rules
        if rule.is_for(partition) and not rule.required and (gpus or rule.fact not in GPU_FACTS)
        if not any(
            rule.concerns(partition, instance)
            for facts in nodes.values()
            for instance in facts.get(rule.fact, {})
        )
    ]
    return [f"no node shows {', '.join(unseen)}, so it was not checked"] if nodes and unseen else []


def judge(
    nodes: Mapping[str, NodeFacts],
    rules: Iterable[Rule],
    partition: str,
    fabrics: Iterable[Fabric],
    gpus: Sequence[Gpu] = (),
    kind: str = "",
) -> list[OddNodes]:
    """What is odd, what fails first, then in the order of the rules.

    :param nodes: :func:`node_answers.read`.
    :param fabrics: of the partition; each rail must be there, up, and as described.
    :param gpus: of every node, as the site describes them; ``kind``: their platform.
    """
    rules = tuple(rules)
    fabrics = tuple(fabrics)
    odd = [
        *_addresses(nodes, fabrics),
        *(row for fabric in fabrics for rail in fabric.rails for row in _rail(nodes, fabric, rail)),
        *_gpus(nodes, gpus, kind),
    ]
    described = {gpu.bus_id for gpu in gpus} | {
        name for fabric in fabrics for rail in fabric.rails for name in _names(rail)
    }
    # Port, interface or page size to the nodes that show anything of it.
    having: dict[str, dict[str, None]] = {}
    for node, facts in nodes.items():
        for instance in {instance for values in facts.values() for instance in values if instance}:
            having.setdefault(instance, {})[node] = None
    for instance, there in sorted(having.items()):
        about = [
            rule
            for rule in rules
            if rule.concerns(partition, instance)
            and any(instance in facts.get(rule.fact, {}) for facts in nodes.values())
        ]
        if about and len(there) < len(nodes) and instance not in described:
            odd.append(_presence(nodes, instance, there, all(rule.note for rule in about)))
    # What the site says of a rail is what it is held to, and not what most nodes have.
    stated = {(row.fact, row.instance) for row in odd}
    for rule in rules:
        instances = dict.fromkeys(
            instance for facts in nodes.values() for instance in facts.get(rule.fact, {})
        )
        concerned = [instance for instance in instances if rule.concerns(partition, instance)]
        if not concerned and rule.required and rule.is_for(partition):
            which = "" if rule.instances == "*" else rule.instances
            odd.append(_odd(rule, which, dict.fromkeys(nodes, ABSENT), "every node must show it"))
        for instance in concerned:
            if (rule.fact, instance) not in stated:
                # A card that is not there is reported once, and not for each of its facts.
                judged = {
                    node: facts
                    for node, facts in nodes.items()
                    if not instance or node in having[instance]
                }
                if uneven := _uneven(judged, rule, instance) if rule.among else {}:
                    must = f"on a node it must be the same wherever {rule.among} is"
                    odd.append(_odd(rule, instance, uneven, must, ordered=True))
                if others := {node: facts for node, facts in judged.items() if node not in uneven}:
                    odd += (_unlike if rule.same else _unfit)(others, rule, instance)
    return sorted(odd, key=lambda row: row.note)


def _presence(
    nodes: Mapping[str, NodeFacts], instance: str, there: Mapping[str, Any], note: bool
) -> OddNodes:
    """Nodes without a card that most have, or with one that most
    have not; all if there is no majority.
    """
    kinds = {"there": tuple(there), "missing": tuple(node for node in nodes if node not in there)}
    wanted = "nodes of a partition must have the same, but there is no majority"
    for kind, have in (("there", "have it"), ("missing", "do not have it")):
        if 2 * len(kinds.get(kind, ())) > len(nodes):
            wanted = f"{len(kinds.pop(kind))} of {len(nodes)} nodes {have}"
    values = tuple(Seen(kind, names) for kind, names in kinds.items())
    why = "it is broken, missing or renamed, or has no driver"
    fix = "see lspci and the kernel's log"
    return OddNodes(PRESENCE, instance, values, wanted, why, fix, note)


def _unfit(nodes: Mapping[str, NodeFacts], rule: Rule, instance: str) -> Iterator[OddNodes]:
    """Nodes with a value that the rule does not permit. What one node shows all can show."""
    bad: dict[str, Any] = {}
    for node, facts in nodes.items():
        value = facts.get(rule.fact, {}).get(instance, ABSENT)
        other = facts.get(rule.equals, {}).get(instance, ABSENT) if rule.equals else value
        if value is ABSENT or not rule.permits(value):
            bad[node] = value
        elif other != value:
            bad[node] = f"{_shown(value)} where {rule.equals} is {_shown(other)}"
    if bad:
        yield _odd(rule, instance, bad, rule.wanted(), ordered=True)


def _unlike(nodes: Mapping[str, NodeFacts], rule: Rule, instance: str) -> Iterator[OddNodes]:
    """Nodes that are unlike the majority; numbers near the middle one
    are alike where the rule says how near.
    """
    kinds = {node: facts.get(rule.fact, {}).get(instance, ABSENT) for node, facts in nodes.items()}
    numbers = [value for value in kinds.values() if _is_number(value)]
    middle: float | None = None
    if numbers and (rule.within is not None or rule.within_percent is not None):
        middle = float(statistics.median_low(numbers))
        room = (
            rule.within
            if rule.within is not None
            else abs(middle) * (rule.within_percent or 0.0) / 100
        )
        kinds = {
            node: middle if _is_number(value) and abs(value - middle) <= room else value
            for node, value in kinds.items()
        }
    usual, count = Counter(kinds.values()).most_common(1)[0]
    if count == len(kinds):
        return
    if 2 * count <= len(kinds):
        yield _odd(
            rule, instance, kinds, "it must be the same on all nodes, but there is no majority"
        )
        return
    wanted = f"{count} of {len(kinds)} nodes " + (
        "do not show it" if usual is ABSENT else f"have {_shown(usual)}"
    )
    if middle is not None and usual == middle:
        near = (
            f"within {rule.within:g}"
            if rule.within is not None
            else f"within {rule.within_percent:g} %"
        )
        wanted = f"the median is {_shown(middle)}, and {near} counts as equal"
    yield _odd(
        rule,
        instance,
        {node: kind for node, kind in kinds.items() if kind != usual},
        wanted,
        ordered=True,
    )


def _uneven(nodes: Mapping[str, NodeFacts], rule: Rule, instance: str) -> dict[str, Any]:
    """Nodes on which it is not like most of its kind, with what it
    is there, whatever the other nodes have.
    """
    bad: dict[str, Any] = {}
    for node, facts in nodes.items():
        values = facts.get(rule.fact, {})
        kinds = facts.get(rule.among, {})
        alike = [value for name, value in values.items() if kinds.get(name) == kinds.get(instance)]
        if instance in values and 2 * alike.count(values[instance]) <= len(alike):
            bad[node] = values[instance]
    return bad


def _seen(values: Mapping[str, Any], *, ordered: bool = False) -> tuple[Seen, ...]:
    having: dict[Any, list[str]] = {}
    for node, value in values.items():
        having.setdefault(value, []).append(node)
    rows = sorted(having.items(), key=str) if ordered else having.items()
    return tuple(Seen(value, tuple(names)) for value, names in rows)


def _odd(
    rule: Rule, instance: str, values: Mapping[str, Any], wanted: str, *, ordered: bool = False
) -> OddNodes:
    return OddNodes(
        rule.fact, instance, _seen(values, ordered=ordered), wanted, rule.why, rule.fix, rule.note
    )


def _rail(nodes: Mapping[str, NodeFacts], fabric: Fabric, rail: Rail) -> Iterator[OddNodes]:
    """What is not as the site describes a rail of a fabric."""
    interface = mpis.transport(fabric.transport).interfaces
    described = rail.line_rate_gbit_per_s
    says = f"the site says {{}} for {fabric.name}".format
    # What is wanted, why, and how to put it right.
    words = {
        "state": (
            f"a rail of {fabric.name} must be up",
            "nothing can be measured over it",
            "check cable, port and its log",
        ),
        "mtu_bytes": (
            says(fabric.mtu_bytes),
            "nodes with different MTUs lose or split packets",
            f"set it, or correct {SITE_FILES}",
        ),
        "numa_node": (
            says(rail.numa_node),
            "nic_local and nic_remote would be swapped",
            f"correct numa_node in {SITE_FILES}, or check which slot the card is in",
        ),
        "rate_gbit_per_s": (
            says(_shown(described)),
            "the port came up slower",
            "check cable and switch port",
        ),
        UNREADABLE: (
            says(_shown(described)),
            "whether the port came up slower is unknown",
            f"check the driver, or remove line_rate_gbit_per_s from {SITE_FILES}",
        ),
    }
    wrong: dict[str, dict[str, Any]] = {fact: {} for fact in words}
    for node, facts in nodes.items():
        name = next((name for name in _names(rail) if name in facts.get("state", {})), "")
        state, mtu, numa, rate = (
            facts.get(fact, {}).get(name, ABSENT)
            for fact in ("state", "mtu_bytes", "numa_node", "rate_gbit_per_s")
        )
        if state not in UP:
            wrong["state"][node] = state
        if (
            interface
            and fabric.mtu_bytes is not None
            and mtu != fabric.mtu_bytes
            and state is not ABSENT
        ):
            wrong["mtu_bytes"][node] = mtu
        if rail.numa_node is not None and numa not in (ABSENT, rail.numa_node):
            wrong["numa_node"][node] = numa
        if described and _is_number(rate) and rate < SLOW_SHARE * described:
            wrong["rate_gbit_per_s"][node] = rate
        if described and not _is_number(rate) and state in UP:
            wrong[UNREADABLE][node] = rate
    for kind, values in wrong.items():
        if values:
            # Software interfaces and those of virtual machines have no
            # rate; an RDMA port always has one.
            note = interface and kind == UNREADABLE
            fact = "rate_gbit_per_s" if kind == UNREADABLE else kind
            yield OddNodes(fact, rail.device, _seen(values), *words[kind], note=note)


def _gpus(nodes: Mapping[str, NodeFacts], gpus: Sequence[Gpu], kind: str) -> Iterator[OddNodes]:
    """GPUs that are not as the site describes them: their number, and where each is."""
    if not gpus:
        return
    there = {
        node: sorted(
            name
            for name, value in facts.get("gpu", {}).items()
            if str(value).startswith(VENDORS[kind])
        )
        for node, facts in nodes.items()
    }
    fix = f"see lspci and the kernel log, or correct gpus in {SITE_FILES}"
    counts = {node: len(names) for node, names in there.items() if len(names) != len(gpus)}
    if counts:
        yield OddNodes(
            "gpus",
            "",
            _seen(counts),
            f"the site says {len(gpus)}",
            "ranks would lack a GPU, or share it",
            fix,
        )
    for place, gpu in enumerate(gpus):
        if gpu.bus_id and (
            lacking := [node for node, names in there.items() if gpu.bus_id not in names]
        ):
            why = "ranks would not use the GPU next to their cores and adapter"
            yield OddNodes(
                PRESENCE,
                gpu.bus_id,
                (Seen("missing", tuple(lacking)),),
                "the site describes a GPU there",
                why,
                fix,
            )
        wrong: dict[str, dict[str, Any]] = {}
        for node, names in there.items():
            # Without addresses they are in the order of these.
            name = gpu.bus_id or (names[place] if len(names) == len(gpus) else "")
            numa = nodes[node].get("numa_node", {}).get(name, ABSENT)
            if gpu.numa_node is not None and numa not in (ABSENT, gpu.numa_node):
                wrong.setdefault(name, {})[node] = numa
        for name, values in wrong.items():
            why = "gpu_local and gpu_remote would be swapped"
            yield OddNodes(
                "numa_node", name, _seen(values), f"the site says {gpu.numa_node}", why, fix
            )


def _addresses(nodes: Mapping[str, NodeFacts], fabrics: Sequence[Fabric]) -> Iterator[OddNodes]:
    """IP addresses of a fabric's interfaces that several nodes have:
    what is sent to one of them reaches another.

    Of other interfaces that may be meant: those behind a translation of
    addresses are alike in all virtual machines.
    """
    names = dict.fromkeys(
        name for fabric in fabrics for name in (*fabric.devices, *fabric.tcp_interfaces)
    )
    for name in names:
        owners: dict[str, list[str]] = {}
        for node, facts in nodes.items():
            for address in str(facts.get("addresses", {}).get(name) or "").split(", "):
                owners.setdefault(address, []).append(node)
        for address, having in owners.items():
            if address and len(having) > 1 and not ipaddress.ip_address(address).is_loopback:
                why = "packets for one of them reach another, and connections are refused or hang"
                fix = (
                    "give each its own; 'ip neigh' on a third node shows the link-layer address "
                    "that responds"
                )
                values = (Seen(address, tuple(sorted(having))),)
                yield OddNodes(
                    "addresses", name, values, "each node must have an address of its own", why, fix
                )


def _names(rail: Rail) -> tuple[str, str]:
    """What a node calls it: an interface or Slingshot device, or a port of an RDMA device."""
    return (rail.device, f"{rail.device}:{rail.port}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "unreadable"
    text = (
        f"{value:.12g}" if isinstance(value, float) else repr(value) if value == "" else str(value)
    )
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
