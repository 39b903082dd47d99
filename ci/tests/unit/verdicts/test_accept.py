"""Acceptance: the decision, the exit status, and a record that holds what it should."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from mpibench import answers, cli
from mpibench.judge import accept
from mpibench.judge import policy as verdict_policy
from mpibench.pages import acceptance as acceptance_record
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_session import gate as reference_gate
from synthetic_verdicts import SIZES, by, write_before, write_session


def run(folder: Path, *words: str, baseline: str = "latest~1", candidate: str = "latest") -> int:
    options = ["--candidate", candidate, "--dataset-only", "--dataset", str(folder), "--out", str(folder / "out")]
    return cli.main(["accept", "--baseline", baseline, *options, *words])


def record(folder: Path) -> dict:
    data = json.loads((folder / "out" / "accept.json").read_text())
    msgspec.convert(data, answers.Accept)
    return data


def test_the_same_machine_is_accepted_and_five_percent_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Noise of the mini-cluster's eth1g at large messages (under 1 %), with five nights before."""
    for number in (0, 10, 20):
        folder = tmp_path / str(number)
        write_before(folder, noise=0.006)
        for night in (0, 1):
            write_session(folder, number + night, noise=0.006, night=night)
        assert run(folder) == 0
        assert capsys.readouterr().out.startswith("ACCEPTED: 21 metrics: ")
        assert record(folder)["finding"] == ""
        slow = by(1.06, "Uniband")
        write_session(folder, number + 2, noise=0.006, night=2, change=slow)
        assert run(folder) == 1
        first = capsys.readouterr().out.splitlines()[0]
        found = record(folder)
        assert found["headline"] == first
        assert first.startswith(f"NOT ACCEPTED: {found['finding']}; 21 metrics: ")
        assert re.search(r": Uniband at [^;]* has [56]\.\d % lower bandwidth", found["finding"])


def test_one_against_one_says_how_many_sessions_would_tell(tmp_path: Path) -> None:
    """And so many tell."""
    for number in range(2):
        write_session(tmp_path, number)
    assert run(tmp_path) == 3
    needed = {row["needed"] for row in record(tmp_path)["metrics"]}
    for number in range(2, 1 + max(needed)):
        write_session(tmp_path, number)
    names = [f"latest~{back}" for back in range(max(needed))]
    assert run(tmp_path, baseline=f"latest~{max(needed)}", candidate=",".join(names)) == 0


def test_what_refuses_comes_before_what_is_open(tmp_path: Path) -> None:
    """One stack has too few repeats for a verdict, and the other is 30 % slower."""
    write_before(tmp_path, stacks=("a", "b"))
    write_session(tmp_path, 0, stacks=("a", "b"))
    slow = {"change": lambda _, __, stack: 1.3 if stack == "b" else 1.0}
    few = {"edit": lambda row: row if row["stack"] == "b" or row["repeat"] == 1 else None}
    write_session(tmp_path, 1, stacks=("a", "b"), **slow, **few)
    assert run(tmp_path) == 1
    said = [line.partition(":")[0] for line in record(tmp_path)["sentences"]]
    assert said[:3] == ["regressed", "regressed", "too few repeats"]
    assert record(tmp_path)["finding"].startswith("b on node")
    write_session(tmp_path, 2, stacks=("a", "b"), **few)
    assert run(tmp_path) == 3
    assert record(tmp_path)["finding"].startswith("too few repeats: ")


def test_what_the_candidate_did_not_measure_has_not_changed(tmp_path: Path) -> None:
    stacks = [{"stack": name} for name in ("openmpi-spack", "mpich-spack")]
    write_session(tmp_path, 0, where=stacks)
    write_session(tmp_path, 1, where=stacks[:1])
    assert run(tmp_path) == 1
    assert record(tmp_path)["changed"] == []


@pytest.mark.parametrize(
    ("result", "reason", "why"),
    [
        ("abort", "aborted due to KeyboardInterrupt", "session was interrupted (SIGINT)"),
        (
            "fail",
            "sanity error: rank 3 aborted due to a signal",
            "case failed: sanity error",
        ),  # what a program says is no interruption
    ],
)
def test_an_interrupted_case_is_not_called_failed_nor_the_other_way_round(
    tmp_path: Path, result: str, reason: str, why: str
) -> None:
    stacks = [{"stack": name} for name in ("openmpi-spack", "mpich-spack")]
    write_session(tmp_path, 0, where=stacks)
    ended = {"stack": "mpich-spack", "result": result, "reason": reason, "evidence": None}
    write_session(tmp_path, 1, where=[stacks[0], ended])
    assert run(tmp_path) == 1
    missing = {row["why"] for row in record(tmp_path)["metrics"] if row["stack"] == "mpich-spack"}
    assert len(missing) == 1 and f"the candidate's {why}" in missing.pop()


def test_what_is_missing_is_not_explained_by_the_failure_of_another_group(tmp_path: Path) -> None:
    """Both ran under one condition."""
    both = {"PingPong": "latency_us", "Uniband": "bandwidth_mb_per_s"}

    def own(row: dict[str, Any]) -> dict[str, Any] | None:
        return row if (row["group"] == "p2p") is (row["benchmark"] == "PingPong") else None

    write_session(tmp_path, 0, where=[{"group": "p2p"}, {"group": "transfer"}], edit=own, benchmarks=both)
    failed = {"group": "transfer", "result": "fail", "fail_phase": "sanity", "evidence": "missing", "reason": "no license"}
    write_session(tmp_path, 1, where=[{"group": "p2p"}, failed], edit=own, benchmarks=both, sizes=SIZES[:-1])
    assert run(tmp_path) == 1
    whys = {(row["benchmark"], row["why"]) for row in record(tmp_path)["metrics"] if row["verdict"] == "missing"}
    absent = "the candidate does not have it"
    assert whys == {("PingPong", absent), ("Uniband", "the candidate's case failed: no license")}


def test_the_record_says_what_changed_and_signs_the_values(tmp_path: Path) -> None:
    machine = {"kernel": ["Linux 6.1.0-40"], "driver": "mlx5_core 5.0"}
    write_before(tmp_path)
    write_session(tmp_path, 0, condition={"machine": machine})
    after = {**machine, "kernel": ["Linux 6.12.0-1"]}
    write_session(tmp_path, 1, condition={"machine": after}, mpi_version="5.0.11")
    assert run(tmp_path) == 0
    found = record(tmp_path)
    changed = {row["what"]: (row["before"], row["after"]) for row in found["changed"]}
    assert changed["kernel"] == ("Linux 6.1.0-40", "Linux 6.12.0-1")
    assert changed["MPI of openmpi-spack"] == ("openmpi 5.0.10", "openmpi 5.0.11")
    assert changed["lock hash of openmpi-spack"] == ("hash-5.0.10", "hash-5.0.11")
    assert "driver" not in changed
    assert found["baseline"]["facts"]["driver"] == ["mlx5_core 5.0"]
    assert len(found["metrics"]) == 21
    page = (tmp_path / "out" / "accept.html").read_text()
    for text in ("ACCEPTED", "Linux 6.12.0-1", found["baseline"]["values_sha256"], "name, date, signature"):
        assert text in page
    assert "http:" not in page and "https:" not in page
    assert "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'none';" in page
    head = re.findall("<th[^>]*>([^<]*)</th>", page.split("<h2>Bands</h2>")[1].split("</thead>")[0])
    assert head == [*("condition", "benchmark", "quantity", "band", "sizes", "ratio", "interval", "margin %"), *head[8:]]
    assert head[8:] == ["spread %", "verdict", "why"]
    (job,) = found["candidate"]["jobs"]
    assert (job["job_id"], job["nodelist"], job["outputdir"]) == ("101", "n1,n2", "out")
    assert "<td>101</td>" in page
    first = found["candidate"]["values_sha256"]
    assert run(tmp_path) == 0
    assert record(tmp_path)["candidate"]["values_sha256"] == first


def test_a_policy_that_judges_nothing_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bands = dict.fromkeys(verdict_policy.Policy().bands_bytes)
    policy = verdict_policy.Policy(margins_percent=dict.fromkeys(verdict_policy.Policy().margins_percent, bands))
    monkeypatch.setattr(verdict_policy, "load", lambda name: policy)
    for number in range(2):
        write_session(tmp_path, number)
    with refused_as("policy-without-margin", match="gives none of the 21 metrics that both sides have a margin"):
        accept.decide(Store(tmp_path), "latest~1", "latest")


def test_junit_has_a_failure_per_regressed_or_missing_metric(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, sizes=SIZES[:-1], change=lambda b, size, stack: 1.3 if (b, size) == ("Uniband", 64) else 1.0)
    assert run(tmp_path) == 1
    root = ElementTree.parse(tmp_path / "out" / "accept.xml").getroot()
    failures = [(case.get("name"), case.find("failure")) for case in root.iter("testcase") if case.find("failure") is not None]
    assert {name: failure.get("type") for name, failure in failures} == {
        "PingPong latency_us 4 MiB": "missing",
        "Uniband bandwidth_mb_per_s 4 MiB": "missing",
        "Uniband bandwidth_mb_per_s 64 B": "regressed",
        "decision": "refused",
    }
    suites = root.findall("testsuite")
    assert sum(int(suite.get("tests")) for suite in suites) == 22


def test_too_noisy_is_inconclusive_with_its_own_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        write_session(tmp_path, number, noise=0.3, repeats=3)
    assert run(tmp_path) == 3
    out = capsys.readouterr().out
    assert out.startswith("INCONCLUSIVE, hence not accepted")


def test_a_failed_candidate_case_is_missing_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(tmp_path, 0, stacks=("openmpi-spack", "mpich-spack"))
    write_session(tmp_path, 1, stacks=("openmpi-spack",))
    assert run(tmp_path) == 1
    assert "missing: mpich-spack on node, eth1g, 2 x 1, bunch: PingPong at 0 B to 4 MiB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"baseline": "latest"}, "is on both sides"),
        ({"baseline": "latest~7"}, "selects none of the 2 sessions"),
        ({"baseline": "rubbish"}, "is not a selector"),
        (
            {"baseline": "latest", "candidate": "latest~1"},
            "the candidate (2026-01-05 02:00 UTC) was measured before the baseline",
        ),
    ],
)
def test_bad_selections_are_one_sentence(
    tmp_path: Path, words: dict[str, str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        write_session(tmp_path, number)
    assert run(tmp_path, **words) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert run(tmp_path, "--rename", "x") == 2


def test_nothing_in_common_and_no_data_are_refused(tmp_path: Path) -> None:
    with refused_as("no-dataset", match="no dataset"):
        accept.decide(Store(tmp_path), "latest~1", "latest")
    assert run(tmp_path / "nowhere") == 2
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, stacks=("mpich-spack",))
    with refused_as("no-common-metric", match=r"no metric in common: openmpi-spack .* against mpich-spack"):
        accept.decide(Store(tmp_path), "latest~1", "latest")


def contradicted(number: int, **changes: Any) -> dict[str, Any]:
    """A case that measured over the wrong network, as one of several of a session."""
    wrong = {"evidence": "contradicted", "result": "fail", "fail_phase": "sanity", "pinning": "none"}
    return {**wrong, "sentences": [f"asked for eth1g, {number} GB went over mgmt"], **changes}


def some(count: int, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A proven case and some others."""
    return [{}, *({**row, "pinning": f"p{place}"} for place, row in enumerate(rows * count))]


@pytest.mark.parametrize(
    "case",
    [
        contradicted(2),
        contradicted(2, evidence="missing", sentences=[], reason="[Errno 2] no mpirun", fail_phase="setup", samples=0),
        contradicted(2, evidence="missing", sentences=[], reason=None, result="abort", fail_phase=None, samples=0),
        contradicted(2, evidence="missing", sentences=[], reason=None, result="fail_deps", fail_phase=None, samples=0),
        {"fail_phase": "cleanup", "result": "fail", "reason": "no room"},
        {"evidence": "replayed"},
        {"evidence": None},
    ],
)
def test_a_candidate_with_unproven_cases_is_refused_whatever_the_others_say(
    tmp_path: Path, case: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, where=some(3, [case]))
    assert run(tmp_path) == 1
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("NOT ACCEPTED: not proven: openmpi-spack on node, eth1g, 2 x 1, p0: 1 case ")
    assert " and 2 more; 3 of 4 cases of the candidate are not proven; 21 metrics: " in first
    reasons = [line for line in lines if line.startswith("  not proven: ")]
    assert len(reasons) == 3
    assert lines.index(reasons[0]) == 2, "right behind the two lines that name the sessions"
    found = record(tmp_path)
    assert len(found["candidate"]["unproven"]) == 3
    junit = ElementTree.parse(tmp_path / "out" / "accept.xml").getroot()
    assert len(junit.findall(".//failure[@type='unproven']")) == 3
    assert "Cases of the candidate that are not proven" in (tmp_path / "out" / "accept.html").read_text()
    assert run(tmp_path, "--allow-unproven") == 3
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("INCONCLUSIVE, hence not accepted: not proven: openmpi-spack on node, eth1g, 2 x 1, p0: 1 case ")
    assert " and 2 more; 3 of 4 cases of the candidate are not proven" in first
    assert record(tmp_path)["options"]["allow_unproven"] is True


def test_a_candidate_that_proves_nothing_at_all_is_refused_with_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, where=contradicted(2))
    assert run(tmp_path) == 1
    out = capsys.readouterr().out
    assert out.startswith("NOT ACCEPTED: not proven: openmpi-spack on node, eth1g, 2 x 1, none: 1 case contradicted, ")
    assert "; 1 of 1 cases of the candidate are not proven; 21 metrics: 21 missing" in out.splitlines()[0]
    found = record(tmp_path)
    assert (found["decision"], found["counts"]["missing"], found["candidate"]["values"]) == ("refused", 21, 0)
    assert ElementTree.parse(tmp_path / "out" / "accept.xml").getroot().find(".//failure[@type='unproven']") is not None


def test_skipped_repeated_and_placement_cases_owe_no_proof(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    skipped = {"result": "skip", "evidence": None, "samples": 0}
    again = {**contradicted(2), "superseded": True}
    placement = {"group": "placement", "samples": 0}
    fixture = {"measurement": False, "evidence": "missing", "group": None, "fabric": None, "samples": 0}
    write_session(tmp_path, 1, where=[{"run": 1}, skipped, again, placement, fixture])
    assert run(tmp_path) == 0
    assert record(tmp_path)["candidate"]["unproven"] == []


def test_allowing_unproven_cases_accepts_no_regression(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, where=some(1, [contradicted(2)]), change=lambda *_: 1.3)
    assert run(tmp_path, "--allow-unproven") == 1


def test_an_unproven_baseline_is_reported_and_does_not_help(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the baseline could not prove the candidate is not held to; the headline says so."""
    write_before(tmp_path)
    write_session(tmp_path, 0, where=[{}, contradicted(2, pinning="scatter")])
    write_session(tmp_path, 1, where=[{}, {"pinning": "scatter"}])
    assert run(tmp_path) == 0
    out = capsys.readouterr().out
    assert out.startswith("ACCEPTED: 1 of 2 cases of the baseline are not proven; ")
    assert (
        "note: baseline, not proven, so that the candidate is not held to it: openmpi-spack on node, eth1g, 2 x 1, scatter"
        in out
    )
    assert len(record(tmp_path)["baseline"]["unproven"]) == 1


def test_unlike_levels_are_said_first_and_instead_of_a_hundred_absences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = {f"Call{number}": "t_avg_us" for number in range(20)}
    write_session(tmp_path, 0, condition={"depth": "nightly"}, benchmarks=many, labels={"run": "nightly"})
    write_session(
        tmp_path, 1, condition={"depth": "smoke"}, benchmarks={"Call0": "t_avg_us"}, sizes=(0, 8), labels={"run": "x"}
    )
    assert run(tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith(
        "  unlike: the baseline was measured as nightly, the candidate as smoke; 218 metrics are missing"
    )
    missing = [line for line in lines if line.startswith("  missing: ")]
    assert missing == [
        "  missing: 218 metrics: the candidate does not have it: it was measured as smoke, the baseline as nightly"
    ]
    assert any(line == "  changed: session label run: nightly -> x" for line in lines)


def test_labels_stand_for_levels_that_were_not_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, run_label in enumerate(("nightly", "smoke")):
        write_session(tmp_path, number, labels={"run": run_label})
    assert run(tmp_path) == 3
    assert "  unlike: the baseline was measured as nightly, the candidate as smoke: measure" in capsys.readouterr().out


def test_a_partial_session_is_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(tmp_path, 0)
    candidate = write_session(tmp_path, 1, sizes=SIZES[:3], command_line="reframe -c reframe_tests -r -n ImbPointToPoint")
    assert run(tmp_path) == 1
    line = capsys.readouterr().out.splitlines()[3]
    assert line == f"  unlike: candidate session {candidate} is a partial one, started with --name=ImbPointToPoint"


def test_sessions_that_are_partial_alike_are_not_unlike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_before(tmp_path)
    for number in range(2):
        write_session(tmp_path, number, command_line="reframe -c reframe_tests -r -n ImbPointToPoint")
    assert run(tmp_path) == 0
    assert "unlike" not in capsys.readouterr().out


def test_the_output_names_the_sessions_that_latest_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(timezone.utc)
    before = write_session(tmp_path, 0, started=now - timedelta(days=9), labels={"run": "nightly", "commit": "1111111"})
    after = write_session(tmp_path, 1, started=now - timedelta(hours=1), labels={"run": "nightly", "commit": "2222222"})
    assert run(tmp_path) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(f"  baseline latest~1: session {before} of 20")
    assert lines[1].endswith("UTC, 9 days old, commit=1111111, run=nightly, 1 case")
    assert lines[2].startswith(f"  candidate latest: session {after} of 20")
    assert "  changed: session label commit: 1111111 -> 2222222" in lines
    found = record(tmp_path)["candidate"]
    assert found["selector"] == "latest"
    assert (found["identities"][0]["session"], found["identities"][0]["labels"]["commit"]) == (after, "2222222")
    page = (tmp_path / "out" / "accept.html").read_text()
    assert before in page and after in page and "1111111" in page


def test_sessions_of_two_systems_are_never_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With several systems in the dataset the candidate's session says which is meant."""
    ours = [write_session(tmp_path, number) for number in range(2)]
    theirs = write_session(tmp_path, 5, system="elsewhere")
    assert run(tmp_path, "--candidate", ours[1], baseline=ours[0]) == 3
    assert record(tmp_path)["system"] == "testbed"
    assert run(tmp_path, "--candidate", ours[1], baseline=theirs[:9]) == 2
    assert f"session {theirs} was measured on elsewhere and not on testbed" in capsys.readouterr().err
    assert run(tmp_path, "--candidate", theirs, baseline=ours[0]) == 2
    assert f"session {ours[0]} was measured on testbed and not on elsewhere" in capsys.readouterr().err


def test_the_record_names_commit_and_versions_of_both_sides(tmp_path: Path) -> None:
    for number, commit in enumerate(("1" * 40, "2" * 40)):
        recorded = {"commit": commit, "modified": bool(number), "python": "3.11.2", "lock": "f" * 64, "unlike_lock": []}
        recorded |= {"extensions": [f"/site/mpis/x.py {number}"]}
        write_session(tmp_path, number, condition={"measured_with": {**recorded, "packages": {"scipy": f"1.1{number}"}}})
    assert run(tmp_path) == 3
    changed = {row["what"]: (row["before"], row["after"]) for row in record(tmp_path)["changed"]}
    assert changed == {
        "commit of the tests": ("1" * 40, "2" * 40),
        "tests changed since that commit": ("no", "yes"),
        "the site's own extensions": ("/site/mpis/x.py 0", "/site/mpis/x.py 1"),
        "package scipy": ("1.10", "1.11"),
    }
    assert record(tmp_path)["baseline"]["facts"]["python"] == ["3.11.2"]
    assert "2" * 40 in (tmp_path / "out" / "accept.html").read_text()


@pytest.mark.parametrize("repeats", [1, 2])
def test_too_few_repeats_are_a_sentence_and_no_accident(
    tmp_path: Path, repeats: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        write_session(tmp_path, number, repeats=repeats)
    assert run(tmp_path) == 3
    out = capsys.readouterr()
    assert f"too few repeats: 21 metrics have only {repeats} (baseline) or {repeats} (candidate) values" in out.out
    assert "nan" not in out.out and "Traceback" not in out.err
    text = (tmp_path / "out" / "accept.json").read_text()
    assert "NaN" not in text and "Infinity" not in text
    assert json.loads(text)["decision"] == "inconclusive"
    assert "nan" not in (tmp_path / "out" / "accept.html").read_text().replace("nanosecond", "")


def test_an_earlier_record_is_kept_and_never_taken_for_todays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_before(tmp_path)
    for number in range(2):
        write_session(tmp_path, number)
    assert run(tmp_path) == 0
    out = tmp_path / "out"
    signed = (out / "accept.html").read_text()
    assert run(tmp_path, baseline="rubbish") == 2
    assert sorted(path.name for path in out.iterdir()) == ["earlier"]
    (kept,) = (out / "earlier").iterdir()
    assert (kept / "accept.html").read_text() == signed
    assert f"moved the earlier record to {kept}" in capsys.readouterr().err

    # The last of the three files cannot be made: none appears.
    def fail(record: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(acceptance_record, "page", fail)
    assert run(tmp_path) != 0
    assert sorted(path.name for path in out.iterdir()) == ["earlier"]
    monkeypatch.undo()
    assert run(tmp_path) == 0
    assert run(tmp_path) == 0
    assert len(list((out / "earlier").iterdir())) == 2


def test_a_record_that_cannot_be_written_leaves_no_half_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        write_session(tmp_path, number)
    write = Path.write_text

    def fail(path: Path, *words: Any, **options: Any) -> int:
        if "accept.html" in path.name:
            raise OSError(28, "No space left on device")
        return write(path, *words, **options)

    monkeypatch.setattr(Path, "write_text", fail)
    assert run(tmp_path) == 2
    assert list((tmp_path / "out").iterdir()) == []


def test_colours_in_what_programs_said_break_no_record(tmp_path: Path) -> None:
    write_session(tmp_path, 0, stacks=("openmpi-spack", "mpich-spack"))
    said = "it said: \x1b[31mfatal\x1b[0m \x01error <&>"
    failed = {"result": "fail", "fail_phase": "sanity", "evidence": "missing", "reason": said, "stack": "mpich-spack"}
    write_session(tmp_path, 1, where=[{}, failed])
    assert run(tmp_path) == 1
    text = (tmp_path / "out" / "accept.xml").read_text()
    root = ElementTree.fromstring(text)
    messages = [failure.get("message") for failure in root.iter("failure")]
    assert "not proven: missing, fail in phase sanity: it said: fatal error <&>" in messages
    for name in acceptance_record.FILES:
        assert not {"\x1b", "\x01"} & set((tmp_path / "out" / name).read_text())


@pytest.mark.parametrize("empty", ["baseline", "candidate"])
def test_a_side_without_values_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], empty: str) -> None:
    """Its file of values is there and holds none, or is gone."""
    sides = ("baseline", "candidate")
    names = [write_session(tmp_path, n, edit=lambda row, n=n: None if sides[n] == empty else row) for n in range(2)]
    (samples,) = (tmp_path / "samples").glob(f"*/*/{names[sides.index(empty)]}.parquet")
    assert run(tmp_path) == 2
    assert f"mpibench: the {empty} latest" in (said := capsys.readouterr().err) and "holds no value" in said
    samples.unlink()
    assert run(tmp_path, baseline=names[0], candidate=names[1]) == 2
    assert f"{samples} is gone" in capsys.readouterr().err


@pytest.mark.parametrize("damaged", ["{", "[]", "5", "[" * 5000])
def test_a_condition_that_is_none_is_one_sentence(tmp_path: Path, damaged: str) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, where={"condition": damaged})
    with refused_as(
        "dataset-damaged", match=r"^the condition of a case '.*' is not a JSON object: export its session again\.$"
    ):
        accept.decide(Store(tmp_path), "latest~1", "latest")


def test_a_candidate_that_was_built_otherwise_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, compiler in enumerate(("gcc@12.2.0", "clang@14.0.6")):
        suites = {"imb": {"version": "2021.11", "compiler": compiler}}
        write_session(tmp_path, number, condition={"suites": suites}, change=lambda *_, slow=1 + number: slow)
    assert run(tmp_path) == 1
    said = capsys.readouterr().out
    assert "  changed: imb compiler of openmpi-spack: gcc@12.2.0 -> clang@14.0.6" in said
    assert (
        "imb with compiler gcc 12.2.0 in the baseline and clang 14.0.6 in the candidate: part of the difference may be" in said
    )


def of_reference(value: float) -> dict[str, Any]:
    return {"gates": [reference_gate("Uniband.line_rate_fraction.4194304", value, 0.5, "1", "physics")]}


@pytest.mark.parametrize(("before", "after", "status"), [(0.9, 0.2, 1), (0.9, 0.9, 0), (0.2, 0.2, 0), (0.2, 0.9, 0)])
def test_a_reference_that_the_baseline_reached_and_the_candidate_missed_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: float, after: float, status: int
) -> None:
    """Whatever the curves leave open; what the baseline missed the candidate is not held to."""
    write_before(tmp_path)
    write_session(tmp_path, 0, where=of_reference(before))
    write_session(tmp_path, 1, where=of_reference(after), mpi_version="5.0.11")
    assert run(tmp_path) == status
    first = capsys.readouterr().out.splitlines()[0]
    assert ("NOT ACCEPTED: reference missed that the baseline reached: openmpi-spack on eth1g" in first) is bool(status)
    assert record(tmp_path)["decision"] == ("refused" if status else "accepted")


def test_what_was_left_out_is_said_in_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The slow half is left out by --where: accepted is a part, which headline, record and JUnit say."""
    write_before(tmp_path, stacks=("a", "b"))
    write_session(tmp_path, 0, stacks=("a", "b"))
    write_session(tmp_path, 1, stacks=("a", "b"), change=lambda _, __, stack: 1.5 if stack == "b" else 1.0)
    assert run(tmp_path) == 1
    assert run(tmp_path, "--where", "stack == 'a'") == 0
    said = "judged is only a part, 1 of 2 cases of the candidate and 1 of 2 cases of the baseline (--where stack == 'a')"
    first = capsys.readouterr().out.split("wrote")[-4].splitlines()[1]
    assert first.startswith(f"ACCEPTED: {said}; 21 metrics: ")
    found = record(tmp_path)
    assert found["headline"] == first and found["options"]["where"] == "stack == 'a'"
    assert [found[side]["cases_left_out"] for side in ("baseline", "candidate")] == [1, 1]
    root = ElementTree.parse(tmp_path / "out" / "accept.xml").getroot()
    assert root.find(".//testcase[@name='decision']/system-out").text == first
    assert "judged is only a part, 1 of 2 cases" in (tmp_path / "out" / "accept.html").read_text()


def test_failures_and_a_busy_machine_are_in_the_headline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both sides missed the same reference, so that it refuses nobody; nobody overlooks it either."""
    write_before(tmp_path)
    missed = {**of_reference(0.2), "result": "fail", "fail_phase": "performance"}
    for number, busy in enumerate((False, True)):
        write_session(tmp_path, number, where=missed, condition={"lost_cores": busy})
    assert run(tmp_path) == 0
    assert capsys.readouterr().out.startswith(
        "ACCEPTED: 1 of 1 cases of the candidate failed (ImbPointToPoint %stack=openmpi-spack [openmpi-spack]) and missed "
        "1 reference; the candidate: in 1 of 1 case ranks often lost their core to other programs: the machine was busy; 21 "
    )
