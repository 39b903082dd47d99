"""ReFrame sessions as checked data, from ReFrame's SQLite results database or one of its JSON
report files.

Layout of both: ReFrame 4.10, ``reframe/frontend/reporting/{__init__,storage}.py`` and
``schemas/runreport.json``. The database is opened read-only and without ReFrame's runtime, so
reading never changes or creates it, with one exception: SQLite first rolls back what a killed
writer left half written.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.instruments.pairs.pair_values import MAPS, PairMap, read_pair_map
from reframe_tests.harness.printable import one_line, printable_data
from reframe_tests.harness.samples import (
    MISSING,
    NUM_SELECTED,
    Evidence,
    ReferenceCheck,
    Sample,
    read_evidence,
    read_gates,
    read_samples,
)
from reframe_tests.harness.sites.session.session_folder import CONFIRMS as CONFIRMS
from reframe_tests.harness.vocabulary import BadInput

from . import eligibility

#: ``_SqliteStorage.SCHEMA_VERSION`` of ReFrame 4.10.
DATABASE_SCHEMA = "1.0"
#: Major number of ``DATA_VERSION`` in ReFrame 4.10; "major version bumps are expected to break".
DATA_MAJOR = "4"

#: Keys of ``session_info`` that are ReFrame's own (runreport.json);
#: all others came from ``--session-extras``.
SESSION_KEYS = frozenset(
    (
        "cmdline",
        "config_files",
        "data_version",
        "hostname",
        "log_files",
        "num_cases",
        "num_failures",
        "num_aborted",
        "num_skipped",
        NUM_SELECTED,
        "prefix_output",
        "prefix_stage",
        "session_uuid",
        "time_elapsed",
        "time_end",
        "time_end_unix",
        "time_start",
        "time_start_unix",
        "user",
        "uuid",
        "version",
        "workdir",
    )
)

#: What ReFrame writes for a loggable attribute that was never set (``RunReport.update_run_stats``).
UNDEFINED = "<undefined>"
#: ReFrame's options that repeat a whole session, and how short ``argparse`` takes them.
_RERUN = re.compile(r"(?:^|\s)--(?:rer(?:u(?:ns?)?)?|dur(?:a(?:t(?:i(?:on?)?)?)?)?)(?:[\s=]|$)")
#: Behind the id of a case: what the stack measured that was interleaved with it in the same job
#: (``-S paired_stack=``); stored sessions and datasets have this name.
PAIRED = ":rival"
#: Name of the job script ReFrame writes (``Job.create``: ``{name}.sh``, job name ``rfm_job``).
JOB_SCRIPT = "rfm_job.sh"


def _text(key: str) -> property:
    """A text of a case's entry, on one line; ``result``: pass, fail,
    abort, skip, fail_deps, xfail or xpass.
    """
    return property(lambda case: one_line(case._paragraph(key)))


def _asked(name: str, parameter: str = "") -> property:
    """What a case says it ran under; where it ended before that,
    the parameter that was requested.
    """

    def value(case: Case) -> str:
        said = case.condition.get(name)
        return one_line(case._paragraph(parameter or name) if said in (None, "") else str(said))

    return property(value)


def _number(name: str) -> property:
    text = _asked(name)

    def value(case: Case) -> int | None:
        said = text.__get__(case)
        return int(said) if re.fullmatch("[0-9]{1,9}", said) else None

    return property(value)


@dataclass(frozen=True)
class Case:
    """One test case of a session: one benchmark group under one condition, run as one job.

    :param uuid: ReFrame's ``<session>:<run>:<index>``.
    :param run: index of the run in the session; above 0 for retries and reruns.
    :param entry: the test case entry as ReFrame stored it, for everything that has no field here.
    :param condition: what the test says it ran under; empty if it failed before that was known.
    :param pair_map: values of pairs of nodes; ``None`` for all tests but that of them.
    :param proof: evidence; ``None`` if the case got no further than
        its set-up, or is not a measurement.
    """

    uuid: str
    run: int
    entry: Mapping[str, Any]
    condition: Mapping[str, Any]
    samples: tuple[Sample, ...]
    proof: Evidence | None
    gates: tuple[ReferenceCheck, ...]
    pair_map: PairMap | None = None

    def _paragraph(self, key: str) -> str:
        value = _defined(self.entry, key)
        return "" if value is None else str(value)

    system = _text("system")
    partition = _text("partition")
    result = _text("result")
    fail_phase = _text("fail_phase")
    job_id = _text("jobid")
    #: The stack is ReFrame's environment name.
    stack = _asked("stack", "environ")
    group = _asked("group")
    fabric = _asked("fabric")
    pinning = _asked("pinning")
    nodes = _number("nodes")
    #: Processes per node as resolved; ``None`` if the case ended while
    #: it was still a symbol, such as ``numa``.
    ppn = _number("ppn")
    ppn_symbol = _asked("ppn_symbol", "ppn")

    @property
    def name(self) -> str:
        return one_line(self._paragraph("name") or self._paragraph("display_name"))

    @property
    def reason(self) -> str:
        """Why it failed, or why it was skipped, in the test's words."""
        return self._paragraph("fail_reason").strip() or self._paragraph("skip_reason").strip()

    @property
    def line_rate_gbit_per_s(self) -> float | None:
        """What the links of its fabric carry; ``None`` if they
        have no rate, or no number is stored.
        """
        rate = self.condition.get("line_rate_gbit_per_s")
        if isinstance(rate, (int, float)) and not isinstance(rate, bool) and 0 < rate < math.inf:
            return float(rate)
        return None

    @property
    def is_measurement(self) -> bool:
        """True for the tests that owe a proof; False for fixtures
        and other tests in the same session.
        """
        return "condition" in self.entry and not self.entry.get("fixture", False)

    @property
    def evidence(self) -> str:
        """``proven``, ``contradicted``, ``missing`` or ``dry-run``;
        empty for a case that was never to run.
        """
        if self.proof:
            return self.proof.status
        return "" if self.result in ("skip", "fail_deps") else MISSING

    @property
    def nodelist(self) -> str:
        nodes = self.entry.get("job_nodelist")
        return one_line(
            ",".join(map(str, nodes))
            if isinstance(nodes, (list, tuple))
            else self._paragraph("job_nodelist")
        )

    @property
    def directory(self) -> str:
        """Where its files are: ReFrame copies them to the output
        directory only if the test passes.
        """
        return one_line(self._paragraph("outputdir" if self.result == "pass" else "stagedir"))

    @property
    def job_files(self) -> tuple[str, ...]:
        """Names of job script, standard output and standard error inside :attr:`directory`."""
        if not self.job_id:
            return ()
        return (
            JOB_SCRIPT,
            *(
                one_line(name)
                for key in ("job_stdout", "job_stderr")
                if (name := self._paragraph(key))
            ),
        )

    @property
    def key(self) -> tuple[str, str, str]:
        """What ReFrame repeats when it retries a case."""
        return (self.name, self.partition, one_line(self._paragraph("environ")))


#: Columns that decide the outcome of a case, by its id.
_JUDGED = pl.Schema(
    {
        **dict.fromkeys(("case", "result", "fail_phase", "evidence", "group"), pl.String()),
        "superseded": pl.Boolean(),
        "measurement": pl.Boolean(),
        "samples": pl.Int32(),
        "gates": pl.List(pl.Struct({"outcome": pl.String()})),
    }
)

#: The outcome of a case whose miss of a reference is not judged.
UNJUDGED = "unjudged"


@dataclass(frozen=True)
class Session:
    """One ReFrame run.

    :param excused: ids of :func:`.confirmations.excused`: they failed, and are not judged.
    """

    info: Mapping[str, Any]
    cases: tuple[Case, ...]
    excused: frozenset[str] = frozenset()

    @property
    def uuid(self) -> str:
        return str(self.info["uuid"])

    @property
    def started(self) -> datetime:
        """Start, UTC."""
        return datetime.fromtimestamp(float(self.info["time_start_unix"]), timezone.utc)

    @property
    def seconds(self) -> float:
        return float(self.info["time_elapsed"])

    @property
    def labels(self) -> dict[str, str]:
        return {
            one_line(key): one_line(str(value))
            for key, value in sorted(self.info.items())
            if key not in SESSION_KEYS
        }

    @property
    def command_line(self) -> str | None:
        """ReFrame's command line as a shell would take it; ``None`` if it was not stored."""
        text = self.info.get("cmdline")
        return text if isinstance(text, str) else None

    @property
    def measured_with(self) -> Mapping[str, Any]:
        """Commit, Python and versions it was measured with
        (``harness.sites.session.provenance``); empty where no case says.
        """
        recorded = (case.entry.get("measured_with") for case in self.cases)
        return next((facts for facts in recorded if isinstance(facts, Mapping) and facts), {})

    @property
    def systems(self) -> list[str]:
        return sorted({case.system for case in self.cases})

    @cached_property
    def _judged(self) -> dict[str, tuple[str, str | None]]:
        """The outcome of each case, and why it is not
        eligible, as the dataset's are judged.
        """
        rows = [
            {
                **{
                    name: getattr(case, name)
                    for name in ("result", "fail_phase", "evidence", "group")
                },
                "case": case.uuid,
                "superseded": case.uuid in self.superseded,
                "measurement": case.is_measurement,
                "samples": len(case.samples),
                "gates": [{"outcome": gate.outcome} for gate in case.gates],
            }
            for case in self.cases
        ]
        cases = pl.DataFrame(rows, schema=_JUDGED).select(
            "case", eligibility.OUTCOME.alias("outcome"), why=eligibility.WHY_NOT
        )
        return {case: (outcome, why) for case, outcome, why in cases.iter_rows()}

    def outcome(self, case: Case) -> str:
        return UNJUDGED if case.uuid in self.excused else self._judged[case.uuid][0]

    def why_not(self, case: Case) -> str | None:
        """Why a case is not eligible; ``None`` if it is."""
        return self._judged[case.uuid][1]

    def is_proven(self, case: Case) -> bool:
        """Whether a case ran and proved its condition, also if it times nothing."""
        return self.why_not(case) in (None, eligibility.NO_MEASUREMENT)

    @cached_property
    def job_seconds(self) -> dict[str, float]:
        """Seconds each job held its nodes, by the id of its case; no entry
        where nothing was submitted or run to its end.

        ReFrame 4.10 (``frontend/reporting/__init__.py``, ``update_run_stats``) stores the time from
        submission to the end (``time_run``) and, where the scheduler knows it, the end itself. Test
        jobs do not share nodes, so none began before the previous one on any of its nodes had
        ended. Waiting for other jobs is excluded if the session has the start of the script
        (``job_started``); its node's clock is trusted as far as it is consistent.
        """

        def number(value: Any) -> float | None:
            good = (
                isinstance(value, (int, float))
                and not isinstance(value, bool)
                and math.isfinite(value)
                and value >= 0
            )
            return float(value) if good else None

        found: dict[str, float] = {}
        busy_until: dict[str, float] = {}
        # What was interrupted may have waited all the time.
        own = [
            case
            for case in self.cases
            if not case.uuid.endswith(PAIRED) and case.result != eligibility.INTERRUPTED
        ]
        jobs = [case for case in own if number(case.entry.get("time_run")) is not None]
        for case in sorted(
            jobs, key=lambda case: number(case.entry.get("job_completion_time_unix")) or 0.0
        ):
            took = number(case.entry["time_run"]) or 0.0
            end = number(case.entry.get("job_completion_time_unix"))
            nodes = [name for name in case.nodelist.split(",") if name]
            if end is not None:
                submitted = end - took
                try:
                    began = datetime.fromisoformat(
                        str(case.entry.get("job_started", "")).replace("Z", "+00:00")
                    ).timestamp()
                except ValueError:
                    began = submitted
                began = began if submitted <= began <= end else submitted
                took = max(end - max([began, *(busy_until.get(name, 0.0) for name in nodes)]), 0.0)
                busy_until.update(dict.fromkeys(nodes, end))
            found[case.uuid] = took
        return found

    @cached_property
    def superseded(self) -> frozenset[str]:
        """Cases that failed and were run again for that later in the
        same session (``--max-retries``).

        With ``--reruns`` and ``--duration`` all cases run again,
        whatever became of them: each run counts.
        """
        if _RERUN.search(self.command_line or ""):
            return frozenset()
        last = {case.key: case.run for case in self.cases}
        return frozenset(
            case.uuid
            for case in self.cases
            if case.result in ("fail", "abort") and case.run < last[case.key]
        )


#: Half of a pair that stands for one character; alone it is not text and cannot be stored or shown.
_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
#: What :func:`printable_data` changes, as it is in JSON: most reports have none.
_CONTROLS = re.compile(
    r"\\[bfr]|\\u00(?:[01]|7[fF]|[89])|\\u20(?:2[89a-eA-E]|6[6-9])|\\u[fF]{3}[eEfF]"
    r"|[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffe\uffff]"
)
#: Last second a date can be made of (year 9999).
_LAST_SECOND = 253402300799.0


def _decode(text: Any, where: str) -> Mapping[str, Any]:
    """Decode one report; its texts are fit for a terminal, whatever a program printed into them."""
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        report = json.loads(_LONE_SURROGATE.sub(r"\\ufffd", text) if "\\u" in text else text)
        report = printable_data(report) if _CONTROLS.search(text) else report
    except (AttributeError, TypeError, ValueError, RecursionError) as err:
        raise BadInput(
            "file-damaged",
            f"{where} is truncated or damaged ({err}): remove that session or restore the file.",
        ) from None
    info = report.get("session_info") if isinstance(report, dict) else None
    if not isinstance(info, dict) or not isinstance(report.get("runs"), list):
        raise BadInput(
            "file-damaged", f"{where} is not a ReFrame run report: it lacks session_info or runs."
        )
    missing = {"uuid", "time_start_unix", "time_elapsed", "data_version"} - info.keys()
    if missing:
        raise BadInput(
            "file-damaged",
            f"{where} lacks session_info.{min(missing)}: it is not a complete ReFrame run report.",
        )
    for key in ("time_start_unix", "time_elapsed"):
        value = info[key]
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 <= value <= _LAST_SECOND
        ):
            raise BadInput(
                "file-damaged",
                f"{where}: session_info.{key} is {value!r} instead of a number of seconds: restore "
                "the file.",
            )
    if str(info["data_version"]).split(".")[0] != DATA_MAJOR:
        raise BadInput(
            "other-release",
            f"{where} has report data version {info['data_version']} instead of {DATA_MAJOR}.x: "
            "use the ReFrame release of pyproject.toml.",
        )
    return report


def _cases(report: Mapping[str, Any], where: str, maps: Sequence[Path]) -> Iterator[Case]:
    for number, run in enumerate(report["runs"]):
        for entry in run["testcases"]:
            place = f"{where}, test case {entry.get('uuid')} ({entry.get('name')})"
            condition = entry.get("condition")
            if condition in (None, UNDEFINED):
                condition = {}
            if not isinstance(condition, dict):
                raise BadInput(
                    "file-damaged",
                    f"{place}: condition is {type(condition).__name__}, expected a mapping.",
                )
            if any(not isinstance(entry.get(key), str) for key in ("uuid", "result", "system")):
                raise BadInput(
                    "file-damaged",
                    f"{place} lacks uuid, result or system: it is not a complete ReFrame test "
                    "case.",
                )
            case = Case(
                entry["uuid"],
                number,
                entry,
                condition,
                samples=read_samples(_defined(entry, "samples"), place),
                proof=read_evidence(_defined(entry, "proof"), place),
                gates=read_gates(_defined(entry, "gates"), place),
                pair_map=read_pair_map(_defined(entry, "pair_map"), place, maps),
            )
            yield case
            yield from _paired(case, place)


#: Of a case that failed for references which another stack missed.
_REACHED = {"result": "pass", "fail_phase": None, "fail_reason": None}


def _paired(case: Case, place: str) -> Iterator[Case]:
    """The other stack of a job with two interleaved stacks, as a
    case of its own; it has no gates, so what the job's own stack missed is no failure of it.
    """
    run = _defined(case.entry, "rival_run")
    if run in (None, {}):
        return
    if not isinstance(run, dict) or not isinstance(run.get("condition"), dict):
        raise BadInput("file-damaged", f"{place}: rival_run is not a mapping with a condition.")
    missed = (case.result, case.fail_phase) == ("fail", "performance")
    yield replace(
        case,
        uuid=f"{case.uuid}{PAIRED}",
        entry={
            **case.entry,
            "environ": run["condition"].get("stack"),
            "rival_run": None,
            # The files of the job stay where they are.
            **({**_REACHED, "outputdir": case.entry.get("stagedir")} if missed else {}),
        },
        condition=run["condition"],
        samples=read_samples(run.get("samples"), f"{place}, paired stack"),
        proof=read_evidence(run.get("proof"), f"{place}, paired stack"),
        gates=(),
    )


def _defined(entry: Mapping[str, Any], key: str) -> Any:
    value = entry.get(key)
    return None if value == UNDEFINED else value


def decode(text: Any, where: str, maps: Sequence[Path] = ()) -> Session:
    """A session from the JSON of a run report.

    :param maps: folders where the values of its maps of pairs may lie.
    """
    report = _decode(text, where)
    try:
        return Session(info=report["session_info"], cases=tuple(_cases(report, where, maps)))
    except (AttributeError, KeyError, TypeError) as err:
        raise BadInput(
            "file-damaged",
            f"{where} is not a complete ReFrame run report ({type(err).__name__}: {err}).",
        ) from None


def encode(session: Session) -> str:
    """A session as the JSON of a run report: :func:`decode` makes the same of it."""
    runs: list[dict[str, Any]] = [
        {"testcases": []} for _ in range(1 + max((case.run for case in session.cases), default=-1))
    ]
    for case in session.cases:
        if not case.uuid.endswith(PAIRED):
            runs[case.run]["testcases"].append(case.entry)
    return json.dumps({"session_info": session.info, "runs": runs}, separators=(",", ":"))


def read_report(path: str | Path) -> Session:
    """Read one JSON report file of ReFrame (``general/report_file``)."""
    path = Path(path)
    try:
        maps = [folder / MAPS for folder in path.absolute().parents[:2]]
        return decode(path.read_bytes(), f"report file {path}", maps)
    except OSError as err:
        raise BadInput(
            "file-unreadable", f"cannot read report file {path}: {err.strerror}."
        ) from None


def _rows(path: Path, query: str, arguments: Iterable[str] = ()) -> list[tuple[Any, ...]]:
    if not path.is_file():
        raise BadInput(
            "session-missing",
            f"there is no results database {path}: run `reframe -c reframe_tests -r` first, with "
            "results storage on.",
        )
    problem: sqlite3.Error | None = None
    # A writer that was killed in the middle leaves a journal; only who may write can undo what it
    # left half done (SQLite, "Atomic Commit In SQLite", section 4; result code
    # SQLITE_READONLY_ROLLBACK).
    for mode in ("ro", "rw"):
        where = f"{path.absolute().as_uri()}?mode={mode}"
        try:  # SQLite's own locks keep it from seeing a half-written transaction
            with closing(sqlite3.connect(where, uri=True, timeout=60)) as connection:
                version = connection.execute("SELECT schema_version FROM metadata").fetchone()
                if version is None or version[0] != DATABASE_SCHEMA:
                    raise BadInput(
                        "not-comparable",
                        f"results database {path} has schema {version and version[0]} instead of "
                        f"{DATABASE_SCHEMA}: use the ReFrame release named in pyproject.toml.",
                    )
                return connection.execute(query, tuple(arguments)).fetchall()
        except sqlite3.Error as err:
            problem = err
            if "readonly" not in str(err):
                break
    raise BadInput(
        "file-damaged",
        f"{path} is not a readable ReFrame results database ({problem}): restore it from a copy, "
        "or move it away.",
    ) from None


def session_starts(path: str | Path) -> dict[str, datetime]:
    """Session ids of a results database with their start (UTC),
    oldest first; no report is decoded.
    """
    rows = _rows(
        Path(path),
        "SELECT uuid, session_start_unix FROM sessions ORDER BY session_start_unix, uuid",
    )
    # for a start that is no time, so that it is not overlooked as old
    now = datetime.now(timezone.utc)

    def started(seconds: Any) -> datetime:
        good = isinstance(seconds, (int, float)) and 0 <= seconds <= _LAST_SECOND
        return datetime.fromtimestamp(seconds, timezone.utc) if good else now

    return {str(uuid): started(seconds) for uuid, seconds in rows}


def systems_of(path: str | Path, uuid: str) -> tuple[str, ...]:
    """Systems of a session as the database's index of test cases
    has them; empty if it has none.
    """
    rows = _rows(
        Path(path),
        "SELECT DISTINCT system FROM testcases WHERE session_uuid = ? ORDER BY system",
        [uuid],
    )
    return tuple(str(row[0]) for row in rows)


def list_sessions(path: str | Path) -> list[str]:
    """Session ids in a results database, oldest first."""
    return list(session_starts(path))


def read_session(path: str | Path, uuid: str | None = None) -> Session:
    """Read one session from a results database.

    :param uuid: session id or a unique beginning of one; if ``None`` the
        newest session that confirms no other one.
    """
    path = Path(path)
    known = list_sessions(path)
    if uuid is None:
        newest = (read_session(path, identity) for identity in reversed(known))
        if session := next((session for session in newest if CONFIRMS not in session.labels), None):
            return session
    found = [] if uuid is None else [identity for identity in known if identity.startswith(uuid)]
    if not found:
        raise BadInput(
            "session-missing",
            f"results database {path} holds no session"
            + (f" {uuid}: it has {len(known)} others." if uuid else "."),
        )
    if len(found) > 1:
        raise BadInput(
            "ambiguous-name",
            f"{uuid} is the beginning of {len(found)} sessions in {path}: give more of the id.",
        )
    ((blob,),) = _rows(path, "SELECT json_blob FROM sessions WHERE uuid = ?", found)
    session = decode(blob, f"session {found[0]} in {path}", [path.absolute().parent / MAPS])
    if session.uuid != found[0]:
        raise BadInput(
            "not-comparable",
            f"session {found[0]} in {path} holds the report of session {session.uuid}.",
        )
    return session


def label_of(session: Session) -> str:
    """Labels as ``k=v`` text, or the beginning of the session id if there are none."""
    return ", ".join(f"{key}={value}" for key, value in session.labels.items()) or session.uuid[:8]
