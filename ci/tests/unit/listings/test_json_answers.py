"""``--json``: the whole answer of a command, with its exit
status, and which commands do not have it.
"""

import json
from datetime import datetime, timezone

from mpibench import cli
from mpibench.commands.listings import orphans
from mpibench.store import records
from mpibench.store.store import Store
from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue
from synthetic_stack import describe
from synthetic_verdicts import write_session


def answer(capsys, *words):
    status = cli.main(list(words))
    return status, json.loads(capsys.readouterr().out)


def test_the_catalogue_has_every_benchmark_with_its_units(
    capsys,
):
    status, groups = answer(capsys, "catalogue", "--json")
    assert status == 0 and set(groups) == set(catalogue.GROUPS)
    first = groups["p2p"]["benchmarks"][0]
    assert first["units"] == {"latency_us": "us", "bandwidth_mb_per_s": "MB/s"}
    assert (groups["p2p"]["suite"], groups["p2p"]["test"]) == ("imb", "ImbPointToPoint")
    _, rows = answer(capsys, "catalogue", "allreduce", "--json")
    assert {row["name"] for group in rows.values() for row in group["benchmarks"]} == {"Allreduce"}
    assert cli.main(["catalogue", "nosuch", "--json"]) == 2


def test_stacks_and_what_is_wrong_with_them(monkeypatch, tmp_path, capsys):
    good = metadata.parse({**describe(tmp_path), "name": "a-spack"}, tmp_path)
    problems = ["b-spack cannot be used: its prefix is gone."]
    monkeypatch.setattr(metadata, "discover", lambda *_: ([good], problems))
    status, said = answer(capsys, "stacks", "--json")
    assert status == 1 and said["problems"] == problems
    assert [stack["lock_hash"] for stack in said["stacks"]] == [good.lock_hash]
    monkeypatch.setattr(metadata, "discover", lambda *_: ([], []))
    assert answer(capsys, "stacks", "--json") == (1, {"stacks": [], "problems": []})


def test_which_sessions_were_withdrawn(tmp_path, capsys):
    session = write_session(tmp_path, 0)
    other = write_session(tmp_path, 1)
    given = ("sessions", "list", "--dataset", str(tmp_path))
    assert answer(capsys, *given, "--withdrawn", "--json") == (0, [])
    Store(tmp_path).withdraw(session, "wrong cable")
    status, [one] = answer(capsys, *given, "--withdrawn", "--json")
    assert status == 0 and (one["session"], one["withdrawn"]["why"]) == (session, "wrong cable")
    status, both = answer(capsys, *given, "--json")
    assert [row["session"] for row in both] == [session, other] and both[1]["withdrawn"] is None
    assert all(row["cases"] >= row["proven"] > 0 for row in both)
    now = datetime.now(timezone.utc)
    damaged = records.UnreadableSession("0badc0de", now, ("testbed",), "its record is damaged.")
    damaged.keep(tmp_path)
    assert cli.main([*given]) == 0
    assert "session 0badc0de is not in the dataset: its record is" in capsys.readouterr().out


def test_whose_reframe_is_gone(monkeypatch, capsys):
    gone = Process(7, 1)
    processes = []
    jobs = []
    monkeypatch.setattr(orphans, "_launches", lambda: processes)
    monkeypatch.setattr(orphans, "_jobs", lambda: jobs)
    nothing = {"processes": [], "jobs": [], "files": []}
    assert answer(capsys, "sessions", "prune", "--json") == (0, nothing)
    processes.append(orphans.OrphanProcess(Process(8, 2), gone, "mpirun", "/stage"))
    jobs.append(orphans.OrphanJob("12", "PENDING", "head", gone, "/stage/2"))
    status, said = answer(capsys, "sessions", "prune", "--json")
    process = {"process": 8, "name": "mpirun", "reframe": 7, "directory": "/stage"}
    job = {"job": "12", "state": "PENDING", "reframe": 7, "directory": "/stage/2"}
    assert (status, said["processes"], said["jobs"]) == (1, [process], [job])
