"""A case for a site's own monitoring: gauges for Prometheus, InfluxDB's line protocol, one JSON object for a log store.

Values are those of proven cases only. That a case was not proven is itself a message: what an earlier night measured must not
stand for tonight's.

Sources: InfluxDB 1.8 and 2 documentation, "Line protocol reference" (escapes, types); Prometheus documentation, "Metric and
label naming"; ReFrame 4.10, ``reframe/core/logging.py`` (``log_result``), for what a log record has.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from ...printable import first_line, one_line
from ...samples import DRY_RUN, FAIL, NO_REFERENCE
from ...vocabulary import MB_PER_GBIT, QUANTITIES

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

#: Labels of a case: attribute of ReFrame's log record, and what it is called.
CASE = {
    **{"check_system": "system", "check_partition": "partition", "check_environ": "stack", "check_fabric": "fabric"},
    **{"check_nodes": "nodes", "check_ranks_per_node": "ppn", "check_pinning": "pinning", "check_group": "group"},
}
#: Labels of a value, beside those of its case.
SAMPLE = ("suite", "benchmark", "variant", "ranks", "groups", "message_bytes")
#: Labels of a reference: the name of the performance variable it is of, and its layer.
REFERENCE = ("metric", "layer")
#: Characters of a reason; the report and the job's output have all of it.
LONGEST_REASON = 1000


@dataclass(frozen=True)
class MeasuredRun:
    """One stack of a case: its own, or the one interleaved with it.

    :param case: its labels (:data:`CASE`).
    :param status: of its evidence: ``proven``, ``contradicted``, ``missing``; empty where none was read.
    :param samples: those with a value; none unless proven.
    :param gates: comparisons with references; the paired stack has none.
    :param condition: as stored with the session.
    :param result: ReFrame's ``pass``, ``fail``, ...; empty for the paired stack.
    """

    case: Mapping[str, Any]
    status: str
    samples: Sequence[Mapping[str, Any]]
    gates: Sequence[Mapping[str, Any]]
    condition: Mapping[str, Any]
    result: str
    sentences: Sequence[str]

    @property
    def proven(self) -> bool:
        """Whether its conditions are proven."""
        return self.status == "proven"


def runs_of(record: Any) -> list[MeasuredRun]:
    """Runs of a case by its log record; none of a dry run and of tests that are not this project's."""
    if getattr(record, "check_samples", None) is None or getattr(record, "check_proof", None) is None:
        return []
    case = {name: getattr(record, attribute, None) for attribute, name in CASE.items()}
    own = {
        "proof": record.check_proof,
        "samples": record.check_samples,
        "condition": getattr(record, "check_condition", None) or {},
        "gates": getattr(record, "check_gates", None) or (),
        "result": str(getattr(record, "check_result", None) or ""),
    }
    found = [_run(case, own)]
    paired = getattr(record, "check_rival_run", None) or {}
    if paired:
        found.append(_run({**case, "stack": (paired.get("condition") or {}).get("stack")}, paired))
    return [run for run in found if run.status != DRY_RUN]


def _run(case: Mapping[str, Any], run: Mapping[str, Any]) -> MeasuredRun:
    proof = run.get("proof") or {}
    status = str(proof.get("verdict") or "")
    samples = [one for one in run.get("samples") or () if any(value is not None for value in one["values"])]
    sentences = [str(one) for one in proof.get("sentences") or ()]
    return MeasuredRun(
        *(case, status, samples if status == "proven" else (), run.get("gates") or ()),
        *(run.get("condition") or {}, str(run.get("result") or ""), sentences),
    )


def values_of(sample: Mapping[str, Any]) -> list[float]:
    """Repeats of a sample that gave a value."""
    return [float(one) for one in sample["values"] if one is not None]


def registry_of(run: MeasuredRun) -> CollectorRegistry:
    """Gauges of a run: whether it is proven and passed, and of a proven one the medians of its repeats, its line rate and its
    references. A quantity's name, which ends in its unit, is the metric's."""
    from prometheus_client import CollectorRegistry, Gauge

    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}

    def put(name: str, text: str, value: float, labels: Sequence[str] = (), words: Sequence[str] = ()) -> None:
        if name not in gauges:
            gauges[name] = Gauge(f"mpibench_{name}", text, labels, registry=registry)
        (gauges[name].labels(*words) if labels else gauges[name]).set(value)

    put("case_proven", "1: the conditions of the case are proven; 0: they are not, and nothing else is kept of it", run.proven)
    if run.result:
        put("case_passed", "1: proven, and every reference it has was reached", run.result == "pass")
    if not run.proven:
        return registry
    for sample in run.samples:
        name = sample["quantity"]
        point = ["" if sample[label] is None else str(sample[label]) for label in SAMPLE]
        put(name, f"Median of the repeats, in {QUANTITIES[name].unit}", statistics.median(values_of(sample)), SAMPLE, point)
    rate = run.condition.get("line_rate_gbit_per_s")
    if isinstance(rate, (int, float)) and not isinstance(rate, bool) and rate > 0:
        put("line_rate_mb_per_s", "Line rate of the fabric, all rails together, in MB/s", rate * MB_PER_GBIT)
    for gate in run.gates:
        if gate["outcome"] == NO_REFERENCE:
            continue
        words = [str(gate[label]) for label in REFERENCE]
        put("reference_held", "1: the reference was reached", gate["outcome"] != FAIL, REFERENCE, words)
        for bound in ("lower", "upper"):
            if gate.get(bound) is not None:
                put(f"reference_{bound}", f"The {bound} bound, in the metric's unit", float(gate[bound]), REFERENCE, words)
    return registry


def as_json(record: Any) -> str | None:
    """Labels, quantity, unit and all repeats of each metric of a case, as a list; ``None``: nothing is sent."""
    rows = [
        {**run.case, **{name: sample[name] for name in (*SAMPLE, "quantity", "unit", "direction", "values")}}
        for run in runs_of(record)
        for sample in run.samples
    ]
    return json.dumps(rows) if rows else None


def case_lines(record: Any) -> Iterator[str]:
    """One JSON object a run, proven or not, each in a line of its own: what a log store is asked for when a night was red.

    ``medians`` holds a number per metric under the name it has in ReFrame; the repeats are in the results database.
    """
    from ...suites.benchmark import metric_name

    for run in runs_of(record):
        failed = getattr(record, "check_fail_reason", None) if run.result not in ("", "pass") else None
        medians = {
            metric_name(
                *(one["benchmark"], QUANTITIES[one["quantity"]].short, one["message_bytes"], one["variant"] or "")
            ): statistics.median(values_of(one))
            for one in run.samples
        }
        line = {
            "time": iso_time(record.created),
            "event": "mpibench_case",
            **run.case,
            "test": one_line(str(getattr(record, "check_display_name", None) or getattr(record, "check_name", None) or "")),
            "result": run.result or ("pass" if run.proven else "fail"),
            "evidence": run.status or "missing",
            "reason": cut(failed),
            "sentences": [cut(one) for one in run.sentences] if not run.proven else [],
            "job_id": str(getattr(record, "check_jobid", None) or ""),
            "nodelist": nodes_of(record),
            "missed": [gate["metric"] for gate in run.gates if gate["outcome"] == FAIL],
            "medians": medians,
        }
        yield json.dumps(line, ensure_ascii=True, allow_nan=False, default=str)


def nodes_of(record: Any) -> str:
    """Nodes of a job, with commas between."""
    nodes = getattr(record, "check_job_nodelist", None) or ()
    return nodes if isinstance(nodes, str) else ",".join(map(str, nodes))


def cut(reason: object) -> str:
    """A reason in one line of bounded length."""
    return first_line(one_line(str(reason or "")), LONGEST_REASON)


def iso_time(seconds: float) -> str:
    """UTC, as log stores read it."""
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S.%f}Z"


def protocol_lines(record: Any) -> Iterator[str]:
    """InfluxDB's line protocol: ``mpibench_case`` says whether a run was proven, ``mpibench`` has its medians.

    Lowest and highest repeat are beside each median, as ``latency_us_low`` and ``latency_us_high``.
    """
    at = round(record.created * 1e9)
    for run in runs_of(record):
        passed = {"passed": run.result == "pass"} if run.result else {}
        job = str(getattr(record, "check_jobid", None) or "")
        yield protocol_line("mpibench_case", run.case, {"proven": run.proven, **passed, "job_id": job}, at)
        points: dict[tuple[Any, ...], dict[str, float]] = {}
        for sample in run.samples:
            values = values_of(sample)
            fields = points.setdefault(tuple(sample[label] for label in SAMPLE), {})
            name = str(sample["quantity"])
            fields |= {name: statistics.median(values), f"{name}_low": min(values), f"{name}_high": max(values)}
        for point, fields in points.items():
            yield protocol_line("mpibench", {**run.case, **dict(zip(SAMPLE, point, strict=True))}, fields, at)


def protocol_line(measurement: str, tags: Mapping[str, Any], fields: Mapping[str, Any], at: int) -> str:
    """A point in InfluxDB's line protocol; what has no value is left out.

    :param at: nanoseconds since 1970.
    """
    named = ((name, _tag(value)) for name, value in sorted(tags.items()) if value is not None)
    words = [measurement, *(f"{_tag(name)}={value}" for name, value in named if value)]
    shown = ",".join(f"{_tag(name)}={text}" for name, value in fields.items() if (text := _field(value)))
    return f"{','.join(words)} {shown} {at}"


def _tag(value: Any) -> str:
    """A tag's value. A backslash would escape the separator behind it, so that slashes stand for backslashes."""
    return re.sub(r"([,= ])", r"\\\1", one_line(str(value)).replace("\\", "/").replace("\t", " ").strip())


def _field(value: Any) -> str:
    """A field's value; empty where there is none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}i"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    text = one_line(str(value))
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if text else ""
