"""Tunes one condition, or within one budget those that the jobs of a
system use most, as Slurm's accounting has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mpibench.judge.plan.making import Budget
from mpibench.night import supervision
from mpibench.only_one import only_one
from reframe_tests.harness.vocabulary import BadInput

from . import tuning
from .measuring import TuneRequest
from .tuning import NOTHING_BETTER

#: Exit status: of several conditions, one could not be measured.
NOT_ALL = 1

#: Columns that are read, as ``sacct(1)`` names them, in this order: the
#: last is a number, behind which a line ends.
COLUMNS = ("JobID", "JobName", "NNodes", "NTasks", "AllocCPUS", "ElapsedRaw")
#: How to get them, of the jobs of one of Slurm's partitions. A job may be called anything, with
#: line ends and bars as well: what stands between columns is drawn when they are requested, so that
#: no name holds it. (``--json`` would do, but is not in every build of Slurm.)
COMMAND = (
    "sacct --allusers --partition PARTITION --starttime now-30days --truncate --noconvert "
    "--parsable2 "
    f'--delimiter="$(mktemp -u XXXXXXXXXXXX)" --format={",".join(COLUMNS)}'
)
_HEADER = re.compile(
    "(?P<delimiter>.{8,}?)".join(COLUMNS[:2])
    + "".join(f"(?P=delimiter){name}" for name in COLUMNS[2:])
)
#: Steps with one process a node, or none on the first node, that start an MPI's own ranks: their
#: names are those of the programs, as Slurm 22.05 recorded them of Intel MPI 2021.18, MPICH 5.0 and
#: Open MPI 5.0; of Intel MPI to 2018 (``pmi_proxy``) and Open MPI 4 by their manuals.
DAEMONS = ("hydra_bstrap_proxy", "hydra_pmi_proxy", "pmi_proxy", "prted", "orted")
#: A job, of an array or a heterogeneous job as well, and a step of it.
_JOB = re.compile(r"[0-9]+(?:_(?:[0-9]+|\[[0-9,:%.-]*\]))?(?:\+[0-9]+)?(?:\.[A-Za-z0-9+]+)?")
#: Digits of a number that can be true: of ``ElapsedRaw`` 30,000 years.
_MOST_DIGITS = 12
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

    @property
    def text(self) -> str:
        return f"{self.nodes} x {self.ppn}"


@dataclass(frozen=True)
class Workload:
    """What the jobs of a system use.

    :param conditions: most node-hours first.
    :param node_hours: of all steps of more than one rank; ``uneven``: of those with other numbers
        on each node, and of components of heterogeneous jobs, which together may be one program.
    :param assumed: of those whose daemons have no number of ranks, which are taken to be one on
        each CPU that Slurm allocated.
    :param without: node-hours of jobs without a step of more than
        one rank, which are not among them.
    """

    source: str
    conditions: tuple[UsedCondition, ...]
    node_hours: float
    uneven: float = 0.0
    assumed: float = 0.0
    without: float = 0.0

    def share(self, conditions: Sequence[UsedCondition]) -> str:
        """Part of all node-hours that some conditions have."""
        return (
            f"{100 * sum(condition.node_hours for condition in conditions) / self.node_hours:.0f} "
            "% of the node-hours"
        )

    @property
    def lines(self) -> Iterator[str]:
        count = len(self.conditions)
        yield (
            f"{self.source}: {self.node_hours:.4g} node-hours of {count} conditions of nodes and "
            "processes per node"
        )
        for part, what in (
            (
                self.assumed,
                "were started by an MPI's own daemons; a rank on each allocated CPU is assumed",
            ),
            (
                self.uneven,
                "have different numbers of ranks on their nodes, or belong to heterogeneous jobs; "
                "they are not tuned",
            ),
        ):
            if part:
                yield f"  {100 * part / self.node_hours:.0f} % {what}"
        if self.without:
            hours = f"{self.without:.4g} node-hours of jobs without such a step"
            yield f"  besides these, {hours} that may not use MPI"


def read(path: Path) -> Workload:
    """What ``sacct --parsable2`` printed.

    Of each job its steps count; a job with nothing but its batch script
    does not, as nothing says that it uses MPI.
    """
    try:
        # No other line ends: a job may be called anything.
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except (OSError, ValueError) as error:
        raise BadInput(
            "scheduler-unusable",
            f"cannot read {path} ({getattr(error, 'strerror', None) or error}): write it with "
            f"'{COMMAND}'.",
        ) from None
    first, _, body = text.replace("\r\n", "\n").partition("\n")
    header = _HEADER.fullmatch(first)
    if not header:
        named = re.split("[^A-Za-z]+", first)
        missing = [name for name in COLUMNS if name not in named]
        lacks = (
            f"has no column {', '.join(missing)} in its first line"
            if missing
            else "may have job names that span lines"
        )
        raise BadInput("scheduler-unusable", f"{path} {lacks}: write it with '{COMMAND}'.")
    rows: dict[str, dict[str, str]] = {}
    for row in _rows(body, header["delimiter"], path):
        if rows.setdefault(row["JobID"], row) != row:
            said = f"{path} has two different lines for {row['JobID']}"
            raise BadInput(
                "scheduler-unusable",
                f"{said}: write one file, without --duplicates, with '{COMMAND}'.",
            )
    steps: dict[str, list[tuple[dict[str, str], int, int, float]]] = {}
    for row in rows.values():
        job, _, step = row["JobID"].partition(".")
        if not step or step in ("batch", "extern", "interactive"):
            continue
        allocated = rows.get(job) if row["JobName"] in DAEMONS else row
        if allocated is None:
            raise BadInput(
                "scheduler-unusable",
                f"{path}: step {row['JobID']} has no line of its job {job}: write it with "
                f"'{COMMAND}', without -s.",
            )
        nodes = _number(allocated, "NNodes", path)
        ranks = _number(allocated, "AllocCPUS" if allocated is not row else "NTasks", path)
        if ranks > 1 and nodes:
            steps.setdefault(job, []).append(
                (row, nodes, ranks, nodes * _number(row, "ElapsedRaw", path) / 3600)
            )
    sums: dict[tuple[int, int], float] = {}
    uneven = assumed = 0.0
    whole = {
        name: _number(row, "NNodes", path) * _number(row, "ElapsedRaw", path) / 3600
        for name, row in rows.items()
        if "." not in name
    }
    for job, there in steps.items():
        # Steps that run at once share the nodes of their job.
        most = whole.get(job, 0.0)
        together = sum(share_row[3] for share_row in there)
        part = most / together if 0 < most < together else 1.0
        for row, nodes, ranks, hours in there:
            assumed += part * hours if row["JobName"] in DAEMONS else 0.0
            if ranks % nodes or "+" in row["JobID"]:
                uneven += part * hours
            else:
                key = (nodes, ranks // nodes)
                sums[key] = sums.get(key, 0.0) + part * hours
    without = sum(hours for job, hours in whole.items() if job not in steps)
    total = sum(sums.values()) + uneven
    if not any(sums.values()):
        which = "with as many ranks on each node" if uneven else "of more than one rank"
        raise BadInput(
            "scheduler-unusable",
            f"{path} has no step {which} of any duration: write it with '{COMMAND}'.",
        )
    found = [UsedCondition(*key, hours) for key, hours in sums.items() if hours]
    ordered = sorted(found, key=lambda each: (-each.node_hours, each.nodes, each.ppn))
    return Workload(str(path), tuple(ordered), total, uneven, assumed, without)


def _rows(body: str, delimiter: str, path: Path) -> Iterator[dict[str, str]]:
    """Column to its text, of each line; what ends a line is the first
    line end behind the last delimiter of it.
    """
    last = len(COLUMNS) - 1
    parts = body.split(delimiter)
    if len(parts) % last != 1 or (body and not body.endswith("\n")):
        raise BadInput(
            "scheduler-unusable", f"{path}: its last line is incomplete; write it again."
        )
    job = parts[0]
    for at in range(last, len(parts), last):
        elapsed, end, following = parts[at].partition("\n")
        row = dict(zip(COLUMNS, (job, *parts[at - last + 1 : at], elapsed), strict=True))
        if not end or not _JOB.fullmatch(job):
            raise BadInput(
                "scheduler-unusable",
                f"{path}: {job[:40]!r} is not a Slurm job; write it again with '{COMMAND}'.",
            )
        yield row
        job = following
    if job:
        raise BadInput(
            "scheduler-unusable",
            f"{path}: {job[:40]!r} follows its last line; write it again with '{COMMAND}'.",
        )


def _number(row: dict[str, str], column: str, path: Path) -> int:
    text = row[column] or "0"
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise BadInput(
            "scheduler-unusable",
            f"{path}: {column} of {row['JobID']} is {text[:20]!r}, which is not a number: write it "
            f"with '{COMMAND}'.",
        )
    return int(text)


def part_of_first(conditions: Sequence[UsedCondition], seconds: Sequence[float]) -> float:
    """What of a budget the first of some conditions gets: as its node-hours are of those of the
    conditions, from the most used one on, of which each gets enough of it.

    :param conditions: most used first; ``seconds``: what the whole
        budget is for each, :data:`LEAST_S` or more.
    :return: above 0, at most 1.
    """
    for count in range(len(conditions), 1, -1):
        together = sum(condition.node_hours for condition in conditions[:count])
        parts = [
            condition.node_hours / together * whole
            for condition, whole in zip(conditions[:count], seconds, strict=False)
        ]
        if min(parts) >= LEAST_S:
            return conditions[0].node_hours / together
    return 1.0


def tune_one(request: TuneRequest) -> int:
    """Exit status of a condition.

    :raises supervision.Interrupted: by a signal; what was measured is kept.
    """
    place = request.place
    alone = only_one(
        request.folder.parent, "mpibench tune", f".{place.name}.lock", f"on {place.text}"
    )
    with supervision.heeded(), alone as lock:
        request = replace(request, held=(lock,))
        if request.dry_run:
            tuning.write_jobs(request)
            return 0
        return tuning.check(request) if request.check else tuning.tune(request)


def seconds_of(bound: Budget, amount: float, nodes: int) -> float:
    """Seconds of an amount of a budget on so many nodes."""
    return 60 * amount if bound.unit == "min" else 3600 * amount / nodes


def tune_most_used(
    jobs: Workload,
    bound: Budget,
    ask: Callable[[int, int, float], TuneRequest],
    say: Callable[[str], None],
) -> int:
    """Tune one condition after the other, most used first, each with its
    part of what is left of the budget; exit status.

    What one does not need, the others have. A condition that cannot be measured is named and costs
    nothing more; one that an earlier call has tuned to its end is not tuned again.

    :param ask: nodes, processes per node and seconds to what is requested.
    :raises supervision.Interrupted: by a signal; what was measured is kept.
    """
    for line in jobs.lines:
        say(line)
    waiting = list(jobs.conditions)
    left = bound.amount
    done: list[UsedCondition] = []
    refused: list[UsedCondition] = []
    better = False
    first = ""
    what = "tuned"
    while fitting := [
        condition for condition in waiting if seconds_of(bound, left, condition.nodes) >= LEAST_S
    ]:
        used = fitting[0]
        part = left * part_of_first(
            fitting, [seconds_of(bound, left, condition.nodes) for condition in fitting]
        )
        waiting.remove(used)
        request = ask(used.nodes, used.ppn, seconds_of(bound, part, used.nodes))
        what = "written" if request.dry_run else "tuned"
        if not request.dry_run and (when := tuning.finished(request)):
            say(f"{used.text} was completely tuned on {when[:10]}: --restart tunes it again")
            done.append(used)
            better = better or tuning.installed(request.place) is not None
            continue
        say(f"{used.text}, {jobs.share([used])}: {bound.format(part)} of the budget")
        try:
            better = tune_one(request) == 0 or better
            done.append(used)
        except BadInput as error:
            first = first or f"{used.text}: {error}"
            refused.append(used)
            say(f"not {what}: {error}")
            part = 0.0
        left -= (
            part
            if request.dry_run
            else bound.amount * request.clock.spent_s / seconds_of(bound, bound.amount, used.nodes)
        )
    if not done:
        too_little = f"{bound.text} is too small for any condition: give a larger --budget."
        raise BadInput("nothing-measured", f"no condition was tuned: {first or too_little}")
    say(f"{what}: {len(done)} of {len(jobs.conditions)} conditions, with {jobs.share(done)}")
    for rows, why in ((refused, "could not be tuned"), (waiting, "have no budget left")):
        if rows:
            names = [*(row.text for row in rows[:8]), *["..."] * (len(rows) > 8)]
            say(f"{len(rows)} {why}, with {jobs.share(rows)}: {', '.join(names)}")
    return NOT_ALL if refused else 0 if better else NOTHING_BETTER
