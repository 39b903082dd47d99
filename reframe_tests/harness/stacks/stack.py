"""A stack: an MPI library with the benchmarks built on it, as its own metadata file describes it.

Whatever built the stack writes this file, ``stack.json``, which is checked against
``stack.schema.json``. ReFrame environments are generated from these files and nothing else.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..samples import CONTRADICTED, MISSING
from .modules import LoadedModules, Module, ModuleState, find_changes, list_names


@dataclass(frozen=True)
class Stack:
    """One built stack.

    :param name: ReFrame environment name, ``<mpi>-<origin>`` unless the builder says otherwise.
    :param origin: how the stack came to be: ``spack``, ``wheels`` or ``system``.
    :param mpi: name of a record of :mod:`mpis`.
    :param mpi_version: version string of the MPI library (``2021.18.1``).
    :param device: communication device where builds differ in it
        (``ch4:ofi``, ``ch4:ucx``), else empty.
    :param abi: binary interface of libmpi (``mpich``, ``openmpi``): which binaries run on it.
    :param launcher_family: name of a record of :mod:`launchers`: what its own ``mpirun`` is.
    :param prefix: absolute installation prefix.
    :param library: absolute path of the ``libmpi`` the ranks must have mapped.
    :param library_version_pattern: regular expression
        ``MPI_Get_library_version`` must match (``re.search``).
    :param binaries: benchmark binary name (``IMB-MPI1``) to absolute path.
    :param commands: instrument name (``mpi4py.bench``) to argument
        vector, for those that are no single binary.
    :param suites: suite name to its version and how it was built.
    :param env_vars: variables to set when the stack is entered, values taken literally.
    :param prepend_path: search path variable to directories put in front of it.
    :param build: provenance: compiler, spec, wheels with checksums, ``lock_hash``.
    :param source: path of the metadata file.
    :param gpu: platform of GPUs whose memory its MPI sends
        (:data:`machine.gpu.KINDS`); empty: of the host only.
    :param modules: environment modules that jobs load before anything else.
    :param loaded: what loading them did when the stack was registered.
    :param enter: command that starts the words after it in a container, as each rank is.
    """

    name: str
    origin: str
    mpi: str
    mpi_version: str
    device: str
    abi: str
    launcher_family: str
    prefix: str
    library: str
    library_version_pattern: str
    binaries: Mapping[str, str]
    commands: Mapping[str, tuple[str, ...]]
    suites: Mapping[str, Mapping[str, str]]
    env_vars: Mapping[str, str]
    prepend_path: Mapping[str, tuple[str, ...]]
    build: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    gpu: str = ""
    modules: tuple[Module, ...] = ()
    loaded: LoadedModules = field(default_factory=LoadedModules)
    enter: tuple[str, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """Variables that are set where the stack is entered: by its modules, then its own."""
        return {**self.loaded.sets, **self.env_vars}

    @property
    def search_paths(self) -> dict[str, tuple[str, ...]]:
        """Folders in front of search path variables where the stack is
        entered: its own, then those of its modules.
        """
        own = self.prepend_path
        theirs = self.loaded.prepends
        return {
            name: (*own.get(name, ()), *theirs.get(name, ()))
            for name in dict.fromkeys([*own, *theirs])
        }

    @property
    def modules_text(self) -> str:
        """``module openmpi/5.0.10``, for sentences; empty if it is entered through none."""
        return list_names(self.modules) if self.modules else ""

    @property
    def lock_hash(self) -> str:
        """Hash that identifies exactly what was built."""
        return str(self.build["lock_hash"])

    @property
    def files(self) -> Mapping[str, Mapping[str, Any]]:
        """``sha256`` and ``size_bytes`` of what it runs, by path, when it was registered."""
        return self.build.get("files") or {}

    @property
    def inside(self) -> frozenset[str]:
        """Files that only its container has, as it names them: what ranks run."""
        named = (self.library, *self.binaries.values(), *self.build.get("linked", ()))
        return frozenset(named if self.enter else ())

    @property
    def kept_out(self) -> frozenset[str]:
        """Variables that its launcher has, and no rank (``env -u``)."""
        return frozenset(name for word, name in itertools.pairwise(self.enter) if word == "-u")

    def resolve(self, path: str) -> str:
        """A file as the kernel calls it in a rank; links of a container were followed in there."""
        return path if path in self.inside else os.path.realpath(path)

    @property
    def mpirun(self) -> tuple[str, ...]:
        """The stack's own launcher: the command ``mpirun`` where the
        metadata name one, else ``<prefix>/bin/mpirun``.
        """
        return tuple(self.commands.get("mpirun", (f"{self.prefix}/bin/mpirun",)))

    def python_with(self, module: str) -> tuple[str, ...]:
        """How the Python is started that runs ``module`` with ``-m`` (key of
        :attr:`commands`); empty if there is none.
        """
        command = tuple(self.commands.get(module, ()))
        return command[:-2] if command[-2:] == ("-m", module) else ()

    @property
    def version_tuple(self) -> tuple[int, ...]:
        """Leading integers of the MPI version, for table look-ups:
        ``4.1.7rc1`` (of HPC-X) is ``(4, 1, 7)``.
        """
        match = re.match(r"\d+(?:\.\d+)*", self.mpi_version, re.ASCII)
        return tuple(map(int, match[0].split("."))) if match else ()


# ---- what a job loaded, by its own log ----

#: Shell pattern of the logs, one for each stack of a job.
LOGS = "modules-*.txt"
#: Last part of a log that is whole.
END = "end"


def log_of(stack: Stack) -> str:
    """Name of the file, in the job's directory, in which the job says what it loaded."""
    return LOGS.replace("*", stack.name)


def parse_log(text: str, record: LoadedModules) -> ModuleState:
    """A log: parts that end with NUL, ``loaded=``, ``files=``, ``value=NAME=`` and
    ``sha256=SUM=FILE``, and :data:`END`.

    A log without ``loaded=`` is that of a job which only looked at the files: of a paired stack.
    """
    loaded = {module.name: module.file for module in record.loaded}
    names: list[str] = []
    sums: dict[str, str] = {}
    values: dict[str, str] = {}
    for part in text.split("\0")[:-1]:
        key, _, value = part.partition("=")
        first, _, rest = value.partition("=")
        if key == "loaded":
            names = [name for name in value.split(":") if name]
            loaded = {}
        elif key == "files":
            # As many as there are modules; of fewer or more nothing says which is whose.
            files = [file for file in value.split(":") if file]
            loaded = dict(
                zip(names, files if len(files) == len(names) else [""] * len(names), strict=True)
            )
        elif key == "value":
            values[first] = rest
        elif key == "sha256":
            sums[rest] = first
    return ModuleState(loaded, sums, values)


def judge_modules(stack: Stack, directory: Path) -> tuple[str, list[str]]:
    """Status and sentences unless a job loaded what its stack was
    registered with; none for a stack without modules.
    """
    if not stack.modules:
        return MISSING, []
    path = directory / log_of(stack)
    text = path.read_text(errors="replace") if path.exists() else ""
    if not text.endswith(f"{END}\0"):
        names = list_names(stack.modules)
        return MISSING, [
            f"the job left no complete {path.name}, so nothing shows that it loaded {names}."
        ]
    sentences = find_changes(stack.loaded, parse_log(text, stack.loaded), own=tuple(stack.env_vars))
    remedy = f"; if intended, run 'mpibench stacks remove {stack.name}' and add it again."
    return CONTRADICTED, [f"{sentence.rstrip('.')}{remedy}" for sentence in sentences]
