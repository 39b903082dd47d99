"""Runs sessions of the test of collective algorithms, and reads what they measured."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.sites.tuned_settings import Place
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ..night import supervision
from ..store import job_times
from ..store.sessions import Case, Session, read_report

TEST = "CollectiveAlgorithms"
#: Value of the label ``run`` of its sessions, which are no nights of any series.
RUN = "tune"
#: Seconds after which a launch counts as hung, beside ten times those that it times its calls for.
LIMIT_S = 60.0
#: Seconds that a dry run may take.
DRY_RUN_S = 600.0
#: Bytes that a run report may need; with less room than that a damaged one is explained.
ROOM_BYTES = 1 << 20
_STAGE = re.compile(r"^  stage directory: +'(.*)'$", re.MULTILINE)
#: Why a case failed or was skipped before there was a job.
_REASON = re.compile(r"^  \* Reason: (?:reframe error: )?(.*)", re.MULTILINE)
_ERROR = re.compile(r"^(?:ERROR: |reframe: )(.*)", re.MULTILINE)


#: Characters of its reasons that are said: why no case fits stands at their end.
_REASON_LENGTH = 600
#: Seconds of ReFrame's own start and end.
OWN_S = 10.0


@dataclass
class Clock:
    """Seconds that are spent of a budget: without those that jobs waited for their nodes, which are nobody's measurement."""

    began: float = -1.0
    waited_s: float = 0.0

    def __post_init__(self) -> None:
        self.began = time.monotonic() if self.began < 0 else self.began

    @property
    def spent_s(self) -> float:
        """Since it began."""
        return time.monotonic() - self.began - self.waited_s


@dataclass(frozen=True)
class Order:
    """One session.

    :param partition: of the system; empty: the only one that fits.
    :param algorithms: collective to algorithms in the words of the test.
    :param repeats: of each launch, interleaved.
    :param seconds: that a launch may time its calls for.
    :param tuned_files: folder of the settings that the word ``tuned`` stands for.
    :param show: whether a further launch of each algorithm shows that it is taken.
    :param compiles: whether the library makes its own file of ``tuned``.
    :param options: further ones for ReFrame.
    :param held: descriptors of locks that last as long as ReFrame does.
    :param wait_s: seconds that jobs may wait for their nodes, beyond what a session may take.
    """

    place: Place
    partition: str
    algorithms: Mapping[str, str]
    repeats: int
    seconds: float
    level: str = "nightly"
    tuned_files: str = ""
    show: bool = True
    compiles: bool = False
    options: tuple[str, ...] = ()
    held: tuple[int, ...] = ()
    clock: Clock = field(default_factory=Clock)
    wait_s: float = 0.0

    def words(self, report: Path, *, dry: bool = False) -> list[str]:
        """ReFrame's command line."""
        place = self.place
        names = "|".join(re.escape(name) for name in self.algorithms)
        # Nodes, ppn and pinning are those of -P, and have no other value; ReFrame's name filter does not find pinning=none.
        case = f"^{TEST}%fabric={re.escape(place.fabric)}%nodes=[^%]+%ppn=[^%]+%pinning=[^%]+"
        settings = {
            f"{TEST}.algorithms": ",".join(f"{name}:{words}" for name, words in self.algorithms.items()),
            f"{TEST}.repeats": str(self.repeats),
            f"{TEST}.seconds": f"{self.seconds:g}",
            f"{TEST}.limit_s": f"{LIMIT_S + 10 * self.seconds:.0f}",
            f"{TEST}.level": self.level,
            f"{TEST}.show": "yes" if self.show else "no",
            **({f"{TEST}.compiles": "yes"} if self.compiles else {}),
            **({f"{TEST}.tuned_files": self.tuned_files} if self.tuned_files else {}),
        }
        return [
            *(_program(), "--nocolor", "--dry-run" if dry else "-r"),
            *("-c", str(ROOT / "reframe_tests" / "collectives.py")),
            f"--system={place.system}{':' * bool(self.partition)}{self.partition}",
            *("-p", f"^{re.escape(place.stack)}$", "-n", f"{case}%collective=(?:{names})$"),
            *("-P", f"ppn={place.ppn}", "-P", f"pinning={place.pinning}", "-P", f"nodes={place.nodes}"),
            *(word for name, value in settings.items() for word in ("-S", f"{name}={value}")),
            *("--session-extras", f"run={RUN}", f"--report-file={report}", *self.options),
        ]


@dataclass(frozen=True)
class Ran:
    """What a session gave.

    :param seconds: that it took, from the start of ReFrame to its end, without those that its jobs waited for nodes.
    :param late: it was ended at its limit, and has only the cases that were done by then.
    """

    session: Session
    seconds: float
    late: bool = False
    waited_s: float = 0.0


def run(order: Order, folder: Path, name: str, limit_s: float, show: Callable[[str], bool] = lambda line: False) -> Ran:
    """Run a session; its report is ``<name>.json`` in the folder, its log ``<name>.log``.

    :raises supervision.OutOfTime: it was not done within the limit and stored nothing.
    """
    report, log = folder / f"{name}.json", folder / f"{name}.log"
    report.unlink(missing_ok=True)
    started = time.monotonic()
    late = False
    try:
        _start(order.words(report), log, limit_s + order.wait_s, show, order.held)
    except supervision.OutOfTime:
        late = True
        if not report.exists():
            raise
    if not report.exists():
        said = _ERROR.findall(log.read_text(errors="replace")) if log.exists() else []
        reason = first_line(said[0], _REASON_LENGTH) if said else "ReFrame ended before it could write its run report"
        raise BadInput("nothing-measured", f"nothing was measured: {reason.removesuffix('.')}; see {log}.")
    try:
        session = read_report(report)
        took = time.monotonic() - started
        held = job_times.seconds(session)
        seconds = min(took, OWN_S + sum(held.values())) if held and not late else took
        order.clock.waited_s += took - seconds
        return Ran(session, seconds, late, took - seconds)
    except BadInput:
        if shutil.disk_usage(folder).free > ROOM_BYTES:
            raise
        raise BadInput(
            "disk-full", f"nothing more can be written to {folder}: make room, and the same command goes on."
        ) from None


def dry_run(order: Order, folder: Path) -> tuple[Path, list[Path]]:
    """Write the job scripts of a session; its log, and the scripts."""
    log = folder / "dry_run.log"
    _start(order.words(folder / "dry_run.json", dry=True), log, DRY_RUN_S, lambda line: False)
    text = log.read_text(errors="replace")
    stage = _STAGE.search(text)
    scripts = sorted(Path(stage[1]).rglob("rfm_job.sh")) if stage else []
    if reason := _REASON.search(text) or (None if scripts else _ERROR.search(text)):
        raise BadInput(
            "no-job-written", f"no job can be written: {first_line(reason[1], _REASON_LENGTH).removesuffix('.')}; see {log}."
        )
    if not scripts:
        raise BadInput("no-job-written", f"no job can be written: {why_unusable(None)}; see {log}.")
    return log, scripts


def _start(words: Sequence[str], log: Path, limit_s: float, show: Callable[[str], bool], held: Sequence[int] = ()) -> int:
    environ = {**os.environ, "RFM_GENERATE_FILE_REPORTS": "yes"}
    for variable in (session_folder.VARIABLE, "RFM_REPORT_JUNIT"):
        environ.pop(variable, None)
    environ.setdefault("RFM_CONFIG_FILES", str(ROOT / "site_configs" / "settings.py"))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return supervision.run(words, log, show, environ, held, cwd=ROOT, limit_s=limit_s)
    except OSError as error:
        raise BadInput("reframe-not-started", f"ReFrame could not be started ({error.strerror}); run ci/setup.") from None


def cases_of(session: Session, collectives: Sequence[str]) -> dict[str, Case]:
    """Collective to its case."""
    found: dict[str, Case] = {}
    for case in session.cases:
        name = str(case.entry.get("collective", ""))
        if name not in collectives:
            continue
        if name in found and found[name].partition != case.partition:
            both = f"{found[name].partition} and {case.partition}"
            raise BadInput("fabric-ambiguous", f"several partitions have this fabric ({both}): give SYSTEM:PARTITION.")
        found[name] = case
    return found


def why_unusable(case: Case | None) -> str:
    """Why the numbers of a case are not used; empty where they are."""
    if case is None:
        return "there is no such case on this system: see 'reframe -l -v -n CollectiveAlgorithms' for the reason"
    if case.evidence != PROVEN:
        return first_line(case.reason) or f"its evidence is {case.evidence}"
    return ""


def _program() -> str:
    """ReFrame, as a night finds it, or that of our own Python where that was not activated."""
    return shutil.which("reframe") or str(Path(sys.executable).with_name("reframe"))
