"""The sessions before: found without being named, never pooled with others, and counted in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpibench import cli
from mpibench.judge import accept, comparison, pairing
from mpibench.judge.accept import ACCEPTED, REFUSED, AcceptanceOptions
from mpibench.judge.comparison import INCONCLUSIVE, REGRESSED
from mpibench.judge.history import FACTS, MOST_SESSIONS, NO_HISTORY, Past, describe_facts, find_history, why_not
from mpibench.judge.policy import Policy
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_verdicts import FIRST, SIZES, by, write_session

NIGHTS = 8


def write_nights(folder: Path, first: int = 0, count: int = NIGHTS, **options: Any) -> None:
    for number in range(first, first + count):
        write_session(folder, number, **{"noise": 0.004, **options})


def find(folder: Path, **options: Any) -> Past:
    """The history of the newest session."""
    newest = Store(folder).select("testbed", "latest")
    return find_history(Store(folder), "testbed", newest.cases, Policy(), **options)


def not_used(past: Past) -> dict[str, int]:
    return {row.why: row.sessions for row in past.strata[0].left_out}


def sentence(folder: Path, **options: Any) -> str:
    (text,) = find(folder, **options).sentences()
    return text


def units(found: accept.Acceptance) -> set[str]:
    return set(found.judgement.metrics["units"])


def test_a_baseline_of_one_session_has_the_sessions_before_it(tmp_path: Path) -> None:
    write_nights(tmp_path)
    write_session(tmp_path, NIGHTS, change=by(1.04), noise=0.004)
    found = accept.decide(Store(tmp_path), "latest~1", "latest")
    assert units(found) == {comparison.SESSIONS}
    assert found.decision == REFUSED
    row = found.judgement.metrics.row(0, named=True)
    assert (row["baseline_jobs"], row["candidate_jobs"], row["baseline_repeats"]) == (NIGHTS, 1, 5 * NIGHTS)
    assert (
        "history of openmpi-spack 5.0.10 on node, eth1g: 8 sessions, 1 of them named on 8 days, 2026-01-05 to 2026-01-12"
    ) in found.notes
    assert found.baseline.sessions == found.baseline.sessions[:1], "the side is what was named"
    alone = accept.decide(Store(tmp_path), "latest~1", "latest", AcceptanceOptions(history=NO_HISTORY))
    assert alone.decision == INCONCLUSIVE, "what one night alone cannot know"
    assert not [one for one in alone.notes if one.startswith("history of")]


def test_no_session_after_the_baseline_is_its_history(tmp_path: Path) -> None:
    """They may be from after the upgrade."""
    write_nights(tmp_path)
    write_nights(tmp_path, NIGHTS, 3, change=by(1.2))
    write_session(tmp_path, 20, change=by(1.2))
    found = accept.decide(Store(tmp_path), "latest~4", "latest")
    assert found.decision == REFUSED
    assert found.judgement.metrics["slower"].to_numpy() == pytest.approx(0.2, abs=0.02)
    (said,) = [one for one in found.notes if one.startswith("history of")]
    assert said.endswith("not used: 3 sessions that started later")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"mpi_version": "4.1.6"}, "with MPI version 4.1.6"),
        ({"where": {"lock_hash": "else"}}, "with lock hash else"),
        ({"condition": {"depth": "smoke"}}, "with level smoke"),
        ({"labels": {"run": "acceptance"}}, "with label run acceptance"),
        ({"condition": {"placement": [[0], [4]]}}, "with another placement"),
        ({"condition": {"transport": "verbs"}}, "with transport verbs"),
        ({"condition": {"suites": {"imb": {"version": "2019.6"}}}}, "with benchmark version imb 2019.6"),
        # Also where a site makes a fabric striped without another name, and of one fabric on which nothing is forced.
        ({"condition": {"suite_options": "off_cache=8"}}, "with suite options off_cache=8"),
        ({"condition": {"striped": True}}, "with striping true"),
        ({"condition": {"network": "hdr200"}}, "with network hdr200"),
        ({"evidence": "contradicted"}, "without proof of this"),
        ({"started": datetime(1970, 1, 1, 1, tzinfo=timezone.utc)}, "whose clock was wrong"),
        ({"started": FIRST + timedelta(days=100)}, "that started later"),
    ],
)
def test_what_was_measured_otherwise_is_another_history(tmp_path: Path, other: dict[str, Any], why: str) -> None:
    write_nights(tmp_path)
    for number in (40, 41):
        write_session(tmp_path, number, **{"night": number - 39, **other, "change": by(3.0)})
    last = write_session(tmp_path, NIGHTS)
    cases = Store(tmp_path).select("testbed", last).cases
    found = find_history(Store(tmp_path), "testbed", cases, Policy())
    assert found.sentences() == [
        "history of openmpi-spack 5.0.10 on node, eth1g: 9 sessions, 1 of them named on 9 days, 2026-01-05 to 2026-01-13; "
        f"not used: 2 sessions {why}"
    ]
    assert len(found.strata[0].sessions) == NIGHTS == found.values["session"].n_unique()


@pytest.mark.parametrize(
    ("suites", "versions"),
    [({"imb": {"version": "2021.11"}}, "imb 2021.11"), (["imb"], ""), ({"imb": "2021.11"}, ""), (None, "")],
)
def test_versions_of_suites_are_those_stored(tmp_path: Path, suites: object, versions: str) -> None:
    write_session(tmp_path, 0, condition={"suites": suites})
    described = describe_facts(Store(tmp_path).cases("testbed").collect())
    assert described["suites"].to_list() == [versions]
    assert described.select(why_not(FACTS[6])).item() == f"with benchmark version {versions or 'none'}"


def test_suites_that_are_no_record_are_one_sentence(tmp_path: Path) -> None:
    write_session(tmp_path, 0, condition={"suites": "2021.11]"})
    with refused_as("dataset-damaged", match=r"is not a JSON object: export its session again\.$"):
        describe_facts(Store(tmp_path).cases("testbed").collect())


def test_another_fabric_pinning_or_stack_is_not_looked_at(tmp_path: Path) -> None:
    write_nights(tmp_path, where={"fabric": "shm"})
    write_nights(tmp_path, NIGHTS, where={"pinning": "scatter"})
    write_nights(tmp_path, 2 * NIGHTS, stacks=("mpich-spack",))
    write_session(tmp_path, 99)
    assert sentence(tmp_path) == (
        "history of openmpi-spack 5.0.10 on node, eth1g: 1 session; 5 are needed to know how much nights differ"
    )


def test_one_night_is_no_history_and_nothing_is_called_one(tmp_path: Path) -> None:
    write_nights(tmp_path, count=1)
    write_session(tmp_path, 1)
    found = accept.decide(Store(tmp_path), "latest~1", "latest")
    assert found.decision == INCONCLUSIVE
    assert (
        "history of openmpi-spack 5.0.10 on node, eth1g: 1 session; 5 are needed to know how much nights differ" in found.notes
    )


def test_a_long_history_ends_with_the_newest_unless_a_selector_says_so(tmp_path: Path) -> None:
    write_nights(tmp_path, count=MOST_SESSIONS + 5, sizes=SIZES[:2])
    found = find(tmp_path)
    assert len(found.strata[0].sessions) == MOST_SESSIONS
    assert not_used(found) == {f"older than the newest {MOST_SESSIONS}": 4}
    assert find(tmp_path, selector="20260101:now").strata[0].count == MOST_SESSIONS + 5
    assert find(tmp_path, selector="20260401:now").strata[0].count == 9
    with refused_as("selector-empty"):
        find(tmp_path, selector="20200101:20200102")


def test_a_side_of_two_versions_has_no_history(tmp_path: Path) -> None:
    write_nights(tmp_path)
    write_session(tmp_path, NIGHTS, mpi_version="5.0.11")
    write_session(tmp_path, NIGHTS + 1, mpi_version="5.0.11")
    found = accept.decide(Store(tmp_path), "latest~2,latest~1", "latest")
    assert set(found.judgement.metrics["sessions"]) == {2}
    assert any("no one history" in one and "MPI versions 5.0.10 and 5.0.11" in one for one in found.notes)


def test_a_baseline_unlike_its_history_is_not_held_against_it(tmp_path: Path) -> None:
    """The last night before the upgrade was slower already: the upgrade is not refused for that."""
    write_nights(tmp_path)
    for number in (NIGHTS, NIGHTS + 1):
        write_session(tmp_path, number, change=by(1.1), noise=0.004)
    found = accept.decide(Store(tmp_path), "latest~1", "latest")
    assert found.decision == INCONCLUSIVE
    assert set(found.judgement.metrics["sessions"]) == {1}
    (said,) = [one for one in found.notes if one.startswith("the baseline is unlike its history")]
    assert "% lower bandwidth in the baseline than in the 8 sessions before it" in said


def test_few_nights_show_how_much_nights_differ(tmp_path: Path) -> None:
    """Four nights that differ by 5 % refuse none that is 9 % slower; nothing is said to be seen that would not be."""
    for number, value in enumerate((1.0, 1.06, 0.95, 1.02)):
        write_session(tmp_path, number, change=by(value))
    write_session(tmp_path, 4, change=by(1.09))
    found = accept.decide(Store(tmp_path), "latest~1", "latest")
    assert found.decision == INCONCLUSIVE
    assert set(found.judgement.metrics["seen_percent"]) == {None}
    assert found.headline.endswith("against 4 sessions: no loss would be called of 21 metrics")


def test_the_record_has_the_history_and_its_values(tmp_path: Path) -> None:
    write_nights(tmp_path, count=3, mpi_version="4.1.6")
    write_nights(tmp_path, 3)
    write_session(tmp_path, 99)
    out = tmp_path / "out"
    words = ["--baseline", "latest~1", "--dataset-only", "--dataset", str(tmp_path), "--out", str(out)]
    assert cli.main(["accept", *words]) == 0
    record = json.loads((out / "accept.json").read_text())
    (stratum,) = record["history"]["strata"]
    assert (len(stratum["sessions"]), stratum["named"], stratum["enough"]) == (NIGHTS - 1, 1, True)
    assert stratum["left_out"] == [{"why": "with MPI version 4.1.6", "sessions": 3}]
    assert record["history"]["values"] == 5 * 21 * (NIGHTS - 1)
    assert record["options"]["history"] is None
    assert len(record["baseline"]["sessions"]) == 1
    first = record["history"]["values_sha256"]
    assert cli.main(["accept", *words, "--history", "none"]) == 3
    assert json.loads((out / "accept.json").read_text())["history"]["values_sha256"] != first


def test_a_damaged_session_of_long_ago_stops_nobody(tmp_path: Path) -> None:
    write_nights(tmp_path)
    write_session(tmp_path, 50, night=2, edit=lambda row: {**row, "value": float("nan")})
    write_session(tmp_path, 99)
    found = find(tmp_path)
    assert found.strata[0].count == NIGHTS + 1
    assert any("is not used as history" in one and "nan" in one for one in found.sentences())


def test_renamed_stacks_keep_their_history(tmp_path: Path) -> None:
    write_nights(tmp_path, stacks=("old-name",))
    write_session(tmp_path, 99, stacks=("new-name",))
    found = accept.decide(Store(tmp_path), "latest~1", "latest", AcceptanceOptions(rename={"old-name": "new-name"}))
    assert units(found) == {comparison.SESSIONS}
    assert any(one.startswith("history of new-name 5.0.10 on node, eth1g: 8 sessions") for one in found.notes)


def test_two_sessions_are_compared_with_the_history_of_the_first_on_the_same_nodes(tmp_path: Path) -> None:
    write_nights(tmp_path)
    write_nights(tmp_path, 20, 2, night=1, where={"nodelist": "n3,n4"})
    write_session(tmp_path, 99)
    found = pairing.pair(Store(tmp_path), "latest", "session", "latest~1", "latest")
    assert set(found.metrics["units"]) == {comparison.SESSIONS}
    assert not_used(found.past) == {"with another node list": 2}
    allowed = pairing.pair(Store(tmp_path), "latest", "session", "latest~1", "latest", allow=["nodelist"])
    assert not_used(allowed.past) == {}
    alone = pairing.pair(Store(tmp_path), "latest", "session", "latest~1", "latest", history="none")
    assert set(found.metrics["sessions"]) == {NIGHTS} and set(alone.metrics["sessions"]) == {1}
    with refused_as("history-of-sessions-only"):
        pairing.pair(Store(tmp_path), "latest", "stack", "a", "b", history="none")


def test_constant_values_and_zeros_in_a_history_are_no_certainty(tmp_path: Path) -> None:
    def zero(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "value": 0.0} if (row["benchmark"], row["message_bytes"]) == ("Uniband", 4096) else row

    for number in range(NIGHTS):
        write_session(tmp_path, number, noise=0.0, edit=zero if number in (2, 3, 4) else lambda row: row)
    write_session(tmp_path, NIGHTS, noise=0.0, change=by(1.001))
    found = accept.decide(Store(tmp_path), "latest~1", "latest")
    assert found.decision == ACCEPTED
    rows = {(row["benchmark"], row["message_bytes"]): row for row in found.judgement.metrics.to_dicts()}
    assert (rows["Uniband", 4096]["baseline_jobs"], rows["Uniband", 1024]["baseline_jobs"]) == (NIGHTS - 3, NIGHTS)
    write_session(tmp_path, NIGHTS + 1, noise=0.0, change=by(1.1))
    assert accept.decide(Store(tmp_path), "latest~1", "latest").decision == REFUSED


@pytest.mark.parametrize(
    "baseline",
    [[{}], [{"change": by(1.3)}], [{"mpi_version": "5.0.9", "change": by(1.3)}, {}]],
    ids=["like its history", "unlike its history", "mixed"],
)
def test_what_is_measured_on_no_fabric_is_judged_as_what_is(tmp_path: Path, baseline: list[dict[str, Any]]) -> None:
    """The memory of a node, say: the same values give the same answer, and no sentence names a fabric."""
    found = []
    for fabric in ("eth1g", None):
        folder = tmp_path / str(fabric)
        where = {"fabric": fabric, "pinning": None}
        write_nights(folder, where=where, labels={"run": "a"})
        for number, options in enumerate([*baseline, {"change": by(1.04)}], start=NIGHTS):
            labels = {"run": "a"} if number < NIGHTS + len(baseline) else {"run": "b"}
            write_session(folder, number, noise=0.004, where=where, labels=labels, **options)
        names = [f"latest~{count}" for count in range(len(baseline), 0, -1)]
        found.append(accept.decide(Store(folder), ",".join(names), "latest"))
    on, off = found
    assert on.decision == off.decision and on.judgement.metrics.drop("fabric").equals(off.judgement.metrics.drop("fabric"))
    assert [one.replace(", eth1g", "") for one in on.notes] == list(off.notes)
    assert any("openmpi-spack" in one for one in off.notes)


POLICY = Policy(margins_percent={"latency_us": 2.0, "bandwidth_mb_per_s": 2.0})


def night(spread: float, number: int, slower: float = 0.0) -> Callable[[str, int, str], float]:
    """What all metrics of a session share."""
    factor = float(np.exp(spread * np.random.default_rng(300 + number).standard_normal())) * (1 + slower)
    return lambda *_: factor


def write_unsteady(folder: Path, spread: float, slower: float = 0.0, **options: object) -> None:
    for number in range(NIGHTS):
        write_session(folder, number, change=night(spread, number), **options)
    write_session(folder, NIGHTS, change=night(spread, NIGHTS, slower), **options)


def judged(folder: Path, baseline: str, **options: Any) -> comparison.Judgement:
    sides = [Store(folder).select("testbed", name) for name in (baseline, "latest")]
    return comparison.judge(sides[0], sides[1], POLICY, **options)


#: All sessions of :func:`write_nights` but the last.
HISTORY = "20260101:20260113"


def test_a_machine_that_changes_from_night_to_night_is_not_refused_for_it(tmp_path: Path) -> None:
    write_unsteady(tmp_path, spread=0.04)
    against = {baseline: judged(tmp_path, baseline) for baseline in (HISTORY, "20260109:20260110")}
    assert set(against[HISTORY].metrics["units"]) == {comparison.SESSIONS}
    assert against[HISTORY].verdict != REGRESSED
    assert against["20260109:20260110"].verdict == INCONCLUSIVE, "what one night alone cannot know"


def test_a_slower_night_is_found_against_a_quiet_history(tmp_path: Path) -> None:
    write_unsteady(tmp_path, spread=0.002, slower=0.05)
    judgement = judged(tmp_path, HISTORY)
    assert judgement.counts()["regressed"] == judgement.metrics.height == 21
    assert judgement.metrics["slower"].to_numpy() == pytest.approx(0.05, abs=0.015)
    row = judgement.metrics.row(5, named=True)
    assert (row["baseline_jobs"], row["candidate_jobs"]) == (NIGHTS, 1)


def test_a_history_that_is_too_wild_says_how_many_sessions_would_decide(tmp_path: Path) -> None:
    write_unsteady(tmp_path, spread=0.03)
    found = accept.decide(Store(tmp_path), HISTORY, "latest")
    needed = found.judgement.metrics["needed"].drop_nulls()
    assert found.decision == INCONCLUSIVE
    assert len(needed) and needed.is_between(2, 20).all()


def test_two_stacks_are_no_history_of_one_another(tmp_path: Path) -> None:
    write_unsteady(tmp_path, spread=0.002)
    judgement = judged(tmp_path, HISTORY, asked=comparison.Asked.SIDES)
    assert set(judgement.metrics["units"]) == {comparison.REPEATS}


def test_sessions_of_several_versions_or_depths_are_no_history(tmp_path: Path) -> None:
    write_unsteady(tmp_path / "versions", spread=0.002)
    write_session(tmp_path / "versions", 2, mpi_version="4.1.6")
    write_unsteady(tmp_path / "depths", spread=0.002, condition={"depth": "nightly"})
    write_session(tmp_path / "depths", 2, condition={"depth": "smoke"})
    for name, said in (("versions", "MPI versions 4.1.6 and 5.0.10"), ("depths", "levels nightly and smoke")):
        found = accept.decide(Store(tmp_path / name), HISTORY, "latest")
        assert any("are no one history" in one and said in one for one in found.notes)


def test_gaps_in_a_history_are_nights_that_are_not_there(tmp_path: Path) -> None:
    """A metric that some nights lack is judged by those that have it, and one of few nights as one without a history."""
    for number in range(NIGHTS + 1):
        sizes = (8, 4096) if number in (1, 4) else (8, 4096, 1048576)
        benchmarks = {"PingPong": "latency_us"} | ({"Uniband": "bandwidth_mb_per_s"} if number > 5 else {})
        write_session(tmp_path, number, sizes=sizes, benchmarks=benchmarks, noise=0.002)
    rows = {(row["benchmark"], row["message_bytes"]): row for row in judged(tmp_path, HISTORY).metrics.to_dicts()}
    assert rows["PingPong", 1048576]["units"] == comparison.SESSIONS
    assert rows["PingPong", 1048576]["ratio"] == pytest.approx(1, abs=0.01)
    few = rows["Uniband", 4096]
    assert (few["sessions"], few["verdict"]) == (2, INCONCLUSIVE)
