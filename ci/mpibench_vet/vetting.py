"""The whole of ``mpibench vet``: nodes, their measurements, verdicts, and what is done of it."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import msgspec

from mpibench import whole_file
from mpibench.locate import answers
from mpibench.locate.findings import MapJudgement
from mpibench.store.sessions import Case, Session
from mpibench.store.store import Store
from reframe_tests.harness.instruments.pairs.pair_values import PairMap
from reframe_tests.harness.printable import first_line, plural
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import MB_PER_GBIT, BadInput

from . import judging, leaves, local, measuring, reasons, slurm
from .judging import PartitionLevel
from .measuring import VetPlace
from .reasons import FACTS, MEMORY, PAIRS, SERVICE, WIRE, NodeReason, NodeVerdict, Why
from .slurm import OwnJob, SlurmNode

DRAIN = "drain"
RESUME = "resume"
#: Earlier maps that say what the partition gives, at most.
MAPS = 30
PINNING = "default"


class VetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``mpibench vet``, as ``--json`` writes it.

    :param session: empty: nothing was measured.
    :param false_positives_per_run_at_most: expected among the nodes that fail by their times.
    :param commands: for Slurm, whether they were run or not; ``applied``: what was done of them.
    """

    system: str
    partition: str
    fabric: str
    stack: str
    session: str
    seconds: float
    status: int
    false_positives_per_run_at_most: float
    nodes: list[NodeVerdict]
    notes: list[str]
    commands: list[str]
    applied: list[str]

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        counts = [sum(one.verdict == word for one in self.nodes) for word in reasons.VERDICTS]
        passed = ", ".join(one.node for one in self.nodes if one.verdict == reasons.PASS)
        where = f"{self.system}:{self.partition}, {self.fabric}"
        how = f", {self.stack}, session {self.session[:8]}" if self.session else ""
        yield (
            f"{where}{how}: {counts[0]} of {plural(sum(counts), 'node')} pass, {counts[1]} fail, "
            f"{counts[2]} undecided (false positives expected per run: at most "
            f"{self.false_positives_per_run_at_most:.2g}; {self.seconds:.0f} s)"
        )
        said: dict[tuple[str, str], list[str]] = {}
        for word in (reasons.FAIL, reasons.UNDECIDED):
            for one in self.nodes:
                if one.verdict == word:
                    first = one.reasons[0]
                    decide = f"; to decide it: {first.remedy}" if first.remedy else ""
                    said.setdefault((word, f"{first.text}{decide}"), []).append(one.node)
        yield from (f"  {word} {', '.join(names)}: {text}" for (word, text), names in said.items())
        if passed:
            yield f"  {reasons.PASS} {passed}"
        yield from (f"  note: {note}" for note in self.notes)
        if self.commands and not self.applied:
            yield "  to take them out of service (or --apply drain):"
            yield from (f"    {line}" for line in self.commands)
        yield from (f"  {line}" for line in self.applied)


@dataclass
class VetRequest:
    """What is requested.

    :param names: lists of nodes as Slurm writes them.
    :param apply: :data:`DRAIN`, :data:`RESUME` or both.
    :param options: further ones of the job, as ReFrame's ``-J`` has them.
    """

    names: Sequence[str]
    database: Path
    store: Store
    folder: Path
    say: Callable[[str], None]
    system: str | None = None
    partition: str | None = None
    fabric: str | None = None
    stack: str | None = None
    checks: Sequence[str] = reasons.CHECKS
    reservation: str = ""
    apply: Sequence[str] = ()
    most_drained: int = slurm.MOST_DRAINED
    options: Sequence[str] = ()
    maps: list[MapJudgement] = field(default_factory=list)


def vet(asked: VetRequest) -> VetAnswer:
    """Vet nodes; a signal ends it with nothing drained or reserved that was not before.

    :raises BadInput: nothing can be vetted as asked.
    :raises Interrupted: by a signal.
    """
    began = monotonic()
    job = slurm.own_job(os.environ)
    nodes = slurm.settled(asked.names or (job.nodes if job else ()))
    if asked.apply:
        slurm.require_rights()
    if job:
        _refuse_inside(asked, job, nodes)
    place = measuring.find_place(nodes, asked.system, asked.partition, asked.fabric)
    resuming = RESUME in asked.apply
    found = _out_of_reach(asked, job, nodes)
    out = {reason.node for reason in found}
    there = [node for node in nodes if node.name not in out]
    names = [node.name for node in nodes]
    checks = [check for check in asked.checks if len(there) >= measuring.FEWEST[check]]
    for check in set(asked.checks) - set(checks):
        # The same links carry what MPI sends: without the wire alone nothing is open.
        if check != WIRE or PAIRS not in checks:
            found += [NodeReason(node.name, check, Why.ALONE) for node in there]
    if not checks or not there:
        return _answer(asked, place, "", None, reasons.fold(names, found), 0.0, [], began)
    stack = asked.stack or (measuring.find_stack(place) if PAIRS in checks else "")
    ours = [node for node in there if node.is_ours] if resuming else []
    stay: set[str] = set()
    hold = slurm.held(there, stay.__contains__) if ours else nullcontext(asked.reservation)
    with hold as reservation, job.ending_steps() if job else nullcontext():
        options = [*([f"reservation={reservation}"] if reservation else []), *asked.options]

        def measured(nodes: Sequence[str], checks: Sequence[str], folder: Path) -> Session:
            what = f"{', '.join(checks)} of {plural(len(nodes), 'node')}"
            asked.say(f"measuring {what}: {folder}")
            command = measuring.words(place, nodes, checks, stack, options)
            own = nodes if job else ()
            return measuring.measure(command, folder, asked.database, asked.store, own)

        session = measured([node.name for node in there], checks, asked.folder)
        rows, rate, notes = judge(asked, place, session, there, checks)
        found += _lost(there)
        if job and job.is_over():
            rows = [*_cut_off(job, rows), *rows]
        verdicts = reasons.fold(names, [*found, *rows])
        # One bad node takes the job, or the proof of its map, along: the others once without it.
        rest, open_checks = _without_bad(verdicts)
        if len(rest) >= max((measuring.FEWEST[check] for check in open_checks), default=len(names)):
            try:
                again = measured(rest, open_checks, asked.folder / "again")
                others = [node for node in there if node.name in rest]
                more, further, said = judge(asked, place, again, others, open_checks)
                rows = [row for row in rows if row.check not in open_checks or row.node not in rest]
                rows += more
                rate += further
                notes += [*said, f"{', '.join(open_checks)} of {', '.join(rest)}: {again.uuid[:8]}"]
                verdicts = reasons.fold(names, [*found, *rows])
            except BadInput as error:  # what was measured before counts
                notes.append(str(error))
        stay |= slurm.may_stay(verdicts)
        try:
            _learn(asked, place, session, stay)
        except OSError as error:
            notes.append(f"facts for --local cannot be written ({error.strerror})")
    if left := [check for check in reasons.CHECKS if check not in checks]:
        notes.append(f"not checked: {', '.join(left)}")
    answer = _answer(asked, place, stack, session, verdicts, rate, notes, began)
    return _apply(asked, answer, ours)


def _refuse_inside(asked: VetRequest, job: OwnJob, nodes: Sequence[SlurmNode]) -> None:
    """:raises BadInput: what is requested is not to be had inside a job."""
    if outside := [node.name for node in nodes if node.name not in job.nodes]:
        raise BadInput(
            "unknown-name",
            f"{', '.join(outside)}: outside job {job.number}, in which this runs; leave its shell, "
            f"or name its nodes ({', '.join(job.nodes)}).",
        )
    if asked.reservation or asked.options or RESUME in asked.apply:
        raise BadInput(
            "options-exclude",
            f"this runs in job {job.number}: --reservation, -J and --apply resume need a separate "
            "job; leave this shell, or leave them out.",
        )


def _out_of_reach(
    asked: VetRequest, job: OwnJob | None, nodes: Sequence[SlurmNode]
) -> list[NodeReason]:
    """Nodes that nothing can be measured on now, and why."""
    reserved = bool(asked.reservation)
    resuming = RESUME in asked.apply
    reached = [
        slurm.out_of_reach(node, reserved=reserved, resuming=resuming, in_job=job is not None)
        for node in nodes
    ]
    others = job.others() if job else {}
    shared = [
        NodeReason(node.name, SERVICE, Why.NOT_ALONE, {"other": others[node.name]})
        for node in nodes
        if node.name in others
    ]
    return [*filter(None, reached), *shared]


def judge(
    asked: VetRequest,
    place: VetPlace,
    session: Session,
    there: Sequence[SlurmNode],
    checks: Sequence[str],
) -> tuple[list[NodeReason], float, list[str]]:
    """What a session says of its nodes, false positives expected, and notes."""
    nodes = [node.name for node in there]
    cases = {_check_of(case): case for case in session.cases}
    found: list[NodeReason] = []
    notes: list[str] = []
    rate = 0.0
    if FACTS in checks:
        found += judging.of_facts(cases.get(FACTS), nodes)
    for check in (WIRE, PAIRS):
        if check not in checks:
            continue
        case = cases.get(check)
        if case is None or case.pair_map is None:
            why = case.reason if case else ""
            if check == PAIRS or PAIRS not in checks:
                found += judging.not_measured(nodes, check, why)
            else:
                notes.append(
                    f"the wire was not measured without MPI: {first_line(why) or 'no test'}"
                )
            continue
        level = _level(asked.store, place, case) if check == PAIRS else None
        answer = answers.answer_of(
            session, case, looked_at=[one for one in [cases.get(FACTS)] if one]
        )
        asked.maps.append(answer)
        rate += answer.rate
        rows = judging.of_map(answer, case.pair_map, nodes, check, level, _unproven(session, case))
        # What the wire leaves open MPI decides, over the same links.
        found += [row for row in rows if row.fails or check == PAIRS or PAIRS not in checks]
        if check == PAIRS and level is None:
            notes.append(
                "pairs are compared only with one another: there is no earlier map, and no line "
                "rate with min_efficiency"
            )
        if check == PAIRS:
            notes += _leaf_notes(case.pair_map, answer)
            notes += [
                f"pairs: {text}" for text in answer.inconclusive if not _unproven(session, case)
            ]
    if MEMORY in checks:
        case = cases.get(MEMORY)
        entry = case.entry if case else {}
        rates = entry.get("memory_of_nodes") or {}
        problems = entry.get("memory_problems") or {}
        if not rates:
            why = case.reason if case else "it was not tested"
            found += judging.not_measured(nodes, MEMORY, why)
        else:
            found += judging.of_memory(rates, problems, nodes)
            for why in dict.fromkeys(problems.values()):
                names = [node for node in problems if problems[node] == why]
                notes.append(f"memory of {', '.join(names)}: {why}")
            rate += judging.MEMORY_RATE
    return found, rate, notes


def _lost(there: Sequence[SlurmNode]) -> list[NodeReason]:
    """Nodes that Slurm has lost meanwhile."""
    known = slurm.read_nodes()
    now = [known.get(node.name, node._replace(states=slurm.UNKNOWN)) for node in there]
    reached = [slurm.out_of_reach(node, reserved=True, resuming=True) for node in now]
    return [reason for reason in reached if reason and reason.why == Why.NOT_THERE]


#: Reasons of what may have been measured of a node if nothing else had happened.
_OPEN = (Why.NOT_MEASURED, Why.SILENT, Why.STOPPED)
#: Reasons of undecided nodes that take what is measured of others along.
_SPOILING = (Why.NOT_THERE, Why.SHARED_ADDRESS, Why.STOPPED)


def _cut_off(job: OwnJob, rows: Sequence[NodeReason]) -> list[NodeReason]:
    """Nodes of which something is open because the job that this runs in is over."""
    nodes = dict.fromkeys(row.node for row in rows if row.why in _OPEN)
    return [NodeReason(node, SERVICE, Why.JOB_ENDED, {"job": job.number}) for node in nodes]


def _without_bad(verdicts: Sequence[NodeVerdict]) -> tuple[list[str], list[str]]:
    """Nodes of which something was not measured beside some that fail, are lost or have the address
    of another one, and what.
    """
    every = [(one, row) for one in verdicts for row in one.reasons]
    spoilers = {
        one.node for one, row in every if one.verdict == reasons.FAIL or row.why in _SPOILING
    }
    out = spoilers | {one.node for one, row in every if row.check == SERVICE}
    rows = [
        row
        for one, row in every
        if one.node not in out and row.why in (Why.NOT_MEASURED, Why.SILENT)
    ]
    if not spoilers:
        return [], []
    nodes = dict.fromkeys(row.node for row in rows)
    return list(nodes), [check for check in reasons.CHECKS if check in {row.check for row in rows}]


def learned_file(folder: Path, place: VetPlace) -> Path:
    """What good nodes of a partition show, for ``mpibench vet --local`` on each."""
    return folder.parent / "learned" / f"{place.system}-{place.partition}.json"


def _learn(asked: VetRequest, place: VetPlace, session: Session, good: Set[str]) -> None:
    """Keep what most of the nodes that pass show."""
    rows = [
        row
        for case in session.cases
        if _check_of(case) == FACTS and case.proof
        for row in case.proof.kernel
        if isinstance(row, Mapping) and row.get("node") in good
    ]
    values: dict[tuple[str, str], list[str | float]] = {}
    for row in rows:
        for key, value in row.items():
            fact, _, at = key.partition(" of ")
            if fact in local.LEARNED:
                values.setdefault((fact, at), []).append(value)
    facts: dict[str, dict[str, str | float]] = {}
    for (fact, at), seen in values.items():
        value, count = Counter(seen).most_common(1)[0]
        if 2 * count > len(rows):
            facts.setdefault(fact, {})[at] = value
    if facts:
        text = json.dumps({"facts": facts, "nodes": sorted(good)}, indent=1, sort_keys=True)
        whole_file.write_text(learned_file(asked.folder, place), f"{text}\n")


def _check_of(case: Case) -> str:
    if case.group in catalogue.WIRES:
        return WIRE
    return {"preflight": FACTS, "pair_map": PAIRS, "memory": MEMORY}.get(case.group, case.group)


def _unproven(session: Session, case: Case) -> str:
    why = session.why_not(case)
    return f"it {why} ({first_line(case.reason) or 'no reason was stored'})" if why else ""


def _level(store: Store, place: VetPlace, case: Case) -> PartitionLevel | None:
    """What pairs reach there: by earlier maps of the same stack and fabric, unless these are below
    what the site's description wants of the line rate: a fabric that was slow when it was looked at
    first is no level for the second time.
    """
    sessions = [
        row["session"]
        for row in store.pair_map_cases(place.system).iter_rows(named=True)
        if (row["stack"], row["fabric"], row["evidence"]) == (case.stack, case.fabric, PROVEN)
        and row["case"] != case.uuid
    ]
    maps: list[PairMap] = []
    if sessions:
        maps = [
            one.pair_map
            for one in store.pair_maps(place.system, sessions[-MAPS:])
            if (one.case["stack"], one.case["fabric"]) == (case.stack, case.fabric)
            and one.case["partition"] == case.partition
        ]
    learned = judging.learned_level(maps)
    rate = place.fabric.line_rate_gbit_per_s
    least = place.fabric.efficiency(PINNING)
    if not (rate and least):
        return learned
    rails = 1 if place.fabric.striped else max(1, len(place.fabric.rails))
    described = PartitionLevel(rate * MB_PER_GBIT / rails, least, "line rate")
    return learned if learned and learned.mb_per_s >= least * described.mb_per_s else described


def _leaf_notes(pair_map: PairMap, answer: MapJudgement) -> list[str]:
    tree = answer.places.origin or "the description of the switches"
    return [
        f"{node} is listed under {answer.places.leaf(node)} ({tree}), and its latencies are those "
        f"of {leaf}: see its cable, or correct the description"
        for node, leaf in leaves.misplaced(pair_map, answer.places).items()
    ]


def _answer(
    asked: VetRequest,
    place: VetPlace,
    stack: str,
    session: Session | None,
    verdicts: list[NodeVerdict],
    rate: float,
    notes: list[str],
    began: float,
) -> VetAnswer:
    uuid = session.uuid if session else ""
    return VetAnswer(
        system=place.system,
        partition=place.partition,
        fabric=place.fabric.name,
        stack=stack,
        session=uuid,
        seconds=monotonic() - began,
        status=reasons.status(verdicts),
        false_positives_per_run_at_most=rate,
        nodes=verdicts,
        notes=list(dict.fromkeys(notes)),
        commands=[shlex.join(line) for line in slurm.drain_lines(verdicts, uuid)],
        applied=[],
    )


def _apply(asked: VetRequest, answer: VetAnswer, ours: Sequence[SlurmNode]) -> VetAnswer:
    """Drain what fails where that is requested, and say which nodes were resumed."""
    done: list[str] = []
    stay = slurm.may_stay(answer.nodes)
    for node in ours:
        done.append(f"resumed: {node.name}" if node.name in stay else f"still drained: {node.name}")
    if DRAIN in asked.apply:
        failing = slurm.drain_lines(answer.nodes, answer.session)
        known = {node.name for node in ours}
        new = [line for line in failing if line[2].partition("=")[2] not in known]
        slurm.drain(new, asked.most_drained, done.append)
    return msgspec.structs.replace(answer, applied=done)
