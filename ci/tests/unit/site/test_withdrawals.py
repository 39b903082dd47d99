"""Withdrawn sessions: recorded with who and why, no part of any verdict, and never passed over in silence."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import synthetic_session as synthetic
from mpibench.commands.sessions import app
from mpibench.judge import gate
from mpibench.pages import session as report
from mpibench.store import records
from mpibench.store.store import Store
from page_reader import Reader
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_report import session_of
from synthetic_verdicts import write_session

#: A record as the command writes it.
RECORD = '{"session": "session.0", "why": "wrong cable", "who": "y", "when": "2026-01-01T00:00:00Z"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        write_session(tmp_path, number, labels={"run": "nightly"})
    return tmp_path


def newest(folder: Path) -> str:
    return Store(folder).find_session("latest")[1]


def test_a_withdrawn_session_is_no_part_of_verdicts_until_it_is_restored(folder: Path) -> None:
    last = newest(folder)
    one = Store(folder).withdraw(last[:12], "maintenance\nof the switches")
    assert one.session == last and one.why == "maintenance of the switches" and one.who
    assert newest(folder) != last
    assert Store(folder).cases("testbed").collect()["session"].n_unique() == 2
    assert Store(folder).restore(last) == one
    assert newest(folder) == last


def test_who_names_a_withdrawn_session_is_told_why_it_is_none(folder: Path) -> None:
    last = newest(folder)
    Store(folder).withdraw(last, "wrong cable")
    with refused_as("session-withdrawn", match=r"was withdrawn by .* wrong cable; it takes part in no verdict"):
        Store(folder).find_session(last[:13])
    with refused_as("session-withdrawn", match="wrong cable"):
        Store(folder).select("testbed", last)
    with refused_as("session-withdrawn", match="wrong cable"):
        gate.decide(Store(folder), "testbed", last)


def test_the_gate_says_which_session_it_passed_over(folder: Path) -> None:
    last = newest(folder)
    Store(folder).withdraw(last, "wrong cable")
    answer = gate.decide(Store(folder), "testbed")
    assert answer.session != last
    assert any(last[:8] in note and "wrong cable" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("session", "why", "said"),
    [
        ("0000", "x", "is the beginning of"),
        ("ffffffff", "x", "holds no session ffffffff"),
        ("../../etc", "x", "is not a session"),
        ("", "x", "is not a session"),
        ("00000001", " \n", "--why is empty"),
        ("00000001", "x" * 501, "at most 500"),
    ],
)
def test_bad_input_is_one_sentence(folder: Path, session: str, why: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Store(folder).withdraw(session, why)
    assert Store(folder).withdrawn == {}


def test_a_session_is_withdrawn_once_and_restored_once(folder: Path) -> None:
    last = newest(folder)
    with refused_as("not-withdrawn"):
        Store(folder).restore(last)
    Store(folder).withdraw(last, "first reason")
    with refused_as("withdrawn-already", match="first reason; it is withdrawn already"):
        Store(folder).withdraw(last, "second reason")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        RECORD.replace("session.", "other."),
        RECORD.replace('"wrong cable"', "null"),
        RECORD.replace("wrong cable", ""),
        RECORD.replace("wrong cable", "x" * 501),
        RECORD.replace("2026-01-01T00:00:00Z", "yesterday"),
    ],
    ids=["empty", "list", "nothing", "deep", "other", "null", "no reason", "long", "no day"],
)
def test_a_damaged_record_stops_every_verdict(folder: Path, text: str) -> None:
    """Which session takes no part is not known then: no answer may rest on a guess."""
    path = folder / records.Withdrawal.kind / "session.0.json"
    path.parent.mkdir()
    path.write_text(text)
    with refused_as("record-damaged", match=r"session\.0\.json"):
        gate.decide(Store(folder), "testbed")
    path.write_text(RECORD)
    assert [one.why for one in Store(folder).withdrawn.values()] == ["wrong cable"]


def test_an_answer_counts_for_the_session_whose_name_it_has(folder: Path) -> None:
    records.answer(folder, "a-session", records.GATE, "nightly", [])
    (folder / "answers" / "a-session.gate.json").rename(folder / "answers" / "another.gate.json")
    with refused_as(
        "record-damaged", match=r"another\.gate\.json is the record a-session\.gate: name it a-session\.gate\.json"
    ):
        records.answers(folder)


@pytest.mark.parametrize("kind", ["file", "dead link", "unreadable"])
def test_a_folder_that_cannot_be_read_is_not_one_without_records(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise what was withdrawn would count again, and nobody would know."""
    place = folder / records.Withdrawal.kind
    if kind == "file":
        place.write_text("")
    elif kind == "dead link":
        place.symlink_to(folder / "gone")
    else:
        place.mkdir()

        def refuse(path: Path) -> None:
            """As for who has no right to; the administrator always has."""
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

        monkeypatch.setattr(os, "scandir", refuse)
    with refused_as(
        "record-folder-unreadable", match=r"withdrawn cannot be read \(.*\), so what it says of sessions is not known"
    ):
        assert Store(folder).withdrawn


def test_where_all_were_withdrawn_that_is_said(folder: Path) -> None:
    for path in sorted(folder.glob("cases/*/*/*.parquet")):
        Store(folder).withdraw(path.stem, f"maintenance {path.stem[:8]}")
    with refused_as(
        "all-withdrawn",
        match=r"all 3 sessions that could be meant were withdrawn; the newest: session 0000000\d .* maintenance 0000000\d",
    ):
        gate.decide(Store(folder), "testbed")


def test_a_report_says_first_that_its_session_is_withdrawn(tmp_path: Path) -> None:
    page = report.render(
        report.View(session_of(synthetic.case()), tmp_path, withdrawn="WITHDRAWN: session s by somebody: wrong cable")
    )
    head = Reader(page).text["top"]
    assert "WITHDRAWN: session s by somebody: wrong cable. " in head and '<p class="verdict bad">' in page


def test_the_commands_withdraw_list_and_restore(folder: Path) -> None:
    run, last = CliRunner(), newest(folder)
    given = ["--dataset", str(folder)]
    assert "no session is withdrawn" in run.invoke(app, ["list", "--withdrawn", *given]).output
    done = run.invoke(app, ["withdraw", last, "--why", "\x1b[31mred", *given])
    assert done.exit_code == 0 and f"session {last[:8]} was withdrawn by" in done.output
    assert json.loads((folder / "withdrawn" / f"{last}.json").read_text())["why"] == "red"
    assert last[:8] in run.invoke(app, ["list", "--withdrawn", *given]).output
    assert "takes part in verdicts again" in run.invoke(app, ["withdraw", last, "--undo", *given]).output
