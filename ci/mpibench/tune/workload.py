"""The conditions that a system's jobs use most, as Slurm's accounting has them: what a budget of tuning is spent on first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput

#: Columns that are read, as ``sacct(1)`` names them; others may be there.
COLUMNS = ("JobID", "JobName", "NNodes", "NTasks", "AllocCPUS", "ElapsedRaw")
#: How to get them.
COMMAND = f"sacct --allusers --starttime now-30days --parsable2 --format={','.join(COLUMNS)}"
#: Steps with one process a node, or none on the first node, that start an MPI's own ranks: their names are those of the
#: programs, as Slurm 22.05 recorded them of Intel MPI 2021.18, MPICH 5.0 and Open MPI 5.0; of Open MPI 4 by its manual.
DAEMONS = ("hydra_bstrap_proxy", "hydra_pmi_proxy", "prted", "orted")
#: Seconds below which tuning a condition is not begun.
LEAST_S = 120.0


@dataclass(frozen=True)
class UsedCondition:
    """Nodes and processes per node of some jobs.

    :param node_hours: that these took.
    """

    nodes: int
    ppn: int
    node_hours: float


@dataclass(frozen=True)
class Workload:
    """What the jobs of a system use.

    :param conditions: most node-hours first.
    :param node_hours: of all steps of more than one rank; ``uneven``: of those with other numbers on each node.
    :param assumed: of those whose daemons have no number of ranks, which are taken to be one on each core.
    """

    source: str
    conditions: tuple[UsedCondition, ...]
    node_hours: float
    uneven: float = 0.0
    assumed: float = 0.0

    def share(self, conditions: Sequence[UsedCondition]) -> float:
        """Part of all node-hours that some conditions have."""
        return sum(each.node_hours for each in conditions) / self.node_hours


def read(path: Path) -> Workload:
    """What ``sacct --parsable2`` printed.

    Of each job its steps count; a job with nothing but its batch script does not, as nothing says that it uses MPI.

    :raises BadInput: it is not that, or nothing of it has more than one rank.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"cannot read {path} ({getattr(error, 'strerror', None) or error}): write it with '{COMMAND}'."
        ) from None
    header = lines[0].split("|") if lines else []
    if missing := [name for name in COLUMNS if name not in header]:
        raise BadInput(f"{path} has no column {', '.join(missing)} in its first line: write it with '{COMMAND}'.")
    rows = [_cut(line, header, f"{path}, line {number}") for number, line in enumerate(lines[1:], 2) if line.strip()]
    jobs = {row["JobID"]: row for row in rows if "." not in row["JobID"]}
    sums: dict[tuple[int, int], float] = {}
    uneven = assumed = 0.0
    for row in rows:
        job, _, step = row["JobID"].partition(".")
        if not step or step in ("batch", "extern", "interactive"):
            continue
        allocated = jobs.get(job) if row["JobName"] in DAEMONS else row
        if allocated is None:
            raise BadInput(f"{path}: step {row['JobID']} has no line of its job {job}: write it with '{COMMAND}', without -s.")
        nodes = _number(allocated, "NNodes", path)
        ranks = _number(allocated, "AllocCPUS" if allocated is not row else "NTasks", path)
        hours = nodes * _number(row, "ElapsedRaw", path) / 3600
        if ranks < 2 or not nodes:
            continue
        assumed += hours if allocated is not row else 0.0
        if ranks % nodes:
            uneven += hours
        else:
            key = (nodes, ranks // nodes)
            sums[key] = sums.get(key, 0.0) + hours
    total = sum(sums.values()) + uneven
    if not total:
        raise BadInput(f"{path} has no step of more than one rank that took any time: write it with '{COMMAND}'.")
    found = [UsedCondition(*key, hours) for key, hours in sums.items() if hours]
    ordered = sorted(found, key=lambda each: (-each.node_hours, each.nodes, each.ppn))
    return Workload(str(path), tuple(ordered), total, uneven, assumed)


def _cut(line: str, header: Sequence[str], where: str) -> dict[str, str]:
    """Column to its text. A job may be called anything, with bars as well."""
    at = header.index("JobName")
    words = line.split("|")
    more = len(words) - len(header)
    if more < 0:
        raise BadInput(f"{where} has {len(words)} fields, and the first line {len(header)}: it was cut; write it again.")
    joined = [*words[:at], "|".join(words[at : at + more + 1]), *words[at + more + 1 :]]
    return dict(zip(header, joined, strict=True))


def _number(row: dict[str, str], column: str, path: Path) -> int:
    text = row[column] or "0"
    if not text.isdecimal():
        raise BadInput(f"{path}: {column} of {row['JobID']} is {text!r}, which is no number: write it with '{COMMAND}'.")
    return int(text)


def part_of_first(conditions: Sequence[UsedCondition], seconds: Sequence[float]) -> float:
    """What of a budget the first of some conditions gets: as its node-hours are of those that get enough of it.

    :param conditions: most used first; ``seconds``: what the whole budget is for each.
    :return: from 0 to 1; 0 where not even the first has enough.
    """
    for count in range(len(conditions), 0, -1):
        together = sum(each.node_hours for each in conditions[:count])
        last = conditions[count - 1].node_hours / together
        if last * seconds[count - 1] >= LEAST_S:
            return conditions[0].node_hours / together
    return 0.0
