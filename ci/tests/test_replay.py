"""Replays: the papers' printed figures through parser, sanity, metrics, references and report, and never taken for measured."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mpibench import accept, compare, dataset, drift, gate, published, rebaseline, replay, report, report_summary, sessions
from reframe_tests.harness import catalogue, parsers, references, stack_metadata
from reframe_tests.harness import replay as mode
from reframe_tests.harness.vocabulary import BadInput

SYSTEM = "openhpc-mini"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One replayed session of the mini-cluster's paper."""
    folder = tmp_path_factory.mktemp("replay")
    assert replay.run(SYSTEM, results=folder) == 1, "the paper's 40 Gbit/s and Omni-Path figures do not hold"
    return folder


@pytest.fixture(scope="module")
def session(results: Path) -> sessions.Session:
    database = results / "results.db"
    [uuid] = sessions.list_sessions(database)
    return sessions.read_session(database, uuid)


def case_of(session: sessions.Session, fabric: str, group: str = "p2p_pairs") -> sessions.Case:
    [case] = [
        case for case in session.cases if case.fabric == fabric and case.entry.get("group") == group and case.result != "skip"
    ]
    return case


@pytest.mark.parametrize("recording", replay.RECORDINGS[SYSTEM], ids=lambda recording: recording.table)
def test_a_recording_is_read_by_the_strict_parser_to_the_last_digit(recording: replay.Recording) -> None:
    records = parsers.parse(replay.text_of(SYSTEM, recording), source=recording.table)
    printed = [value for value in published.read(SYSTEM) if Path(value.file).stem == recording.table]
    read = {(record.message_bytes, name): value for record in records for name, value in record.values.items()}
    for value in printed:
        if value["quantity"] != "repetitions":
            assert as_printed(read, value) == value["value"]
    assert len(read) == sum(value["quantity"] != "repetitions" for value in printed)


#: perftest's units: quantity as printed to quantity as stored, and how many of the stored unit make one.
UNITS = {
    "bandwidth_mib_per_s": ("bandwidth_mb_per_s", 1.048576),
    "message_rate_mega_per_s": ("message_rate_per_s", 1e6),
}


def as_printed(read: dict[tuple[int | None, str], float], value: published.Value) -> str:
    """What was read for a published value, in the paper's unit and with its digits."""
    quantity, scale = UNITS.get(value["quantity"], (value["quantity"], 1.0))
    return f"{read[value.message_bytes, quantity] / scale:.{value.decimals}f}"


GROUPS = {"osu": "one_sided_osu", "imb": "p2p_pairs", "perftest": "verbs"}


def test_every_replayed_number_is_the_papers(session: sessions.Session) -> None:
    for recording in replay.RECORDINGS[SYSTEM]:
        case = case_of(session, recording.partition, GROUPS[recording.suite])
        stored = {(sample.message_bytes, sample.quantity): sample.values for sample in case.samples}
        assert {len(values) for values in stored.values()} == {1}
        single = {key: values[0] for key, values in stored.items()}
        for value in published.read(SYSTEM):
            if Path(value.file).stem == recording.table and value["quantity"] != "repetitions":
                assert as_printed(single, value) == value["value"]


@pytest.mark.parametrize(
    ("fabric", "suite", "size", "printed"),
    [
        ("eth1g", "osu", 4194304, "0.9357"),
        ("eth1g", "imb", 4194304, "0.925"),
        ("eth40g", "imb", 262144, "39.89"),
        ("opa100", "imb", 65536, "78.91"),
    ],
)
def test_figures_of_the_paper_come_out_of_the_session(
    session: sessions.Session, fabric: str, suite: str, size: int, printed: str
) -> None:
    """From the database, in Gbit/s, to the last printed digit."""
    samples = case_of(session, fabric, GROUPS[suite]).samples
    [value] = [one.values[0] for one in samples if (one.message_bytes, one.quantity) == (size, "bandwidth_mb_per_s")]
    assert value is not None
    assert f"{value * references.GBIT_PER_MB:.{len(printed.split('.')[1])}f}" == printed
    best = max(one.values[0] or 0.0 for one in samples if one.quantity == "bandwidth_mb_per_s")
    assert value == best, "the paper quotes the largest"


def test_edr_is_92_09_as_the_paper_counts_and_96_57_as_perftest_does(session: sessions.Session) -> None:
    """The paper takes MiB for MB and cuts 92.09824 to 92.09; the gate holds the true bandwidth against the line rate."""
    case = case_of(session, "edr100", "verbs")
    [value] = [one.values[0] for one in case.samples if one.quantity == "bandwidth_mb_per_s"]
    assert value is not None
    assert int(value / 1.048576 * references.GBIT_PER_MB * 100) / 100 == 92.09
    assert value * references.GBIT_PER_MB == pytest.approx(96.572, abs=1e-3)
    assert case.result == "pass"
    [gate] = [gate for gate in case.gates if gate.layer == "physics"]
    assert gate.outcome == "pass" and gate.value == pytest.approx(0.96572, abs=1e-5)


def test_what_holds_and_what_does_not(session: sessions.Session) -> None:
    assert case_of(session, "eth1g").result == "pass"
    assert case_of(session, "eth1g", "one_sided_osu").result == "pass"
    too_high, too_low = case_of(session, "eth40g"), case_of(session, "opa100")
    # "While 39.89Gbs is near the theoretical peak of 40Gb/s, this is still a high number."
    assert "PingPong of 262144 bytes shows 4986.1 MB/s" in too_high.reason
    assert "it is not the bandwidth of eth40g" in too_high.reason
    # "78.91Gb/s is much less than the theoretical peak rate of 100Gb/s for the Omni-Path connection."
    assert too_low.result == "fail" and "line_rate_fraction.0001048576" in too_low.reason


def test_a_replay_says_so_everywhere_and_proves_nothing(session: sessions.Session) -> None:
    ran = [case for case in session.cases if case.result != "skip"]
    assert len(ran) == len(replay.RECORDINGS[SYSTEM])
    for case in ran:
        assert case.name.startswith("Replay")
        assert case.evidence == mode.ORIGIN + "ed"
        assert case.condition["origin"] == mode.ORIGIN
        assert case.stack.endswith("-replay")
        assert case.proof is not None and "nothing is proven" in case.proof.notes[0]
        assert report_summary.outcome_of(session, case) in ("replayed", "failed")
    assert report_summary.verdict_line(session).startswith("REPLAY of recorded outputs: nothing was measured here")
    assert not report_summary.key_figures(session)


def test_the_dataset_marks_every_value_and_leaves_it_out_unless_asked(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "dataset"
    dataset.export(results / "results.db", out)
    assert dataset.load(out).collect().height == 0, "only what is proven is taken for a measurement"
    rows = dataset.load(out, evidence=("replayed",)).collect()
    assert rows.height > 200
    assert set(rows["origin"]) == {"replay"}


COMMANDS = {
    "accept": lambda folder: accept.decide(folder, "latest", "latest", system=SYSTEM),
    "compare": lambda folder: compare.pair(
        folder, "latest", "stack", "intelmpi-oneapi-eth1g-replay", "openmpi-ohpc-eth1g-replay", system=SYSTEM
    ),
    "rebaseline": lambda folder: rebaseline.propose(folder, "latest", system=SYSTEM),
    "drift": lambda folder: drift.watch(folder, SYSTEM),
}
#: What a command says of sessions that hold replays only; the last one looks at all of a system's nights.
LEFT_OUT = {"drift": "hold no metric that is judged"}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_verdict_and_no_reference_comes_from_a_replay(results: Path, tmp_path: Path, command: str) -> None:
    """Not even where somebody exports a replay into a dataset and asks."""
    dataset.export(results / "results.db", tmp_path / "dataset")
    with pytest.raises(BadInput) as caught:
        COMMANDS[command](tmp_path / "dataset")
    assert LEFT_OUT.get(command, "replays a record instead of measuring") in str(caught.value)


def test_a_replay_does_not_pass_the_gate(results: Path, tmp_path: Path) -> None:
    dataset.export(results / "results.db", tmp_path / "dataset")
    answer = gate.decide(tmp_path / "dataset", SYSTEM)
    assert not answer.passed
    assert "0 of 5 cases proven, 0 measured" in answer.lines[0]
    assert any("no case of this session is proven" in line for line in answer.lines)


def test_a_replay_that_plays_nothing_is_no_success(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ReFrame passes a session without tests; that once let a broken test file through."""
    monkeypatch.setattr(replay.subprocess, "run", lambda *words, **more: subprocess.CompletedProcess(words, 0))
    with pytest.raises(BadInput, match="0 of 5 recordings of 'openhpc-mini' were replayed"):
        replay.run(SYSTEM, results=tmp_path)


def test_the_report_of_a_replay_says_so_first(session: sessions.Session, tmp_path: Path) -> None:
    page = report.render(session, tmp_path)
    head = page.partition("<main>")[0]
    assert "REPLAY of recorded outputs: nothing was measured here" in head
    assert "replay of a recorded output (site_configs/openhpc-mini/published/ib-send-bw-edr100.csv" in page


def test_replay_stacks_exist_in_replays_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = replay.write_stack(SYSTEM, replay.RECORDINGS[SYSTEM][0], tmp_path / "eth1g")
    recorded = stack_metadata.read(path)
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    assert mode.wanted([recorded]) == []
    monkeypatch.setenv(mode.VARIABLE, SYSTEM)
    assert mode.wanted([recorded]) == [recorded]
    [launch] = mode.launches(recorded, 2)
    assert launch.expected == (catalogue.Expected("PingPong", 2, (0, *(1 << power for power in range(23))), ("",)),)


def test_other_systems_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mode.VARIABLE, SYSTEM)
    described = {"name": "generic", "partitions": []}
    assert mode.stage(described, []) is described


def test_nothing_to_replay_is_one_sentence() -> None:
    with pytest.raises(BadInput, match="nothing of system 'generic' can be replayed"):
        replay.run("generic")
    assert not os.environ.get(mode.VARIABLE)
