"""Finds Spack, checks its version, and runs it: its own output goes to a log file, the caller sees lines."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput

from . import complaints

#: Oldest Spack whose environments, repositories and compilers are as ``environments/`` has them.
MINIMUM = (1, 0)
#: Release the stacks are built and tested with.
TAG = "v1.1.0"
#: How to get it; the recipes' own commit is pinned in environments/common/repos.yaml, and Spack fetches them by itself.
GET = (
    f"git clone --depth=1 --branch={TAG} https://github.com/spack/spack.git",
    "export SPACK_ROOT=$PWD/spack",
)
#: Keeps out ~/.spack and /etc/spack: what is built follows from the project, the site's scope and that Spack alone.
ISOLATED = {"SPACK_DISABLE_LOCAL_CONFIG": "1"}
HEARTBEAT_S = 15.0

Echo = Callable[[str], object]


@dataclass(frozen=True)
class Spack:
    """A Spack that can be used.

    :param environ: environment it is run in.
    """

    program: str
    version: str
    environ: Mapping[str, str]

    def run(
        self,
        words: Sequence[str],
        *,
        log: Path,
        what: str,
        echo: Echo,
        progress: Callable[[str], str] = lambda line: "",
        explain: Callable[[str, int], str] | None = None,
    ) -> str:
        """Run it to its end; returns what it wrote to both streams.

        :param log: file the output is appended to as it comes.
        :param what: what it is doing, for lines and sentences (``openmpi: concretizing``).
        :param progress: a line for the user for a line of Spack's, or nothing.
        :param explain: one sentence for what it wrote and its exit status, when it fails.
        :raises BadInput: with one sentence, when it fails.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        lines: list[str] = []
        with log.open("a", errors="replace") as stream:
            stream.write(f"$ spack {' '.join(words)}\n")
            process = subprocess.Popen(
                [self.program, "--color=never", *words],
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            try:
                for line in _lines(process, lambda: echo(f"{what}: still at it after {time.monotonic() - began:.0f} s")):
                    stream.write(line)
                    stream.flush()
                    lines.append(line)
                    said = progress(line.rstrip("\n"))
                    if said:
                        echo(said)
                status = process.wait()
            finally:
                process.terminate()  # Spack then ends the builds it has started
                process.wait()
        output = "".join(lines)
        if status:
            raise BadInput(explain(output, status) if explain else complaints.explain(what, output, status, log))
        return output


def _lines(process: subprocess.Popen[bytes], beat: Callable[[], object]):  # type: ignore[no-untyped-def]
    """Lines of a process as they come; ``beat`` is called after each stretch of silence."""
    assert process.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(HEARTBEAT_S):
                beat()
                continue
            block = os.read(process.stdout.fileno(), 1 << 16)
            if not block:
                break
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace") + "\n"
    if rest:
        yield rest.decode(errors="replace")


def find(environ: Mapping[str, str] = os.environ) -> Spack:
    """The Spack of ``SPACK_ROOT``, else of PATH.

    :raises BadInput: when there is none, it does not answer, or it is older than :data:`MINIMUM`.
    """
    get = f"get it with '{GET[0]}' and '{GET[1]}'"
    root = environ.get("SPACK_ROOT", "")
    program = f"{root}/bin/spack" if root else shutil.which("spack", path=environ.get("PATH", ""))
    if not program:
        raise BadInput(f"Spack is neither in SPACK_ROOT nor on PATH; {get}.")
    if not os.access(program, os.X_OK):
        raise BadInput(f"SPACK_ROOT is {root}, and there is no {program}; unset it, or {get}.")
    inside = {**ISOLATED, **environ}
    try:
        done = subprocess.run(
            [program, "--version"], env=inside, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"{program} cannot be run ({error}); {get}.") from error
    found = re.match(r"\s*((\d+)\.(\d+)\S*)", done.stdout)
    if done.returncode or not found:
        said = complaints.first_error(done.stderr + done.stdout) or f"exit status {done.returncode}"
        raise BadInput(f"{program} --version gives no version ({said}); {get}.")
    if (int(found[2]), int(found[3])) < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        raise BadInput(f"{program} is Spack {found[1]} and {needed} or newer is needed; {get}.")
    return Spack(program, found[1], inside)
