"""The condition of a node that several programs share, and the script that
starts them: one alone, or all at the same time.

To the job it is one condition with a launcher of its own, ``bash programs.sh``. That script starts
program ``p`` in the folder ``program_p``, where its rankfile is, by the stack's launcher with the
words and variables that name this program's cores and nobody else's. A launch ``alone_p`` is one
program; the launch ``shared`` is all of them, each with an output, a record per rank and a line in
the job's log of its own, under the name ``shared_p``.

The ranks of a node (``ppn``) are those of all its programs. The policies are those of the ranks of
one program (:mod:`machine.placement`), with these meanings for several:

- ``bunch``: each program on as few NUMA nodes and sockets as possible, so that it shares caches and
  memory with as few of the others as can be.
- ``scatter``: each program spread equally over the sockets, as the ``joblets`` script of the
  Cambridge white paper on Westmere and QDR InfiniBand (2011, section 3.5) does it: "scatter
  processes evenly between sockets".
- ``default``: each launch is unaware of the others, and the stack pins it as if it had the node for
  itself. ``none``: nothing is pinned, as the same section recommends where programs are not of
  equal size.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import batch_systems
from ...launchers.model import Binding
from ...machine import placement
from ...machine.placement import UNLISTED, RankPlacement
from ...machine.topology import ProcessingUnit, Topology
from ...printable import plural
from ...suites import side_by_side
from ...suites.catalogue import Launch
from ...vocabulary import BadInput, NotMeasured
from ..job import script
from ..job.condition import Condition, bind_ranks

#: Policies that mean something for programs that leave no node.
POLICIES = (*UNLISTED, "bunch", "scatter")
#: Where a program is kept together, narrowest first.
_LEVELS: tuple[Callable[[ProcessingUnit], tuple[int | None, ...]], ...] = (
    lambda unit: (unit.socket, unit.numa),
    lambda unit: (unit.socket,),
    lambda unit: (),
)
_Core = tuple[ProcessingUnit, ...]
#: Name of the script in the job's directory.
SCRIPT = "programs.sh"
ALONE = side_by_side.ALONE
SHARED = side_by_side.SHARED


def name_of(how: str, program: int) -> str:
    """Name of one program's launch, and so of its files: ``alone_1``, ``shared_2``."""
    return f"{how}_{program}"


@dataclass(frozen=True)
class SharedNode(Condition):
    """A resolved condition of all programs together.

    :param programs: the condition of each program; ``ppn`` and ``placement`` are its own.
    """

    programs: tuple[Condition, ...] = ()
    site_launcher: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    limit_s: int = 0

    @property
    def recorded(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for program in self.programs for name in program.recorded))

    @property
    def prepare(self) -> list[str]:
        """Shell lines that write each program's files into its folder, and the script."""
        lines = [f"mkdir -p program_{number}" for number in range(1, len(self.programs) + 1)]
        for number, program in enumerate(self.programs, 1):
            for name, text in program.binding.files.items():
                lines += [
                    f"cat >program_{number}/{name} <<'END_OF_FILE'",
                    *text.splitlines(),
                    "END_OF_FILE",
                ]
        return [
            *lines,
            f"cat >{SCRIPT} <<'END_OF_PROGRAMS'",
            *self._write_script(),
            "END_OF_PROGRAMS",
        ]

    def launcher_words(self, command: Sequence[str], options: Sequence[str]) -> list[str]:
        return ["bash", SCRIPT]

    def as_dict(self) -> dict[str, Any]:
        """As of any condition; the number of programs is kept where other
        suites' options are, by which histories differ.
        """
        commands = [
            shlex.join(program.launcher_words(*self.site_launcher)) for program in self.programs
        ]
        placements = [
            None if program.core_list is None else [list(cpus) for cpus in program.core_list]
            for program in self.programs
        ]
        listed = (
            None if None in placements else [cpus for share in placements for cpus in share or ()]
        )
        return {
            **super().as_dict(),
            "placement": listed,
            "suite_options": f"programs={len(self.programs)}",
            "programs": [
                {
                    "ranks": program.ranks,
                    "launcher": command,
                    "environment": dict(program.binding.env),
                }
                for program, command in zip(self.programs, commands, strict=True)
            ],
        }

    def _write_script(self) -> list[str]:
        """A script with the arguments that the job gives a launcher: ``sh
        RECORD EVIDENCE ASKED NONCE PROGRAM...``.
        """
        numbers = " ".join(str(number + 1) for number in range(len(self.programs)))
        starts = []
        for number, program in enumerate(self.programs, 1):
            env = {
                name: value
                for name, value in program.binding.env.items()
                if name not in program.chosen
            }
            variables = (
                f"env {' '.join(f'{name}={shlex.quote(value)}' for name, value in env.items())} "
                if env
                else ""
            )
            starts += [
                f"start_{number}() {{",
                f'    cd "$top/program_{number}" || exit',
                f"    {variables}{shlex.join(program.launcher_words(*self.site_launcher))} \\",
                '        sh "$record" "$evidence" "$asked" "$nonce" "$@"',
                "}",
            ]
        debug = {
            name: '"$MPIBENCH_DEBUG"'.join(
                shlex.quote(part) if part else "" for part in value.split(script.DEBUG_FILE)
            )
            for name, value in self.debug_env.items()
        }
        late = f"[ $SECONDS -lt {max(1, self.limit_s - 1)} ] || log {script.TIMED_OUT} {numbers}"
        return [
            "top=$PWD record=$2 evidence=$3 asked=$4 nonce=$5; shift 5",
            "name=${evidence##*/} repeat=${evidence##*.}; name=${name%.*}",
            "meet=$top/meet.$repeat",
            *starts,
            "log() {  # STATUS PROGRAM...",
            "    local status=$1 program; shift",
            '    for program in "$@"; do',
            f'        echo "{SHARED}_$program $repeat $status $SECONDS $nonce" '
            f">>{script.LAUNCH_LOG}",
            f'        sha256sum "{SHARED}_$program.$repeat.out" >>{script.OUTPUT_LOG} 2>/dev/null',
            "    done",
            "}",
            # Until the end of what is written, also where all are asked to end.
            "keep() { trap '' TERM INT HUP; ulimit -c 0; ulimit -Sf "
            f'{script.MOST_OUTPUT_BYTES // 1024}; exec cat >"$1"; }}',
            "case $name in",
            f"    {SHARED}) ;;",
            f"    {ALONE}_*) program=${{name#{ALONE}_}}",
            f'        "start_$program" "$@" --program "$program" {len(self.programs)}; exit ;;',
            # The check of received data.
            '    *) start_1 "$@"; exit ;;',
            "esac",
            # Asked to end, wait for the launchers, which are asked as well:
            # they are in the same process group.
            f"trap 'wait; {late}; exit 143' TERM INT HUP",
            "set -o pipefail",
            'rm -rf "$meet"; mkdir "$meet" || exit',
            "pids=() worst=0",
            f"for program in {numbers}; do",
            "    (",
            f"        evidence=$top/evidence/{SHARED}_$program.$repeat "
            f"files={SHARED}_$program.$repeat",
            '        export MPIBENCH_DEBUG="$top/$files.debug"',
            *(f"        export {name}={value}" for name, value in debug.items()),
            '        mkdir -p "$evidence"',
            f'        set -- "$@" --program "$program" {len(self.programs)} --meet "$meet"',
            '        { "start_$program" "$@" 2>&1 1>&3 3>&- | keep "$files.err"; } 3>&1 | keep '
            '"$files.out"',
            "    ) </dev/null &",
            "    pids[program]=$!",
            "done",
            f"for program in {numbers}; do",
            '    status=0; wait "${pids[program]}" || status=$?',
            '    log "$status" "$program"',
            '    [ "$status" -eq 0 ] || worst=$status',
            "done",
            'exit "$worst"',
        ]


def share(whole: Condition, programs: int) -> SharedNode:
    """A condition of all ranks of a node, shared by so many programs.

    :param whole: resolved for all ranks together, under the same policy.
    :raises NotMeasured: if that many programs cannot share the node so, with the reason.
    :raises BadInput: for less than two programs.
    """
    if whole.fabric.rails:
        raise NotMeasured(
            f"fabric {whole.fabric.name} counts the bytes of all programs together: measure "
            "programs side by side in shared memory"
        )
    batch = batch_systems.find(whole.partition.scheduler)
    conditions = []
    for placed in deal(whole.pinning, programs, whole.ppn, whole.topology):
        bound = bind_ranks(
            placed, whole.launcher, whole.stack, whole.nodes, whole.partition, whole.bootstrap
        )
        bound = bound.adding(env=batch.overlapping if batch else {})
        conditions.append(replace(whole, ppn=placed.ppn, placement=placed, binding=bound))
    fields = {name: getattr(whole, name) for name in Condition.__dataclass_fields__}
    # Where the ranks go is each program's own.
    return SharedNode(**{**fields, "binding": Binding()}, programs=tuple(conditions))


def launches_of(launch: Launch, program: int, programs: int) -> tuple[Launch, Launch]:
    alone, shared = (
        replace(
            launch,
            name=name_of(how, program),
            expected=tuple(
                row._replace(variants=(side_by_side.variant(programs, program, how),))
                for row in launch.expected
            ),
        )
        for how in (ALONE, SHARED)
    )
    return alone, shared


def ranks_of_program(programs: int, ppn: int) -> int:
    """Ranks of each of several programs that are all the ranks of a node.

    :raises BadInput: for less than two programs.
    :raises NotMeasured: if they cannot be of equal size.
    """
    if programs < 2:
        raise BadInput(
            "bad-option",
            f"programs={programs} does not share a node: give 2 or more; each is also measured "
            "alone.",
        )
    if ppn % programs:
        fitting = ppn // programs * programs
        instead = f"; -P ppn={fitting} would do" if fitting else ""
        raise NotMeasured(
            f"{plural(ppn, 'rank')} per node cannot form {programs} programs of equal size{instead}"
        )
    return ppn // programs


def deal(policy: str, programs: int, ppn: int, topology: Topology) -> tuple[RankPlacement, ...]:
    """Where the ranks of each program go; of all programs together, no two ranks on one core.

    :param ppn: ranks of all programs on the node.
    :raises BadInput: for less than two programs.
    :raises NotMeasured: for a policy without a meaning here, programs of
        unequal size, or more ranks than cores.
    """
    ranks = ranks_of_program(programs, ppn)
    if policy not in POLICIES:
        raise NotMeasured(
            f"pinning={policy} does not apply to programs inside one node; there are "
            f"{', '.join(POLICIES)}"
        )
    if policy in UNLISTED:
        return (RankPlacement(policy, ranks, None, topology),) * programs
    if ppn > len(topology.cores):
        raise NotMeasured(
            f"{programs} programs of {ranks} ranks need {ppn} separate cores, but the node has "
            f"{len(topology.cores)}"
        )
    if policy == "scatter":
        every = placement.place("scatter", ppn, topology).ranks or ()
        shares = [every[first : first + ranks] for first in range(0, ppn, ranks)]
    else:
        shares = _bunch(programs, ranks, topology.cores)
    return tuple(RankPlacement(policy, ranks, tuple(share), topology) for share in shares)


def first_equal(
    policy: str, policies: Sequence[str], programs: int, ppn: int, topology: Topology
) -> str:
    """The first of these policies that gives each program the same
    cores as ``policy``; that itself if none does.
    """
    wanted = deal(policy, programs, ppn, topology)
    for other in policies:
        if other in POLICIES and all(
            map(placement.equivalent, deal(other, programs, ppn, topology), wanted)
        ):
            return other
    return policy


def _bunch(programs: int, ranks: int, cores: Sequence[_Core]) -> list[tuple[tuple[int, ...], ...]]:
    """For each program the first NUMA node, else socket, with room for
    all of it; else the first cores that are left.
    """
    left = list(cores)
    shares: list[tuple[tuple[int, ...], ...]] = []
    for _ in range(programs):
        fitting = []
        for level in _LEVELS:
            groups: dict[tuple[int | None, ...], list[_Core]] = {}
            for core in left:
                groups.setdefault(level(core[0]), []).append(core)
            fitting += [group[:ranks] for group in groups.values() if len(group) >= ranks]
        left = [core for core in left if core not in fitting[0]]
        shares.append(tuple((core[0].cpu,) for core in fitting[0]))
    return shares
