"""Libraries that take one algorithm of a collective from a variable and nothing else: MVAPICH2's ``MV2_<OP>_TUNING``.

They choose for all sizes and all communicators; a file of assignments sets them.
"""

from __future__ import annotations

import re

from ...vocabulary import BadInput
from .model import AlgorithmRule, TunedFiles, Tuning, Wanted

NAME = "mpi_tuned.env"
_LINE = re.compile(r"export (\w+)=([\w.-]+)")


def write(tuning: Tuning, wanted: Wanted) -> TunedFiles:
    """Variables, and a file of shell assignments with the same.

    :raises BadInput: a collective has rules for several sizes.
    """
    env = {tuning.find(rule.collective).variable: rule.word for rule in wanted.rules}
    text = "".join(f"export {name}={value}\n" for name, value in env.items())
    return TunedFiles(env, further={NAME: text} if env else {})


def read(tuning: Tuning, found: TunedFiles, ranks: int) -> tuple[AlgorithmRule, ...]:
    """The rules, of all sizes.

    :raises BadInput: the file sets something else than the variables.
    """
    for name, text in found.further.items():
        if dict(_LINE.findall(text)) != dict(found.env):
            raise BadInput(f"{name} does not set what the variables do.")
    names = {control.variable: control for control in tuning.controls}
    unknown = [name for name in found.env if name not in names]
    if unknown:
        raise BadInput(f"{unknown[0]} sets no algorithm of a collective that is known here.")
    return tuple(AlgorithmRule(names[name].collective, 0, 0, word) for name, word in found.env.items())
