"""Every kind of page in a real browser: hostile names run nothing, and nothing is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import chromium
from mpibench.pages.page import write as write_page
from page_reader import PAGES

pytestmark = pytest.mark.skipif(
    chromium.find_browser() is None,
    reason=f"[browser] no Chromium on PATH ({', '.join(chromium.NAMES)}): install chromium",
)


def test_hostile_names_run_nothing_in_a_browser(tmp_path: Path) -> None:
    with chromium.open_browser(tmp_path / "profile") as browser:
        for place, (write, scripts) in enumerate(PAGES.items()):
            path = tmp_path / f"{place}.html"
            write_page(path, write(tmp_path / str(place)))
            browser.open(path.as_uri(), ready=bool(scripts))
            assert browser.evaluate("typeof hacked") == "undefined"
            assert browser.problems == []
            beside = {one.as_uri() for one in tmp_path.glob("plotly*.js")} if scripts else set()
            assert set(browser.requests) <= {path.as_uri(), *beside}
            browser.requests.clear()
