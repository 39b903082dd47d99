"""A second stack in the same job: A B A B on the same nodes, so that both meet the same
disturbances and can be paired.

``-S paired_stack=STACK`` interleaves the launches of any test with those of that stack. The job
loads the test's own stack as usual; each launch of the paired stack undoes that for itself (``env
-u``) and sets up its own. Its modules are not loaded; what they set was recorded at registration,
and the job checks that their files are unchanged. Its evidence is judged like the other's, and the
case passes only if both are proven.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...stacks import metadata
from ...stacks.stack import Stack
from ...suites import catalogue
from ...vocabulary import NotMeasured
from . import script
from .condition import Condition

#: In front of the names of the paired stack's launches, and so of
#: its files; stored sessions have it.
PREFIX = "rival_"


@dataclass(frozen=True)
class PairedStack:
    """The other stack under the same condition."""

    condition: Condition
    launches: tuple[catalogue.Launch, ...]


def list_commands(
    where: Condition,
    launches: Sequence[catalogue.Launch],
    launcher: Sequence[str],
    inside: Condition | None = None,
) -> list[script.Command]:
    return [
        script.Command(
            row.name,
            launcher,
            row.words(where.stack),
            _enter(row.name, inside, where) if inside else "",
            where.recorded,
            row.checks_data,
            where.known,
            row.files,
            row.result,
            gpu=where.gpu_choice,
            more_bytes=row.more_bytes,
        )
        for row in launches
    ]


def find(name: str, own: Stack) -> Stack:
    """The stack of that name.

    :raises NotMeasured: there is none, it is the test's own, or a recording.
    """
    if name == own.name:
        raise NotMeasured(f"paired_stack={name} is this case's own stack")
    stacks, _ = metadata.discover()
    for stack in stacks:
        if stack.name == name:
            return stack
    raise NotMeasured(
        f"paired_stack={name} is not a registered stack; there are "
        f"{', '.join(stack.name for stack in stacks)}"
    )


def pair(own: Condition, theirs: Condition, launches: Sequence[catalogue.Launch]) -> PairedStack:
    """The paired stack of a condition.

    :raises NotMeasured: the two cannot share a job.
    """
    if own.core_list != theirs.core_list:
        raise NotMeasured(f"paired_stack={theirs.stack.name} would use other cores")
    mine, other = (
        {**condition.binding.files, **condition.bootstrap.scripts} for condition in (own, theirs)
    )
    clash = sorted(name for name in mine.keys() & other.keys() if mine[name] != other[name])
    if clash:
        raise NotMeasured(
            f"paired_stack={theirs.stack.name} needs another file {clash[0]} in the same job"
        )
    return PairedStack(theirs, tuple(replace(row, name=f"{PREFIX}{row.name}") for row in launches))


def _enter(launch: str, own: Condition, theirs: Condition) -> str:
    """Shell words before the launcher that leave the job's own stack and enter the other one."""
    variables = {
        name: shlex.quote(value) for name, value in theirs.stack.variables.items()
    } | theirs.assignments
    left = sorted(
        {*own.stack.variables, *own.job_env, *own.debug_env}
        - set(variables)
        - set(theirs.debug_env)
    )
    words = ["env", *(word for name in left for word in ("-u", shlex.quote(name)))]
    words += [f"{name}={word}" for name, word in variables.items()]
    leave = own.stack.search_paths
    enter = theirs.stack.search_paths
    words += [
        f"{name}={_search_path(name, leave.get(name, ()), enter.get(name, ()))}"
        for name in dict.fromkeys([*leave, *enter])
    ]
    for name, value in theirs.debug_env.items():
        pieces = [shlex.quote(part) if part else "" for part in value.split(script.DEBUG_FILE)]
        words.append(f"{name}=" + f'"$PWD/{launch}.$repeat.debug"'.join(pieces))
    return " ".join(words)


def _search_path(name: str, left: Sequence[str], entered: Sequence[str]) -> str:
    """Shell text: what ``name`` holds without the folders ``left`` at
    its front, behind the folders ``entered``.
    """
    rest = f"${{{name}#{shlex.quote(':'.join(left))}}}" if left else f"${{{name}:+:${name}}}"
    if entered:
        return f'{shlex.quote(":".join(entered))}"{rest}"'
    return f'"$(rest={rest}; echo "${{rest#:}}")"'
