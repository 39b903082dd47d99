"""The sections of the report, in the order of the page; all but the charts are there without any script.

A section is one function here and one template, ``templates/sections/<name>.html``: the function says what it shows, the
template how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reframe_tests.harness.samples import FAIL, NO_REFERENCE, PASS, ReferenceCheck
from reframe_tests.harness.vocabulary import QUANTITIES

from ..published.curves import Beside, Curve, beside
from ..results.quantity_text import size_text, unit_text
from ..results.sessions import Case
from .summary import (
    KEY_FIGURES,
    OUTCOMES,
    Outcome,
    counted,
    counts,
    failures,
    gate_counts,
    interrupted,
    key_figures,
    reference_checks,
    sentences,
    skip_reasons,
)
from .view import View

#: Reached references listed at once; more are folded away.
OPEN_ROWS = 40
#: What a template inserts, by name.
Content = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """One section.

    :param name: of its template, and its id in the page.
    :param title: its heading.
    :param link: its name in the navigation; without one it has no entry there.
    :param content: what it shows; ``None``: it is left out of this page.
    """

    name: str
    title: str
    link: str
    content: Callable[[View], Content | None]


#: All sections in the order of the page.
SECTIONS: list[Section] = []


def _section(name: str, title: str = "", link: str = "") -> Callable[[Callable[[View], Content | None]], Any]:
    def add(content: Callable[[View], Content | None]) -> Callable[[View], Content | None]:
        SECTIONS.append(Section(name, title, link, content))
        return content

    return add


@_section("summary")
def summary(view: View) -> Content:
    """Counts of cases, counts of comparisons, and the cases of each stack on each fabric."""
    number, gates = counts(view.session), gate_counts(view.session)
    shown = [name for name in OUTCOMES if number[name] or name in ("failed", "passed", "recorded")]
    rows: dict[tuple[str, str], Counter[Outcome]] = {}
    for case in counted(view.session):
        if case.is_measurement:
            rows.setdefault((case.stack, case.fabric), Counter())[view.outcome(case)] += 1
    return {
        "tiles": [(OUTCOMES[name], number[name]) for name in shown],
        "gates": {"reached": gates[PASS], "missed": gates[FAIL], "without": gates[NO_REFERENCE]},
        "columns": [one for one in OUTCOMES.values() if any(row[one] for row in rows.values())],
        "rows": sorted(rows.items(), key=lambda row: row[0]),
    }


@_section("failures", "Failures", "Failures")
def failed(view: View) -> Content:
    """Failed cases with their sentences; interrupted, skipped and retried ones by reason."""
    stopped = [case for case in view.session.cases if view.outcome(case) is OUTCOMES["interrupted"]]
    reasons = [(OUTCOMES["interrupted"], interrupted(view.session), stopped)] if stopped else []
    reasons += [(OUTCOMES["skipped"], reason, cases) for reason, cases in skip_reasons(view.session)]
    retried = [case for case in view.session.cases if case.uuid in view.session.superseded]
    return {
        "failures": [(case, sentences(case)) for case in failures(view.session)],
        "reasons": [*reasons, *((OUTCOMES["retried"], " ".join(sentences(case)), [case]) for case in retried)],
    }


@_section("figures", "Key figures", "Key figures")
def figures(view: View) -> Content:
    """The key figures, each a link to its case."""
    table = key_figures(view.session)
    columns = [figure for figure in KEY_FIGURES if any(figure in row for row in table.values())]
    heads = []
    for figure in columns:
        sample = next(row[figure].sample for row in table.values() if figure in row)
        size = "" if sample.message_bytes is None else f", {size_text(sample.message_bytes)}"
        heads.append(f"{figure.title}{size} [{unit_text(sample.unit)}]")
    return {"heads": heads, "rows": [(condition, [row.get(figure) for figure in columns]) for condition, row in table.items()]}


@_section("curves", "Curves", "Curves")
def curves(view: View) -> Content:
    """The script draws these."""
    return {}


@_section("heat", "Pinning and processes per node", "Pinning")
def heat(view: View) -> Content:
    """The script draws these, too."""
    return {}


@_section("gates", "Comparisons with references", "References")
def gates(view: View) -> Content:
    """Comparisons with references: missed ones first, then reached, then those that could not be judged."""
    groups: dict[str, list[tuple[Case, ReferenceCheck]]] = {FAIL: [], PASS: [], NO_REFERENCE: []}
    for case, gate in reference_checks(view.session):
        groups[gate.outcome].append((case, gate))
    titles = {FAIL: "✕ missed", PASS: "✓ reached", NO_REFERENCE: "○ without reference: recorded, not judged"}
    unfolded = {FAIL: True, PASS: len(groups[PASS]) <= OPEN_ROWS, NO_REFERENCE: False}
    return {"groups": [(titles[name], rows, unfolded[name]) for name, rows in groups.items() if rows]}


@_section("published", "Comparison with published figures", "Published")
def published(view: View) -> Content | None:
    """Measured curves beside published ones, size by size; nothing where the site chose no published data."""
    if not view.published:
        return None
    shown = [(curve, found) for curve in view.published if (found := beside(view.session, curve))]
    alone = [curve for curve in view.published if curve not in [one for one, _ in shown]]
    return {"comparisons": [_comparison(curve, found) for curve, found in shown], "alone": alone, "quantities": QUANTITIES}


def _comparison(curve: Curve, found: Sequence[Beside]) -> Content:
    unit = unit_text(QUANTITIES[curve.quantity].unit)
    named = f" ({unit})" if unit else ""
    head = ["size", f"published{named}"]
    for one in found:
        where = ", ".join(filter(None, (one.case.stack, one.case.partition, one.case.pinning, one.variant)))
        head += [f"{where}{named}", "ratio"]
    return {"curve": curve, "found": found, "head": head}


@_section("evidence", "Evidence", "Evidence")
def evidence(view: View) -> Content:
    """One row per case that ran: where its ranks were, which library, which devices, which transport."""
    ran = (case for case in view.session.cases if case.is_measurement and view.outcome(case) is not OUTCOMES["skipped"])
    return {"cases": list(ran)}


@_section("stacks", "Stacks", "Stacks")
def stacks(view: View) -> Content:
    """What each stack is made of, as its cases and its metadata file say."""
    rows = []
    for name in sorted({case.stack for case in view.session.cases if case.condition.get("stack")}):
        cases = [case for case in view.session.cases if case.stack == name and case.condition]
        condition = cases[0].condition
        hashes = sorted({str(case.condition.get("lock_hash", "")) for case in cases})
        built = view.built.get(name)
        rows.append(
            {
                "name": name,
                "mpi": " ".join(str(condition.get(key) or "") for key in ("mpi", "mpi_version")),
                "origin": str(condition.get("origin") or ""),
                "abi": str(condition.get("abi") or ""),
                "device": str(condition.get("stack_device") or (built.device if built else "")),
                "proof": next((case.proof for case in cases if case.proof and case.proof.library), None),
                "hashes": hashes,
                "built": built,
                "same": built is not None and hashes == [built.lock_hash],
            }
        )
    return {"rows": rows}


@_section("words", "Glossary", "Glossary")
def words(view: View) -> Content:
    """What the words of the report mean."""
    names = {way: [one.name for one in QUANTITIES.values() if one.direction == way] for way in ("lower", "higher")}
    return {"outcomes": OUTCOMES.values(), "directions": names}
