"""Replays: the papers' printed figures through parser, sanity, metrics, references and report, and never taken for measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpibench import dataset, published, replay, report_summary, sessions
from reframe_tests.harness import catalogue, parsers, stack_metadata
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
        if value["quantity"] == "repetitions":
            continue
        assert f"{read[value.message_bytes, value['quantity']]:.{value.decimals}f}" == value["value"]
    assert len(read) == sum(value["quantity"] != "repetitions" for value in printed)


def test_every_replayed_number_is_the_papers(session: sessions.Session) -> None:
    for recording in replay.RECORDINGS[SYSTEM]:
        group = "one_sided_osu" if recording.suite == "osu" else "p2p_pairs"
        case = case_of(session, recording.partition, group)
        stored = {(sample.message_bytes, sample.quantity): sample.values for sample in case.samples}
        for value in published.read(SYSTEM):
            if Path(value.file).stem == recording.table and value["quantity"] != "repetitions":
                assert stored[value.message_bytes, value["quantity"]] == (value.number,)


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
