"""``mpibench build``: solve, show, install, test and register the stacks of ``environments/``; Spack does the work.

Each step leaves what the next run starts from: the lock file with a stamp of everything it was solved from, Spack's own
store, and at the very end ``stack.json``. A stack is registered only when all of it is installed, tested and seen to run.
"""

from __future__ import annotations

import json
import os
import re
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from reframe_tests.harness import site, stack_metadata
from reframe_tests.harness.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

from .. import stack_writer, wheels
from . import description, tool
from . import lock as lock_file
from .consistency import BENCHMARKS
from .lock import Lock
from .tool import Echo, Spack

#: Variable the environments include the site's scope by.
SCOPE = "MPIBENCH_SPACK_SCOPE"
#: File in Spack's own folder of an environment: hash of what its lock file was solved from.
SOLVED = ".spack-env/mpibench-solved"
QUERY = Path(__file__).with_name("list_installed.py")
#: Name of the package repository in ``repo/``.
REPOSITORY = "mpibench"
#: Lines of Spack 1.x's installer worth showing.
PROGRESS = re.compile(
    r"==> (?:Installing (?P<new>\S+?)(?:-\w{32})?(?:\s|$)|Extracting (?P<cached>\S+?)(?:-\w{32})? from binary cache)"
)


@dataclass(frozen=True)
class Options:
    """What the user asked for beyond the names of stacks.

    :param mirrors: paths or URLs of build caches and source mirrors, asked before the site's own.
    :param cache_only: take every package from a build cache, build none.
    :param fresh: solve anew although nothing has changed.
    :param solve_only: stop when it has been shown what would be built.
    :param skip_tests: leave out the packages' install-time tests.
    :param jobs: processes per build; 0: Spack's default.
    """

    mirrors: tuple[str, ...] = ()
    cache_only: bool = False
    fresh: bool = False
    solve_only: bool = False
    skip_tests: bool = False
    jobs: int = 0


@dataclass
class Project:
    """Where things are, and what everything is told through.

    :param scope: the site's Spack scope, or none.
    :param extra: words before every Spack command (the mirrors' own scope).
    """

    root: Path
    spack: Spack
    scope: Path | None
    echo: Echo
    extra: tuple[str, ...] = ()
    configured: str = ""
    solved: dict[str, Lock] = field(default_factory=dict)

    def folder(self, name: str) -> Path:
        """Folder of an environment."""
        return self.root / "environments" / name

    def log(self, name: str) -> Path:
        """Log file of an environment's build."""
        return self.root / "results" / "spack" / f"{name}.log"

    def run(self, name: str, what: str, *words: str, remedy: str = "", show: bool = False) -> str:
        """Run Spack in an environment; see :meth:`tool.Spack.run`."""
        progress = (lambda line: _progress(name, line)) if show else (lambda line: "")
        return self.spack.run(
            [*self.extra, "-e", str(self.folder(name)), *words],
            log=self.log(name),
            what=f"{name}: {what}",
            echo=self.echo,
            progress=progress,
            remedy=remedy,
        )


def _progress(name: str, line: str) -> str:
    found = PROGRESS.match(line)
    if not found:
        return ""
    return f"{name}: installing {found['new']}" if found["new"] else f"{name}: {found['cached']} from the build cache"


def list_environments(root: Path = stack_metadata.ROOT) -> list[str]:
    """Names of the environments Spack can build, in alphabetical order."""
    return [path.parent.name for path in sorted((root / "environments").glob("*/spack.yaml"))]


def find_scope(system: str | None, root: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The site's Spack scope: ``MPIBENCH_SPACK_SCOPE``, else ``site_configs/<system>/spack`` if there is one.

    :param system: name of the system; the one whose host names fit this machine by default.
    :raises BadInput: for an unknown system, or a variable that names no folder.
    """
    named = environ.get(SCOPE, "")
    if named and not system:
        path = Path(named).expanduser().absolute()
        if not path.is_dir():
            raise BadInput(f"{SCOPE} is {named}, which is no folder; name the folder of the site's Spack scope, or unset it.")
        return path
    host = socket.gethostname()
    for path in site.system_files(root):
        name = path.parent.name
        if name == system or (not system and any(re.match(p, host) for p in site.read_system(path)["hostnames"])):
            scope = path.parent / "spack"
            return scope if scope.is_dir() else None
    known = ", ".join(path.parent.name for path in site.system_files(root))
    raise BadInput(f"there is no system '{system or host}' under site_configs/; known are {known}.")


def build(
    names: Sequence[str],
    options: Options,
    *,
    system: str | None = None,
    root: Path = stack_metadata.ROOT,
    environ: Mapping[str, str] = os.environ,
    echo: Echo = print,
    console: Console | None = None,
) -> list[str]:
    """Build environments (all by default); one sentence per stack that could not be built, the others are done.

    :raises BadInput: when nothing can be built at all: no Spack, an unknown name, no compiler.
    """
    known = list_environments(root)
    for name in names:
        if name not in known:
            raise BadInput(f"environments/ has no stack '{name}' for Spack; known are {', '.join(known)}.")
    scope = find_scope(system, root, environ)
    inside = {**environ, **({SCOPE: str(scope)} if scope else {})}
    project = Project(root, tool.find(inside), scope, echo)
    echo(f"Spack {project.spack.version} ({project.spack.program}), site scope {scope or 'none'}")
    wanted = list(names) or known
    (root / "results" / "spack").mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="mpibench-mirrors-") as made,
        wheels.hold_lock(root / "results" / "spack" / ".lock", echo),
    ):
        if options.mirrors:
            project.extra = ("-C", write_mirrors(options.mirrors, Path(made)))
        for name in wanted:
            project.log(name).unlink(missing_ok=True)
        project.configured = check_compiler(project, wanted[0])
        failures = []
        for name in wanted:
            try:
                solve(project, name, options.fresh)
            except BadInput as error:
                failures.append(str(error))
        installed = {name: find_installed(project, name) for name in project.solved}
        if project.solved:
            show(project.solved, installed, console or Console(highlight=False))
        if options.solve_only:
            return failures
        for name in project.solved:
            try:
                finish(project, name, options)
            except BadInput as error:
                failures.append(str(error))
    return failures


def write_mirrors(mirrors: Sequence[str], folder: Path) -> str:
    """A Spack scope that names mirrors; whoever names one on the command line trusts it, so no signature is asked for.

    :raises BadInput: for a folder that does not exist.
    """
    rows = {}
    for number, mirror in enumerate(mirrors):
        url = mirror
        if "://" not in mirror:
            path = Path(mirror).expanduser().absolute()
            if not path.is_dir():
                raise BadInput(f"mirror {mirror} is no folder; name a folder or URL that 'spack mirror create' or "
                               "'spack buildcache push' has filled.")  # fmt: skip
            url = path.as_uri()
        rows[f"mpibench-{number}"] = {"url": url, "signed": False}
    (folder / "mirrors.yaml").write_text(yaml.safe_dump({"mirrors": rows}))
    return str(folder)


def check_compiler(project: Project, name: str) -> str:
    """All package settings in effect, as text, once they are known to name a compiler.

    Without one Spack would look for compilers itself and write what it finds into the environment's ``spack.yaml``.

    :raises BadInput: when none is named.
    """
    text = project.run(name, "reading its configuration", "config", "get", "packages", remedy="correct the configuration")
    settings = yaml.safe_load(text[text.index("packages:") :] if "packages:" in text else "") or {}
    packages = settings.get("packages", {})
    named = (packages.get("c") or {}).get("require") or ["gcc"]
    compiler = re.match(r"[\w-]+", named[0] if isinstance(named, list) else named)
    wanted = compiler[0] if compiler else "gcc"
    rows = [row.get("extra_attributes", {}) for row in (packages.get(wanted) or {}).get("externals") or []]
    missing = [path for row in rows for path in row.get("compilers", {}).values() if not os.access(path, os.X_OK)]
    scope = project.scope or project.root / "site_configs" / "generic" / "spack"
    if missing:
        raise BadInput(
            f"compiler {missing[0]} is named in Spack's packages.yaml and is not there; correct or remove its entry."
        )
    if not any(row.get("compilers") for row in rows):
        raise BadInput(
            f"Spack knows no {wanted}; install it, then run "
            f"'mkdir -p {scope} && {project.spack.program} -C {scope} compiler find'."
        )
    return text


def compute_stamp(project: Project, name: str) -> str:
    """Hash of everything a solution follows from: environment, common files, site scope, recipes, Spack, its settings."""
    folders = [project.folder(name), project.root / "environments" / "common", project.root / "repo"]
    files = [project.folder(name) / "spack.yaml", *sorted(folders[1].glob("*.yaml"))]
    files += sorted(path for path in folders[2].rglob("*") if path.suffix in (".py", ".yaml", ".patch"))
    texts = {str(path.relative_to(project.root)): path.read_text() for path in files}
    if project.scope:
        texts |= {f"scope/{path.name}": path.read_text() for path in sorted(project.scope.glob("*.yaml"))}
    return stack_writer.compute_hash([project.spack.version, project.configured, texts])


def solve(project: Project, name: str, fresh: bool) -> None:
    """Bring an environment's lock file up to date.

    :raises BadInput: when there is no solution.
    """
    folder, stamp = project.folder(name), compute_stamp(project, name)
    record = folder / SOLVED
    if fresh or not (folder / lock_file.LOCK).exists() or not record.exists() or record.read_text() != stamp:
        began = time.monotonic()
        project.echo(f"{name}: solving")
        remedy = f"correct {project.scope or 'the configuration'}" if project.scope else "correct environments/common"
        project.run(name, "solving", "concretize", "--force", "--fresh", remedy=remedy)
        record.parent.mkdir(exist_ok=True)
        record.write_text(stamp)
        project.echo(f"{name}: solved after {time.monotonic() - began:.1f} s")
    project.solved[name] = lock_file.read(folder / lock_file.LOCK)


def find_installed(project: Project, name: str) -> dict[str, Path | None]:
    """Hash of each package of a solved environment to its prefix; ``None`` for what is not installed yet."""
    output = project.run(name, "asking what is installed", "python", str(QUERY))
    rows = json.loads(output.split("\nINSTALLED\n")[-1].removeprefix("INSTALLED\n"))
    return {key: Path(row["prefix"]) if row["installed"] else None for key, row in rows.items()}


def show(solved: Mapping[str, Lock], installed: Mapping[str, Mapping[str, Path | None]], console: Console) -> None:
    """Print what each stack will consist of, and how much of it has to be installed."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, lock in solved.items():
        nodes = [node for package in BENCHMARKS if (node := lock.find(package))]
        compilers = sorted({text for node in nodes for text in lock.compilers(node).values()})
        # Build tools of what is installed already are not installed again.
        missing = [node.name for node in lock.at_run_time() if not installed[name].get(node.hash)]
        table.add_row(f"{description.name_of(lock)}:", f"{lock.mpi}" + (" (the site's own)" if lock.mpi.external else ""))
        table.add_row("", f"{', '.join(map(str, nodes))}")
        table.add_row("", f"built with {', '.join(compilers)} for {lock.suite.target}")
        table.add_row("", f"to install: {', '.join(missing) or 'nothing'}")
    console.print(table)


def finish(project: Project, name: str, options: Options) -> Stack:
    """Install, test and register one solved stack; nothing is done where all of it is as it should be.

    :raises BadInput: with one sentence; the stack is then not registered, or stays registered as it was.
    """
    lock, path = project.solved[name], project.folder(name) / stack_writer.METADATA
    stamp = stack_writer.compute_hash([lock.suite.hash, description.name_of(lock)])
    current = _current(path, stamp)
    if current:
        project.echo(f"{current.name}: up to date ({lock.suite.hash[:7]})")
        return current
    began = time.monotonic()
    words = ["install", "--only-concrete", "--fail-fast"]
    words += ["--cache-only"] if options.cache_only else []
    words += ["--jobs", str(options.jobs)] if options.jobs else []
    project.run(name, "installing", *words, show=True)
    prefixes = find_installed(project, name)
    absent = [str(node) for node in lock.at_run_time() if not prefixes.get(node.hash)]
    if absent:
        raise BadInput(f"{name}: Spack ended without an error and {absent[0]} is not installed (log: {project.log(name)}).")
    there = {key: prefix for key, prefix in prefixes.items() if prefix}
    gone = next((node for node in lock.at_run_time() if not there[node.hash].is_dir()), None)
    if gone:
        mend = f"run 'spack uninstall --force /{gone.hash[:7]}' and this command again"
        if gone.external:
            mend = "correct its prefix in the site's packages.yaml"
        raise BadInput(f"{name}: Spack has {gone} as installed and {there[gone.hash]} is gone; {mend}.")
    document = description.describe(lock, there, stamp, project.root)
    if not options.skip_tests:
        run_tests(project, name, lock)
    with project.log(name).open("a") as stream:
        stack = stack_writer.register(document, path, root=project.root, contradict=description.contradict, record=stream.write)
    project.echo(f"{stack.name}: ready after {time.monotonic() - began:.1f} s, {len(stack.binaries)} programs, {path}")
    return stack


def _current(path: Path, stamp: str) -> Stack | None:
    """The registered stack when it is the one asked for and all of it is there."""
    try:
        stack = stack_metadata.read(path)
    except stack_metadata.StackError:
        return None
    return stack if stack.build.get("stamp") == stamp and not stack_metadata.find_damage(stack) else None


def run_tests(project: Project, name: str, lock: Lock) -> None:
    """Run the install-time tests of what this project's recipes built: the benchmarks, and some MPIs.

    :raises BadInput: when one fails.
    """
    nodes = [lock.mpi, *(lock.find(package) for package in BENCHMARKS)]
    specs = [f"{node.name}/{node.hash}" for node in nodes if node and node.namespace == REPOSITORY and not node.external]
    project.echo(f"{name}: running the install-time tests of {', '.join(spec.split('/')[0] for spec in specs)}")
    remedy = "read what it printed; until it passes the stack is not registered"
    project.run(name, "testing", "test", "run", "--fail-first", *specs, remedy=remedy)
