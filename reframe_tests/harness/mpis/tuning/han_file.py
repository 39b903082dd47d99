"""Open MPI's dynamic rules of ``coll/han``, the component of two levels for several nodes with several ranks on each.

Nested counts (ompi/mca/coll/han/coll_han_dynamic_file.h, 5.0): collectives; of each its name and topologic levels; of each the
number of communicator sizes; of each ``bytes component [@algorithm]``, ascending from 0 bytes, of which the last that is not
larger counts, as of the sizes of communicators, the first of which must be 1. On the level ``global_communicator`` sizes are
those of the tests, and another component than ``han`` takes the call over: ``tuned`` by its own rules. So coll/han stays in
place for everything that has no rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from .model import AlgorithmRule, Tuning

NAME = "openmpi_han_rules.conf"
ENV = {"OMPI_MCA_coll_han_use_dynamic_file_rules": "1"}
VARIABLE = "OMPI_MCA_coll_han_dynamic_rules_filename"
#: First version of which coll/han comes before coll/tuned.
SINCE = (5,)
#: Beginning of the words of its algorithms.
PREFIX = "han-"
_HAN, _TUNED, _LEVEL = "han", "tuned", "global_communicator"


def is_of_han(word: str) -> bool:
    """Whether an algorithm is one of coll/han."""
    return word.startswith(PREFIX)


def write(tuning: Tuning, rules: Sequence[AlgorithmRule], ranks: int) -> str:
    """The file, for rules of either component."""
    names = dict.fromkeys(rule.collective for rule in rules)
    lines = [f"{len(names)} # collectives"]
    for name in names:
        steps: list[tuple[int, str]] = [(0, _HAN)]
        for rule in (rule for rule in rules if rule.collective == name):
            component = f"{_HAN} @{rule.word.removeprefix(PREFIX)}" if is_of_han(rule.word) else _TUNED
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
