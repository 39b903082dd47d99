"""What Slurm knows of nodes, and the little that is asked of it: drain, resume, and a reservation
in which nodes are measured that nobody else may have yet.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reframe_tests.harness.machine.switches import expand
from reframe_tests.harness.printable import first_line, one_line, plural
from reframe_tests.harness.vocabulary import BadInput, meant

from . import PREFIX
from .reasons import FAIL, PASS, SERVICE, NodeReason, NodeVerdict, Why

#: Seconds for which Slurm is waited for.
PATIENCE_S = 60
#: Nodes that one run may drain.
MOST_DRAINED = 2
#: Longest reason that is written beside a node.
LONGEST = 160
#: Minutes after which a reservation of this command ends by itself.
RESERVED_MINUTES = 60
_FIELD = re.compile(r"(?:^| )(NodeName|State|Partitions)=(\S*)")
_REASON = re.compile(r" Reason=(.+?)(?: \[\S+@\S+\])?(?: \w+=|$)")
#: Beginning of a reason of this command's, or of a HealthCheckProgram that asks it.
_OURS = re.compile(rf"{PREFIX}(?: \w+)?: ")
#: Characters that Slurm, a shell and a terminal take as they are.
_UNUSUAL = re.compile(r"[^A-Za-z0-9 .,:;%()/_+-]")
#: States and flags (sinfo(1), NODE STATE CODES), in the order in which one is told.
_GONE = (
    "DOWN",
    "NOT_RESPONDING",
    "FAIL",
    "FAILING",
    "ERROR",
    "INVAL",
    "INVALID_REG",
    "POWERED_DOWN",
    "UNKNOWN",
)
#: State of a node that Slurm no longer has.
UNKNOWN = frozenset(["UNKNOWN"])
_RIGHTS = ("operator", "administrator")


class SlurmNode(NamedTuple):
    """A node as Slurm knows it; ``reason`` is what was written beside it."""

    name: str
    states: frozenset[str]
    reason: str
    partitions: tuple[str, ...]

    @property
    def is_drained(self) -> bool:
        return any(state.startswith("DRAIN") for state in self.states)

    @property
    def is_ours(self) -> bool:
        """Whether this command drained it."""
        return self.is_drained and bool(_OURS.match(self.reason))


def call(words: Sequence[str]) -> str:
    """Output of one of Slurm's programs.

    :raises BadInput: there is none, it refuses, or it does not answer.
    """
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
    except OSError as error:
        raise BadInput(
            "scheduler-unusable",
            f"{words[0]} cannot start ({error.strerror}): run this where Slurm is installed.",
        ) from None
    except subprocess.TimeoutExpired:
        raise BadInput(
            "scheduler-unusable",
            f"{words[0]} did not respond within {PATIENCE_S} s: check whether slurmctld is "
            "running.",
        ) from None
    if done.returncode:
        said = first_line(done.stderr or done.stdout) or f"status {done.returncode}"
        raise BadInput("scheduler-unusable", f"{shlex.join(words[:3])} failed ({said}).")
    return done.stdout


def read_nodes() -> dict[str, SlurmNode]:
    """All nodes, by name."""
    found = {}
    for line in call(["scontrol", "-o", "show", "nodes"]).splitlines():
        row = dict(reversed(_FIELD.findall(line)))  # what people wrote comes behind
        if not row.get("NodeName"):
            continue
        states = row.get("State", "").upper()
        flags = {"NOT_RESPONDING"} if "*" in states else set()
        reason = _REASON.search(line)
        found[row["NodeName"]] = SlurmNode(
            row["NodeName"],
            frozenset(flags | {state.rstrip("*~#!%$@^-") for state in states.split("+")}),
            one_line(reason[1]) if reason else "",
            tuple(name for name in row.get("Partitions", "").split(",") if name),
        )
    return found


def named(words: Sequence[str], known: dict[str, SlurmNode]) -> list[SlurmNode]:
    """The nodes that a command line names, each once.

    :raises BadInput: no list of nodes, or one that Slurm does not know.
    """
    names = list(dict.fromkeys(name for word in words for name in expand(word)))
    for name in names:
        if name not in known:
            raise BadInput(
                "unknown-name", f"Slurm has no node {name}{meant(name, known)}: see sinfo -N."
            )
    if not names:
        raise BadInput("bad-option", "no nodes given: mpibench vet c[1-4].")
    return [known[name] for name in names]


def settled(words: Sequence[str]) -> list[SlurmNode]:
    """The same, when those on which a job is ending have had :data:`PATIENCE_S` for it.

    :raises BadInput: as :func:`named`.
    """
    until = time.monotonic() + PATIENCE_S
    while True:
        nodes = named(words, read_nodes())
        ending = any("COMPLETING" in node.states for node in nodes)
        if not ending or time.monotonic() >= until:
            return nodes
        time.sleep(1)


def out_of_reach(
    node: SlurmNode, *, reserved: bool, resuming: bool, in_job: bool = False
) -> NodeReason | None:
    """Why a job would not get a node now; ``None``: it would.

    :param reserved: the job runs in a reservation.
    :param resuming: nodes that this command drained are resumed first.
    :param in_job: the job is there, and has it.
    """
    state = "+".join(sorted(state.lower() for state in node.states))

    def because(why: Why) -> NodeReason:
        return NodeReason(node.name, SERVICE, why, {"state": state, "said": node.reason})

    if node.states & set(_GONE):
        return because(Why.NOT_THERE)
    if node.is_drained and not (node.is_ours and resuming):
        return because(Why.DRAINED_BY_VET if node.is_ours else Why.DRAINED_BY_OTHERS)
    if in_job:
        return because(Why.SOME_CORES) if "MIXED" in node.states else None
    if node.states & {"ALLOCATED", "MIXED", "COMPLETING"}:
        return because(Why.BUSY)
    if node.states & {"RESERVED", "MAINT"} and not reserved:
        return because(Why.RESERVED)
    return None


class OwnJob(NamedTuple):
    """The job that this command runs in.

    :param steps: nodes of those that were there before; ``own_step``: number of the one that this
        runs in, or empty.
    """

    number: str
    nodes: tuple[str, ...]
    steps: Mapping[str, str]
    own_step: str

    def others(self) -> dict[str, str]:
        """Nodes on which something else runs, too: another job, or a step of this one."""
        jobs = _rows("-t", "running", "-w", ",".join(self.nodes), "-o", "%A %N")
        running = [
            *((f"job {number}", nodes) for number, nodes in jobs if number != self.number),
            *(
                (f"step {step}", nodes)
                for step, nodes in self.steps.items()
                if step.rpartition(".")[2] != self.own_step
            ),
        ]
        return {node: what for what, nodes in running for node in expand(nodes)}

    def is_over(self) -> bool:
        try:
            return own_job({"SLURM_JOB_ID": self.number}) is None
        except BadInput:  # Slurm has forgotten it, or gives no answer
            return True

    @contextlib.contextmanager
    def ending_steps(self) -> Iterator[None]:
        """However it ends, steps that were begun meanwhile end; the job goes on."""
        try:
            yield
        finally:
            with contextlib.suppress(BadInput):  # the job is over, and they with it
                if left := steps_of(self.number).keys() - self.steps.keys():
                    call(["scancel", *sorted(left)])


def _rows(*words: str) -> list[tuple[str, str]]:
    """First word and rest of each line of ``squeue``."""
    lines = call(["squeue", "-h", *words]).splitlines()
    return [(first, rest) for first, _, rest in (line.strip().partition(" ") for line in lines)]


def own_job(environ: Mapping[str, str]) -> OwnJob | None:
    """The job that this command runs in; ``None``: it runs in none.

    :raises BadInput: it is over, or somebody else's.
    """
    number = environ.get("SLURM_JOB_ID", "")
    if not number:
        return None
    here = f"SLURM_JOB_ID says that this runs in job {number}"
    try:
        parts = dict(_rows("-j", number, "-o", "%A %T %U %N"))  # of a heterogeneous job several
    except BadInput as error:
        raise BadInput("busy", f"{here}, and: {error} Leave its shell.") from None
    state, _, rest = parts.get(number, "").partition(" ")
    user, _, nodes = rest.partition(" ")
    if state != "RUNNING":
        raise BadInput("busy", f"{here}, which is {state.lower() or 'over'}: leave its shell.")
    if user != str(os.getuid()):
        raise BadInput(
            "not-ours", f"{here}, which is of another user (uid {user}): leave its shell."
        )
    step = environ.get("SLURM_STEP_ID", "")
    return OwnJob(number, tuple(expand(nodes)), steps_of(number), step)


def steps_of(job: str) -> dict[str, str]:
    """Nodes of the steps of a job, without those that Slurm makes for its shell and script."""
    steps = dict(_rows("-s", "-j", job, "-o", "%i %N"))
    return {step: nodes for step, nodes in steps.items() if step.rpartition(".")[2].isdigit()}


def drain_lines(verdicts: Sequence[NodeVerdict], session: str) -> list[list[str]]:
    """Slurm's command for each node that fails."""
    return [
        drain_words(one.node, f"{PREFIX} {session[:8]}: {one.reasons[0].text}")
        for one in verdicts
        if one.verdict == FAIL
    ]


def drain_words(node: str, reason: str) -> list[str]:
    text = _UNUSUAL.sub("_", one_line(reason))[:LONGEST].strip()
    return ["scontrol", "update", f"nodename={node}", "state=drain", f"reason={text}"]


def resume_words(node: str) -> list[str]:
    return ["scontrol", "update", f"nodename={node}", "state=resume"]


def drained_by_others() -> dict[str, SlurmNode]:
    """Nodes that somebody else has drained by now: their reasons stay."""
    return {
        name: node for name, node in read_nodes().items() if node.is_drained and not node.is_ours
    }


def drain(lines: Sequence[Sequence[str]], most: int, say: Callable[[str], None]) -> bool:
    """Drain nodes, unless they are more than may be; whether it was tried."""
    if len(lines) > most:
        say(
            f"no node was drained: {plural(len(lines), 'node')} fail, but at most {most} may be "
            "drained at once (--most-drained)"
        )
        return False
    for words in lines:
        name = words[2].partition("=")[2]
        try:
            if other := drained_by_others().get(name):
                say(f"already drained: {name} ({other.reason})")
                continue
            call(words)
            say(f"drained: {name}")
        except BadInput as error:
            say(f"not drained: {name} ({error})")
    return True


def require_rights() -> None:
    """Refuse who may not drain and resume: that is for root, ``SlurmUser``, and operators of
    Slurm's accounting (scontrol(1), sacctmgr(1)).

    :raises BadInput: as it says.
    """
    who = getpass.getuser()
    owner = re.search(r"(?m)^SlurmUser\s*=\s*(\S+)\((\d+)\)", call(["scontrol", "show", "config"]))
    if os.geteuid() == 0 or (owner and os.geteuid() == int(owner[2])):
        return
    level = ""
    with contextlib.suppress(BadInput):  # no accounting, or no right to ask it
        level = call(["sacctmgr", "-nP", "show", "user", who, "format=adminlevel"]).strip()
    if level.lower() not in _RIGHTS:
        raise BadInput(
            "not-ours",
            f"{who} may not drain or resume nodes, only root, SlurmUser and Slurm operators may: "
            "leave --apply out and give the printed commands to one of them.",
        )


@contextlib.contextmanager
def held(nodes: Sequence[SlurmNode], passed: Callable[[str], bool]) -> Iterator[str]:
    """Nodes that this command drained, in service inside a reservation that nobody else may use;
    afterwards those that passed stay in service, and all others are drained as they were.

    However it ends the nodes are drained before the reservation is taken away.

    :param passed: whether a node may stay in service, asked at the end.
    :returns: the reservation's name.
    :raises BadInput: there is none to be had; or some could not be drained again, which stay in it.
    """
    name = f"mpibench-vet-{os.getpid()}"
    create = (
        f"scontrol create reservation reservationname={name} starttime=now flags=maint,ignore_jobs "
        f"duration={RESERVED_MINUTES} users={getpass.getuser()}"
    )
    resumed: list[SlurmNode] = []
    try:
        call([*create.split(), f"nodes={','.join(node.name for node in nodes)}"])
        for node in nodes:
            if node.is_drained:
                resumed.append(node)
                call(resume_words(node.name))
        yield name
    finally:
        problems = []
        others: Mapping[str, SlurmNode] = {}
        with contextlib.suppress(BadInput):
            others = drained_by_others()
        for node in resumed:
            if passed(node.name) or node.name in others:
                continue
            try:
                call(drain_words(node.name, node.reason))
            except BadInput as error:
                problems.append(f"{node.name} could not be drained again ({error})")
        if problems:
            raise BadInput(
                "scheduler-unusable",
                f"{'; '.join(problems)}: drain it, then run scontrol delete "
                f"reservationname={name}; the reservation ends by itself after {RESERVED_MINUTES} "
                "min.",
            )
        _give_back(name)


def _give_back(name: str) -> None:
    """Take a reservation away, if there is one; Slurm refuses while a job of it still ends."""
    if f"ReservationName={name} " not in call(["scontrol", "-o", "show", "reservation"]):
        return
    with contextlib.suppress(BadInput):
        call(["scancel", f"--reservation={name}"])
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            call(["scontrol", "delete", f"reservationname={name}"])
            return
        except BadInput as error:
            if time.monotonic() > deadline:
                raise BadInput(
                    "scheduler-unusable",
                    f"the reservation {name} could not be deleted ({error}): run scontrol delete "
                    f"reservationname={name}; it ends by itself after {RESERVED_MINUTES} min.",
                ) from None
        time.sleep(0.5)


def may_stay(verdicts: Sequence[NodeVerdict]) -> set[str]:
    return {one.node for one in verdicts if one.verdict == PASS}
