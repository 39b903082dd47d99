"""Pages of mpibench compare, drawn by a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

import chromium
from mpibench import cli
from synthetic_verdicts import write_session

STACKS = ("openmpi-spack", "mpich-spack")
MANY = dict.fromkeys(("Allreduce", "Bcast", "Alltoall", "Reduce"), "t_avg_us")


def compare(folder: Path, *words: str) -> int:
    given = ("--dataset-only", "--dataset", str(folder), "--out", str(folder / "c.html"))
    return cli.main(["compare", *STACKS, *given, *words])


def test_the_page_draws_every_chart_and_fits_its_window(tmp_path: Path) -> None:
    if chromium.find_browser() is None:
        pytest.skip("[browser] no Chromium here")
    write_session(tmp_path, 0, stacks=STACKS, benchmarks=MANY, sizes=(32, 1024, 65536, 1048576))
    assert compare(tmp_path) == 0
    url = (tmp_path / "c.html").as_uri()
    with chromium.open_browser(tmp_path / "profile") as page:
        for width in (390, 1280):
            page.open(url, width=width)
            # two Kiviat charts, the map, four benchmarks
            page.wait("document.querySelectorAll('.js-plotly-plot .plot-container').length >= 7")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        # synthetic jobs have no folder
        assert page.evaluate("document.querySelector('a[href^=file]') === null")
        assert page.problems == []
        assert set(page.requests) <= {url, next(tmp_path.glob("plotly*.js")).as_uri()}
