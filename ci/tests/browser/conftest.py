"""The browser: one for all tests of a worker, each on a page without history."""

import pytest

import chromium


@pytest.fixture(scope="session")
def chromium_page(tmp_path_factory):
    if chromium.find_browser() is None:
        pytest.skip(
            f"[browser] no Chromium on PATH ({', '.join(chromium.NAMES)}): install chromium"
        )
    with chromium.open_browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def browser(chromium_page):
    """An empty page; what the tests before it caused is forgotten."""
    chromium_page.open("about:blank", ready=False)
    chromium_page.problems.clear()
    chromium_page.requests.clear()
    return chromium_page
