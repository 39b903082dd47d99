"""The plan of a night as a file: what ReFrame is given, and what a session is held against afterwards.

A session names its plan by a checksum of the file (label :data:`LABEL`), and the file lies in the dataset. So a file that is
gone, was edited, or is of another day or system is noticed by whoever needs it.

Which cases exist ReFrame is asked (``-lC``), because only it knows what its options, the system and the stacks make of the
tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.sites import planned_cases, references
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ...store import records

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
    """What ReFrame lists: the selected system (empty where nothing is listed), and the cases, each once, sorted."""

    system: str
    cases: tuple[ListedCase, ...]


def parse(text: str) -> Listing:
    """Read ReFrame's list.

    :raises BadInput: it is cut off, or not such a list.
    """
    lines = [found for line in text.splitlines() if (found := _LINE.fullmatch(line.rstrip()))]
    count = _COUNT.search(text)
    if count is None or int(count[1]) < len(lines) or (int(count[1]) and not lines):
        raise BadInput(
            "listing-not-understood",
            "what ReFrame lists (-lC) is no whole list of cases: use the release named in pyproject.toml.",
        )
    systems = {found["system"] for found in lines}
    if len(systems) > 1:
        raise BadInput(
            "several-systems",
            f"ReFrame lists cases of {len(systems)} systems ({', '.join(sorted(systems))}), and a plan is for one.",
        )
    cases = {ListedCase(found["partition"], found["stack"], found["name"]) for found in lines}
    return Listing(next(iter(systems), ""), tuple(sorted(cases)))


def ask(words: Sequence[str], environ: Mapping[str, str] = os.environ, root: Path = ROOT) -> Listing:
    """List what ReFrame selects by some options, those of a mode among them.

    :raises BadInput: with ReFrame's own sentence where it ends with an error.
    """
    program = shutil.which("reframe") or str(Path(sys.executable).with_name("reframe"))
    command = [program, "--nocolor", "-c", "reframe_tests", "-lC", *words]
    wanted = {"RFM_CONFIG_FILES": str(root / "site_configs" / "settings.py"), **environ}
    wanted.pop(planned_cases.VARIABLE, None)
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    try:
        done = subprocess.run(command, cwd=root, env=wanted, check=False, **options)
    except OSError as error:
        raise BadInput(
            "reframe-not-started", f"ReFrame cannot be started ({error.strerror}): run ci/setup and activate .venv."
        ) from None
    if done.returncode:
        said = _SAID.findall(done.stdout + done.stderr)
        sentence = _STOPPED.sub("", said[0]) if said else ""
        reason = first_line(sentence, 400).rstrip(" .,") or f"exit status {done.returncode}"
        raise BadInput("listing-failed", f"ReFrame cannot list the cases: {reason}.")
    return parse(done.stdout)


#: Label of a session that was planned; its value is the id of the plan.
LABEL = "plan"
#: Folder of plans in a dataset.
FOLDER = "plans"
#: Version of the files.
LAYOUT = 1
#: How long after the end of its day (UTC) a planned night may begin: planned before midnight, it may start after it.
LATE = timedelta(hours=1)
_DIGITS = 16


@dataclass(frozen=True)
class PlannedCase:
    """One case that exists, tonight.

    :param why: why it is, or is not (:mod:`.choice`).
    :param proven: the day it was last proven before; ``None``: never.
    :param seconds: how long its job is expected to take.
    :param nodes: that its job is to ask for, as it was not right on these; none: any.
    """

    case: ListedCase
    planned: bool
    why: str
    proven: date | None
    seconds: float
    nodes: tuple[str, ...] = ()

    @property
    def cell(self) -> tuple[str, str, str]:
        """What a report shows together: stack, fabric, group."""
        return self.case.stack, self.case.parameters.get("fabric", ""), self.case.group


@dataclass(frozen=True)
class Prediction:
    """What a night will take.

    :param launches: of MPI programs, in all jobs.
    """

    jobs: int
    launches: int
    node_hours: float
    minutes: float


@dataclass(frozen=True)
class PlanRecord:
    """A plan.

    :param nights: within which each pair of values comes.
    :param pairs: how many there are; ``pairs_tonight``: how many of them the planned cases have.
    :param broken: why the plan does not keep what it promises, one sentence each.
    """

    system: str
    day: date
    label: str
    mode: str
    budget: str
    nights: int
    predicted: Prediction
    pairs: int
    pairs_tonight: int
    broken: tuple[str, ...]
    cases: tuple[PlannedCase, ...]

    @cached_property
    def planned(self) -> frozenset[ListedCase]:
        return frozenset(one.case for one in self.cases if one.planned)

    @cached_property
    def known(self) -> frozenset[ListedCase]:
        return frozenset(one.case for one in self.cases)

    @cached_property
    def text(self) -> str:
        """The file: one line a case, so that two plans can be compared."""
        head = asdict(self)
        head |= {"layout": LAYOUT, "date": head.pop("day")}
        rows = [{**row.pop("case"), **row, "seconds": round(float(row["seconds"]), 1)} for row in head.pop("cases")]
        kept = ({key: value for key, value in row.items() if key != "nodes" or value} for row in rows)
        lines = ",\n".join(json.dumps(row, sort_keys=True, default=str) for row in kept)
        return f'{json.dumps(head, sort_keys=True, default=str)[:-1]}, "cases": [\n{lines}\n]}}\n'

    @property
    def id(self) -> str:
        """Beginning of the SHA-256 of the file."""
        return checksum(self.text)

    def write(self, folder: Path) -> Path:
        """Write the file into a dataset, and return its path.

        :raises BadInput: it cannot be written.
        """
        return records.write(folder, FOLDER, f"{self.day.isoformat()}-{self.system}-{self.id}", self.text)


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def read(path: Path) -> PlanRecord:
    """A plan from its file, checked against the checksum in the file's name.

    :raises BadInput: it cannot be read, was edited, or is no plan.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise BadInput("plan-unreadable", f"the plan {path} cannot be read ({reason}).") from None
    if not path.stem.endswith(f"-{checksum(text)}"):
        raise BadInput("plan-changed", f"the plan {path} was changed after it was made: its checksum is {checksum(text)}.")
    try:
        content = json.loads(text)
        if content["layout"] != LAYOUT:
            raise BadInput("plan-layout", f"the plan {path} has layout {content['layout']}, this program reads {LAYOUT}.")
        rows = [{**row, "case": row} for row in content["cases"]]
        return msgspec.convert({**content, "day": content["date"], "cases": rows}, PlanRecord)
    except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise BadInput("plan-damaged", f"the plan {path} is damaged ({type(error).__name__}: {error}).") from None


def find(folder: Path, wanted: str) -> PlanRecord:
    """A plan of a dataset by its id.

    :raises BadInput: it is not there, or as :func:`read`.
    """
    found = sorted((folder / FOLDER).glob(f"*-{wanted}.json")) if wanted.isalnum() else []
    if not found:
        raise BadInput("plan-missing", f"the plan {wanted} is not in {folder / FOLDER}.")
    return read(found[0])


def of_session(folder: Path, labels: Mapping[str, str], system: str, started: datetime) -> PlanRecord | None:
    """The plan that a session says it was measured by; ``None`` where it names none.

    :raises BadInput: the plan is not there, was edited, or is of another system, label or day.
    """
    wanted = labels.get(LABEL)
    if wanted is None:
        return None
    plan = find(folder, wanted)
    if (plan.system, plan.label) != (system, labels.get("run")):
        raise BadInput(
            "plan-of-another-night",
            f"plan {wanted} is for run={plan.label} on {plan.system}, and the session is run={labels.get('run')} on {system}.",
        )
    begins = datetime.combine(plan.day, datetime.min.time(), timezone.utc)
    if not begins <= started < begins + timedelta(days=1) + LATE:
        raise BadInput(
            "plan-of-another-night",
            f"plan {wanted} is for {plan.day}, and the session started at {started:%Y-%m-%d %H:%M} UTC.",
        )
    return plan
