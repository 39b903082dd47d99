"""Files of a session: a folder and a log of its own, whatever else runs."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mpibench.pages import job_files
from mpibench.store import sessions
from reframe_tests.harness.sites import site
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.vocabulary import BadInput
from tiny_site import TinySite


@pytest.fixture
def tiny(tmp_path: Path) -> TinySite:
    return TinySite(tmp_path)


def test_two_sessions_two_folders_and_links_of_the_first_lead_to_its_own_evidence(tiny: TinySite) -> None:
    assert tiny.reframe("-r")[0] == 0
    [first] = tiny.stored()
    [(folder, text)] = tiny.evidence().items()
    assert session_folder.NAME.fullmatch(folder)
    assert tiny.reframe("-r")[0] == 0
    found = tiny.evidence()
    assert len(found) == 2 and len(set(found.values())) == 2
    session = sessions.read_session(tiny.results / "results.db", first)
    [case] = session.cases
    place = job_files.place_of(session, case, tiny.results / "reports")
    [(_, link, _)] = [row for row in place.files if row[0] == "evidence.txt"]
    assert (tiny.results / "reports" / link).resolve().read_text() == text
    assert not place.note
    assert Path(session.info["prefix_output"]).name == Path(session.info["prefix_stage"]).name == folder


@pytest.mark.parametrize("mode", [mode["name"] for mode in site.MODES])
def test_each_mode_has_folders_of_its_own(tiny: TinySite, mode: str) -> None:
    for _ in range(2):
        status, said = tiny.reframe("-r", f"--mode={mode}", "-S", "require_reference=no")
        assert status == 0, said
    assert len(tiny.evidence()) == 2


def test_two_at_once_neither_share_nor_delete(tiny: TinySite) -> None:
    """Both are in the same second as far as starting them one after the other allows."""
    running = [tiny.begin("-r", WRITER_SLEEPS="2") for _ in range(2)]
    ends = [(process.communicate(timeout=300)[0], process.returncode) for process in running]
    assert [status for _, status in ends] == [0, 0], ends
    assert len(tiny.stored()) == 2
    assert len(set(tiny.evidence().values())) == 2
    logs = {re.search(r"Log file\(s\) saved in '(.*)'", said)[1] for said, _ in ends}
    assert len(logs) == 2 and all("Writer" in Path(log).read_text() for log in logs)


def test_names_of_the_same_second_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_folder.time, "strftime", lambda pattern: "20261122T021700")
    names = {session_folder.new_name() for _ in range(100)}
    assert len(names) == 100 and all(session_folder.NAME.fullmatch(name) for name in names)


def test_a_folder_somebody_names_is_used(tiny: TinySite) -> None:
    assert tiny.reframe("-r", "--timestamp=mine")[0] == 0
    assert tiny.reframe("-r", RFM_TIMESTAMP_DIRS="ours")[0] == 0
    assert set(tiny.evidence()) == {"mine", "ours"}


def test_the_log_of_a_run_is_its_own_and_nothing_stays_in_the_temporary_folder(tiny: TinySite) -> None:
    logs = tiny.results / "logs"
    for count in (1, 2):
        assert tiny.reframe("-r")[0] == 0
        own = [path for path in logs.glob("*.log") if path.name != session_folder.LOOK_UP_LOG]
        assert len(own) == count and all(session_folder.NAME.fullmatch(path.stem) for path in own)
    for _ in range(2):
        assert tiny.reframe("-l")[0] == 0
    assert len(list(logs.iterdir())) == 3, "all look-ups share one file"
    assert list(tiny.temporary.iterdir()) == []
    newest = sessions.read_session(tiny.results / "results.db")
    [log] = newest.info["log_files"]
    assert Path(log).parent == logs and "Final number of test cases: 1" in Path(log).read_text()


def test_a_refused_configuration_leaves_nothing_in_the_temporary_folder_either(tiny: TinySite) -> None:
    path = tiny.top / "site_configs" / "tiny" / "system.py"
    path.write_text(path.read_text().replace("hostnames", "hostname"))
    status, said = tiny.reframe("-r")
    assert status == 1 and "'hostnames' is a required property" in said
    assert list(tiny.temporary.iterdir()) == []
    [log] = re.findall(r"Log file\(s\) saved in '(.*)'", said)
    assert Path(log).parent == tiny.results / "logs" and "hostnames" in Path(log).read_text()


def test_who_may_not_write_can_look_things_up(tmp_path: Path) -> None:
    """``logs`` is a file: what a folder without the right to write is to everybody but root."""
    (tmp_path / "logs").write_text("")
    assert session_folder.log_file(tmp_path, "20261122T021700-00000000", ["-l"]) == Path(os.devnull)


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (["-r"], True),
        (["-c", "reframe_tests", "--run", "--mode=nightly"], True),
        (["--dry-run"], True),
        (["-lC"], False),
        (["-L"], False),
        (["--list-stored-sessions"], False),
        (["--show-config=modes"], False),
        (["--performance-compare=a/b"], False),
    ],
)
def test_which_starts_have_a_log_of_their_own(tmp_path: Path, words: list[str], own: bool) -> None:
    name = session_folder.new_name()
    assert session_folder.log_file(tmp_path, name, words).name == (f"{name}.log" if own else session_folder.LOOK_UP_LOG)


def test_stored_sessions_are_plain_sqlite(tiny: TinySite) -> None:
    """What ci/nightly reads of a session is in ReFrame's own report."""
    assert tiny.reframe("-r", "--session-extras", "run=nightly")[0] == 0
    with closing(sqlite3.connect(tiny.results / "results.db")) as db:
        [(text,)] = db.execute("select json_blob from sessions").fetchall()
    info = json.loads(text)["session_info"]
    assert info["run"] == "nightly" and info["num_cases"] == 1


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--session-extras", "firmware"], "'firmware' is not NAME=VALUE"),
        (["-r", "--session-extras=why=a,b"], "'b' is not NAME=VALUE"),
        (["--session-extras", "why=up\nPASS: all is well"], "holds a control character"),
        (["--session-extras", "why=\x1b[2J"], "holds a control character"),
        (["--session-extras", "why=up\u2028PASS"], "holds a control character"),
        (["--session-extras", "why=\u202eSSAP"], "holds a control character"),
        (["--session-extras", "why=a\tb"], "holds a control character"),
        (["--session-extras", "why=up\n"], "holds a control character"),
        (["--session-extras", "run=acceptance\u200b"], r"'run=acceptance\u200b' holds a control character"),
        *((["--session-extras", f"run=a{mark}"], "mark that nobody sees") for mark in "\xa0\xad \ufeff\u3164\ufe0f"),
        (["--session-extras", "why="], "'why=' is not NAME=VALUE"),
        (["--session-extras", "a=1", "--session-extras", "uuid=2"], "'uuid' is a name of ReFrame's own"),
        (["--session-extras", "run=nightly,confirms=0123"], "'confirms' marks what mpibench measures again"),
    ],
)
def test_labels_reframe_would_stumble_over_are_refused(words: list[str], wanted: str) -> None:
    with pytest.raises(BadInput, match=re.escape(wanted)):
        session_folder.check_labels(words)
    session_folder.check_labels(["-r", "--session-extras", "run=nightly,why=new firmware", "--session-extras=x=a=b", "-n", "y"])
    with pytest.MonkeyPatch.context() as context:
        context.setenv("MPIBENCH_CONFIRMS", "0123")
        session_folder.check_labels(["--session-extras", "run=confirm,confirms=0123"])


def test_a_bad_label_is_refused_before_anything_is_measured(tiny: TinySite) -> None:
    status, said = tiny.reframe("-r", "--session-extras", "run=a,b")
    assert status == 1 and "'b' is not NAME=VALUE" in said and "Traceback" not in said
    assert not tiny.evidence()
