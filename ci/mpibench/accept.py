"""Site acceptance: is the machine after the upgrade as good as before? One sentence, one exit code, one signed-off record.

Exit status: 0 accepted; 1 refused (something regressed or is missing); 3 undecided (more repeats are needed); 2 bad input.
The record is three files with the same content: ``accept.html`` for people, ``accept.json`` for programs,
``accept.xml`` (JUnit) for CI. The JSON carries the SHA-256 of all values judged, so that a record can be checked against
the dataset later.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl

from reframe_tests.harness.vocabulary import BadInput

from . import verdict_data, verdict_page, verdict_policy, verdict_text, verdicts
from .verdict_data import METRIC, UNIT, Selection

ACCEPTED, REFUSED, UNDECIDED = "accepted", "refused", "undecided"
#: Exit status per decision; 2 is bad input, as for every command.
STATUS = {ACCEPTED: 0, REFUSED: 1, UNDECIDED: 3}
#: Overall verdict to decision.
DECISIONS = {
    verdicts.PASS: ACCEPTED,
    verdicts.IMPROVED: ACCEPTED,
    verdicts.REGRESSED: REFUSED,
    verdicts.MISSING: REFUSED,
    verdicts.INCONCLUSIVE: UNDECIDED,
}


@dataclass(frozen=True)
class Acceptance:
    """A decision with everything it rests on.

    :param changed: facts that differ between the sides: name, before, after.
    :param facts: all facts of both sides.
    """

    baseline: Selection
    candidate: Selection
    policy: verdict_policy.Policy
    judgement: verdicts.Judgement
    changed: list[tuple[str, str, str]]
    facts: tuple[Mapping[str, list[str]], Mapping[str, list[str]]]
    decided: datetime

    @property
    def decision(self) -> str:
        """``accepted``, ``refused`` or ``undecided``."""
        return DECISIONS[self.judgement.verdict]

    @property
    def headline(self) -> str:
        """The decision in one sentence."""
        words = {ACCEPTED: "ACCEPTED", REFUSED: "NOT ACCEPTED", UNDECIDED: "UNDECIDED, hence not accepted"}
        return f"{words[self.decision]}: {verdict_text.summary(self.judgement)}"

    @property
    def remarks(self) -> list[str]:
        """What was not used on either side, and what is new."""
        lines = [f"baseline: {text}" for text in self.baseline.remarks] + [
            f"candidate: {text}" for text in self.candidate.remarks
        ]
        if self.judgement.unjudged:
            lines.append(f"{self.judgement.unjudged} metrics are not judged: {self.policy.source} gives them no margin")
        if self.judgement.new.height:
            names = ", ".join(sorted(set(self.judgement.new["benchmark"])))
            lines.append(
                f"{self.judgement.new.height} metrics only the candidate has are not judged ({names}); "
                "if one is an old one renamed, say --rename OLD=NEW"
            )
        return lines


def decide(
    folder: Path,
    baseline: str,
    candidate: str,
    *,
    system: str | None = None,
    where: str | None = None,
    rename: Mapping[str, str] | None = None,
) -> Acceptance:
    """Compare two selections of sessions.

    :raises BadInput: a side selects nothing that may be used, the sides share a session, or they have nothing in common.
    """
    name = verdict_data.system_of(folder, system)
    before = verdict_data.read(folder, name, baseline, where=where, rename=rename)
    after = verdict_data.read(folder, name, candidate, where=where)
    shared = sorted(set(before.sessions) & set(after.sessions))
    if shared:
        raise BadInput(f"session {shared[0]} is on both sides: a machine is not accepted against itself.")
    policy = verdict_policy.load(name)
    judgement = verdicts.judge(before, after, policy)
    if not judgement.metrics.filter(pl.col("verdict") != verdicts.MISSING).height:
        if judgement.unjudged:
            raise BadInput(
                f"{policy.source} gives none of the {judgement.unjudged} metrics that both sides have a margin, so nothing can "
                "be decided; give those you mean to judge one."
            )
        raise BadInput(
            f"the sides have no metric in common: {verdict_data.describe_condition(before.values.row(0, named=True))} "
            f"against {verdict_data.describe_condition(after.values.row(0, named=True))}."
        )
    facts = verdict_data.facts(before.cases), verdict_data.facts(after.cases)
    changed = verdict_data.changes(*facts)
    return Acceptance(before, after, policy, judgement, changed, facts, datetime.now(timezone.utc))


def _fingerprint(selection: Selection) -> str:
    """SHA-256 over all values of a side, in a fixed order."""
    rows = selection.values.select(*METRIC, *UNIT, "value").sort([*METRIC, *UNIT])
    return hashlib.sha256(rows.write_csv(float_scientific=True, float_precision=17).encode()).hexdigest()


def _side(selection: Selection, facts: Mapping[str, list[str]]) -> dict[str, Any]:
    started = selection.cases["started"]
    return {
        "sessions": list(selection.sessions),
        "first": started.min().isoformat(),
        "last": started.max().isoformat(),
        "cases": selection.cases.height,
        "values": selection.values.height,
        "values_sha256": _fingerprint(selection),
        "facts": dict(facts),
        "jobs": selection.jobs(),
        "remarks": list(selection.remarks),
    }


def as_dict(acceptance: Acceptance) -> dict[str, Any]:
    """The record as plain data."""
    judgement = acceptance.judgement
    return {
        "decision": acceptance.decision,
        "headline": acceptance.headline,
        "sentences": verdict_text.sentences(judgement),
        "decided": acceptance.decided.isoformat(timespec="seconds"),
        "decided_on": platform.node(),
        "mpibench": version("mpibench"),
        "system": acceptance.baseline.system,
        "policy": {**vars(acceptance.policy)},
        "changed": [{"what": name, "before": old, "after": new} for name, old, new in acceptance.changed],
        "baseline": _side(acceptance.baseline, acceptance.facts[0]),
        "candidate": _side(acceptance.candidate, acceptance.facts[1]),
        "remarks": acceptance.remarks,
        "counts": judgement.counts(),
        "bands": judgement.bands.to_dicts(),
        "metrics": judgement.metrics.to_dicts(),
        "new": judgement.new.to_dicts(),
    }


def junit(acceptance: Acceptance) -> str:
    """JUnit XML: one suite per condition, one test per metric, and the decision as a test of its own.

    An inconclusive metric is skipped with the repeats it needs; the decision fails unless accepted: CI does not go green.
    """
    table = acceptance.judgement.metrics
    root = ElementTree.Element("testsuites", name=f"acceptance of {acceptance.baseline.system}")
    for _, rows in table.group_by(verdict_data.CONDITION, maintain_order=True):
        dicts = rows.to_dicts()
        failures = sum(row["verdict"] in (verdicts.REGRESSED, verdicts.MISSING) for row in dicts)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=verdict_data.describe_condition(dicts[0]),
            tests=str(len(dicts)),
            failures=str(failures),
            errors="0",
            skipped=str(sum(row["verdict"] == verdicts.INCONCLUSIVE for row in dicts)),
        )
        for row in dicts:
            name = f"{row['benchmark']} {row['quantity']} {verdict_text.size_text(row['message_bytes'])}"
            case = ElementTree.SubElement(suite, "testcase", classname=row["benchmark"], name=name)
            if row["verdict"] in (verdicts.REGRESSED, verdicts.MISSING):
                text = row["why"] if row["verdict"] == verdicts.MISSING else verdict_text.change_text(row["slower"])
                ElementTree.SubElement(case, "failure", type=row["verdict"], message=f"{row['verdict']}: {text}")
            elif row["verdict"] == verdicts.INCONCLUSIVE:
                ElementTree.SubElement(case, "skipped", message=f"inconclusive: {verdict_text.needed_text(row)}")
    decision = ElementTree.SubElement(
        root,
        "testsuite",
        name="decision",
        tests="1",
        failures=str(int(acceptance.decision != ACCEPTED)),
        errors="0",
        skipped="0",
    )
    case = ElementTree.SubElement(decision, "testcase", classname="acceptance", name="decision")
    if acceptance.decision != ACCEPTED:
        ElementTree.SubElement(case, "failure", type=acceptance.decision, message=acceptance.headline)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def write(acceptance: Acceptance, out: Path) -> list[Path]:
    """Write the record into a folder.

    :raises BadInput: it cannot be written.
    """
    record = as_dict(acceptance)
    content = {
        "accept.json": json.dumps(record, indent=1, default=str, allow_nan=False) + "\n",
        "accept.xml": junit(acceptance),
        "accept.html": verdict_page.acceptance(record),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in content.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write the record into {out}: {error.strerror}.") from None
    return [out / name for name in content]
