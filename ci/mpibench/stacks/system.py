"""Stacks of origin ``system``: an MPI from the distribution or from modules, registered once it has
proven to work.

``environments/system/<name>/`` has the metadata, suites that were built for it and, if binaries
need a library under another name, a ``lib`` folder of links. The MPI itself is not touched.
"""

from __future__ import annotations

import fcntl
import platform
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from reframe_tests.harness.machine.gpu import KINDS
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.modules import Module
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites.mpi4py import NAME as INSTRUMENT_SUITE
from reframe_tests.harness.suites.mpi4py import PROGRAM as INSTRUMENT
from reframe_tests.harness.vocabulary import BadInput, meant

from ..only_one import only_one
from . import compilation, modules, probe, suite_builds, writer
from .logged import Echo

ORIGIN = "system"
#: Folder of links, inside the stack's own.
LINKS = "lib"
#: Where suites are built, and the logs of that.
BUILDS = Path("results", "builds")
#: File in the folder of a stack that is being registered; with it
#: the folder of a killed command is known.
UNFINISHED = ".unfinished"


def add(
    mpirun: str = "",
    *,
    name: str = "",
    library: Path | None = None,
    binaries: Sequence[Path] = (),
    builds: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    prepend_path: Mapping[str, Sequence[str]] | None = None,
    entered: Sequence[Module] = (),
    modules_system: str = "",
    into: Path | None = None,
    gpu: str = "",
    root: Path = metadata.ROOT,
    say: Echo = print,
) -> Stack:
    """Examine an installed MPI and register it; on any error nothing is left behind.

    :param binaries: folders with IMB, OSU or other benchmark binaries for
        its ABI, beside what its own folder has.
    :param builds: suites to build for it, ``SUITE=SOURCE``
        (:func:`suite_builds.find`); they take the place of programs found.
    :param entered: environment modules that jobs load; programs in the
        folders they put on PATH are tried, too.
    :param gpu: platform of GPUs whose memory the MPI sends, where it does
        not say so itself; OSU is then built for it.
    :param into: folder for the metadata, instead of
        ``environments/system/<name>``; it must not exist or be empty.
    """
    if name:
        writer.check_word(name)
    if gpu not in ("", *KINDS):
        raise BadInput("unknown-name", f"--gpu {gpu} is not a known platform: {', '.join(KINDS)}.")
    clean = probe.clean_environment()
    paths = {key: list(folders) for key, folders in (prepend_path or {}).items()}
    brought = modules.load(entered, modules_system) if entered else modules.Brought()
    outside = {**brought.record.change(clean), **(env or {})}
    for key, folders in paths.items():
        outside[key] = ":".join([*folders, *filter(None, [outside.get(key, "")])])
    if entered:  # the MPI that they bring, which programs must find by themselves then
        if mpirun and "/" not in mpirun:
            mpirun = shutil.which(mpirun, path=outside["PATH"]) or mpirun
        mpi = probe.examine(mpirun or modules.find_launcher(brought, entered), library, outside)
        mpi = replace(mpi, found_by_loader=modules.expect_one_mpi(mpi.library, entered, outside))
    else:
        mpi = probe.examine(mpirun, library, outside)
    title = name or f"{mpi.identity.mpi}-{ORIGIN}"
    into = into.resolve() if into else None
    folder = into or root / "environments" / ORIGIN / title
    path = folder / writer.METADATA
    expect_free(title, path, root)
    tarballs = {}
    for tarball in [suite_builds.find(word, say=say) for word in builds]:
        if tarball.suite in tarballs:
            raise BadInput(
                "name-taken",
                f"--build {tarball.suite}=... is given twice, but a stack has each suite once; "
                "register the other one under another --name.",
            )
        tarballs[tarball.suite] = tarball
    programs = {
        **probe.search(brought.path, needed=False),
        **probe.find_beside(mpi.mpirun, mpi.identity.abi, outside),
        **probe.search(binaries),
    }
    document = compose(title, mpi, env or {}, paths, find_mpi4py(root), brought.folders)
    if entered:
        document["modules"] = [module.written() for module in entered]
        document["build"]["modules"] = brought.record.as_dict()
    metadata.parse(document, path)  # a bad name or variable is said before anything is made
    say(
        f"{mpi.mpirun}: {mpi.identity.mpi} {mpi.identity.version}, launcher {mpi.family}, "
        f"library {mpi.library}"
    )
    for variable in brought.left_out:
        say(
            f"{variable} is not compared later: its value differs by user, or each time the "
            "modules are loaded."
        )
    # Two of one name would each take away what the other makes.
    with only_one(
        root / BUILDS, "mpibench stacks add", f".{title}.lock", f"on stack '{title}'"
    ) as lock:
        expect_free(title, path, root)
        begun = folder / UNFINISHED
        if (
            into
            and into.exists()
            and (not into.is_dir() or (any(into.iterdir()) and not begun.is_file()))
        ):
            raise BadInput(
                "name-taken",
                f"{into} exists and is not empty: --into is the folder of one stack, e.g. "
                f"{into / title}; {metadata.EXTRA_STACKS}={into} finds all that lie in it.",
            )
        mark = _make_folder(folder, tarballs)
        try:
            built: dict[str, suite_builds.Built] = {}
            if tarballs:
                inside = {**outside, **metadata.enter(metadata.parse(document, path), clean)}
                inside["PATH"] = f"{mpi.mpirun.parent}:{inside['PATH']}"
                compilers = suite_builds.find_compilers(mpi.mpirun, mpi.prefix, inside)
                for suite, tarball in tarballs.items():
                    work = root / BUILDS / f"{title}-{suite}"
                    built[suite] = suite_builds.build(
                        tarball,
                        compilers,
                        folder,
                        work,
                        say,
                        lock,
                        gpu,
                        writer.digest_of(mpi.library),
                    )
            programs = {
                name: file for name, file in programs.items() if probe.suite_of(name) not in built
            }
            programs |= probe.search(suite.prefix for suite in built.values())
            link(document, programs, path, clean)
            found = probe.prove(
                programs, metadata.parse(document, path), clean, needed=bool(binaries or built)
            )
            for program, reason in found.left_out.items():
                if probe.suite_of(program) in built:
                    raise BadInput(
                        "stack-unusable",
                        f"{programs[program]} was built but does not run: {reason}.",
                    )
                say(f"{program} is left out: {reason}.")
            try_mpi4py(document, path, clean, say)
            _complete(document, found, root, {suite: build.facts for suite, build in built.items()})
            on_gpu = [
                path
                for program, path in found.binaries.items()
                if probe.suite_of(program) in found.gpus
            ]
            said = probe.find_gpu(mpi, outside, on_gpu[:1])
            if gpu and said and gpu != said:
                raise BadInput(
                    "system-description",
                    f"{mpi.library} was built for {said}, and --gpu is {gpu}; leave it out.",
                )
            if gpu or said:
                document["gpu"] = gpu or said
            # Its programs have just been started one by one.
            stack = writer.register(
                document,
                path,
                root=root,
                contradict=lambda each, _: probe.find_launch_fault(each, environ=clean),
            )
            begun.unlink()
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            mark.close()
    runs = [name for name in (*stack.binaries, *stack.commands) if name != "mpirun"]
    say(f"{title}: {compilation.sentence(stack)}")
    say(f"{title}: registered in {path}; it runs {', '.join(runs) or 'nothing yet'}")
    if stack.gpu or found.gpus:
        measures = (
            ", ".join(f"{suite} for {kind}" for suite, kind in found.gpus.items()) or "no suite"
        )
        say(
            f"{title}: memory of GPUs: its MPI sends {stack.gpu or 'none of them'}; built are "
            f"{measures}."
        )
    return stack


def expect_free(title: str, path: Path, root: Path) -> None:
    """Make sure that nothing has the name yet; ``path`` is the
    metadata file that is to be written.
    """
    if path.exists():
        remedy = (
            f"'mpibench stacks remove {title}' first" if path.is_relative_to(root) else "remove it"
        )
        raise BadInput(
            "name-taken", f"{path} already describes a stack '{title}'; {remedy}, or give a --name."
        )
    writer.check_name(title, path, root)


def _make_folder(folder: Path, suites: Collection[str]) -> IO[str]:
    """Make a stack's folder, with a file in it that says until the end
    that it is not whole, and is locked as long.

    What a killed command left is removed, but for those of these suites that it had built to their
    end; what another one works on, of this checkout or not, is not touched.
    """
    mark = folder / UNFINISHED
    try:
        if mark.is_file():
            made = mark.open("a")
            fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in folder.iterdir():
                if path.is_symlink() or not path.is_dir():
                    if path != mark:
                        path.unlink()
                elif path.name not in suites or not (path / suite_builds.WHOLE).is_file():
                    shutil.rmtree(path)
            return made
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        folder.mkdir(parents=True)
        made = mark.open("x")
        fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadInput(
            "busy", f"another 'mpibench stacks add' is running in {folder}: wait for it, or end it."
        ) from None
    except OSError as error:
        raise BadInput(
            "cannot-write",
            f"{folder} cannot be created ({error.strerror}); correct that, or name another with "
            "--into.",
        ) from None
    return made


def link(
    document: dict[str, Any], programs: Mapping[str, Path], path: Path, environ: Mapping[str, str]
) -> None:
    """Give a stack its own libmpi under each name that its programs and its mpi4py ask for.

    :param document: content of its ``stack.json``, which gets their
        folder on the library search path.
    :param path: that file; the folder is made beside it.
    """
    # mpi4py's extension modules for the MPI's ABI ask for libmpi by name, too.
    folders = [Path(folder) for folder in document["prepend_path"].get("PYTHONPATH", ())]
    clients = {
        file.name: file
        for folder in folders
        for file in folder.glob(f"mpi4py/MPI.{document['abi']}.*.so")
    }
    inside = metadata.enter(metadata.parse(document, path), environ)
    links = probe.plan_links(
        {**programs, **clients}, Path(document["library"]), document["abi"], inside
    )
    if links:
        folder = path.parent / LINKS
        folder.mkdir(parents=True, exist_ok=True)
        for soname, target in links.items():
            (folder / soname).unlink(missing_ok=True)
            (folder / soname).symlink_to(target)
        document["prepend_path"].setdefault("LD_LIBRARY_PATH", []).insert(0, str(folder))
        document["build"]["links"] = {soname: str(target) for soname, target in links.items()}


def try_mpi4py(document: dict[str, Any], path: Path, environ: Mapping[str, str], say: Echo) -> None:
    """Leave mpi4py out of a stack it does not start on, with a line that says why."""
    if fault := probe.find_mpi4py_fault(metadata.parse(document, path), environ=environ):
        say(f"mpi4py is left out: {fault}")
        del (
            document["commands"][INSTRUMENT],
            document["suites"][INSTRUMENT_SUITE],
            document["prepend_path"]["PYTHONPATH"],
        )
        del document["env_vars"]["MPI4PY_LIBMPI"], document["env_vars"]["MPI4PY_MPIABI"]


def find_mpi4py(root: Path) -> Stack | None:
    """A wheels stack whose mpi4py other stacks can run: its wheel holds both ABIs
    (``MPI.mpich*.so``, ``MPI.openmpi*.so``).
    """
    for stack in metadata.discover(root)[0]:
        if (
            stack.origin == "wheels"
            and INSTRUMENT in stack.commands
            and "PYTHONPATH" in stack.prepend_path
        ):
            return stack
    return None


def compose(
    name: str,
    mpi: probe.Installation,
    env: Mapping[str, str],
    prepend_path: Mapping[str, Sequence[str]],
    mpi4py: Stack | None,
    on_path: Collection[str] = (),
) -> dict[str, Any]:
    """The content of ``stack.json`` without benchmark binaries.

    Search paths name only what processes would not find anyway: /usr/bin first on PATH would hide
    other Pythons.
    """
    always = registry.find(mpi.identity.mpi).env
    needed = {key: value.replace("{prefix}", str(mpi.prefix)) for key, value in always.items()}
    paths = {key: list(folders) for key, folders in prepend_path.items()}
    if str(mpi.mpirun.parent) not in (*probe.SYSTEM_BIN, *on_path):
        paths.setdefault("PATH", []).insert(0, str(mpi.mpirun.parent))
    if not mpi.found_by_loader:
        paths.setdefault("LD_LIBRARY_PATH", []).insert(0, str(mpi.library.parent))
    document: dict[str, Any] = {
        "schema_version": 1,
        "name": name,
        "origin": ORIGIN,
        "mpi": {
            "name": mpi.identity.mpi,
            "version": mpi.identity.version,
            "device": mpi.identity.device,
        },
        "abi": mpi.identity.abi,
        "launcher_family": mpi.family,
        "prefix": str(mpi.prefix),
        "library": str(mpi.library),
        "library_version_pattern": mpi.identity.pattern,
        "binaries": {},
        "commands": {"mpirun": [str(mpi.mpirun)]},
        "suites": {},
        "env_vars": {**needed, **env},
        "prepend_path": paths,
        "build": {
            "lock_hash": "0" * 64,  # until all parts are known
            "machine": platform.machine(),
            "library_says": " ".join(mpi.answer.split())[:200],
        },
    }
    if mpi4py:
        document["commands"][INSTRUMENT] = list(mpi4py.commands[INSTRUMENT])
        document["suites"][INSTRUMENT_SUITE] = {
            "version": mpi4py.suites[INSTRUMENT_SUITE]["version"],
            "built_with": f"wheel for the {mpi.identity.abi} ABI, installed with {mpi4py.name}",
        }
        document["env_vars"] |= {
            "MPI4PY_LIBMPI": str(mpi.library),
            "MPI4PY_MPIABI": mpi.identity.abi,
        }
        paths.setdefault("PYTHONPATH", []).extend(mpi4py.prepend_path["PYTHONPATH"])
        document["build"]["python"] = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return document


def _complete(
    document: dict[str, Any],
    found: probe.Proven,
    root: Path,
    built: Mapping[str, Mapping[str, str]],
) -> None:
    """Add proven binaries, their suites and the hash over everything that was found."""
    document["binaries"] = dict(found.binaries)
    stacks = metadata.discover(root)[0]
    for suite, version in found.suites.items():
        first = Path(
            next(path for name, path in found.binaries.items() if probe.suite_of(name) == suite)
        )
        # Several stacks may run one binary; the one whose prefix it
        # lies in is the one it was built on.
        owners = (
            stack
            for stack in stacks
            if str(first) in stack.binaries.values() and first.is_relative_to(stack.prefix)
        )
        if owner := next(owners, None):
            built_with = (
                f"{owner.mpi} {owner.mpi_version} ({owner.name}), run through the common "
                f"{owner.abi} ABI"
            )
        else:  # what the binary says of its own making: the compilers' ``.comment`` section
            compilers = re.findall(
                rb"(?:GCC: |clang version |Intel\(R\) oneAPI )[^\0\n]{1,80}", first.read_bytes()
            )
            compiler = (
                compilers[-1].decode(errors="replace") if compilers else "an unknown compiler"
            )
            built_with = f"{compiler}; found in {first.parent}"
        kind = {"gpu": found.gpus[suite]} if suite in found.gpus else {}
        document["suites"][suite] = {
            "version": version,
            "built_with": built_with,
            **built.get(suite, {}),
            **kind,
        }
    files = [document["library"], document["commands"]["mpirun"][0], *found.binaries.values()]
    loaded = [document["build"]["modules"]["loaded"]] if "modules" in document["build"] else []
    digests = [writer.digest_of(Path(file)) for file in files]
    hashed = [document["build"]["library_says"], document["suites"], digests, *loaded]
    document["build"]["lock_hash"] = writer.compute_hash(hashed)


def remove(name: str, root: Path = metadata.ROOT) -> Path:
    """Forget a stack that :func:`add` registered; the MPI itself
    is not touched. Returns its folder.
    """
    folder = root / "environments" / ORIGIN / name
    if not name or "/" in name or not (folder / writer.METADATA).is_file():
        there = [path.parent.name for path in folder.parent.glob(f"*/{writer.METADATA}")]
        raise BadInput(
            "unknown-name",
            f"no stack '{name}'{meant(name, there)} is registered in {folder.parent}; see "
            "'mpibench stacks'.",
        )
    if folder.is_symlink():
        raise BadInput(
            "not-ours",
            f"{folder} is a link, whose target this command does not remove; remove the link.",
        )
    (folder / writer.METADATA).unlink()
    shutil.rmtree(folder)
    return folder
