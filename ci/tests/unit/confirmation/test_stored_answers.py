"""What a database says of cases that missed a reference, where one of its sessions cannot be read: the report says so, red."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from mpibench.night.confirmation import references
from mpibench.pages import outcomes as summary
from mpibench.pages import session as report
from mpibench.store.sessions import CONFIRMS, Session
from page_reader import Reader
from reframe_tests.harness.vocabulary import BadInput
from synthetic_report import session_of
from synthetic_session import case, gate

FIRST = session_of(case(gates=[gate("bandwidth", 50.0, 100.0)]), uuid="first")


def again(uuid: str, minutes: int, value: float = 97.0) -> Session:
    """A session that measured the first one's case again."""
    started = FIRST.info["time_start_unix"] + 60 * minutes
    plan = case(gates=[gate("bandwidth", value, 100.0)])
    return session_of(plan, uuid=uuid, time_start_unix=started, **{CONFIRMS: FIRST.uuid})


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> dict[str, Session | None]:
    """Sessions of a database beside the first, oldest first; ``None``: one that cannot be read, an hour after it."""
    found: dict[str, Session | None] = {}

    def read(_: Path, uuid: str) -> Session:
        if (session := found[uuid]) is None:
            raise BadInput(f"session {uuid} is cut off or damaged: remove that session or restore the file.")
        return session

    hour = FIRST.started + timedelta(hours=1)
    monkeypatch.setattr(
        references,
        "session_starts",
        lambda _: {"first": FIRST.started, **{uuid: one.started if one else hour for uuid, one in found.items()}},
    )
    monkeypatch.setattr(references, "read_session", read)
    return found


def ask() -> references.StoredAnswers:
    return references.stored(FIRST, Path("results.db"))


def test_what_was_measured_again_is_held_beside_the_first(stored: dict[str, Session | None]) -> None:
    assert ask() == references.StoredAnswers()
    stored["second"] = again("second", 30)
    found = ask()
    assert [answer.excused for answer in found.answers] == [True] and not found.unreadable


def test_a_session_that_cannot_be_read_is_not_passed_over(stored: dict[str, Session | None], tmp_path: Path) -> None:
    """It may have been the first that measured the case again, and what follows it does not count."""
    stored |= {"lost-one": None, "third": again("third", 90)}
    found = ask()
    assert not found.answers
    (sentence,) = found.unreadable
    assert sentence.startswith("session lost-one cannot be read and may have measured this one again; what follows it confirms")
    assert sentence.endswith("is cut off or damaged: remove that session or restore the file.")
    page = report.render(FIRST, tmp_path, again=found)
    assert sentence in Reader(page).text["again"]
    assert '<p class="verdict bad">session lost-one' in page
    summary.write_markdown(FIRST, tmp_path / "page.md", found.unreadable)
    assert "session lost-one cannot be read" in (tmp_path / "page.md").read_text()


def test_what_came_before_it_counts(stored: dict[str, Session | None]) -> None:
    stored |= {"second": again("second", 30), "lost": None}
    found = ask()
    assert [answer.excused for answer in found.answers] == [True] and len(found.unreadable) == 1


def test_where_nothing_was_missed_no_other_session_matters(stored: dict[str, Session | None]) -> None:
    stored["lost"] = None
    well = session_of(case(gates=[gate("bandwidth", 97.0, 100.0)]), uuid="first")
    assert references.stored(well, Path("results.db")) == references.StoredAnswers()
