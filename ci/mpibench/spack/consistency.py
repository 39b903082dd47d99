"""What differs between stacks apart from their MPI, from their lock files.

``mpibench stacks --check`` lists it; whoever compares stacks asks :func:`differences`. Only what is known to differ is a
difference: of an MPI the site had already, the lock says nothing but its version, and that is said as a note.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import BadInput

from . import lock as lock_file
from .lock import Lock, LockedSpec

#: What is measured with: package to the suite's name in stack metadata.
BENCHMARKS = {suite.spack.name: suite.name for suite in catalogue.SUITES.values() if suite.spack}
#: What an MPI stands on: the same version with the same options, wherever two stacks have it.
FOUNDATIONS = ("ucx", "libfabric", "hwloc", "pmix", "glibc", "gcc-runtime")
ABSENT = "none"


@dataclass(frozen=True)
class Difference:
    """One aspect two stacks differ in, and the value each has."""

    aspect: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.aspect}: {self.left} against {self.right}"


def facts(lock: Lock) -> dict[str, str]:
    """Everything two stacks must agree in, by aspect; an aspect a stack cannot have is left out."""
    return dict(_facts(lock))


def _facts(lock: Lock) -> Iterator[tuple[str, str]]:
    for package, suite in BENCHMARKS.items():
        node = lock.find(package)
        if node is None:
            yield f"{suite} version", ABSENT
            continue
        yield f"{suite} version", node.version
        yield f"{suite} variants", node.options
        yield f"{suite} recipe", node.recipe[:8]
        yield from _built(suite, lock, node)
    yield "operating system", lock.suite.os
    for package in FOUNDATIONS:
        node = lock.find(package)
        if node is not None:
            yield package, f"{node.version} {node.options}" + (" (the site's own)" if node.external else "")
            yield from _built(package, lock, node)
    yield from _built("mpi", lock, lock.mpi)


def _built(what: str, lock: Lock, node: LockedSpec) -> Iterator[tuple[str, str]]:
    """How a node was built; nothing for an external, whose build Spack has not seen."""
    if node.external:
        return
    compilers = lock.compilers(node)
    if compilers:
        # A language one MPI has bindings for and another has not is no difference between compilers.
        yield f"{what} compiler", ", ".join(sorted(set(compilers.values())))
    yield f"{what} target", node.target
    if what != "mpi":
        yield f"{what} flags", " ".join(f"{name}={words}" for name, words in sorted(node.flags.items())) or ABSENT


def notes(lock: Lock) -> list[str]:
    """What the lock cannot say, one sentence each."""
    mpi = lock.mpi
    if not mpi.external:
        return []
    return [f"{mpi} is the site's own ({mpi.external}): compiler, flags and transport libraries inside it are not in the lock."]


def lock_of(stack: Stack) -> Lock:
    """The lock file a stack was built from, which lies beside its metadata.

    :raises BadInput: when there is none, or it has been concretized again since.
    """
    path = Path(stack.source).with_name(lock_file.LOCK)
    found = lock_file.read(path)
    if found.suite.hash != stack.lock_hash:
        raise BadInput(
            f"{path} has been concretized again since stack '{stack.name}' was built ({found.suite.hash[:7]} is not "
            f"{stack.lock_hash[:7]}); build it with 'mpibench build {path.parent.name}'."
        )
    return found


def facts_of(stack: Stack) -> dict[str, str]:
    """Facts of a built stack: from its lock file where Spack built it, else what its metadata say.

    :raises BadInput: when the lock file is missing or does not belong to the stack.
    """
    if stack.origin == "spack":
        return facts(lock_of(stack))
    found = {}
    for suite in BENCHMARKS.values():
        row = stack.suites.get(suite)
        found[f"{suite} version"] = row["version"] if row else ABSENT
        if row:
            found[f"{suite} compiler"] = f"not known ({row['built_with']})"
    return found


def compare_facts(left: Mapping[str, str], right: Mapping[str, str]) -> list[Difference]:
    """Aspects both have a value for and differ in."""
    differing = [name for name in left if name in right and left[name] != right[name]]
    return [Difference(name, left[name], right[name]) for name in differing if not _follows(name, differing)]


def differences(left: Stack, right: Stack) -> list[Difference]:
    """What two stacks differ in apart from their MPI; empty when they are comparable.

    A suite only one of them has is no difference: nothing is compared with it.

    :raises BadInput: when a stack's lock file is missing or does not belong to it.
    """
    found = compare_facts(facts_of(left), facts_of(right))
    return [row for row in found if not (row.aspect.endswith(" version") and ABSENT in (row.left, row.right))]


def table(stacks: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Sequence[str]]]:
    """Per aspect that is not the same in all stacks that have it: value to the names of the stacks with it."""
    aspects = dict.fromkeys(aspect for found in stacks.values() for aspect in found)
    rows: dict[str, dict[str, Sequence[str]]] = {}
    for aspect in aspects:
        values: dict[str, list[str]] = {}
        for name, found in stacks.items():
            if aspect in found:
                values.setdefault(found[aspect], []).append(name)
        if len(values) > 1:
            rows[aspect] = dict(values)
    return {aspect: values for aspect, values in rows.items() if not _follows(aspect, rows)}


def _follows(aspect: str, others: Collection[str]) -> bool:
    """Whether a difference says nothing beside others: Spack's hash of a recipe is of the part for one version and variant."""
    suite, _, what = aspect.partition(" ")
    return what == "recipe" and any(f"{suite} {cause}" in others for cause in ("version", "variants"))
