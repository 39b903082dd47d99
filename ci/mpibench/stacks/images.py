"""Stacks whose programs are in the image of a container: a command, as ``apptainer exec IMAGE``,
starts each rank in there, under the launcher of a registered stack.

What runs is asked from inside: the recorder says which library a rank has, whatever brought it
there. So an image is two stacks: with its own MPI, and with that of the registered stack, which has
to be visible in there and to have the ABI that the programs were built for.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reframe_tests.harness.evidence import checks, rank_records, recorder
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.mpis.model import FORUM_ABI, FORUM_LIBRARY
from reframe_tests.harness.printable import clause
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

from . import compilation, probe, system, writer
from .logged import Echo

#: What a command says is between two such lines: an image's shell may have something of its own to
#: say before and after it.
_MARK = "mpibench: said in the container"
_BETWEEN = 'printf "\\n%s\\n" "$0"; "$@"; status=$?; printf "\\n%s\\n" "$0"; exit $status'
#: Prints each file that cannot be read, and each folder that cannot be written to.
_HIDDEN = (
    'for path; do [ -r "$path" ] && { [ ! -d "$path" ] || [ -w "$path" ]; } || echo "$path"; done'
)


@dataclass(frozen=True)
class _ImageStart:
    """What one program of an image did.

    :param ranks: what the recorder has of it.
    """

    version: str
    said: str
    ranks: list[RankEvidence]


@dataclass(frozen=True)
class _Image:
    """A command that enters a container, started inside the stack whose launcher is used."""

    base: Stack
    enter: tuple[str, ...]
    scratch: Path

    def ask(self, *words: str) -> tuple[bool, str]:
        """Whether a command ran well in there, and what it said."""
        asked = [*self.enter, "sh", "-c", _BETWEEN, _MARK, *words]
        try:
            status, said = probe.run_inside(self.base, asked, probe.clean_environment())
        except OSError as error:
            raise BadInput(
                "tool-missing", f"{self.enter[0]} cannot be started ({error.strerror}); install it."
            ) from error
        parts = said.split(f"\n{_MARK}\n")
        return (not status, parts[1]) if len(parts) == 3 else (False, said)

    def lines(self, *words: str) -> list[str]:
        ran, said = self.ask(*words)
        if not ran:
            raise BadInput(
                "stack-unusable",
                f"'{shlex.join([*self.enter, words[0]])}' does not run "
                f"({clause(probe.last_line(said))}): --enter is the command that starts the words "
                "after it in the container.",
            )
        return said.splitlines()

    def expect_visible(self, *paths: Path) -> None:
        if hidden := self.lines("sh", "-c", _HIDDEN, "sh", *map(str, paths)):
            raise BadInput(
                "stack-unusable",
                f"{hidden[0]} is not visible in the container, or cannot be written to: have "
                "--enter bind its folder under the same path (--bind, -v).",
            )

    def expect_recorder(self) -> None:
        library = recorder.locate()
        ran, said = self.ask("env", f"LD_PRELOAD={library}", "true")
        if not ran or said:
            raise BadInput(
                "stack-unusable",
                "the evidence library does not load in the container "
                f"({clause(probe.last_line(said))}): "
                f"where its glibc is older than this machine's, 'pip install ziglang' and remove "
                f"{library}, which is then compiled for glibc {recorder.OLDEST_GLIBC}.",
            )

    def find(self, folders: Sequence[str]) -> dict[str, str]:
        """Benchmark programs by name."""
        paths = self.lines("find", *folders, "-type", "f", "-perm", "-100")
        found = {Path(path).name: path for path in sorted(paths, reverse=True)}
        programs = {name: path for name, path in sorted(found.items()) if probe.suite_of(name)}
        if not programs:
            raise BadInput(
                "file-missing",
                f"the container has no {probe.list_globs()} program in {' or '.join(folders)}; "
                "name a folder in there that does with --binaries.",
            )
        return programs

    def digest(self, paths: Iterable[str]) -> dict[str, dict[str, Any]]:
        """As ``build.files`` has them."""
        named = list(dict.fromkeys(paths))
        sums = {line[66:]: line[:64] for line in self.lines("sha256sum", *named)}
        sizes = [int(line) for line in self.lines("stat", "-L", "-c", "%s", *named)]
        return {
            path: {"sha256": sums[path], "size_bytes": size}
            for path, size in zip(named, sizes, strict=True)
        }

    def start(self, name: str, path: str) -> _ImageStart:
        """A program on two ranks, under the recorder."""
        evidence = Path(tempfile.mkdtemp(dir=self.scratch))
        told = {
            "LD_PRELOAD": str(recorder.locate()),
            "LD_BIND_NOW": "1",  # a function that is missing ends the start here
            "MPIBENCH_EVIDENCE": str(evidence),
            "MPIBENCH_WORLDS": ":".join(f"{key}={value}" for key, value in mpis.worlds().items()),
        }
        words = (*self.enter, "env", *(f"{key}={value}" for key, value in told.items()))
        programs = replace(probe.SUITES[probe.suite_of(name)], ranks=2, version_in_file="")
        version, _, said = probe.ask_version(
            replace(self.base, enter=words),
            programs,
            path,
            lambda text: None,
            probe.clean_environment(),
            probe.oversubscribe(self.base),
        )
        return _ImageStart(version, said, rank_records.read(evidence))


def add(
    name: str,
    on: str,
    enter: str,
    folders: Sequence[str],
    *,
    host_mpi: bool = False,
    root: Path = metadata.ROOT,
    say: Echo = print,
) -> Stack:
    """Register the programs of an image as a stack.

    :param on: registered stack, whose launcher starts the ranks.
    :param enter: command that starts the words after it in the container.
    :param folders: where the programs are in there.
    :param host_mpi: they run the MPI of that stack and not that of the image.
    """
    writer.check_word(name)
    path = root / "environments" / system.ORIGIN / name / writer.METADATA
    system.expect_free(name, path, root)
    known = {row.name: row for row in metadata.discover(root)[0] if not row.enter}
    if on not in known:
        raise BadInput(
            "unknown-name", f"no stack '{on}' can be used; 'mpibench stacks' lists what there is."
        )
    base = known[on]
    try:
        words = shlex.split(enter)
    except ValueError as error:
        raise BadInput(
            "configuration-unusable", f"--enter {enter} is no command ({error}); close its quotes."
        ) from error
    if re.search(r"[\n`]", enter):
        raise BadInput(
            "configuration-unusable",
            "--enter has a backquote or a line end, which no job can have; put it into a script.",
        )
    if not words or not (program := shutil.which(words[0])):
        raise BadInput(
            "tool-missing", f"--enter '{enter}' names no program that is here; install it."
        )
    words[0] = program
    # The image, where it is a file, and what starts it, where that is none of the system's.
    words = [str(Path(word).absolute()) if _is_file(word) else word for word in words]
    watched = [Path(word) for word in words if _is_file(word)]
    watched = [file for file in watched if str(file.parent) not in probe.SYSTEM_BIN]
    library = Path(base.library)
    # What leads to the MPI of the host is no business of the image's own.
    inside = ["env", *(word for key in _of_host(base) for word in ("-u", key))]
    if host_mpi:
        before = base.search_paths.get("LD_LIBRARY_PATH", ())
        searched = dict.fromkeys([str(library.parent), *before])
        inside = ["env", f"LD_LIBRARY_PATH={':'.join(searched)}"]
    # Also what one node does not load, as libfabric.
    there = [library, *library.parent.glob("lib*.so*")] if host_mpi else []
    beside = [file for file in there if probe.MPI_PART.match(file.name)]
    scratch = root / system.BUILDS
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".image-") as work:
        entered = _Image(base, (*words, *inside), Path(work))
        entered.expect_visible(recorder.locate(), Path(work), *beside)
        entered.expect_recorder()
        document = _prove(name, entered, folders, host_mpi, say)
        document["build"]["files"] = entered.digest(
            [
                document["library"],
                *document["binaries"].values(),
                *document["build"]["linked"],
                *map(str, beside),
            ]
        )
    own = [*map(Path, base.build.get("linked", ())), *beside] if host_mpi else []
    of_host = {file.name.partition(".so")[0]: file for file in own}
    for file, facts in document["build"]["files"].items():
        hosts = of_host.get(Path(file).name.partition(".so")[0])
        if hosts and facts["sha256"] != writer.digest_of(hosts):
            raise BadInput(
                "stack-unusable",
                f"{file} in the container is another file than {hosts}, which {base.name} has: "
                "have --enter bind that of the host.",
            )
    document["build"]["files"] |= {
        str(file): {"sha256": writer.digest_of(file), "size_bytes": file.stat().st_size}
        for file in watched
    }
    document["build"]["lock_hash"] = writer.compute_hash(
        [document["suites"], document["build"]["files"], base.lock_hash]
    )
    made = writer.register(
        document,
        path,
        root=root,
        contradict=lambda each, _: "",  # its programs have just been started
        ask=lambda each: _compiled(base, host_mpi),
        linked=lambda each: document["build"]["linked"],
    )
    say(f"{name}: {compilation.sentence(made)}")
    say(f"{name}: registered in {path}; it runs {len(made.binaries)} programs")
    return made


def _is_file(word: str) -> bool:
    return bool(re.search("[./]", word)) and os.path.isfile(word)  # noqa: PTH113 (may be no path)


def _compiled(base: Stack, host_mpi: bool) -> dict[str, str]:
    own = {"optimisation": compilation.UNKNOWN}
    return dict(base.build.get("compiled", own)) if host_mpi else own


def _of_host(base: Stack) -> list[str]:
    return ["LD_LIBRARY_PATH", *(key for key in base.variables if not key.startswith("MPI4PY_"))]


def _find_fault(tried: _ImageStart, program: str) -> str:
    """Why a program cannot be measured, as the end of a sentence; empty where it can."""
    if not tried.ranks:
        return f"it does not start ({probe.first_error(tried.said)})"
    if sentences := checks.check_presence(tried.ranks, 1, 2):
        return clause(sentences[0])
    suite = probe.suite_of(program)
    return "" if tried.version else f"it does not say which {suite} it is"


def _prove(
    name: str, image: _Image, folders: Sequence[str], host_mpi: bool, say: Echo
) -> dict[str, Any]:
    """What its programs are and run, as they say themselves when they are started."""
    base = image.base
    programs = image.find(folders)
    binaries: dict[str, str] = {}
    versions: dict[str, str] = {}
    library = os.path.realpath(base.library) if host_mpi else ""
    answer = ""
    linked: list[str] = []
    left_out: dict[str, str] = {}
    for program, path in programs.items():
        tried = image.start(program, path)
        suite = probe.suite_of(program)
        reason = _find_fault(tried, program)
        ran = tried.ranks[0].library or "" if tried.ranks else ""
        if not reason and library and ran != library:
            reason = f"it runs {ran} and not {library}" + (
                f", which {base.name} has: its programs were built for another ABI, or a path to "
                "that MPI is written into them"
                if host_mpi
                else ", as others of the image do"
            )
        if not reason and versions.setdefault(suite, tried.version) != tried.version:
            reason = f"it is version {tried.version}, the others are {versions[suite]}"
        if reason:
            left_out[program] = reason
            say(f"{name}: {program} is left out: {reason}.")
            continue
        binaries[program] = path
        if not answer:
            library = ran
            answer = tried.ranks[0].library_version or ""
            linked = [file for file in tried.ranks[0].mapped if file != library]
    if not binaries:
        program, reason = next(iter(left_out.items()))
        raise BadInput(
            "stack-unusable",
            f"none of the {len(programs)} programs of the container runs; {programs[program]}: "
            f"{reason}.",
        )
    identity = probe.identify(answer, library)
    own: dict[str, Any] = {
        "mpi": {
            "name": identity.mpi,
            "version": identity.version,
            "device": base.device if host_mpi else identity.device,
        },
        "abi": FORUM_ABI if Path(library).name.startswith(FORUM_LIBRARY) else identity.abi,
        "library": library,
        "library_version_pattern": identity.pattern,
        # mpi4py is no part of it
        "env_vars": {
            key: value for key, value in base.env_vars.items() if not key.startswith("MPI4PY_")
        },
        "suites": {
            suite: {"version": version, "built_with": f"found in {shlex.join(image.enter)}"}
            for suite, version in versions.items()
        },
    }
    document: dict[str, Any] = {
        "schema_version": 1,
        "name": name,
        "origin": system.ORIGIN,
        "launcher_family": base.launcher_family,
        "prefix": base.prefix,
        "binaries": binaries,
        "commands": {"mpirun": list(base.mpirun)},
        "prepend_path": {
            key: list(folders) for key, folders in base.prepend_path.items() if key != "PYTHONPATH"
        },
        "enter": list(image.enter),
        "build": {
            "lock_hash": "0" * 64,
            **{key: base.build[key] for key in ("machine", "modules") if key in base.build},
            "library_says": " ".join(answer.split())[:200],
            "linked": linked,
        },
        **own,
    }
    if base.modules:
        document["modules"] = [module.written() for module in base.modules]
    return document
