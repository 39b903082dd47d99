"""How a job ended, as its scheduler reports it: a job that was cut short is not a result, even if what it printed looks whole.

ReFrame waits until a job is over and then asks only the test; the state itself fails nothing.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import batch_systems
from ...mpis import registry as mpis
from ...sites import site
from . import script

#: Job states that are no normal end, and what they mean. Slurm's: ``squeue(1)``, "JOB STATE CODES"; ``TIMEOUT`` also of
#: ReFrame's local scheduler. A state that is not here says nothing against the job.
BAD_STATES = {
    "BOOT_FAIL": "a node failed to boot",
    "CANCELLED": "somebody cancelled it",
    "DEADLINE": "it reached its deadline",
    "NODE_FAIL": "a node of it died or lost its daemon",
    "OUT_OF_MEMORY": "it ran out of memory",
    "PREEMPTED": "another job took its nodes",
    "REVOKED": "its cluster gave it away",
    "TIMEOUT": "it reached the job's time limit",
}
#: Bytes a job may still need for its outputs; less room than that explains a hole in them.
_ROOM_BYTES = 64 << 10
#: First word of the comment of a job that a ReFrame process waits for: it shows which job's ReFrame was killed.
OWNER = "mpibench"


def start_lines(scheduler: str, options: Sequence[str]) -> list[str]:
    """Lines of a job's script before its launches, so that ranks are given what the script sets.

    A job that is submitted with a clean environment, as centres have it, would start its ranks with one as well (sbatch(1),
    ``--export``; srun(1), SLURM_EXPORT_ENV).

    :param options: of the partition, under which the job is submitted.
    """
    system = batch_systems.find(scheduler)
    clean = any(word.startswith("--export") for option in options for word in option.split())
    return [f"unset {system.exports}"] if system and system.exports and clean else []


def submit_options(scheduler: str) -> list[str]:
    """Options for a job of this process: started once only, and marked as its own where the scheduler keeps comments."""
    system = batch_systems.find(scheduler)
    if system is None:
        return []
    options = list(system.no_requeue)
    if system.comment:
        options.append(f"{system.comment}={OWNER}:{script.Owner.this_process().text}")
    return options


@dataclass(frozen=True)
class JobEnd:
    """What is known of the end of a job.

    :param number: the scheduler's number of the job.
    :param state: the scheduler's word; empty where it has none.
    :param exit_status: of the job script; ``None`` where unknown.
    :param nodes: nodes it ran on, as far as known.
    """

    number: str = ""
    state: str = ""
    exit_status: int | None = None
    nodes: Sequence[str] = ()

    @property
    def name(self) -> str:
        """How sentences call it: ``job 17 on c1, c2``."""
        return " ".join(filter(None, ("job", self.number, f"on {', '.join(self.nodes)}" if self.nodes else "")))


def judge(end: JobEnd) -> list[str]:
    """Sentences unless the job ended normally."""
    words = [word for word in end.state.replace("+", "").split(",") if word in BAD_STATES]
    if words:
        return [f"ended in state {word}: {BAD_STATES[word]}." for word in dict.fromkeys(words)]
    if end.exit_status:
        return [f"the job script ended with exit status {end.exit_status}."]
    return []


def judge_room(directory: Path) -> list[str]:
    """Sentences unless a job's directory still takes what an output may need; explains holes in what a job wrote."""
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(bytes(_ROOM_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return [f"nothing more can be written to the stage directory {directory} ({error.strerror}); make room."]
    return []


def ask_for_one_node(job: Any, partition: Any, nodes: int) -> None:
    """Give a job on one node the options that it needs under Slurm where a fabric of the partition is such.

    :param job: ReFrame's.
    """
    if nodes > 1 or partition.scheduler.registered_name not in batch_systems.SLURM.schedulers:
        return
    fabrics = site.fabrics_of(partition.extras).values()
    words = [word for fabric in fabrics for word in mpis.transport(fabric.transport).slurm_on_one_node]
    # Another --network is somebody's own choice.
    given = {word.partition("=")[0] for word in (*job.options, *job.cli_options, *job.launcher.options)}
    words = [word for word in dict.fromkeys(words) if word.partition("=")[0] not in given]
    job.options += words
    if job.launcher.registered_name == "srun":
        job.launcher.options += words


def ask_for_nodes(job: Any, partition: Any, count: int, wanted: Sequence[str]) -> None:
    """Have a job ask for nodes by name, where its scheduler can be asked and nobody chose or left out nodes otherwise.

    :param job: ReFrame's.
    :param count: nodes of the job.
    """
    chosen = any(
        re.match(r"(--)?(nodelist|exclude|nodefile|host|vnode)\b|-[wxF]", word) for word in (*job.options, *job.cli_options)
    )
    if len(wanted) == count and not chosen:
        job.options += batch_systems.node_options(partition.scheduler.registered_name, wanted)
