"""What the pages of a record and of a comparison both have: their templates, and cells of their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..pages import page
from ..results.session_values import describe_condition

TEMPLATES = page.environment(__package__)


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table cell; nothing where there is none."""
    return "" if value is None else f"{value:.{digits}f}"


def job_rows(sides: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Every job of each side: its cells, its folder, and a link to that where it is an absolute path.

    :param sides: name to rows of ``cases``.
    """
    rows = []
    for side, cases in sides.items():
        for row in cases:
            identity = (side, row["session"], str(row["started"])[:16], row["job_id"] or "", row["nodelist"] or "")
            folder = row["outputdir"] or ""
            link = Path(folder).as_uri() if folder.startswith("/") else ""
            rows.append({"cells": (*identity, describe_condition(row)), "folder": folder, "link": link})
    return rows
