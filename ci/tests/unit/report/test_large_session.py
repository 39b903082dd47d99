"""The large session whose report ``studies.report_speed`` times."""

from __future__ import annotations

from pathlib import Path

from mpibench.pages import session as report
from studies import report_speed


def test_it_has_the_curves_it_is_measured_with(tmp_path: Path) -> None:
    large = report_speed.session(150)
    assert sum(len(rows) for rows in report.curves(large).values()) == 150
    page = report.write_report(report.View(large, tmp_path), "r.html").read_text()
    assert "data-ready" not in page
    assert page.count('id="case-') == 3
