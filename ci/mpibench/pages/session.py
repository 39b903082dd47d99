"""The page of a session, which needs neither network nor server.

Curves are stored completely (every size, every repeat), in one chunk per benchmark, so that a page
with hundreds of them opens at once and decodes only what is viewed. Each number leads to its case:
job, files, proof, references.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, NamedTuple

from reframe_tests.harness.evidence import link_state
from reframe_tests.harness.machine.gpu import DEVICE, HOST
from reframe_tests.harness.printable import plural
from reframe_tests.harness.samples import (
    FAIL,
    NO_REFERENCE,
    PASS,
    PROVEN,
    Evidence,
    ReferenceCheck,
    Sample,
)
from reframe_tests.harness.sites.references import GBIT_PER_MB
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import LINK_BANDWIDTHS, PINNING_POLICIES, QUANTITIES, BadInput

from .. import whole_file
from ..locate import cascade
from ..night.confirmed_night import StoredAnswers, stored_answers
from ..stacks import compilation
from ..stacks.spack import lock as stack_lock
from ..store import confirmations
from ..store.quantity_text import (
    better_text,
    metric_text,
    nodes_text,
    size_text,
    source_text,
    unit_text,
)
from ..store.sessions import Case, Session, label_of
from ..store.store import Store, StoredNight
from . import figures
from .additions import Curve, additions
from .job_files import CaseFiles, place_of
from .node_curves import is_over_nodes, node_charts
from .outcomes import (
    KEY_FIGURES,
    OUTCOMES,
    Outcome,
    counted,
    counts,
    failures,
    format_number,
    gate_counts,
    interrupted,
    key_figures,
    load,
    next_step,
    reference_checks,
    sentences,
    skip_reasons,
    summary_lines,
    tightest,
    title_of,
    verdict,
    verdict_line,
)
from .page import (
    SYMBOLS,
    TEMPLATES,
    Block,
    Cell,
    Section,
    Table,
    flat,
    markdown,
    markdown_text,
    writing,
)
from .page import render as render_page
from .page import write as write_page

#: Ranks embedded per case; the rest is in the job's directory, and the page says so.
MAX_RANKS = 512
#: Failures that the first screen has in full.
MOST_WORST = 2


#: Keys of a condition that are shown as tables of their own.
_APART = ("env", "job_env", "env_vars", "environment", "debug_env", "launcher")


#: What is shown of a rank's GPU, and the title of its column.
_OF_GPU = {
    "gpu": "GPU",
    "gpu_name": "model",
    "gpu_numa_node": "its NUMA node",
    "gpu_link": "its PCIe link",
    "nearest_adapters": "nearest adapters",
}


def _rank_text(rank: Mapping[str, Any]) -> Any:
    number = flat(rank.get("rank"))
    program = rank.get("program")
    return number if program is None else f"{number} of program {flat(program)}"


def _gpu_text(rank: Mapping[str, Any]) -> str:
    return f" with GPU\N{NO-BREAK SPACE}{flat(rank['gpu'])}" if "gpu" in rank else ""


def bytes_text(count: float) -> str:
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def placement_text(proof: Evidence, limit: int = 8) -> Iterator[str]:
    """Ranks per host as ``n1: 0 on 0-3, 1 on 4-7 (NUMA 0); ...``, at
    most ``limit`` ranks of a host in full.
    """
    for host, group in groupby(proof.ranks, key=lambda rank: flat(rank.get("host"))):
        rows = list(group)
        parts = []
        for node, near in groupby(rows[:limit], key=lambda rank: rank.get("numa_node")):
            shown = ", ".join(
                f"{_rank_text(rank)} on {flat(rank.get('cpus_allowed'))}{_gpu_text(rank)}"
                for rank in near
            )
            parts.append(shown if node is None else f"{shown} (NUMA\N{NO-BREAK SPACE}{flat(node)})")
        more = f" and {len(rows) - limit} more" if len(rows) > limit else ""
        yield f"{host}: {'; '.join(parts)}{more}"


def traffic_text(proof: Evidence) -> Iterator[str]:
    """Bytes per device, summed over nodes and repeats, as ``lo: 2.1 GB out, 2.1 GB in``."""
    totals: dict[str, list[int]] = {}
    for device_traffic in proof.devices:
        total = totals.setdefault(device_traffic.device, [0, 0])
        total[0] += device_traffic.tx_bytes
        total[1] += device_traffic.rx_bytes
    for device, (out, into) in totals.items():
        yield f"{device}: {bytes_text(out)} out, {bytes_text(into)} in"


def link_text(links: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Links with the same settings on one line: ``eth1 on c1, c2: MTU 1500, state up``."""
    alike: dict[tuple[str, str], list[str]] = {}
    for link in links:
        alike.setdefault((str(link["link"]), link_state.describe(link)), []).append(
            str(link["node"])
        )
    for (name, settings), nodes in alike.items():
        yield f"{name} on {', '.join(nodes)}: {settings or 'nothing known'}"


def library_line(proof: Evidence) -> str:
    lines = proof.library_version.strip().splitlines()
    return re.sub(r"\s+", " ", lines[0]) if lines else ""


def transport_line(proof: Evidence) -> str:
    return re.sub(r" \([^()]*\)", "", proof.transport)


#: Which quantity stands for a benchmark when only one is shown: the first of these it has.
MAIN = (
    "busbw_mb_per_s",
    "latency_us",
    "t_max_us",
    "t_avg_us",
    "t_ovrl_us",
    "bandwidth_mb_per_s",
    "message_rate_per_s",
)
#: Units whose values have no decades to show.
LINEAR_UNITS = ("%", "1")


class Measure(NamedTuple):
    """What one curve is a curve of, apart from its condition;
    memory is part of that, by the fabric.
    """

    suite: str
    benchmark: str
    variant: str
    groups: int

    def label(self, ambiguous: bool) -> str:
        words = [self.benchmark, self.variant, f"{self.groups} groups" if self.groups > 1 else ""]
        text = ", ".join(filter(None, words))
        return f"{text} ({self.suite})" if ambiguous else text


def _rounded(value: float | None) -> float | int | None:
    if value is None:
        return None
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def curves(session: Session) -> dict[Measure, list[dict[str, Any]]]:
    """All curves per measure: case number, group, ranks, quantity,
    sizes, and per size the values of all repeats.

    Those over the number of nodes are drawn separately (:mod:`node_curves`).
    """
    found: dict[Measure, dict[tuple[int, int, str], dict[str, Any]]] = {}
    for number, case in enumerate(session.cases):
        for sample in case.samples:
            if not sample.measured or is_over_nodes(sample):
                continue
            variant = ",".join(
                word for word in sample.variant.split(",") if not word.startswith("memory=")
            )
            rows = found.setdefault(
                Measure(sample.suite, sample.benchmark, variant, sample.groups), {}
            )
            empty = {
                "c": number,
                "r": sample.ranks,
                "q": sample.quantity,
                "limit": _limit(case, sample),
                "x": [],
                "y": [],
            }
            curve = rows.setdefault((number, sample.ranks, sample.quantity), empty)
            curve["x"].append(sample.message_bytes)
            curve["y"].append([_rounded(value) for value in sample.values])
    for rows in found.values():
        for curve in rows.values():
            points = sorted(
                zip(curve["x"], curve["y"], strict=True), key=lambda point: point[0] or 0
            )
            curve["x"] = [size for size, _ in points]
            curve["y"] = [values for _, values in points]
    return {measure: list(rows.values()) for measure, rows in found.items()}


def _limit(case: Case, sample: Sample) -> float | None:
    """MB/s that the links of a case carry of a bandwidth; ``None`` where
    they have no rate or it says nothing of them.
    """
    rate = case.line_rate_gbit_per_s
    suite = catalogue.SUITES.get(sample.suite)
    row = next((row for row in suite.rows if row.name == sample.benchmark), None) if suite else None
    if not (rate and row and row.directions and sample.quantity in LINK_BANDWIDTHS):
        return None
    return _rounded(rate / GBIT_PER_MB * row.directions * row.links(sample.ranks, case.nodes or 1))


def _beside(session: Session, measured: Iterable[int]) -> dict[str, dict[str, str]]:
    """Of each partition, fabric to the one over the same links with which it is drawn: host memory
    with that of GPUs, GPUs' with the host's.
    """
    fabrics: dict[str, dict[str, dict[str, str]]] = {}
    for case in (session.cases[at] for at in measured):
        words = ("scope", "transport", "devices", "striped", "quality_of_service")
        links = str([case.condition.get(name) for name in words])
        memory = str(case.condition.get("memory", HOST))
        fabrics.setdefault(case.partition, {}).setdefault(links, {})[memory] = case.fabric
    return {
        partition: {
            fabric: other
            for by_memory in by_links.values()
            for memory, fabric in by_memory.items()
            if (other := by_memory.get(DEVICE if memory == HOST else HOST))
        }
        for partition, by_links in fabrics.items()
    }


def stack_names(session: Session) -> list[str]:
    return sorted({case.stack for case in session.cases if case.is_measurement})


def _published(measure: Measure, published: Sequence[Curve]) -> list[dict[str, Any]]:
    """Published curves of a measure's benchmark, kept apart from
    measured ones: no case, no repeats, no proof.
    """
    return [
        {
            "source": published_curve.source,
            "title": published_curve.title,
            "q": published_curve.quantity,
            "fabric": published_curve.fabric,
            "nodes": published_curve.nodes,
            "ppn": published_curve.ppn,
            "x": [*published_curve.points],
            "y": [_rounded(published_curve.number(size)) for size in published_curve.points],
        }
        for published_curve in published
        if published_curve.benchmark == measure.benchmark
    ]


#: What distinguishes one condition from another, with what its choice is called.
DIMENSIONS = {
    "fabric": "Fabric",
    "nodes": "Nodes",
    "ppn": "Processes per node",
    "pinning": "Pinning",
    "partition": "Partition",
}


def _dimensions(
    session: Session, rows: Sequence[Mapping[str, Any]], measured: Sequence[int]
) -> dict[str, Any]:
    """Values of each dimension among the cases that measured something, with their texts, and the
    one to begin with: that of the condition most proven cases share.
    """
    shared = Counter(
        tuple(rows[at][name] for name in DIMENSIONS) for at in measured if rows[at]["proven"]
    )
    first = next(iter(shared.most_common(1)), ((None,) * len(DIMENSIONS), 0))[0]
    symbols: dict[Any, set[str]] = {}
    for row in rows:
        symbols.setdefault(row["ppn"], set()).update({row["symbol"]} - {str(row["ppn"]), ""})
    found = {}
    for (name, label), start in zip(DIMENSIONS.items(), first, strict=True):
        values = {rows[at][name] for at in measured} - {None, ""}
        order = (
            PINNING_POLICIES.index if name == "pinning" and values <= {*PINNING_POLICIES} else None
        )
        ordered = sorted(values, key=order)
        texts = [
            f"{value} ({', '.join(sorted(symbols[value]))})"
            if name == "ppn" and symbols[value]
            else str(value)
            for value in ordered
        ]
        first_value = start if start in values else next(iter(ordered), None)
        found[name] = {"label": label, "values": ordered, "texts": texts, "first": first_value}
    return found


def index(
    session: Session, found: Mapping[Measure, list[dict[str, Any]]], published: Sequence[Curve] = ()
) -> dict[str, Any]:
    """What the page needs before any curve: stacks, quantities, measures,
    published curves, the conditions of all cases.
    """
    names = [
        measure.benchmark.lower() for measure in {(m.suite, m.benchmark): m for m in found}.values()
    ]
    stacks = stack_names(session)
    groups = [*catalogue.GROUPS]
    resolved = {
        (case.partition, case.ppn_symbol): case.ppn
        for case in session.cases
        if case.ppn is not None
    }
    measures = []
    for number, (measure, rows) in enumerate(found.items()):
        present = list(dict.fromkeys(row["q"] for row in rows))
        measures.append(
            {
                "label": measure.label(names.count(measure.benchmark.lower()) > 1),
                "group": session.cases[rows[0]["c"]].group,
                "quantities": present,
                "main": next((name for name in MAIN if name in present), present[0]),
                "chunk": f"curves-{number}",
                "ranks": sorted({row["r"] for row in rows}),
                # Several rank counts in one case: the suite ran a subset of the ranks as well.
                "nested": len({(row["c"], row["q"]) for row in rows}) < len(rows),
                "sizes": sorted({size for row in rows for size in row["x"] if size is not None}),
                "published": _published(measure, published),
            }
        )
    # As the catalogue orders their groups, whatever order the session ran in.
    measures.sort(
        key=lambda one: groups.index(one["group"]) if one["group"] in groups else len(groups)
    )
    cases = [
        {
            "stack": stacks.index(case.stack) if case.stack in stacks else -1,
            "partition": case.partition,
            "fabric": case.fabric,
            "nodes": case.nodes,
            # A case that was skipped before its symbol was resolved has
            # the number others resolved it to.
            "ppn": resolved.get((case.partition, case.ppn_symbol), case.ppn),
            "symbol": case.ppn_symbol,
            "pinning": case.pinning,
            "group": case.group,
            "outcome": session.outcome(case),
            "proven": case.evidence == PROVEN and case.uuid not in session.superseded,
            "oversubscribed": bool(case.condition.get("oversubscribed")),
        }
        for case in session.cases
    ]
    measured = sorted({row["c"] for rows in found.values() for row in rows})
    return {
        "stacks": stacks,
        "symbols": list(SYMBOLS),
        "quantities": {
            name: {
                "title": QUANTITIES[name].title,
                "unit": unit_text(quantity.unit),
                "direction": quantity.direction,
                "log": quantity.unit not in LINEAR_UNITS,
            }
            for name, quantity in QUANTITIES.items()
        },
        "measures": measures,
        "dimensions": _dimensions(session, cases, measured),
        "beside": _beside(session, measured),
        "unproven": any(not cases[at]["proven"] for at in measured),
        "cases": cases,
    }


#: Nothing was measured again.
NOT_AGAIN = StoredAnswers()


@dataclass(frozen=True)
class View:
    """One session, with its context.

    :param base: folder the page will be in; links to job directories are relative to it.
    :param built: metadata of the stacks on this machine, for the table of what they are made of.
    :param published: curves of papers to put beside the measured ones.
    :param again: what measuring again gave for cases that missed a reference.
    :param withdrawn: who withdrew it, and why; empty where nobody did.
    """

    session: Session
    base: Path
    built: Sequence[Stack] = ()
    published: Sequence[Curve] = ()
    again: StoredAnswers = NOT_AGAIN
    withdrawn: str = ""

    @cached_property
    def stacks(self) -> list[str]:
        """Names in the order that gives each its colour and marker."""
        return stack_names(self.session)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {case.uuid: number for number, case in enumerate(self.session.cases)}

    @cached_property
    def _places(self) -> list[CaseFiles]:
        return [place_of(self.session, case, self.base) for case in self.session.cases]

    def number(self, case: Case) -> int:
        return self._numbers[case.uuid]

    def place(self, case: Case) -> CaseFiles:
        return self._places[self.number(case)]

    def outcome(self, case: Case) -> Outcome:
        return OUTCOMES[self.session.outcome(case)]

    def stack(self, name: str) -> Cell:
        return Cell(
            "stack",
            name,
            self.stacks.index(name) % len(SYMBOLS) if name in self.stacks else len(SYMBOLS) - 1,
        )

    def button(self, case: Case, text: str = "", title: str = "") -> Cell:
        """A control that opens the panel of a case; its text is the case's title unless given."""
        return Cell("case", text or title_of(case), self.number(case), title)


# Sections: the blocks of each, or what its macro in
# ``templates/session.html`` gets; ``None`` leaves it out of the page.

Part = str | Table | Block
Content = Mapping[str, Any] | Sequence[Part] | None


def _summary(view: View) -> Content:
    number = counts(view.session)
    gates = gate_counts(view.session)
    shown = [name for name in OUTCOMES if number[name] or name in ("failed", "passed", "recorded")]
    rows: dict[tuple[str, str], Counter[Outcome]] = {}
    for case in counted(view.session):
        if case.is_measurement:
            rows.setdefault((case.stack, case.fabric), Counter())[view.outcome(case)] += 1
    return {
        "tiles": [(OUTCOMES[name], number[name]) for name in shown],
        "gates": {"reached": gates[PASS], "missed": gates[FAIL], "without": gates[NO_REFERENCE]},
        "columns": [
            outcome for outcome in OUTCOMES.values() if any(row[outcome] for row in rows.values())
        ],
        "rows": sorted(rows.items(), key=lambda row: row[0]),
    }


def _text(text: str, label: str = "note", title: str = "") -> Block:
    return Block("text", text, title, label)


def _fold(line: str, blocks: Sequence[Part], is_open: bool = False) -> Block:
    return Block("fold", blocks, label=line, is_open=is_open)


def _failures(view: View) -> Content:
    stopped = [case for case in view.session.cases if view.outcome(case) is OUTCOMES["interrupted"]]
    reasons = [(OUTCOMES["interrupted"], interrupted(view.session), stopped)] if stopped else []
    reasons += [
        (OUTCOMES["skipped"], reason, cases) for reason, cases in skip_reasons(view.session)
    ]
    retried = [case for case in view.session.cases if case.uuid in view.session.superseded]
    return {
        "failures": [(case, sentences(case)) for case in failures(view.session)],
        "reasons": [
            *reasons,
            *((OUTCOMES["retried"], " ".join(sentences(case)), [case]) for case in retried),
        ],
    }


def _again(view: View) -> Content:
    """Both measurements of each case that missed a reference; empty if no later session measured
    again, or may have.
    """
    if view.again == NOT_AGAIN:
        return None
    cases = {case.uuid: case for case in view.session.cases}
    return {
        "unreadable": view.again.unreadable,
        "excused": sum(answer.excused for answer in view.again.answers),
        "answers": [(cases[answer.uuid], answer) for answer in view.again.answers],
    }


def _figures(view: View) -> Content:
    table = key_figures(view.session)
    columns = [figure for figure in KEY_FIGURES if any(figure in row for row in table.values())]
    heads = []
    for figure in columns:
        sample = next(row[figure].sample for row in table.values() if figure in row)
        size = "" if sample.message_bytes is None else f", {size_text(sample.message_bytes)}"
        better = better_text(sample.quantity)
        heads.append(f"{figure.title}{size} [{unit_text(sample.unit)}], {better}")
    rows = []
    for (stack, fabric, nodes), row in table.items():
        found = (row.get(figure) for figure in columns)
        bests = [
            view.button(best.case, format_number(best.value), title_of(best.case)) if best else ""
            for best in found
        ]
        rows.append((view.stack(stack), f"{fabric}, {nodes_text(nodes)}", *bests))
    note = _text(
        "The best proven conditions, each at one message size, median of the repeats. Click a "
        "figure to open its case."
    )
    nothing = "None of these benchmarks has a proven measurement."
    return [
        note,
        Table(("stack", "fabric", *heads), rows, range(2, 2 + len(heads))) if heads else nothing,
    ]


def _over_nodes(view: View) -> Content:
    charts = [
        (
            chart,
            Block(
                "drawing",
                figures.over_nodes(chart, view.stacks),
                label=f"{chart.title} over the number of nodes",
            ),
        )
        for chart in node_charts(view.session)
    ]
    return {"charts": charts} if charts else None


def _cascade(view: View) -> Content:
    """A sentence for each question and its drawing for each fabric;
    nothing if nothing was measured below MPI.
    """
    blocks: list[Part] = []
    for level_answer in cascade.find(view.session):
        rate = (
            f", {format_number(level_answer.line_rate_gbit_per_s)} Gbit/s"
            if level_answer.line_rate_gbit_per_s
            else ""
        )
        lines = [answer.sentence for answer in level_answer.answers]
        blocks.append(
            Block("items", lines, f"{level_answer.fabric} on {level_answer.partition}{rate}")
        )
        drawn = figures.levels_of(level_answer)
        for figure in drawn:
            blocks.append(
                Block(
                    "drawing",
                    figure,
                    label=f"Levels of {level_answer.fabric}: {figure['layout']['title']['text']}",
                )
            )
        if drawn:
            blocks.append(_text("Dashed: what packets leave of the line rate for payload."))
    note = (
        "Bandwidth and latency of the wire alone, of the transport library and of the MPI: medians "
        "of this session's proven cases, the best of each program or stack. A step counts only if "
        "the repeats of its two levels do not overlap."
    )
    return [_text(note), *blocks] if blocks else None


#: Columns of a comparison with a reference.
REFERENCE = ("metric", "layer", "value", "reference", "at least", "at most", "unit")
#: References listed at once; more are folded away.
OPEN_ROWS = 40


def _gates(view: View) -> Content:
    """Comparisons with references: missed ones first, then reached,
    then those that could not be judged.
    """
    groups: dict[str, list[tuple[Case, ReferenceCheck]]] = {FAIL: [], PASS: [], NO_REFERENCE: []}
    for case, gate in reference_checks(view.session):
        groups[gate.outcome].append((case, gate))
    titles = {
        FAIL: "✕ missed",
        PASS: "✓ reached",
        NO_REFERENCE: "○ without reference: recorded, not judged",
    }
    unfolded = {FAIL: True, PASS: len(groups[PASS]) <= OPEN_ROWS, NO_REFERENCE: False}
    blocks: list[Part] = []
    for name, checks in groups.items():
        rows = [
            (view.stack(case.stack), view.button(case), *_reference_cells(check))
            for case, check in checks
        ]
        table = Table(("stack", "case", *REFERENCE), rows, range(4, 8))
        blocks += [_fold(f"{titles[name]}: {len(rows)}", [table], unfolded[name])] if rows else []
    return blocks or ["No metric of a proven case of this session was compared with a reference."]


def _evidence(view: View) -> Content:
    """One row per case that ran: where its ranks were, which
    library, which devices, which transport.
    """
    ran = (
        case
        for case in view.session.cases
        if case.is_measurement and view.outcome(case) is not OUTCOMES["skipped"]
    )
    return {"cases": list(ran)}


def _stacks(view: View) -> Content:
    """What each stack is made of, as its cases and its metadata file say."""
    rows = []
    facts = {}
    built_here = {stack.name: stack for stack in view.built}
    for name in sorted({case.stack for case in view.session.cases if case.condition.get("stack")}):
        cases = [case for case in view.session.cases if case.stack == name and case.condition]
        condition = cases[0].condition
        built = built_here.get(name)
        if built_as := condition.get("built"):
            facts[name] = {
                **built_as,
                **compilation.aspects(str(condition.get("mpi")), condition.get("compiled") or {}),
            }
        hashes = sorted({str(case.condition.get("lock_hash", "")) for case in cases})
        device = str(condition.get("stack_device") or (built.device if built else ""))
        rows.append(
            {
                "name": name,
                "mpi": " ".join(str(condition.get(key) or "") for key in ("mpi", "mpi_version")),
                "origin": str(condition.get("origin") or ""),
                "compiled": compilation.describe(condition["compiled"])
                if condition.get("compiled")
                else "",
                "abi": f"{condition.get('abi') or ''} {device}".strip(),
                "proof": next(
                    (case.proof for case in cases if case.proof and case.proof.library), None
                ),
                "hashes": hashes,
                "built": built,
                "same": built is not None and hashes == [built.lock_hash],
            }
        )
    pairs = [
        (first, second, list(stack_lock.things(facts[first], facts[second]).values()))
        for first, second in combinations(facts, 2)
    ]
    return {"rows": rows, "pairs": sorted(pairs, key=lambda pair: len(pair[2]))}


def _words(_: View) -> Content:
    return {
        "directions": {
            way: list(
                dict.fromkeys(row.title for row in QUANTITIES.values() if row.direction == way)
            )
            for way in ("lower", "higher")
        }
    }


def _reference_cells(check: ReferenceCheck) -> tuple[object, ...]:
    bounds = (
        format_number(value) for value in (check.value, check.reference, check.lower, check.upper)
    )
    return (metric_text(check.metric), source_text(check.layer), *bounds, unit_text(check.unit))


def panel(case: Case, said: Sequence[str]) -> tuple[Block, list[Part]]:
    """What a reader sees who follows a number back to its case: its job;
    proof, references, condition and environment.
    """
    entry = case.entry
    seconds = case.entry.get("time_run")
    condition = case.condition
    proof = case.proof
    job = [
        ("test", case.name),
        ("case", case.uuid),
        ("partition", f"{case.system}:{case.partition}"),
        ("job id", case.job_id),
        ("nodes", case.nodelist),
        ("exit code", flat(entry.get("job_exitcode"))),
        ("ended", flat(entry.get("job_completion_time"))),
        ("time in job", f"{seconds:.1f} s" if isinstance(seconds, (int, float)) else ""),
        ("result", " in phase ".join(filter(None, (case.result, case.fail_phase)))),
    ]
    blocks: list[Part] = [_text("None was stored.", "", "Proof")]
    if proof:
        facts = [
            ("transport", proof.transport),
            ("library", proof.library),
            ("kernel", "; ".join(dict.fromkeys(map(str, proof.kernel)))),
            ("links", "; ".join(link_text(proof.links))),
            ("benchmark time", ", ".join(f"{format_number(value)} s" for value in proof.seconds)),
        ]
        with_gpu = any("gpu" in rank for rank in proof.ranks)
        of_rank = ("host", "cpus_allowed", "cpu", "numa_node", *(_OF_GPU if with_gpu else ()))
        titles = (
            "rank",
            "host",
            "may use CPUs",
            "ran on CPU",
            "NUMA node",
            *(_OF_GPU.values() if with_gpu else ()),
        )
        ranks = [
            (_rank_text(rank), *(flat(rank.get(key)) for key in of_rank))
            for rank in proof.ranks[:MAX_RANKS]
        ]
        devices = [
            (
                device.launch or "all",
                "all" if device.repeat is None else device.repeat,
                device.node,
                device.device,
                bytes_text(device.tx_bytes),
                bytes_text(device.rx_bytes),
            )
            for device in proof.devices
        ]
        sign = "✓" if proof.status == PROVEN else "✕"
        more = len(proof.ranks) - MAX_RANKS
        blocks = [
            Block("text", f"{sign} condition {proof.status}", "Proof", f"evidence {proof.status}"),
            Block("facts", facts),
            *map(_text, proof.notes),
            Block("pre", proof.library_version),
            *([Table(titles, ranks, (0, 3, 4))] if ranks else []),
            *([f"{plural(more, 'more rank')} in the job's files."] if more > 0 else []),
            *(
                [
                    Table(
                        ("launch", "repeat", "node", "device", "sent", "received"),
                        devices,
                        (1, 4, 5),
                    )
                ]
                if devices
                else []
            ),
        ]
    outcomes = {PASS: "✓ reached", FAIL: "✕ missed"}
    checks = [
        (*_reference_cells(check), outcomes.get(check.outcome, "○ no reference"))
        for check in case.gates
    ]
    title = "Comparisons with references"
    apart = [condition.get(name) for name in _APART]
    environment = [
        f"{key}={flat(value)}"
        for part in apart
        if isinstance(part, Mapping)
        for key, value in part.items()
    ]
    blocks += [
        Table((*REFERENCE, "outcome"), checks, range(2, 6), title=title)
        if checks
        else _text("None: recorded, not judged.", "", title),
        Block(
            "facts",
            [(key, flat(value)) for key, value in condition.items() if key not in _APART],
            "Condition",
        ),
        Block("pre", flat(condition.get("launcher")), "Launcher"),
        Block("pre", "\n".join(environment), "Environment"),
        Block("pre", case.reason if case.reason not in said else "", "What ReFrame said"),
    ]
    return Block("facts", job, "Job"), [
        block for block in blocks if not isinstance(block, Block) or block.content
    ]


#: In the order of the page: id, heading, name in the navigation, and
#: what it shows. Only the drawings need a script.
SECTIONS: tuple[tuple[str, str, str, Callable[[View], Content]], ...] = (
    ("summary", "", "", _summary),
    ("failures", "Failures", "Failures", _failures),
    ("again", "Measured again", "Again", _again),
    ("figures", "Key figures", "Key figures", _figures),
    ("curves", "Curves", "Curves", lambda view: {}),
    ("heat", "Pinning and processes per node", "Pinning", lambda view: {}),
    ("over_nodes", "Over the number of nodes", "Nodes", _over_nodes),
    ("cascade", "Where bandwidth and latency are lost", "Cascade", _cascade),
    ("gates", "Comparisons with references", "References", _gates),
    ("evidence", "Evidence", "Evidence", _evidence),
    ("stacks", "Stacks", "Stacks", _stacks),
    ("words", "Glossary", "Glossary", _words),
)


def _sections() -> list[tuple[str, str, str, Callable[[View], Content]]]:
    """All sections; those of tools stand before the evidence."""
    at = [name for name, *_ in SECTIONS].index("evidence")
    return [*SECTIONS[:at], *(addition.section for addition in additions()), *SECTIONS[at:]]


TEMPLATES.filters.update(
    bytes=bytes_text,
    library_line=library_line,
    placement_text=placement_text,
    traffic_text=traffic_text,
    transport_line=transport_line,
    sentences=sentences,
)


def _facts(session: Session) -> list[tuple[str, str]]:
    info = session.info
    versions = {
        case.stack: case.condition["mpi_version"]
        for case in session.cases
        if case.condition.get("mpi_version")
    }
    stacks = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return [
        ("session", session.uuid),
        ("started", f"{session.started:%Y-%m-%d %H:%M:%S} UTC, took {session.seconds:.0f} s"),
        ("on", f"{info.get('hostname', '')}, as {info.get('user', 'unknown user')}"),
        ("with", f"ReFrame {info.get('version', '')}, {stacks}"),
        ("command", str(info.get("cmdline", ""))),
    ]


def render(view: View) -> str:
    """The page as text."""
    session = view.session
    systems = ", ".join(session.systems)
    label = label_of(session)
    curves_of = curves(session)
    unjudged = [case for case in session.cases if case.uuid in session.excused]
    return render_page(
        "session.html",
        script=True,
        title=f"{systems}: {label}, {session.started:%Y-%m-%d}",
        systems=systems or "no system",
        label=label,
        failed=counts(session)["failed"] or view.again.unreadable or view.withdrawn,
        verdict=f"{view.withdrawn}. {verdict(session)}" if view.withdrawn else verdict(session),
        load=load(session),
        facts=_facts(session),
        worst=[
            f"{case.stack}, {title_of(case)}: {' '.join(sentences(case)[:1])}"
            for case in (failures(session) or unjudged)[:MOST_WORST]
        ]
        or tightest(session, MOST_WORST),
        more=max(0, counts(session)["failed"] - MOST_WORST),
        next_step=next_step(session),
        view=view,
        sections=[
            (*words, content) for *words, make in _sections() if (content := make(view)) is not None
        ],
        index=index(session, curves_of, view.published),
        curve_rows=list(curves_of.values()),
        panel=panel,
    )


def write_markdown(session: Session, path: str | Path, faults: Sequence[str] = ()) -> None:
    """Write a summary for places that show Markdown, such as a CI job's page.

    :param faults: what else is wrong, one sentence each.
    """
    number = counts(session)
    verdict = (
        f"**{markdown_text(verdict_line(session))}** Session `{session.uuid}`, "
        f"{session.started:%Y-%m-%d %H:%M} UTC."
    )
    outcomes = [
        (outcome.mark, number[name], outcome.meaning)
        for name, outcome in OUTCOMES.items()
        if number[name]
    ]
    failed = [
        (case.stack, title_of(case), " ".join(sentences(case)), case.job_id)
        for case in failures(session)
    ]
    skipped = [(len(cases), reason) for reason, cases in skip_reasons(session)]
    content: list[Section] = [
        (
            "",
            [
                verdict,
                *(f"**{markdown_text(fault)}**" for fault in faults),
                Table(("", "cases", "meaning"), outcomes),
            ],
        ),
        ("Failures", [Table(("stack", "case", "why", "job"), failed)] if failed else []),
        ("Skipped", [Table(("cases", "reason"), skipped)] if skipped else []),
    ]
    title = f"{', '.join(session.systems)}: {label_of(session)}"
    whole_file.write_text(Path(path), markdown(title, content, level=2))


def write_report(view: View, name: str) -> Path:
    """Write the page into its folder, whole or not at all, and return its path.

    :raises BadInput: the folder cannot be written.
    """
    out_path = view.base / name
    with writing(out_path):
        write_page(out_path, render(view))
    return out_path


def _excused(store: Store, session: Session) -> frozenset[str]:
    found: set[str] = set()
    for system in session.systems:
        night = StoredNight(store, system, session.uuid, withdrawn_too=True)
        again = confirmations.confirming(
            store.cases(system, withdrawn_too=True), session.uuid, store.withdrawn
        )
        missed = confirmations.missed_references(night.cases, again, night.earlier)
        found |= confirmations.excused(night.cases, missed)
    return frozenset(found)


def write(
    store: Store,
    session: Session,
    folder: Path,
    out: str | Path | None = None,
    published: Sequence[str] = (),
) -> list[str]:
    """Write report and Markdown summary of one session and return lines for the terminal.

    :param out: the one HTML file to write; by default two in the folder:
        ``reports/<session>.html``, which no other session replaces, and ``report.html``, the report
        that was written last.
    :param published: ``FABRIC=SYSTEM/FABRIC`` each: published data to
        put a fabric beside (:mod:`.additions`).
    :raises BadInput: there is no such published data, or what stands beside the session is damaged.
    """
    pages = (
        [Path(out)]
        if out
        else [folder / "reports" / f"{session.uuid}.html", folder / "report.html"]
    )
    stacks, _ = metadata.discover()
    chosen = [curve for addition in additions() for curve in addition.curves(session, published)]
    try:
        again = stored_answers(store, session.uuid)
    except BadInput as error:
        again = StoredAnswers(
            unreadable=(f"cannot tell what measured this session again: {error}",)
        )
    session = replace(session, excused=_excused(store, session))
    gone = store.withdrawn.get(session.uuid)
    withdrawn = f"WITHDRAWN: {gone}" if gone else ""
    faults = [*filter(None, [withdrawn]), *again.unreadable]
    for path in pages:
        write_report(View(session, path.parent, stacks, chosen, again, withdrawn), path.name)
        write_markdown(session, path.with_suffix(".md"), faults)
    added = [line for addition in additions() for line in addition.lines(session, chosen)]
    return [*summary_lines(session), *faults, *added, *(f"report: {path}" for path in pages)]
