"""``mpibench stacks``: the stacks that have been built, and those that cannot be used with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from reframe_tests.harness import stack_metadata
from reframe_tests.harness.stack import Stack


def describe(stack: Stack) -> Iterator[tuple[str, str]]:
    """What there is to say about a stack, as pairs of title and text."""
    device = f", device {stack.device}" if stack.device else ""
    yield "MPI", f"{stack.mpi} {stack.mpi_version}{device}, {stack.abi} ABI, launcher {stack.launcher_family}"
    yield "origin", f"{stack.origin}, lock hash {stack.lock_hash[:12]}"
    yield "prefix", stack.prefix
    for name, suite in sorted(stack.suites.items()):
        yield name, f"{suite['version']}, {suite['built_with']}"
    yield "runs", ", ".join(name for name in (*stack.binaries, *stack.commands) if name != "mpirun") or "nothing"


def show(root: Path = stack_metadata.ROOT, console: Console | None = None) -> int:
    """Print all stacks, then one sentence for each that cannot be used; 1 if there is such a one or none at all.

    :raises BadInput: when two metadata files describe a stack of the same name.
    """
    console = console or Console(highlight=False)
    stacks, problems = stack_metadata.discover(root)
    for stack in stacks:
        console.print(stack.name, style="bold")
        for title, text in describe(stack):
            console.print(f"  {title:8} {text}", markup=False, soft_wrap=True)
    if not stacks:
        console.print("No stack has been built; run ci/setup for the wheels stacks.")
    for problem in problems:
        console.print(problem, style="red", markup=False, soft_wrap=True)
    return int(bool(problems) or not stacks)
