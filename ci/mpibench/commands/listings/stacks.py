"""``mpibench stacks``: the stacks that were built, and why some cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

from ...stacks import compilation
from ...stacks.spack import lock as stack_lock
from ...stacks.spack.lock import Verified


def newer(stack: Stack) -> str:
    """The newest release of its MPI that is known here, where that is newer; else empty."""
    newest = mpis.find(stack.mpi).newest
    numbers = tuple(map(int, filter(None, newest.split("."))))
    return newest if numbers > stack.version_tuple else ""


def describe(stack: Stack) -> Iterator[tuple[str, str]]:
    device = f", device {stack.device}" if stack.device else ""
    behind = f" (behind {newer(stack)})" if newer(stack) else ""
    yield (
        "MPI",
        f"{stack.mpi} {stack.mpi_version}{behind}{device}, {stack.abi} ABI, launcher "
        f"{stack.launcher_family}",
    )
    yield "origin", f"{stack.origin}, lock hash {stack.lock_hash[:12]}"
    if stack.modules:
        yield (
            "modules",
            f"{', '.join(module.name for module in stack.modules)} ({stack.loaded.system} "
            f"{stack.loaded.version})",
        )
    yield "prefix", stack.prefix
    yield "library", compilation.describe(stack.build.get("compiled", {}))
    for name, suite in sorted(stack.suites.items()):
        digest = f", digest {suite['digest'][:12]}" if "digest" in suite else ""
        yield name, f"{suite['version']}, {suite['built_with']}{digest}"
    yield (
        "runs",
        ", ".join(name for name in (*stack.binaries, *stack.commands) if name != "mpirun")
        or "nothing",
    )


def show(root: Path = metadata.ROOT, console: Console | None = None) -> int:
    """Print all stacks, then one sentence for each unusable one. Returns 1 if there is one, or no
    stack at all.
    """
    console = console or Console(highlight=False)
    stacks, problems = metadata.discover(root)
    for stack in stacks:
        console.print(stack.name, style="bold")
        for title, text in describe(stack):
            console.print(f"  {title:8} {text}", markup=False, soft_wrap=True)
    if not stacks:
        console.print("No stack has been built; run ci/setup for the wheels stacks.")
    for problem in problems:
        console.print(problem, style="red", markup=False, soft_wrap=True)
    return int(bool(problems) or not stacks)


def as_data(root: Path = metadata.ROOT) -> dict[str, Any]:
    """``stacks`` (the facts of each) and ``problems`` (a sentence for each unusable one)."""
    stacks, problems = metadata.discover(root)
    fields = (
        "name",
        "origin",
        "mpi",
        "mpi_version",
        "device",
        "abi",
        "launcher_family",
        "prefix",
        "lock_hash",
        "source",
    )
    return {
        "stacks": [
            {
                **{name: getattr(stack, name) for name in fields},
                "newer": newer(stack),
                "modules": [module.name for module in stack.modules],
                "suites": {name: dict(suite) for name, suite in stack.suites.items()},
                "compiled": dict(stack.build.get("compiled", {})),
                "programs": dict(stack.binaries),
                "commands": {name: list(words) for name, words in stack.commands.items()},
            }
            for stack in stacks
        ],
        "problems": problems,
    }


def check(
    root: Path = metadata.ROOT,
    console: Console | None = None,
    verify: Callable[[Stack], Verified] | None = None,
    ask: Callable[[Stack, str], Mapping[str, str]] | None = None,
) -> int:
    """Print how stacks built by Spack differ apart from their MPI. Returns 1 if they do, if one
    changed since it was built, or if any stack's MPI library is compiled in a way that makes its
    numbers meaningless.

    :param verify: looks at what is installed; without it only lock files are read.
    :param ask: how a library was compiled (:func:`compilation.ask`);
        without it, what it said when it was registered.
    """
    console = console or Console(highlight=False)
    stacks, problems = metadata.discover(root)
    facts: dict[str, dict[str, str]] = {}
    kinds: dict[str, tuple[str, str]] = {}
    identities: dict[str, dict[str, str]] = {}
    notes = []
    for stack in stacks:
        injected = ""
        lock = None
        verified = Verified()
        if stack.origin == "spack":
            try:
                lock = stack_lock.lock_of(stack)
                injected = lock.mpi.flags.get("cflags", "")
                verified = verify(stack) if verify else verified
            except BadInput as error:
                problems.append(str(error))
                continue
        else:
            notes.append(f"{stack.name} is not compared: it has no lock file ({stack.origin}).")
        stored = stack.build.get("compiled", {})
        compiled = ask(stack, injected) if ask else stored
        if fault := compilation.find_fault(compiled):
            problems.append(f"{stack.name}: its MPI library is {fault}.")
        if (
            stored.get("optimisation", compilation.UNKNOWN) != compilation.UNKNOWN
            and stored != compiled
        ):
            texts = " and now ".join(map(compilation.describe, (stored, compiled)))
            problems.append(
                f"{stack.name}: its MPI library changed after registration: {texts}; register "
                "it again."
            )
        if not lock:
            continue
        aspects = compilation.aspects(stack.mpi, compiled)
        own = {
            aspect: value for aspect, value in aspects.items() if aspect.startswith(f"{stack.mpi} ")
        }
        identities[stack.name] = {**stack_lock.identity(lock), **own}
        facts[stack.name] = {
            **stack_lock.facts(lock),
            **{aspect: aspects[aspect] for aspect in aspects.keys() - own.keys()},
        }
        kinds[stack.name] = (
            lock.device,
            ", ".join(lock.compiler_names(*(lock.benchmarks[:1] or [lock.suite]))),
        )
        problems += [f"{stack.name}: {fault}; build it again." for fault in verified.faults]
        remarks = dict.fromkeys([*stack.build.get("notes", ()), *verified.notes])
        notes += [
            f"{stack.name}: {note}"
            for note in (*stack_lock.notes(lock), *(f"{note}." for note in remarks))
        ]
        if not aspects:
            notes.append(f"{stack.name}: it is unknown how its MPI library was compiled.")
    for problem in problems:
        console.print(problem, style="red", markup=False, soft_wrap=True)
    if not facts and not problems:
        raise BadInput(
            "nothing-measured",
            "no stack was built by Spack, and only those can be compared: build with 'mpibench "
            "stacks build'.",
        )
    if len(facts) == 1:
        notes.append(
            f"{next(iter(facts))} is the only stack built by Spack: there is nothing to compare it "
            "with."
        )
    differ = False
    for device, compiler in dict.fromkeys(kinds.values()):
        group = {name: found for name, found in facts.items() if kinds[name] == (device, compiler)}
        if len(group) > 1:
            differ |= _compare(group, identities, console)
        elif len(facts) > 1:
            memory = f"{device} device memory" if device else "host memory alone"
            notes.append(
                f"{next(iter(group))} is the only stack for {memory} built with {compiler}: there "
                "is nothing to compare it with."
            )
    for left, right in combinations(facts, 2):
        left_identity = identities[left]
        other = identities[right]
        if left_identity["MPI"] == other["MPI"] and (left_identity, kinds[left]) != (
            other,
            kinds[right],
        ):
            rows = stack_lock.table(
                {left: {**left_identity, **facts[left]}, right: {**other, **facts[right]}}
            )
            listed = "; ".join(
                f"{aspect}: {' against '.join(values)}" for aspect, values in rows.items()
            )
            notes.append(
                f"{left} and {right} have the same MPI and differ in {listed or 'nothing'}."
            )
    for note in notes:
        console.print(note, style="dim", markup=False, soft_wrap=True)
    return int(bool(differ or problems))


def _compare(
    facts: Mapping[str, Mapping[str, str]],
    identities: Mapping[str, Mapping[str, str]],
    console: Console,
) -> bool:
    """Print what stacks differ in beside which MPI they have, or what
    they have in common; whether they differ.
    """
    rows = stack_lock.table({name: {**identities[name], **found} for name, found in facts.items()})
    rows = {
        aspect: values
        for aspect, values in rows.items()
        if not any(aspect in own for own in identities.values())
    }
    if rows:
        table = Table("differs", "value", "stacks", box=None, pad_edge=False)
        for aspect, values in rows.items():
            for number, (value, names) in enumerate(values.items()):
                table.add_row("" if number else aspect, value, ", ".join(names))
        console.print(table)
        return True
    console.print(
        f"{', '.join(facts)} differ only in their MPI, as far as their spack.lock records:"
    )
    shared = next(iter(facts.values()))
    for aspect in ("imb compiler", "imb target", "imb flags", "imb version", "osu version"):
        if aspect in shared:
            console.print(f"  {aspect:13} {shared[aspect]}", markup=False, soft_wrap=True)
    return False
