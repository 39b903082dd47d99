"""How much the results hold, and what ``sessions prune`` takes away: old
files of sessions by their names, nothing else.
"""

import os
import subprocess
import time

import pytest

from folders import write
from mpibench.store import session_files

OLD = "20260101T021700-00000001"
NEW = "20261121T021700-00000002"
UUID = "03c16d18-5b1c-4f5e-9b43-0123456789ab"
#: What goes once it is old, and what stays however old it is.
OF_SESSIONS = (
    f"stage/{OLD}/generic/a.out",
    f"output/{OLD}/generic/default/b.out",
    f"logs/{OLD}.log",
    f"reports/{UUID}.html",
    f"reports/{UUID}.md",
    "nights/20260101T021700/gate.txt",
)
STAYS = """
    results.db dataset/answers/x.night.json accept/accept.html report.html session-id
    logs/look-up.log output/mine/c.out stage/important.txt spack/openmpi.log nights/notes.txt
"""


@pytest.fixture
def results(tmp_path):
    for name in (*OF_SESSIONS, *STAYS.split()):
        write(tmp_path / name, "x" * 8192)
    (tmp_path / "results.db").unlink()
    for path in tmp_path.rglob("*"):
        os.utime(path, (time.time() - 100 * 86400,) * 2)
    return tmp_path


def prune(results, days, remove):
    old = session_files.find(results, days)
    return session_files.remove(old) if remove else session_files.lines(old)


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_only_old_files_of_sessions_go(results):
    before = files(results)
    listed = prune(results, 90, remove=False)
    assert files(results) == before, "without --remove it is only a list"
    assert "--remove removes them" in listed[-1] and any(OLD in line for line in listed)
    [line] = prune(results, 90, remove=True)
    assert line.startswith("removed files and folders of sessions: 6, ")
    assert before - files(results) == set(OF_SESSIONS)
    assert prune(results, 90, remove=False) == ["no files of sessions to remove"]


def test_links_are_not_followed(results, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "precious").write_text("kept")
    (results / "output" / NEW).symlink_to(elsewhere)
    os.utime(results / "output" / NEW, (0, 0), follow_symlinks=False)
    os.utime(elsewhere, (0, 0))
    prune(results, 90, remove=True)
    assert (elsewhere / "precious").exists() and (results / "output" / NEW).is_symlink()


def test_what_killed_writers_left_goes_and_what_is_being_written_stays(results):
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = [
        f"dataset/cases/system=a/date=2026-01-01/.x.parquet.{gone.pid}.partial",
        f".session-id.{gone.pid}.partial",
        f"maps/.x.parquet.7.{gone.pid}.partial",
    ]
    stays = [
        f"dataset/refused/.x.json.{os.getpid()}.partial",
        f"reports/.new.html.{gone.pid}.partial",
        ".mine.partial",
    ]
    for name in (*left, *stays):
        path = write(results / name, "half")
        if "new" not in name:
            os.utime(path, (time.time() - 2 * 86400,) * 2)
    assert prune(results, 3000, remove=False)[-1].startswith("files and folders of sessions: 3, ")
    before = files(results)
    prune(results, 3000, remove=True)
    assert before - files(results) == set(left)
