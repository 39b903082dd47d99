"""Which sessions a dataset holds, a row each: ``mpibench sessions list``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from . import answers, dataset, withdrawals
from .dataset_layout import read_labels


def sessions(folder: Path, system: str | None = None, *, withdrawn_only: bool = False) -> list[dict[str, Any]]:
    """Sessions of a dataset, the newest last, withdrawn ones too.

    :returns: of each session id, system, start (UTC, ISO 8601), label ``run``, cases that owe a proof and those that have one,
        what was answered of it by whom, and its withdrawal; ``None`` where there is none.
    :raises BadInput: no dataset, or a file that cannot be read.
    """
    given, withdrawn = answers.read(folder), withdrawals.find(folder)
    cases = dataset.load_cases(folder, [system] if system else None).filter(pl.col("measurement"), ~pl.col("superseded"))
    rows = (
        cases.group_by("session", "system")
        .agg(
            pl.min("started"),
            pl.first("labels"),
            cases=pl.len(),
            proven=(pl.col("evidence") == "proven").sum(),
        )
        .sort("started", "session", "system")
        .collect()
    )
    return [
        {
            "session": row["session"],
            "system": row["system"],
            "started": row["started"].isoformat(timespec="seconds"),
            "label": read_labels(row["labels"]).get("run"),
            "cases": row["cases"],
            "proven": row["proven"],
            "answers": {one.source: {"passed": one.passed, "finding": one.finding} for one in given.get(row["session"], [])},
            "withdrawn": asdict(withdrawn[row["session"]]) if row["session"] in withdrawn else None,
        }
        for row in rows.to_dicts()
        if row["session"] in withdrawn or not withdrawn_only
    ]


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The rows for a terminal."""
    widths = [max(len(str(row[name] or "-")) for row in rows) for name in ("system", "label", "cases")]
    return [
        f"{row['session'][:8]}  {row['started'][:16].replace('T', ' ')} UTC  {row['system']:{widths[0]}}  "
        f"{row['label'] or '-':{widths[1]}}  {row['proven']:>{widths[2]}} of {row['cases']:>{widths[2]}} proven  {_state(row)}"
        for row in rows
    ]


def _state(row: dict[str, Any]) -> str:
    if gone := row["withdrawn"]:
        return f"withdrawn {gone['when'][:10]} by {gone['who']}: {gone['why']}"
    said = [f"{who}: {'pass' if one['passed'] else one['finding']}" for who, one in row["answers"].items()]
    return "; ".join(said) or "not judged"
