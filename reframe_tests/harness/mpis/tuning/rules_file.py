"""Open MPI's dynamic rules of ``coll/tuned``: the classic file of numbers, and from 6.0 on the JSON file.

Classic (docs/tuning-apps/collectives/tuned.rst): number of collectives; of each its id and number of communicator sizes; of
each the size and its number of rules; of each ``bytes algorithm topology segment``. The nearest smaller communicator size and
message size count, and of communicators smaller than all of them the first (ompi/mca/coll/tuned/coll_tuned_dynamic_rules.c,
5.0). So rules for exactly ``p`` ranks stand between sets with algorithm 0 (the library's own choice) at 1 and ``p + 1``, and a
rule for 0 bytes must be there. JSON has inclusive ranges; without a rule the library chooses.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ...vocabulary import BadInput
from . import han_file
from .model import FOLDER, AlgorithmRule, TunedFiles, Tuning, Wanted

NAME, JSON_NAME = "openmpi_rules.conf", "openmpi_rules.json"
VARIABLE = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
#: What puts coll/tuned before coll/han.
PRIORITY = "OMPI_MCA_coll_tuned_priority"
#: First version that reads JSON.
JSON_SINCE = (6,)
OWN_CHOICE = "0"


def write(tuning: Tuning, wanted: Wanted) -> TunedFiles:
    """The classic file, and beside it the JSON one; the library is given the one its version reads.

    Where coll/han has its say, its file is a further one, and coll/tuned is not put before it.

    :raises BadInput: a rule has an algorithm of coll/han where that takes no part.
    """
    if not wanted.rules:
        return TunedFiles({})
    spread = wanted.nodes > 1 and wanted.ranks > wanted.nodes and wanted.version >= han_file.SINCE
    own = replace(wanted, rules=tuple(rule for rule in wanted.rules if not han_file.is_of_han(rule.word)))
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    further: dict[str, str] = {}
    if own.rules:
        texts = {NAME: _write_classic(tuning, own), JSON_NAME: _write_json(tuning, own)}
        taken, other = (JSON_NAME, NAME) if wanted.version >= JSON_SINCE else (NAME, JSON_NAME)
        env = {**tuning.env, VARIABLE: f"{FOLDER}/{taken}"}
        files, further = {taken: texts[taken]}, {other: texts[other]}
    if spread:
        env.pop(PRIORITY, None)
        env |= {**han_file.ENV, han_file.VARIABLE: f"{FOLDER}/{han_file.NAME}"}
        files[han_file.NAME] = han_file.write(tuning, wanted.rules, wanted.ranks)
    elif own.rules != wanted.rules:
        raise BadInput(
            "coll/han of Open MPI 5 and newer takes part with several nodes and several ranks on each, and not here."
        )
    return TunedFiles(env, files, further)


def _write_classic(tuning: Tuning, wanted: Wanted) -> str:
    by_collective: dict[str, list[AlgorithmRule]] = {}
    for rule in wanted.rules:
        by_collective.setdefault(rule.collective, []).append(rule)
    controls = sorted((tuning.find(name) for name in by_collective), key=lambda each: each.number)
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
        lines += [f"{wanted.ranks} # ranks", f"{len(steps)} # rules: bytes, algorithm, topology, segment"]
        lines += [f"{size} {word} 0 0" for size, word in steps]
        lines += [f"{wanted.ranks + 1} # ranks and more: the library's own choice", "1", f"0 {OWN_CHOICE} 0 0"]
    return "\n".join(lines) + "\n"


def _write_json(tuning: Tuning, wanted: Wanted) -> str:
    collectives: dict[str, list[dict[str, Any]]] = {}
    for rule in wanted.rules:
        control = tuning.find(rule.collective)
        times = wanted.ranks if control.whole else 1
        row: dict[str, Any] = {"alg": int(rule.word)}
        if control.by_size:
            row = {"msg_size_min": rule.first * times, "msg_size_max": (rule.last + 1) * times - 1, **row}
        collectives.setdefault(rule.collective.lower(), []).append(row)
    ranks = {"comm_size_min": wanted.ranks, "comm_size_max": wanted.ranks}
    content = {
        "rule_file_version": 3,
        "module": "tuned",
        "collectives": {name: [{**ranks, "rules": rows}] for name, rows in collectives.items()},
    }
    return json.dumps(content, indent=2) + "\n"
