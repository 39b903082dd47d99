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


def read(tuning: Tuning, found: TunedFiles, ranks: int) -> tuple[AlgorithmRule, ...]:
    """The rules for communicators of so many ranks, from all files; they must say the same.

    :raises BadInput: a file is not of its form, or they say different things.
    """
    readers = {NAME: read_classic, JSON_NAME: read_json}
    texts = {**found.files, **found.further}
    answers = [readers[name](tuning, text, ranks) for name, text in texts.items() if name in readers]
    if any(each != answers[0] for each in answers):
        raise BadInput(f"{NAME} and {JSON_NAME} say different things.")
    own = answers[0] if answers else ()
    if han_file.NAME not in texts:
        return own
    both = han_file.read(tuning, texts[han_file.NAME], ranks)
    left_to_tuned = [replace(rule, word=han_file.BY_TUNED) for rule in own]
    if [rule for rule in both if rule.word == han_file.BY_TUNED] != left_to_tuned:
        raise BadInput(f"{han_file.NAME} leaves other calls to coll/tuned than its own rules are for.")
    of_han = [rule for rule in both if rule.word != han_file.BY_TUNED]
    return tuple(sorted([*own, *of_han], key=lambda rule: (rule.collective, rule.first)))


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


def read_classic(tuning: Tuning, text: str, ranks: int) -> tuple[AlgorithmRule, ...]:
    """Rules of a classic file for communicators of so many ranks.

    :raises BadInput: it is not of this form.
    """
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    if not all(word.isdecimal() for word in words):
        raise BadInput(f"{NAME} holds something that is no number.")
    numbers = iter([int(word) for word in words])
    controls = {control.number: control for control in tuning.controls}
    rules: list[AlgorithmRule] = []
    try:
        for _collective in range(next(numbers)):
            control = controls.get(next(numbers))
            sets = {}
            for _size in range(next(numbers)):
                size = next(numbers)
                sets[size] = [tuple(next(numbers) for _ in range(4)) for _rule in range(next(numbers))]
            fitting = [size for size in sets if size <= ranks] or list(sets)[:1]
            if control is None:
                raise BadInput(f"{NAME} names a collective by an id that is not known here.")
            if fitting:
                steps = [(step[0], str(step[1])) for step in sets[max(fitting)]]
                if not steps or steps[0][0]:
                    raise BadInput(f"{NAME}: the rules of {control.collective} do not begin with 0 bytes.")
                rules += _ranges(control.collective, steps, ranks if control.whole else 1, control.by_size)
        if next(numbers, None) is not None:
            raise BadInput(f"{NAME} goes on behind its last rule.")
    except (StopIteration, RuntimeError):  # the latter from within a generator
        raise BadInput(f"{NAME} ends before its last rule.") from None
    return tuple(sorted(rules, key=lambda rule: (rule.collective, rule.first)))


def _ranges(collective: str, steps: list[tuple[int, str]], times: int, by_size: bool) -> list[AlgorithmRule]:
    """Steps, each of which ends where the next begins, as rules without the library's own choice."""
    if not by_size:
        return [AlgorithmRule(collective, 0, 0, steps[0][1])] if steps[0][1] != OWN_CHOICE else []
    ends = [size for size, _ in steps[1:]]
    return [
        AlgorithmRule(collective, size // times, end // times - 1, word)
        for (size, word), end in zip(steps, ends, strict=False)
        if word != OWN_CHOICE
    ]


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


def read_json(tuning: Tuning, text: str, ranks: int) -> tuple[AlgorithmRule, ...]:
    """Rules of a JSON file for communicators of so many ranks.

    :raises BadInput: it is not of this form.
    """
    names = {control.collective.lower(): control for control in tuning.controls}
    rules = []
    try:
        content = json.loads(text)
        if (content["rule_file_version"], content["module"]) != (3, "tuned"):
            raise BadInput(f"{JSON_NAME} is of another version or component.")
        for name, sets in content["collectives"].items():
            control = names[name]
            times = ranks if control.whole else 1
            for row in (
                row for each in sets if each["comm_size_min"] <= ranks <= each["comm_size_max"] for row in each["rules"]
            ):
                first, last = row.get("msg_size_min", 0) // times, (row.get("msg_size_max", -1) + 1) // times - 1
                first, last = (first, last) if control.by_size else (0, 0)
                rules.append(AlgorithmRule(control.collective, first, last, str(row["alg"])))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{JSON_NAME} is not of its form ({type(error).__name__}: {error}).") from None
    return tuple(sorted(rules, key=lambda rule: (rule.collective, rule.first)))
