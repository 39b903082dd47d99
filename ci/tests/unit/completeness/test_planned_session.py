"""A planned session: what was not planned is not missing, what was planned is; an untrusted plan excuses nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mpibench.judge import drift, expected, gate
from mpibench.judge.plan import record
from mpibench.judge.plan.record import ListedCase, PlannedCase, PlanRecord, Prediction
from mpibench.store import records
from mpibench.store.sessions import CONFIRMS
from mpibench.store.store import Store
from synthetic_session import gate as gate_of
from synthetic_stack import write_stack
from synthetic_verdicts import FIRST, write_session

STACKS = ("a-spack", "b-spack")
#: Test, group, processes per node: two cases a stack of one group, one of another.
CASES = (("ImbPointToPoint", "p2p", 1), ("ImbPointToPoint", "p2p", 2), ("ImbCollectives", "collectives", 2))


def name(test: str, ppn: int) -> str:
    return f"{test} %fabric=eth1g %nodes=2 %ppn={ppn} %pinning=bunch"


ALL = {ListedCase("node", stack, name(test, ppn)): (group, ppn) for stack in STACKS for test, group, ppn in CASES}
FIRST_ONES = [case for case in ALL if case.stack == "a-spack" and case.group == "p2p"]


def plan(
    folder: Path, number: int, planned: Iterable[ListedCase], known: Iterable[ListedCase] = tuple(ALL), system: str = "testbed"
) -> PlanRecord:
    """The plan of a night, in the dataset."""
    chosen = set(planned)
    day = (FIRST + timedelta(days=number)).date()
    rows = tuple(PlannedCase(case, case in chosen, "smoke" if case in chosen else "no room tonight", None, 1) for case in known)
    made = PlanRecord(system, day, "nightly", "nightly", "30m", 7, Prediction(1, 1, 1.0, 1.0), 9, 9, (), rows)
    made.write(folder / "set")
    return made


def night(folder: Path, number: int, ran: Iterable[ListedCase], planned: PlanRecord | None = None, **options: object) -> str:
    wheres = [
        {"name": case.name, "group": ALL[case][0], "ppn": ALL[case][1], "ppn_symbol": str(ALL[case][1]), "stack": case.stack}
        for case in ran
    ]
    labels = {"run": "nightly", **({record.LABEL: planned.id} if planned else {})}
    stacks = {"stacks": ("unused",)}
    return write_session(folder / "set", number, sizes=(8,), where=wheres, labels=labels, **stacks, **options)  # type: ignore[arg-type]


def judge(folder: Path, session: str) -> expected.Completeness:
    return expected.judge(Store(folder / "set"), "testbed", session, root=folder)


def test_what_was_not_planned_is_not_missing(tmp_path: Path) -> None:
    night(tmp_path, 0, ALL)
    made = plan(tmp_path, 1, FIRST_ONES)
    answer = judge(tmp_path, night(tmp_path, 1, FIRST_ONES, made))
    assert answer.complete, answer.lines()
    assert f"plan {made.id} of 2026-01-06: 2 of 6 cases" in answer.summary
    assert not judge(tmp_path, night(tmp_path, 2, FIRST_ONES)).complete, "without the plan it is"


def test_a_planned_case_that_did_not_run_is_missing(tmp_path: Path) -> None:
    night(tmp_path, 0, ALL)
    made = plan(tmp_path, 1, FIRST_ONES)
    answer = judge(tmp_path, night(tmp_path, 1, FIRST_ONES[:1], made))
    assert any(
        line.startswith("missing: planned and not proven: partition node, stack a-spack, fabric eth1g, group p2p: ")
        and "%ppn=2 %pinning=bunch (did not run)" in line
        for line in answer.missing
    ), answer.lines()


def test_on_a_first_night_a_planned_case_that_failed_is_missing_and_one_that_was_skipped_is_a_note(tmp_path: Path) -> None:
    made = plan(tmp_path, 0, FIRST_ONES)
    failed = night(tmp_path, 0, FIRST_ONES, made, result="fail", evidence="contradicted")
    [line] = [line for line in judge(tmp_path, failed).missing if "planned and not proven" in line]
    assert line.count("(fail: without proof)") == 2
    one = plan(tmp_path, 1, FIRST_ONES)
    where = [
        {"name": case.name, "group": "p2p", "ppn": ALL[case][1], "stack": "a-spack", "result": result, "evidence": proof}
        for case, result, proof in zip(FIRST_ONES, ("pass", "skip"), ("proven", ""), strict=True)
    ]
    where[1]["reason"] = "no such rail"
    labels = {"run": "nightly", record.LABEL: one.id}
    answer = judge(tmp_path, write_session(tmp_path / "set", 1, sizes=(8,), where=where, labels=labels))
    assert answer.complete, answer.lines()
    assert answer.notes == (f"planned and skipped, never proven here: {FIRST_ONES[1].name}: no such rail",)


def test_what_failed_is_expected_until_it_is_proven_again_planned_or_not(tmp_path: Path) -> None:
    night(tmp_path, 0, ALL)
    rest = [case for case in ALL if case not in FIRST_ONES]
    night(tmp_path, 1, rest, plan(tmp_path, 1, rest), result="fail", evidence="contradicted")
    answer = judge(tmp_path, night(tmp_path, 2, FIRST_ONES, plan(tmp_path, 2, FIRST_ONES)))
    assert not answer.complete and any("stack b-spack" in line for line in answer.missing), answer.lines()
    night(tmp_path, 3, rest, plan(tmp_path, 3, rest))
    assert judge(tmp_path, night(tmp_path, 4, FIRST_ONES, plan(tmp_path, 4, FIRST_ONES))).complete


def test_a_case_that_no_longer_exists_is_a_hole_as_ever(tmp_path: Path) -> None:
    night(tmp_path, 0, ALL)
    made = plan(tmp_path, 1, FIRST_ONES, known=[case for case in ALL if case.stack == "a-spack"])
    answer = judge(tmp_path, night(tmp_path, 1, FIRST_ONES, made))
    assert any("missing: stack b-spack: none of the " in line for line in answer.missing), answer.lines()
    path = expected.path_of("testbed", tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text("retired: [{stack: b-spack, date: 2026-01-05, reason: gone}]")
    made = plan(tmp_path, 2, FIRST_ONES, known=[case for case in ALL if case.stack == "a-spack"])
    assert judge(tmp_path, night(tmp_path, 2, FIRST_ONES, made)).complete


def test_a_registered_stack_and_a_fabric_are_expected_where_they_were_planned(tmp_path: Path) -> None:
    for stack in STACKS:
        write_stack(tmp_path / "environments" / stack, name=stack)
    path = tmp_path / "site_configs" / "testbed" / "system.py"
    path.parent.mkdir(parents=True)
    fabrics = {"eth1g": {"transport": "tcp", "scope": "cluster", "rails": [{"device": "eth0"}]}}
    partition = {"name": "node", "scheduler": "local", "launcher": "local", "extras": {"fabrics": fabrics}}
    system = {"name": "testbed", "descr": "x", "hostnames": ["x"], "partitions": [partition]}
    path.write_text(f"system = {system!r}\n")
    answer = judge(tmp_path, night(tmp_path, 0, FIRST_ONES, plan(tmp_path, 0, FIRST_ONES)))
    assert answer.complete, answer.lines()
    assert (answer.expected, answer.there) == (2, 2), "of stack b-spack no case was planned"
    rest = [case for case in ALL if case.stack == "b-spack"]
    answer = judge(tmp_path, night(tmp_path, 1, FIRST_ONES, plan(tmp_path, 1, [*FIRST_ONES, *rest])))
    assert any("stack b-spack" in line for line in answer.missing), answer.lines()


@pytest.mark.parametrize("wrong", ["absent", "edited", "another day", "another system"])
def test_a_plan_that_cannot_be_trusted_is_red_and_excuses_nothing(tmp_path: Path, wrong: str) -> None:
    night(tmp_path, 0, ALL)
    system = "elsewhere" if wrong == "another system" else "testbed"
    made = plan(tmp_path, 3 if wrong == "another day" else 1, FIRST_ONES, system=system)
    [path] = (tmp_path / "set" / record.FOLDER).glob(f"*{made.id}.json")
    if wrong == "absent":
        path.unlink()
    elif wrong == "edited":
        path.write_text(made.text.replace("no room tonight", "no room today"))
    session = night(tmp_path, 1, FIRST_ONES, made)
    answer = judge(tmp_path, session)
    assert any(line.startswith("plan: ") for line in answer.missing), answer.lines()
    assert any("group collectives" in line or "stack b-spack" in line for line in answer.missing), "everything is expected"
    found = gate.decide(Store(tmp_path / "set"), "testbed", session, max_age_hours=24 * 3650, root=tmp_path)
    assert not found.passed


def test_the_gate_and_drift_know_the_plan(tmp_path: Path) -> None:
    for number in range(4):
        night(tmp_path, number, ALL, plan(tmp_path, number, ALL))
    session = night(tmp_path, 4, FIRST_ONES, plan(tmp_path, 4, FIRST_ONES))
    found = gate.decide(Store(tmp_path / "set"), "testbed", session, max_age_hours=24 * 3650, root=tmp_path)
    assert found.problems.missing == []
    history = drift.read(Store(tmp_path / "set"))
    assert drift.absent(history) == [], "what was not planned is not absent"
    assert drift.absent(replace(history, planned=False)) != [], "as it would be of a whole night"


REST = [case for case in ALL if case not in FIRST_ONES]
MISSED_REFERENCE = {"gates": [gate_of("bandwidth", 23.0, 100.0)], "result": "fail", "fail_phase": "performance"}
#: What becomes of cases that were proven before, and is not right.
WRONG = {
    "skipped": {"result": "skip", "evidence": "", "reason": "no program"},
    "timed out": {"result": "fail", "evidence": "missing", "fail_phase": "sanity", "reason": "timed out"},
    "missed a reference": MISSED_REFERENCE,
}


def odd_night(folder: Path, number: int, odd: Iterable[ListedCase], right: Iterable[ListedCase], how: dict[str, object]) -> str:
    """A planned night in which some cases are not right."""
    made = plan(folder, number, [*odd, *right])
    places = [{"name": case.name, "group": ALL[case][0], "ppn": ALL[case][1], "stack": case.stack} for case in (*odd, *right)]
    wheres = [{**place, **(how if at < len(list(odd)) else {})} for at, place in enumerate(places)]
    labels = {"run": "nightly", record.LABEL: made.id}
    return write_session(folder / "set", number, sizes=(8,), where=wheres, labels=labels)


@pytest.mark.parametrize("how", WRONG)
def test_what_was_not_right_is_expected_until_it_is_right_again(tmp_path: Path, how: str) -> None:
    """Also two nights later; and the next plan begins with it."""
    for number in range(6):
        night(tmp_path, number, ALL, plan(tmp_path, number, ALL))
    odd_night(tmp_path, 6, REST[:1], FIRST_ONES, WRONG[how])
    for number in (7, 8):
        answer = judge(tmp_path, night(tmp_path, number, FIRST_ONES, plan(tmp_path, number, FIRST_ONES)))
        [line] = [line for line in answer.missing if "not right when last tried and not planned" in line]
        assert how.partition(" ")[0] in line and "on 2026-01-11" in line and REST[0].name in line
    before = record.read_past(Store(tmp_path / "set"), "testbed", "nightly", (FIRST + timedelta(days=9)).date())
    assert list(before.owed) == REST[:1] and before.owed[REST[0]].proven == (
        (FIRST + timedelta(days=6)).date() if how == "missed a reference" else (FIRST + timedelta(days=5)).date()
    )
    right_night(tmp_path, 9, "n1,n2", {})
    assert judge(tmp_path, night(tmp_path, 10, FIRST_ONES, plan(tmp_path, 10, FIRST_ONES))).complete


def test_a_missed_reference_that_was_reached_again_is_right_and_one_that_other_nodes_reached_is_not(tmp_path: Path) -> None:
    for nodes, complete in (("n2,n1", True), ("n3,n4", False)):
        top = tmp_path / nodes
        night(top, 0, ALL)
        first = odd_night(top, 1, REST[:1], FIRST_ONES, MISSED_REFERENCE)
        reached = {"gates": [gate_of("bandwidth", 99.0, 100.0)], "nodelist": nodes, "stack": REST[0].stack}
        where = {**reached, "name": REST[0].name, "group": ALL[REST[0]][0], "ppn": ALL[REST[0]][1]}
        labels = {"run": "confirmation", CONFIRMS: first}
        write_session(top / "set", 30, sizes=(8,), where=where, labels=labels, started=FIRST + timedelta(days=1, hours=1))
        answer = judge(top, night(top, 2, FIRST_ONES, plan(top, 2, FIRST_ONES)))
        assert answer.complete is complete, answer.lines()


def right_night(folder: Path, number: int, nodes: str, condition: dict[str, object], metric: str = "bandwidth") -> str:
    """A planned night that reaches the reference of what was owed, on some nodes."""
    made = plan(folder, number, REST[:1])
    where = {"name": REST[0].name, "group": ALL[REST[0]][0], "ppn": ALL[REST[0]][1], "stack": REST[0].stack, "nodelist": nodes}
    where["gates"] = [gate_of(metric, 99.0, 100.0)]
    labels = {"run": "nightly", record.LABEL: made.id}
    return write_session(folder / "set", number, sizes=(8,), where=where, labels=labels, condition=condition)


@pytest.mark.parametrize("how", ["timed out", "missed a reference"])
@pytest.mark.parametrize(
    ("nodes", "depth", "metric", "settled"),
    [
        ("n2,n1", "nightly", "bandwidth", True),
        ("n1,n3", "nightly", "bandwidth", False),
        ("n1,n2", "smoke", "bandwidth", False),
        ("n1,n2", "nightly", "another", None),
    ],
)
def test_what_was_not_right_is_right_again_on_the_same_nodes_only(
    tmp_path: Path, how: str, nodes: str, depth: str, metric: str, settled: bool | None
) -> None:
    """And under the same condition, with the references that were missed; a night elsewhere says so."""
    if settled is None:
        settled = how == "timed out"
    night(tmp_path, 0, ALL)
    wrong = odd_night(tmp_path, 1, REST[:1], FIRST_ONES, {**WRONG[how], "condition": '{"depth": "nightly"}'})
    answer = judge(tmp_path, right_night(tmp_path, 2, nodes, {"depth": depth}, metric))
    lines = [line for line in answer.missing if "not measured again as it was when it was not right" in line]
    assert bool(lines) is not settled, answer.lines()
    assert all(f"{how}" in line and "on 2026-01-06 on n1, n2; tonight" in line for line in lines)
    other = {"n1,n3": "on n1, n3"}.get(nodes) or (
        "with depth smoke and not nightly" if depth == "smoke" else "without bandwidth"
    )
    assert all(f"; tonight {other})" in line for line in lines)
    before = record.read_past(Store(tmp_path / "set"), "testbed", "nightly", (FIRST + timedelta(days=3)).date())
    assert (REST[0] in before.owed) is not settled
    if not settled:
        assert before.owed[REST[0]].nodes == ("n1", "n2") and before.owed[REST[0]].session == wrong
    right_night(tmp_path, 3, "n1,n2", {"depth": "nightly"})
    assert not record.read_past(Store(tmp_path / "set"), "testbed", "nightly", (FIRST + timedelta(days=4)).date()).owed


def test_what_other_nodes_did_wrong_too_is_owed_on_both(tmp_path: Path) -> None:
    night(tmp_path, 0, ALL)
    for number, nodes in ((1, "n1,n2"), (2, "n3,n4")):
        odd_night(tmp_path, number, REST[:1], FIRST_ONES, {**MISSED_REFERENCE, "nodelist": nodes})
    for number, nodes, rest in ((3, "n3,n4", ("n1", "n2")), (4, "n1,n2", None)):
        right_night(tmp_path, number, nodes, {})
        owed = record.read_past(Store(tmp_path / "set"), "testbed", "nightly", (FIRST + timedelta(days=number + 1)).date()).owed
        assert (owed[REST[0]].nodes if owed else None) == rest


def test_a_planned_case_that_did_not_run_is_expected_the_night_after(tmp_path: Path) -> None:
    night(tmp_path, 0, ALL)
    night(tmp_path, 1, FIRST_ONES, plan(tmp_path, 1, [*FIRST_ONES, REST[0]]))
    answer = judge(tmp_path, night(tmp_path, 2, FIRST_ONES, plan(tmp_path, 2, FIRST_ONES)))
    assert any("did not run on 2026-01-06" in line for line in answer.missing), answer.lines()


def test_what_failed_and_was_never_proven_is_not_forgotten_when_its_stack_goes(tmp_path: Path) -> None:
    night(tmp_path, 0, FIRST_ONES)
    odd_night(tmp_path, 1, REST[-1:], FIRST_ONES, WRONG["timed out"])
    known = [case for case in ALL if case.stack == "a-spack"]
    session = night(tmp_path, 2, FIRST_ONES, plan(tmp_path, 2, FIRST_ONES, known=known))
    assert any("it no longer exists" in line for line in judge(tmp_path, session).missing)
    path = expected.path_of("testbed", tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text("retired: [{stack: b-spack, date: 2026-01-07, reason: gone}]")
    assert judge(tmp_path, session).complete


def test_a_session_that_was_withdrawn_leaves_nothing_owed(tmp_path: Path) -> None:
    night(tmp_path, 0, ALL)
    Store(tmp_path / "set").withdraw(odd_night(tmp_path, 1, REST[:1], FIRST_ONES, MISSED_REFERENCE), "a wrong cable")
    assert judge(tmp_path, night(tmp_path, 2, FIRST_ONES, plan(tmp_path, 2, FIRST_ONES))).complete


def test_a_plan_that_does_not_keep_what_it_promises_is_red(tmp_path: Path) -> None:
    night(tmp_path, 0, ALL)
    made = replace(plan(tmp_path, 1, FIRST_ONES), broken=("3 pairs of values come too late",))
    made.write(tmp_path / "set")
    answer = judge(tmp_path, night(tmp_path, 1, FIRST_ONES, made))
    assert answer.missing == ("plan: 3 pairs of values come too late",)


def test_a_plan_of_nothing_is_red(tmp_path: Path) -> None:
    night(tmp_path, 0, ALL)
    answer = judge(tmp_path, night(tmp_path, 1, FIRST_ONES, plan(tmp_path, 1, [])))
    assert answer.expected == 0 and not answer.complete, answer.lines()


def test_what_was_slower_than_the_nights_before_is_owed_until_a_night_held_it_against_them(tmp_path: Path) -> None:
    """No reference was missed. A night that nothing was held against does not clear it; tonight's is about to be."""
    slow = REST[0]
    key = (slow.partition, slow.stack, slow.name)
    night(tmp_path, 0, ALL)
    sessions = [night(tmp_path, 1, ALL, plan(tmp_path, 1, ALL))]
    records.answer(tmp_path / "set", sessions[0], records.NIGHT, "nightly", [], slower=[key])
    answer = judge(tmp_path, night(tmp_path, 2, FIRST_ONES, plan(tmp_path, 2, FIRST_ONES)))
    [line] = [line for line in answer.missing if "not right when last tried and not planned" in line]
    assert f"{slow.name} (slower than the nights before on 2026-01-06" in line
    sessions.append(night(tmp_path, 3, [slow], plan(tmp_path, 3, [slow])))
    assert judge(tmp_path, sessions[1]).complete, "its own judgement is the gate's"
    for slower, complete in ((None, False), ([key], False), ([], True)):
        records.answer(tmp_path / "set", sessions[1], records.NIGHT, "nightly", [], slower=slower)
        answer = judge(tmp_path, night(tmp_path, 4, FIRST_ONES, plan(tmp_path, 4, FIRST_ONES)))
        assert answer.complete is complete, answer.lines()
