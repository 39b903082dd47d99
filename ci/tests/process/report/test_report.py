"""The report as text: what it claims, what it leads to, and that
nothing from outside gets out of its place.
"""

import json
import os
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, settings

import synthetic_session as synthetic
from mpibench.pages import job_files
from mpibench.pages import outcomes as report_summary
from mpibench.pages import page as page_templates
from mpibench.pages import session as report
from mpibench.store import sessions
from page_reader import Reader, read_report
from reframe_tests.harness.vocabulary import BadInput
from synthetic_session import damaged_reports, session_of


@pytest.fixture(scope="module")
def folder():
    return synthetic.mixed_folder()


@pytest.fixture(scope="module")
def session(folder):
    return sessions.read_session(folder / "results.db")


@pytest.fixture(scope="module")
def page(folder, session):
    return report.write_report(report.View(session, folder), "report.html").read_text()


@pytest.fixture(scope="module")
def read(page):
    return Reader(page)


# The page.


def test_failures_come_before_any_number(page, read, session):
    """Each with its sentence and case."""
    sections = ["summary", "failures", "figures", "curves", "heat", "gates"]
    order = [page.index(f'<section id="{name}">') for name in sections]
    assert order == sorted(order)
    buttons = {one["data-case"] for one in read.named("button") if one.get("class") == "case"}
    for case in report_summary.failures(session):
        assert str(session.cases.index(case)) in buttons
        for sentence in report_summary.sentences(case):
            assert sentence in read.text["failures"]


def test_links_lead_to_the_files_of_the_job(read, folder, session):
    links = [one["href"] or "" for one in read.named("a")]
    places = [folder / unquote(link) for link in links if not link.startswith("#")]
    assert len([place for place in places if place.is_dir()]) >= 12
    assert all(place.exists() for place in places)
    names = ("rfm_job.sh", "rfm_job.out", "rfm_job.err", "benchmark.txt")
    for number, case in enumerate(session.cases):
        said = read.text[f"case-{number}"]
        if case.job_id:
            assert f"job id{case.job_id}nodes{case.nodelist}" in said
            assert all(name in said for name in names)


def test_all_curves_are_there_whole(read, session):
    index = read.blocks["index"]
    curves = [row for measure in index["measures"] for row in read.blocks[measure["chunk"]]]
    samples = [sample for case in session.cases for sample in case.samples]
    shown = [values for row in curves for values in row["y"]]
    assert len(shown) == len(samples)
    assert sum(map(len, shown)) == sum(len(sample.values) for sample in samples)
    for row in curves:
        assert len(row["x"]) in (1, 24) and row["x"] == sorted(row["x"], key=lambda x: x or 0)
    marks = [one["proven"] for one in index["cases"]]
    assert marks == [case.evidence == "proven" for case in session.cases]


# What comes from outside stays text.


def test_no_text_of_a_session_breaks_a_line_in_secret():
    """U+2028 ends a line for a script and for Python's splitlines, and nothing shows it."""
    reason = "over shm\u2028PASS: all is well"
    plan = synthetic.case(verdict="contradicted", reason=reason, name="p2p\u2029")
    session = session_of(plan, cmdline="reframe\u2028-r", run="nightly\u2028PASS")
    read = read_report(session)
    shown = "".join([*read.text.values(), json.dumps(read.blocks, ensure_ascii=False)])
    assert not {"\u2028", "\u2029"} & set(shown)
    assert "over shm\nPASS: all is well" in read.text["failures"]
    assert "nightly PASS" in read.text["top"]


# Files that are gone or are another run's.


def test_an_overwritten_directory_is_reported(session, folder, tmp_path):
    case = session.cases[0]
    assert job_files.place_of(session, case, folder).note == ""
    output = Path(case.directory) / "rfm_job.out"
    before = output.stat()
    later = session.started.timestamp() + session.seconds + job_files.SLACK_S + 1
    os.utime(output, (later, later))
    try:
        assert "later run overwrote" in job_files.place_of(session, case, folder).note
    finally:
        os.utime(output, (before.st_atime, before.st_mtime))


@settings(max_examples=100)
@given(document=damaged_reports())
def test_whatever_is_read_can_be_reported(document):
    """A session with anything anywhere is refused when it is read, or
    has a report; nothing else ever escapes.
    """
    try:
        session = sessions.decode(json.dumps(document), "here")
    except BadInput:
        return
    Reader(_render_bare(session)).close()
    report_summary.summary_lines(session)


def _render_bare(session):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_templates, "plotly_script", lambda: ("plotly.js", ""))
        return report.render(report.View(session, Path()))
