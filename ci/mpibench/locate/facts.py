"""What is known of an accused node beside its times: settings that most other nodes have otherwise, and errors of its links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from reframe_tests.harness.evidence.link_state import ERRORS, MUST_AGREE, SETTINGS
from reframe_tests.harness.printable import one_line

from ..store.sessions import Case

#: Facts named of one node, at most.
MOST = 4
#: Nodes that must show a fact before one can be unlike them.
_LEAST_NODES = 3


def known(cases: Iterable[Case]) -> dict[str, dict[str, Any]]:
    """Each node's facts by their names in words, from the links a case saw and from a preflight."""
    found: dict[str, dict[str, Any]] = {}
    for case in cases:
        if not case.proof:
            continue
        for row in case.proof.links:
            facts = found.setdefault(_short(row["node"]), {})
            facts.update({f"{word} of {row['link']}": row[key] for key, word in SETTINGS.items() if key in row})
        for settings in case.proof.kernel:
            if isinstance(settings, Mapping) and isinstance(settings.get("node"), str):
                facts = found.setdefault(_short(settings["node"]), {})
                facts.update({str(key): value for key, value in settings.items() if key != "node"})
    return found


def unlike_others(facts: Mapping[str, Mapping[str, Any]], node: str) -> list[str]:
    """Sentences on the facts of a node that more than half of all others have otherwise."""
    rows = []
    for name, value in facts.get(node, {}).items():
        others = [str(own[name]) for other, own in facts.items() if other != node and name in own]
        if len(others) + 1 < _LEAST_NODES:
            continue
        usual, count = Counter(others).most_common(1)[0]
        if usual != str(value) and 2 * count > len(others):
            rows.append((count / len(others), f"its {name} is {value}, {count} of {len(others)} others have {usual}"))
    # What nearly all others have tells most; stable, so that facts of a session come in its order.
    return [one_line(text) for _, text in sorted(rows, key=lambda row: -row[0])][:MOST]


def odd_links(cases: Iterable[Case]) -> dict[str, str]:
    """Nodes whose link is set otherwise than those of most others, each with a sentence: that is wrong whatever it reaches."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for case in cases:
        for row in case.proof.links if case.proof else ():
            for key in MUST_AGREE:
                if key in row:
                    rows.setdefault((str(row["link"]), key), {})[_short(row["node"])] = str(row[key])
    found: dict[str, list[str]] = {}
    for (link, key), values in rows.items():
        usual, count = Counter(values.values()).most_common(1)[0]
        # Of two nodes neither is the majority.
        for node in [node for node, value in values.items() if value != usual and 3 * count >= 2 * len(values)]:
            said = f"its {MUST_AGREE[key]} of {link} is {values[node]}, {count} of {len(values)} nodes have {usual}"
            found.setdefault(node, []).append(one_line(said))
    return {node: f"{node}: {'; '.join(said)}" for node, said in found.items()}


def link_errors(cases: Iterable[Case], node: str) -> list[str]:
    """Sentences on errors that the links of a node counted while it was measured."""
    counted: Counter[tuple[str, str]] = Counter()
    for case in cases:
        for row in case.proof.link_errors if case.proof else ():
            if row.get("reported") and _short(str(row.get("node"))) == node and isinstance(row.get("new"), int):
                counted[str(row.get("link")), str(row.get("counter"))] += row["new"]
    return [
        one_line(f"its {link} counted {new} {ERRORS.get(counter, counter)}")
        for (link, counter), new in counted.items()
        if new > 0
    ][:MOST]


def _short(host: str) -> str:
    """A host name without its domain, as maps have it."""
    return host.partition(".")[0]
