"""Every kind of page in a real browser: hostile names run nothing, and nothing is asked for."""

from mpibench.pages.page import write as write_page
from page_reader import PAGES


def test_hostile_names_run_nothing_in_a_browser(tmp_path, browser):
    for place, (write, scripts) in enumerate(PAGES.items()):
        path = tmp_path / f"{place}.html"
        write_page(path, write(tmp_path / str(place)))
        browser.open(path.as_uri(), ready=bool(scripts))
        assert browser.evaluate("typeof hacked") == "undefined"
        assert browser.problems == []
        beside = {one.as_uri() for one in tmp_path.glob("plotly*.js")} if scripts else set()
        assert set(browser.requests) <= {path.as_uri(), *beside}
        browser.requests.clear()
