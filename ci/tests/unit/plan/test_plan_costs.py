"""What cases cost: as they did in the last nights, the newest counts; else
by a model that is scaled by what was measured.
"""

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


def case(
    test: str = "ImbPointToPoint", fabric: str = "hdr200", nodes: str = "2", ppn: str = "1"
) -> ListedCase:
    return ListedCase(
        "compute",
        "openmpi-spack",
        f"{test} %fabric={fabric} %nodes={nodes} %ppn={ppn} %pinning=bunch",
    )


def known(level: str = "nightly", repeats: int = 3, **seconds: tuple[float, ...]) -> Costs:
    """Costs where tests by name took so long before."""
    histories = {
        case(test): CaseHistory(DAY, DAY, False, took, "s") for test, took in seconds.items()
    }
    return Costs(PARTITIONS, {"compute": NODE}, PastNights(cases=histories), level, repeats)


@pytest.mark.parametrize(
    ("seconds", "wanted"), [((10,), 10), ((10, 30, 11), 11), ((10, 10, 40), 40), ((40, 40, 10), 10)]
)
def test_the_newest_counts_where_costs_changed(seconds: tuple[float, ...], wanted: float) -> None:
    assert known(ImbPointToPoint=seconds).of(case()) == (wanted, 2, 4, True)


def test_the_model_knows_sizes_repetitions_rates_and_ranks() -> None:
    def seconds(costs: Costs, *test: str, **asked: str) -> float:
        return costs.estimate(case(*test, **asked)).seconds

    pair = seconds(known())
    many = seconds(known(), "ImbCollectives", ppn="full")
    assert pair < seconds(known(), fabric="eth25g")
    assert pair < many < seconds(known(), "ImbCollectives", ppn="full", nodes="64")
    assert seconds(known("smoke")) < pair < seconds(known(repeats=5))
    launches = known().estimate(case("ImbParallelTransfer")).launches
    assert launches == 1 + 3 * 2, "a check, and two programs three times"
    assert known().of(case("MyRing")).seconds == making.UNKNOWN_S


def with_extras(**extras: Any) -> Costs:
    compute = PARTITIONS["compute"]
    described = {**compute, "extras": {**compute["extras"], **extras}}
    return Costs({"compute": described}, {"compute": NODE}, PastNights(), "nightly", 3)


def test_ranks_that_share_cores_cost_more_and_what_shares_an_allocation_less() -> None:
    crowd = case("ImbCollectives", ppn="2")
    few = with_extras(most_timed_ranks=2)
    assert few.estimate(crowd).seconds > 2 * known().estimate(crowd).seconds
    assert few.estimate(case()) == known().estimate(case()), "two ranks have a core each"
    shared = with_extras(share_allocations={})
    less = known().estimate(case()).seconds - shared.estimate(case()).seconds
    assert less == pytest.approx(making.JOB_S - making.SHARED_S) and less > 0


def test_the_model_is_scaled_by_what_was_measured() -> None:
    doubled = known(ImbPointToPoint=(2 * known().estimate(case()).seconds,))
    for asked in (case(fabric="eth25g"), case("ImbCollectives")):
        found = doubled.of(asked)
        assert found.seconds == pytest.approx(2 * known().of(asked).seconds)
        assert not found.measured


def night(seconds: float | None, job_seconds: float) -> EarlierNight:
    return EarlierNight(
        "s", datetime(2026, 11, 22, tzinfo=timezone.utc), "", seconds, job_seconds, job_seconds, 3
    )


@pytest.mark.parametrize(
    ("nights", "most", "wanted"),
    [
        ([], None, 1.0),
        ([night(30, 100)], None, 0.3),
        ([night(30, 100)], 2, 0.5),
        ([night(None, 100), night(5, 0)], None, 1.0),
        ([night(110, 100), night(30, 100), night(30, 100)], None, 1.1),
        ([night(30000, 100), night(110, 100), night(110, 100)], None, 1.5),
    ],
)
def test_how_many_jobs_run_at_once_is_learned(
    nights: list[EarlierNight], most: int | None, wanted: float
) -> None:
    found = dataclasses.replace(known(), past=PastNights(sessions=tuple(nights)))
    assert found.wall_per_job_second(most) == pytest.approx(wanted)


def test_a_machine_is_read_from_its_description(tmp_path: Path) -> None:
    def read(system: str) -> Costs:
        return Costs.read(system, PastNights(), "nightly", 3, tmp_path)

    assert read("nowhere") == Costs({}, {}, PastNights(), "nightly", 3)
    described = newcomer()
    path = tmp_path / "site_configs" / "mysystem" / "system.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"system = {described!r}\n")
    assert read("mysystem").ppn(case(ppn="full")) == 64
    del described["partitions"][0]["processor"]
    path.write_text(f"system = {described!r}\n")
    detected = tmp_path / "results" / "topology" / "login1" / "mysystem-compute" / "processor.json"
    detected.parent.mkdir(parents=True)
    detected.write_text("{}")
    assert read("mysystem").ppn(case(ppn="full")) is None


def test_level_and_repeats_are_those_of_the_options() -> None:
    assert making.level_and_repeats([]) == ("nightly", 3)
    words = "-t smoke -S level=nightly -S level=smoke -S ImbPointToPoint.repeats=7"
    assert making.level_and_repeats(words.split()) == ("smoke", 7)
    for word in ("level=deep", "repeats=0"):
        with pytest.raises(BadInput):
            making.level_and_repeats(["-S", word])


MINE = ListedCase(
    "node", "openmpi-spack", "ImbPointToPoint %fabric=eth1g %nodes=2 %ppn=1 %pinning=bunch"
)


def past(folder: Path) -> PastNights:
    before = (FIRST + timedelta(days=9)).date()
    return record.read_past(Store(folder), "testbed", "nightly", before)


def write(folder: Path, number: int, seconds: float | None, **options: Any) -> str:
    where = {"name": MINE.name, "seconds": seconds, "session_seconds": 100.0}
    where |= options.pop("where", {})
    given = {"labels": {"run": "nightly"}, "sizes": (8,), "where": where, **options}
    return write_session(folder, number, **given)


def test_earlier_nights_say_when_a_case_was_measured_and_how_long_it_took(tmp_path: Path) -> None:
    assert past(tmp_path) == PastNights()
    for number, seconds in enumerate((10.0, 11.0, 12.0, 13.0)):
        write(tmp_path, number, seconds, labels={"run": "nightly", record.LABEL: f"id{number}"})
    last = write(tmp_path, 4, 14.0, result="fail", evidence="contradicted")
    write(tmp_path, 5, 99.0, labels={"run": "smoke"})
    write(tmp_path, 9, 99.0)
    found = past(tmp_path)
    days = [FIRST.date() + timedelta(days=number) for number in range(5)]
    assert found.nights == tuple(reversed(days)), "of that label, before the day"
    seconds = (11.0, 12.0, 13.0)
    assert found.cases[MINE] == CaseHistory(days[4], days[3], True, seconds, last)
    assert found.ran[days[0]] == {MINE} and not found.skipped(7)
    one = found.sessions[1]
    assert (one.plan, one.seconds, one.job_seconds) == ("id3", 100.0, 13.0)
    assert (one.node_seconds, one.jobs) == (26.0, 1)


def test_what_a_fault_made_of_a_run_is_a_cost_only_where_nothing_else_is_known(
    tmp_path: Path,
) -> None:
    """Else a night of time-outs would make the core too large for its
    budget, and no night would follow that showed better.
    """
    write(tmp_path, 0, 900.0, result="fail", evidence="missing")
    assert past(tmp_path).cases[MINE].seconds == (900.0,)
    write(tmp_path, 1, 10.0)
    for number in (2, 3, 4):
        write(tmp_path, number, 900.0, result="fail", evidence="missing")
    assert past(tmp_path).cases[MINE].seconds == (10.0,)


def test_what_was_skipped_was_tried_and_costs_nothing_known(tmp_path: Path) -> None:
    write(tmp_path, 0, 10.0)
    for number, reason in ((1, "no such rail"), (2, "not planned tonight")):
        write(tmp_path, number, None, result="skip", evidence="", where={"reason": reason})
    write(tmp_path, 3, None, result="abort", evidence="missing")
    nights = past(tmp_path)
    wall = [one.seconds for one in nights.sessions]
    assert wall == [None, 100.0, 100.0, 100.0], "the last was interrupted"
    found = nights.cases[MINE]
    first = FIRST.date()
    tried = first + timedelta(days=1)
    assert (found.tried, found.failed, found.seconds) == (tried, False, (10.0,))
    assert {day for day, cases in nights.ran.items() if cases} == {first}
    assert nights.skipped(3) == {MINE} and not nights.skipped(2), "after K nights it is tried again"


def entry(
    uuid: str,
    took: float | None,
    end: float | None,
    nodes: str,
    result: str = "pass",
    started: str = "",
) -> Any:
    known = {"time_run": took, "job_completion_time_unix": end, "job_started": started}
    return SimpleNamespace(uuid=uuid, nodelist=nodes, result=result, entry=known)


def test_a_job_did_not_run_while_it_waited_for_one_of_its_own_session() -> None:
    """Three jobs submitted at once on two nodes, and one on others; the
    second is a job that nobody knows the end of.
    """
    entries = (
        entry("a", 10.0, 110.0, "n1,n2"),
        entry("b", 30.0, 130.0, "n2,n1"),
        entry("c", 35.0, 135.0, "n1"),
        entry("d", 30.0, 130.0, "n3"),
        entry("e", 7.0, None, ""),
        entry("g", 99.0, None, "", "abort"),
        entry("a:rival", 10.0, 110.0, "n1,n2"),
    )
    found = Session({}, entries).job_seconds
    assert found == {"a": 10.0, "b": 20.0, "c": 5.0, "d": 30.0, "e": 7.0}


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
