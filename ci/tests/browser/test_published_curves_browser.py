"""Measured and published curves in one chart, drawn by a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

import chromium
from mpibench.pages import session as report
from mpibench.store import sessions
from published_session import SOURCE, chosen, published_session


@pytest.fixture
def session() -> sessions.Session:
    return published_session()


@pytest.mark.skipif(chromium.find_browser() is None, reason="[browser] no Chromium on PATH: install chromium")
def test_measured_and_published_curves_share_a_chart(session: sessions.Session, tmp_path: Path) -> None:
    url = report.write_report(report.View(session, tmp_path, (), chosen(session)), "report.html").as_uri()
    with chromium.open_browser(tmp_path / "profile") as page:
        page.open(url)
        page.evaluate("document.getElementById('curves').scrollIntoView()")
        page.wait("document.querySelector('#charts figure').dataset.drawn")
        first = "document.querySelector('#charts figure')"
        assert page.evaluate(f"[{first}.dataset.curves, {first}.dataset.published]") == ["2", "1"]
        plot = "document.querySelector('#charts .js-plotly-plot')"
        names = page.evaluate(
            f"{plot}.data.filter((one) => one.mode === 'lines+markers').map((one) => [one.name, one.line.dash])"
        )
        assert names == [[SOURCE, "dash"], ["intelmpi-wheels", "solid"], ["mpich-wheels", "solid"]]
        assert page.evaluate(f"{plot}.data[0].y.length") == 24
        assert "2.000 of openhpc-mini/eth1g" in page.evaluate(f"{plot}.data[2].text[0]")
        page.evaluate(f"{first}.querySelector('figcaption button').click()")
        cells = page.evaluate(
            f"[...{first}.querySelectorAll('tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))"
        )
        assert cells[0] == ["0 B", "99.62", "24.91", "49.81", "2.000", "0.500"]
        page.evaluate(
            """(() => {
                const node = document.querySelector('#curve-controls select[aria-label="Show"]');
                node.value = [...node.options].find((option) => option.textContent === "ratio to published figures").value;
                node.dispatchEvent(new Event("change"));
            })()"""
        )
        page.wait("document.querySelector('#charts figure').dataset.drawn")
        ratios = "[...new Set(one.y.map((value) => value.toFixed(3)))]"
        flat = page.evaluate(f"{plot}.data.filter((one) => one.mode === 'lines+markers').map((one) => {ratios})")
        assert flat == [["1.000"], ["2.000"], ["0.500"]], "curves keep six digits"
        assert page.problems == []
