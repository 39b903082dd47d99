"""What cases cost: as they did in the last nights, the newest counts; else by a model that is scaled by what was measured."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpibench.judge.plan import making, record
from mpibench.judge.plan.making import Costs
from mpibench.judge.plan.record import CaseHistory, EarlierNight, ListedCase, PastNights
from mpibench.store.sessions import Session
from mpibench.store.store import Store
from planned_sites import NODE, large, newcomer
from reframe_tests.harness.vocabulary import BadInput
from synthetic_verdicts import FIRST, write_session

DAY = date(2026, 11, 23)
PARTITIONS = {row["name"]: row for row in large()["partitions"]}


def case(test: str = "ImbPointToPoint", fabric: str = "hdr200", nodes: str = "2", ppn: str = "1") -> ListedCase:
    return ListedCase("compute", "openmpi-spack", f"{test} %fabric={fabric} %nodes={nodes} %ppn={ppn} %pinning=bunch")


def known(level: str = "nightly", repeats: int = 3, **seconds: tuple[float, ...]) -> Costs:
    """Costs where tests by name took so long before."""
    histories = {case(test): CaseHistory(DAY, DAY, False, took, "s") for test, took in seconds.items()}
    return Costs(PARTITIONS, {"compute": NODE}, PastNights(cases=histories), level, repeats)


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [((10,), 10), ((10, 30, 11), 11), ((10, 11, 12), 11), ((10, 10, 40), 40), ((40, 40, 10), 10), ((40, 10, 10), 10)],
)
def test_the_newest_counts_where_costs_changed(seconds: tuple[float, ...], wanted: float) -> None:
    assert making.likely_seconds(seconds) == wanted
    assert known(ImbPointToPoint=seconds).of(case()) == (wanted, 2, 4, True)


def test_the_model_knows_sizes_repetitions_rates_and_ranks() -> None:
    seconds = {name: known().estimate(case(**asked)).seconds for name, asked in {
        "pair": {}, "slow": {"fabric": "eth25g"}, "many": {"test": "ImbCollectives", "ppn": "full"},
        "most": {"test": "ImbCollectives", "ppn": "full", "nodes": "64"},
    }.items()}  # fmt: skip
    assert seconds["pair"] < seconds["slow"] and seconds["pair"] < seconds["many"] < seconds["most"]
    assert known("smoke").estimate(case()).seconds < known("nightly").estimate(case()).seconds
    assert known(repeats=3).estimate(case("ImbParallelTransfer")).launches == 1 + 3 * 2, "a check, and two programs three times"
    assert known(repeats=5).estimate(case()).seconds > known(repeats=3).estimate(case()).seconds
    assert known().estimate(case("Placement")).launches == 1


def test_ranks_that_share_cores_cost_more() -> None:
    few = {**PARTITIONS["compute"], "extras": {**PARTITIONS["compute"]["extras"], "most_timed_ranks": 2}}
    shared = Costs({"compute": few}, {"compute": NODE}, PastNights(), "nightly", 3)
    crowd = case("ImbCollectives", ppn="2")
    assert shared.estimate(crowd).seconds > 2 * known().estimate(crowd).seconds
    assert shared.estimate(case()) == known().estimate(case()), "two ranks have a core each"


def test_a_case_that_shares_an_allocation_has_no_job_to_wait_for() -> None:
    sharing = {**PARTITIONS["compute"], "extras": {**PARTITIONS["compute"]["extras"], "share_allocations": {}}}
    shared = Costs({"compute": sharing}, {"compute": NODE}, PastNights(), "nightly", 3)
    less = known().estimate(case()).seconds - shared.estimate(case()).seconds
    assert less == pytest.approx(making.JOB_S - making.SHARED_S) and less > 0


def test_of_a_test_that_nobody_knows_a_case_costs_something() -> None:
    assert known().of(case("MyRing")).seconds == making.UNKNOWN_S


def test_the_model_is_scaled_by_what_was_measured() -> None:
    plain, other = known().of(case(fabric="eth25g")).seconds, known().of(case("ImbCollectives")).seconds
    doubled = known(ImbPointToPoint=(2 * known().estimate(case()).seconds,))
    assert doubled.of(case(fabric="eth25g")).seconds == pytest.approx(2 * plain)
    assert doubled.of(case("ImbCollectives")).seconds == pytest.approx(2 * other), "of another group, for want of its own"
    assert doubled.of(case()).measured and not doubled.of(case(fabric="eth25g")).measured


def night(seconds: float | None, job_seconds: float) -> EarlierNight:
    return EarlierNight("s", datetime(2026, 11, 22, tzinfo=timezone.utc), "", seconds, job_seconds, job_seconds, 3)


@pytest.mark.parametrize(
    ("nights", "most", "wanted"),
    [
        ([], None, 1.0),
        ([], 4, 1.0),
        ([night(110, 100)], None, 1.1),
        ([night(30, 100)], None, 0.3),
        ([night(30, 100)], 2, 0.5),
        ([night(None, 100), night(5, 0)], None, 1.0),
        ([night(110, 100), night(30, 100), night(30, 100)], None, 1.1),
        ([night(30000, 100), night(110, 100), night(110, 100)], None, 1.5),
    ],
)
def test_how_many_jobs_run_at_once_is_learned(nights: list[EarlierNight], most: int | None, wanted: float) -> None:
    found = dataclasses.replace(known(), past=PastNights(sessions=tuple(nights)))
    assert found.wall_per_job_second(most) == pytest.approx(wanted)


@pytest.mark.parametrize(("symbol", "number"), [("1", 1), ("12", 12), ("half", 32), ("full", 64), ("socket", 2)])
def test_processes_per_node_are_resolved_on_the_topology(symbol: str, number: int) -> None:
    assert known().ppn(case(ppn=symbol)) == number
    blind = dataclasses.replace(known(), processors={}, _ppn={})
    assert blind.ppn(case(ppn=symbol)) == (number if symbol.isdecimal() else None)


def test_a_machine_is_read_from_its_description(tmp_path: Path) -> None:
    def read(system: str) -> Costs:
        return Costs.read(system, PastNights(), "nightly", 3, tmp_path)

    assert read("nowhere") == Costs({}, {}, PastNights(), "nightly", 3)
    path = tmp_path / "site_configs" / "mysystem" / "system.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"system = {newcomer()!r}\n")
    assert read("mysystem").ppn(case(ppn="full")) == 64
    described = newcomer()
    del described["partitions"][0]["processor"]
    path.write_text(f"system = {described!r}\n")
    assert read("mysystem").ppn(case(ppn="full")) is None
    detected = tmp_path / "results" / "topology" / "login1" / "mysystem-compute" / "processor.json"
    detected.parent.mkdir(parents=True)
    detected.write_text("{}")
    assert read("mysystem").ppn(case(ppn="full")) is None


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], ("nightly", 3)),
        (["-t", "smoke", "-S", "level=smoke", "-S", "repeats=2"], ("smoke", 2)),
        (["-S", "level=smoke", "-S", "level=nightly", "-S", "ImbPointToPoint.repeats=7"], ("nightly", 7)),
    ],
)
def test_level_and_repeats_are_those_of_the_options(words: list[str], wanted: tuple[str, int]) -> None:
    assert making.level_and_repeats(words) == wanted


@pytest.mark.parametrize("word", ["level=deep", "repeats=0", "repeats=many"])
def test_bad_levels_and_repeats_are_refused(word: str) -> None:
    with pytest.raises(BadInput):
        making.level_and_repeats(["-S", word])


NAME = "ImbPointToPoint %fabric=eth1g %nodes=2 %ppn=1 %pinning=bunch"
BEFORE = (FIRST + timedelta(days=9)).date()


def write(folder: Path, number: int, seconds: float | None, **options: Any) -> str:
    where = {"name": NAME, "seconds": seconds, "session_seconds": 100.0, **options.pop("where", {})}
    return write_session(folder, number, sizes=(8,), where=where, **{"labels": {"run": "nightly"}, **options})


def test_earlier_nights_say_when_a_case_was_measured_and_how_long_it_took(tmp_path: Path) -> None:
    assert record.read_past(Store(tmp_path), "testbed", "nightly", BEFORE) == PastNights()
    for number, seconds in enumerate((10.0, 11.0, 12.0, 13.0)):
        write(tmp_path, number, seconds, labels={"run": "nightly", record.LABEL: f"id{number}"})
    last = write(tmp_path, 4, 14.0, result="fail", evidence="contradicted")
    write(tmp_path, 5, 99.0, labels={"run": "smoke"})
    write(tmp_path, 9, 99.0)
    found = record.read_past(Store(tmp_path), "testbed", "nightly", BEFORE)
    mine = ListedCase("node", "openmpi-spack", NAME)
    day = FIRST.date()
    assert found.nights == tuple(day + timedelta(days=number) for number in (4, 3, 2, 1, 0)), "of that label, before the day"
    assert found.cases[mine] == CaseHistory(day + timedelta(days=4), day + timedelta(days=3), True, (11.0, 12.0, 13.0), last)
    assert found.ran[day] == {mine} and not found.skipped(7)
    assert [(one.plan, one.seconds, one.job_seconds, one.node_seconds, one.jobs) for one in found.sessions[:2]] == [
        ("", 100.0, 14.0, 28.0, 1),
        ("id3", 100.0, 13.0, 26.0, 1),
    ]


def test_what_a_fault_made_of_a_run_is_a_cost_only_where_nothing_else_is_known(tmp_path: Path) -> None:
    """Else a night of time-outs would make the core too large for its budget, and no night would follow that showed better."""
    write(tmp_path, 0, 900.0, result="fail", evidence="missing")
    mine = ListedCase("node", "openmpi-spack", NAME)
    assert record.read_past(Store(tmp_path), "testbed", "nightly", BEFORE).cases[mine].seconds == (900.0,)
    write(tmp_path, 1, 10.0)
    for number in (2, 3, 4):
        write(tmp_path, number, 900.0, result="fail", evidence="missing")
    assert record.read_past(Store(tmp_path), "testbed", "nightly", BEFORE).cases[mine].seconds == (10.0,)


def test_what_was_skipped_was_tried_and_costs_nothing_known(tmp_path: Path) -> None:
    write(tmp_path, 0, 10.0)
    write(tmp_path, 1, None, result="skip", evidence="", where={"reason": "no such rail"})
    write(tmp_path, 2, None, result="skip", evidence="", where={"reason": "not planned tonight"})
    write(tmp_path, 3, None, result="abort", evidence="missing")
    nights = record.read_past(Store(tmp_path), "testbed", "nightly", BEFORE)
    assert [one.seconds for one in nights.sessions] == [None, 100.0, 100.0, 100.0], "the last was interrupted"
    found = nights.cases[ListedCase("node", "openmpi-spack", NAME)]
    assert (found.tried, found.failed, found.seconds) == (FIRST.date() + timedelta(days=1), False, (10.0,))
    mine, days = ListedCase("node", "openmpi-spack", NAME), [FIRST.date() + timedelta(days=number) for number in range(4)]
    assert {day: nights.ran.get(day, frozenset()) for day in days} == {days[0]: {mine}, **dict.fromkeys(days[1:], frozenset())}
    assert nights.skipped(3) == {mine} and not nights.skipped(2), "after K nights it is tried again"


def entry(uuid: str, took: float | None, end: float | None, nodes: str, result: str = "pass", started: str = "") -> Any:
    known = {"time_run": took, "job_completion_time_unix": end, "job_started": started}
    return SimpleNamespace(uuid=uuid, nodelist=nodes, result=result, entry=known)


def test_a_job_did_not_run_while_it_waited_for_one_of_its_own_session() -> None:
    """Three jobs submitted at once on two nodes, and one on others; the second is a job that nobody knows the end of."""
    session = Session(
        {},
        (
            entry("a", 10.0, 110.0, "n1,n2"),
            entry("b", 30.0, 130.0, "n2,n1"),
            entry("c", 35.0, 135.0, "n1"),
            entry("d", 30.0, 130.0, "n3"),
            entry("e", 7.0, None, ""),
            entry("f", None, None, ""),
            entry("g", 99.0, None, "", "abort"),
            entry("a:rival", 10.0, 110.0, "n1,n2"),
        ),
    )
    assert session.job_seconds == {"a": 10.0, "b": 20.0, "c": 5.0, "d": 30.0, "e": 7.0}


@pytest.mark.parametrize(
    ("started", "wanted"),
    [
        ("1970-01-01T01:01:40Z", 20.0),
        ("1970-01-01T00:01:00Z", 3610.0),  # a clock that is behind: before the job was submitted
        ("1970-01-01T01:02:01Z", 3610.0),  # and one that is ahead: after the end
        ("", 3610.0),
        ("today", 3610.0),
    ],
)
def test_what_a_job_waited_in_the_queue_is_no_cost(started: str, wanted: float) -> None:
    """An hour, and then it ran for 20 s."""
    session = Session({}, (entry("a", 3610.0, 3720.0, "n1,n2", started=started),))
    assert session.job_seconds == {"a": wanted}
