"""Acceptance: the decision, the exit status, and a record that holds what it should."""

from __future__ import annotations

import json
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
from synthetic_verdicts import SIZES, Change, by, write_before, write_session


def run(folder: Path, *words: str, baseline: str = "latest~1", candidate: str = "latest") -> int:
    sides = ["--baseline", baseline, "--candidate", candidate]
    where = ["--dataset-only", "--dataset", str(folder), "--out", str(folder / "out")]
    return cli.main(["accept", *sides, *where, *words])


def record(folder: Path) -> dict:
    data = json.loads((folder / "out" / "accept.json").read_text())
    msgspec.convert(data, answers.Accept)
    return data


def test_the_same_machine_is_accepted_and_five_percent_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Noise of the mini-cluster's eth1g at large messages (under 1 %), with five nights before."""
    write_before(tmp_path, noise=0.006)
    for night in range(2):
        write_session(tmp_path, night, noise=0.006)
    assert run(tmp_path) == 0
    assert capsys.readouterr().out.startswith("ACCEPTED: 21 metrics: ")
    assert record(tmp_path)["finding"] == ""
    assert 'class="stamp pass"' in (tmp_path / "out" / "accept.html").read_text()
    write_session(tmp_path, 2, noise=0.006, change=by(1.06, "Uniband"))
    assert run(tmp_path) == 1
    first = capsys.readouterr().out.splitlines()[0]
    found = record(tmp_path)
    assert found["headline"] == first
    assert first.startswith(f"NOT ACCEPTED: {found['finding']}; 21 metrics: ")
    page = (tmp_path / "out" / "accept.html").read_text()
    _, first_screen, rest = page.partition('class="stamp regressed"')
    worst, _, _ = rest.partition("Sessions</h2>")
    assert first_screen and worst.index("Uniband") < len(worst) and worst.count("<tr>") == 4


def test_what_refuses_comes_before_what_is_open(tmp_path: Path) -> None:
    """One stack has too few repeats for a verdict, and the other is 30 % slower."""
    stacks = ("a", "b")
    slow: Change = lambda _, __, stack: 1.3 if stack == "b" else 1.0  # noqa: E731
    few = {"edit": lambda row: row if row["stack"] == "b" or row["repeat"] == 1 else None}
    write_before(tmp_path, stacks=stacks)
    write_session(tmp_path, 0, stacks=stacks)
    write_session(tmp_path, 1, stacks=stacks, change=slow, **few)
    assert run(tmp_path) == 1
    said = [line.partition(":")[0] for line in record(tmp_path)["sentences"]]
    assert said[:3] == ["regressed", "regressed", "too few repeats"]
    write_session(tmp_path, 2, stacks=stacks, **few)
    assert run(tmp_path) == 3
    assert record(tmp_path)["finding"].startswith("too few repeats: ")


def test_the_record_says_what_changed_and_signs_the_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compilers = {"aa": "gcc@12.2.0", "bb": "clang@14.0.6"}
    write_before(tmp_path)
    for number, text in enumerate(compilers):
        condition = {
            "machine": {"kernel": [text], "driver": "mlx5_core 5.0"},
            "programs": {"IMB-MPI1": text},
            "stack_environment": {"A": text},
            "suites": {"imb": {"version": "2021.11", "compiler": compilers[text]}},
            "measured_with": {"commit": text, "modified": number > 0, "packages": {"scipy": text}},
        }
        version = f"5.0.1{number}"
        write_session(
            tmp_path, number, condition=condition, mpi_version=version, change=by(1 + number)
        )
    assert run(tmp_path) == 1
    assert "imb with compiler gcc 12.2.0 in the baseline and clang 14" in capsys.readouterr().out
    found = record(tmp_path)
    assert {row["what"]: (row["before"], row["after"]) for row in found["changed"]} == {
        "kernel": ("aa", "bb"),
        "MPI of openmpi-spack": ("openmpi 5.0.10", "openmpi 5.0.11"),
        "library of openmpi-spack": ("Open MPI v5.0.10", "Open MPI v5.0.11"),
        "lock hash of openmpi-spack": ("hash-5.0.10", "hash-5.0.11"),
        "IMB-MPI1 of openmpi-spack, SHA-256": ("aa", "bb"),
        "imb compiler of openmpi-spack": tuple(compilers.values()),
        "A of openmpi-spack": ("aa", "bb"),
        "commit of the tests": ("aa", "bb"),
        "tests changed since that commit": ("no", "yes"),
        "package scipy": ("aa", "bb"),
    }
    page = (tmp_path / "out" / "accept.html").read_text()
    digest = found["candidate"]["values_sha256"]
    assert digest in page and found["baseline"]["values_sha256"] in page
    assert "http:" not in page and "content=\"default-src 'none'; script-src 'none';" in page
    [identity] = found["candidate"]["identities"]
    assert identity["session"].startswith("00000002") and identity["session"] in page
    (job,) = found["candidate"]["jobs"]
    assert (job["job_id"], job["nodelist"], job["outputdir"]) == ("101", "n1,n2", "out")
    assert run(tmp_path) == 1
    assert record(tmp_path)["candidate"]["values_sha256"] == digest


def test_a_policy_that_judges_nothing_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bands = dict.fromkeys(verdict_policy.Policy().bands_bytes)
    policy = verdict_policy.Policy(
        margins_percent=dict.fromkeys(verdict_policy.Policy().margins_percent, bands)
    )
    monkeypatch.setattr(verdict_policy, "load", lambda name: policy)
    for number in range(2):
        write_session(tmp_path, number)
    with refused_as("configuration-unusable", match="gives none of the 21 common metrics a margin"):
        accept.decide(Store(tmp_path), "latest~1", "latest")


def test_junit_has_a_failure_per_regressed_or_missing_metric(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(
        tmp_path,
        1,
        sizes=SIZES[:-1],
        change=lambda b, size, stack: 1.3 if (b, size) == ("Uniband", 64) else 1.0,
    )
    assert run(tmp_path) == 1
    root = ElementTree.parse(tmp_path / "out" / "accept.xml").getroot()
    assert {
        case.get("name"): failure.get("type")
        for case in root.iter("testcase")
        for failure in case.iter("failure")
    } == {
        "PingPong latency_us 4 MiB": "missing",
        "Uniband bandwidth_mb_per_s 4 MiB": "missing",
        "Uniband bandwidth_mb_per_s 64 B": "regressed",
        "decision": "refused",
    }
    assert len(root.findall(".//testcase")) == 22


@pytest.mark.parametrize("baseline", ["latest", "latest~7", "rubbish"])
def test_bad_selections_are_one_sentence(
    tmp_path: Path, baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        write_session(tmp_path, number)
    assert run(tmp_path, baseline=baseline) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert run(tmp_path, baseline="latest", candidate="latest~1") == 2, "measured before it"


def test_nothing_in_common_and_no_data_are_refused(tmp_path: Path) -> None:
    assert run(tmp_path / "nowhere") == 2
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, stacks=("mpich-spack",))
    with refused_as("nothing-measured"):
        accept.decide(Store(tmp_path), "latest~1", "latest")


def contradicted(number: int, **changes: Any) -> dict[str, Any]:
    """A case that measured over the wrong network, as one of several of a session."""
    wrong = {
        "evidence": "contradicted",
        "result": "fail",
        "fail_phase": "sanity",
        "pinning": "none",
    }
    return {**wrong, "sentences": [f"asked for eth1g, {number} GB went over mgmt"], **changes}


@pytest.mark.parametrize(
    "case",
    [
        contradicted(2),
        contradicted(2, evidence="missing", result="fail_deps", fail_phase=None, samples=0),
        {"fail_phase": "cleanup", "result": "fail", "reason": "no room"},
        {"evidence": "replayed"},
        {"evidence": None},
    ],
)
def test_a_candidate_with_unproven_cases_is_refused_whatever_the_others_say(
    tmp_path: Path, case: dict[str, Any]
) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, where=[{}, *({**case, "pinning": f"p{n}"} for n in range(3))])
    assert run(tmp_path) == 1
    found = record(tmp_path)
    assert found["headline"].startswith("NOT ACCEPTED: not proven: openmpi-spack on node, eth1g, ")
    assert "3 of 4 cases of the candidate are not proven; 21 metrics: " in found["headline"]
    assert len(found["candidate"]["unproven"]) == 3
    junit = ElementTree.parse(tmp_path / "out" / "accept.xml").getroot()
    assert len(junit.findall(".//failure[@type='unproven']")) == 3
    page = (tmp_path / "out" / "accept.html").read_text()
    assert "Cases of the candidate that are not proven" in page
    assert run(tmp_path, "--allow-unproven") == 3
    assert record(tmp_path)["headline"].startswith("INCONCLUSIVE, hence not accepted: not proven")


def test_a_candidate_that_proves_nothing_at_all_is_refused_with_a_record(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, where=contradicted(2))
    assert run(tmp_path) == 1
    found = record(tmp_path)
    assert (found["decision"], found["counts"]["missing"]) == ("refused", 21)
    assert found["finding"].startswith("not proven: ") and found["candidate"]["values"] == 0


def test_skipped_repeated_and_placement_cases_owe_no_proof(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    skipped = {"result": "skip", "evidence": None, "samples": 0}
    again = {**contradicted(2), "superseded": True}
    placement = {"group": "placement", "samples": 0}
    fixture = {
        "measurement": False,
        "evidence": "missing",
        "group": None,
        "fabric": None,
        "samples": 0,
    }
    write_session(tmp_path, 1, where=[{"run": 1}, skipped, again, placement, fixture])
    assert run(tmp_path) == 0
    assert record(tmp_path)["candidate"]["unproven"] == []


def test_allowing_unproven_cases_accepts_no_regression(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    unproven = contradicted(2, pinning="p0")
    write_session(tmp_path, 1, where=[{}, unproven], change=lambda *_: 1.3)
    assert run(tmp_path, "--allow-unproven") == 1


def test_an_unproven_baseline_is_reported_and_does_not_help(tmp_path: Path) -> None:
    """What the baseline could not prove the candidate is not held to; the headline says so."""
    write_before(tmp_path)
    write_session(tmp_path, 0, where=[{}, contradicted(2, pinning="scatter")])
    write_session(tmp_path, 1, where=[{}, {"pinning": "scatter"}])
    assert run(tmp_path) == 0
    headline = record(tmp_path)["headline"]
    assert headline.startswith("ACCEPTED: 1 of 2 cases of the baseline are not proven; ")


def test_sessions_of_two_systems_are_never_compared(tmp_path: Path) -> None:
    """With several systems in the dataset the candidate's session says which is meant."""
    ours = [write_session(tmp_path, number) for number in range(2)]
    theirs = write_session(tmp_path, 5, system="elsewhere")
    assert run(tmp_path, candidate=ours[1], baseline=ours[0]) == 3
    assert record(tmp_path)["system"] == "testbed"
    assert run(tmp_path, candidate=ours[1], baseline=theirs[:9]) == 2
    assert run(tmp_path, candidate=theirs, baseline=ours[0]) == 2


def test_too_few_repeats_are_a_sentence_and_no_accident(tmp_path: Path) -> None:
    for number in range(2):
        write_session(tmp_path, number, repeats=1)
    assert run(tmp_path) == 3
    assert record(tmp_path)["finding"].startswith("too few repeats: 21 metrics with only 1 ")
    written = [(tmp_path / "out" / name).read_text() for name in ("accept.json", "accept.html")]
    assert "NaN" not in written[0] and "Infinity" not in written[0]
    assert "nan" not in written[1].replace("nanosecond", "")


def test_an_earlier_record_is_kept_and_never_taken_for_todays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    # The last of the three files cannot be made: none appears.
    def fail(record: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(acceptance_record, "page", fail)
    assert run(tmp_path) != 0
    assert sorted(path.name for path in out.iterdir()) == ["earlier"]
    monkeypatch.undo()
    for _ in range(2):
        assert run(tmp_path) == 0
    assert len(list((out / "earlier").iterdir())) == 2


def test_a_record_that_cannot_be_written_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    write_session(tmp_path, 0)
    said = "it said: \x1b[31mfatal\x1b[0m \x01error <&>"
    write_session(tmp_path, 1, where=contradicted(1, sentences=[], reason=said))
    assert run(tmp_path) == 1
    root = ElementTree.parse(tmp_path / "out" / "accept.xml").getroot()
    messages = [failure.get("message") for failure in root.iter("failure")]
    assert any("it said: fatal error <&>" in message for message in messages)
    for name in acceptance_record.FILES:
        assert not {"\x1b", "\x01"} & set((tmp_path / "out" / name).read_text())


def test_a_side_without_values_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its file of values is there and holds none, or is gone."""
    before = write_session(tmp_path, 0)
    empty = write_session(tmp_path, 1, edit=lambda row: None)
    assert run(tmp_path) == 2
    assert "holds no value" in capsys.readouterr().err
    assert run(tmp_path, baseline=empty, candidate=before) == 2
    (samples,) = (tmp_path / "samples").glob(f"*/*/{empty}.parquet")
    samples.unlink()
    assert run(tmp_path, baseline=before, candidate=empty) == 2
    assert f"{samples} is gone" in capsys.readouterr().err


def test_a_condition_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, where={"condition": "[" * 5000})
    with refused_as("file-damaged"):
        accept.decide(Store(tmp_path), "latest~1", "latest")


def of_reference(value: float) -> dict[str, Any]:
    return {
        "gates": [reference_gate("Uniband.line_rate_fraction.4194304", value, 0.5, "1", "physics")]
    }


@pytest.mark.parametrize(("before", "after", "status"), [(0.9, 0.2, 1), (0.2, 0.2, 0)])
def test_a_reference_that_the_baseline_reached_and_the_candidate_missed_refuses(
    tmp_path: Path, before: float, after: float, status: int
) -> None:
    """Whatever the curves leave open; what the baseline missed the candidate is not held to."""
    write_before(tmp_path)
    write_session(tmp_path, 0, where=of_reference(before))
    write_session(tmp_path, 1, where=of_reference(after), mpi_version="5.0.11")
    assert run(tmp_path) == status
    found = record(tmp_path)
    assert found["decision"] == ("refused" if status else "accepted")
    missed = found["finding"].startswith("missed a reference that the baseline met: ")
    assert missed is bool(status)


def test_what_was_left_out_is_said_in_every_form(tmp_path: Path) -> None:
    """The slow half is left out by --where: accepted is a part,
    which headline, record and JUnit say.
    """
    write_before(tmp_path, stacks=("a", "b"))
    write_session(tmp_path, 0, stacks=("a", "b"))
    slow: Change = lambda _, __, stack: 1.5 if stack == "b" else 1.0  # noqa: E731
    write_session(tmp_path, 1, stacks=("a", "b"), change=slow)
    assert run(tmp_path) == 1
    assert run(tmp_path, "--where", "stack == 'a'") == 0
    said = "only a part is judged, 1 of 2 cases of the candidate and 1 of 2 cases of the baseline"
    found = record(tmp_path)
    assert found["headline"].startswith(f"ACCEPTED: {said}")
    assert [found[side]["cases_left_out"] for side in ("baseline", "candidate")] == [1, 1]
    for name in ("accept.xml", "accept.html"):
        assert said in (tmp_path / "out" / name).read_text()


def test_failures_and_a_busy_machine_are_in_the_headline(tmp_path: Path) -> None:
    """Both sides missed the same reference, so that it refuses
    nobody; nobody overlooks it either.
    """
    write_before(tmp_path)
    missed = {**of_reference(0.2), "result": "fail", "fail_phase": "performance"}
    for number, busy in enumerate((False, True)):
        write_session(tmp_path, number, where=missed, condition={"lost_cores": busy})
    assert run(tmp_path) == 0
    headline = record(tmp_path)["headline"]
    assert headline.startswith("ACCEPTED: 1 of 1 case of the candidate failed (ImbPointToPoint ")
    assert " and missed 1 reference; the candidate: in 1 of 1 case ranks often lost" in headline


def test_unlike_levels_are_said_instead_of_a_hundred_absences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = {f"Call{number}": "t_avg_us" for number in range(20)}
    write_session(tmp_path, 0, condition={"depth": "nightly"}, benchmarks=many)
    write_session(tmp_path, 1, condition={"depth": "smoke"}, benchmarks={"Call0": "t_avg_us"})
    assert run(tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    said = "  different modes: the baseline was measured as nightly, the candidate as smoke; 209 metrics"
    assert lines[3].startswith(said)
    assert len([line for line in lines if line.startswith("  missing: ")]) == 1
