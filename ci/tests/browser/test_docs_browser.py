"""The documentation site in a real browser, from a file share and from a web server: readable on a
phone, nothing fetched from elsewhere, searchable.
"""

import functools
import http.server
import os
import subprocess
import sys
import threading

import pytest

from reframe_tests.harness.vocabulary import ROOT

WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}

#: What a person does who searches.
SEARCH = """
(() => {
  document.querySelector('[data-md-toggle=search]').click();
  const field = document.querySelector('input.md-search__input');
  field.focus();
  field.value = 'lossy-cable';
  for (const kind of ['input', 'keyup']) field.dispatchEvent(new Event(kind, {bubbles: true}));
})()
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    words = f"-m mkdocs build --quiet --config-file {ROOT}/mkdocs.yml --site-dir {folder}"
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, *words.split()]
    subprocess.run(command, env=environ, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("window", WIDTHS)
def test_no_page_is_wider_than_the_window_or_fetches_from_elsewhere(browser, built, window):
    width, height = WIDTHS[window]
    pages = sorted(path for path in built.rglob("*.html") if path.name != "404.html")
    assert len(pages) > 35
    for path in pages:
        browser.open(path.as_uri(), width=width, height=height, ready=False)
        assert browser.evaluate("document.querySelectorAll('h1').length") == 1, path
        assert browser.needed_width <= width, path
    assert all(url.startswith(("file:", "data:")) for url in browser.requests), browser.requests


def test_it_is_searched_from_a_web_server(browser, built):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            browser.open(f"http://127.0.0.1:{server.server_port}/index.html", ready=False)
            browser.evaluate(SEARCH)
            browser.wait("document.querySelectorAll('.md-search-result__item a').length > 0")
            links = browser.evaluate(
                "[...document.querySelectorAll('.md-search-result__item a')].map((one) => one.href)"
            )
            assert any("mini-cluster" in link for link in links), links
            assert {url.split("/")[2] for url in browser.requests if url.startswith("http")} == {
                f"127.0.0.1:{server.server_port}"
            }
        finally:
            server.shutdown()
