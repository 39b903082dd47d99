"""``mpibench stacks build``: concretize, show, install, test and register the stacks of
``environments/``; Spack does the work.

Each step stores what the next run starts from: the lock file with a stamp of everything it was
concretized from, Spack's own store, and at the end ``stack.json`` with its lock file. A stack is
registered only when all of it is installed, tested and known to run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput, meant

from ... import whole_file
from ...only_one import only_one
from .. import compilation, writer
from ..logged import Echo
from . import description, modulefiles
from . import lock as lock_file
from .lock import Lock, Verified, lock_of
from .project import (
    PACKAGES,
    Project,
    list_by_default,
    list_changes,
    list_environments,
    list_readings,
    locate_spack,
    specs_of,
    split,
)
from .scope import SCOPE, check_compiler, check_entries, configured_packages, find_scope

#: File of an environment's working folder: hash of what its lock file
#: was concretized from, and of that lock file.
CONCRETIZED = "solved"
QUERY = Path(__file__).with_name("list_installed.py")
#: Name of the package repository in ``repo/``.
REPOSITORY = "mpibench"
#: Exit status of a program that SIGINT ended, as shells have it.
INTERRUPTED = 130


@dataclass(frozen=True)
class BuildOptions:
    """What the user requested beyond the names of stacks.

    :param concretize_only: stop when it has been shown what would be built.
    :param modules: folder for modulefiles.
    """

    fresh: bool = False
    concretize_only: bool = False
    skip_tests: bool = False
    jobs: int = 0
    modules: Path | None = None


def build(
    names: Sequence[str],
    options: BuildOptions,
    *,
    system: str | None = None,
    root: Path = metadata.ROOT,
    environ: Mapping[str, str] = os.environ,
    echo: Echo = print,
    console: Console | None = None,
) -> list[str]:
    """Build environments (by default all that need no device); one
    sentence per stack that could not be built.

    Each stack is checked, concretized and built by itself: what is wrong
    with one keeps no other from being built.
    """
    known = list_environments(root)
    for name in names:
        if split(root, name)[0] not in known:
            ends = (
                f", each also with {', '.join(changes)}" if (changes := list_changes(root)) else ""
            )
            raise BadInput(
                "unknown-name",
                f"environments/ has no stack '{name}'{meant(name, known)} for Spack; known are "
                f"{', '.join(known)}{ends}.",
            )
        if len(readings := list_readings(root, name)) > 1:
            ways = " and ".join(f"{base} with {', '.join(folders)}" for base, folders in readings)
            raise BadInput(
                "unknown-name", f"'{name}' is {ways}; rename one of these folders of environments/."
            )
    project = _open(root, environ, echo, system)
    echo(
        f"Spack {project.spack.version} ({project.spack.program}), configuration scope "
        f"{project.scope or 'none'}"
    )
    project.place.mkdir(parents=True, exist_ok=True)
    try:
        with only_one(project.place, "mpibench stacks build", ".lock", f"in {project.place}", echo):
            wanted, shown = (
                list(names) or list_by_default(root),
                console or Console(highlight=False),
            )
            return _build_each(project, wanted, options, shown, environ)
    except KeyboardInterrupt:
        echo("interrupted: registered stacks stay registered; repeat the command to continue")
        raise SystemExit(INTERRUPTED) from None


def _open(root: Path, environ: Mapping[str, str], echo: Echo, system: str | None = None) -> Project:
    scope = find_scope(system, root, environ)
    inside = {**environ, **({SCOPE: str(scope)} if scope else {})}
    return Project(root, locate_spack(inside), scope, echo, system)


def _build_each(
    project: Project,
    names: Sequence[str],
    options: BuildOptions,
    console: Console,
    environ: Mapping[str, str],
) -> list[str]:
    failures: list[str] = []
    rows: dict[str, dict[str, Path | None]] = {}
    for name in names:
        project.log(name).unlink(missing_ok=True)
        try:
            project.check_files(name)
            writer.check_name(
                description.stack_name(name),
                project.folder(name) / writer.METADATA,
                project.root,
                environ,
            )
            project.prepare(name)
            # None that somebody else wrote, none that was cut short.
            if _recorded(project, name)[1] != _hash_of_lock(project, name):
                for path in (project.lock(name), project.work(name) / CONCRETIZED):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(
                        missing_ok=True
                    )
            project.configured[name] = check_compiler(project, name)
            concretize(project, name, options.fresh)
            rows[name], _ = find_installed(project, name)
        except BadInput as error:
            project.concretized.pop(name, None)
            failures.append(str(error))
    if project.concretized:
        show(project, rows, console)
    for name in () if options.concretize_only else project.concretized:
        try:
            finish(project, name, options, rows[name])
            if options.modules:
                modulefiles.write_modules(project, name, options.modules)
        except BadInput as error:
            failures.append(str(error))
    return list(dict.fromkeys(failures))


def compute_stamp(project: Project, name: str) -> str:
    """Hash of what a concretization follows from: environment, common
    files, configuration scope, recipes, Spack.

    Of the site's packages what is in effect, without MPIs of other
    stacks; not where things are fetched from.
    """
    recipes = sorted(
        path
        for path in (project.root / "repo").rglob("*")
        if path.suffix in (".py", ".yaml", ".patch")
    )
    scope = set(project.scope.glob("*.yaml")) if project.scope else set()
    asked = " ".join(specs_of(project.root, name))
    others = (
        {mpi for mpi in description.providers() if not re.search(rf"\b{mpi}(?![\w-])", asked)}
        if asked
        else set()
    )
    settings = configured_packages(project.configured[name], name)
    configured = {package: row for package, row in settings.items() if package not in others}
    texts = {
        f"scope/{path.name}"
        if path in scope
        else str(path.relative_to(project.root)): path.read_text()
        for path in (*project.files(name), *recipes)
        if path not in scope or path.name not in (PACKAGES, "mirrors.yaml")
    }
    return writer.compute_hash([project.spack.version, configured, texts])


def _recorded(project: Project, name: str) -> tuple[str, str]:
    """Hashes of inputs and lock file written down at the last
    concretization; empty if there is none.
    """
    path = project.work(name) / CONCRETIZED
    words = path.read_text(errors="replace").split() if path.is_file() else []
    return (words[0], words[1]) if len(words) == 2 else ("", "")


def _hash_of_lock(project: Project, name: str) -> str:
    path = project.lock(name)
    return writer.compute_hash(path.read_text(errors="replace")) if path.is_file() else "none"


def concretize(project: Project, name: str, fresh: bool) -> None:
    """Bring a concretization up to date; a stack that is registered
    keeps the lock file it was built from.
    """
    stamp = compute_stamp(project, name)
    if fresh or _recorded(project, name) != (stamp, _hash_of_lock(project, name)):
        began = time.monotonic()
        project.echo(f"{name}: concretizing")
        record = project.work(name) / CONCRETIZED
        record.unlink(missing_ok=True)
        remedy = (
            "correct where it is requested: the environment's spack.yaml, environments/common or "
            "the site's scope"
        )
        project.run(name, "concretizing", "concretize", "--force", "--fresh", remedy=remedy)
        record.write_text(f"{stamp} {_hash_of_lock(project, name)}\n")
        project.echo(f"{name}: concretized after {time.monotonic() - began:.1f} s")
    lock = lock_file.read(project.lock(name))
    description.name_of(lock)  # refuses a solution with an unknown MPI
    check_entries(project, name, lock)
    project.concretized[name] = lock


def find_installed(
    project: Project, name: str, lock: Lock | None = None
) -> tuple[dict[str, Path | None], Verified]:
    """Hash of each package of a concretized environment to its prefix
    (``None`` for what is not installed yet).

    :param lock: all that it links or runs is verified: files against Spack's
        manifests, externals against what is there.
    """
    hashes = [node.hash for node in lock.at_run_time()] if lock else []
    if lock:
        hashes += sorted(
            {
                spec.hash
                for node in lock.at_run_time()
                for spec in lock.builders(node)
                if spec.external
            }
        )
    what = "verifying what is installed" if lock else "asking what is installed"
    output = project.run(name, what, "python", str(QUERY), *hashes)
    rows, verified = output.split("INSTALLED\n")[-1].split("\nVERIFIED\n")
    prefixes = {
        key: Path(row["prefix"]) if row["installed"] else None
        for key, row in json.loads(rows).items()
    }
    return prefixes, Verified(**{key: tuple(value) for key, value in json.loads(verified).items()})


def verify(
    stack: Stack, root: Path = metadata.ROOT, environ: Mapping[str, str] = os.environ
) -> Verified:
    """What Spack finds of a registered stack now."""
    project = _open(root, environ, lambda line: None)
    return find_installed(project, Path(stack.source).parent.name, lock_of(stack))[1]


def show(
    project: Project, installed: Mapping[str, Mapping[str, Path | None]], console: Console
) -> None:
    """Print what each stack will consist of, and how much of it has to be installed."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, lock in project.concretized.items():
        compilers = lock.compiler_names(*lock.benchmarks)
        # Build tools of what is installed already are not installed again.
        missing = [node.name for node in lock.at_run_time() if not installed[name].get(node.hash)]
        registered = _current(project, name)
        table.add_row(
            f"{description.name_of(lock)}:",
            f"{lock.mpi}" + (" (the site's own)" if lock.mpi.external else ""),
        )
        table.add_row("", ", ".join(map(str, lock.benchmarks)))
        table.add_row("", f"built with {', '.join(compilers)} for {lock.suite.target}")
        table.add_row(
            "",
            "registered" if registered else f"to install: {', '.join(missing) or 'nothing'}",
        )
    console.print(table)


def finish(
    project: Project, name: str, options: BuildOptions, installed: Mapping[str, Path | None]
) -> Stack:
    """Install, test and register one concretized stack; nothing is
    done where all of it is as it should be.

    :raises BadInput: with one sentence; the stack is then not
        registered, or stays registered as it was.
    """
    lock = project.concretized[name]
    path = project.folder(name) / writer.METADATA
    if current := _current(project, name):
        keep_lock(project, name)
        project.echo(f"{current.name}: up to date ({lock.suite.hash[:7]})")
        return current
    began = time.monotonic()
    if lock.mpi.external:
        description.check_external(lock, Path(lock.mpi.external))
    # What Spack has as installed and is gone from its store it must
    # forget, so that it installs it again.
    nodes = [node for node in lock.nodes.values() if not node.external]
    gone = [node for node in nodes if (prefix := installed.get(node.hash)) and not prefix.is_dir()]
    if gone:
        project.echo(
            f"{name}: missing from Spack's store, installed again: {', '.join(map(str, gone))}"
        )
        hashes = [f"/{node.hash}" for node in gone]
        project.run(
            name,
            "removing missing packages",
            "uninstall",
            "--force",
            "--yes-to-all",
            *hashes,
        )
    words = ["install", "--only-concrete", "--fail-fast"]
    words += ["--jobs", str(options.jobs)] if options.jobs else []
    remedy = "correct the cause and repeat the command to continue"
    project.run(name, "installing", *words, remedy=remedy, show=True)
    prefixes, verified = find_installed(project, name, lock)
    absent = [node for node in lock.at_run_time() if not prefixes.get(node.hash)]
    if absent:
        raise BadInput(
            "unknown-name",
            f"{name}: Spack reported no error, but {absent[0]} is not installed (log: "
            f"{project.log(name)}).",
        )
    there = {key: prefix for key, prefix in prefixes.items() if prefix}
    for node in lock.at_run_time():
        if not there[node.hash].is_dir():
            remedy = (
                "correct its prefix in the site's packages.yaml"
                if node.external
                else f"see {project.log(name)}"
            )
            raise BadInput(
                "changed-since",
                f"{name}: Spack lists {node} as installed, but {there[node.hash]} is gone; "
                f"{remedy}.",
            )
    if verified.faults:
        raise BadInput(
            "checksum-differs",
            f"{name}: {verified.faults[0]}; correct that entry, or 'spack uninstall' what was "
            "changed.",
        )
    document = description.describe(lock, there, path, project.root, project.echo)
    if verified.notes:
        document["build"]["notes"] = list(verified.notes)
    # the install-time tests of what this project's recipes built: benchmarks, and some MPIs
    if not options.skip_tests:
        tested = [
            node
            for node in (lock.mpi, *lock.benchmarks)
            if node.namespace == REPOSITORY and not node.external
        ]
        project.echo(
            f"{name}: running the install-time tests of {', '.join(node.name for node in tested)}"
        )
        remedy = "read its output; the stack is registered once it passes"
        specs = [f"{node.name}/{node.hash}" for node in tested]
        project.run(name, "testing", "test", "run", "--fail-first", *specs, remedy=remedy)
    with project.log(name).open("a") as stream:
        stack = writer.register(
            document,
            path,
            root=project.root,
            contradict=description.contradict,
            record=stream.write,
            ask=partial(_ask, lock),
        )
    keep_lock(project, name)
    project.echo(f"{stack.name}: {compilation.sentence(stack)}")
    project.echo(
        f"{stack.name}: ready after {time.monotonic() - began:.1f} s, {len(stack.binaries)} "
        f"programs, {path}"
    )
    return stack


def keep_lock(project: Project, name: str) -> None:
    """Lay the lock file a stack was built from beside its
    metadata, whoever has written there since.
    """
    kept = project.folder(name) / lock_file.LOCK
    text = project.lock(name).read_text()
    if not kept.exists() or kept.read_text(errors="replace") != text:
        with whole_file.replacing(kept) as partial:
            partial.write_text(text)


def _current(project: Project, name: str) -> Stack | None:
    """The registered stack when it is the one requested and all of it is there."""
    try:
        stack = metadata.read(project.folder(name) / writer.METADATA)
    except metadata.StackError:
        return None
    lock = project.concretized[name]
    asked = (stack.name, stack.build.get("lock_digest")) == (description.name_of(lock), lock.digest)
    if (
        not asked
        or stack.build.get("facts") != lock_file.described(lock)
        or metadata.find_damage(stack)
    ):
        return None
    return stack if stack.build.get("compiled") == _ask(lock, stack) else None


def _ask(lock: Lock, stack: Stack) -> dict[str, str]:
    """How its library was compiled; flags that Spack's wrapper puts in
    front are not in what the library says.
    """
    return compilation.ask(stack, lock.mpi.flags.get("cflags", ""))
