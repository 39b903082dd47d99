"""A Spack lock file (``spack.lock``) as data: nodes with version, variants, flags, target, compiler, and who is the MPI."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reframe_tests.harness.vocabulary import BadInput

#: File beside ``spack.yaml`` that Spack writes when it has concretized an environment.
LOCK = "spack.lock"
#: Lock file formats known here (``_meta.lockfile-version``; lib/spack/spack/environment/environment.py): 6 since Spack 1.0.
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


@dataclass(frozen=True)
class Edge:
    """A dependency: hash of the node, what it is needed for (``build``, ``link``, ``run``), virtuals it stands in for."""

    hash: str
    types: tuple[str, ...]
    virtuals: tuple[str, ...]


@dataclass(frozen=True)
class LockedSpec:
    """One package as concretized.

    :param variants: name to value as Spack writes it (``+verbs``, ``fabrics=ofi,ucx``), flags left out.
    :param flags: the flags that are set, name to words.
    :param namespace: package repository its recipe is from.
    :param recipe: hash of the recipe it is built by (``package_hash``).
    :param external: prefix of an installation of the site's, empty for what Spack builds.
    :param attributes: what the site's entry says beside spec and prefix: module, compilers with their flags and variables.
    """

    name: str
    version: str
    hash: str
    os: str
    target: str
    variants: Mapping[str, str]
    flags: Mapping[str, str]
    namespace: str
    recipe: str
    external: str
    attributes: str
    edges: tuple[Edge, ...]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def options(self) -> str:
        """All variants as one text, in the order of their names."""
        return " ".join(self.variants[name] for name in sorted(self.variants))


@dataclass(frozen=True)
class Lock:
    """A concretized environment.

    :param roots: hashes of what was asked for, sorted (Spack writes them in any order).
    :param digest: SHA-256 of all it says. A node's own hash says nothing of what somebody has edited since.
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
                "lock-roots",
                f"{self.path} has {len(self.roots)} roots and not the one {SUITE}; correct the spack.yaml beside it.",
            )
        return found[0]

    @cached_property
    def mpi(self) -> LockedSpec:
        """The node that provides MPI to the stack."""
        for edge in self.suite.edges:
            if "mpi" in edge.virtuals:
                return self.nodes[edge.hash]
        raise BadInput(
            "lock-without-mpi",
            f"{self.path}: nothing in it provides MPI to {SUITE}; concretize it again with 'mpibench stacks build --fresh'.",
        )

    @cached_property
    def device(self) -> str:
        """Kind of device memory that a benchmark of the stack can use (``cuda``, ``rocm``); empty for none."""
        benchmarks = [self.nodes[edge.hash] for edge in self.suite.edges if "mpi" not in edge.virtuals]
        options = {option for node in benchmarks for option in node.variants.values()}
        return next((device for device in DEVICES if f"+{device}" in options), "")

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
        """Compiler per language a node was built with (``{"c": "gcc@12.2.0"}``); empty for an external."""
        return {
            language: str(self.nodes[edge.hash]) for edge in node.edges for language in LANGUAGES if language in edge.virtuals
        }


def read(path: Path) -> Lock:
    """The lock file of an environment.

    :raises BadInput: naming the file, when it is missing, cut short or of an unknown format.
    """
    again = f"concretize it with 'mpibench stacks build {path.parent.name}'"
    try:
        return parse(json.loads(path.read_text()), path)
    except OSError as error:
        raise BadInput(
            "lock-missing", f"{path} cannot be read ({error.strerror}): it has not been concretized; {again}."
        ) from error
    except ValueError as error:
        raise BadInput("lock-not-json", f"{path} is not JSON ({error}); remove it and {again}.") from error


def parse(document: Any, path: Path) -> Lock:
    """The lock a decoded file describes.

    :raises BadInput: naming the file, when it is of an unknown format or has holes.
    """
    again = f"remove it and concretize it with 'mpibench stacks build {path.parent.name}'"
    try:
        version = document["_meta"]["lockfile-version"]
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise BadInput(
                "lock-format", f"{path} is a lock file of format {version}, and {known} are known here; {again} and Spack 1.x."
            )
        nodes = {key: _node(key, row) for key, row in document["concrete_specs"].items()}
        roots = tuple(sorted(row["hash"] for row in document["roots"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput("lock-damaged", f"{path} is not a lock file of Spack (no {error}); {again}.") from error
    absent = {edge.hash for node in nodes.values() for edge in node.edges} | set(roots)
    if absent := absent - set(nodes):
        raise BadInput("lock-damaged", f"{path} names a package {sorted(absent)[0]} it does not describe; {again}.")
    # Two solutions that are equal differ in the order of roots and nodes.
    whole = {"format": version, "roots": roots, "nodes": document["concrete_specs"]}
    return Lock(path, nodes, roots, hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest())


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
        variants={name: _variant(name, value) for name, value in parameters.items() if name not in FLAGS},
        flags={name: " ".join(parameters[name]) for name in FLAGS if parameters.get(name)},
        namespace=row["namespace"],
        recipe=row.get("package_hash", "").rstrip("="),
        external=external.get("path") or "",
        attributes=json.dumps(further, sort_keys=True) if further else "",
        edges=tuple(
            Edge(edge["hash"], tuple(edge["parameters"]["deptypes"]), tuple(edge["parameters"]["virtuals"]))
            for edge in row.get("dependencies", ())
        ),
    )


def _variant(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return ("+" if value else "~") + name
    words = sorted(map(str, value)) if isinstance(value, list) else [str(value)]
    return f"{name}={','.join(word[:8] if name == 'patches' else word for word in words)}"
