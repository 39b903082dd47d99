"""Intel MPI's ``I_MPI_ADJUST_<op>`` conditions, and the configuration file of ``mpiexec -tune`` that sets them.

``ALGORITHM:CONDITION,CONDITION;ALGORITHM:...``, where a condition is ``l``, ``l-m``, ``l@p``, ``l-m@p-q``: message sizes and
ranks of the communicator, inclusive (Intel MPI Library Developer Reference, 'I_MPI_ADJUST Family Environment Variables').
Sizes and communicators that no condition fits keep the library's own choice.
"""

from __future__ import annotations

import re

from ...vocabulary import BadInput
from .model import AlgorithmRule, TunedFiles, Tuning, Wanted

#: Largest message of a condition: that of a C int.
MOST = 2**31 - 1
_PART = re.compile(r"([0-9]+):([0-9,@-]+)")
_CONDITION = re.compile(r"([0-9]+)(?:-([0-9]+))?(?:@([0-9]+)(?:-([0-9]+))?)?")
_LINE = re.compile(r"-genv (\w+) '([^']*)'")


def write(tuning: Tuning, wanted: Wanted) -> TunedFiles:
    """Variables, and ``mpiexec_<fabric>_nn_<N>_np_<N>_ppn_<N>.conf`` with the same."""
    parts: dict[str, list[str]] = {}
    for rule in wanted.rules:
        control = tuning.find(rule.collective)
        first, last = (rule.first, rule.last) if control.by_size else (0, MOST)
        parts.setdefault(control.variable, []).append(f"{rule.word}:{first}-{last}@{wanted.ranks}-{wanted.ranks}")
    env = {variable: ";".join(each) for variable, each in parts.items()}
    lines = "".join(f"-genv {variable} '{value}'\n" for variable, value in env.items())
    return TunedFiles(env, further={f"mpiexec_{wanted.name}.conf": lines} if env else {})


def read(tuning: Tuning, found: TunedFiles, ranks: int) -> tuple[AlgorithmRule, ...]:
    """The rules for communicators of so many ranks.

    :raises BadInput: a value is none of this form, or the two ways say different things.
    """
    for name, text in found.further.items():
        if dict(_LINE.findall(text)) != dict(found.env):
            raise BadInput(f"{name} does not set what the variables do.")
    names = {control.variable: control for control in tuning.controls}
    rules = []
    for variable, value in found.env.items():
        if variable not in names:
            raise BadInput(f"{variable} sets no algorithm of a collective that is known here.")
        control = names[variable]
        for word, first, last, least, most in parse(variable, value):
            if least <= ranks <= most:
                sizes = (first, last) if control.by_size else (0, 0)
                rules.append(AlgorithmRule(control.collective, *sizes, word))
    return tuple(rules)


def parse(variable: str, value: str) -> list[tuple[str, int, int, int, int]]:
    """Algorithm, first and last size, fewest and most ranks of each condition.

    :raises BadInput: it is not of this form.
    """
    found = []
    for part in value.split(";"):
        match = _PART.fullmatch(part)
        if not match:
            raise BadInput(f"{variable}: {part!r} is not ALGORITHM:CONDITION,...")
        for text in match[2].split(","):
            condition = _CONDITION.fullmatch(text)
            if not condition:
                raise BadInput(f"{variable}: {text!r} is no condition l, l-m, l@p or l-m@p-q.")
            first, last, least, most = condition.groups()
            ranks = (int(least), int(most or least)) if least else (0, MOST)
            found.append((match[1], int(first), int(last or first), *ranks))
    return found
