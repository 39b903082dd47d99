"""Open MPI's dynamic rules of ``coll/han``, the component of two levels for several nodes with several ranks on each.

Nested counts (ompi/mca/coll/han/coll_han_dynamic_file.h, 5.0): collectives; of each its name and topologic levels; of each the
number of communicator sizes; of each ``bytes component [@algorithm]``, ascending from 0 bytes, of which the last that is not
larger counts, as of the sizes of communicators, the first of which must be 1. On the level ``global_communicator`` sizes are
those of the tests, and another component than ``han`` takes the call over: ``tuned`` by its own rules. So coll/han stays in
place for everything that has no rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...vocabulary import BadInput
from .model import AlgorithmRule, Control, Tuning

NAME = "openmpi_han_rules.conf"
ENV = {"OMPI_MCA_coll_han_use_dynamic_file_rules": "1"}
VARIABLE = "OMPI_MCA_coll_han_dynamic_rules_filename"
#: First version of which coll/han comes before coll/tuned.
SINCE = (5,)
#: Beginning of the words of its algorithms.
PREFIX = "han-"
_HAN, _TUNED, _LEVEL = "han", "tuned", "global_communicator"
#: Stands, in what is read back, for "by the rules of coll/tuned".
BY_TUNED = ""


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


def read(tuning: Tuning, text: str, ranks: int) -> list[AlgorithmRule]:
    """Rules of a file for communicators of so many ranks; of what coll/tuned decides the word is :data:`BY_TUNED`.

    :raises BadInput: it is not of this form.
    """
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    controls = {control.collective.lower(): control for control in tuning.controls}
    rules: list[AlgorithmRule] = []
    try:
        at = _Words(words)
        for _ in range(at.number()):
            control = controls[at.word()]
            if (at.number(), at.word()) != (1, _LEVEL):
                raise BadInput(f"{NAME} has rules of another level than {_LEVEL}.")
            sets = {}
            for _ in range(at.number()):
                size = at.number()
                sets[size] = [(at.number(), at.component()) for _ in range(at.number())]
            fitting = [size for size in sets if size <= ranks]
            if min(sets, default=0) != 1 or any(not steps or steps[0][0] for steps in sets.values()):
                raise BadInput(f"{NAME}: the rules of {control.collective} do not begin with 1 rank and 0 bytes.")
            rules += _ranges(control, sets[max(fitting)])
        if at.rest:
            raise BadInput(f"{NAME} goes on behind its last rule.")
    except (KeyError, ValueError, IndexError) as error:
        raise BadInput(f"{NAME} is not of its form ({type(error).__name__}: {error}).") from None
    return sorted(rules, key=lambda rule: (rule.collective, rule.first))


class _Words:
    """A file word by word."""

    def __init__(self, words: list[str]) -> None:
        self.rest = words

    def word(self) -> str:
        return self.rest.pop(0)

    def number(self) -> int:
        return int(self.word())

    def component(self) -> str:
        """Component, with the algorithm that may follow."""
        name = self.word()
        if name not in (_HAN, _TUNED):
            raise BadInput(f"{NAME} names component {name!r}, and none but {_HAN} and {_TUNED} is known here.")
        return f"{name} {self.word()}" if name == _HAN and self.rest and self.rest[0].startswith("@") else name


def _ranges(control: Control, steps: list[tuple[int, str]]) -> list[AlgorithmRule]:
    """Steps, each of which ends where the next begins, without those that leave everything as it is."""
    ends = [size - 1 for size, _ in steps[1:]]
    found = []
    for (size, component), end in zip(steps, [*ends, None], strict=True):
        if component == _HAN:
            continue
        name, _, algorithm = component.partition(" @")
        word = f"{PREFIX}{algorithm}" if name == _HAN else BY_TUNED
        if not control.by_size:
            found.append(AlgorithmRule(control.collective, 0, 0, word))
        elif end is None:
            raise BadInput(f"{NAME}: the last rule of {control.collective} has no end.")
        else:
            found.append(AlgorithmRule(control.collective, size, end, word))
    return found
