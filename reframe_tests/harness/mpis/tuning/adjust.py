"""Intel MPI's ``I_MPI_ADJUST_<op>`` conditions, and the configuration file of ``mpiexec -tune`` that sets them.

``ALGORITHM:CONDITION,CONDITION;ALGORITHM:...``, where a condition is ``l``, ``l-m``, ``l@p``, ``l-m@p-q``: message sizes and
ranks of the communicator, inclusive (Intel MPI Library Developer Reference, 'I_MPI_ADJUST Family Environment Variables').
Sizes and communicators that no condition fits keep the library's own choice.
"""

from __future__ import annotations

from .model import TunedFiles, Tuning, Wanted

#: Largest message of a condition: that of a C int.
MOST = 2**31 - 1


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
