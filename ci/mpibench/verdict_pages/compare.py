"""The page of a comparison: its charts and tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

import plotly.graph_objects as go
import polars as pl

from ..pages import page as page_templates
from ..verdicts import sides as verdict_sides
from ..verdicts.pairing import Comparison
from . import compare_charts, compare_tables
from .parts import TEMPLATES, job_rows

#: Sizes of the Kiviat charts, in bytes, as in the 2011 white paper.
KIVIAT_BYTES = (32, 1 << 20)


def figures(values: pl.DataFrame, subject: str, sizes: Sequence[int]) -> list[go.Figure]:
    """All pictures, the condensed ones first.

    :param sizes: in bytes, of the Kiviat charts and of the maps of pinning x ppn.
    """
    kiviats = [figure for size in sizes if (figure := compare_charts.kiviat(values, subject, size))]
    maps = [figure for size in sizes for figure in compare_charts.pinning_maps(values, size)]
    return [*kiviats, *compare_charts.best_stacks(values, subject), *maps, *compare_charts.curves(values, subject)]


def page(comparison: Comparison, values: pl.DataFrame, kiviat_bytes: Sequence[int] = KIVIAT_BYTES) -> str:
    """The comparison as one HTML file with its charts."""
    subject, names = comparison.subject, (comparison.first, comparison.second)
    now = datetime.now(timezone.utc)
    meant = [
        line
        for name, side in zip(names, comparison.sides, strict=True)
        for line in verdict_sides.identity_lines(name, side, now)
    ]
    return page_templates.render(
        TEMPLATES,
        "compare.html",
        script=True,
        kind=f"Comparison by {subject}",
        title=f"{comparison.second} against {comparison.first}",
        subject=subject,
        summary=compare_tables.summary(comparison),
        where=compare_tables.where(comparison),
        notes=[*meant, *compare_tables.notes(comparison)],
        figures=figures(values, subject, kiviat_bytes),
        plotly=page_templates.plotly_source(),
        bands=compare_tables.band_parts(comparison),
        best=compare_tables.best_parts(compare_charts.best_of_all(values, subject), subject),
        jobs=job_rows(dict(zip(names, (side.jobs() for side in comparison.sides), strict=True))),
        metrics=compare_tables.metric_parts(comparison),
    )
