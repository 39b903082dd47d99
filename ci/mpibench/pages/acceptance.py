"""The record of an acceptance: ``accept.html`` for people, ``accept.json`` for programs
(:class:`..answers.Accept`), ``accept.xml`` (JUnit) for CI.

The JSON has the SHA-256 of all judged values, so a record can later be checked against the dataset.
A record is written completely or not at all; an earlier one is moved aside and kept, because it may
be signed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import polars as pl

from reframe_tests.harness.printable import plain_data, printable
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from ..judge import text as verdict_text
from ..judge.accept import ACCEPTED, REFUSED, Acceptance
from ..judge.comparison import INCONCLUSIVE, MISSING, PASS, REGRESSED
from ..store import session_values
from ..store.quantity_text import change_text, directed_text, size_text, with_own_loss
from ..store.session_values import METRIC, UNIT, Selection, describe_condition
from .comparison import job_table
from .page import Block, Section, Table, number, sections, writing

SIDES = ("baseline", "candidate")


def page(record: Mapping[str, Any]) -> str:
    sides = {side: record[side] for side in SIDES}
    changed = [(row["what"], row["before"], row["after"]) for row in record["changed"]]
    known = [record[side]["facts"] for side in SIDES]
    facts = [
        (name, *(", ".join(fact.get(name, ["-"])) for fact in known))
        for name in sorted({*known[0], *known[1]})
    ]
    stamp, colour = STAMPS[record["decision"]]
    content: list[Section] = [
        (
            "",
            [
                Block("text", stamp, label=f"stamp {colour}"),
                *([Block("text", record["finding"], label="verdict")] if record["finding"] else []),
                record["headline"],
                Block("facts", _decided(record, sides)),
            ],
        ),
        ("The three worst", _worst(record)),
        ("Sessions", [_sessions(sides)]),
        ("Why", [Block("items", record["sentences"])] if record["sentences"] else []),
        *(
            (f"Cases of the {side} that are not proven", _unproven(record[side]["unproven"]))
            for side in reversed(SIDES)
        ),
        (
            "What changed between the sides",
            [Table(("what", "before", "after"), changed) if changed else "No recorded difference."],
        ),
        ("Not used", [Block("items", record["remarks"])]),
        ("Bands", [Table(BANDS, [_band(row) for row in record["bands"]], (4, 5, 6, 7, 8), 9)]),
        (
            "Metrics",
            [Table(METRICS, [_metric(row) for row in record["metrics"]], (3, 4, 5, 7, 8, 9), 10)],
        ),
        ("Jobs", [job_table({name: side["jobs"] for name, side in sides.items()})]),
        ("Versions on both sides", [Table(("what", "before", "after"), facts)]),
        ("Signed off", [_signing(record, sides)]),
    ]
    return sections("Acceptance", record["system"], content)


#: What is stamped on a decision, and the colour of a verdict that it has.
STAMPS = {
    ACCEPTED: ("PASS", PASS),
    REFUSED: ("FAIL", REGRESSED),
    INCONCLUSIVE: ("NOT JUDGED", INCONCLUSIVE),
}


def _decided(
    record: Mapping[str, Any], sides: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Who and what was decided on, and when, by what."""
    named = [
        (name, ": ".join(dict.fromkeys([side["selector"], ", ".join(side["sessions"])])))
        for name, side in sides.items()
    ]
    by = f"mpibench {record['mpibench']} on {record['decided_on']}"
    return [
        *reversed(named),
        ("decided", f"{record['decided'][:16].replace('T', ' ')} UTC by {by}"),
        ("signed by", "sign in the last section"),
    ]


def _worst(record: Mapping[str, Any]) -> list[Table | str]:
    """The bands that lost most, whatever their verdict is."""
    lost = [row for row in record["bands"] if (row["slower"] or 0) > 0]
    lost.sort(key=lambda row: -row["slower"])
    rows = [
        (
            *_what(row),
            row["band"],
            change_text(row["slower"], row["quantity"]),
            row["verdict"],
            _why(row),
        )
        for row in lost[:3]
    ]
    if not rows:
        return ["No band of sizes is worse."]
    return [Table((*_WHAT, "band", "change", "verdict", "why"), rows, (), 5)]


def _sessions(sides: Mapping[str, Mapping[str, Any]]) -> Table:
    head = (
        "side",
        "asked for",
        "session",
        "started, UTC",
        "age, days",
        "labels",
        "cases",
        "narrowed by",
    )
    rows = [
        (
            name,
            side["selector"],
            identity["session"],
            identity["started"][:16].replace("T", " "),
            f"{identity['age_days']:g}",
            ", ".join(f"{key}={value}" for key, value in identity["labels"].items()),
            identity["cases"],
            " ".join(identity["options"]),
        )
        for name, side in sides.items()
        for identity in side["identities"]
    ]
    return Table(head, rows, (4, 6))


def _interval(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None else f"{number(row['low'])} to {number(row['high'])}"


def _why(row: Mapping[str, Any]) -> str:
    if row["verdict"] == PASS and row["seen_percent"] is not None:
        return f"loss seen from {row['seen_percent']:.0f} %"
    return str(
        row["why"] or (verdict_text.needed_text(row) if row["verdict"] == INCONCLUSIVE else "")
    )


def _what(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return (
        describe_condition(row),
        verdict_text.benchmark_text(row),
        directed_text(row["quantity"]),
    )


_WHAT = ("condition", "benchmark", "quantity")
BANDS = (*_WHAT, "band", "sizes", "ratio", "interval", "margin %", "spread %", "verdict", "why")
METRICS = (*_WHAT, "size", *SIDES, "unit", "ratio", "95 % interval", "repeats", "verdict", "why")


def _band(row: Mapping[str, Any]) -> tuple[object, ...]:
    limits = number(row["margin_percent"], 0), number(row["spread_percent"], 1)
    ratio = number(row["ratio"]), _interval(row)
    return (
        *_what(row),
        row["band"],
        row["sizes"] or "",
        *ratio,
        *limits,
        row["verdict"],
        _why(row),
    )


def _metric(row: Mapping[str, Any]) -> tuple[object, ...]:
    values = (number(row.get(side), 2) for side in SIDES)
    repeats = f"{row.get('baseline_repeats') or 0} / {row.get('candidate_repeats') or 0}"
    ratio = number(row["ratio"]), _interval(row)
    size = size_text(row["message_bytes"])
    unit = row.get("unit") or ""
    return (*_what(row), size, *values, unit, *ratio, repeats, row["verdict"], _why(row))


def _unproven(rows: Iterable[Mapping[str, Any]]) -> list[Table]:
    cells = [
        (row["session"], row["name"], describe_condition(row), row["why"], row["outputdir"] or "")
        for row in rows
    ]
    return [Table(("session", "case", "condition", "why", "folder"), cells)] if cells else []


def _signing(record: Mapping[str, Any], sides: Mapping[str, Mapping[str, Any]]) -> Block:
    asked = ", ".join(f"{name} {value}" for name, value in record["options"].items() if value)
    rows = [
        (
            "decided",
            f"{record['decided']} on {record['decided_on']} by mpibench {record['mpibench']}",
        ),
        ("asked for", asked or "everything that both sides have"),
        ("policy", f"{record['policy']['source']}: {record['policy']['margins_percent']}"),
        *(
            (
                name,
                f"{', '.join(side['sessions'])}; {side['values']} values, SHA-256 "
                f"{side['values_sha256']}",
            )
            for name, side in sides.items()
        ),
        ("name, date, signature", "." * 72),
    ]
    return Block("facts", rows)


JSON = "accept.json"
JUNIT = "accept.xml"
PAGE = "accept.html"
FILES = (JSON, JUNIT, PAGE)
#: Folder, inside the one for the record, of the records before it.
EARLIER = "earlier"


def _fingerprint(values: pl.DataFrame) -> str:
    rows = values.select(*METRIC, *UNIT, "value").sort([*METRIC, *UNIT])
    return hashlib.sha256(
        rows.write_csv(float_scientific=True, float_precision=17).encode()
    ).hexdigest()


def _side(
    acceptance: Acceptance, selection: Selection, facts: Mapping[str, list[str]]
) -> dict[str, Any]:
    first, last = selection.planned.select(
        pl.min("started").alias("first"), pl.max("started").alias("last")
    ).row(0)
    return {
        "selector": selection.selector,
        "sessions": list(selection.sessions),
        "identities": verdict_text.identities(selection, acceptance.decided),
        "first": first.isoformat(),
        "last": last.isoformat(),
        "cases": selection.cases.height,
        "cases_left_out": selection.outside.height,
        "unproven": verdict_text.unproven_rows(selection),
        "values": selection.measured.height,
        "values_sha256": _fingerprint(selection.measured),
        "facts": dict(facts),
        "jobs": selection.jobs(),
        "remarks": list(selection.notes),
    }


def as_dict(acceptance: Acceptance) -> dict[str, Any]:
    """The record as plain data: what is not a finite number is
    ``None``, and texts have no control characters.
    """
    judgement = acceptance.judgement
    data: dict[str, Any] = plain_data(
        {
            "decision": acceptance.decision,
            "headline": acceptance.headline,
            "finding": acceptance.finding,
            "sentences": acceptance.sentences,
            "decided": acceptance.decided.isoformat(timespec="seconds"),
            "decided_on": platform.node(),
            "mpibench": version("mpibench"),
            "system": acceptance.baseline.system,
            "options": {**vars(acceptance.options)},
            "policy": {**vars(acceptance.policy)},
            "changed": [
                {"what": name, "before": old, "after": new} for name, old, new in acceptance.changed
            ],
            "baseline": _side(acceptance, acceptance.baseline, acceptance.facts[0]),
            "candidate": _side(acceptance, acceptance.candidate, acceptance.facts[1]),
            "history": {
                "strata": [msgspec.to_builtins(stratum) for stratum in acceptance.past.strata],
                "unlike_baseline": list(judgement.unlike_past.values()),
                "values": acceptance.past.values.height,
                "values_sha256": _fingerprint(acceptance.past.values),
            },
            "remarks": acceptance.notes,
            "counts": judgement.counts(),
            "bands": with_own_loss(judgement.bands).to_dicts(),
            "metrics": with_own_loss(acceptance.metrics).to_dicts(),
            "new": judgement.new.to_dicts(),
            "measured_again_before": [
                {"session": first, "by": again} for first, again in acceptance.measured_again
            ],
        }
    )
    return data


#: Class, name, tag (``failure``, ``skipped`` or, for output,
#: empty), type and message of a JUnit test.
_JUnitTest = tuple[str, str, str, str, str]


def _suite(root: ElementTree.Element, name: str, tests: Sequence[_JUnitTest]) -> None:
    tags = [tag for _, _, tag, _, _ in tests]
    counts = {
        "tests": len(tests),
        "failures": tags.count("failure"),
        "errors": 0,
        "skipped": tags.count("skipped"),
    }
    counted = {key: str(count) for key, count in counts.items()}
    suite = ElementTree.SubElement(root, "testsuite", {"name": printable(name), **counted})
    for group, title, tag, kind, message in tests:
        test = ElementTree.SubElement(
            suite, "testcase", classname=printable(group), name=printable(title)
        )
        if tag:
            words = {"type": kind, "message": printable(message)}
            ElementTree.SubElement(
                test, tag, {name: word for name, word in words.items() if word or name == "message"}
            )
        elif message:
            ElementTree.SubElement(test, "system-out").text = printable(message)


def junit(acceptance: Acceptance) -> str:
    """JUnit XML: one suite per condition, one test per metric; the
    candidate's unproven cases and the decision likewise.

    An inconclusive metric is skipped with the repeats it needs; the
    decision fails unless accepted: CI does not go green.
    """
    root = ElementTree.Element(
        "testsuites", name=printable(f"acceptance of {acceptance.baseline.system}")
    )
    unproven = verdict_text.unproven_rows(acceptance.candidate)
    if unproven:
        tag, kind = (
            ("skipped", "") if acceptance.options.allow_unproven else ("failure", "unproven")
        )
        _suite(
            root,
            "the candidate's cases without proof",
            [
                (
                    row["group"],
                    f"{row['name']} [{row['stack']}]",
                    tag,
                    kind,
                    f"not proven: {row['why']}",
                )
                for row in unproven
            ],
        )
    for _, rows in acceptance.metrics.group_by(session_values.CONDITION, maintain_order=True):
        dicts = rows.to_dicts()
        _suite(root, session_values.describe_condition(dicts[0]), [_test(row) for row in dicts])
    decision = acceptance.decision
    failed = ("", "") if decision == ACCEPTED else ("failure", decision)
    _suite(root, "decision", [("acceptance", "decision", *failed, acceptance.headline)])
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _test(row: Mapping[str, Any]) -> _JUnitTest:
    title = f"{row['benchmark']} {row['quantity']} {size_text(row['message_bytes'])}"
    verdict = row["verdict"]
    if verdict in (REGRESSED, MISSING):
        text = row["why"] if row["slower"] is None else change_text(row["slower"], row["quantity"])
        return row["benchmark"], title, "failure", verdict, f"{verdict}: {text}"
    if verdict == INCONCLUSIVE:
        return (
            row["benchmark"],
            title,
            "skipped",
            "",
            f"inconclusive: {verdict_text.needed_text(row)}",
        )
    return row["benchmark"], title, "", "", ""


def move_aside(out: Path) -> Path | None:
    """Move a record that is already there into ``earlier/<when it was
    decided>``, so that it is not mistaken for today's.

    :returns: where it went; ``None`` if there was none.
    :raises BadInput: it cannot be moved.
    """
    there = [out / name for name in FILES if (out / name).exists()]
    if not there:
        return None
    try:
        when = json.loads((out / JSON).read_text(encoding="utf-8"))["decided"]
        name = "".join(letter for letter in str(when)[:19] if letter.isalnum() or letter == "-")
    except (OSError, ValueError, KeyError, TypeError):
        name = "of-unknown-date"
    target = out / EARLIER / name
    try:
        (out / EARLIER).mkdir(exist_ok=True)
        number = 1
        while target.exists():
            number += 1
            target = out / EARLIER / f"{name}.{number}"
        target.mkdir()
        for path in there:
            path.rename(target / path.name)
    except OSError as error:
        raise BadInput(
            "cannot-write", f"cannot move the record in {out} aside: {error.strerror}."
        ) from None
    return target


def write(acceptance: Acceptance, out: Path) -> list[Path]:
    """Write the record into a folder, all of it or nothing.

    :raises BadInput: it cannot be written.
    """
    record = as_dict(acceptance)
    content = {
        JSON: json.dumps(record, indent=1, default=str, allow_nan=False) + "\n",
        JUNIT: junit(acceptance),
        PAGE: page(record),
    }
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as files:  # all are written before the first takes its place
            for name, text in content.items():
                files.enter_context(whole_file.replacing(out / name)).write_text(
                    text, encoding="utf-8"
                )
    return [out / name for name in content]
