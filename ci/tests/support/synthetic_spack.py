"""Copies of the project for Spack: a stand-in, what it says, the real one, and recipes without any."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from folders import DATA, SUPPORT, write
from mpibench.stacks.spack import build, description
from mpibench.stacks.spack.lock import described
from mpibench.stacks.spack.project import Spack, list_by_default, locate_spack
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput
from synthetic_project import copy_checkout
from synthetic_stack import DOCUMENT

# ---- A copy of the project with a stand-in for Spack: what `mpibench stacks build` asks it,
# registers and says.

PROGRAM = SUPPORT / "fake_spack.py"
COMPILERS = {"c": "/bin/true", "cxx": "/bin/true", "fortran": "/bin/true"}


def packages(**compilers: str) -> str:
    """What ``spack config get packages`` prints where a compiler is known (or none is)."""
    externals = (
        [{"spec": "gcc@12.2.0", "prefix": "/usr", "extra_attributes": {"compilers": compilers}}]
        if compilers
        else []
    )
    return yaml.safe_dump(
        {
            "packages": {
                "c": {"require": ["gcc"]},
                "gcc": {"externals": externals, "buildable": False},
            }
        }
    )


class Site:
    """A copy of the project with a stand-in for Spack, and what was said and asked there."""

    def __init__(self, top: Path, root: Path) -> None:
        self.top = top
        self.plan_file = top / "fake" / "plan.json"
        write(top / "repo" / "recipe.py", "version = 1\n")
        shutil.copytree(root / "site_configs" / "generic", top / "site_configs" / "generic")
        self.plan: dict[str, Any] = {"packages": packages(**COMPILERS), "locks": {}, "prefixes": {}}
        for name in ("openmpi", "mpich", "common"):
            self.add(name, root)
        self.echoed: list[str] = []
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "SPACK_ROOT": str(top / "spack"),
            "FAKE_SPACK": str(self.plan_file),
        }
        (top / "spack" / "bin").mkdir(parents=True)
        (top / "spack" / "bin" / "spack").symlink_to(PROGRAM)

    def add(self, name: str, root: Path) -> None:
        """An environment of the project, with the solution recorded for it."""
        folder = self.top / "environments" / name
        shutil.copytree(
            root / "environments" / name, folder, ignore=shutil.ignore_patterns("*.lock", ".*")
        )
        (folder / "stack.json").unlink(missing_ok=True)
        self.plan["locks"][name] = str(DATA / "golden" / "spack" / f"{name}.lock.json")

    def build(self, *names: str, system: str | None = None, **options: Any) -> list[str]:
        write(self.plan_file, json.dumps(self.plan))
        return build.build(
            names,
            build.BuildOptions(**options),
            system=system,
            root=self.top,
            environ=self.environ,
            echo=self.echoed.append,
        )

    def refusal(self, *names: str, **options: Any) -> str:
        """The sentence with which everything is refused."""
        with pytest.raises(BadInput) as refused:
            self.build(*names, **options)
        return one_sentence(str(refused.value))

    def journal(self) -> list[dict[str, Any]]:
        path = self.plan_file.with_name("journal")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def asked(self, stack: str = "openmpi") -> list[str]:
        return [row["command"] for row in self.journal() if row["stack"] == stack]

    def words(self, command: str) -> list[list[str]]:
        """With what it was asked for one of its commands, each time."""
        return [row["words"] for row in self.journal() if row["command"] == command]

    def stacks(self) -> list[Stack]:
        return metadata.discover(self.top, {})[0]

    def forget(self) -> None:
        self.plan_file.with_name("journal").unlink(missing_ok=True)

    def registered(self) -> list[str]:
        return sorted(path.parent.name for path in (self.top / "environments").glob("*/stack.json"))

    def fake_mpi(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leave out what needs a real MPI: that the library answers and programs start
        (test_spack_stacks.py has it).
        """

        def describe(lock: Any, *rest: Any) -> dict[str, Any]:
            return {
                **DOCUMENT,
                "name": description.name_of(lock),
                "origin": "spack",
                "prefix": str(self.top),
                "library": str(PROGRAM),
                "binaries": {"osu_latency": str(PROGRAM)},
                **{key: {} for key in ("commands", "suites", "env_vars", "prepend_path")},
                "build": {
                    "lock_hash": lock.suite.hash,
                    "lock_digest": lock.digest,
                    "facts": described(lock),
                },
            }

        monkeypatch.setattr(description, "describe", describe)
        monkeypatch.setattr(description, "contradict", lambda stack, record: "")
        monkeypatch.setattr(description, "check_external", lambda lock, prefix: None)


def one_sentence(text: str) -> str:
    assert "\n" not in text and text.endswith(".") and "Traceback" not in text, text
    return text


# ---- What Spack 1.1.0 prints when it cannot go on, as recorded; paths shortened.

NO_SUCH_VERSION = (
    "==> Error: Version requirement 9.9 on openmpi for openmpi cannot match any known version "
    "from package.py or externals\n"
)
NO_RECIPES = """\
fatal: unable to access 'https://github.com/spack/spack-packages.git/': Could not resolve host: github.com
==> Warning: Error constructing repository '/site/packages': Failed to clone repository builtin
==> Error: no compiler configured, and Spack cannot find working compilers in PATH
"""
LOCKED = """\
==> Error: Timed out waiting for a write lock after 120.277s.
    Made 281 attempts on file: /site/cache/providers/.builtin-specfile_v5-index.json.lock
"""
FULL = """\
==> Error: OSError: [Errno 28] No space left on device: 'build/IMB-NBC.built' -> '/site/store/imb/bin/IMB-NBC'
==> Error: Terminating after first install failure: OSError: [Errno 28] No space left on device: 'build/IMB-NBC.built' -> \
'/site/store/imb/bin/IMB-NBC'
"""
NOT_CACHED = """\
[+] /site/mpi/mpich (external mpich-4.0.2-bbdsplhsiooqaccxnj47woj3q7jtgulk)
==> Installing gcc-runtime-12.2.0-vxhc2ptvqrndb2groljvkrmn6ifsib4b [3/6]
==> Warning: Skipping build of intel-mpi-benchmarks since gcc-runtime failed
==> Error: Failed to install gcc-runtime due to InstallError: No binary found when cache-only was specified
==> Error: Terminating after first install failure: No binary found when cache-only was specified
"""
NO_SOURCE = """\
==> No binary for intel-mpi-benchmarks-2021.11-x52j5d3j3jalyj5cvpn4xufleyv3llfk found: installing from source
==> Installing intel-mpi-benchmarks-2021.11-x52j5d3j3jalyj5cvpn4xufleyv3llfk [7/8]
==> Error: FetchError: All fetchers failed for spack-stage-intel-mpi-benchmarks-2021.11-x52j5d3j3jalyj5cvpn4xufleyv3llfk
        https://github.com/intel/mpi-benchmarks/archive/refs/tags/IMB-v2021.11.tar.gz: DetailedURLError: GET \
https://github.com/intel/mpi-benchmarks/archive/refs/tags/IMB-v2021.11.tar.gz errored with: [Errno -2] Name or service not known
==> Error: Terminating after first install failure: FetchError: All fetchers failed for \
spack-stage-intel-mpi-benchmarks-2021.11-x52j5d3j3jalyj5cvpn4xufleyv3llfk
"""
BUILD_FAILED = """\
==> Error: ProcessError: Command exited with status 2:
    '/usr/bin/make' '-C' '/nowhere'

1 error found in build log:
     1    ==> badpkg: Executing phase: 'install'
     2    ==> [2026-11-21-15:36:40.735670] '/usr/bin/make' '-C' '/nowhere'
  >> 3    make: *** /nowhere: No such file or directory.  Stop.

See build log for details:
  /site/stage/spack-stage-badpkg-1/spack-build-out.txt
"""
TEST_FAILED = """\
==> Spack test ycigrz4mmgmu4zl46eiokemh2tpqrm2t
==> Testing package intel-mpi-benchmarks-2021.11-w3s3n42
==> Error: TestFailure: 1 test failed.


#----------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.11, MPI-IO part
#----------------------------------------------------------------
# #processes = 1

See test log for details:
  /site/test/intel-mpi-benchmarks-2021.11-w3s3n42-test-out.txt

============================== 1 failed of 1 spec ==============================

See osu-micro-benchmarks-7.5-bcwyxao test results at:
  /site/test/osu-micro-benchmarks-7.5-bcwyxao-test-out.txt
==> Error: 1 test(s) in the suite failed.
"""
CONFLICT = """\
==> Error: failed to concretize `mpibench-suite ^mpi=openmpi` for the following reasons:
     1. openmpi: 'amdgpu_target=none' conflicts with '+rocm'
     2. openmpi: 'amdgpu_target=none' conflicts with '+rocm'
        required because conflict constraint +rocm
          required because mpibench-suite ^mpi=openmpi requested explicitly
"""


# ---- Copies of the project for a real Spack, whose environments are built apart from the user's
# own.

#: In front of the site's own settings: the network libraries of a distribution in place of the
#: pinned ones. The benchmarks are those that the environments pin.
SCOPE = {
    "packages": {
        "ucx": {"require:": ["@1.13:"]},
        "libfabric": {"require:": ["@1.17:"]},
        "hwloc": {"require:": ["@2.9:"]},
        # Without InfiniBand: MVAPICH2 over TCP and shared memory.
        "mvapich2": {"require": ["fabrics=nemesis process_managers=hydra"]},
    }
}

#: MPIs that the site need not have, and what MVAPICH and MVAPICH2
#: are built with where it has none of it.
KEPT = shlex.split(
    "bison gmake intel-oneapi-mpi libfabric libiconv libpciaccess libxml2 numactl pkgconf ucx "
    "util-macros xz zlib zlib-ng"
)


def left_out(
    spack: Spack, words: Sequence[str], specs: Iterable[str], kept: Iterable[str]
) -> dict[str, Any]:
    """Packages that are not to be built, for a scope: all that the specs
    reach and no solution needs (:mod:`spack_reach`).

    :param words: words before Spack's command, which say what its configuration is.
    :param kept: what may be built beside this project's packages.
    """
    with tempfile.TemporaryDirectory() as made:
        asked = Path(made, "asked.json")
        answer = Path(made, "answer.json")
        asked.write_text(json.dumps({"specs": [*specs], "kept": [*kept]}))
        ask(spack, *words, "python", SUPPORT / "spack_reach.py", asked, answer)
        return {name: {"buildable": False} for name in json.loads(answer.read_text())}


def find_spack() -> Spack:
    """The machine's Spack; the test is skipped where there is none. One
    that is there and does not answer fails the test.
    """
    if not os.environ.get("SPACK_ROOT") and not shutil.which("spack"):
        pytest.skip(
            "[spack] Spack is neither in SPACK_ROOT nor on PATH ('mpibench stacks build' says "
            "how to get it)"
        )
    return locate_spack()


def ask(
    spack: Spack,
    *words: str | Path,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """What Spack prints of a command that must succeed."""
    done = subprocess.run(
        [spack.program, "--color=never", *words],
        env={**spack.environ, **(environ or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def build_in(
    top: Path, *names: str, environ: Mapping[str, str] | None = None, **options: Any
) -> list[str]:
    """``mpibench stacks build`` in a copy of the project; the sentences with which stacks failed."""
    inside = {key: value for key, value in os.environ.items() if key != build.SCOPE}
    return build.build(
        names,
        build.BuildOptions(**options),
        system="generic",
        root=top,
        environ={**inside, **(environ or {})},
        echo=print,
    )


def externals_of(top: Path, spack: Spack, name: str) -> list[dict[str, Any]]:
    """What the site of a copy has of a package."""
    project = build.Project(top, spack, None, lambda line: None)
    text = project.run("openmpi", "reading its configuration", "config", "get", "packages")
    known = yaml.safe_load(text[text.index("packages:") :])["packages"]
    found: list[dict[str, Any]] = known.get(name, {}).get("externals") or []
    return found


def stand_ins(name: str) -> dict[str, Any]:
    """Packages of a table of ``data/spack_stand_ins.yaml``."""
    return externals(yaml.safe_load((DATA / "spack_stand_ins.yaml").read_text())[name])


def externals(versions: Mapping[str, str]) -> dict[str, Any]:
    """Packages that a site has, for solutions of which nothing is built."""
    return {
        name: {
            "externals:": [{"spec": f"{name}@{version}", "prefix": f"/stand-in/{name}"}],
            "buildable": False,
        }
        for name, version in versions.items()
    }


def solve(
    spack: Spack,
    folder: Path,
    packages: dict[str, Any],
    rows: Mapping[str, Sequence[str]],
    kept: Iterable[str] = (),
    scopes: Sequence[Path] = (),
) -> dict[str, Any]:
    """What comes of specs, by label, in one start of Spack (:mod:`spack_solver`), with our own
    repository and with nothing built that the specs do not need.

    :param packages: what the site has, which ``folder`` takes.
    :param rows: a spec and folders of configuration of its own.
    :param kept: as in :func:`left_out`; ``scopes``: folders below that of the site.
    """
    written = {
        "repos": {"mpibench": str(REPO)},
        "config": {"deprecated": True},
        "concretizer": {
            "reuse": False,
            "static_analysis": True,
            "concretization_cache": {"enable": False},
        },
        "packages": packages,
    }
    for section, content in written.items():
        write(folder / f"{section}.yaml", overriding({section: content}))
    words = [word for scope in (*scopes, folder) for word in ("-C", str(scope))]
    reached = left_out(spack, words, [row[0] for row in rows.values()], kept)
    write(folder / "packages.yaml", overriding({"packages": {**packages, **reached}}))
    asked = write(folder / "asked.json", json.dumps(rows))
    answer = folder / "answer.json"
    ask(spack, *words, "python", SUPPORT / "spack_solver.py", asked, answer)
    outcomes: dict[str, Any] = json.loads(answer.read_text())
    return outcomes


def overriding(scope: dict[str, Any]) -> str:
    """A Spack file; a key that ends with a colon replaces what
    scopes below it say (``require::``).
    """
    return re.sub(r"'(\w+:)':", r"\1:", yaml.safe_dump(scope))


def copy_environments(root: Path, top: Path) -> None:
    """The environments as committed, with the settings they share."""
    shared = [path.name for path in sorted((root / "environments").glob("common*"))]
    for name in (*build.list_environments(root), *shared):
        folder = top / "environments" / name
        folder.mkdir(parents=True)
        for path in (root / "environments" / name).glob("*.yaml"):
            shutil.copy(path, folder)


def copy_project(root: Path, top: Path, scope: dict[str, str]) -> Path:
    """What building and measuring needs, with files of the site's configuration scope, by name."""
    copy_environments(root, top)
    copy_checkout(top, ())
    (top / "repo").symlink_to(root / "repo")
    # As in a checkout: what checks data and pinning is mpi4py, which
    # stacks of other origins have from the wheels.
    (top / "environments" / "wheels").symlink_to(root / "environments" / "wheels")
    for name, text in scope.items():
        write(find_scope(top) / name, text)
    return top


def find_scope(top: Path) -> Path:
    """Where a copy has its site's scope."""
    return top / "site_configs" / "generic" / "spack"


#: What :func:`left_out` has found, by Spack's program.
LEAN: dict[str, dict[str, Any]] = {}


def copy_lean_project(spack: Spack, root: Path, top: Path, scope: dict[str, str]) -> Path:
    """As :func:`copy_project` with :data:`SCOPE`, whose solutions consider only what they need."""
    place = copy_project(root, top, {"packages.yaml": overriding(SCOPE), **scope})
    if spack.program not in LEAN:
        inside = replace(spack, environ={**spack.environ, build.SCOPE: str(find_scope(place))})
        specs = [f"mpibench-suite ^{name}" for name in list_by_default(root)]
        LEAN[spack.program] = left_out(
            inside, ("-e", str(place / "environments" / "openmpi")), specs, KEPT
        )
    packages = {**LEAN[spack.program], **SCOPE["packages"]}
    (find_scope(place) / "packages.yaml").write_text(overriding({"packages": packages}))
    return place


# ---- Imports the project's Spack recipes without Spack: directives are recorded, nothing else of
# Spack is there.

#: What a class body declares with.
DIRECTIVES = shlex.split(
    "conflicts depends_on extends license maintainers patch provides requires variant version"
)


#: What mixins for GPUs list.
GPUS = {"cuda_arch_values": ("80", "90"), "amdgpu_targets": ("gfx90a",)}


@dataclass
class Recipe:
    """A recipe as its directives tell it."""

    folder: Path
    module: types.ModuleType
    directives: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = field(
        default_factory=dict
    )

    @property
    def name(self) -> str:
        """As users write it."""
        return self.folder.name.replace("_", "-")

    @property
    def package(self) -> type:
        """The class Spack looks for: the name in camel case."""
        return getattr(
            self.module, "".join(part.capitalize() for part in self.folder.name.split("_"))
        )

    def of(self, directive: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Arguments of each use of a directive, in order."""
        return self.directives.get(directive, [])


class Anything:
    """Stands for every function and value of Spack that is not a
    directive; using it while importing gives it again.
    """

    def __call__(self, *words: Any, **named: Any) -> Any:
        # Used as a decorator, `run_after("install")` must leave the method as it is.
        return (
            words[0]
            if len(words) == 1 and not named and isinstance(words[0], types.FunctionType)
            else self
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


@contextmanager
def _without_spack(repo: Path, recorded: dict[str, list[Any]]) -> Iterator[None]:
    """``spack.package``, ``spack_repo.builtin...`` and ``spack_repo.mpibench...`` can be imported
    inside: of the builtin repository each name is a class that knows some GPUs and nothing else.
    """

    class Finder:
        def find_spec(self, name: str, *where: object) -> Any:
            if name.startswith("spack_repo.mpibench."):
                return importlib.util.spec_from_file_location(
                    name, repo / f"{name.rsplit('.', 1)[1]}.py"
                )
            if name.partition(".")[0] in ("spack", "spack_repo"):
                loader: Any = self
                return importlib.util.spec_from_loader(name, loader, is_package=True)
            return None

        def create_module(self, spec: Any) -> None:
            return None

        def exec_module(self, module: types.ModuleType) -> None:
            def value(name: str) -> Any:
                if name in DIRECTIVES:
                    uses = recorded.setdefault(name, [])
                    return lambda *words, **named: uses.append((words, named))
                return Anything()

            def mixin(name: str) -> type:
                return type(name, (), dict(GPUS))

            package = module.__name__ == "spack.package"
            module.__getattr__ = value if package else mixin  # type: ignore[method-assign]

    finder: Any = Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] in ("spack", "spack_repo")]:
            del sys.modules[name]


def read(folder: Path) -> Recipe:
    """Import ``folder/package.py`` of the repository two levels up."""
    recorded: dict[str, list[Any]] = {}
    with _without_spack(folder.parents[1], recorded):
        spec = importlib.util.spec_from_file_location(
            f"recipe_{folder.name}", folder / "package.py"
        )
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return Recipe(folder, module, recorded)


REPO = metadata.ROOT / "repo" / "spack_repo" / "mpibench"
FOLDERS = sorted(path.parent for path in REPO.glob("packages/*/package.py"))
#: The project's recipes by name.
RECIPES = {recipe.name: recipe for recipe in map(read, FOLDERS)}
