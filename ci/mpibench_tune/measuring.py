"""What is asked of a tuning, its sessions of the test of collective
algorithms, and the algorithms that a library lists.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mpibench.night import supervision
from mpibench.store.sessions import Case, Session, read_report
from reframe_tests.harness.command_line import REFRAME
from reframe_tests.harness.mpis.tuning.model import Algorithm, AlgorithmListing, Control, Tuning
from reframe_tests.harness.printable import first_line
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.sites.tuned_settings import TunedPlace
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import ROOT, BadInput

from .profiles import Usage

RESULTS = ROOT / "results" / "tuning"
TEST = "CollectiveAlgorithms"
#: Value of the label ``run`` of its sessions, which are no nights of any series.
RUN = "tune"
#: Seconds after which a launch counts as hung, beside ten times those that it times its calls for.
LIMIT_S = 60.0
#: Seconds that a dry run may take, and a program of the library to list
#: what it has; of ReFrame's own start and end.
DRY_RUN_S = 600.0
LISTING_S = 60
OWN_S = 10.0
#: Bytes that a run report may need; with less room than that a damaged one is explained.
ROOM_BYTES = 1 << 20
_STAGE = re.compile(r"^  stage directory: +'(.*)'$", re.MULTILINE)
#: Why a case failed or was skipped before there was a job.
_REASON = re.compile(r"^  \* Reason: (?:reframe error: )?(.*)", re.MULTILINE)
_ERROR = re.compile(r"^(?:ERROR: |reframe: )(.*)", re.MULTILINE)
#: Characters of its reasons that are said: why no case fits stands at their end.
_REASON_LENGTH = 600


@dataclass
class Clock:
    """Seconds that are spent of a budget: without those that jobs waited
    for their nodes, which are nobody's measurement.
    """

    began: float = field(default_factory=lambda: time.monotonic())
    waited_s: float = 0.0

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.began - self.waited_s


class Order(NamedTuple):
    """What one session measures.

    :param algorithms: collective to algorithms in the words of the test.
    :param repeats: of each launch, interleaved; ``seconds``: that a launch may time its calls for.
    :param tuned_files: folder of the settings that the word ``tuned`` stands for.
    :param show: whether a further launch of each algorithm shows that it is taken.
    :param compiles: whether the library makes its own file of ``tuned``.
    """

    algorithms: Mapping[str, str]
    repeats: int
    seconds: float
    tuned_files: str = ""
    show: bool = True
    compiles: bool = False


@dataclass(frozen=True)
class TuneRequest:
    """What is requested.

    :param partition: of the system; empty: the only one that fits.
    :param algorithms: collective to algorithms; none: all that the library lists.
    :param budget_s: seconds for everything; ``wait_s``: that jobs may wait for
        their nodes, beyond what a session may take.
    :param restart: forget what was measured before.
    :param check: prove installed settings again; ``dry_run``: write
        the first job scripts; else tune.
    :param options: further ones for ReFrame.
    :param usage: of an application that it is for.
    :param held: descriptors of locks that last as long as ReFrame does.
    """

    place: TunedPlace
    partition: str
    stack: Stack
    tuning: Tuning
    algorithms: Mapping[str, tuple[str, ...]]
    budget_s: float
    level: str = "nightly"
    restart: bool = False
    check: bool = False
    dry_run: bool = False
    options: tuple[str, ...] = ()
    usage: Usage | None = None
    wait_s: float = 0.0
    held: tuple[int, ...] = ()
    clock: Clock = field(default_factory=Clock)
    say: Callable[[str], None] = print

    @property
    def folder(self) -> Path:
        """Where reports, logs and the state are kept."""
        return RESULTS / self.place.system / self.place.stack / self.place.name

    @property
    def candidate(self) -> Path:
        """The folder of settings that are still to be proven."""
        return self.folder / "candidate"

    @property
    def library(self) -> str:
        """MPI and release, of which alone a tuning holds."""
        return f"{self.stack.mpi} {self.stack.mpi_version} {self.stack.lock_hash}"

    @property
    def left_s(self) -> float:
        return self.budget_s - self.clock.spent_s

    def words(self, order: Order, report: Path, *, dry: bool = False) -> list[str]:
        """ReFrame's command line of a session."""
        place = self.place
        names = "|".join(re.escape(name) for name in order.algorithms)
        # Nodes, ppn and pinning are those of -P, and have no other value;
        # ReFrame's name filter does not find pinning=none.
        case = f"^{TEST}%fabric={re.escape(place.fabric)}%nodes=[^%]+%ppn=[^%]+%pinning=[^%]+"
        settings = {
            "algorithms": ",".join(f"{name}:{words}" for name, words in order.algorithms.items()),
            "repeats": str(order.repeats),
            "seconds": f"{order.seconds:g}",
            "limit_s": f"{LIMIT_S + 10 * order.seconds:.0f}",
            "level": self.level,
            "show": "yes" if order.show else "no",
            "compiles": "yes" if order.compiles else "",
            "tuned_files": order.tuned_files,
        }
        # As a night finds it, or that of our own Python where that was not activated.
        program = shutil.which("reframe") or str(Path(sys.executable).with_name("reframe"))
        return [
            program,
            "--nocolor",
            "--dry-run" if dry else "-r",
            "-c",
            str(ROOT / "reframe_tests" / "collectives.py"),
            f"--system={place.system}{':' * bool(self.partition)}{self.partition}",
            "-p",
            f"^{re.escape(place.stack)}$",
            "-n",
            f"{case}%collective=(?:{names})$",
            "-P",
            f"ppn={place.ppn}",
            "-P",
            f"pinning={place.pinning}",
            "-P",
            f"nodes={place.nodes}",
            *(
                word
                for name, value in settings.items()
                if value
                for word in ("-S", f"{TEST}.{name}={value}")
            ),
            "--session-extras",
            f"run={RUN}",
            f"--report-file={report}",
            *self.options,
        ]


class Ran(NamedTuple):
    """What a session gave.

    :param seconds: that it took, from the start of ReFrame to its end,
        without those that its jobs waited for nodes.
    :param late: it was ended at its limit, and has only the cases that were done by then.
    """

    session: Session
    seconds: float
    late: bool = False
    waited_s: float = 0.0


def run(request: TuneRequest, order: Order, name: str, limit_s: float) -> Ran:
    """Run a session; its report is ``<name>.json`` in the request's folder, its log ``<name>.log``.

    :raises supervision.OutOfTime: it was not done within the limit and stored nothing.
    """
    report = request.folder / f"{name}.json"
    log = request.folder / f"{name}.log"
    report.unlink(missing_ok=True)
    started = time.monotonic()
    late = False
    try:
        _start(request.words(order, report), log, limit_s + request.wait_s, request.held)
    except supervision.OutOfTime:
        late = True
        if not report.exists():
            raise
    if not report.exists():
        said = _ERROR.findall(log.read_text(errors="replace")) if log.exists() else []
        reason = (
            first_line(said[0], _REASON_LENGTH)
            if said
            else "ReFrame ended before it wrote its run report"
        )
        raise BadInput(
            "nothing-measured", f"nothing was measured: {reason.removesuffix('.')}; see {log}."
        )
    try:
        session = read_report(report)
    except BadInput:
        if shutil.disk_usage(report.parent).free > ROOM_BYTES:
            raise
        raise BadInput(
            "cannot-write",
            f"cannot write to {report.parent}: free some space, then repeat the "
            "command to continue.",
        ) from None
    took = time.monotonic() - started
    jobs = session.job_seconds
    seconds = min(took, OWN_S + sum(jobs.values())) if jobs and not late else took
    request.clock.waited_s += took - seconds
    return Ran(session, seconds, late, took - seconds)


def dry_run(request: TuneRequest, order: Order) -> tuple[Path, list[Path]]:
    """Write the job scripts of a session; its log, and the scripts."""
    log = request.folder / "dry_run.log"
    _start(request.words(order, request.folder / "dry_run.json", dry=True), log, DRY_RUN_S)
    text = log.read_text(errors="replace")
    stage = _STAGE.search(text)
    scripts = sorted(Path(stage[1]).rglob("rfm_job.sh")) if stage else []
    found = _REASON.search(text) or (None if scripts else _ERROR.search(text))
    if found or not scripts:
        reason = (
            first_line(found[1], _REASON_LENGTH).removesuffix(".") if found else why_unusable(None)
        )
        raise BadInput("nothing-measured", f"cannot write a job: {reason}; see {log}.")
    return log, scripts


def _start(words: Sequence[str], log: Path, limit_s: float, held: Sequence[int] = ()) -> int:
    environ = {**os.environ, "RFM_GENERATE_FILE_REPORTS": "yes"}
    for variable in (session_folder.VARIABLE, "RFM_REPORT_JUNIT"):
        environ.pop(variable, None)
    environ.setdefault("RFM_CONFIG_FILES", str(ROOT / "site_configs" / "settings.py"))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return supervision.run(
            words, log, lambda line: False, environ, held, cwd=ROOT, limit_s=limit_s
        )
    except OSError as error:
        raise BadInput(
            "tool-failed", f"ReFrame could not be started ({error.strerror}); run ci/setup."
        ) from None


def cases_of(session: Session, collectives: Sequence[str]) -> dict[str, Case]:
    """Collective to its case."""
    found: dict[str, Case] = {}
    for case in session.cases:
        name = str(case.entry.get("collective", ""))
        if name not in collectives:
            continue
        if name in found and found[name].partition != case.partition:
            both = f"{found[name].partition} and {case.partition}"
            raise BadInput(
                "ambiguous-name",
                f"several partitions have this fabric ({both}): give SYSTEM:PARTITION.",
            )
        found[name] = case
    return found


def why_unusable(case: Case | None) -> str:
    """Why the numbers of a case are not used; empty if they are."""
    if case is None:
        return f"this system has no such case: see '{REFRAME} -l -v -n {TEST}' for the reason"
    if case.evidence != PROVEN:
        return first_line(case.reason) or f"its evidence is {case.evidence}"
    return ""


# The algorithms that a stack's library has, as its own programs list
# them; the manual's where they cannot be asked.


@dataclass(frozen=True)
class Listed:
    """Algorithms of one collective.

    :param source: where the list is from, as the end of a sentence.
    """

    control: Control
    algorithms: tuple[Algorithm, ...]
    source: str

    def pick(self, words: Sequence[str]) -> tuple[str, ...]:
        """Some of the algorithms, or all where none are named."""
        there = [algorithm.word for algorithm in self.algorithms]
        for word in words:
            if word not in there:
                levels = "; those of two levels need several nodes with several ranks on each"
                rest = levels if self.control.is_of_levels(word) else ""
                lists = f"{self.source} lists {', '.join(there) or 'none'}{rest}"
                raise BadInput(
                    "unknown-name", f"{self.control.collective} has no algorithm {word!r}: {lists}."
                )
        return tuple(words or there)


def list_algorithms(
    stack: Stack, tuning: Tuning, collectives: Sequence[str], *, spread: bool = False
) -> dict[str, Listed]:
    """The algorithms of some collectives.

    :param spread: there are several nodes with several ranks on each, so
        that algorithms of two levels have a meaning.
    """
    texts: dict[tuple[str, ...], str] = {}

    def ask(
        listing: AlgorithmListing, variable: str, known: Sequence[Algorithm]
    ) -> tuple[Algorithm, ...]:
        variable = variable.removeprefix(listing.prefix)
        words = tuple(word.replace("{variable}", variable) for word in listing.program)
        if words not in texts:
            texts[words] = _print_list(stack, words)
        return parse_list(
            texts[words], listing, variable, {algorithm.word: algorithm for algorithm in known}
        )

    found = {}
    for name in collectives:
        control = tuning.find(name)
        source = tuning.source
        algorithms = control.algorithms
        if tuning.listing and (own := ask(tuning.listing, control.variable, control.algorithms)):
            algorithms = own
            source = f"{Path(tuning.listing.program[0]).name} of {stack.name}"
        if spread and (levels := control.levels):
            more = ask(levels.listing, levels.variable, levels.algorithms)
            algorithms = (
                *algorithms,
                *(Algorithm(f"{levels.prefix}{algorithm.word}") for algorithm in more),
            )
        found[name] = Listed(control, algorithms, source)
    return found


def parse_list(
    text: str, listing: AlgorithmListing, variable: str, known: Mapping[str, Algorithm]
) -> tuple[Algorithm, ...]:
    """What a program's text lists of a variable; empty if it says nothing of it.

    :param known: algorithms of the record, which may know a better title.
    """
    if listing.part:
        part = re.search(
            listing.part.replace("{variable}", re.escape(variable)), text, re.MULTILINE
        )
        text = part[1] if part else ""
    found: dict[str, Algorithm] = {}
    for match in re.finditer(
        listing.pattern.replace("{variable}", re.escape(variable)), text, re.MULTILINE
    ):
        groups = match.groupdict()
        if "last" in groups:
            rows = [Algorithm(str(number)) for number in range(1, int(groups["last"]) + 1)]
        else:
            rows = [Algorithm(groups["word"], groups.get("title") or "")]
        found |= {
            row.word: row if row.title else known.get(row.word, row)
            for row in rows
            if row.word not in listing.ignored
        }
    return tuple(found.values())


def _print_list(stack: Stack, words: Sequence[str]) -> str:
    """What a program of the stack prints; empty if it is not there or fails."""
    program = Path(stack.prefix) / words[0]
    if not program.is_file():
        return ""
    environ = metadata.enter(stack)
    command = [str(program), *words[1:]]
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LISTING_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
