"""Files of a session: a folder and a log of its own, whatever else runs."""

import re
from pathlib import Path

import pytest

from mpibench.pages import job_files
from mpibench.store import sessions
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.vocabulary import BadInput
from synthetic_site import TinySite


@pytest.fixture
def tiny(tmp_path):
    return TinySite(tmp_path)


def test_two_sessions_two_folders_and_links_of_the_first_lead_to_its_own_evidence(
    tiny,
):
    """The log of a run is its own, all look-ups share one, and
    nothing stays in the temporary folder.
    """
    logs = tiny.results / "logs"
    assert tiny.reframe("-r")[0] == 0
    [first] = tiny.stored()
    [(folder, text)] = tiny.evidence().items()
    assert session_folder.NAME.fullmatch(folder)
    for words in ("-r", "-l", "-l"):
        assert tiny.reframe(words)[0] == 0
    found = tiny.evidence()
    assert len(found) == 2 and len(set(found.values())) == 2
    session = sessions.read_session(tiny.results / "results.db", first)
    [case] = session.cases
    place = job_files.place_of(session, case, tiny.results / "reports")
    [link] = [row[1] for row in place.files if row[0] == "evidence.txt"]
    assert (tiny.results / "reports" / link).resolve().read_text() == text and not place.note
    for prefix in ("prefix_output", "prefix_stage"):
        assert Path(session.info[prefix]).name == folder
    [log] = session.info["log_files"]
    assert Path(log).stem == folder and "Final number of test cases: 1" in Path(log).read_text()
    assert len(list(logs.iterdir())) == 3 and (logs / session_folder.LOOK_UP_LOG).exists()
    assert list(tiny.temporary.iterdir()) == []


def test_two_at_once_neither_share_nor_delete(tiny):
    """Both are in the same second as far as starting them one after the other allows."""
    running = [tiny.begin("-r", WRITER_SLEEPS="2") for _ in range(2)]
    ends = [(process.communicate(timeout=300)[0], process.returncode) for process in running]
    assert [status for _, status in ends] == [0, 0], ends
    assert len(tiny.stored()) == 2
    assert len(set(tiny.evidence().values())) == 2
    logs = {re.search(r"Log file\(s\) saved in '(.*)'", said)[1] for said, _ in ends}
    assert len(logs) == 2 and all("Writer" in Path(log).read_text() for log in logs)


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        ("why=a,b", "'b' is not NAME=VALUE"),
        ("why=up\nPASS: all is well", "has a control character"),
        ("why=\u202eSSAP", "has a control character"),
        *((f"run=a{mark}", "invisible character") for mark in "\xa0\xad \u3164\ufe0f"),
        ("uuid=2", "'uuid' is reserved by ReFrame"),
        ("run=nightly,confirms=0123", "'confirms' is reserved for confirmation runs"),
    ],
)
def test_labels_reframe_would_stumble_over_are_refused(label, wanted, monkeypatch):
    with pytest.raises(BadInput, match=re.escape(wanted)):
        session_folder.check_labels(["--session-extras", "a=1", f"--session-extras={label}"])
    session_folder.check_labels(["-r", "--session-extras", "run=nightly,why=new firmware"])
    monkeypatch.setenv("MPIBENCH_CONFIRMS", "0123")
    session_folder.check_labels(["--session-extras", "run=confirm,confirms=0123"])
