"""``ci/nightly``: one session from ReFrame to the answer, red for whatever went wrong on the way."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mpibench.cluster.state import Process
from mpibench.commands import nightly
from mpibench.night import remeasuring
from mpibench.night import settings as night_settings
from mpibench.store import sessions
from night_project import NightProject
from reframe_tests.harness.samples import NUM_SELECTED
from reframe_tests.harness.vocabulary import BadInput
from synthetic_report import session_of
from synthetic_session import STACKS, case

#: A job that goes on measuring, and a process of it that hears no SIGTERM and has left its process group.
ENDLESS = "setsid sh -c 'trap : TERM; while :; do sleep 1; done' & echo $! >>{top}/pids; echo $$ >>{top}/pids; sleep 300"


@pytest.fixture
def project(tmp_path: Path) -> NightProject:
    return NightProject(tmp_path)


def test_a_good_night_is_one_session_from_reframe_to_the_report_and_the_next_leaves_that(project: NightProject) -> None:
    status, said = project.run("--report-junit=results/tonight/nightly.xml")
    assert status == 0, said
    uuid = project.session
    session = sessions.read_session(project.results / "results.db", uuid)
    assert session.labels == {"run": "nightly"} and len(session.cases) == 2
    assert (project.results / "site" / "index.html").is_file()
    for page in ("reports/" + uuid, "report", "tonight/report"):
        assert uuid in (project.results / f"{page}.html").read_text()
        assert (project.results / f"{page}.md").exists()
    assert (project.results / "tonight" / "nightly.xml").exists()
    assert f"session {uuid} (run=nightly)" in said and "outputs of 1 sessions" in said and "are free" in said
    assert "PARTIAL" not in said
    page = (project.results / "reports" / f"{uuid}.html").read_text()
    assert project.run(LABEL="second")[0] == 0
    assert project.session != uuid
    assert (project.results / "reports" / f"{uuid}.html").read_text() == page
    assert project.session in (project.results / "report.html").read_text()


@pytest.mark.parametrize(
    "label", ["a,b", "../x", "a/b", "..", "a..b", "", "a b", "a=b", "a\nb", "-x", ".x", "\t", "é", "x" * 65, "$(id)", "'"]
)
def test_a_bad_label_is_refused_before_anything_is_done(project: NightProject, label: str) -> None:
    status, said = project.run(LABEL=label)
    assert status == 2
    assert said.count("\n") == 1 and "is refused: use 1 to 64 letters, digits" in said
    assert not (project.top / "set-up").exists() and not project.results.exists()


@pytest.mark.parametrize(
    ("options", "environ", "wanted"),
    [
        ((), {"LABEL": "a,b"}, "is refused: use 1 to 64 letters"),
        (("--timestamp=now",), {}, "does not take --timestamp"),
        ((), {"MODE": "x"}, "MODE=x is not a mode; there are smoke, nightly, acceptance"),
    ],
)
def test_a_refused_night_leaves_nothing_that_passes_for_its_own(project: NightProject, options, environ, wanted) -> None:
    project.write("results/session-id", "an-earlier-night\n")
    project.write("results/tonight/gate.txt", "PASS\n")
    status, said = project.run(*options, **environ)
    assert status == 2 and wanted in said, said
    assert not project.session and not (project.results / "tonight" / "gate.txt").exists()


def test_help_does_nothing_else(project: NightProject) -> None:
    project.write("results/session-id", "an-earlier-night\n")
    status, said = project.run("--help")
    assert status == 0 and "MODE=smoke|nightly|acceptance" in said and "set -euo" not in said
    assert project.session == "an-earlier-night" and not (project.top / "set-up").exists()


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("--timestamp=now", "folders of its own"),
        ("--mode=smoke", "set MODE="),
        ("--report-file=x", "run report"),
        ("--skip-performance-check", "held against its references"),
        ("--skip-perf", "does not take --skip-performance-check: a night is held against its references"),
        ("--mod=smoke", "does not take --mode: set MODE="),
        ("--disable-hook=set_metrics", "held against its references"),
        ("--skip-sanity-check", "proves its conditions"),
        ("--session-extras=firmware", "is not NAME=VALUE"),
        ("--skip-san", "proves its conditions"),
        ("--session-e=firmware", "is not NAME=VALUE"),
    ],
)
def test_options_that_would_lose_the_session_are_refused(option: str, wanted: str) -> None:
    with pytest.raises(BadInput, match=wanted):
        night_settings.check([option])
    night_settings.check(["--session-extras", "firmware=1.2,why=test", "-n", "x"])


def test_a_database_that_cannot_be_written_is_refused_before_measuring(project: NightProject) -> None:
    project.write("results/report.html", "of an earlier session")
    (project.results / ".db.lock").mkdir()
    status, said = project.run()
    assert status == 2
    assert f"{project.results}/results.db cannot be written (" in said and "[ReFrame Setup]" not in said
    assert not project.session
    assert (project.results / "report.html").read_text() == "of an earlier session"


def test_the_run_report_of_an_earlier_session_is_not_tonights(project: NightProject) -> None:
    assert project.run()[0] == 0
    report = shutil.copy(project.results / "tonight" / "run-report.json", project.top / "earlier.json")
    replay = f'for word; do [[ $word != --report-file=* ]] || cp {report} "${{word#*=}}"; done'
    project.write("bin/reframe", f"#!/bin/bash\n{replay}\n", executable=True)
    status, said = project.run()
    assert status == 1 and "which was stored before tonight" in said
    assert not project.session


def test_a_session_that_was_not_stored_is_no_session(project: NightProject) -> None:
    """The lock of the database is lost while the night measures."""
    project.write("results/report.html", "of an earlier session")
    lock = project.results / ".db.lock"
    status, said = project.run(NIGHT_DURING=f"rm -f {lock}; mkdir -p {lock}")
    assert status == 1
    assert "was measured and is not in" in said and "Is a directory" in said
    assert not project.session
    assert "earlier session" in said
    assert (project.results / "report.html").read_text() == "of an earlier session"
    assert not (project.results / "dataset" / "cases").exists(), "nothing is exported or reported"
    assert not (project.results / "tonight" / "report.html").exists()
    report = json.loads((project.results / "tonight" / "run-report.json").read_text())
    assert report["session_info"]["num_cases"] == 2, "what was measured is kept"
    assert report["session_info"][NUM_SELECTED] == 2


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter and write to; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_a_database_without_the_right_to_write_is_refused(open_folder: Path, mode: int) -> None:
    """To root every file is writable, so another user asks."""
    database = open_folder / "results.db"
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("create table sessions(uuid text)")
    remeasuring.check_database(database)
    (open_folder / ".db.lock").chmod(0o666)
    database.chmod(mode)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            remeasuring.check_database(database)
        except BadInput as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as said:
        assert re.fullmatch(rf"{database} cannot be written \(.*\), .*: correct its rights .*\.", said.read())
    database.chmod(0o644)
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("select name from sqlite_master").fetchall() == [("sessions",)], "nothing is left of the attempt"


def test_nothing_selected_is_no_session(project: NightProject) -> None:
    status, said = project.run("-n", "Nonsuch")
    assert status == 1 and "no session: ReFrame selected no case" in said
    assert not project.session


@pytest.mark.parametrize("broken", ["lib/libmpi.so.12", "stack.json"])
def test_a_stack_that_cannot_be_entered_is_red_and_the_others_are_measured(project: NightProject, broken: str) -> None:
    project.register(*STACKS)
    path = project.top / "environments" / "wheels" / "openmpi-wheels" / broken
    path.unlink()
    if broken == "stack.json":
        path.write_text("{")
    status, said = project.run()
    assert status == 1
    reasons = said.split("NOT accepted")[1]
    assert f"stack 'openmpi-wheels' is left out: {path}" in reasons or "is not JSON" in reasons
    assert len(sessions.read_session(project.results / "results.db", project.session).cases) == 2


def test_a_test_file_that_cannot_be_loaded_is_red(project: NightProject) -> None:
    """A first night has nothing to miss the tests by."""
    text = (project.top / "reframe_tests/replay_plan.py").read_text().replace("class Replay", "class Further")
    project.write("reframe_tests/further.py", text + "\nSUM = not_defined\n")
    status, said = project.run()
    assert status == 1, said
    reason = "skipping test file 'reframe_tests/further.py': name error: name 'not_defined' is not defined;"
    assert f"not every test was loaded, and nothing is measured without it: {reason}" in said, said


def test_all_skipped_is_red(project: NightProject) -> None:
    project.plan([case(name, end="skip", reason="no such thing here") for name in ("mpich-wheels", "openmpi-wheels")])
    status, said = project.run()
    assert status == 1 and "no case was measured: every one was skipped" in said


def test_a_stack_that_could_not_be_installed_is_red(project: NightProject) -> None:
    """Status 3 of the set-up; the others are measured."""
    project.write("ci/setup", "#!/bin/bash\nexit 3\n", executable=True)
    status, said = project.run()
    assert status == 1 and "a stack could not be installed" in said.split("NOT accepted")[1]
    assert len(sessions.read_session(project.results / "results.db", project.session).cases) == 2


def test_what_spack_has_installed_is_not_set_up_again(project: NightProject) -> None:
    """As the environment that Spack loads says; everything is on PATH then."""
    (project.top / ".venv" / "bin" / "activate").unlink()
    path = f"{project.top}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {"MPIBENCH_SET_UP": "spack", "PATH": path, "PYTHONPATH": f"{project.top}/ci:{project.top}"}
    status, said = project.run(**environ)
    assert status == 0, said
    assert not (project.top / "set-up").exists() and project.session


def test_a_set_up_that_fails_leaves_no_earlier_session(project: NightProject) -> None:
    project.write("results/session-id", "an-earlier-night\n")
    project.write("ci/setup", "#!/bin/bash\nexit 1\n", executable=True)
    assert project.run()[0] == 1
    assert not project.session


def test_a_case_without_proof_is_red_although_reframe_passed_it(project: NightProject) -> None:
    project.plan([case("mpich-wheels", proof={}), case("openmpi-wheels")])
    status, said = project.run()
    assert status == 1 and "1 cases passed in ReFrame, but no proof" in said


def test_fewer_cases_stored_than_selected_are_red() -> None:
    session = session_of(case(), case(ppn=4))
    assert nightly.shortfall(session, 2) == []
    assert nightly.shortfall(session, 3) == ["ReFrame stored 2 cases of 3 it had selected"]


@pytest.mark.parametrize(
    ("folder", "wanted"), [("dataset", "tonight's session is not in the dataset"), ("reports", "there is no report")]
)
def test_a_failed_export_or_report_is_red(project: NightProject, folder: str, wanted: str) -> None:
    project.results.mkdir()
    if folder == "reports":
        (project.results / "report.html").mkdir()
    else:
        (project.results / folder).write_text("")
    status, said = project.run()
    assert status == 1 and wanted in said.split("NOT accepted")[1], said


def test_what_is_expected_and_missing_is_red(project: NightProject) -> None:
    """And so is what nobody could look for."""
    file = project.write("site_configs/tiny/expected.yaml", "cases: {")
    exited, said = project.run()
    assert exited == 1
    reasons = said.split("NOT accepted")[1]
    unchecked = "whether all that is expected is there could not be checked: `mpibench gate --only completeness --session "
    assert unchecked in reasons, said
    assert "ended with exit status 2." in reasons
    file.unlink()
    project.register(*STACKS)
    exited, said = project.run()
    assert exited == 1
    reasons = said.split("NOT accepted")[1]
    assert "something expected is missing (cases left out when the tests were loaded: 'left out' in " in reasons, said
    assert "ended with exit status 1." in reasons


def test_an_older_session_that_cannot_be_read_is_reported_in_a_green_answer(project: NightProject) -> None:
    assert project.run()[0] == 0
    first = project.session
    shutil.rmtree(project.results / "dataset")
    with closing(sqlite3.connect(project.results / "results.db")) as db, db:
        db.execute("update sessions set json_blob = substr(json_blob, 1, 500)")
    status, said = project.run()
    assert status == 0, said
    assert f"not in the dataset: session {first}" in said and "damaged" in said


@pytest.mark.parametrize("options", [("-p", "mpich-wheels"), ("-n", "Replay.*mpich")])
def test_a_part_says_that_it_is_one_and_of_what(project: NightProject, options: tuple[str, ...]) -> None:
    status, said = project.run(*options)
    assert status == 0, said
    session = sessions.read_session(project.results / "results.db", project.session)
    assert [one.stack for one in session.cases] == ["mpich-wheels"], "also beside a mode, where ReFrame 4.10 forgets -p"
    [line] = [line for line in said.splitlines() if "PARTIAL" in line]
    assert f"({shlex.join(options)})" in line and "1 cases measured: Replay; mpich-wheels; shm" in line
    said_of_it = json.loads((project.results / "dataset" / "answers" / f"{session.uuid}.gate.json").read_text())
    assert said_of_it["finding"] == "measured in part", "no pass of a night"


def test_what_is_refused_before_the_set_up(project: NightProject) -> None:
    status, said = project.run("--mode=smoke")
    assert (status, said) == (2, "nightly: ci/nightly does not take --mode: set MODE=, as in MODE=smoke ci/nightly.\n")
    project.results.write_text("")  # root may write everywhere, so a file stands in their place
    status, said = project.run()
    wanted = f"{project.results} is no folder that can be written; correct its rights, or use a checkout of your own."
    assert (status, said) == (2, f"nightly: {wanted}\n")
    assert not (project.top / "set-up").exists()


def test_a_folder_named_in_the_environment_is_not_that_of_each_night(project: NightProject) -> None:
    for _ in range(2):
        status, said = project.run(RFM_TIMESTAMP_DIRS="fixed")
        assert status == 0, said
    assert len({path.name for path in (project.results / "output").iterdir()} - {"fixed"}) == 2


def test_other_variables_are_reported(project: NightProject) -> None:
    status, said = project.run("-S", "repeats=1")
    assert status == 0, said
    assert "measured otherwise than a night is (-S repeats=1): 2 cases measured" in said


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--report-junit=x", "-v", "--system", "a:b", "-J", "p=q", "--session-extras=why=x"], []),
        (["--report-junit", "x", "-t", "smoke"], ["-t", "smoke"]),
        (["-S", "repeats=9"], ["-S", "repeats=9"]),
        (["--maxfail=1"], ["--maxfail=1"]),
        (["--na=x"], ["--na=x"]),
        (["--performance-report=now-1d:now/last:+result", "--performance-report"], []),
        (["-vn", "Replay"], ["-vn", "Replay"]),
    ],
)
def test_which_options_make_a_part(options: list[str], left: list[str]) -> None:
    assert night_settings.changing(options) == left


def _wait_for(path: Path, lines: int) -> list[str]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.exists() and len(found := path.read_text().split()) >= lines:
            return found
        time.sleep(0.2)
    raise AssertionError(f"{path} has no {lines} lines")


def test_two_nights_at_once(project: NightProject) -> None:
    first = project.begin(NIGHT_DURING=f"echo here >>{project.top}/pids; while [ ! -e {project.top}/go ]; do sleep 0.2; done")
    try:
        _wait_for(project.top / "pids", 1)
        status, said = project.run()
        assert status == 2 and "another ci/nightly (process " in said and said.count("\n") == 1
        (project.top / "go").touch()
        output, _ = first.communicate(timeout=300)
    finally:
        first.kill()
    assert first.returncode == 0, output
    assert len(sessions.list_sessions(project.results / "results.db")) == 1
    assert sessions.read_session(project.results / "results.db", project.session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_what_measures_and_leaves_earlier_results(project: NightProject, number: signal.Signals) -> None:
    project.write("results/report.html", "of an earlier session")
    project.write("results/session-id", "of-an-earlier-night\n")
    junit = project.results / "tonight" / "nightly.xml"
    night = project.begin(f"--report-junit={junit}", NIGHT_DURING=ENDLESS.format(top=project.top))
    try:
        measuring = [Process.observe(int(pid)) for pid in _wait_for(project.top / "pids", 2)]
        assert all(measuring)
        night.send_signal(number)
        said, _ = night.communicate(timeout=120)
    finally:
        night.kill()
    assert night.returncode == 128 + number, said
    assert f"INTERRUPTED by {number.name}" in said and "Traceback" not in said
    assert not any(process.alive for process in measuring if process)
    assert not project.session
    assert (project.results / "report.html").read_text() == "of an earlier session"
    assert not (project.results / "dataset" / "cases").exists(), "nothing is exported"
    [stored] = sessions.list_sessions(project.results / "results.db")
    assert f"what was measured is stored as session {stored}" in said
    # What the night sends its ReFrame: SIGINT, and SIGTERM to one that went on, as ReFrame does after a KeyboardInterrupt that
    # came in a place which swallows it.
    [sent] = {"SIGINT", "SIGTERM or SIGHUP"} & set(re.findall(r"interrupted: 2 of 2 cases did not run \((.*?)\)", said))
    lost = f"interrupted: 2 of 2 cases did not run ({sent})"
    assert (project.results / "tonight" / "gate.txt").read_text() == f"FAIL: ci/nightly got {number.name}: {lost}\n"
    [suite] = ElementTree.parse(junit).iter("testsuite")
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("2", "2", "0")
    for case_of_it in suite.iter("testcase"):
        [mark] = case_of_it
        assert (
            mark.tag == "error" and mark.get("type") == "interrupted" and f"was interrupted ({sent})" in mark.get("message", "")
        )


def test_what_a_job_leaves_behind_ends_with_the_night(project: NightProject) -> None:
    during = f"setsid sh -c 'trap : TERM; while :; do sleep 1; done' & echo $! >>{project.top}/pids; echo"
    status, said = project.run(NIGHT_DURING=during)
    assert status == 0, said
    for pid in _wait_for(project.top / "pids", 2):
        assert Process.observe(int(pid)) is None


def test_a_pattern_that_fits_no_stack_makes_the_night_red(project: NightProject) -> None:
    """What it was meant for is never measured; without this the night would be green every time."""
    path = project.top / "site_configs" / "tiny" / "system.py"
    path.write_text(f"{path.read_text()}\nfor row in system['partitions']:\n    row['extras']['stacks'] = ['*', '*-spak']\n")
    status, said = project.run()
    assert status == 1
    assert "'*-spak' in extras.stacks fits no stack, so nothing is measured for it; registered are " in said
    assert "NOT accepted; reasons: 1" in said


def test_what_is_no_success_is_none_in_the_junit_file(project: NightProject) -> None:
    """ReFrame's own marks failures only."""
    plan = [case("mpich-wheels", end="skip", reason="no such thing here"), case("openmpi-wheels", proof={})]
    project.register(*STACKS)
    project.plan([*plan, case("intelmpi-wheels"), case("intelmpi-wheels", ppn=4, end="sanity", reason="bad")])
    status, said = project.run("--report-junit=results/tonight/nightly.xml")
    assert status == 1, said
    [suite] = ElementTree.parse(project.results / "tonight" / "nightly.xml").iter("testsuite")
    assert [suite.get(name) for name in ("tests", "skipped", "errors", "failures")] == ["4", "1", "0", "2"]
    marks = {one.get("name", "").partition("/")[0].strip(): [mark.tag for mark in one] for one in suite.iter("testcase")}
    assert sorted(marks.values()) == [[], ["failure"], ["failure"], ["skipped"]]
    assert {mark.get("message") for mark in suite.iter("skipped")} == {"no such thing here"}
    assert any("no proof of its condition was stored" in mark.get("message", "") for mark in suite.iter("failure"))


def test_a_junit_file_that_could_not_be_written_is_red(project: NightProject) -> None:
    (project.top / "night.xml").mkdir()
    status, said = project.run("--report-junit=night.xml")
    assert status == 1 and "the JUnit file night.xml cannot be read (" in said.split("NOT accepted")[1]
