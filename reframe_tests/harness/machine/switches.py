"""The switches of a fabric as a tree, and the files that describe them: the content says what wrote one.

Each switch has the one above it and the nodes below it. Fat trees have several switches above each leaf; those that stand side
by side are one switch of this tree, as in Slurm's ``topology.conf``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from math import prod
from pathlib import Path
from typing import Any

from ..vocabulary import BadInput
from .switch_paths import name_of

#: Where a tree is from. ``guessed``: from the measured map itself.
SLURM, IBNETDISCOVER, OPA, YAML, GUESSED = ORIGINS = ("slurm", "ibnetdiscover", "opa", "yaml", "guessed")


@dataclass(frozen=True)
class Switch:
    """One switch.

    :param parent: the switch above it; ``None`` at the top.
    :param nodes: hosts that are plugged into it, by their names without a domain.
    """

    parent: str | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SwitchTree:
    """All switches by name, checked: parents exist, nothing is above itself, and each node hangs on one switch.

    :param origin: one of :data:`ORIGINS`.
    :param notes: what a reader should know of how it was read, as sentences without a full stop.
    """

    origin: str
    switches: Mapping[str, Switch]
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        """Check it.

        :raises BadInput: it is no tree.
        """
        if self.origin not in ORIGINS:
            raise BadInput("switches-tree", f"a tree of switches is from {', '.join(ORIGINS)}, not from {self.origin!r}.")
        seen: dict[str, str] = {}
        for name, switch in self.switches.items():
            if switch.parent is not None and switch.parent not in self.switches:
                raise BadInput("switches-tree", f"switch {name} hangs on {switch.parent}, which is not described.")
            for node in switch.nodes:
                if (other := seen.setdefault(node, name)) != name:
                    raise BadInput("switches-tree", f"node {node} hangs on two switches, {other} and {name}; name one.")
        for name in self.switches:
            above, passed = self.switches[name].parent, {name}
            while above is not None:
                if above in passed:
                    raise BadInput("switches-tree", f"switch {above} is above itself.")
                passed.add(above)
                above = self.switches[above].parent

    @cached_property
    def leaf_of(self) -> Mapping[str, str]:
        """Node to the switch it hangs on."""
        return {node: name for name, switch in self.switches.items() for node in switch.nodes}

    def path(self, node: str) -> tuple[str, ...]:
        """Switches above a node, the top one first; none where the node is not described."""
        switches: list[str] = []
        above = self.leaf_of.get(node)
        while above is not None:
            switches.insert(0, above)
            above = self.switches[above].parent
        return tuple(switches)

    def edges(self, source: str, target: str) -> tuple[tuple[str, str], ...]:
        """Links from one node to another, each as (from, to): up to the switch both hang below, and down again.

        None where one of them is not described, or no switch is above both.
        """
        up, down = self.path(source), self.path(target)
        shared = 0
        while shared < min(len(up), len(down)) and up[shared] == down[shared]:
            shared += 1
        if not shared:
            return ()
        stations = [source, *reversed(up[shared:]), up[shared - 1], *down[shared:], target]
        return tuple(pairwise(stations))

    def only(self, nodes: Iterable[str]) -> SwitchTree:
        """The tree with these nodes alone, and the switches above them."""
        wanted = set(nodes)
        kept = {switch for node in wanted for switch in self.path(node)}
        switches = {
            name: Switch(switch.parent, tuple(node for node in switch.nodes if node in wanted))
            for name, switch in self.switches.items()
            if name in kept
        }
        return SwitchTree(self.origin, switches, self.notes)


#: More names than any machine has; a mistyped range must not fill the memory.
MOST_NAMES = 1_000_000
_HOSTS = re.compile(r"(?:[^,\[\]]|\[[0-9,\-]+\])+")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def expand(text: str) -> list[str]:
    """The names of a list of hosts as Slurm writes it, ``c[1-4,07],login`` (``scontrol show hostnames`` does the same).

    :raises BadInput: it is no list of hosts.
    """
    pieces = _HOSTS.findall(text)
    if ",".join(pieces) != text:
        raise BadInput("hostlist-format", f"'{text[:80]}' is no list of hosts as Slurm writes them, such as c[1-4,7].")
    names: list[str] = []
    for piece in pieces:
        runs = [_numbers(part, text) if at % 2 else [part] for at, part in enumerate(re.split(r"\[(.*?)\]", piece))]
        if len(names) + prod(map(len, runs)) > MOST_NAMES:
            raise BadInput("hostlist-format", f"'{text[:80]}' names more than {MOST_NAMES} hosts; correct its ranges.")
        names += map("".join, product(*runs))
    return names


def _numbers(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for piece in inside.split(","):
        match = _RANGE.fullmatch(piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not match or not first <= last <= first + MOST_NAMES:
            raise BadInput("hostlist-format", f"'{text[:80]}' has no range in '[{inside[:40]}]'; write it as in c[1-4,7].")
        numbers += [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
    return numbers


def _tree_of_described(
    origin: str, source: str, below: Mapping[str, Iterable[str]], nodes: Mapping[str, tuple[str, ...]]
) -> SwitchTree:
    """The tree of switches that name those below them.

    :raises BadInput: one hangs on two others, or is not described.
    """
    parents: dict[str, str] = {}
    for name, children in below.items():
        for child in children:
            if (other := parents.setdefault(child, name)) != name:
                raise BadInput(
                    "switches-damaged", f"{source}: switch {child} hangs on {other} and on {name}; a tree has one above each."
                )
    if lacking := sorted(set(parents) - set(below)):
        raise BadInput(
            "switches-damaged", f"{source} has switch {lacking[0]} below {parents[lacking[0]]} and does not describe it."
        )
    return SwitchTree(origin, {name: Switch(parents.get(name), nodes[name]) for name in below})


def read_slurm(text: str, source: str) -> SwitchTree:
    """``topology.conf(5)`` and ``scontrol show topology`` of topology/tree and topology/block: lines of ``Key=value``.

    Blocks are leaves without anything above them (their nodes are close to each other; how blocks are joined, Slurm does not
    say), unless a line aggregates them.

    :raises BadInput: it has no switch, or is no tree.
    """
    nodes: dict[str, tuple[str, ...]] = {}
    below: dict[str, list[str]] = {}
    for line in text.splitlines():
        row = {key.lower(): value for key, value in re.findall(r"(\w+)=(\S*)", line.partition("#")[0])}
        aggregated = row.get("aggregatedblock")
        name = f"blocks {aggregated}" if aggregated else row.get("switchname") or row.get("blockname")
        if not name:
            continue
        if name in below:
            raise BadInput("switches-damaged", f"{source} describes switch {name} twice; correct it.")
        below[name] = expand(row.get("switches") or aggregated or "")
        # `scontrol` also lists, for a switch above others, all nodes below those.
        nodes[name] = () if below[name] else tuple(map(name_of, expand(row.get("nodes", ""))))
    if not below:
        raise BadInput(
            "switches-damaged",
            f"{source} describes no switch (SwitchName= or BlockName=); give the output of 'scontrol show topology'.",
        )
    return _tree_of_described(SLURM, source, below, nodes)


def _read_yaml(text: str, source: str) -> SwitchTree:
    """As the site describes them, each with the hosts below it, as Slurm writes lists, or the switches::

    switches:
      spine: {switches: "leaf[1-2]"}
      leaf1: {nodes: "c[1-4]"}
      leaf2: {nodes: "c[5-8]"}
    """
    from .. import yaml_file  # the suites load this file

    whole = yaml_file.parse(text, source)
    rows = whole.get("switches") if isinstance(whole, dict) else None
    if not isinstance(rows, dict) or not rows or set(whole) != {"switches"}:
        raise BadInput(
            "switches-damaged",
            f"{source} is not a mapping with switches alone, by their names; write 'switches: {{leaf1: {{nodes: c[1-4]}}}}'.",
        )

    def names(switch: Any, key: str) -> list[str]:
        value = rows[switch].get(key) or []
        lists = value if isinstance(value, list) else [value]
        if not all(isinstance(listed, str) for listed in lists):
            raise BadInput(
                "switches-damaged", f"{source}: {key} of {switch} are {value!r}; give text such as c[1-4], or a list of such."
            )
        return [name for listed in lists for name in expand(listed)]

    for name, row in rows.items():
        if not isinstance(row, dict) or not row or set(row) - {"nodes", "switches"}:
            raise BadInput("switches-damaged", f"{source}: switch {name} is {row!r}; give its nodes or its switches.")
    nodes = {str(name): tuple(map(name_of, names(name, "nodes"))) for name in rows}
    return _tree_of_described(YAML, source, {str(name): names(name, "switches") for name in rows}, nodes)


def _read_ibnetdiscover(text: str, source: str) -> SwitchTree:
    """What ``ibnetdiscover`` writes: a block for each switch and each channel adapter, a line for each cabled port.

    A block begins with ``Switch 36 "S-0002..." # "NAME" ...`` or ``Ca 1 "H-0002..." # "HOST HCA-1"``; its lines are
    ``[1] "H-0002..."[1](GUID) # "HOST HCA-1" lid 5 4xEDR``. Hosts are the first word of an adapter's description.
    """
    titles: dict[str, str] = {}
    ports: dict[str, list[str]] = {}
    block = ""
    for line in text.splitlines():
        if match := re.match(r'(?:Switch|Ca)\s+\d+\s+"([SH]-[0-9a-fA-F]+)"\s+#\s*"([^"]*)"', line):
            block = match[1]
            titles[block] = match[2]
            ports[block] = []
        elif match := re.match(r'\[\d+\](?:\([0-9a-fA-F]+\))?\s+"([SHR]-[0-9a-fA-F]+)"\[\d+\]', line):
            if not block:
                raise BadInput(
                    "switches-damaged",
                    f"{source} has a port before the first switch or adapter; it is cut off, record it again.",
                )
            ports[block].append(match[1])
        elif not line.strip():
            block = ""
    unknown = {other for others in ports.values() for other in others if other[0] in "SH"} - set(titles)
    if unknown:
        raise BadInput(
            "switches-damaged", f"{source} names {min(unknown)} and does not describe it; it is cut off, record it again."
        )
    names: dict[str, str] = {}
    for guid, title in titles.items():
        name = _plain(title) if guid[0] == "S" else name_of(title.split()[0] if title.split() else guid)
        # Of two switches with one description, the second has a part of its own GUID in its name.
        names[guid] = f"{name}-{guid[-6:]}" if guid[0] == "S" and name in names.values() else name
    hosts: dict[str, list[str]] = {}
    links = []
    for guid, others in ports.items():
        switches = [names[other] for other in others if other[0] == "S"]
        if guid[0] == "S":
            links += [(names[guid], switch) for switch in switches]
        # Adapters that are part of a switch (SHARP's) are no hosts.
        elif "aggregation node" not in titles[guid].lower():
            hosts.setdefault(names[guid], []).extend(switches)
    return _tree_of_links(hosts, links, IBNETDISCOVER, source)


_OPA_END = re.compile(r"\s*(<->|[0-9.]+g)\s+(0x[0-9a-fA-F]+)\s+(\d+)\s+(FI|SW)\s+(\S.*?)\s*")


def _read_opa(text: str, source: str) -> SwitchTree:
    """What ``opareport -o links`` of Omni-Path's FastFabric tools writes: two lines for each link.

    ``100g 0x00117501017bfd2d   1 FI c1 hfi1_0`` and ``<->  0x00117501026a5683  13 SW leaf1``: rate, GUID, port, type (FI: host
    fabric interface, SW: switch) and node description, whose first word is the host (FastFabric CLI reference).
    """
    ends = [match for match in map(_OPA_END.fullmatch, text.splitlines()) if match]
    hosts: dict[str, list[str]] = {}
    links: list[tuple[str, str]] = []
    guids: dict[str, str] = {}
    for number in range(0, len(ends), 2):
        pair = ends[number : number + 2]
        if [end[1] == "<->" for end in pair] != [False, True]:
            raise BadInput(
                "switches-damaged", f"{source}: link {number // 2 + 1} has not two ends; the report is cut off, write it again."
            )
        names = []
        for end in pair:
            name = _plain(end[5]) if end[4] == "SW" else name_of(end[5].split()[0])
            taken = end[4] == "SW" and any(guid != end[2] and other == name for guid, other in guids.items())
            names.append(guids.setdefault(end[2], f"{name}-{end[2][-6:]}" if taken else name))
        kinds = [end[4] for end in pair]
        if kinds == ["SW", "SW"]:
            links.append((names[0], names[1]))
        elif "SW" in kinds:
            host, switch = names if kinds[0] == "FI" else reversed(names)
            hosts.setdefault(host, []).append(switch)
    return _tree_of_links(hosts, links, OPA, source)


def _plain(name: str) -> str:
    """A switch's name in characters that a command line or a picture can show."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_") or "switch"


def _tree_of_links(
    hosts: Mapping[str, Iterable[str]], links: Iterable[tuple[str, str]], origin: str, source: str
) -> SwitchTree:
    """The tree of a fabric as its links were discovered.

    Switches of one height that have any switch below in common stand side by side, and are one switch of the tree; so are
    leaves' uplinks, which carry the traffic of all. Height is the distance from the nearest host.

    :param hosts: host to the switches its ports are plugged into, the first port first.
    :param links: pairs of switches that are joined, in any direction and any number.
    :raises BadInput: no host is plugged into a switch.
    """
    neighbours: dict[str, set[str]] = {}
    for left, right in links:
        if left != right:
            neighbours.setdefault(left, set()).add(right)
            neighbours.setdefault(right, set()).add(left)
    several: list[str] = []
    leaf_nodes: dict[str, list[str]] = {}
    for host, plugged in hosts.items():
        distinct = list(dict.fromkeys(plugged))
        if distinct:
            leaf_nodes.setdefault(distinct[0], []).append(host)
            several += [host] if distinct[1:] else []
    if not leaf_nodes:
        raise BadInput("switches-damaged", f"{source} has no host that is plugged into a switch; record the whole fabric.")
    level = sorted(leaf_nodes)
    reached = set(level)
    groups: dict[str, Sequence[str]] = {name: [name] for name in level}
    parents: dict[str, str] = {}
    while level:
        joined = {name: {other for member in groups[name] for other in neighbours.get(member, ())} for name in level}
        above = set[str]().union(*joined.values()) - reached
        reached |= above
        level = []
        for members, below in _side_by_side(above, joined):
            name = members[0] if not members[1:] else f"{members[0]}_and_{len(members) - 1}_more"
            groups[name] = members
            parents.update(dict.fromkeys(below, name))
            level.append(name)
    first = "".join(several[:1])
    note = f"{len(several)} hosts, {first} first, are plugged into several switches; that of their first port counts"
    switches = {name: Switch(parents.get(name), tuple(leaf_nodes.get(name, ()))) for name in groups}
    return SwitchTree(origin, switches, (note,) if several else ())


def _side_by_side(above: Iterable[str], joined: Mapping[str, set[str]]) -> list[tuple[list[str], list[str]]]:
    """Switches of one height that share a switch below, with all those below them."""
    left, groups = set(above), []
    while left:
        members, below, new = set[str](), set[str](), {min(left)}
        while new:
            members |= new
            below |= {name for name, others in joined.items() if others & new}
            new = {other for name in below for other in joined[name] & left} - members
        left -= members
        groups.append((sorted(members), sorted(below)))
    return groups


#: What a text of each kind has (none has what another has), its reader, and what it is called.
_KINDS: tuple[tuple[str, Callable[[str, str], SwitchTree], str], ...] = (
    (r"(?i)^\s*(?:SwitchName|BlockName)=\S", read_slurm, "topology.conf or 'scontrol show topology' of Slurm"),
    (r'^(?:Switch|Ca)\s+\d+\s+"[SH]-', _read_ibnetdiscover, "the output of ibnetdiscover"),
    (r"^\s*<->\s+0x[0-9a-fA-F]+\s+\d+\s+(?:FI|SW)\s", _read_opa, "the output of 'opareport -o links'"),
    (r"^switches:", _read_yaml, "YAML with 'switches:'"),
)
#: Bytes of the largest file that is read: ibnetdiscover writes about 100 a port.
MOST_BYTES = 256 << 20


def is_of_slurm(text: str) -> bool:
    """Whether a text looks like Slurm's description."""
    return bool(re.search(_KINDS[0][0], text, re.MULTILINE))


def read(path: Path) -> SwitchTree:
    """The tree that a file describes.

    :raises BadInput: it cannot be read, or is none of the known kinds.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(
                "switches-too-large", f"{path} has more than {MOST_BYTES >> 20} MiB and is no description of switches."
            )
        text = path.read_text(errors="replace")
    except OSError as error:
        raise BadInput(
            "switches-unreadable", f"{path}, which is to describe the switches, cannot be read ({error.strerror})."
        ) from None
    for mark, read_text, _ in _KINDS:
        if re.search(mark, text, re.MULTILINE):
            return read_text(text, str(path))
    raise BadInput(
        "switches-unknown-format",
        f"{path} describes no switches that can be read; give {', '.join(title for _, _, title in _KINDS)}.",
    )


def contradiction(tree: SwitchTree, hosts: Iterable[str]) -> str:
    """Sentence on hosts that a tree does not have; empty where it has them all."""
    lacking = [host for host in hosts if host not in tree.leaf_of]
    if not lacking:
        return ""
    named = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if lacking[3:] else "")
    return f"the switches as {tree.origin} has them lack {named}: the description is of another time or of another machine."
