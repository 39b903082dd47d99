"""Withdrawn sessions: recorded with who and why, no part of any
verdict, and never passed over in silence.
"""

import errno
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dataset_here import HERE, write_sessions
from mpibench.commands.sessions import app
from mpibench.judge import gate
from mpibench.pages import session as report
from mpibench.store import records
from mpibench.store.store import Store
from page_reader import Reader
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_session import case, session_of
from synthetic_verdicts import NIGHTLY

#: A record as the command writes it.
RECORD = (
    '{"session": "session.0", "why": "wrong cable", "who": "y", "when": "2026-01-01T00:00:00Z"}'
)


@pytest.fixture(autouse=True)
def three_nights():
    write_sessions(3, labels=NIGHTLY)


def newest():
    return Store(HERE).find_session("latest").session


def test_a_withdrawn_session_is_no_part_of_verdicts_until_it_is_restored():
    store = Store(HERE)
    last = newest()
    with refused_as("session-missing"):
        store.restore(last)
    one = store.withdraw(last[:12], "maintenance\nof the switches")
    assert one.session == last and one.why == "maintenance of the switches" and one.who
    assert Store(HERE).cases("testbed").collect()["session"].n_unique() == 2
    answer = gate.decide(Store(HERE), "testbed")
    assert answer.session != last
    assert any(last[:8] in note and "of the switches" in note for note in answer.notes)
    with refused_as("name-taken"):
        Store(HERE).withdraw(last, "second reason")
    with refused_as("session-missing", match="of the switches; it takes part in no verdict"):
        gate.decide(Store(HERE), "testbed", last)
    assert Store(HERE).restore(last) == one
    assert newest() == last
    for path in HERE.glob("cases/*/*/*.parquet"):
        Store(HERE).withdraw(path.stem, "maintenance")
    with refused_as("session-missing", match="all 3 matching sessions are withdrawn"):
        gate.decide(Store(HERE), "testbed")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        RECORD.replace("session.", "other."),
        RECORD.replace("wrong cable", ""),
        RECORD.replace("2026-01-01T00:00:00Z", "yesterday"),
    ],
    ids=["deep", "other", "no reason", "no day"],
)
def test_a_damaged_record_stops_every_verdict(text):
    """Which session takes no part is not known then: no answer may rest on a guess."""
    path = Path(records.Withdrawal.kind, "session.0.json")
    path.parent.mkdir()
    path.write_text(text)
    with refused_as("file-damaged", match=r"session\.0\.json"):
        gate.decide(Store(HERE), "testbed")
    path.write_text(RECORD)
    assert [one.why for one in Store(HERE).withdrawn.values()] == ["wrong cable"]


def test_an_answer_counts_for_the_session_whose_name_it_has():
    records.answer(HERE, "a-session", records.GATE, "nightly", [])
    Path("answers/a-session.gate.json").rename("answers/another.gate.json")
    with refused_as("file-damaged", match="name it a-session"):
        records.answers(HERE)


@pytest.mark.parametrize("kind", ["file", "dead link", "unreadable"])
def test_a_folder_that_cannot_be_read_is_not_one_without_records(kind, monkeypatch):
    """Otherwise what was withdrawn would count again, and nobody would know."""
    place = Path(records.Withdrawal.kind)
    if kind == "file":
        place.write_text("")
    elif kind == "dead link":
        place.symlink_to("gone")
    else:
        place.mkdir()

        def refuse(path):
            """As for who has no right to; the administrator always has."""
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

        monkeypatch.setattr(os, "scandir", refuse)
    with refused_as("file-unreadable"):
        assert Store(HERE).withdrawn


def test_a_report_says_first_that_its_session_is_withdrawn(tmp_path):
    said = "WITHDRAWN: session s by somebody: wrong cable"
    page = report.render(report.View(session_of(case()), tmp_path, withdrawn=said))
    assert f"{said}. " in Reader(page).text["top"] and '<p class="verdict bad">' in page


def test_the_commands_withdraw_list_and_restore():
    def run(*words):
        done = CliRunner().invoke(app, [*words, "--dataset", "."])
        assert done.exit_code == 0
        return done.output

    last = newest()
    run("withdraw", last, "--why", "\x1b[31mred")
    assert json.loads(Path(f"withdrawn/{last}.json").read_text())["why"] == "red"
    assert last[:8] in run("list", "--withdrawn")
    run("withdraw", last, "--undo")
    assert "no session is withdrawn" in run("list", "--withdrawn")


@pytest.mark.parametrize(
    ("session", "why"),
    [("0000", "x"), ("ffffffff", "x"), ("../../etc", "x"), ("00000001", " \n")],
    ids=["several", "none", "a path", "no reason"],
)
def test_bad_input_withdraws_nothing(session, why):
    with pytest.raises(BadInput):
        Store(HERE).withdraw(session, why)
    assert Store(HERE).withdrawn == {}
