"""A Spack lock file (``spack.lock``) as data, and how stacks differ apart from their MPI.

``mpibench stacks --check`` lists the differences; comparisons of stacks ask :func:`things`. Only
known differences count: for an MPI that the site already had, the lock has only the version, and a
note says so.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from reframe_tests.harness import yaml_file
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import BadInput

#: File beside ``spack.yaml`` that Spack writes when it has concretized an environment.
LOCK = "spack.lock"
#: Lock file formats known here (``_meta.lockfile-version``;
#: lib/spack/spack/environment/environment.py): 6 since Spack 1.0.
VERSIONS = (6, 7)
#: Bundle whose dependencies make up one stack.
SUITE = "mpibench-suite"
FLAGS = ("cflags", "cppflags", "cxxflags", "fflags", "ldflags", "ldlibs")
#: Kinds of device memory, as variants call them.
DEVICES = ("cuda", "rocm")
#: Package whose scripts every compiler of a build is called through, and which add flags.
WRAPPER = "compiler-wrapper"
#: Languages as Spack's virtual packages call them.
LANGUAGES = ("c", "cxx", "fortran")
#: What is measured with: package to the suite's name in stack metadata.
BENCHMARKS = {
    package.name: suite.name for suite in catalogue.SUITES.values() for package in suite.spack
}
#: What stacks may differ in and are compared all the same, and what
#: of an MPI is no matter of which MPI it is.
ALLOWED = metadata.ROOT / "environments" / "differences.yaml"
ABSENT = "none"
#: Compilers' own libraries as packages.
RUNTIMES = ("gcc-runtime", "intel-oneapi-runtime")
#: Variants that an installed MPI says of itself.
ASKED = ("device", "netmod")


@dataclass(frozen=True)
class Edge:
    """A dependency: hash of the node, what it is needed for (``build``,
    ``link``, ``run``), virtuals it provides.
    """

    hash: str
    types: tuple[str, ...]
    virtuals: tuple[str, ...]


@dataclass(frozen=True)
class LockedSpec:
    """One package as concretized.

    :param variants: name to value as Spack writes it (``+verbs``,
        ``fabrics=ofi,ucx``), flags left out.
    :param recipe: hash of the recipe it is built by (``package_hash``).
    :param external: prefix of an installation of the site's, empty for what Spack builds.
    :param attributes: what the site's entry says beside spec and prefix:
        module, compilers with their flags and variables.
    :param spliced: hash of the package it was built as, with other libraries
        than it runs with; empty: as it was built.
    """

    name: str
    version: str
    hash: str
    os: str = ""
    target: str = ""
    variants: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    recipe: str = ""
    external: str = ""
    attributes: str = ""
    spliced: str = ""
    edges: tuple[Edge, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def device(self) -> str:
        """Kind of device memory that it is built for (``cuda``, ``rocm``); empty for none."""
        return next((device for device in DEVICES if self.variants.get(device) == f"+{device}"), "")

    @property
    def options(self) -> str:
        """All variants as one text, in the order of their names."""
        return " ".join(self.variants[name] for name in sorted(self.variants))

    @property
    def place(self) -> str:
        """Where an external is, and what else its entry says."""
        return " ".join(filter(None, [self.external, self.attributes]))

    @property
    def made_by(self) -> str:
        """The recipe it is built by, and whether it runs with other
        libraries than it was built with.
        """
        return f"{self.namespace} {self.recipe[:8]}" + (
            f" spliced from {self.spliced[:8]}" if self.spliced else ""
        )


@dataclass(frozen=True)
class Lock:
    """A concretized environment.

    :param roots: hashes of what was requested, sorted (Spack writes them in any order).
    :param digest: SHA-256 of all it says. A node's own hash says
        nothing of what somebody has edited since.
    """

    path: Path
    nodes: Mapping[str, LockedSpec]
    roots: tuple[str, ...]
    digest: str

    @cached_property
    def suite(self) -> LockedSpec:
        """The bundle that is the stack."""
        found = [self.nodes[root] for root in self.roots if self.nodes[root].name == SUITE]
        if len(found) != 1 or len(self.roots) != 1:
            raise BadInput(
                "configuration-unusable",
                f"{self.path} has {len(self.roots)} roots instead of the one {SUITE}; correct the "
                "spack.yaml beside it.",
            )
        return found[0]

    @cached_property
    def mpi(self) -> LockedSpec:
        """The node that provides MPI to the stack."""
        for edge in self.suite.edges:
            if "mpi" in edge.virtuals:
                return self.nodes[edge.hash]
        raise BadInput(
            "configuration-unusable",
            f"{self.path}: no package in it provides MPI to {SUITE}; concretize it again with "
            "'mpibench stacks build --fresh'.",
        )

    @cached_property
    def device(self) -> str:
        """Kind of device memory that a benchmark of the stack can use
        (``cuda``, ``rocm``); empty for none.
        """
        return next((node.device for node in self.benchmarks if node.device), "")

    @cached_property
    def benchmarks(self) -> list[LockedSpec]:
        """The suites that the stack has, as packages."""
        return [node for node in map(self.find, BENCHMARKS) if node]

    def find(self, name: str) -> LockedSpec | None:
        """A package that is in the stack when it runs; build tools are not looked at."""
        return next((node for node in self.at_run_time() if node.name == name), None)

    def at_run_time(self, without: LockedSpec | None = None) -> Iterator[LockedSpec]:
        """The suite and everything it links or runs, each once, the suite first.

        :param without: a node that is left out with all that only it brings.
        """
        seen = {self.suite.hash: self.suite}
        waiting = [self.suite]
        while waiting:
            node = waiting.pop(0)
            yield node
            for edge in node.edges:
                if without and edge.hash == without.hash:
                    continue
                if edge.hash not in seen and set(edge.types) & {"link", "run"}:
                    seen[edge.hash] = self.nodes[edge.hash]
                    waiting.append(seen[edge.hash])

    def builders(self, node: LockedSpec) -> Iterator[LockedSpec]:
        """The compilers of a node, and what Spack wraps them with."""
        for edge in node.edges:
            if self.nodes[edge.hash].name == WRAPPER or set(LANGUAGES) & set(edge.virtuals):
                yield self.nodes[edge.hash]

    def compilers(self, node: LockedSpec) -> dict[str, str]:
        """Compiler per language a node was built with (``{"c":
        "gcc@12.2.0"}``); empty for an external.
        """
        return {
            language: str(self.nodes[edge.hash])
            for edge in node.edges
            for language in LANGUAGES
            if language in edge.virtuals
        }

    def compiler_names(self, *nodes: LockedSpec) -> list[str]:
        """The compilers that some nodes were built with, each once."""
        return sorted({name for node in nodes for name in self.compilers(node).values()})


def read(path: Path) -> Lock:
    """The lock file of an environment."""
    again = f"concretize it with 'mpibench stacks build {path.parent.name}'"
    try:
        return parse(json.loads(path.read_text()), path)
    except OSError as error:
        raise BadInput(
            "file-missing",
            f"{path} cannot be read ({error.strerror}): it was not concretized; {again}.",
        ) from error
    except ValueError as error:
        raise BadInput(
            "configuration-unusable", f"{path} is not JSON ({error}); remove it and {again}."
        ) from error


def parse(document: Any, path: Path) -> Lock:
    """The lock a decoded file describes."""
    again = f"remove it and concretize it with 'mpibench stacks build {path.parent.name}'"
    try:
        version = document["_meta"]["lockfile-version"]
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise BadInput(
                "configuration-unusable",
                f"{path} is a lock file of format {version}, but only {known} can be read; {again} "
                "with Spack 1.x.",
            )
        nodes = {key: _node(key, row) for key, row in document["concrete_specs"].items()}
        roots = tuple(sorted(row["hash"] for row in document["roots"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            "file-damaged", f"{path} is not a Spack lock file (no {error}); {again}."
        ) from error
    named = {edge.hash for node in nodes.values() for edge in node.edges} | set(roots)
    if absent := named - set(nodes):
        raise BadInput(
            "file-damaged",
            f"{path} names a package {sorted(absent)[0]} without describing it; {again}.",
        )
    # Two solutions that are equal differ in the order of roots and nodes.
    whole = {"format": version, "roots": roots, "nodes": document["concrete_specs"]}
    return Lock(
        path, nodes, roots, hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
    )


def of_entry(spec: str, prefix: Path) -> Lock:
    """What a lock would record of the site's own MPI, from its entry in ``packages.yaml``, before
    concretizing.
    """
    name, version = re.findall(r"^([\w-]+)(?:@=?([\w.-]+))?", spec)[0]
    variants = {key: f"{key}={value}" for key, value in re.findall(r"(\w+):?=(\S+)", spec)}
    mpi = LockedSpec(name, version, name, variants=variants, external=str(prefix))
    suite = LockedSpec(SUITE, "", SUITE, edges=(Edge(name, ("link",), ("mpi",)),))
    return Lock(Path(spec), {name: mpi, SUITE: suite}, (SUITE,), "")


def _node(key: str, row: Mapping[str, Any]) -> LockedSpec:
    target = row["arch"]["target"]
    parameters = row["parameters"]
    external = row.get("external") or {}
    further = {name: value for name, value in external.items() if name != "path" and value}
    return LockedSpec(
        name=row["name"],
        version=row["version"],
        hash=key,
        os=row["arch"]["platform_os"],
        # A microarchitecture is a dictionary with its features, a generic target its bare name.
        target=target["name"] if isinstance(target, dict) else target,
        variants={
            name: _variant(name, value) for name, value in parameters.items() if name not in FLAGS
        },
        flags={name: " ".join(parameters[name]) for name in FLAGS if parameters.get(name)},
        namespace=row["namespace"],
        recipe=row.get("package_hash", "").rstrip("="),
        external=external.get("path") or "",
        attributes=json.dumps(further, sort_keys=True) if further else "",
        spliced=(row.get("build_spec") or {}).get("hash", ""),
        edges=tuple(
            Edge(
                edge["hash"],
                tuple(edge["parameters"]["deptypes"]),
                tuple(edge["parameters"]["virtuals"]),
            )
            for edge in row.get("dependencies", ())
        ),
    )


def _variant(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return ("+" if value else "~") + name
    words = sorted(map(str, value)) if isinstance(value, list) else [str(value)]
    return f"{name}={','.join(word[:8] if name == 'patches' else word for word in words)}"


def lock_of(stack: Stack) -> Lock:
    """The lock file a stack was built from, which lies beside its metadata."""
    path = Path(stack.source).with_name(LOCK)
    found = read(path)
    if found.suite.hash != stack.lock_hash:
        raise BadInput(
            "changed-since",
            f"{path} was concretized again after stack '{stack.name}' was built "
            f"({found.suite.hash[:7]} is not {stack.lock_hash[:7]}); build it with 'mpibench "
            f"stacks build {path.parent.name}'.",
        )
    if found.digest != stack.build.get("lock_digest"):
        raise BadInput(
            "changed-since",
            f"{path} was edited after stack '{stack.name}' was built, although its hashes are the "
            f"same; build it with 'mpibench stacks build {path.parent.name}'.",
        )
    if stack.build.get("facts") != described(found):
        raise BadInput(
            "changed-since",
            f"{stack.source} does not match the lock file of stack '{stack.name}' ('facts'): it "
            "was edited, or is from an older release; build it with 'mpibench stacks build "
            f"{path.parent.name}'.",
        )
    return found


# ---- what two stacks differ in ----


@dataclass(frozen=True)
class Verified:
    """What Spack finds when it looks at installed packages again: what
    is wrong, and what is only to be known.
    """

    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@cache
def rules() -> dict[str, Any]:
    """``environments/differences.yaml``, whose head says what each key is."""
    return yaml_file.read_mapping(ALLOWED)


def facts(lock: Lock) -> dict[str, str]:
    """Everything two stacks must agree in, by aspect (``hwloc version``):
    all they link or run, and what it was built with.

    Of the MPI it is how it was built, not which one it is. An
    aspect a stack cannot have is left out.
    """
    mpi = lock.mpi
    common = [node for node in lock.at_run_time(without=mpi) if node is not lock.suite]
    nodes = [node for node in lock.at_run_time() if node is not lock.suite]
    found = {
        f"{suite} version": ABSENT
        for package, suite in BENCHMARKS.items()
        if not lock.find(package)
    }
    other = sorted(f"{node.name} {node.os}" for node in nodes if node.os != lock.suite.os)
    found["operating system"] = ", ".join([lock.suite.os, *other])
    found["libraries below the benchmarks"] = _listed(
        node for node in common if node.name not in BENCHMARKS
    )
    # Another MPI has others; the same one has the same.
    found[f"libraries under {mpi}"] = _listed(
        node for node in nodes if node not in common and node is not mpi
    )
    builders = {builder.hash: builder for node in nodes for builder in lock.builders(node)}
    for node in (*nodes, *(builder for builder in builders.values() if builder not in nodes)):
        found |= _built("mpi" if node is mpi else BENCHMARKS.get(node.name, node.name), lock, node)
    allowed = [row["aspect"] for row in rules()["allowed"]]
    return {
        aspect: value
        for aspect, value in found.items()
        if not any(fnmatchcase(aspect, row) for row in allowed)
    }


def described(lock: Lock) -> dict[str, str]:
    """:func:`facts` after :func:`identity`: stored with what the stack measures."""
    return {**identity(lock), **facts(lock)}


def identity(lock: Lock) -> dict[str, str]:
    """Which MPI it is, by which recipe, with which variants (``mpich netmod``).

    For an MPI that the site already had: its place, and what its library reported
    (:func:`description.check_mpi`); its other variants are only what Spack assumes.
    """
    mpi = lock.mpi
    known = ASKED if mpi.external else mpi.variants
    own = {
        f"{mpi.name} {name}": word for name, word in sorted(mpi.variants.items()) if name in known
    }
    how = {f"{mpi.name} prefix": mpi.place} if mpi.external else {f"{mpi.name} recipe": mpi.made_by}
    return {"MPI": str(mpi), **how, **own}


def _listed(nodes: Iterable[LockedSpec]) -> str:
    """Names of packages; not of what a compiler brings along, which is
    another compiler's and no other library.
    """
    return ", ".join(sorted({node.name for node in nodes} - {*RUNTIMES})) or ABSENT


def _built(what: str, lock: Lock, node: LockedSpec) -> Iterator[tuple[str, str]]:
    """What a node is and how it was built; nothing of that for an
    external, whose build Spack has not seen.
    """
    if node is lock.mpi:
        quality = [name for name in rules()["mpi_variants"] if not node.external]
        yield from ((f"mpi {name}", node.variants.get(name, f"~{name}")) for name in quality)
        yield "mpi splice", node.spliced[:8] or ABSENT
    else:
        yield f"{what} version", node.version
        left_out = rules()["more_programs"] if node.name in BENCHMARKS else ()
        yield (
            f"{what} variants",
            " ".join(node.variants[name] for name in sorted(node.variants) if name not in left_out),
        )
        yield f"{what} recipe", node.made_by
        yield f"{what} prefix", node.place or "built by Spack"
    if node.external:
        return
    compilers = lock.compilers(node)
    if len(set(compilers.values())) > 1:
        yield (
            f"{what} compiler",
            ", ".join(f"{language} {name}" for language, name in sorted(compilers.items())),
        )
    elif compilers:  # a language one MPI has bindings for and another has not is no difference
        yield f"{what} compiler", next(iter(compilers.values()))
    yield f"{what} target", node.target
    yield (
        f"{what} flags",
        " ".join(f"{name}={words}" for name, words in sorted(node.flags.items())) or ABSENT,
    )


def notes(lock: Lock) -> list[str]:
    """What the lock cannot say, and what is not as released, one sentence each."""
    mpi = lock.mpi
    inside = (
        f"{mpi} is the site's own ({mpi.external}): the lock does not record its compiler, flags "
        "and transport libraries."
    )
    said = [inside] if mpi.external else []
    for node in lock.at_run_time():
        if "dev_path" in node.variants:
            said.append(
                f"{node} is built from a developer's folder ({node.variants['dev_path']}) and is "
                "not a release."
            )
        if "patches" in node.variants:
            patches = node.variants["patches"].removeprefix("patches=")
            said.append(f"{node} is patched ({patches}), by the recipe of {node.namespace}.")
    return said


def things(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """What two stacks differ in, as of :func:`described`: kind
    (``compiler``) to both values and what has them.

    A suite only one of them has is no difference: nothing is compared with it.
    """
    kinds: dict[str, dict[str, list[str]]] = {}
    for aspect, values in table({"left": left, "right": right}).items():
        if aspect.endswith(" version") and ABSENT in values:
            continue
        what, _, kind = aspect.rpartition(" ")
        kinds.setdefault(kind, {}).setdefault(" and ".join(values), []).append(what)
    texts = {
        kind: [f"{kind} {values} ({', '.join(names)})" for values, names in of.items()]
        for kind, of in kinds.items()
    }
    return {kind: "; ".join(said).replace(" ()", "") for kind, said in texts.items()}


def table(stacks: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Sequence[str]]]:
    """For each aspect that differs between the stacks that have it: value to the names of the
    stacks with it, in order.

    What only one of several builds of an MPI has (a variant, patches, a prefix) is :data:`ABSENT`
    for the others.
    """
    rows: dict[str, dict[str, list[str]]] = {}
    every = dict.fromkeys(aspect for found in stacks.values() for aspect in found)
    for aspect in every:
        for name, found in stacks.items():
            own = "MPI" in found and aspect.startswith(f"{found['MPI'].partition('@')[0]} ")
            if (value := found.get(aspect, ABSENT if own else None)) is not None:
                rows.setdefault(aspect, {}).setdefault(value, []).append(name)
    differing = {aspect: values for aspect, values in rows.items() if len(values) > 1}
    return {
        aspect: dict(values)
        for aspect, values in differing.items()
        if not _follows(aspect, differing)
    }


def _follows(aspect: str, others: Mapping[str, Collection[str]]) -> bool:
    """Whether a difference says nothing beside others.

    Spack's hash of a recipe is of the part for one version and
    variant; a compiler brings its own libraries.
    """
    what, _, kind = aspect.rpartition(" ")
    if kind == "recipe":
        # without their hashes
        makers = {tuple(value.split()[:1] + value.split()[2:]) for value in others[aspect]}
        causes = {f"{what} version", f"{what} variants"}
        if any(value.partition("@")[0] == what for value in others.get("MPI", ())):
            causes.add("MPI")
        return len(makers) == 1 and not causes.isdisjoint(others)
    if what == "libraries under":  # what an MPI links follows from its variants
        return any(other.startswith(f"{kind.partition('@')[0]} ") for other in others)
    return what in RUNTIMES and any(other.endswith(" compiler") for other in others)
