"""What a dataset says of cases that missed a reference, where one of its
sessions cannot be read: the report says so, red.
"""

from datetime import timedelta

import pytest

from mpibench.night.confirmed_night import StoredAnswers, stored_answers
from mpibench.pages import session as report
from mpibench.store import dataset, records
from mpibench.store.sessions import CONFIRMS
from mpibench.store.store import Store
from synthetic_session import case, gate, session_of

FIRST = session_of(case(gates=[gate("bandwidth", 50.0, 100.0)]), uuid="first")


def again(uuid, minutes, value=97.0):
    """A session that measured the first one's case again."""
    started = FIRST.info["time_start_unix"] + 60 * minutes
    plan = case(gates=[gate("bandwidth", value, 100.0)])
    return session_of(plan, uuid=uuid, time_start_unix=started, **{CONFIRMS: FIRST.uuid})


@pytest.fixture
def kept(tmp_path):
    """What is said of the first session beside others; ``None``: one
    that cannot be read, an hour after it.
    """

    def ask(first=FIRST, **others):
        for uuid, session in {"first": first, **others}.items():
            if session:
                dataset.export_session(session, tmp_path / "set")
            else:
                why = (
                    f"session {uuid} is truncated or damaged: remove that session or restore the "
                    "file."
                )
                hour = FIRST.started + timedelta(hours=1)
                records.UnreadableSession(uuid, hour, (), why).keep(tmp_path / "set")
        return stored_answers(Store(tmp_path / "set"), "first")

    return ask


def test_what_was_measured_again_is_held_beside_the_first(kept):
    assert kept() == StoredAnswers()
    found = kept(second=again("second", 30))
    assert [answer.excused for answer in found.answers] == [True] and not found.unreadable
    found = kept(lost=None)  # what came before it counts
    assert [answer.excused for answer in found.answers] == [True] and len(found.unreadable) == 1


def test_a_session_that_cannot_be_read_is_not_passed_over(kept, tmp_path):
    """It may have been the first that measured the case again,
    and what follows it does not count.
    """
    found = kept(**{"lost-one": None, "third": again("third", 90)})
    assert not found.answers
    (sentence,) = found.unreadable
    assert sentence.startswith("session lost-one cannot be read. It may have been")
    page = report.render(report.View(FIRST, tmp_path, again=found))
    assert '<p class="verdict bad">session lost-one' in page
    report.write_markdown(FIRST, tmp_path / "page.md", found.unreadable)
    assert "session lost-one cannot be read" in (tmp_path / "page.md").read_text()


def test_where_nothing_was_missed_no_other_session_matters(kept):
    well = session_of(case(gates=[gate("bandwidth", 97.0, 100.0)]), uuid="first")
    assert kept(well, lost=None) == StoredAnswers()


def test_a_session_that_was_withdrawn_confirms_nothing(kept, tmp_path):
    """As the gate has it: what somebody withdrew decides by being
    the first, and its good value is none.
    """
    kept(second=again("second", 30), third=again("third", 60))
    store = Store(tmp_path / "set")
    store.withdraw("second", "wrong cable")
    (answer,) = stored_answers(store, "first").answers
    assert not answer.excused and "was withdrawn" in answer.sentence


def test_a_session_that_was_not_exported_has_a_report(kept, tmp_path):
    """As after a night whose export was refused."""
    kept()
    lone = session_of(case(gates=[gate("bandwidth", 50.0, 100.0)]), uuid="lone")
    said = report.write(Store(tmp_path / "set"), lone, tmp_path)
    assert "1 of 1 case failed." in said and (tmp_path / "reports" / "lone.html").is_file()
