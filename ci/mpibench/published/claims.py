"""Claims of papers, asked of figures: the published ones, or any others given as rows of the same columns.

A claim is a ratio of two figures between two bounds (``site_configs/<system>/published/claims.yaml``). Without both figures it
is neither true nor false: the answer is that there are no figures, never that it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reframe_tests.harness import schema, yaml_file
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import BadInput

from . import figures_file

HOLDS, FAILS, NO_FIGURES = "holds", "does not hold", "no figures"


@dataclass(frozen=True)
class Claim:
    """One claim, as claims.schema.json describes it."""

    id: str
    sentence: str
    section: str
    over: Mapping[str, Any]
    under: Mapping[str, Any] | float
    at_least: float | None
    at_most: float | None
    bounds: str
    note: str = ""


@dataclass(frozen=True)
class ClaimAnswer:
    """What figures say of a claim.

    :param outcome: :data:`HOLDS`, :data:`FAILS` or :data:`NO_FIGURES`.
    :param ratio: over / under; ``None`` without figures.
    """

    claim: Claim
    outcome: str
    ratio: float | None = None


def read(system: str, root: Path = ROOT) -> list[Claim]:
    """Claims of a system's paper.

    :raises BadInput: if there are none, or the file cannot be read or breaks the schema.
    """
    path = root / "site_configs" / system / "published" / "claims.yaml"
    if not path.exists():
        raise BadInput(f"{path} does not exist: no claims are known for system '{system}'.")
    rows = yaml_file.read(path)
    if fault := schema.find_fault(ROOT / "site_configs" / "claims.schema.json", rows):
        raise BadInput(f"{path}: {fault.key}: {fault.message}; see site_configs/claims.schema.json.")
    return [Claim(**row) for row in rows]


def published_rows(system: str, root: Path = ROOT) -> list[dict[str, Any]]:
    """Published figures as rows: the columns of the CSV files, ``value`` as a number."""
    return [{**value.data, "value": value.number} for value in figures_file.read(system, root) if _is_number(value)]


def ask(claim: Claim, rows: Iterable[Mapping[str, Any]]) -> ClaimAnswer:
    """Whether figures bear a claim out.

    :param rows: figures, with ``value`` and the columns claims select by.
    :raises BadInput: if more than one figure fits a selection.
    """
    found = list(rows)
    over = _figure(claim, claim.over, found)
    under = _figure(claim, claim.under, found) if isinstance(claim.under, Mapping) else float(claim.under)
    if over is None or not under:
        return ClaimAnswer(claim, NO_FIGURES)
    ratio = over / under
    low = claim.at_least is None or ratio >= claim.at_least
    high = claim.at_most is None or ratio <= claim.at_most
    return ClaimAnswer(claim, HOLDS if low and high else FAILS, ratio)


def lines(system: str, root: Path = ROOT) -> list[str]:
    """What the published figures of a system say of its paper's claims, for a terminal: sentence, answer, bounds, note.

    :raises BadInput: if there are no claims.
    """
    lines = []
    rows = published_rows(system, root)
    for claim in read(system, root):
        answer = ask(claim, rows)
        wanted = {"at least": claim.at_least, "at most": claim.at_most}
        bounds = ", ".join(f"{word} {bound:g}" for word, bound in wanted.items() if bound is not None)
        ratio = "" if answer.ratio is None else f" {answer.ratio:.3f},"
        lines += [f"{claim.id}: {answer.outcome},{ratio} wanted {bounds} ({claim.bounds})"]
        lines += [f'  "{claim.sentence}" ({claim.section})', *([f"  note: {claim.note}"] if claim.note else [])]
    return lines


def as_data(system: str, root: Path = ROOT) -> dict[str, Any]:
    """As :func:`lines`, as plain data.

    :raises BadInput: if there are no claims.
    """
    rows = published_rows(system, root)
    answers = [ask(claim, rows) for claim in read(system, root)]
    return {
        "system": system,
        "claims": [{**asdict(one.claim), "outcome": one.outcome, "ratio": one.ratio} for one in answers],
    }


def _figure(claim: Claim, wanted: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> float | None:
    fitting = [row for row in rows if all(str(row.get(column, "")) == str(value) for column, value in wanted.items())]
    if len(fitting) > 1:
        raise BadInput(f"claim '{claim.id}' selects {len(fitting)} figures by {dict(wanted)}: give one, or select closer.")
    return float(fitting[0]["value"]) if fitting else None


def _is_number(value: figures_file.Value) -> bool:
    try:
        return value.number >= 0
    except BadInput:
        return False
