"""Values to a site's own monitoring through ReFrame's ``httpjson`` handler, as JSON or in Prometheus' text format.

``MPIBENCH_METRICS=prometheus+http://gateway:9091/metrics/job/mpibench`` (Pushgateway, VictoriaMetrics, ...) or
``http://collector:8088/...`` for JSON. One message per case that is proven; everything else stays in the database only.
A server that does not answer is ReFrame's warning and harms no test.

Sources: ReFrame manual, "HTTP JSON log handler" (``json_formatter``, ``extra_headers``); Prometheus, "Exposition formats",
text format 0.0.4.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from typing import Any

from .vocabulary import BadInput

VARIABLE = "MPIBENCH_METRICS"
PROMETHEUS = "prometheus+"
#: Labels of a metric: attribute of ReFrame's log record, and what it is called.
_CASE = {
    **{"check_system": "system", "check_partition": "partition", "check_environ": "stack", "check_fabric": "fabric"},
    **{"check_nodes": "nodes", "check_ranks_per_node": "ppn", "check_pinning": "pinning"},
}
_SAMPLE = ("suite", "benchmark", "variant", "ranks", "groups", "message_bytes")


def handlers(environ: Mapping[str, str] = os.environ) -> list[dict[str, Any]]:
    """ReFrame's ``handlers_perflog``: nothing, or the one that the variable asks for.

    :raises BadInput: it is no URL.
    """
    url = environ.get(VARIABLE, "")
    if not url:
        return []
    plain = url.removeprefix(PROMETHEUS)
    if not plain.startswith(("http://", "https://")):
        raise BadInput(f"{VARIABLE} is {url!r}: write http://HOST:PORT/PATH, or {PROMETHEUS}http://... for Prometheus.")
    as_text = plain != url
    handler: dict[str, Any] = {"type": "httpjson", "url": plain, "level": "info", "retry_timeout": 10}
    return [
        {
            **handler,
            "json_formatter": as_prometheus if as_text else as_json,
            "extra_headers": {"Content-type": "text/plain; version=0.0.4"} if as_text else {},
        }
    ]


def _rows(record: Any) -> list[tuple[dict[str, Any], Mapping[str, Any]]]:
    """Labels and sample of each metric of a proven case."""
    if (getattr(record, "check_proof", None) or {}).get("verdict") != "proven":
        return []
    case = {name: getattr(record, attribute, None) for attribute, name in _CASE.items()}
    rows = []
    for sample in getattr(record, "check_samples", None) or ():
        if any(value is not None for value in sample["values"]):
            rows.append(({**case, **{name: sample[name] for name in _SAMPLE}}, sample))
    return rows


def as_json(record: Any, extras: Any, ignore_keys: Any) -> str | None:
    """Labels, quantity, unit and all repeats of each metric of a case, as a list; ``None``: nothing is sent."""
    rows = [
        {**labels, **{key: sample[key] for key in ("quantity", "unit", "direction", "values")}, **(extras or {})}
        for labels, sample in _rows(record)
    ]
    return json.dumps(rows) if rows else None


def as_prometheus(record: Any, extras: Any, ignore_keys: Any) -> str | None:
    """The median of the repeats of each metric of a case; the quantity's name, which ends in its unit, is the metric's."""
    lines: dict[str, list[str]] = {}
    for labels, sample in _rows(record):
        value = statistics.median(one for one in sample["values"] if one is not None)
        told = ",".join(
            f'{key}="{_escaped(one)}"' for key, one in {**labels, **(extras or {})}.items() if one not in (None, "")
        )
        lines.setdefault(f"mpibench_{sample['quantity']}", []).append(f"{{{told}}} {value!r}")
    text = [line for name, rows in lines.items() for line in (f"# TYPE {name} gauge", *(f"{name}{row}" for row in rows))]
    return "\n".join(text) + "\n" if text else None


def _escaped(value: Any) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
