"""Finds Spack, checks its version, and runs it: its own output goes to a log file, the caller sees lines.

Where it ends with an error, the sentence has what Spack itself says first, and its log.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from reframe_tests.harness.vocabulary import BadInput

from .. import logged
from ..logged import Echo

#: Oldest Spack whose environments, repositories and compilers are as ``environments/`` has them.
MINIMUM = "1.0"
#: Release the stacks are built and tested with.
TAG = "v1.1.0"
#: How to get it; the recipes' own commit is pinned in environments/common/repos.yaml, and Spack fetches them by itself.
GET = (
    f"git clone --depth=1 --branch={TAG} https://github.com/spack/spack.git",
    "export SPACK_ROOT=$PWD/spack",
)
#: Keeps out ~/.spack and /etc/spack: what is built follows from the project, the site's scope and that Spack alone.
ISOLATED = {"SPACK_DISABLE_LOCAL_CONFIG": "1"}
#: How to write the compilers of this machine into the site's scope.
FIND_COMPILERS = "'mpibench stacks build --find'"
#: Lines of Spack, git and its solver that say why they fetch nothing. What Spack says then is that something else is missing.
_OFFLINE = re.compile(
    r"^.*(?:Could not resolve host|unable to access 'https?:|Failed to (?:clone|fetch|update) package|All fetchers failed"
    r"|(?i:cannot|failed to) bootstrap).*$",
    re.M,
)
#: Characters of an error that are shown.
_SHOWN = 300


@dataclass(frozen=True)
class Spack:
    """A Spack that can be used, and the environment it is run in."""

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
        shown: Callable[[str], str] = lambda line: "",
        remedy: str = "",
    ) -> str:
        """Run it to its end; returns what it wrote to both streams.

        :param what: what it is doing, for lines and sentences (``openmpi: concretizing``).
        :param remedy: what to do when it fails.
        """
        status, output = logged.run([self.program, "--color=never", *words], log, what, echo, self.environ, shown=shown)
        if not status:
            return output
        if found := _OFFLINE.search(output):
            line = found[0].strip()[:_SHOWN]
            reason = f"no network? ({line})" + ("" if "Error: " in line else f", and then: {first_error(output)}")
            remedy = "name a mirror, build cache or bundle, as docs/how-to/spack.md says"
        else:
            reason = first_error(output) or f"Spack ended with status {status}"
        raise BadInput("spack-failed", f"{what}: {reason.rstrip('.')}; {remedy or 'see the log'} (log: {log}).")


def first_error(output: str) -> str:
    """What Spack marks as its first error, with the lines that go on with it; else the last line that says something."""
    found = re.search(r"Error: (.*\S(?:\n[ \t]+\S.*)*)", output)
    text = found[1] if found else next(iter(output.strip().splitlines()[-1:]), "")
    return " ".join(text.split())[:_SHOWN]


def find(environ: Mapping[str, str] = os.environ) -> Spack:
    """The Spack of ``SPACK_ROOT``, else of PATH.

    :raises BadInput: when there is none, it does not answer, or it is older than :data:`MINIMUM`.
    """
    get = f"get it with '{GET[0]}' and '{GET[1]}'"
    root = environ.get("SPACK_ROOT", "")
    program = f"{root}/bin/spack" if root else shutil.which("spack", path=environ.get("PATH", ""))
    if not program:
        raise BadInput("spack-missing", f"Spack is neither in SPACK_ROOT nor on PATH; {get}.")
    if not os.access(program, os.X_OK):
        raise BadInput("spack-missing", f"SPACK_ROOT is {root}, and there is no {program}; unset it, or {get}.")
    inside = {**ISOLATED, **environ}
    try:
        done = logged.ask([program, "--version"], inside, 120)
        word = next(iter(done.stdout.split()), "")
        if done.returncode or Version(word) < Version(MINIMUM):
            said = first_error(done.stderr + done.stdout) if done.returncode else f"it is {word}"
            raise BadInput(
                "spack-unusable", f"{program} cannot be used ({said}), and Spack {MINIMUM} or newer is needed; {get}."
            )
    except (OSError, subprocess.TimeoutExpired, InvalidVersion) as error:
        raise BadInput("spack-unusable", f"{program} gives no version ({error}); {get}.") from error
    return Spack(program, word, inside)
