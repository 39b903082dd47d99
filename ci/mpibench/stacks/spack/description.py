"""Describes a Spack-built stack for its ``stack.json``, from the lock file, the installed files and
the MPI library itself.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.model import Mpi, SpackPackage
from reframe_tests.harness.printable import clause
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import BadInput

from .. import logged, probe, system
from .lock import ASKED, BENCHMARKS, Lock, LockedSpec, described

ORIGIN = "spack"
#: What to do about an MPI of the site's own that is another than its entry says.
LINKS = (
    "correct its prefix, or the version in its spec, in the site's packages.yaml; where two "
    "MPIs share one prefix, each needs a folder of links to its programs (bin/mpicc, "
    "bin/mpirun, ...)"
)
#: Packages with compilers that an ``mpicc`` may call by name alone.
COMPILERS = ("gcc", "llvm", "intel-oneapi-compilers", "nvhpc", "aocc")
#: How long an empty program may take to compile.
COMPILE_S = 120
#: Packages with benchmark programs.
PACKAGES = {package.name: package for suite in catalogue.SUITES.values() for package in suite.spack}


def stack_name(environment: str) -> str:
    """Name of the stack of an environment; the environments' names distinguish several stacks of
    one MPI.
    """
    return f"{environment}-{ORIGIN}"


def name_of(lock: Lock) -> str:
    """Name of the stack that a lock file is of."""
    _provider(lock)
    return stack_name(lock.path.parent.name)


def providers() -> dict[str, tuple[Mpi, SpackPackage]]:
    """Package that provides MPI to the library behind it and how that one appears as a package."""
    return {
        package.name: (mpi, package) for mpi in registry.known().values() for package in mpi.spack
    }


def _provider(lock: Lock) -> tuple[Mpi, SpackPackage]:
    known = providers()
    if lock.mpi.name not in known:
        raise BadInput(
            "unknown-name",
            f"{lock.path}: MPI {lock.mpi} is unknown ({', '.join(known)}); {registry.remedy()}.",
        )
    return known[lock.mpi.name]


def find_programs(package: str, prefix: Path) -> dict[str, str]:
    """Benchmark programs of an installed package: name to absolute path."""
    folder = PACKAGES[package].folder
    pattern = PACKAGES[package].glob
    found: dict[str, str] = {}
    for path in sorted((prefix / folder).rglob(pattern)):
        if not path.is_file() or not os.access(path, os.X_OK):
            continue
        if path.name in found:
            raise BadInput(
                "ambiguous-name",
                f"{package} has two programs {path.name} ({found[path.name]} and {path}); remove "
                "one of them.",
            )
        found[path.name] = str(path)
    if not found:
        raise BadInput(
            "tool-missing",
            f"{package} is installed but has no {pattern} below {prefix / folder}; install it "
            "again.",
        )
    return found


def find_library(program: str, environ: Mapping[str, str]) -> Path:
    """The libmpi a program gets from the loader."""
    needs = probe.list_needs(Path(program), environ)[0]
    for name, path in needs.items():
        if path and probe.is_library_name(name):
            return Path(path)
    missing = next((name for name, path in needs.items() if not path), "any libmpi")
    raise BadInput(
        "tool-missing",
        f"{program} cannot run without {missing}; correct its MPI's prefix in packages.yaml, or "
        "install it again.",
    )


def contradict(stack: Stack, record: Callable[[str], object]) -> str:
    """Start two ranks of the library and programs of each suite
    (:attr:`model.Programs.sample`, or all of them).

    :returns: the first contradiction as a sentence, else empty.
    """
    clean = probe.clean_environment()
    if fault := probe.find_launch_fault(stack, record, clean) or probe.find_mpi4py_fault(
        stack, record, clean
    ):
        return fault
    samples = {
        name: probe.SUITES[suite].sample
        for name in stack.binaries
        if (suite := probe.suite_of(name))
    }
    tried = {
        name: Path(stack.binaries[name])
        for name, sample in samples.items()
        if sample is None or name in sample
    }
    found = probe.prove(tried, stack, clean, record)
    for program, reason in found.left_out.items():
        return f"{program} of {stack.name}: {reason}."
    for suite, version in found.suites.items():
        wanted = stack.suites[suite]["version"]
        programs = probe.SUITES[suite]
        if version != programs.unsaid and not _same_version(wanted, version):
            return (
                f"{suite} of {stack.name} says it is {version}, but was built as {wanted}; install "
                "it again."
            )
        if (says := found.gpus.get(suite, "")) != (kind := stack.suites[suite].get("gpu", "")):
            what = (
                f"{suite} of {stack.name} says it is built for memory of {says or 'no GPUs'}, "
                "and its lock file for"
            )
            return f"{what} {kind or 'none'}; install it again."
    return ""


def _homes(lock: Lock, prefix: Path) -> list[Path]:
    version = lock.mpi.version
    short = ".".join(version.split(".")[:2])
    return [prefix / home.format(version=version, short=short) for home in _provider(lock)[1].homes]


def _launchers(lock: Lock, home: Path) -> list[Path]:
    """Those that are there; a machine's own counts only for an MPI that
    has its compiler where its home is said to be.
    """
    found = [(name, home / name) for name in _provider(lock)[1].launchers]
    whole = os.access(home / "bin" / "mpicc", os.X_OK)
    return [
        path
        for name, path in found
        if os.access(path, os.X_OK) and (whole or not name.startswith("/"))
    ]


def find_home(lock: Lock, prefix: Path) -> Path:
    """The folder below an MPI's prefix that has its ``bin``."""
    homes = _homes(lock, prefix)
    launchers = _provider(lock)[1].launchers
    if home := next((path for path in homes if _launchers(lock, path)), None):
        return home
    own = [name for name in launchers if not name.startswith("/")]
    if len(own) < len(launchers) and any((path / "bin" / "mpicc").exists() for path in homes):
        raise BadInput(
            "nothing-measured",
            f"{lock.mpi} at {prefix} has no known launcher ({', '.join(launchers)}); build its "
            "benchmarks and register them with the machine's launcher: 'mpibench stacks add "
            "--mpirun'.",
        )
    remedy = (
        "correct its prefix in the site's packages.yaml"
        if lock.mpi.external
        else "install it again"
    )
    raise BadInput(
        "stack-unusable",
        f"{lock.mpi} has no {own[0] if own else 'bin/mpicc'} below {prefix}; {remedy}.",
    )


def find_launcher(lock: Lock, home: Path) -> Path:
    """The program that starts an MPI's ranks; ``home`` as of :func:`find_home`."""
    return _launchers(lock, home)[0]


def _environment(lock: Lock, home: Path) -> tuple[dict[str, str], list[str]]:
    """What an MPI needs in the environment to work where it is, and on the library search path."""
    package = _provider(lock)[1]
    variables = {name: value.replace("{prefix}", str(home)) for name, value in package.env.items()}
    return variables, [
        str(home / folder) for folder in package.libraries if (home / folder).is_dir()
    ]


def check_mpi(lock: Lock, home: Path, program: str, remedy: str = "") -> probe.Installation:
    """The MPI a compiled program loads, once it is known to be the one the lock names."""
    variables, libraries = _environment(lock, home)
    clean = {
        **probe.clean_environment(),
        **variables,
        **({"LD_LIBRARY_PATH": ":".join(libraries)} if libraries else {}),
    }
    library = find_library(program, clean)
    try:
        installed = probe.examine(str(find_launcher(lock, home)), library, clean)
    except BadInput as error:
        if not remedy:
            raise
        raise BadInput(
            "stack-unusable", f"{lock.mpi} at {home}: {clause(error)}; {remedy}."
        ) from error
    _agree(lock, installed, remedy)
    return installed


def check_external(lock: Lock, prefix: Path) -> None:
    """See that an MPI of the site's own is what its entry says, before anything is compiled for it.

    Its ``mpicc`` compiles an empty program, as it will compile the benchmarks: below a prefix that
    two MPIs share (Debian's /usr) it is often the other's.
    """
    home = find_home(lock, prefix)
    compiler = home / "bin" / "mpicc"
    clean = {**probe.clean_environment(), **_environment(lock, home)[0]}
    compilers = [
        node.external for node in lock.nodes.values() if node.external and node.name in COMPILERS
    ]
    clean["PATH"] = ":".join(
        [str(home / "bin"), *(f"{prefix}/bin" for prefix in compilers), clean["PATH"]]
    )
    with tempfile.TemporaryDirectory(prefix="mpibench-mpicc-") as folder:
        source = Path(folder) / "probe.c"
        program = Path(folder) / "probe"
        source.write_text("#include <mpi.h>\nint main(void) { return MPI_Finalize(); }\n")
        try:
            done = logged.ask([compiler, "-o", program, source], clean, COMPILE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadInput(
                "build-failed", f"{lock.mpi}: {compiler} cannot be run ({error}); {LINKS}."
            ) from error
        if not done.returncode:
            check_mpi(lock, home, str(program), LINKS)
            return
    # Its compiler may need what only Spack's build gives it, and that
    # build shows; its launcher has a library, too.
    try:
        installed = probe.examine(str(find_launcher(lock, home)), None, clean)
    except BadInput:
        return
    _agree(lock, installed, LINKS)


def describe(
    lock: Lock, prefixes: Mapping[str, Path], path: Path, root: Path, say: Callable[[str], object]
) -> dict[str, Any]:
    """The content of ``stack.json``.

    :param prefixes: hash of each package to where it is installed.
    :param path: where it will be; links to the MPI's library are laid beside it.
    """
    mpi = lock.mpi
    home = find_home(lock, prefixes[mpi.hash])
    variables, libraries = _environment(lock, home)
    binaries: dict[str, str] = {}
    for node in lock.benchmarks:
        binaries |= find_programs(node.name, prefixes[node.hash])
    of_mpi = [program for name, program in binaries.items() if not name.startswith("ib_")]
    if not of_mpi:
        raise BadInput(
            "configuration-unusable",
            f"{lock.path} has none of {', '.join(BENCHMARKS)}; correct the spack.yaml beside it.",
        )
    installed = check_mpi(lock, home, of_mpi[0])
    paths = {"LD_LIBRARY_PATH": libraries} if libraries else {}
    document = system.compose(name_of(lock), installed, variables, paths, system.find_mpi4py(root))
    launcher = find_launcher(lock, home).parent
    document |= {
        "origin": ORIGIN,
        "prefix": str(home),
        "binaries": binaries,
        "suites": {
            **document["suites"],
            **{BENCHMARKS[node.name]: _suite(lock, node) for node in lock.benchmarks},
        },
        "prepend_path": {
            **document["prepend_path"],
            "PATH": [str(folder) for folder in dict.fromkeys((launcher, home / "bin"))],
        },
        "build": {
            **document["build"],
            "lock_hash": lock.suite.hash,
            "lock_digest": lock.digest,
            "compiler": ", ".join(lock.compiler_names(*lock.benchmarks)),
            "facts": described(lock),
            "spec": f"{lock.suite} ^{mpi} {mpi.options} target={lock.suite.target}",
        },
    }
    clean = {**probe.clean_environment(), **variables}
    on_gpu = [
        program
        for program in of_mpi
        if document["suites"].get(probe.suite_of(Path(program).name), {}).get("gpu")
    ]
    if gpu := _gpu(lock, installed, probe.find_gpu(installed, clean, on_gpu[:1])):
        document["gpu"] = gpu
    system.link(document, {name: Path(program) for name, program in binaries.items()}, path, clean)
    system.try_mpi4py(document, path, clean, say)
    return document


def _suite(lock: Lock, node: LockedSpec) -> dict[str, str]:
    """What a suite is and how it was built, for whoever compares
    its numbers with another build's.
    """
    compilers = ", ".join(lock.compiler_names(node))
    flags = " ".join(f'{name}="{words}"' for name, words in sorted(node.flags.items()))
    how = [
        f"{compilers or 'no compiler'} for {node.target},",
        flags and f"{flags},",
        f"on {lock.mpi} by Spack",
    ]
    built = {
        "version": node.version,
        "built_with": " ".join(filter(None, how)),
        "target": node.target,
        "flags": flags,
    }
    built |= {"compiler": compilers} if compilers else {}
    # of other suites no program for GPU memory is started
    programs = probe.SUITES.get(BENCHMARKS[node.name])
    kind = PACKAGES[node.name].gpu or node.device
    return {**built, **({"gpu": kind} if programs and kind in programs.gpu else {})}


def _gpu(lock: Lock, installed: probe.Installation, says: str) -> str:
    """Platform of GPUs whose memory the MPI takes: of an external what
    it says itself, else what it was built for.

    :param says: as of :func:`probe.find_gpu`.
    """
    banner = registry.find(installed.identity.mpi).banner
    if lock.mpi.external or not (banner and banner.gpu):
        return says or ("" if lock.mpi.external else lock.mpi.device)
    if says != lock.mpi.device:
        what = f"{installed.library} says it takes memory of {says or 'no GPUs'}"
        raise BadInput(
            "changed-since",
            f"{what}, and the lock file builds it for {lock.mpi.device or 'none'}; install it "
            "again.",
        )
    return says


def _agree(lock: Lock, installed: probe.Installation, remedy: str = "") -> None:
    """Refuse an MPI that is not the one the lock names: an external that
    has been updated since it was written down.
    """
    (mpi, package), found = _provider(lock), installed.identity
    if found.mpi != mpi.name or not (
        package.bundle or _same_version(lock.mpi.version, found.version)
    ):
        remedy = remedy or (
            "correct its spec in the site's packages.yaml"
            if lock.mpi.external
            else "install it again"
        )
        raise BadInput(
            "changed-since",
            f"{installed.library} is {found.mpi} {found.version} and not {lock.mpi}; {remedy}.",
        )
    # Spack takes an external for whatever its entry leaves open, and the
    # lock would say what the library is not.
    device, _, netmods = found.device.partition(":")
    for name, built in zip(ASKED, ([device], netmods.split(",")), strict=True):
        said = lock.mpi.variants.get(name, "").partition("=")[2]
        if lock.mpi.external and said and any(built) and said not in built:
            raise BadInput(
                "changed-since",
                f"{installed.library} is built with {name}={built[0]} and not with "
                f"{name}={said}; write {name}={built[0]} into its spec in the site's "
                "packages.yaml.",
            )
    own = lock.mpi.external or str(installed.library.resolve()).startswith(
        str(Path(installed.prefix).resolve())
    )
    if not own:
        raise BadInput(
            "changed-since",
            f"benchmarks built for {lock.mpi} load {installed.library}, which is another MPI's; "
            "install them again.",
        )


def _same_version(package: str, library: str) -> bool:
    """``2.3.7-1`` is the release 2.3.7, ``2021.18.1`` calls itself 2021.18."""
    left, right = (version.split("-")[0].split(".") for version in (package, library))
    shorter = min(len(left), len(right))
    return shorter > 1 and left[:shorter] == right[:shorter]
