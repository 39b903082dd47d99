"""The answer for programs: JSON, JUnit, and commands for Slurm that are printed and never run."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from reframe_tests.harness.printable import one_line, plain_data
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES

from .effects import Accused
from .judgement import Localisation
from .sentences import percent
from .suspects import PAIR

#: Names of nodes that Slurm takes as one node and no shell takes for anything else.
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: Characters of a reason that a shell, Slurm's parser and a terminal all take as they are.
_REASON = re.compile(r"[^A-Za-z0-9 .,:;%()/_+-]")
#: Characters of a reason, at most.
_LONGEST = 160

Say = Callable[[Accused], str]


def drain(answer: Localisation, say: Say, session: str) -> list[str]:
    """A command for each node that is accused; a switch or cable is none that Slurm could drain."""
    reasons = dict(answer.evident)
    for finding in answer.findings:
        for node in finding.nodes:
            reasons.setdefault(node, say(finding))
    return [_drain(node, f"mpibench {session[:8]}: {why}") for node, why in reasons.items()]


def _drain(node: str, why: str) -> str:
    if not _NODE.fullmatch(node):
        return f"# no command for {shlex.quote(one_line(node))}: it is not a node name that Slurm would take as one node"
    reason = _REASON.sub("_", one_line(why))[:_LONGEST].strip()
    return f"scontrol update nodename={node} state=drain reason={shlex.quote(reason)}"


def wires(answer: Localisation, test: str, fabric: str, where: str) -> list[str]:
    """A command for each accused node and pair that measures, without MPI, what its link carries to a node nobody accuses.

    :param test: of ``reframe_tests/cascade.py``; none where it is empty; ``where``: system and partition, as ReFrame has them.
    """
    accused = {name for finding in answer.findings for name in finding.names} | set(answer.evident)
    healthy = [node for node in answer.nodes if node not in accused]
    found: dict[tuple[str, ...], None] = {}
    for finding in answer.findings if test else ():
        if finding.kind == PAIR:
            found.setdefault(finding.names)
        for node in finding.nodes:
            # Below the same switch, so that nothing else is on the way.
            near = sorted(healthy, key=lambda other: answer.places.leaf(other) != answer.places.leaf(node))
            found.update(dict.fromkeys((node, other) for other in near[:1]))
    words = ("reframe", "-c", "reframe_tests/cascade.py", "-r", "-n", f"{test}%fabric={fabric}", f"--system={where}")
    return [shlex.join([*words, "-J", f"nodelist={','.join(pair)}"]) for pair in found if all(map(_NODE.fullmatch, pair))]


def as_data(answer: Localisation, say: Say, session: str, system: str, status: int) -> dict[str, Any]:
    """Everything, for programs; what is not known is ``None``."""
    data: dict[str, Any] = plain_data(
        {
            "session": session,
            "system": system,
            "status": status,
            "nodes": list(answer.nodes),
            "innocents_per_run_at_most": sum(part.rate for part in answer.parts),
            "switches": {"origin": answer.places.origin or None, "guessed": answer.places.guessed},
            "accused_nodes": list(answer.accused),
            "evident": dict(answer.evident),
            "findings": [_finding(finding, say, answer.facts) for finding in answer.findings],
            "inconclusive": list(answer.inconclusive),
            "quantities": [
                {
                    "quantity": part.seen.quantity,
                    "observations": len(part.seen),
                    "rounds": len(set(part.seen.moment.tolist())),
                    "tests": part.tests,
                    "innocents_per_run_at_most": part.rate,
                    "noise_percent": 100 * math.expm1(part.residuals.spread),
                    "smallest_loss_accused_times": part.floor,
                    "levels": [
                        {
                            **asdict(level),
                            "value": math.exp(
                                level.slowness if QUANTITIES[part.seen.quantity].direction == LOWER else -level.slowness
                            ),
                        }
                        for level in part.residuals.levels
                    ],
                }
                for part in answer.parts
            ],
            "notes": list(answer.notes),
        }
    )
    return data


def _finding(finding: Accused, say: Say, facts: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        "sentence": say(finding),
        "quantity": finding.quantity,
        "kind": finding.kind,
        "names": list(finding.names),
        "way": finding.way,
        "switch_level": finding.level,
        "extent": finding.extent,
        "accused_nodes": list(finding.nodes),
        "facts": [sentence for node in finding.nodes for sentence in facts.get(node, ())],
        "directions": [
            {
                **asdict(direction),
                "suspect": direction.suspect._asdict(),
                "alike": [other._asdict() for other in direction.alike],
                "percent_of_others": percent(direction),
            }
            for direction in finding.directions
        ],
    }


def junit(maps: Sequence[tuple[str, Localisation, Say]], system: str) -> str:
    """A test suite for each map: a test case for each node, each other suspect that is accused, and what is inconclusive."""
    root = ElementTree.Element("testsuites")
    for title, answer, say in maps:
        suite = ElementTree.SubElement(root, "testsuite", {"name": one_line(f"mpibench locate {system}, {title}")})
        accused = {node: [text] for node, text in answer.evident.items()}
        for finding in answer.findings:
            for name in finding.nodes or (" and ".join(finding.names),):
                accused.setdefault(name, []).append(say(finding))
        for name in dict.fromkeys([*answer.nodes, *accused]):
            _case(suite, name, "failure", "accused", accused.get(name, ()))
        _case(suite, "everything could be decided", "error", "inconclusive", answer.inconclusive)
        for attribute, element in (("failures", "failure"), ("errors", "error")):
            suite.set(attribute, str(len(suite.findall(f"testcase/{element}"))))
        suite.set("tests", str(len(suite.findall("testcase"))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, name: str, element: str, kind: str, said: Sequence[str]) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": "locate", "name": one_line(name)})
    if said:
        text = one_line("; ".join(said))
        ElementTree.SubElement(case, element, {"type": kind, "message": text}).text = text
