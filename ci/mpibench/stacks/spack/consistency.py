"""What differs between stacks apart from their MPI, from their lock files.

``mpibench stacks --check`` lists it; whoever compares stacks asks :func:`things`. Only what is known to differ is a
difference: of an MPI the site had already, the lock says nothing but its version, and that is said as a note.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from reframe_tests.harness import yaml_file
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import BadInput

from . import lock as lock_file
from .lock import Lock, LockedSpec

#: What is measured with: package to the suite's name in stack metadata.
BENCHMARKS = {suite.spack.name: suite.name for suite in catalogue.SUITES.values() if suite.spack}
#: What stacks may differ in and are compared all the same, and what of an MPI is no matter of which MPI it is.
ALLOWED = metadata.ROOT / "environments" / "differences.yaml"
ABSENT = "none"
#: Compilers' own libraries as packages.
RUNTIMES = ("gcc-runtime", "intel-oneapi-runtime")


@dataclass(frozen=True)
class Difference:
    """One aspect two stacks differ in, and the value each has."""

    aspect: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.aspect}: {self.left} against {self.right}"


@dataclass(frozen=True)
class Verified:
    """What Spack finds when it looks at installed packages again: what is wrong, and what is only to be known."""

    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def benchmark_of(lock: Lock) -> LockedSpec:
    """A benchmark of the stack, whose compiler is the stack's."""
    return next(filter(None, map(lock.find, BENCHMARKS)), lock.suite)


def facts(lock: Lock) -> dict[str, str]:
    """Everything two stacks must agree in, by aspect (``hwloc version``): all they link or run, and what it was built with.

    Of the MPI it is how it was built, not which one it is. An aspect a stack cannot have is left out.
    """
    mpi = lock.mpi
    common = [node for node in lock.at_run_time(without=mpi) if node is not lock.suite]
    nodes = [node for node in lock.at_run_time() if node is not lock.suite]
    found = {f"{suite} version": ABSENT for package, suite in BENCHMARKS.items() if not lock.find(package)}
    found["operating system"] = lock.suite.os
    found["libraries under the benchmarks"] = _listed(node for node in common if node.name not in BENCHMARKS)
    # Another MPI has others; the same one has the same.
    found[f"libraries under {mpi}"] = _listed(node for node in nodes if node not in common and node is not mpi)
    builders = {each.hash: each for node in nodes for each in lock.builders(node)}
    for node in (*nodes, *(each for each in builders.values() if each not in nodes)):
        found |= _built("mpi" if node is mpi else BENCHMARKS.get(node.name, node.name), lock, node)
    return {aspect: value for aspect, value in found.items() if not _is_allowed(aspect)}


#: Variants that an installed MPI says of itself.
ASKED = ("device", "netmod")


def described(lock: Lock) -> dict[str, str]:
    """:func:`facts` after :func:`identity`: stored with what the stack measures."""
    return {**identity(lock), **facts(lock)}


def identity(lock: Lock) -> dict[str, str]:
    """Which MPI it is, with which variants (``mpich netmod``).

    Of one that the site had already its place, and what its library was asked for (:func:`description.check_mpi`): its other
    variants are what Spack takes it for.
    """
    mpi = lock.mpi
    known = ASKED if mpi.external else mpi.variants
    own = {f"{mpi.name} {name}": word for name, word in sorted(mpi.variants.items()) if name in known}
    return {"MPI": str(mpi), **({f"{mpi.name} prefix": mpi.external} if mpi.external else {}), **own}


def _listed(nodes: Iterable[LockedSpec]) -> str:
    """Names of packages; not of what a compiler brings along, which is another compiler's and no other library."""
    return ", ".join(sorted({node.name for node in nodes} - {*RUNTIMES})) or ABSENT


def _built(what: str, lock: Lock, node: LockedSpec) -> Iterator[tuple[str, str]]:
    """What a node is and how it was built; nothing of that for an external, whose build Spack has not seen."""
    if node is lock.mpi:
        quality = [name for name in rules()["mpi_variants"] if not node.external]
        yield from ((f"mpi {name}", node.variants.get(name, f"~{name}")) for name in quality)
    else:
        yield f"{what} version", node.version
        left_out = rules()["more_programs"] if node.name in BENCHMARKS else ()
        yield f"{what} variants", " ".join(node.variants[name] for name in sorted(node.variants) if name not in left_out)
        yield f"{what} recipe", f"{node.namespace} {node.recipe[:8]}"
        if node.external:
            yield f"{what} prefix", " ".join(filter(None, [node.external, node.attributes]))
        else:
            yield f"{what} prefix", "built by Spack"
    if node.external:
        return
    compilers = lock.compilers(node)
    if compilers:
        # A language one MPI has bindings for and another has not is no difference between compilers.
        yield f"{what} compiler", ", ".join(sorted(set(compilers.values())))
    yield f"{what} target", node.target
    yield f"{what} flags", " ".join(f"{name}={words}" for name, words in sorted(node.flags.items())) or ABSENT


@cache
def rules() -> dict[str, Any]:
    """``environments/differences.yaml``, whose head says what each key is."""
    return yaml_file.read_mapping(ALLOWED)


def _is_allowed(aspect: str) -> bool:
    return any(fnmatchcase(aspect, row["aspect"]) for row in rules()["allowed"])


def notes(lock: Lock) -> list[str]:
    """What the lock cannot say, and what is not as released, one sentence each."""
    mpi = lock.mpi
    inside = f"{mpi} is the site's own ({mpi.external}): compiler, flags and transport libraries inside it are not in the lock."
    said = [inside] if mpi.external else []
    for node in lock.at_run_time():
        if "dev_path" in node.variants:
            said.append(f"{node} is built from a folder of somebody's ({node.variants['dev_path']}) and is no release.")
        if "patches" in node.variants:
            patches = node.variants["patches"].removeprefix("patches=")
            said.append(f"{node} is patched ({patches}), by the recipe of {node.namespace}.")
    return said


def lock_of(stack: Stack) -> Lock:
    """The lock file a stack was built from, which lies beside its metadata.

    :raises BadInput: when there is none, or it is not what it was then.
    """
    path = Path(stack.source).with_name(lock_file.LOCK)
    found = lock_file.read(path)
    if found.suite.hash != stack.lock_hash:
        raise BadInput(
            "lock-newer-than-stack",
            f"{path} has been concretized again since stack '{stack.name}' was built ({found.suite.hash[:7]} is not "
            f"{stack.lock_hash[:7]}); build it with 'mpibench stacks build {path.parent.name}'.",
        )
    if found.digest != stack.build.get("lock_digest"):
        raise BadInput(
            "lock-changed",
            f"{path} is not the file stack '{stack.name}' was built from: it has been changed since, and its hashes were left; "
            f"build it with 'mpibench stacks build {path.parent.name}'.",
        )
    return found


def compare_facts(left: Mapping[str, str], right: Mapping[str, str]) -> list[Difference]:
    """Aspects both have a value for and differ in."""
    return [Difference(name, left[name], right[name]) for name in table({"left": left, "right": right})]


def things(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """What two stacks differ in, as of :func:`described`: kind (``compiler``) to both values and what has them.

    A suite only one of them has is no difference: nothing is compared with it.
    """
    kinds: dict[str, dict[str, list[str]]] = {}
    for row in compare_facts(left, right):
        if row.aspect.endswith(" version") and ABSENT in (row.left, row.right):
            continue
        what, _, kind = row.aspect.rpartition(" ")
        kinds.setdefault(kind, {}).setdefault(f"{row.left} and {row.right}", []).append(what)
    texts = {kind: [f"{kind} {values} ({', '.join(names)})" for values, names in of.items()] for kind, of in kinds.items()}
    return {kind: "; ".join(said).replace(" ()", "") for kind, said in texts.items()}


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
    """Whether a difference says nothing beside others.

    Spack's hash of a recipe is of the part for one version and variant; a compiler brings its own libraries.
    """
    what, _, kind = aspect.rpartition(" ")
    if kind == "recipe":
        return any(f"{what} {cause}" in others for cause in ("version", "variants"))
    if what == "libraries under":  # what an MPI links follows from its variants
        return any(other.startswith(f"{kind.partition('@')[0]} ") for other in others)
    return what in RUNTIMES and any(other.endswith(" compiler") for other in others)
