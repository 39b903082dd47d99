"""Open MPI's dynamic rules of ``coll/tuned``: the classic file of numbers, and since 6.0 the JSON
file.

Classic (docs/tuning-apps/collectives/tuned.rst): number of collectives; of each its id and number
of communicator sizes; of each the size and its number of rules; of each ``bytes algorithm topology
segment``. The nearest smaller communicator size and message size apply; for communicators smaller
than all of them, the first (ompi/mca/coll/tuned/coll_tuned_dynamic_rules.c, 5.0). So rules for
exactly ``p`` ranks are placed between sets with algorithm 0 (the library's own choice) at 1 and ``p
+ 1``, and a rule for 0 bytes is required. JSON has inclusive ranges; without a rule the library
chooses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...vocabulary import BadInput
from .model import FOLDER, AlgorithmRule, TunedFiles, Tuning, Wanted

NAME = "openmpi_rules.conf"
JSON_NAME = "openmpi_rules.json"
VARIABLE = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
#: What puts coll/tuned before coll/han.
PRIORITY = "OMPI_MCA_coll_tuned_priority"
#: First version that reads JSON.
JSON_SINCE = (6,)
OWN_CHOICE = "0"
#: The same of ``coll/han``, the component of two levels for several nodes with several ranks on
#: each, and the first version of which it comes before coll/tuned.
HAN_NAME = "openmpi_han_rules.conf"
HAN_VARIABLE = "OMPI_MCA_coll_han_dynamic_rules_filename"
HAN_SINCE = (5,)
HAN_ENV = {"OMPI_MCA_coll_han_use_dynamic_file_rules": "1"}
#: Beginning of the words of its algorithms.
HAN_PREFIX = "han-"
_HAN = "han"
_TUNED = "tuned"
_LEVEL = "global_communicator"


def write(tuning: Tuning, wanted: Wanted) -> TunedFiles:
    """The classic file, and beside it the JSON one; the library is given the one its version reads.

    Where coll/han has its say, its file is a further one, and coll/tuned is not put before it.

    :raises BadInput: a rule has an algorithm of coll/han where that takes no part.
    """
    if not wanted.rules:
        return TunedFiles({})
    spread = wanted.nodes > 1 and wanted.ranks > wanted.nodes and wanted.version >= HAN_SINCE
    own = replace(
        wanted, rules=tuple(rule for rule in wanted.rules if not rule.word.startswith(HAN_PREFIX))
    )
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    further: dict[str, str] = {}
    if own.rules:
        texts = {NAME: _write_classic(tuning, own), JSON_NAME: _write_json(tuning, own)}
        taken, other = (JSON_NAME, NAME) if wanted.version >= JSON_SINCE else (NAME, JSON_NAME)
        env = {**tuning.env, VARIABLE: f"{FOLDER}/{taken}"}
        files = {taken: texts[taken]}
        further = {other: texts[other]}
    if spread:
        env.pop(PRIORITY, None)
        env |= {**HAN_ENV, HAN_VARIABLE: f"{FOLDER}/{HAN_NAME}"}
        files[HAN_NAME] = _write_han(tuning, wanted.rules, wanted.ranks)
    elif own.rules != wanted.rules:
        raise BadInput(
            "configuration-unusable",
            "coll/han of Open MPI 5 and newer needs several nodes with several ranks on each.",
        )
    return TunedFiles(env, files, further)


def _write_classic(tuning: Tuning, wanted: Wanted) -> str:
    by_collective: dict[str, list[AlgorithmRule]] = {}
    for rule in wanted.rules:
        by_collective.setdefault(rule.collective, []).append(rule)
    controls = sorted((tuning.find(name) for name in by_collective), key=lambda row: row.number)
    lines = [f"{len(controls)} # collectives"]
    for control in controls:
        steps: list[tuple[int, str]] = [(0, OWN_CHOICE)]
        for rule in by_collective[control.collective]:
            if not control.by_size:
                steps = [(0, rule.word)]
                break
            times = wanted.ranks if control.whole else 1
            steps = [step for step in steps if step[0] != rule.first * times]
            steps += [(rule.first * times, rule.word), ((rule.last + 1) * times, OWN_CHOICE)]
        lines += [f"{control.number} # {control.collective}", "3 # communicator sizes"]
        lines += ["1 # rank and more: the library's own choice", "1", f"0 {OWN_CHOICE} 0 0"]
        lines += [
            f"{wanted.ranks} # ranks",
            f"{len(steps)} # rules: bytes, algorithm, topology, segment",
        ]
        lines += [f"{size} {word} 0 0" for size, word in steps]
        lines += [
            f"{wanted.ranks + 1} # ranks and more: the library's own choice",
            "1",
            f"0 {OWN_CHOICE} 0 0",
        ]
    return "\n".join(lines) + "\n"


def _write_json(tuning: Tuning, wanted: Wanted) -> str:
    collectives: dict[str, list[dict[str, Any]]] = {}
    for rule in wanted.rules:
        control = tuning.find(rule.collective)
        times = wanted.ranks if control.whole else 1
        row: dict[str, Any] = {"alg": int(rule.word)}
        if control.by_size:
            row = {
                "msg_size_min": rule.first * times,
                "msg_size_max": (rule.last + 1) * times - 1,
                **row,
            }
        collectives.setdefault(rule.collective.lower(), []).append(row)
    ranks = {"comm_size_min": wanted.ranks, "comm_size_max": wanted.ranks}
    content = {
        "rule_file_version": 3,
        "module": "tuned",
        "collectives": {name: [{**ranks, "rules": rows}] for name, rows in collectives.items()},
    }
    return json.dumps(content, indent=2) + "\n"


def _write_han(tuning: Tuning, rules: Sequence[AlgorithmRule], ranks: int) -> str:
    """Rules of ``coll/han``, for rules of either component.

    Nested counts (ompi/mca/coll/han/coll_han_dynamic_file.h, 5.0): collectives; of each its name
    and topologic levels; of each the number of communicator sizes; of each ``bytes component
    [@algorithm]``, ascending from 0 bytes, of which the last that is not larger counts, as of the
    sizes of communicators, the first of which must be 1. On the level ``global_communicator`` sizes
    are those of the tests, and another component than ``han`` takes the call over: ``tuned`` by its
    own rules. So coll/han stays in place for everything that has no rule.
    """
    names = dict.fromkeys(rule.collective for rule in rules)
    lines = [f"{len(names)} # collectives"]
    for name in names:
        steps: list[tuple[int, str]] = [(0, _HAN)]
        for rule in (rule for rule in rules if rule.collective == name):
            component = (
                f"{_HAN} @{rule.word.removeprefix(HAN_PREFIX)}"
                if rule.word.startswith(HAN_PREFIX)
                else _TUNED
            )
            if not tuning.find(name).by_size:
                steps = [(0, component)]
                break
            steps = [step for step in steps if step[0] != rule.first]
            steps += [(rule.first, component), (rule.last + 1, _HAN)]
        lines += [name.lower(), "1 # level", _LEVEL, "3 # communicator sizes"]
        lines += ["1 # rank and more: as without this file", "1", f"0 {_HAN}"]
        lines += [f"{ranks} # ranks", f"{len(steps)} # rules: bytes, component, algorithm"]
        lines += [f"{size} {component}" for size, component in steps]
        lines += [f"{ranks + 1} # ranks and more: as without this file", "1", f"0 {_HAN}"]
    return "\n".join(lines) + "\n"
