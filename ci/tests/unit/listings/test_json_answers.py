"""``--json``: the whole answer of a command, with its exit status, and which commands do not have it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.core import TyperGroup

from mpibench import cli
from mpibench.cluster.state import Process
from mpibench.commands.listings import doctor, orphans
from mpibench.judge import review
from mpibench.store import records
from mpibench.store.store import Store
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue
from synthetic_stack import describe
from synthetic_verdicts import write_session

#: Commands that change or write something, or start something else: what they print is progress.
DOING = {"export", "nightly", "sessions withdraw", "site"}
DOING |= {"stacks add", "stacks build", "stacks remove", "tune", "cluster up", "cluster down", "cluster exec", "cluster fault"}
#: Those that answer a question and have other files for it: accept.json, ``--format json``, diffs.
WITHOUT = {"accept"}


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    status = cli.main(list(words))
    return status, json.loads(capsys.readouterr().out)


def test_commands_that_answer_a_question_have_it() -> None:
    lacking = set()
    queue = [((), typer.main.get_command(cli.app))]
    for words, command in queue:
        if isinstance(command, TyperGroup):
            queue += [((*words, name), inner) for name, inner in command.commands.items()]
        if not isinstance(command, TyperGroup) or command.invoke_without_command:
            given = {option for parameter in command.params for option in parameter.opts}
            if "--json" not in given and DOING.isdisjoint((words[0], " ".join(words[:2]))):
                lacking.add(" ".join(words))
    assert lacking == WITHOUT


def test_the_catalogue_has_every_benchmark_with_its_units(capsys: pytest.CaptureFixture[str]) -> None:
    status, groups = answer(capsys, "catalogue", "--json")
    assert status == 0 and set(groups) == set(catalogue.GROUPS)
    assert {row["name"] for row in groups["p2p"]["benchmarks"]} == {"PingPong", "PingPing"}
    assert groups["p2p"]["benchmarks"][0]["units"] == {"latency_us": "us", "bandwidth_mb_per_s": "MB/s"}
    assert (groups["p2p"]["suite"], groups["p2p"]["test"]) == ("imb", "ImbPointToPoint")
    _, chosen = answer(capsys, "catalogue", "imb", "--json")
    assert set(chosen) == set(catalogue.SUITES["imb"].groups)
    _, rows = answer(capsys, "catalogue", "allreduce", "--json")
    assert {row["name"] for group in rows.values() for row in group["benchmarks"]} == {"Allreduce"}
    assert cli.main(["catalogue", "nosuch", "--json"]) == 2


def test_stacks_and_what_is_wrong_with_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = metadata.parse({**describe(tmp_path), "name": "a-spack"}, tmp_path)
    monkeypatch.setattr(metadata, "discover", lambda *_: ([good], ["b-spack cannot be used: its prefix is gone."]))
    status, said = answer(capsys, "stacks", "--json")
    assert status == 1 and said["problems"] == ["b-spack cannot be used: its prefix is gone."]
    [stack] = said["stacks"]
    assert (stack["name"], stack["mpi"], stack["lock_hash"]) == ("a-spack", good.mpi, good.lock_hash)
    monkeypatch.setattr(metadata, "discover", lambda *_: ([], []))
    assert answer(capsys, "stacks", "--json") == (1, {"stacks": [], "problems": []})
    assert cli.main(["stacks", "--json", "--check"]) == 2


@pytest.mark.parametrize(("state", "status"), [(doctor.OK, 0), (doctor.NOTE, 0), (doctor.MISSING, 1)])
def test_the_doctor_says_what_it_found(
    state: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda system: [doctor.Finding("python", state, "3.12")])
    monkeypatch.setattr(doctor, "_select_from", lambda *_: {"name": "here"})
    found = {"system": "here", "ready": not status, "findings": [{"subject": "python", "state": state, "detail": "3.12"}]}
    assert answer(capsys, "doctor", "--json") == (status, found)


def test_who_is_how_many_times_faster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stacks = ("openmpi-spack", "mpich-spack")
    session = write_session(tmp_path, 0, stacks=stacks, change=lambda _, __, stack: 0.8 if stack == "mpich-spack" else 1.0)
    given = ("--dataset", str(tmp_path), "--dataset-only", "--out", str(tmp_path / "page.html"))
    status, said = answer(capsys, "compare", *stacks, *given, "--json")
    assert status == 0 and (tmp_path / "page.html").exists()
    assert (said["by"], said["first"], said["second"]) == ("stack", *stacks)
    assert said["sessions"] == [[session], [session]] and said["notes"] == []
    assert {row["winner"] for row in said["bands"]} == {"mpich-spack"}
    assert all(row["times_low"] <= row["times"] <= row["times_high"] and row["fabric"] == "eth1g" for row in said["bands"])
    [small] = [row for row in said["sizes"] if row["benchmark"] == "PingPong" and row["message_bytes"] == 8]
    assert small["first"] > small["second"] and small["unit"] == "us" and "stack" not in small


def test_what_a_paper_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "examine", lambda system: ())
    _, said = answer(capsys, "doctor", "--system=openhpc-mini", "--json")
    said = said["published"]
    assert [row["holds"] for row in said].count(True) == 3
    [forty] = [row for row in said if row["fabric"] == "eth40g"]
    assert forty["best_mb_per_s"] == 4986.11 and "it is not the bandwidth of eth40g" in forty["problem"]


def test_which_sessions_were_withdrawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session, other = write_session(tmp_path, 0), write_session(tmp_path, 1)
    assert answer(capsys, "sessions", "list", "--withdrawn", "--dataset", str(tmp_path), "--json") == (0, [])
    assert cli.main(["sessions", "list", "--system", "nosuch", "--dataset", str(tmp_path)]) == 2
    assert "holds no system 'nosuch'" in capsys.readouterr().err
    Store(tmp_path).withdraw(session, "wrong cable")
    status, [one] = answer(capsys, "sessions", "list", "--withdrawn", "--dataset", str(tmp_path), "--json")
    assert status == 0 and (one["session"], one["withdrawn"]["why"]) == (session, "wrong cable")
    status, both = answer(capsys, "sessions", "list", "--dataset", str(tmp_path), "--json")
    assert [row["session"] for row in both] == [session, other] and both[1]["withdrawn"] is None
    assert all(row["cases"] >= row["proven"] > 0 and row["answers"] == {} for row in both)


def test_sessions_that_were_refused_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(tmp_path, 0)
    records.Unreadable("0badc0de", datetime.now(timezone.utc), ("testbed",), "its record is damaged.").keep(tmp_path)
    assert cli.main(["sessions", "list", "--dataset", str(tmp_path)]) == 0
    assert "session 0badc0de is not in the dataset: its record is damaged." in capsys.readouterr().out.splitlines()


def test_reframes_variable_names_the_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_session(tmp_path, 0)
    monkeypatch.setenv("RFM_SYSTEM", "testbed:compute")
    assert cli.main(["drift", "--dataset-only", "--dataset", str(tmp_path)]) == 3
    monkeypatch.setenv("RFM_SYSTEM", "elsewhere")
    for words in (("drift",), ("gate",), ("accept", "--baseline", "latest", "--out", str(tmp_path / "record"))):
        assert cli.main([*words, "--dataset-only", "--dataset", str(tmp_path)]) == cli.BAD_INPUT
        assert "the dataset holds no system 'elsewhere'; it holds testbed" in capsys.readouterr().err


def test_whose_reframe_is_gone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    gone, here = Process(7, 1), Process(8, 2)
    monkeypatch.setattr(orphans, "_launches", list)
    monkeypatch.setattr(orphans, "_jobs", list)
    assert answer(capsys, "sessions", "prune", "--json") == (0, {"processes": [], "jobs": [], "files": []})
    monkeypatch.setattr(orphans, "_launches", lambda: [orphans.Launch(here, gone, "mpirun", "/stage")])
    monkeypatch.setattr(orphans, "_jobs", lambda: [orphans.Job("12", "PENDING", "head", gone, "/stage/2")])
    status, said = answer(capsys, "sessions", "prune", "--json")
    assert status == 1
    assert said["processes"] == [{"process": 8, "name": "mpirun", "reframe": 7, "directory": "/stage"}]
    assert said["jobs"] == [{"job": "12", "state": "PENDING", "reframe": 7, "directory": "/stage/2"}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sessions prune --json --remove", "--json only says what there is: give one of them"),
        ("sessions withdraw 00000001", "--why is empty"),
        ("sessions withdraw 00000001 --undo --why x", "--undo takes a withdrawal back and keeps no reason"),
        ("report --json", "--json is for --guidelines"),
        ("gate --only completeness --max-age 1 --recent 3", "completeness asks nothing else: leave --recent and --max-age out"),
        ("report --guidelines --out x.html", "--guidelines asks nothing else: leave --out out"),
        ("rebaseline --review HEAD --where x --system y", "--review asks nothing else: leave --system and --where out"),
        ("catalogue imb --format csv", "--format says how --parse prints"),
        ("rebaseline", "rebaseline learns from the sessions that --sessions names"),
        ("rebaseline --sessions latest --json", "--json is for --review BASE"),
        ("catalogue --parse", "--parse reads outputs: name their files"),
        ("catalogue imb osu", "the catalogue is asked for one name and not 2"),
        ("doctor --draft --json", "--draft prints a file and --json an answer"),
    ],
)
def test_options_that_exclude_each_other_are_refused(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words.split()) == 2
    assert said in capsys.readouterr().err


def test_what_a_change_alters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"session": ["s1"], "values": [9], "failed_before": [2], "failed_after": [0]}
    effect = pl.DataFrame({"started": [datetime(2026, 1, 5, 2, tzinfo=timezone.utc)], **counts})
    system = review.SystemChange("testbed", ["references.yaml"], {review.LOOSER: ["a"]}, effect)
    found = review.ReviewedChange("main", [system], {"openmpi": "its recipe changed"}, ["openmpi"])
    monkeypatch.setattr(review, "review", lambda *_: found)
    status, said = answer(capsys, "rebaseline", "--review", "main", "--json", "--out", str(tmp_path / "comment.md"))
    assert status == 0 and (tmp_path / "comment.md").read_text() == found.markdown()
    assert said["finding"] == found.finding() and said["stacks"] == {"openmpi": "its recipe changed"}
    [one] = said["systems"]
    assert (one["hides"], one["finds"], one["references"][review.LOOSER]) == (2, 0, ["a"])
    assert one["nights"] == [
        {"started": "2026-01-05T02:00:00+00:00", "session": "s1", "values": 9, "failed_before": 2, "failed_after": 0}
    ]


def test_what_is_expected_and_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        write_session(tmp_path, number, labels={"run": "nightly"})
    words = ("gate", "--only=completeness", "--dataset", str(tmp_path), "--dataset-only", "--json")
    status, said = answer(capsys, *words)
    assert said["complete"] == (not said["missing"]) == (status == 0)
    assert said["system"] == "testbed" and said["run"] == "nightly" and said["expected"] >= said["there"] > 0
    assert said["started"].endswith("+00:00")
