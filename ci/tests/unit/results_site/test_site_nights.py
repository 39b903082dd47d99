"""What a night of the site is: green only where a whole session
was held against something and reached it.
"""

from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from mpibench.store import records
from mpibench.store.store import Store
from mpibench_site import site, stored_files
from refusals import refused_as
from synthetic_verdicts import FIRST, by, gate, write_session

HELD = {"gates": [gate("Uniband.bandwidth.0004194304", 110.0, 100.0)]}
MISSED = {"gates": [gate("Uniband.bandwidth.0004194304", 90.0, 100.0, "fail")]}


def judged(folder, **spoiled):
    store = Store(folder)
    return site.judge(store, "testbed", site.light_cases(store, "testbed"), spoiled)


def only(folder):
    (night,) = judged(folder)
    return night


@pytest.mark.parametrize(
    ("where", "changes", "state", "said"),
    [
        (HELD, {}, "green", "1 of 1 case proven, 1 reference held, none missed"),
        ({}, {}, "unjudged", "nothing to compare with"),
        (HELD, {"command_line": "reframe -r -n PingPong"}, "part", "measured in part"),
        (MISSED, {}, "red", "Uniband bandwidth at 4 MiB is 90 MB/s"),
        (
            {**MISSED, "reason": "performance error: failed to meet reference(s): x=0.1788"},
            {"result": "fail"},
            "red",
            "2 x 1, bunch: Uniband bandwidth at 4 MiB is 90 MB/s, below the",
        ),
        (
            {**HELD, "reason": "sanity error: went over lo"},
            {"evidence": "contradicted", "result": "fail"},
            "red",
            "went over lo",
        ),
        (HELD, {"evidence": "missing"}, "red", "without stored proof of its condition"),
        ({}, {"result": "abort"}, "red", "interrupted: 1 of 1 case"),
        ({}, {"result": "skip", "evidence": ""}, "red", "no case of this session ran"),
    ],
)
def test_what_a_night_is(tmp_path, where, changes, state, said):
    write_session(tmp_path, 0, **({"where": where} if where else {}), **changes)
    night = only(tmp_path)
    assert night.state.name == state
    assert said in " ".join((night.finding, *night.problems))


def test_an_answer_of_that_night_makes_it_red_and_never_an_empty_one_green(tmp_path):
    session = write_session(tmp_path, 0, where=HELD)
    for problems, state in ((["a stack could not be installed"], "red"), ([], "green")):
        records.answer(tmp_path, session, records.NIGHT, "nightly", problems)
        night = only(tmp_path)
        assert night.state.name == state and "".join(problems) in night.finding
    answers = tmp_path / records.StoredAnswer.kind
    (answers / f"{session}.gate.json").write_text("{}")
    with refused_as("file-damaged", match=r"gate\.json is damaged"):
        only(tmp_path)
    answers.rename(tmp_path / "away")
    answers.symlink_to(answers)
    with refused_as("file-unreadable", match="answers cannot be read"):
        only(tmp_path)


def test_a_night_that_the_gate_did_not_judge_is_not_green(tmp_path):
    for number in range(8):
        noisy = by((1.0, 3.0, 9.0, 2.0)[number % 4])
        write_session(tmp_path / "set", number, where=HELD, change=noisy, sizes=(8,))
    site.build(Store(tmp_path / "set"), tmp_path / "site", judged=1)
    assert [night.state.name for night in judged(tmp_path / "set")[-2:]] == ["green", "unjudged"]


def test_a_withdrawn_night_is_neither_green_nor_red(tmp_path):
    session = write_session(tmp_path, 0, where=MISSED)
    Store(tmp_path).withdraw(session, "wrong cable")
    night = only(tmp_path)
    assert night.state.name == "withdrawn" and "wrong cable" in night.finding


def test_a_session_that_cannot_be_read_is_a_red_night_of_its_series(tmp_path):
    write_session(tmp_path, 0, where=HELD, labels={"run": "nightly"})
    records.UnreadableSession(
        "lost", FIRST + timedelta(1), ("testbed",), "it cannot be read."
    ).keep(tmp_path)
    green, red = judged(tmp_path)
    assert (green.state.name, red.state.name, red.run) == ("green", "red", "nightly")
    assert "cannot be read" in red.finding


def test_the_finding_is_the_worst_problem_in_whatever_order_it_was_stored(tmp_path):
    """By most below its reference; before that a case without proof of its fabric."""
    slow = gate("Uniband.bandwidth.0004", 90.0, 100.0, "fail")
    slower = gate("Uniband.bandwidth.0008", 30.0, 100.0, "fail")
    one = {"gates": [slow], "stack": "mpich", "name": "Uniband %stack=mpich"}
    other = {"gates": [slow, slower], "stack": "openmpi", "name": "Uniband %stack=openmpi"}
    lost = {**one, "gates": [], "evidence": "contradicted", "result": "fail"}
    lost["reason"] = "sanity error: went over lo"
    for number, cases in enumerate(([one, other], [other, one], [other, lost])):
        write_session(tmp_path, number, where=cases, result="fail")
    *nights, last = judged(tmp_path)
    for night in nights:
        assert "openmpi" in night.finding and "is 30 MB/s" in night.finding
    assert "went over lo" in last.finding


def test_values_that_are_none_make_a_night_red(tmp_path):
    def spoil(row):
        return {**row, "value": float("inf")} if row["repeat"] == 2 else row

    session = write_session(tmp_path, 0, where=HELD, edit=spoil)
    table, _, spoiled = site.compute(Store(tmp_path), "testbed", session)
    assert "is inf" in spoiled and not table.height
    assert judged(tmp_path, **{session: spoiled})[0].state.name == "red"


def test_excerpts_are_of_plain_files_of_the_job_only(tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "rfm_job.out").symlink_to(tmp_path / "secret")
    (tmp_path / "rfm_job.err").write_bytes(b"\x1b[31mred\xff" + b"x" * 300_000 + b"end")
    row = {"outputdir": str(tmp_path), "job_id": "1"}
    found = stored_files.excerpts(row)
    assert set(found) == {"rfm_job.err"}
    assert found["rfm_job.err"].startswith("red") and found["rfm_job.err"].endswith("end")
    assert "bytes left out" in found["rfm_job.err"] and len(found["rfm_job.err"]) < 250_000
    assert stored_files.find({**row, "outputdir": "/no/such/folder"}, tmp_path).href == ""
    assert stored_files.find({**row, "outputdir": None}, tmp_path).path == ""
    assert stored_files.excerpts({**row, "outputdir": "a\0b"}) == {}


def test_a_link_at_60_percent_has_lost_40_on_the_site():
    nights = np.array([[100.0] * 10 + [60.0], [10.0] * 10 + [10 / 0.6]])
    over = SimpleNamespace(
        drawn={"median": nights}, columns={"quantity": ["bandwidth_mb_per_s", "latency_us"]}
    )
    worse = [site.slower_than_usual(over, row, 10)[0] for row in (0, 1)]
    assert worse == pytest.approx([0.4, 2 / 3])
