"""The report's section on guidelines in a real browser: it fits a phone,
and its text can be read in both colour schemes.
"""

import pytest

from mpibench.pages import session as report
from synthetic_tuning import recorded_session, samples, session_of


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    inconclusive = {
        ("Reduce_scatter_block-vs-Reduce-Scatter", 262144): [0.5, 2.0, 1.0, 1.1, 0.9, 3.0]
    }
    forced = recorded_session("forced")
    more = session_of(samples(inconclusive))
    session = type(forced)(forced.info, (*forced.cases, *more.cases))
    return report.write_report(
        report.View(session, tmp_path_factory.mktemp("page")), "r.html"
    ).as_uri()


@pytest.mark.parametrize("width", [360, 390, 820, 1600])
def test_the_section_fits_its_window_with_all_tables_open(browser, url, width):
    browser.open(url, width=width)
    opened = browser.evaluate(
        "[...document.querySelectorAll('#guidelines details')].map((one) => one.open = true).length"
    )
    assert opened == 3
    assert browser.needed_width <= width
    assert browser.problems == []
