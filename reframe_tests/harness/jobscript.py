"""The body of a job: R interleaved repeats of a group's launches, each with its own output and evidence.

One job measures one group under one condition. The repeats are interleaved (all launches once, then all again),
so that a disturbance of some seconds hits one repeat of everything and not every repeat of one benchmark. After a launch that
had to be ended by its limit nothing more is started: the case has failed, and the nodes are free for the next one.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Log with one line per finished launch: name, repeat, exit status, wall time in seconds.
LAUNCH_LOG = "launches.txt"
#: Log with one line per start of the job: time and host. A job that the scheduler requeued has several.
START_LOG = "starts.txt"
#: Seconds between the request to end and the kill of a launch over its limit.
GRACE_S = 10
#: Exit status of coreutils' ``timeout`` when it had to end the command (timeout(1)).
TIMED_OUT = 124
#: Script that each rank is started through: it preloads the evidence library and says where evidence belongs.
TESTIFY = "testify.sh"
#: Placeholder for the file one launch's MPI writes its debug lines to.
DEBUG_FILE = "{debug_file}"


@dataclass(frozen=True)
class LaunchFiles:
    """Names, relative to the job's directory, of what one repeat of one launch leaves behind."""

    output: str
    error: str
    debug: str
    evidence: str


def files_of(name: str, repeat: int) -> LaunchFiles:
    """File names for repeat number ``repeat`` (from 1) of the launch called ``name``."""
    stem = f"{name}.{repeat}"
    return LaunchFiles(f"{stem}.out", f"{stem}.err", f"{stem}.debug", f"evidence/{stem}")


@dataclass(frozen=True)
class Command:
    """One launch, ready to be written into the script.

    :param name: name of the launch; part of its file names.
    :param launcher: launcher and its options, as words.
    :param program: benchmark and its arguments, as words.
    :param enter: shell text before the launcher, for a launch that needs another environment than the job's.
    """

    name: str
    launcher: Sequence[str]
    program: Sequence[str]
    enter: str = ""


def write_body(
    commands: Sequence[Command],
    *,
    repeats: int,
    limit_s: int,
    witness: str,
    debug_env: Mapping[str, str],
) -> list[str]:
    """Shell lines that define ``measure``, which runs everything.

    :param repeats: executions of each launch, interleaved.
    :param limit_s: seconds after which one launch is taken for hung and ended.
    :param witness: path of the library preloaded into each rank.
    :param debug_env: variables whose value names the launch's own debug file (:data:`DEBUG_FILE`).
    """
    lines = [
        "launch() {  # NAME REPEAT COMMAND...",
        '    [ -z "$hung" ] || return 0',
        "    local name=$1 repeat=$2 started=$SECONDS status=0; shift 2",
        '    export MPIBENCH_DEBUG="$PWD/$name.$repeat.debug"',
    ]
    lines += [f'    export {key}="{_quoted(value)}"' for key, value in debug_env.items()]
    lines += [
        '    mkdir -p "evidence/$name.$repeat"',
        f'    timeout --kill-after={GRACE_S} {limit_s} "$@" >"$name.$repeat.out" 2>"$name.$repeat.err" </dev/null || status=$?',
        # A launch that had to be killed after the grace takes `timeout` with it: 128 + SIGKILL (timeout(1)).
        f"    [ $status -ne 137 ] || [ $((SECONDS - started)) -lt {limit_s} ] || status={TIMED_OUT}",
        f"    [ $status -ne {TIMED_OUT} ] || hung=$name.$repeat",
        f'    echo "$name $repeat $status $((SECONDS - started))" >>{LAUNCH_LOG}',
        "}",
        "measure() {",
        "    local repeat hung=",
        # What an earlier start of the same job left here would be counted with what this one measures.
        f"    rm -rf evidence {LAUNCH_LOG} {TESTIFY} {' '.join(_left_by(command.name) for command in commands)}",
        f'    echo "$(date -u +%FT%TZ) $(hostname)" >>{START_LOG}',
        # On the rank's own node, so that what a user, a module or a launcher preloads there is kept, behind ours. A file and
        # not `sh -c`: some launchers join the words of a command and part them again.
        f"    cat >{TESTIFY} <<'END_OF_TESTIFY'",
        f"export MPIBENCH_EVIDENCE=$1 LD_PRELOAD={shlex.quote(witness)}${{LD_PRELOAD:+:$LD_PRELOAD}}",
        "shift",
        'exec "$@"',
        "END_OF_TESTIFY",
        f"    for repeat in {' '.join(str(r) for r in range(1, repeats + 1))}; do",
    ]
    for command in commands:
        testify = f'sh "$PWD/{TESTIFY}" "$PWD/evidence/{command.name}.$repeat"'
        lines += [
            f'        launch {command.name} "$repeat" \\',
            *([f"            {command.enter} \\"] if command.enter else []),
            f"            {shlex.join(command.launcher)} \\",
            f"            {testify} \\",
            f"            {shlex.join(command.program)}",
        ]
    lines += ["    done", "}"]
    return lines


def _left_by(name: str) -> str:
    """Shell pattern for the files of all repeats of a launch."""
    return f"{shlex.quote(name)}.[0-9]*.{{out,err,debug}}"


def _quoted(value: str) -> str:
    """Value for double quotes, the placeholder replaced by the launch's debug file."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return escaped.replace(DEBUG_FILE, "$MPIBENCH_DEBUG")


def read_launch_log(text: str) -> dict[tuple[str, int], int]:
    """Exit status per (launch, repeat) of :data:`LAUNCH_LOG`; a line cut short is left out and so counts as missing."""
    statuses: dict[tuple[str, int], int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and all(word.isdigit() for word in words[1:]):
            statuses[words[0], int(words[1])] = int(words[2])
    return statuses
