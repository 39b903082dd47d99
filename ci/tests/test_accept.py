"""Acceptance: the decision, the exit status, and a record that holds what it should."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mpibench import accept, cli, verdict_policy
from reframe_tests.harness.vocabulary import BadInput
from synthetic_verdicts import SIZES, write_session


def run(folder: Path, *words: str, baseline: str = "latest~1") -> int:
    options = ["--dataset-only", "--dataset", str(folder), "--out", str(folder / "out")]
    return cli.main(["accept", "--baseline", baseline, *options, *words])


def record(folder: Path) -> dict:
    return json.loads((folder / "out" / "accept.json").read_text())


def test_ten_times_the_same_machine_is_accepted_and_five_percent_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Noise of the mini-cluster's eth1g at large messages (under 1 %)."""
    for number in range(10):
        folder = tmp_path / str(number)
        write_session(folder, 10 * number, noise=0.006, night=0)
        write_session(folder, 10 * number + 1, noise=0.006, night=1)
        assert run(folder) == 0
        assert capsys.readouterr().out.startswith("ACCEPTED: 21 metrics: ")
        write_session(folder, 10 * number + 2, noise=0.006, night=2, change=lambda b, *_: 1.05 if b == "Uniband" else 1.0)
        assert run(folder) == 1
        out = capsys.readouterr().out
        assert out.startswith("NOT ACCEPTED: 21 metrics: ")
        assert "regressed: openmpi-spack on node, eth1g, 2 x 1, bunch: Uniband at 8 B to 4 MiB is 5." in out or "is 4." in out


def test_the_record_says_what_changed_and_signs_the_values(tmp_path: Path) -> None:
    machine = {"kernel": ["Linux 6.1.0-40"], "driver": "mlx5_core 5.0"}
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
    assert "http" not in page.replace("http://www.w3.org", "")
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
    with pytest.raises(BadInput, match="gives none of the 21 metrics that both sides have a margin"):
        accept.decide(tmp_path, "latest~1", "latest")


def test_junit_has_a_failure_per_regressed_or_missing_metric(tmp_path: Path) -> None:
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


def test_too_noisy_is_undecided_with_its_own_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        write_session(tmp_path, number, noise=0.3, repeats=3)
    assert run(tmp_path) == 3
    out = capsys.readouterr().out
    assert out.startswith("UNDECIDED, hence not accepted")
    assert "repeats a side would decide" in out


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
        ({"baseline": "rubbish"}, "is no selector"),
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
    with pytest.raises(BadInput, match="no dataset"):
        accept.decide(tmp_path, "latest~1", "latest")
    assert run(tmp_path / "nowhere") == 2
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, stacks=("mpich-spack",))
    with pytest.raises(BadInput, match=r"no metric in common: openmpi-spack .* against mpich-spack"):
        accept.decide(tmp_path, "latest~1", "latest")


def test_replayed_sessions_are_never_accepted(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, condition={"replay": "white paper, 2021"})
    with pytest.raises(BadInput, match="replays a record"):
        accept.decide(tmp_path, "latest~1", "latest")
