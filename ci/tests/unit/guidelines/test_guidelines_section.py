"""Guidelines in the report: violations under each condition, what could not
be decided, and nothing where none was measured.
"""

from pathlib import Path

from mpibench.pages import session as report
from page_reader import Reader
from synthetic_session import HOSTILE
from synthetic_tuning import samples, session_of

SLOW = {("Allreduce-vs-Reduce-Bcast", 65536): [1.8, 1.81, 1.79, 1.8, 1.82, 1.8]}


def test_hostile_names_are_text():
    page = Reader(report.render(report.View(session_of(samples(SLOW), stack=HOSTILE), Path())))
    assert HOSTILE in page.text["guidelines"]
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe")]
