"""The switches of a fabric as a tree, and the files that describe them; the format is recognised by
content.

Each switch has the one above it and the nodes below it. Fat trees have several switches above each
leaf; those side by side count as one switch of this tree.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from ..printable import few
from ..vocabulary import BadInput
from . import cabling
from .cabling import Cabling, FabricPort
from .switch_paths import name_of

#: Where a tree is from. ``guessed``: from the measured map itself.
SLURM, IBNETDISCOVER, OPA, YAML, GUESSED = ORIGINS = (
    "slurm",
    "ibnetdiscover",
    "opa",
    "yaml",
    "guessed",
)
#: What stands above switches that are joined with one another and below nothing, as in a ring: no
#: switch, but there is a way.
JOINED = "(joined)"


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
    """All switches by name, checked: parents exist, nothing is above
    itself, and each node is on one switch.

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
            raise BadInput(
                "system-description",
                f"the origin of a tree of switches is one of {', '.join(ORIGINS)}, not "
                f"{self.origin!r}.",
            )
        seen: dict[str, str] = {}
        for name, switch in self.switches.items():
            if switch.parent is not None and switch.parent not in self.switches:
                raise BadInput(
                    "system-description",
                    f"switch {name} is below {switch.parent}, which is not described; add it.",
                )
            for node in switch.nodes:
                if (other := seen.setdefault(node, name)) != name:
                    raise BadInput(
                        "system-description",
                        f"node {node} is on two switches, {other} and {name}; keep one.",
                    )
        for name in self.switches:
            above = self.switches[name].parent
            passed = {name}
            while above is not None:
                if above in passed:
                    raise BadInput(
                        "system-description", f"switch {above} is above itself; correct it."
                    )
                passed.add(above)
                above = self.switches[above].parent

    @cached_property
    def leaf_of(self) -> Mapping[str, str]:
        """Node to the switch it is on."""
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
        """Links from one node to another, each as (from, to): up to the
        switch both hang below, and down again.

        None where one of them is not described, or no switch is above both.
        """
        up = self.path(source)
        down = self.path(target)
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
    """The names of a list of hosts as Slurm writes it, ``c[1-4,07],login``
    (``scontrol show hostnames`` does the same).

    :raises BadInput: it is no list of hosts.
    """
    pieces = _HOSTS.findall(text)
    if ",".join(pieces) != text:
        raise BadInput(
            "bad-option",
            f"'{text[:80]}' is not a Slurm host list such as c[1-4,7].",
        )
    names: list[str] = []
    for piece in pieces:
        runs = [
            _numbers(part, text) if at % 2 else [part]
            for at, part in enumerate(re.split(r"\[(.*?)\]", piece))
        ]
        if len(names) + prod(map(len, runs)) > MOST_NAMES:
            raise BadInput(
                "bad-option",
                f"'{text[:80]}' names more than {MOST_NAMES} hosts; correct its ranges.",
            )
        names += map("".join, product(*runs))
    return names


def _numbers(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for piece in inside.split(","):
        match = _RANGE.fullmatch(piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not match or not first <= last <= first + MOST_NAMES:
            raise BadInput(
                "bad-option",
                f"'{text[:80]}' has no range in '[{inside[:40]}]'; write it as in c[1-4,7].",
            )
        numbers += [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
    return numbers


def _side_by_side(
    above: Mapping[str, Iterable[str]], height: Mapping[str, int]
) -> tuple[dict[str, str], dict[str, str]]:
    """What each switch is called where those of one height that share a
    switch below are one, and what is above such a one.

    :param above: switch to those next above it; of several heights
        that of the first by name counts.
    """
    root = {name: name for name in height}

    def first(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    parents: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for name in sorted(height, key=lambda name: (height[name], name)):
        members.setdefault(first(name), []).append(name)
        for up in sorted(above.get(name, ())):
            known = parents.setdefault(first(name), up)
            if height[known] == height[up]:
                low, high = sorted((first(known), first(up)))
                root[high] = low
    called = {
        name: names[0] if not names[1:] else f"{names[0]}_and_{len(names) - 1}_more"
        for names in members.values()
        for name in names
    }
    return called, {called[name]: called[up] for name, up in parents.items()}


def _tree_of_described(
    source: str,
    below: Mapping[str, Sequence[str]],
    nodes: Mapping[str, tuple[str, ...]],
    origin: str = SLURM,
    notes: tuple[str, ...] = (),
) -> SwitchTree:
    """The tree of switches that name those below them.

    :raises BadInput: one is not described, or above itself.
    """
    above: dict[str, list[str]] = {}
    for name, children in below.items():
        for child in children:
            if child not in below:
                raise BadInput(
                    "file-damaged",
                    f"{source} has switch {child} below {name} without describing it.",
                )
            above.setdefault(child, []).append(name)
    height = dict.fromkeys(below, 0)
    for _ in below:
        higher = {
            name: 1 + max((height[child] for child in children), default=-1)
            for name, children in below.items()
        }
        if higher == height:
            break
        height = higher
    else:
        raise BadInput(
            "system-description",
            f"{source}: switch {max(height, key=height.__getitem__)} is above itself.",
        )
    called, parents = _side_by_side(above, height)
    plugged: dict[str, tuple[str, ...]] = {}
    for name, group in called.items():
        plugged[group] = plugged.get(group, ()) + nodes[name]
    if several := [name for name, ups in above.items() if ups[1:]]:
        notes += (
            f"{len(several)} switches, {several[0]} first, are below several others; switches side "
            "by side count as one",
        )
    return SwitchTree(
        origin, {name: Switch(parents.get(name), hosts) for name, hosts in plugged.items()}, notes
    )


def read_slurm(text: str, source: str) -> SwitchTree:
    """``topology.conf(5)`` and ``scontrol show topology`` of topology/tree
    and topology/block: lines of ``Key=value``.

    Blocks are leaves without anything above them (their nodes are close to each other; how blocks
    are joined, Slurm does not say), unless a line aggregates them.

    :raises BadInput: it has no switch, or is no tree.
    """
    nodes: dict[str, tuple[str, ...]] = {}
    below: dict[str, list[str]] = {}
    # A line goes on after a backslash (parse_config.c).
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        row = {
            key.lower(): value for key, value in re.findall(r"(\w+)=(\S*)", line.partition("#")[0])
        }
        aggregated = row.get("aggregatedblock")
        name = (
            f"blocks {aggregated}" if aggregated else row.get("switchname") or row.get("blockname")
        )
        if not name:
            continue
        if name in below:
            raise BadInput("file-damaged", f"{source} describes switch {name} twice; correct it.")
        below[name] = expand(row.get("switches") or aggregated or "")
        # `scontrol` also lists, for a switch above others, all nodes below those.
        nodes[name] = () if below[name] else tuple(map(name_of, expand(row.get("nodes", ""))))
    if not below:
        raise BadInput(
            "file-damaged",
            f"{source} describes no switch (SwitchName= or BlockName=); give the output of "
            "'scontrol show topology'.",
        )
    return _tree_of_described(source, below, nodes)


def _read_yaml(text: str, source: str) -> SwitchTree:
    """As the site describes them, each with the hosts below it, as
    Slurm writes lists, or the switches::

    switches:
      spine: {switches: "leaf[1-2]"}
      leaf1: {nodes: "c[1-4]"}
      leaf2: {nodes: "c[5-8]"}
    """
    from .. import yaml_file  # the suites load this file

    whole = yaml_file.parse(text, source)
    if isinstance(whole, list):
        return _of_topologies(whole, source)
    rows = whole.get("switches") if isinstance(whole, dict) else None
    if not isinstance(rows, dict) or not rows or set(whole) != {"switches"}:
        raise BadInput(
            "file-damaged",
            f"{source} is not a mapping of switches by name; write 'switches: "
            "{leaf1: {nodes: c[1-4]}}'.",
        )

    def names(switch: Any, key: str) -> list[str]:
        value = rows[switch].get(key) or []
        lists = value if isinstance(value, list) else [value]
        if not all(isinstance(listed, str) for listed in lists):
            raise BadInput(
                "file-damaged",
                f"{source}: {key} of {switch} are {value!r}; give a string such as c[1-4], or a "
                "list of them.",
            )
        return [name for listed in lists for name in expand(listed)]

    for name, row in rows.items():
        if not isinstance(row, dict) or not row or set(row) - {"nodes", "switches"}:
            raise BadInput(
                "file-damaged",
                f"{source}: switch {name} is {row!r}; give its nodes or its switches.",
            )
    nodes = {str(name): tuple(map(name_of, names(name, "nodes"))) for name in rows}
    return _tree_of_described(
        source, {str(name): names(name, "switches") for name in rows}, nodes, YAML
    )


def _of_topologies(rows: Sequence[Any], source: str) -> SwitchTree:
    """``topology.yaml(5)`` of Slurm 25.05: of several topologies that
    which is ``cluster_default``, else the first.
    """
    named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("topology"), str)]
    chosen: dict[str, Any] = next(
        (row for row in named if row.get("cluster_default") is True), (*named, {})[0]
    )
    kind, listed, child = next(
        (kind for kind in _TOPOLOGIES if isinstance(chosen.get(kind[0]), dict)), ("", "", "")
    )
    below = dict[str, list[str]]()
    nodes = dict[str, tuple[str, ...]]()
    for row in (chosen[kind].get(listed) if kind else None) or ():
        fields = row if isinstance(row, dict) else {}
        name, children, hosts = (fields.get(key, "") for key in (child, "children", "nodes"))
        if (
            not (
                isinstance(name, str)
                and name
                and isinstance(children, str)
                and isinstance(hosts, str)
            )
            or name in below
        ):
            raise BadInput(
                "file-damaged",
                f"{source}: {child} {row!r:.80} has no unique name with its nodes or children; "
                "correct it.",
            )
        below[name] = expand(children)
        nodes[name] = tuple(map(name_of, expand(hosts)))
    if not below:
        raise BadInput(
            "file-damaged",
            f"{source}: the topology of the cluster, {chosen.get('topology')}, has neither "
            "switches nor blocks; give a file in which the topology with 'cluster_default: true' "
            "has them.",
        )
    only = (f"of {len(named)} Slurm topologies, {chosen['topology']} is used",) if named[1:] else ()
    return _tree_of_described(source, below, nodes, SLURM, only)


#: Kinds of a topology in ``topology.yaml`` that say what is above a node,
#: with the keys of their list and of its rows.
_TOPOLOGIES = (("tree", "switches", "switch"), ("block", "blocks", "block"))


def _tree_of_cabling(
    found: Cabling, rails: Sequence[FabricPort], hosts: Collection[str]
) -> SwitchTree:
    """The tree of a fabric as its links were discovered, with the hosts
    where the fabric's own adapters are plugged in.

    :raises BadInput: no adapter is plugged into a switch.
    """
    if not found.plugs:
        raise BadInput(
            "file-damaged",
            f"{found.source} has no host on a switch; record the whole fabric.",
        )
    tables = found.leaves(rails or [FabricPort()], hosts)
    height = cabling.heights(found, {leaf for table in tables for leaf in table.values()})
    near = found.neighbours()
    parts = found.parts()
    above = {
        name: [other for other in near[name] if height.get(other) == high + 1]
        for name, high in height.items()
    }
    called, parents = _side_by_side(above, height)
    tops: dict[int, dict[str, str]] = {}
    for name, group in called.items():
        if group not in parents:
            tops.setdefault(parts[name], {})[group] = JOINED
    for joined in tops.values():
        parents |= joined if len(joined) > 1 else {}
    paths: dict[str, list[tuple[str, ...]]] = {}
    for host in tables[0] if tables else ():
        if all(host in table for table in tables):
            paths[host] = [_way(called[table[host]], parents) for table in tables]
    notes = []
    if len(tables) != 1:
        paths = _named_by_hosts(paths)
        so = "switches are named by the hosts below them" if paths else "no switches are known"
        notes.append(f"the fabric's adapter of a host is unknown, or there are several: {so}")
    switches: dict[str, Switch] = {}
    for host, (way, *_) in paths.items():
        for name, up in zip(way, (*way[1:], None), strict=True):
            switches.setdefault(name, Switch(up))
        switches[way[0]] = Switch(switches[way[0]].parent, (*switches[way[0]].nodes, host))
    tree = SwitchTree(found.origin, switches, tuple(notes))
    return replace(tree, notes=(*notes, *_not_a_tree(tree)))


def _way(name: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """A switch and those above it."""
    return (name, *_way(parents[name], parents)) if name in parents else (name,)


def _named_by_hosts(
    paths: Mapping[str, Sequence[tuple[str, ...]]],
) -> dict[str, list[tuple[str, ...]]]:
    """The one way up of each host, of switches that are called by the hosts below them; none where
    possible ways part the hosts differently.

    :param paths: host to its possible ways up.
    """
    found = {host: list[str]() for host in paths}
    for level in range(max((len(way) for ways in paths.values() for way in ways), default=0)):
        groupings = []
        for ways in zip(*paths.values(), strict=True):
            groups: dict[str, list[str]] = {}
            for host, way in zip(paths, ways, strict=True):
                groups.setdefault(way[level] if level < len(way) else "", []).append(host)
            groupings.append(groups)
        if len({frozenset(map(tuple, groups.values())) for groups in groupings}) > 1:
            return {}
        for name, hosts in groupings[0].items():
            spans = cabling.spans(hosts)
            shown = (
                f"the switch {f'{level} ' * (level > 1)}above {spans}"
                if level
                else f"the leaf of {spans}"
            )
            for host in hosts if name else ():
                found[host].append(JOINED if name == JOINED else shown)
    return {host: [tuple(way)] for host, way in found.items()}


def _not_a_tree(tree: SwitchTree) -> list[str]:
    """Notes on switches that are joined with one another and on hosts without a way to others."""
    beside = [name for name, switch in tree.switches.items() if switch.parent == JOINED]
    below = Counter(tree.path(host)[0] for host in tree.leaf_of)
    pairs, with_way = (
        sum(count * (count - 1) // 2 for count in counts)
        for counts in ([below.total()], below.values())
    )
    notes = []
    if beside:
        notes.append(
            f"{len(beside)} switches, {beside[0]} first, are connected to each other at the top, "
            "which is not a tree: faults between them are not flagged"
        )
    if pairs > with_way:
        notes.append(f"{pairs - with_way} of {pairs} pairs of hosts are not connected")
    return notes


#: What a text of each kind has (none has what another has), its reader, and what it is called.
_KINDS: tuple[tuple[str, Callable[[str, str], SwitchTree | Cabling], str], ...] = (
    (
        r"(?i)^\s*(?:SwitchName|BlockName)=\S",
        read_slurm,
        "topology.conf or 'scontrol show topology' of Slurm",
    ),
    (r'^(?:Switch|Ca)\s+\d+\s+"[SH]-', cabling.read_ibnetdiscover, "the output of ibnetdiscover"),
    (
        r"^\s*<->\s+0x[0-9a-fA-F]+\s+\d+\s+(?:FI|SW)\s",
        cabling.read_opa,
        "the output of 'opareport -o links'",
    ),
    (r"^switches:", _read_yaml, "YAML with 'switches:'"),
    (r"^\s*(?:-\s+)?topology:\s", _read_yaml, "topology.yaml of Slurm"),
)
#: Bytes of the largest file that is read: ibnetdiscover writes about 100 a port.
MOST_BYTES = 256 << 20


def is_of_slurm(text: str) -> bool:
    """Whether a text looks like Slurm's description."""
    return bool(re.search(_KINDS[0][0], text, re.MULTILINE))


class Description(NamedTuple):
    """A file that describes switches, as it was read."""

    text: str
    source: str

    def tree(self, rails: Sequence[FabricPort] = (), hosts: Collection[str] = ()) -> SwitchTree:
        """The tree that it describes; of what was discovered, that of a fabric.

        :param rails: that the fabric uses; empty: not known.
        :param hosts: that were measured; empty: all count.
        :raises BadInput: it is none of the known kinds, or damaged.
        """
        for mark, read_text, _ in _KINDS:
            if re.search(mark, self.text, re.MULTILINE):
                found = read_text(self.text, self.source)
                return (
                    _tree_of_cabling(found, rails, hosts) if isinstance(found, Cabling) else found
                )
        raise BadInput(
            "other-release",
            f"{self.source} describes no switches in a known format; give "
            f"{', '.join(title for _, _, title in _KINDS)}.",
        )


def read(path: Path) -> Description:
    """The text of a file that describes switches.

    :raises BadInput: it cannot be read.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(
                "too-large",
                f"{path} has more than {MOST_BYTES >> 20} MiB, so it is not a description of "
                "switches.",
            )
        return Description(path.read_text(errors="replace"), str(path))
    except OSError as error:
        raise BadInput(
            "file-unreadable",
            f"cannot read the description of switches {path} ({error.strerror}).",
        ) from None


def contradiction(tree: SwitchTree, hosts: Iterable[str]) -> str:
    """Sentence on hosts that a tree does not have; empty if it
    has them all, or none and says why.
    """
    if not tree.leaf_of and tree.notes:
        return ""
    lacking = [host for host in hosts if host not in tree.leaf_of]
    if not lacking:
        return ""
    return (
        f"the switches as {tree.origin} has them lack {few(lacking)}: the description is outdated "
        "or from another machine."
    )
