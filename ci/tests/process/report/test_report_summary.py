"""What a session is called in words and counts: nothing may look better than it is."""

import re
import resource

import polars as pl
import pytest

import synthetic_session as synthetic
from mpibench.pages import outcomes as report_summary
from mpibench.pages import session as report
from mpibench.store import dataset, eligibility, sessions
from page_reader import read_report
from reframe_tests.harness.vocabulary import BadInput
from synthetic_session import changed, hostile_session, only, session_of


@pytest.fixture(scope="module")
def session():
    return sessions.read_session(synthetic.mixed_folder() / "results.db")


# Verdicts.


@pytest.mark.parametrize(
    ("name", "outcome", "sentence"),
    [
        ("p2p_shm_2_bunch_intelmpi", "passed", ""),
        ("p2p_shm_2_bunch_mpich", "recorded", ""),
        ("p2p_lo_2_bunch_intelmpi", "failed", synthetic.CONTRADICTED),
        ("p2p_lo_2_bunch_mpich", "skipped", "transport tcp is not known for this device"),
        ("p2p_lo_2_bunch_openmpi", "failed", "value error: no topology"),
        ("transfer_shm_4_bunch_openmpi", "failed", "Uniband_bandwidth_64 is 50 MB/s, below the 9"),
        ("transfer_shm_4_bunch_intelmpi", "failed", "passed in ReFrame, but without stored proof"),
        ("p2p_shm_2_none_intelmpi", "failed", "repeat 2 ended with exit status 137."),
    ],
)
def test_outcome_of_each_kind_of_case(session, name, outcome, sentence):
    [case] = [case for case in session.cases if case.name.endswith(f"={name}")]
    assert session.outcome(case) == outcome
    assert "".join(report_summary.sentences(case)[:1]).startswith(sentence)
    assert bool(report_summary.sentences(case)) == bool(sentence)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [("abort", "interrupted"), ("xfail", "known"), ("xpass", "failed"), ("<unknown>", "failed")],
)
def test_every_result_of_reframe_has_an_outcome(session, result, outcome):
    case = changed(session.cases[1], result=result)
    assert sessions.Session(session.info, (case,)).outcome(case) == outcome
    assert outcome == "known" or report_summary.sentences(case)


@pytest.mark.parametrize(
    ("cause", "named"),
    [
        ("ForceExitError", "SIGTERM or SIGHUP"),
        ("OddError", "OddError"),
    ],
)
def test_cases_that_an_interruption_kept_from_running_are_no_failures(session, cause, named):
    proven = only(session, "recorded").cases
    failed = only(session, "failed").cases[:1]
    aborted = {"result": "abort", "fail_reason": f"aborted due to {cause}", "proof": None}
    stopped = [changed(case, **aborted) for case in proven[:3]]
    broken = sessions.Session(session.info, (*stopped, *proven[3:], *failed))
    said = f"nterrupted: 3 of 12 cases did not run ({named})"
    assert report_summary.verdict_line(broken) == f"I{said}. 1 of 12 cases failed."
    text = "\n".join(report_summary.summary_lines(broken))
    assert "1 failed, 3 interrupted, 8 recorded" in text
    assert report_summary.failures(broken) == list(failed)
    page = read_report(broken)
    assert f"i{said}" in page.text["failures"] and "3■ interrupted" in page.text["summary"]


def test_no_reference_is_never_called_a_pass(session):
    recorded = only(session, "recorded")
    said = "No case failed, but nothing was judged: all 11 cases are without reference."
    assert report_summary.verdict_line(recorded) == said
    text = " ".join(report_summary.summary_lines(recorded))
    assert "0 reached, 0 missed" in text
    assert not re.search(r"\b(?!0)\d+ (passed|reached)", text)
    page = read_report(recorded)
    assert page.text["summary"].count("✓") == page.text["summary"].count("0✓ passed") == 1


def test_only_proven_cases_are_compared_with_references(session):
    said = "references: 1 reached, 1 missed, 1 without reference"
    assert said in "\n".join(report_summary.summary_lines(session))
    compared = {"gates": [synthetic.gate("bandwidth", 1.0, 1.0)]}
    verdicts = ("proven", "contradicted")
    both = session_of(*({**synthetic.case(verdict=verdict), **compared} for verdict in verdicts))
    stopped = changed(both.cases[0], result="abort", uuid="s:0:2")
    whole = sessions.Session(both.info, (*both.cases, stopped))
    assert report_summary.gate_counts(whole) == {"pass": 1}
    page = read_report(whole)
    assert page.text["gates"].count("bandwidth") == 1


def test_markdown_lists_failures_and_keeps_hostile_text_in_its_cell(session, tmp_path):
    report.write_markdown(session, tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    assert "**5 of 18 cases failed.**" in text and "2.1 GB went over shm" in text
    report.write_markdown(hostile_session(), tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    assert not re.search(r"(?<!\\)<", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {4, 5}


def test_a_full_disk_leaves_the_page_that_was_there(session, tmp_path):
    """By a limit on the size of files."""
    (tmp_path / "r.md").write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            report.write_markdown(session, tmp_path / "r.md")
        with pytest.raises(BadInput, match="File too large"):
            report.write_report(report.View(session, tmp_path), "r.html")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("r.md", "old")]


def test_what_the_report_calls_failed_is_what_no_verdict_uses():
    """A case that passed without proof is not a measurement for anybody."""
    good = synthetic.case()
    lacking = {**synthetic.case("mpich-wheels"), "proof": {}}
    session = session_of(good, lacking)
    assert [session.outcome(case) for case in session.cases] == ["recorded", "failed"]
    table = dataset.tables(session, "a")["cases"]
    assert eligibility.split_cases(table).proven["case"].to_list() == [session.cases[0].uuid]
    assert {stack for stack, _, _ in report_summary.key_figures(session)} == {"intelmpi-wheels"}
    for case, row in zip(session.cases, table.to_dicts(), strict=True):
        alone = eligibility.split_cases(table.filter(pl.col("case") == row["case"]))
        assert (session.why_not(case) is None) == bool(alone.eligible.height)
