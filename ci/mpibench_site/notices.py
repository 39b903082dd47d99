"""The night's answer for a site's own monitoring: sent where
``MPIBENCH_METRICS`` sends each case, when it ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import time
from typing import Any

from mpibench.store import records
from reframe_tests.harness.vocabulary import BadInput

from . import metrics_push
from .metrics_push import CASE_LOG, LINE_PROTOCOL, PUSHGATEWAY

#: Problems that a line for a log store names; the others are counted.
MOST_NAMED = 20


def send(
    dataset: Path,
    system: str,
    run: str,
    session: str | None,
    problems: Sequence[str],
    cases: Mapping[str, int],
    environ: Mapping[str, str] = os.environ,
    *,
    unjudged: bool = False,
) -> list[str]:
    """Send a night's answer, with the gate's where it was asked; a
    sentence for each address that did not take it.

    :param system: as ReFrame names it; empty where no session was stored.
    :param run: label of the night.
    :param session: id; ``None`` where none was stored.
    :param problems: of the night itself.
    :param cases: number of cases by ReFrame's result.
    :param unjudged: of the night itself: something was slow on a busy
        machine alone, so that it is not green either.
    :raises BadInput: the variable holds no address.
    """
    answers: Sequence[records.StoredAnswer] = ()
    senders = {PUSHGATEWAY: _push, LINE_PROTOCOL: _write_point, CASE_LOG: _append_line}
    targets = [target for target in metrics_push.targets(environ) if target.handler in senders]
    if targets and session:
        # their folder cannot be read, so that tonight's could not be kept, which is a problem of it
        with suppress(BadInput):
            answers = records.answers(dataset).get(session, ())
    gate = [answer for answer in answers if answer.source == records.GATE]
    every = list(dict.fromkeys([*problems, *(text for answer in gate for text in answer.problems)]))
    unjudged = unjudged or any(answer.unjudged for answer in gate)
    result = "fail" if every else "not judged" if unjudged else "pass"
    message = _Message({"system": system, "run": run}, session or "", every, cases, result, time())
    sentences = []
    for target in targets:
        why = metrics_push.failure(partial(senders[target.handler], target.url, message))
        if why:
            where = (
                target.url if target.is_file else target.url.rpartition("@")[2].partition("?")[0]
            )
            sentences.append(
                f"the site's monitoring did not get this night's answer ({where}: {why})"
            )
    return sentences


@dataclass(frozen=True)
class _Message:
    """What is sent; ``key`` are the labels that a night has, whatever
    became of it, ``ended`` seconds since 1970.
    """

    key: Mapping[str, str]
    session: str
    problems: Sequence[str]
    cases: Mapping[str, int]
    result: str
    ended: float

    @property
    def ok(self) -> bool:
        return self.result == "pass"


def _push(url: str, night: _Message) -> None:
    """Gauges."""
    from prometheus_client import CollectorRegistry, Gauge

    registry = CollectorRegistry()
    for name, text, value in (
        (
            "night_ok",
            "1: the night is green; 0: something was the matter, or not all was judged",
            float(night.ok),
        ),
        (
            "night_problems",
            "How many reasons the night gives why it is not accepted",
            len(night.problems),
        ),
        ("night_end_time_seconds", "When the night ended, in seconds since 1970", night.ended),
    ):
        Gauge(f"mpibench_{name}", text, registry=registry).set(value)
    info = Gauge(
        "mpibench_night_info", "1; its label names the session", ["session"], registry=registry
    )
    info.labels(night.session).set(1)
    count = Gauge(
        "mpibench_night_cases",
        "Cases of the night by ReFrame's result",
        ["result"],
        registry=registry,
    )
    for result, number in night.cases.items():
        count.labels(result).set(number)
    metrics_push.push_registry(url, registry, night.key)
    if night.key["system"]:
        # Of a night that stored no session on a machine that had
        # none yet: it would be red for ever.
        metrics_push.forget(url, {"run": night.key["run"]})


def _write_point(url: str, night: _Message) -> None:
    """A point of InfluxDB's measurement ``mpibench_night``."""
    counts = {f"cases_{result}": number for result, number in night.cases.items()}
    fields = {"ok": night.ok, "problems": len(night.problems), "session": night.session, **counts}
    metrics_push.write(
        [metrics_push.protocol_line("mpibench_night", night.key, fields, round(night.ended * 1e9))],
        url,
    )


def _append_line(url: str, night: _Message) -> None:
    """One JSON object in one line."""
    row: dict[str, Any] = {
        "time": metrics_push.iso_time(night.ended),
        "event": "mpibench_night",
        **night.key,
        "session": night.session,
        "result": night.result,
        "cases": dict(night.cases),
        "problems": [metrics_push.cut(problem) for problem in night.problems[:MOST_NAMED]],
        "more_problems": max(0, len(night.problems) - MOST_NAMED),
    }
    metrics_push.append(url, [json.dumps(row, ensure_ascii=True)])
