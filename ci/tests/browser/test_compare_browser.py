"""Pages of mpibench compare, drawn by a browser."""

from mpibench import cli
from synthetic_verdicts import write_session

STACKS = ("openmpi-spack", "mpich-spack")
MANY = dict.fromkeys(("Allreduce", "Bcast", "Alltoall", "Reduce"), "t_avg_us")


def compare(folder, *words):
    given = ("--dataset-only", "--dataset", str(folder), "--out", str(folder / "c.html"))
    return cli.main(["compare", *STACKS, *given, *words])


def test_the_page_draws_every_chart_and_fits_its_window(tmp_path, browser):
    write_session(tmp_path, 0, stacks=STACKS, benchmarks=MANY, sizes=(32, 1024, 65536, 1048576))
    assert compare(tmp_path) == 0
    url = (tmp_path / "c.html").as_uri()
    for width in (390, 1280):
        browser.open(url, width=width)
        # two Kiviat charts, the map, four benchmarks
        browser.wait("document.querySelectorAll('.js-plotly-plot .plot-container').length >= 7")
        assert browser.needed_width <= width
    # synthetic jobs have no folder
    assert browser.evaluate("document.querySelector('a[href^=file]') === null")
    assert browser.problems == []
    assert set(browser.requests) <= {url, next(tmp_path.glob("plotly*.js")).as_uri()}
