"""The cases that exist: those that ReFrame lists, each with its values.

ReFrame is asked (``-lC``), because only it knows what its options, the system and the stacks make of the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.sites import planned_cases, references
from reframe_tests.harness.vocabulary import ROOT, BadInput

#: A line of ReFrame 4.10's ``-lC`` (``frontend/cli.py``, ``list_checks``): name, parameters, hash, place.
_LINE = re.compile(r"- (?P<name>.+) /[0-9a-f]+ @(?P<system>[^\s:]+):(?P<partition>[^\s+]+)\+(?P<stack>\S+)", re.ASCII)
_COUNT = re.compile(r"^Concretized (\d+) test case\(s\)", re.MULTILINE)
#: What ReFrame says before a sentence of ours.
_STOPPED = re.compile(r"^(?:run session stopped: )?(?:command line error: )?")
_SAID = re.compile(r"^(?:ERROR: |reframe: )(.*)", re.MULTILINE)
_PARAMETER = re.compile(r" %(\w+)=(\S+)")


@dataclass(frozen=True, order=True)
class ListedCase:
    """One case, as ReFrame shows it.

    :param partition: without its system.
    :param stack: ReFrame's environment.
    :param name: of the test, with its parameters.
    """

    partition: str
    stack: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} @{self.partition}+{self.stack}"

    @cached_property
    def parameters(self) -> dict[str, str]:
        """Parameters of the test and their values: fabric, nodes, ppn, pinning, ..."""
        return dict(_PARAMETER.findall(self.name))

    @property
    def test(self) -> str:
        """Name of the test without its parameters."""
        return self.name.partition(" ")[0]

    @property
    def group(self) -> str:
        """Group of the catalogue; of a test that is not among the project's own, its name."""
        return references.tests().get(self.test, self.test)

    @property
    def values(self) -> tuple[tuple[str, str], ...]:
        """All that distinguishes it from others, pairs of which are to be measured: partition, stack, group and parameters."""
        return (("partition", self.partition), ("stack", self.stack), ("group", self.group), *self.parameters.items())

    @property
    def nodes(self) -> int | None:
        """Nodes of its job; ``None`` for all that are idle, 1 where it has no such parameter."""
        text = self.parameters.get("nodes", "1")
        return int(text) if text.isdecimal() else None


@dataclass(frozen=True)
class Listing:
    """What ReFrame lists.

    :param system: the selected one; empty where nothing is listed.
    :param cases: each once, sorted.
    """

    system: str
    cases: tuple[ListedCase, ...]


def parse(text: str) -> Listing:
    """Read ReFrame's list.

    :raises BadInput: it is cut off, or not such a list.
    """
    lines = [found for line in text.splitlines() if (found := _LINE.fullmatch(line.rstrip()))]
    count = _COUNT.search(text)
    if count is None or int(count[1]) < len(lines) or (int(count[1]) and not lines):
        raise BadInput("what ReFrame lists (-lC) is no whole list of cases: use the release named in pyproject.toml.")
    systems = {found["system"] for found in lines}
    if len(systems) > 1:
        raise BadInput(f"ReFrame lists cases of {len(systems)} systems ({', '.join(sorted(systems))}), and a plan is for one.")
    cases = {ListedCase(found["partition"], found["stack"], found["name"]) for found in lines}
    return Listing(next(iter(systems), ""), tuple(sorted(cases)))


def ask(words: Sequence[str], environ: Mapping[str, str] = os.environ, root: Path = ROOT) -> Listing:
    """List what ReFrame selects.

    :param words: options of selection, those of a mode among them.
    :raises BadInput: with ReFrame's own sentence where it ends with an error.
    """
    program = shutil.which("reframe") or str(Path(sys.executable).with_name("reframe"))
    command = [program, "--nocolor", "-c", "reframe_tests", "-lC", *words]
    settings = str(root / "site_configs" / "settings.py")
    wanted = {"RFM_CONFIG_FILES": settings, **{key: text for key, text in environ.items() if key != planned_cases.VARIABLE}}
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=wanted,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise BadInput(f"ReFrame cannot be started ({error.strerror}): run ci/setup and activate .venv.") from None
    if done.returncode:
        said = _SAID.findall(done.stdout + done.stderr)
        sentence = _STOPPED.sub("", said[0]) if said else ""
        reason = first_line(sentence, 400).rstrip(" .,") or f"exit status {done.returncode}"
        raise BadInput(f"ReFrame cannot list the cases: {reason}.")
    return parse(done.stdout)
