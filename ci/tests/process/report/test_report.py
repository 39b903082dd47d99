"""The report as text: what it claims, what it leads to, and that nothing from outside gets out of its place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings

import synthetic_session as synthetic
from mpibench import cli
from mpibench.pages import job_files
from mpibench.pages import outcomes as report_summary
from mpibench.pages import page as page_templates
from mpibench.pages import session as report
from mpibench.store import sessions
from page_reader import Reader
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput
from synthetic_report import changed, damaged_reports, only, session_of


@pytest.fixture(scope="module")
def folder() -> Path:
    return synthetic.mixed_folder()


@pytest.fixture(scope="module")
def session(folder: Path) -> sessions.Session:
    return sessions.read_session(folder / "results.db")


@pytest.fixture(scope="module")
def page(folder: Path, session: sessions.Session) -> str:
    return report.write_report(report.View(session, folder), "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    return Reader(page)


@pytest.mark.parametrize(
    "stored",
    [
        {"line_rate_gbit_per_s": "100"},
        {"line_rate_gbit_per_s": float("inf")},
        {"devices": None},
        {"devices": [{"a": 1}]},
        {"memory": ["x"]},
        {"suite": "gone"},
    ],
    ids=str,
)
def test_curves_of_conditions_and_suites_that_nobody_knows_are_drawn(tmp_path: Path, stored: dict[str, Any]) -> None:
    plan = synthetic.case(group="transfer")
    plan["condition"] = {**plan["condition"], "line_rate_gbit_per_s": 100, **stored}
    plan["samples"] = [{**sample, "suite": stored.get("suite", sample["suite"])} for sample in plan["samples"]]
    assert report.write_report(report.View(session_of(plan), tmp_path), "r.html").stat().st_size > 0


# The page.


def test_failures_come_before_any_number(page: str) -> None:
    order = [page.index(f'<section id="{name}">') for name in ("summary", "failures", "figures", "curves", "heat", "gates")]
    assert order == sorted(order)


def test_every_failure_is_listed_with_its_sentence_and_case(read: Reader, session: sessions.Session) -> None:
    for case in report_summary.failures(session):
        for sentence in report_summary.sentences(case):
            assert sentence in read.text["failures"]
    buttons = {int(one["data-case"] or -1) for one in read.named("button") if one.get("class") == "case"}
    assert {number for number, case in enumerate(session.cases) if case in report_summary.failures(session)} <= buttons


def test_header_says_what_was_run(read: Reader, session: sessions.Session) -> None:
    for text in ("testbed", "run=nightly", session.uuid, "4.10.4", "mpich-wheels 5.0.0", "synthetic_check.py"):
        assert text in read.text["top"]


def test_evidence_has_a_row_for_each_case_that_ran(read: Reader, session: sessions.Session) -> None:
    text = read.text["evidence"]
    for case in session.cases:
        if case.job_id:
            assert f"job {case.job_id}" in text
    assert "n1: 0 on 0, 1 on 1 (NUMA\N{NO-BREAK SPACE}0)" in text
    assert "lo: 33 B out, 63 B in" in text
    assert "shm chosen by mpich" in text
    assert "MPICH Version: 5.0.0" in text
    assert "Open MPI v5.0.10" in text


def test_evidence_counts_notes_and_keeps_settings_out_of_the_way() -> None:
    plan = synthetic.case()
    plan["proof"].update(
        notes=["a rank lost its core often", "twice"],
        transport="MPICH 5: lo over tcp (UCX_TLS=tcp), shown by UCX lane",
        links=[
            *({"node": f"n{n}", "link": "eth1", "mtu_bytes": 1500, "state": "up"} for n in (1, 2)),
            {"node": "n3", "link": "eth1"},
        ],
    )
    read = Reader(report.render(report.View(session_of(plan), Path())))
    assert "2 notes" in read.text["evidence"]
    assert "MPICH 5: lo over tcp, shown by UCX lane" in read.text["evidence"]
    assert "UCX_TLS=tcp" in read.text["case-0"]
    assert "a rank lost its core often" in read.text["case-0"] and "twice" in read.text["case-0"]
    assert "eth1 on n1, n2: MTU 1500, state up; eth1 on n3: nothing known" in read.text["case-0"]


def test_the_gpu_of_each_rank_is_shown_where_one_was_used() -> None:
    plan = synthetic.case()
    assert "GPU" not in _render_bare(session_of(plan)).split('<section id="evidence">')[1].split("</section>")[0]
    plan["proof"]["ranks"][0] |= {"gpu": "0000:03:00.0", "gpu_name": "NVIDIA A100-SXM4-40GB", "nearest_adapters": ["mlx5_3"]}
    read = Reader(_render_bare(session_of(plan)))
    assert "0 on 0 with GPU\N{NO-BREAK SPACE}0000:03:00.0, 1 on 1 (NUMA" in read.text["evidence"]
    assert "NVIDIA A100-SXM4-40GB" in read.text["case-0"] and "mlx5_3" in read.text["case-0"]


def test_links_lead_to_the_files_of_the_job(read: Reader, folder: Path, session: sessions.Session) -> None:
    links = [folder / unquote(one["href"] or "") for one in read.named("a") if not (one["href"] or "").startswith("#")]
    assert len([link for link in links if link.is_dir()]) >= 12
    assert all(link.exists() for link in links)
    for number, case in enumerate(session.cases):
        said = read.text[f"case-{number}"]
        if case.job_id:
            assert f"job id{case.job_id}nodes{case.nodelist}" in said
            assert all(name in said for name in ("rfm_job.sh", "rfm_job.out", "rfm_job.err", "benchmark.txt"))


def test_all_curves_are_there_whole(read: Reader, session: sessions.Session) -> None:
    index = read.blocks["index"]
    curves = [row for measure in index["measures"] for row in read.blocks[measure["chunk"]]]
    assert sum(len(row["y"]) for row in curves) == sum(len(case.samples) for case in session.cases)
    assert sum(len(values) for row in curves for values in row["y"]) == sum(
        len(sample.values) for case in session.cases for sample in case.samples
    )
    assert {measure["label"] for measure in index["measures"]} == {name for row in synthetic.GROUPS.values() for name in row}
    assert all(len(row["x"]) in (1, 24) and row["x"] == sorted(row["x"], key=lambda size: size or 0) for row in curves)
    for measure in index["measures"]:
        assert measure["main"] in measure["quantities"]


def test_unproven_cases_are_marked_for_the_curves(read: Reader, session: sessions.Session) -> None:
    marks = [one["proven"] for one in read.blocks["index"]["cases"]]
    assert marks == [case.evidence == "proven" for case in session.cases]


def test_a_skipped_case_has_the_number_its_symbol_means(session: sessions.Session) -> None:
    skipped = next(number for number, case in enumerate(session.cases) if case.result == "skip")
    cases = list(session.cases)
    cases[skipped] = changed(cases[skipped], ppn="numa")
    cases[0] = changed(cases[0], condition={**cases[0].condition, "ppn_symbol": "numa"})
    index = report.index(sessions.Session(session.info, tuple(cases)), {})
    assert (index["cases"][skipped]["ppn"], index["cases"][skipped]["symbol"]) == (2, "numa")


def test_benchmarks_are_in_the_order_of_the_catalogue() -> None:
    session = session_of(*(synthetic.case(group=group) for group in ("collectives", "transfer", "p2p", "barrier")))
    found = report.curves(session)
    measures = report.index(session, found)["measures"]
    assert [measure["group"] for measure in measures] == ["p2p"] * 2 + ["transfer"] * 4 + ["collectives"] * 8 + ["barrier"]
    chunks = {f"curves-{number}": measure.benchmark for number, measure in enumerate(found)}
    assert [chunks[measure["chunk"]] for measure in measures] == [measure["label"] for measure in measures]


def test_sizes_are_in_order_whatever_the_output_was() -> None:
    plan = synthetic.case()
    plan["samples"].reverse()
    found = report.curves(session_of(plan))
    assert all(row["x"] == synthetic.SIZES for rows in found.values() for row in rows)
    values = {
        (row["quantity"], row["message_bytes"]): row["values"] for row in plan["samples"] if row["benchmark"] == "PingPong"
    }
    pingpong = next(rows for measure, rows in found.items() if measure.benchmark == "PingPong")
    assert all(row["y"] == [values[row["q"], size] for size in row["x"]] for row in pingpong)


@pytest.mark.parametrize(
    ("group", "likewise", "labels"),
    [
        (
            *("barrier", [{"suite": "osu"}, {"groups": 2}, {"variant": "aggregate"}]),
            ["Barrier (imb)", "Barrier (osu)", "Barrier, 2 groups (imb)", "Barrier, aggregate (imb)"],
        ),
        ("p2p", [{"benchmark": "pingpong", "suite": "mpi4py"}], ["PingPong (imb)", "PingPing", "pingpong (mpi4py)"]),
    ],
    ids=["the same", "but for capitals"],
)
def test_measures_of_one_name_are_distinguished(group: str, likewise: list[dict[str, Any]], labels: list[str]) -> None:
    plan = synthetic.case(group=group)
    first = plan["samples"][0]["benchmark"]
    plan["samples"] += [{**row, **more} for more in likewise for row in plan["samples"] if row["benchmark"] == first]
    session = session_of(plan)
    assert [measure["label"] for measure in report.index(session, report.curves(session))["measures"]] == labels


def test_a_curve_over_several_rank_counts_stays_several() -> None:
    plan = synthetic.case(group="barrier")
    plan["samples"] += [{**row, "ranks": 4} for row in plan["samples"]]
    session = session_of(plan)
    found = report.curves(session)
    assert sorted(row["r"] for rows in found.values() for row in rows if row["q"] == "t_avg_us") == [2, 4]
    assert report.index(session, found)["measures"][0]["nested"] is True


# What comes from outside stays text.


def test_no_text_of_a_session_breaks_a_line_in_secret() -> None:
    """U+2028 ends a line for a script and for Python's splitlines, and nothing shows it."""
    plan = synthetic.case(verdict="contradicted", reason="over shm\u2028PASS: all is well", name="p2p\u2029")
    read = Reader(report.render(report.View(session_of(plan, cmdline="reframe\u2028-r", run="nightly\u2028PASS"), Path())))
    shown = "".join([*read.text.values(), json.dumps(read.blocks, ensure_ascii=False)])
    assert not {"\u2028", "\u2029"} & set(shown)
    assert "over shm\nPASS: all is well" in read.text["failures"] and "nightly PASS" in read.text["top"]


# Files that are gone or are another run's.


def test_an_overwritten_directory_is_reported(session: sessions.Session, folder: Path, tmp_path: Path) -> None:
    case = session.cases[0]
    assert job_files.place_of(session, case, folder).note == ""
    output = Path(case.directory) / "rfm_job.out"
    before = output.stat()
    later = session.started.timestamp() + session.seconds + job_files.SLACK_S + 1
    os.utime(output, (later, later))
    try:
        assert "later run has overwritten" in job_files.place_of(session, case, folder).note
    finally:
        os.utime(output, (before.st_atime, before.st_mtime))


def test_a_directory_that_is_gone_is_reported(session: sessions.Session, tmp_path: Path) -> None:
    case = changed(session.cases[0], outputdir=str(tmp_path / "gone"))
    place = job_files.place_of(session, case, tmp_path)
    assert (place.href, place.files) == ("", ())
    assert "not on the machine" in place.note
    (tmp_path / "gone").mkdir()
    assert "no longer in this directory" in job_files.place_of(session, case, tmp_path).note


def test_a_relative_directory_starts_at_the_sessions_own(session: sessions.Session, tmp_path: Path) -> None:
    (tmp_path / "output" / "a b#c").mkdir(parents=True)
    (tmp_path / "output" / "a b#c" / "rfm_job.out").write_text("")
    moved = sessions.Session({**session.info, "workdir": str(tmp_path)}, session.cases)
    place = job_files.place_of(moved, changed(session.cases[0], outputdir="output/a b#c"), tmp_path / "reports")
    assert place.href == "../output/a%20b%23c/"
    assert place.files[0][1] == "../output/a%20b%23c/rfm_job.out"


# Stacks.


def stack_with(lock_hash: str) -> Stack:
    wheels = [{"name": "impi-rt", "version": "2021.18.1", "sha256": "ab" * 32}]
    return Stack(
        **{"name": "intelmpi-wheels", "origin": "wheels", "mpi": "intelmpi", "mpi_version": "2021.18.1", "device": ""},
        **{"abi": "mpich", "launcher_family": "hydra-intel", "prefix": "/p", "library": "/p/l", "library_version_pattern": "x"},
        **{"binaries": {}, "commands": {}, "env_vars": {}, "prepend_path": {}},
        suites={"imb": {"version": "2021.11", "built_with": "icx"}},
        build={"lock_hash": lock_hash, "wheels": wheels},
    )


def test_provenance_names_wheels_with_checksums(session: sessions.Session) -> None:
    same = Reader(report.render(report.View(session, Path(), [stack_with("sha256:intelmpi0123456789abcdef")]))).text["stacks"]
    assert "impi-rt 2021.18.1" in same
    assert "sha256:" + "ab" * 32 in same
    assert "imb 2021.11: icx" in same
    assert "metadata file is not on this machine" in same  # of the two other stacks


def test_each_pair_of_stacks_says_what_their_locks_differ_in(session: sessions.Session) -> None:
    facts = {"intelmpi-wheels": {"MPI": "intel-oneapi-mpi@2021.18.1"}, "mpich-wheels": {"MPI": "mpich@5.0.1"}}
    cases = [changed(case, condition={**case.condition, "built": facts.get(case.stack, {})}) for case in session.cases]
    shown = Reader(report.render(report.View(sessions.Session(session.info, tuple(cases)), Path(), []))).text["stacks"]
    assert "intelmpi-wheels, mpich-wheelsMPI intel-oneapi-mpi@2021.18.1 and mpich@5.0.1" in " ".join(shown.split())


def test_provenance_of_a_stack_that_was_rebuilt_is_not_shown(session: sessions.Session) -> None:
    other = Reader(report.render(report.View(session, Path(), [stack_with("another0")]))).text["stacks"]
    assert "impi-rt" not in other
    assert "has changed since" in other


# Writing.


def test_command_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "report.html"
    assert cli.main(["report", "--db", str(folder / "results.db"), "--out", str(out)]) == 0
    assert "5 of 18 cases failed." in capsys.readouterr().out
    assert sorted(path.name for path in out.parent.iterdir()) == ["report.html", "report.md"]
    assert cli.main(["report", "--db", str(tmp_path / "none.db"), "--out", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "none.db" in captured.err


def test_a_report_is_whole_or_not_there(session: sessions.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(BadInput, match="No space left on device"):
        report.write_report(report.View(session, tmp_path), "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("outcomes", [("skipped",), (), ("failed",)])
def test_sessions_without_measurements_have_a_report(session: sessions.Session, outcomes: tuple[str, ...]) -> None:
    read = Reader(report.render(report.View(only(session, *outcomes), Path())))
    assert read.text["curves"]


def test_a_dry_run_measures_nothing_and_says_so() -> None:
    plan = synthetic.case(verdict="dry-run", samples=[])
    plan["proof"]["sentences"] = []
    session = session_of(plan)
    assert report_summary.verdict_line(session) == "Nothing was measured."
    assert "1 dry run" in "\n".join(report_summary.summary_lines(session))
    assert "·" in Reader(report.render(report.View(session, Path()))).text["summary"]


@settings(max_examples=100)
@given(document=damaged_reports())
def test_whatever_is_read_can_be_reported(document: dict[str, Any]) -> None:
    """A session with anything anywhere is refused when it is read, or has a report; nothing else ever escapes."""
    try:
        session = sessions.decode(json.dumps(document), "here")
    except BadInput:
        return
    Reader(_render_bare(session)).close()
    report_summary.summary_lines(session)


def _render_bare(session: sessions.Session) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_templates, "plotly_source", str)
        return report.render(report.View(session, Path()))
