"""Rules for nodes: those of all systems in ``site_configs/preflight.yaml``, a system's own beside
its ``system.py``.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ... import optional_file, schema, yaml_file
from ...sites import systems
from ...vocabulary import ROOT, BadInput
from .node_facts import FACTS, WHOLE_NODE

FILE = "preflight.yaml"
SCHEMA = ROOT / "site_configs" / "preflight.schema.json"


@dataclass(frozen=True)
class Rule:
    """What one fact must be on each node.

    :param same: equal on all nodes of the partition.
    :param within: as far as this from the middle one counts as equal, in
        the fact's unit; ``within_percent`` of it.
    :param allowed: values it may have; empty: any.
    :param equals: another fact of the same node, port or interface
        whose value it must have; empty: none.
    :param among: another fact: what of one node has the same value of it
        must be equal, too; empty: nothing must.
    :param instances: shell pattern of the ports, interfaces or page sizes it is about.
    :param partitions: where; empty: everywhere.
    :param required: a node that does not show the fact fails. Otherwise
        it is only odd where other nodes show it.
    :param note: it is said and fails nothing.
    """

    fact: str
    why: str
    fix: str
    same: bool = False
    within: float | None = None
    within_percent: float | None = None
    allowed: tuple[str | float, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    equals: str = ""
    among: str = ""
    instances: str = "*"
    partitions: tuple[str, ...] = ()
    required: bool = False
    note: bool = False

    def is_for(self, partition: str) -> bool:
        return not self.partitions or partition in self.partitions

    def concerns(self, partition: str, instance: str) -> bool:
        """Whether it is about a fact's instance on the nodes of a partition."""
        return self.is_for(partition) and fnmatch.fnmatchcase(instance, self.instances)

    def wanted(self) -> str:
        """What it must be, where that does not depend on the other nodes."""
        if self.equals:
            return f"must be its {self.equals}"
        if self.allowed:
            return "must be " + " or ".join(map(str, self.allowed))
        bounds = {"at least": self.at_least, "at most": self.at_most}
        return "must be " + " and ".join(
            f"{words} {bound:g}" for words, bound in bounds.items() if bound is not None
        )

    def permits(self, value: Any) -> bool:
        if self.allowed:
            return value in self.allowed
        if self.at_least is None and self.at_most is None:
            return True
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )


def load(
    system: str, root: Path = ROOT, partitions: Sequence[str] = (), *, rdma: bool = False
) -> tuple[Rule, ...]:
    """The rules of a system: those of all, each replaced or taken out by the system's own.

    :param partitions: all of the system; empty: not checked.
    :param rdma: for nodes with an RDMA fabric, of which ``expected_with_rdma`` is expected.
    :raises BadInput: naming file, key and remedy; also for a rule that could never find anything.
    """
    common = root / "site_configs" / FILE
    own = systems.folder_of(system, root) / FILE
    rows = _read(common, partitions)
    rows |= _read(own, partitions) if optional_file.is_there(own) else {}
    rules = []
    for fact, row in rows.items():
        if row is None:  # taken out
            continue
        same = row.get("same")
        expected = row.get("expected", [])
        if rdma and "expected_with_rdma" in row:
            same = None
            expected = row["expected_with_rdma"]
        near = same if isinstance(same, Mapping) else {}
        rule = Rule(
            fact,
            " ".join(row["why"].split()),
            " ".join(row["fix"].split()),
            same=same is not None,
            within=near.get("within"),
            within_percent=near.get("within_percent"),
            allowed=tuple(expected) if isinstance(expected, list) else (expected,),
            partitions=tuple(row.get("partitions", ())),
        )
        alike = ("at_least", "at_most", "equals", "among", "instances", "required", "note")
        rules.append(replace(rule, **{name: row[name] for name in alike if name in row}))
    return tuple(rules)


def _read(path: Path, partitions: Sequence[str]) -> dict[str, Any]:
    content = yaml_file.read_mapping(path)
    if fault := schema.find_fault(SCHEMA, content):
        remedy = f"expected {fault.expected}" if fault.expected else f"see {SCHEMA.name}"
        raise BadInput(
            "configuration-unusable", f"{path}: key '{fault.key}': {fault.message}; {remedy}."
        )
    for fact, row in content.items():
        if fact not in FACTS:
            raise BadInput(
                "configuration-unusable",
                f"{path}: key '{fact}': no such fact; {_suggest(fact, sorted(FACTS))}.",
            )
        for name in (row or {}).get("partitions", ()) if partitions else ():
            if name not in partitions:
                raise BadInput(
                    "configuration-unusable",
                    f"{path}: key '{fact}.partitions': {name!r} is not a partition of the system; "
                    f"{_suggest(name, partitions)}.",
                )
        for name in ("equals", "among"):
            other = (row or {}).get(name, fact)
            if other not in FACTS or (other in WHOLE_NODE) is not (fact in WHOLE_NODE):
                alike = sorted(
                    name for name in FACTS if (name in WHOLE_NODE) is (fact in WHOLE_NODE)
                )
                raise BadInput(
                    "configuration-unusable",
                    f"{path}: key '{fact}.{name}': {other} is not such a fact; "
                    f"{_suggest(other, alike)}.",
                )
        if fact in WHOLE_NODE and "instances" in (row or {}):
            raise BadInput(
                "configuration-unusable",
                f"{path}: key '{fact}.instances': {fact} is a fact of the whole node; remove it.",
            )
    return content


def _suggest(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, 1)
    return f"write '{near[0]}', or remove it" if near else f"known: {', '.join(names)}"
