"""From the files of a job to samples with proof: the one place where numbers are accepted or
rejected.

Pure: reads a directory, changes nothing, does not know ReFrame. A launch whose output or evidence
is missing, broken or against the condition yields sentences; a measurement with any sentence is not
a result, but its numbers are stored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...evidence import checks, data_check, gpu_use, link_state, rank_records, traffic
from ...evidence.rank_records import EvidenceError, RankEvidence
from ...printable import open_environment, printable, printable_data
from ...samples import CONTRADICTED, MISSING, PROVEN, DeviceTraffic, Evidence, Sample
from ...sites import references
from ...stacks.stack import judge_modules
from ...suites import catalogue, preamble, reader
from ...suites.benchmark import SINGLE, OutputError, Record
from ...suites.model import Facts
from ...vocabulary import LINK_BANDWIDTHS, QUANTITIES
from ..job import batch, script, transports
from ..job.condition import Condition
from ..job.script import ENDLESS_BYTES, beginning_of, end_of
from .error_excerpt import excerpt, explain

#: Number of the repeat in findings on the job itself.
WHOLE_JOB = 0
#: First line of what Hydra says on stdout of ranks that were killed (MPICH 4.3,
#: src/pm/hydra/mpiexec/pmiserv_cb.c and lib/utils/signals.c; Intel MPI 2021 alike): the benchmark
#: printed nothing after it.
_FOOTER = re.compile(
    r"^(?:=   BAD TERMINATION OF ONE OF YOUR APPLICATION"
    r"|YOUR APPLICATION TERMINATED WITH THE EXIT STRING)",
    re.M,
)
_NOT_ENDED = "the job ended before this launch did; its output is not used."
#: Exit status of a launch after which the job starts nothing more, and what the launch did.
WHY_STOPPED = {script.TIMED_OUT: "timed out", script.TOO_MUCH_OUTPUT: "printed without end"}


class Finding(NamedTuple):
    """Something missing or different from the request in one repeat of one launch; repeat 0 means
    the whole job.
    """

    launch: str
    repeat: int
    status: str
    sentence: str


@dataclass
class JobOutcome:
    """What one job gave.

    :param repeats: executions of each launch that were requested.
    :param samples: every metric that was printed, also when the proof fails.
    :param findings: contradictions and absences, in the order they were found.
    :param evidence: the facts, for report and database.
    :param heard: what each repeat of each launch left.
    :param not_started: launches that the job never came to, as it stopped at another.
    :param checked: the note on the check of received data, and ``unchecked`` that there was none;
        both are among the evidence's notes.
    :param network: where nothing was forced, what was taken (:attr:`traffic.Choice.network`).
    """

    repeats: int
    samples: list[Sample] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    evidence: Evidence | None = None
    network: str = ""
    heard: list[LaunchEvidence] = field(default_factory=list)
    not_started: set[str] = field(default_factory=set)
    checked: str = ""
    unchecked: str = ""

    def add(self, launch: str, repeat: int, status: str, sentences: Iterable[str]) -> None:
        """Add what was found in one repeat of one launch; sentences quote
        programs, whose colour codes end here.
        """
        self.findings += [
            Finding(launch, repeat, status, printable(sentence)) for sentence in sentences
        ]

    def take(self, part: JobOutcome) -> None:
        """Add what a part of the job gave, whose evidence is kept elsewhere."""
        self.samples += part.samples
        self.findings += [finding for finding in part.findings if finding not in self.findings]
        self.network = self.network or part.network

    def join(
        self, first: Evidence, evidence: Iterable[Evidence], notes: Iterable[str], **changes: Any
    ) -> None:
        """Make the evidence of all from that of one part, the times of
        all parts and the notes that are left.
        """
        self.evidence = replace(
            first,
            status=self.status,
            sentences=tuple(self.sentences),
            seconds=tuple(seconds for part in evidence for seconds in part.seconds),
            notes=tuple(dict.fromkeys(notes)),
            **changes,
        )

    @property
    def status(self) -> str:
        statuses = {finding.status for finding in self.findings}
        return next((status for status in (CONTRADICTED, MISSING) if status in statuses), PROVEN)

    @property
    def proof(self) -> dict[str, Any]:
        return self.evidence.as_dict() if self.evidence else {}

    @property
    def added(self) -> dict[str, str]:
        """What the run added to its condition: the network, where none was forced."""
        return {"network": self.network} if self.network else {}

    @property
    def sentences(self) -> list[str]:
        """One sentence per finding, the job's end and contradictions first; findings of all repeats
        are merged.
        """
        repeats: dict[tuple[str, str, str], list[int]] = {}
        for launch, repeat, status, sentence in self.findings:
            repeats.setdefault((status, launch, sentence), []).append(repeat)
        # The end of the job first, since it explains what follows.
        ordered = sorted(
            repeats.items(), key=lambda item: (item[1] != [WHOLE_JOB], item[0][0] != CONTRADICTED)
        )
        return [
            f"{launch}{self._which(numbers)}: {sentence}"
            for (_, launch, sentence), numbers in ordered
        ]

    def _which(self, numbers: Sequence[int]) -> str:
        if len(numbers) == self.repeats or numbers == [WHOLE_JOB]:
            return ""
        return (
            f", repeat{'s' if len(numbers) > 1 else ''} {checks.format_cpus(numbers)} of "
            f"{self.repeats}"
        )


@dataclass
class LaunchEvidence:
    """What the ranks of one repeat of one launch recorded, and what follows
    from it; without ranks nothing was recorded.
    """

    launch: str
    repeat: int
    records: list[Record]
    ranks: Sequence[RankEvidence] = ()
    taken: traffic.Choice = field(default_factory=traffic.Choice)
    links: link_state.LinkFinding = field(default_factory=link_state.LinkFinding)
    use: traffic.UseFinding = field(default_factory=traffic.UseFinding)
    notes: list[str] = field(default_factory=list)


def evaluate(
    condition: Condition,
    launches: Sequence[catalogue.Launch],
    repeats: int,
    limit_s: int,
    directory: Path,
    end: batch.JobEnd | None = None,
    job_key: str = "",
) -> JobOutcome:
    """Read and judge everything a job wrote into its directory.

    :param limit_s: seconds each launch was given.
    :param end: how the scheduler says the job ended.
    :param job_key: what nonces of the job begin with.
    """
    outcome = JobOutcome(repeats)
    end = end or batch.JobEnd()
    set_aside = Counter[str]()
    outcome.add(end.name, WHOLE_JOB, MISSING, batch.judge(end))
    outcome.add(end.name, WHOLE_JOB, *judge_modules(condition.stack, directory))
    log = beginning_of(directory / script.LAUNCH_LOG)
    statuses = script.read_launch_log(log)
    times = script.read_launch_times(log)
    marks = script.read_launch_marks(log)
    outcome.add(end.name, WHOLE_JOB, *script.judge_digests(condition.stack, launches, directory))
    outputs = [script.files_of(*ended).output for ended in statuses]
    outcome.add(end.name, WHOLE_JOB, *script.judge_outputs(outputs, directory))
    stopped = next(
        (
            f"{name}.{at} {WHY_STOPPED[status]}"
            for (name, at), status in statuses.items()
            if status in WHY_STOPPED
        ),
        "",
    )
    for repeat, launch in product(range(1, repeats + 1), launches):
        if launch.checks_data and repeat > 1:
            continue
        where = WHOLE_JOB if launch.checks_data else repeat
        files = script.files_of(launch.name, repeat)
        key = (launch.name, repeat)
        status = statuses.get(key)
        printed = _read(condition, launch, files, directory, status, times.get(key), set_aside)
        broken = printed.broken
        if launch.checks_data:
            wrong, broken = data_check.judge(printed.text, condition.ranks)
            outcome.add(launch.name, where, CONTRADICTED, wrong)
            memory = condition.fabric.memory
            outcome.checked = data_check.summarise(printed.text, memory, launches)
        # A launch that ended badly is reported by its end, not also
        # by the hole it left in its output.
        ended = _judge_end(status, limit_s, directory, files, stopped)
        if status is None and stopped:
            outcome.not_started.add(launch.name)
        outcome.add(launch.name, where, MISSING, [ended] if ended else broken)
        whole = not ended and not broken
        if whole:
            outcome.add(launch.name, where, MISSING, _silent_ranks(condition, launch, printed))
        heard = _hear(outcome, condition, launch, where, printed, directory / files.evidence, whole)
        if mark := marks.get(key):
            found = _check_mark(mark, job_key, heard, outcome.heard)
            outcome.add(launch.name, where, CONTRADICTED, found)
        if not launch.checks_data:
            outcome.heard.append(heard)
        above = _above_line_rate(condition, launch, printed.records)
        outcome.add(launch.name, where, CONTRADICTED, above)
    for launch in (launch for launch in launches if not launch.checks_data):
        outcome.samples += _collect(
            launch, [heard.records for heard in outcome.heard if heard.launch == launch.name]
        )
    if outcome.status == MISSING:
        outcome.add(end.name, WHOLE_JOB, MISSING, batch.judge_room(directory))
    taken = [heard.taken for heard in outcome.heard]
    outcome.network = traffic.name_networks(choice.network for choice in taken)
    outcome.add(end.name, WHOLE_JOB, MISSING, traffic.judge_case(condition.fabric, taken))
    took = f", took {outcome.network}" if outcome.network else ""
    evidence = _evidence(outcome, f"{condition.setting.summary}{took}")
    notes = _notes(outcome, evidence, condition.stack.name, launches)
    if set_aside:
        notes.append(f"ignored around the benchmarks' output: {preamble.say(set_aside)}")
    starts = beginning_of(directory / script.START_LOG).splitlines()
    if len(starts) > 1:
        notes.insert(
            0,
            f"{end.name} was started {len(starts)} times ({', '.join(starts)}); only the last run "
            "counts",
        )
    outcome.evidence = replace(evidence, notes=tuple(notes))
    return outcome


class _Printed(NamedTuple):
    """What one repeat of a launch printed.

    :param text: without debug lines, which are ``debug``.
    :param spoke: ranks that left a file of debug lines of their own.
    :param broken: why there are no records, a sentence.
    """

    text: str
    debug: str
    spoke: int
    records: list[Record]
    broken: list[str]


def _read(
    condition: Condition,
    launch: catalogue.Launch,
    files: script.LaunchFiles,
    directory: Path,
    status: int | None,
    seconds: float | None,
    set_aside: Counter[str],
) -> _Printed:
    """Read what a launch left.

    :param set_aside: lines around the output of benchmarks, counted here.
    """
    most = script.MOST_OUTPUT_BYTES + launch.more_bytes
    most = ENDLESS_BYTES if status == script.TOO_MUCH_OUTPUT else most
    text, debug = transports.strip_debug(
        condition.stack, beginning_of(directory / files.output, most)
    )
    # NCCL writes a file for each rank.
    of_ranks = [beginning_of(path, most) for path in sorted(directory.glob(f"{files.debug}.*"))]
    logs = [beginning_of(directory / name, most) for name in (files.debug, files.error)]
    records: list[Record] = []
    broken: list[str] = []
    if launch.expected and not launch.checks_data:
        source = files.result if launch.result else files.output
        if launch.result:
            result = beginning_of(directory / files.result, most)
            text = text + result if result.strip() else ""
        try:
            records = _parse(launch, text, source, set_aside, seconds)
        except OutputError as error:
            broken = [str(error)]
    spoke = sum(map(bool, of_ranks))
    return _Printed(text, "\n".join([debug, *of_ranks, *logs]), spoke, records, broken)


def _silent_ranks(condition: Condition, launch: catalogue.Launch, printed: _Printed) -> list[str]:
    """A sentence where not every rank left the debug lines of a suite's library beside MPI."""
    library = catalogue.SUITES[launch.suite].library
    if not library or not condition.debug_env or printed.spoke == condition.ranks:
        return []
    return [
        f"{library.title} wrote debug lines on {printed.spoke} of {condition.ranks} ranks; "
        "evidence missing."
    ]


def _check_mark(
    mark: script.LaunchMark, job_key: str, heard: LaunchEvidence, others: Iterable[LaunchEvidence]
) -> list[str]:
    """Whether what ranks recorded is of this launch, and not of another one.

    :param mark: what the job wrote of the launch.
    """
    nonce = mark.nonce if mark.nonce.startswith(job_key) else ""
    known = {f"{other.launch}, repeat {other.repeat}": other.ranks for other in others}
    return checks.check_launch(heard.ranks, nonce, mark.boot_id, (mark.begun, mark.ended), known)


def _notes(
    outcome: JobOutcome, evidence: Evidence, stack: str, launches: Sequence[catalogue.Launch]
) -> list[str]:
    """The evidence's notes, and whether received data were checked."""
    timed = [launch for launch in launches if launch.expected]
    if not timed:
        return list(evidence.notes)
    checked = outcome.checked
    if not checked and all(launch.compares_data for launch in timed):
        checked = "received data were checked while being timed"
    elif not checked:
        outcome.unchecked = f"received data were not checked: {stack} has no mpi4py"
    return [*evidence.notes, checked or outcome.unchecked]


def _judge_end(
    status: int | None, limit_s: int, directory: Path, files: script.LaunchFiles, stopped: str
) -> str:
    """Sentence on how a launch ended; empty if it ended well.

    :param stopped: the launch, with its repeat, after which the job
        started nothing more, and what it did.
    """
    if status == 0:
        return ""
    if status is None:
        return f"not started, because {stopped}." if stopped else _NOT_ENDED
    error = excerpt(beginning_of(directory / files.error))
    if status not in WHY_STOPPED:
        end = end_of(directory / files.output)
        # IMB prints what is wrong with its arguments to its output, and Hydra which signal it was.
        printed = [
            line
            for line in f"{beginning_of(directory / files.output)}\n{end}".splitlines()
            if line.startswith(("ERROR", "=   KILLED BY SIGNAL"))
        ]
        # nccl-tests print there why they end.
        error = explain(end) or error or excerpt("\n".join(printed))
        return (
            "ended with exit status "
            f"{status}{f'; it said: {error}' if error else ' and said nothing'}."
        )
    streams = [directory / name for name in (files.output, files.error)]
    kept = max((path.stat().st_size for path in streams if path.exists()), default=0)
    description = f"printed more than {kept >> 20} MiB and was therefore ended"
    if status == script.TIMED_OUT:
        description = f"timed out after {limit_s} s, the test's limit_s"
    ranks, damaged = rank_records.read_all(directory / files.evidence)
    if not (ranks or damaged):
        error_text = f"; it said: {error}" if error else ""
        return f"{description}; no rank left evidence, so none completed MPI_Init{error_text}."
    text = _FOOTER.split(end_of(directory / files.output), maxsplit=1)[0]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    last = next((line for line in reversed(lines) if line.strip("#-= ")), "")
    description += f"; its last line was: {last[:120]}" if last else "; it had printed nothing"
    # UCX 1.13 over TCP hangs there now and then (openucx/ucx, issue 8738).
    finalized = sum(rank.finalize is not None for rank in ranks)
    return description + (
        f"; {finalized} of its ranks had called MPI_Finalize by then." if finalized else "."
    )


def _parse(
    launch: catalogue.Launch,
    printed: str,
    source: str,
    set_aside: Counter[str],
    seconds: float | None,
) -> list[Record]:
    """Records of one output.

    :param set_aside: counts, by whose they are, the lines that stood before the benchmark's own.
    :raises OutputError: with the sentence why it is not used.
    """
    if launch.result and not printed.strip():
        sentence = (
            f"{source}: {launch.binary} left no {launch.result} in the job's directory; run it "
            "again."
        )
        raise OutputError("file-missing", sentence)
    reading = reader.read(printed, source=source, parse=launch.parse)
    set_aside.update(reading.set_aside)
    if launch.options:
        reader.check_arguments(printed, launch, source=source)
    return fill_launch_time(
        launch, reader.complete(reading.records, launch.expected, source=source), seconds
    )


def fill_launch_time(
    launch: catalogue.Launch, records: Sequence[Record], seconds: float | None
) -> list[Record]:
    """The records of one launch, each with the time of the launch where that
    is what is measured (``Benchmark.launch_time``).

    It is what ``time mpirun ...`` shows: from the start of the launcher to its end, with the ranks'
    way in and out of MPI, and with the recorder that each rank is started through.

    :param seconds: of :func:`script.read_launch_times`; ``None`` if the job left none.
    :raises OutputError: if a benchmark has that time and the job left none, or nothing.
    """
    names = {row.name: row.launch_time for row in launch.rows() if row.launch_time}
    if not names:
        return list(records)
    if not seconds:
        raise OutputError(
            "session-missing",
            f"the job left no time of launch {launch.name}, the measured quantity; run it again.",
        )
    own = {name: {quantity: seconds} for name, quantity in names.items()}
    return [
        replace(record, values={**record.values, **own.get(record.benchmark, {})})
        for record in records
    ]


def _hear(
    outcome: JobOutcome,
    condition: Condition,
    launch: catalogue.Launch,
    repeat: int,
    printed: _Printed,
    directory: Path,
    whole: bool,
) -> LaunchEvidence:
    """Hear the ranks of one repeat of one launch; adds sentences to the outcome.

    :param whole: the launch ended well and printed everything; only then
        must its traffic and debug lines be whole.
    """
    records = printed.records
    facts = catalogue.SUITES[launch.suite].facts(printed.text) if records else Facts()
    heard = LaunchEvidence(launch.name, repeat, records)
    try:
        ranks = heard.ranks = rank_records.read(directory)
    except EvidenceError as error:
        outcome.add(launch.name, repeat, MISSING, [str(error)])
        return heard
    absent = checks.check_presence(ranks, condition.nodes, condition.ppn)
    outcome.add(launch.name, repeat, MISSING, absent if whole or ranks else [])
    if not ranks:
        return heard
    wrong = checks.check_library(ranks, condition.stack)
    wrong += checks.check_program(ranks, condition.stack, launch.program(condition.stack)[0])
    wrong += checks.check_placement(
        ranks,
        condition.pinning,
        condition.core_list,
        core_of=condition.core_of,
        may_share=condition.may_share,
    )
    wrong += checks.check_clocks(ranks)
    wrong += rank_records.check_hosts(ranks, facts.hosts)
    wrong += checks.check_settings(ranks, condition.asked_env, condition.launcher_env)
    # What compares the data keeps them in host memory.
    gpus = gpu_use.GpuFinding()
    if not launch.checks_data:
        gpus = gpu_use.check_gpus(ranks, condition.fabric, condition.pinning, facts.platform)
    wrong += gpus.sentences
    fabric = condition.fabric
    least = least_bytes(condition, launch, records)
    complete = whole and not absent
    if complete and not condition.forced:
        heard.taken = traffic.find_choice(traffic.node_traffic(ranks), fabric, least)
        fabric = heard.taken.fabric or fabric
    heard.links = link_state.check_links(ranks, fabric)
    carried = traffic.TrafficCheck()
    striping = traffic.TrafficCheck()
    uncounted = list[str]()
    if complete:
        uncounted = name_uncounted(condition, launch, records)
        if condition.forced:
            carried = traffic.check_traffic(ranks, fabric, least)
        # Collectives cut their messages up: how large the parts are is unknown.
        large = [
            record
            for record in records
            if launch.balanced and (record.message_bytes or 0) >= traffic.STRIPED_FROM_BYTES
        ]
        alone = _fastest_alone(launch, large)
        striping = traffic.check_stripes(
            ranks, fabric, least_bytes(condition, launch, large), alone
        )
        heard.use = traffic.check_use(
            ranks, fabric, balanced=launch.balanced, files=launch.uses_files
        )
    wrong += [
        *heard.taken.sentences,
        *heard.links.sentences,
        *carried.sentences,
        *striping.sentences,
        *heard.use.sentences,
    ]
    if complete and condition.ranks > 1:  # a rank alone has nobody to open a transport to
        # What the ranks had in their environment, which the user may
        # have set otherwise than the table.
        asked = condition.setting.env
        setting = replace(
            condition.setting,
            env={name: ranks[0].environment.get(name, asked[name]) for name in asked},
        )
        wrong += transports.check_proofs(
            setting, printed.debug, {path for rank in ranks for path in rank.mapped}
        )
    outcome.add(launch.name, repeat, CONTRADICTED, wrong)
    library = catalogue.SUITES[launch.suite].library
    heard.notes = [
        *(library.notes(printed.debug) if library else condition.setting.notes(printed.debug)),
        *carried.notes,
        *checks.notes(ranks),
        *gpus.notes,
        *heard.taken.notes,
        *facts.notes,
        *heard.links.notes,
        *striping.notes,
        *heard.use.notes,
        *uncounted,
    ]
    return heard


def _fastest_alone(launch: catalogue.Launch, records: Iterable[Record]) -> float | None:
    """The largest bandwidth in MB/s of messages that a pair sends
    one at a time; ``None`` without any.

    Of messages that are compared with the line rate: smaller ones may be faster for a moment.
    """
    rows = {row.name: row for row in launch.rows() if SINGLE in row.cascade}
    alone = [
        record.values.get("bandwidth_mb_per_s") or size / record.values["latency_us"]
        for record in records
        for size in [record.message_bytes or 0]
        if record.benchmark in rows and size >= rows[record.benchmark].line_rate_from_bytes
    ]
    return max(alone, default=None)


def _above_line_rate(
    condition: Condition, launch: catalogue.Launch, records: Iterable[Record]
) -> list[str]:
    """Sentence on the one bandwidth of a launch that exceeds the
    fabric's line rate most, if one does.
    """
    rows = {row.name: row for row in launch.rows()}
    bandwidths = [
        (record.values[quantity] * groups / links, rows[record.benchmark].directions, links, record)
        for record in records
        for quantity in LINK_BANDWIDTHS
        for links, groups in [
            (rows[record.benchmark].carried(ranks_of(record), condition.nodes), groups_of(record))
        ]
        if quantity in record.values
        and rows[record.benchmark].directions
        and (record.message_bytes or 0) >= rows[record.benchmark].line_rate_from_bytes
    ]
    if not bandwidths:
        return []
    value, directions, links, record = max(bandwidths, key=lambda row: row[0] / row[1])
    carried = f" on each of {links:g} links" if links > 1 else ""
    carried = " in what a node must send" if rows[record.benchmark].most_over_link else carried
    description = f"{record.benchmark} of {record.message_bytes} bytes{carried}"
    sentence = references.above_line_rate(description, value, condition.fabric, directions)
    return [sentence] if sentence else []


def metric_of(sample: Sample) -> str:
    return catalogue.metric_name(
        sample.benchmark, QUANTITIES[sample.quantity].short, sample.message_bytes, sample.variant
    )


def _collect(launch: catalogue.Launch, repeats: Sequence[Sequence[Record]]) -> list[Sample]:
    """Samples of one launch: the repeats of each metric side by side, in
    the order of the first repeat that has them.
    """
    order: dict[tuple[Any, ...], Record] = {}
    values: dict[tuple[Any, ...], dict[str, list[float | None]]] = {}
    for index, records in enumerate(repeats):
        for record in records:
            key = (
                record.benchmark,
                record.variant,
                record.ranks,
                record.groups,
                record.message_bytes,
            )
            order.setdefault(key, record)
            columns = values.setdefault(key, {})
            for quantity, value in record.values.items():
                columns.setdefault(quantity, [None] * len(repeats))[index] = float(value)
    rows = {row.name: row for row in launch.rows()}
    return [
        Sample(
            suite=record.suite,
            benchmark=record.benchmark,
            group=rows[record.benchmark].group,
            ranks=ranks_of(record),
            groups=record.groups,
            variant=record.variant,
            message_bytes=record.message_bytes,
            repetitions=record.repetitions,
            quantity=quantity,
            values=tuple(column),
        )
        for key, record in order.items()
        for quantity, column in values[key].items()
    ]


def _evidence(outcome: JobOutcome, setting_summary: str) -> Evidence:
    recorded = [heard for heard in outcome.heard if heard.ranks]
    ranks = recorded[0].ranks if recorded else ()
    first = ranks[0] if ranks else None
    shared = (
        set.intersection(*(set(rank.environment.items()) for rank in ranks)) if ranks else set()
    )
    errors = [
        {"launch": heard.launch, "repeat": heard.repeat, **row}
        for heard in recorded
        for row in heard.links.errors
    ]
    taken = [
        [rank.seconds for rank in heard.ranks if rank.seconds is not None] for heard in recorded
    ]
    # Each note once, with the numbers of its first occurrence.
    notes: dict[str, str] = {}
    for note in (note for heard in recorded for note in heard.notes):
        notes.setdefault(re.sub(r"[0-9.]+", "#", note), note)
    return Evidence(
        status=outcome.status,
        sentences=tuple(outcome.sentences),
        notes=tuple(map(printable, (*notes.values(), *link_state.error_notes(errors)))),
        ranks=tuple(
            printable_data({**rank_row(rank), **gpu})
            for rank, gpu in zip(ranks, gpu_use.rows_of(ranks), strict=True)
        ),
        library_version=printable(next(iter((first.library_version or "").splitlines()), ""))
        if first
        else "",
        library=printable(first.library or "") if first else "",
        transport=setting_summary,
        environment=printable_data(open_environment(dict(sorted(shared)))),
        core_losses_per_s=checks.core_losses_per_s([heard.ranks for heard in recorded]),
        core_wait=checks.longest_wait([heard.ranks for heard in recorded]),
        kernel=tuple(
            printable_data(dict(there[0].kernel)) for there in checks.by_host(ranks).values()
        ),
        devices=tuple(
            DeviceTraffic(
                heard.launch, heard.repeat, printable(node.host), device, counted.tx, counted.rx
            )
            for heard in recorded
            for node in traffic.node_traffic(heard.ranks)
            for device, counted in node.counted.items()
            # what counts one way has no row
            if counted.tx is not None and counted.rx is not None and counted.tx + counted.rx
        ),
        links=tuple(printable_data(link_state.settings_of(recorded[0].links.states)))
        if recorded
        else (),
        link_errors=tuple(printable_data(errors)),
        link_use=tuple(
            {
                "launch": heard.launch,
                "repeat": heard.repeat,
                **printable_data(msgspec.to_builtins(node)),
            }
            for heard in recorded
            for node in heard.use.nodes
        ),
        seconds=tuple(max(seconds) for seconds in taken if seconds),
    )


def rank_row(rank: RankEvidence) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "host": rank.host,
        "cpus_allowed": checks.format_cpus(rank.init.cpus),
        "cpu": rank.init.cpu,
        "numa_node": rank.init.numa_node,
        "boot_id": rank.boot_id,
    }


#: Why nothing is compared with counters where a row names no reason,
#: and the whole launch is without a number.
_UNKNOWN = "it sends no data, or an unknown amount"


def ranks_of(record: Record) -> int:
    assert record.ranks is not None  # reader.complete gave it what its launch has
    return record.ranks


def groups_of(record: Record) -> int:
    return 1 if "group=" in record.variant else record.groups


def least_bytes(condition: Condition, launch: catalogue.Launch, records: Iterable[Record]) -> float:
    """Bytes the launch must at least have put on the fabric, by its own table.

    Inside one node a network fabric carries everything; between nodes,
    ranks of one node may use shared memory.
    """
    if condition.forced and not condition.fabric.rails:
        return 0.0
    return float(sum(_least_of_record(condition, launch, record) for record in records))


def _least_of_record(condition: Condition, launch: catalogue.Launch, record: Record) -> int:
    row = next(row for row in launch.rows() if row.name == record.benchmark)
    size = record.message_bytes or 0
    ranks = ranks_of(record)
    within = condition.fabric.within_node
    if row.of_run is not None:
        return groups_of(record) * row.of_run(
            record.problem, ranks, ranks if within else condition.nodes
        )
    least = (
        row.traffic(size, ranks)
        if within
        else row.traffic_between(size, ranks, condition.nodes, condition.ranks)
    )
    return groups_of(record) * least * (record.repetitions or 0)


def name_uncounted(
    condition: Condition, launch: catalogue.Launch, records: Sequence[Record]
) -> list[str]:
    """Notes on benchmarks of which nothing could be compared with the
    counters of the fabric: one for each reason.

    Those whose row names a reason; of a launch that is without any number all.
    """
    if (condition.forced and not condition.fabric.rails) or not records:
        return []
    counted = {
        record.benchmark for record in records if _least_of_record(condition, launch, record)
    }
    names: dict[str, list[str]] = {}
    for row in launch.rows():
        reason = row.unbounded or ("" if counted else _UNKNOWN)
        if reason and row.name not in counted:
            names.setdefault(reason, []).append(row.name)
    return [
        f"not checked against the bytes that {condition.fabric.name} carried: {', '.join(rows)} "
        f"({reason})"
        for reason, rows in names.items()
    ]
