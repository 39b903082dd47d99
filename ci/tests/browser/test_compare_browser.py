"""Pages and pictures of mpibench compare, drawn by a browser."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

import chromium
from mpibench import cli
from mpibench.pages import pictures
from synthetic_verdicts import write_session

STACKS = ("openmpi-spack", "mpich-spack")
MANY = dict.fromkeys(("Allreduce", "Bcast", "Alltoall", "Reduce"), "t_avg_us")


def test_pictures_are_svg_and_png(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_session(tmp_path, 0, stacks=STACKS, benchmarks=MANY, sizes=(32, 1048576))
    words = ["compare", *STACKS, "--dataset-only", "--dataset", str(tmp_path), "--out", str(tmp_path / "c.html")]
    monkeypatch.setattr(pictures, "BROWSERS", ("no-such-browser",))
    assert cli.main([*words, "--pictures", str(tmp_path / "p")]) == 2
    assert "there is none (no-such-browser)" in capsys.readouterr().err
    monkeypatch.undo()
    if chromium.find_browser() is None:
        pytest.skip("[browser] no Chromium here")
    assert cli.main([*words, "--pictures", str(tmp_path / "p")]) == 0
    saved = sorted((tmp_path / "p").iterdir())
    assert [path.name for path in saved[:2]] == [f"01-32-b-speed-relative-to-the-best.{kind}" for kind in ("png", "svg")]
    assert {path.read_bytes()[:8] for path in saved if path.suffix == ".png"} == {b"\x89PNG\r\n\x1a\n"}
    for path in saved:
        if path.suffix == ".svg":
            assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_draws_every_chart_and_fits_its_window(tmp_path: Path, width: int) -> None:
    if chromium.find_browser() is None:
        pytest.skip("[browser] no Chromium here")
    write_session(tmp_path, 0, stacks=STACKS, benchmarks=MANY, sizes=(32, 1024, 65536, 1048576))
    out = tmp_path / "compare.html"
    words = ["compare", *STACKS, "--dataset-only", "--dataset", str(tmp_path), "--out", str(out)]
    assert cli.main(words) == 0
    with chromium.open_browser(tmp_path / "profile") as page:
        page.open(out.as_uri(), width=width)
        charts = page.evaluate("document.querySelectorAll('.js-plotly-plot .main-svg:first-of-type').length")
        assert charts == 2 + 1 + 4  # two Kiviat charts, the map, four benchmarks
        page.wait("document.querySelectorAll('.js-plotly-plot .plot-container').length >= 7")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelector('a[href^=file]') === null")  # synthetic jobs have no folder
        assert page.problems == []
        assert set(page.requests) <= {out.as_uri()}
        # What gets into the page must not run: the policy says so, whatever escaping overlooks.
        page.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=nowhere onerror=\"window.ran = 2\">')")
        assert page.evaluate("window.ran === undefined")
        assert any("Content Security Policy" in problem for problem in page.problems)
