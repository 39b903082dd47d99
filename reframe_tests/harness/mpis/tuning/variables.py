"""Libraries that take one algorithm of a collective from a variable and nothing else: MVAPICH2's ``MV2_<OP>_TUNING``.

They choose for all sizes and all communicators; a file of assignments sets them.
"""

from __future__ import annotations

from .model import TunedFiles, Tuning, Wanted

NAME = "mpi_tuned.env"


def write(tuning: Tuning, wanted: Wanted) -> TunedFiles:
    """Variables, and a file of shell assignments with the same.

    :raises BadInput: a collective has rules for several sizes.
    """
    env = {tuning.find(rule.collective).variable: rule.word for rule in wanted.rules}
    text = "".join(f"export {name}={value}\n" for name, value in env.items())
    return TunedFiles(env, further={NAME: text} if env else {})
