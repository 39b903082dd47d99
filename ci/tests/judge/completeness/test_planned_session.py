"""A planned session: what was not planned is not missing, what was
planned is; an untrusted plan excuses nothing.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from dataset_here import HERE, judged, write_session
from mpibench.judge import drift
from mpibench.judge.plan import record
from mpibench.judge.plan.record import ListedCase, PlannedCase, PlanRecord, Prediction
from mpibench.store import records
from mpibench.store.sessions import CONFIRMS
from mpibench.store.store import Store
from synthetic_session import gate as gate_of
from synthetic_verdicts import FIRST, NIGHTLY
from test_expected import describe, judge, write_file

STACKS = ("a-spack", "b-spack")
#: Test, group, processes per node: two cases a stack of one group, one of another.
CASES = (
    ("ImbPointToPoint", "p2p", 1),
    ("ImbPointToPoint", "p2p", 2),
    ("ImbCollectives", "collectives", 2),
)
ALL = {
    ListedCase("node", stack, f"{test} %fabric=eth1g %nodes=2 %ppn={ppn} %pinning=bunch"): {
        "stack": stack,
        "group": group,
        "ppn": ppn,
        "ppn_symbol": str(ppn),
    }
    for stack in STACKS
    for test, group, ppn in CASES
}
FIRST_ONES = [case for case in ALL if case.stack == "a-spack" and "PointToPoint" in case.name]
REST = [case for case in ALL if case not in FIRST_ONES]
LAST = REST[0]
OF_A = [case for case in ALL if case.stack == "a-spack"]


def plan(number, planned, known=tuple(ALL), system="testbed", broken=()):
    """The plan of a night, in the dataset."""
    chosen = set(planned)
    day = (FIRST + timedelta(days=number)).date()
    rows = tuple(
        PlannedCase(case, case in chosen, "smoke" if case in chosen else "no room tonight", None, 1)
        for case in known
    )
    sizes = ("30m", 7, Prediction(1, 1, 1.0, 1.0), ())
    made = replace(PlanRecord(system, day, "nightly", "nightly", *sizes, rows), broken=broken)
    made.write(HERE)
    return made


def night(number, ran=tuple(FIRST_ONES), made=None, odd=(), how=None, **options):
    """A night of a plan, of what ran where none is given; some cases are not right."""
    made = made or plan(number, [*odd, *ran])
    wheres = [{"name": case.name, **ALL[case], **(how or {})} for case in odd]
    wheres += [{"name": case.name, **ALL[case]} for case in ran]
    labels = {**NIGHTLY, record.LABEL: made.id}
    written = {"sizes": (8,), "where": wheres, "labels": labels, **options}
    return write_session(number, **written)


def last(number, how, ran=(), **options):
    """A night that tried :data:`LAST`."""
    return night(number, ran, odd=[LAST], how=how, **options)


def whole_night(number=0, ran=tuple(ALL)):
    """A night without a plan."""
    return night(number, ran, labels=NIGHTLY)


def owed(number):
    """What the plan of a night begins with."""
    day = (FIRST + timedelta(days=number)).date()
    return record.read_past(Store(HERE), "testbed", "nightly", day).owed


def retire():
    write_file("retired: [{stack: b-spack, date: 2026-01-07, reason: gone}]")


def said(answer, words):
    return any(words in line for line in answer.missing)


def test_what_was_not_planned_is_not_missing():
    """Nor for the gate, nor absent for the watch, as it would be of whole nights."""
    for number in range(4):
        night(number, ALL)
    session = night(4)
    answer = judge(session)
    assert answer.complete, answer.lines()
    assert " of 2026-01-09: 2 of 6 cases" in answer.summary
    assert judged(session, root=HERE).problems.missing == []
    history = drift.read(Store(HERE))
    assert drift.absent(history) == []
    assert drift.absent(replace(history, planned=False)) != []
    assert not judge(whole_night(5, FIRST_ONES)).complete


def test_a_planned_case_that_did_not_run_is_missing_and_so_the_night_after():
    whole_night()
    made = plan(1, [*FIRST_ONES, LAST])
    answer = judge(night(1, made=made))
    [line] = [line for line in answer.missing if "planned but not proven: partition node" in line]
    assert line.endswith("%ppn=2 %pinning=bunch (did not run)")
    assert said(judge(night(2)), "did not run on 2026-01-06")


def test_on_a_first_night_a_planned_case_that_failed_is_missing_and_one_that_was_skipped_is_a_note():
    failed = night(0, result="fail", evidence="contradicted")
    [line] = [line for line in judge(failed).missing if "planned but not proven" in line]
    assert line.count("(fail: without proof)") == 2
    one, other = FIRST_ONES
    skipped = {"result": "skip", "evidence": "", "reason": "no such rail"}
    answer = judge(night(1, [one], odd=[other], how=skipped))
    assert answer.complete, answer.lines()
    assert answer.notes == (
        f"planned but skipped, and never proven here: {other.name}: no such rail",
    )


def test_a_case_that_no_longer_exists_is_a_hole_as_ever():
    whole_night()
    answer = judge(night(1, made=plan(1, FIRST_ONES, OF_A)))
    assert said(answer, "missing: stack b-spack: none of its ")
    retire()
    made = plan(2, FIRST_ONES, OF_A)
    assert judge(night(2, made=made)).complete


def test_a_registered_stack_and_a_fabric_are_expected_where_they_were_planned():
    describe(*STACKS)
    write_file("retired: [{fabric: shm, date: 2026-01-01, reason: measured by hand}]")
    answer = judge(night(0))
    assert answer.complete, answer.lines()
    assert (answer.expected, answer.there) == (2, 2), "of stack b-spack no case was planned"
    answer = judge(night(1, made=plan(1, ALL)))
    assert said(answer, "stack b-spack")


@pytest.mark.parametrize("wrong", ["absent", "edited", "another day", "another system"])
def test_a_plan_that_cannot_be_trusted_is_red_and_excuses_nothing(wrong):
    whole_night()
    system = "elsewhere" if wrong == "another system" else "testbed"
    made = plan(3 if wrong == "another day" else 1, FIRST_ONES, system=system)
    [path] = (HERE / record.FOLDER).glob(f"*{made.id}.json")
    if wrong == "absent":
        path.unlink()
    elif wrong == "edited":
        path.write_text(made.text.replace("no room tonight", "no room today"))
    session = night(1, made=made)
    answer = judge(session)
    assert said(answer, "plan: ")
    assert said(answer, "group collectives") or said(answer, "stack b-spack")
    assert not judged(session, root=HERE).passed


@pytest.mark.parametrize("broken", [("every case comes within 9 nights",), ()])
def test_a_plan_of_nothing_or_one_that_keeps_no_promise_is_red(broken):
    whole_night()
    made = plan(1, FIRST_ONES if broken else [], broken=broken)
    answer = judge(night(1, made=made))
    assert not answer.complete, answer.lines()
    assert answer.missing == tuple(f"plan: {one}" for one in broken) or not broken


def reference(value, metric="bandwidth"):
    return {"gates": [gate_of(metric, value, 100.0)]}


RIGHT = reference(99.0)
MISSED = {**reference(23.0), "result": "fail", "fail_phase": "performance"}
#: What becomes of cases that were proven before, and is not right.
WRONG = {
    "skipped": {"result": "skip", "evidence": "", "reason": "no program"},
    "timed out": {
        "result": "fail",
        "evidence": "missing",
        "fail_phase": "sanity",
        "reason": "timed out",
    },
    "missed a reference": MISSED,
}


@pytest.mark.parametrize("how", WRONG)
def test_what_was_not_right_is_expected_until_it_is_right_again(how):
    """Also two nights later; and the next plan begins with it."""
    whole_night()
    last(1, WRONG[how], FIRST_ONES)
    for number in (2, 3):
        answer = judge(night(number))
        [line] = [line for line in answer.missing if "not right when last tried, but not" in line]
        assert how.partition(" ")[0] in line and "on 2026-01-06" in line and LAST.name in line
    assert list(owed(4)) == [LAST]
    proven = owed(4)[LAST].proven
    assert proven == (FIRST + timedelta(days=how == "missed a reference")).date()
    last(4, RIGHT)
    assert judge(night(5)).complete


@pytest.mark.parametrize(("nodes", "complete"), [("n2,n1", True), ("n3,n4", False)])
def test_a_missed_reference_that_was_reached_again_is_right_on_the_same_nodes(nodes, complete):
    whole_night()
    labels = {"run": "confirmation", CONFIRMS: last(1, MISSED, FIRST_ONES)}
    again = {"labels": labels, "started": FIRST + timedelta(days=1, hours=1)}
    last(30, {**RIGHT, "nodelist": nodes}, **again)
    answer = judge(night(2))
    assert answer.complete is complete, answer.lines()


@pytest.mark.parametrize("how", ["timed out", "missed a reference"])
@pytest.mark.parametrize(
    ("nodes", "depth", "metric", "other"),
    [
        ("n2,n1", "nightly", "bandwidth", ""),
        ("n1,n3", "nightly", "bandwidth", "on n1, n3"),
        ("n1,n2", "smoke", "bandwidth", "with depth smoke and not nightly"),
        ("n1,n2", "nightly", "another", "without bandwidth"),
    ],
)
def test_what_was_not_right_is_right_again_on_the_same_nodes_only(how, nodes, depth, metric, other):
    """And under the same condition, with the references that were
    missed; a night elsewhere says so.
    """
    owes = other and not (metric == "another" and how == "timed out")
    whole_night()
    first = last(1, {**WRONG[how], "condition": '{"depth": "nightly"}'})
    again = {**reference(99.0, metric), "nodelist": nodes}
    missing = judge(last(2, again, condition={"depth": depth})).missing
    lines = [line for line in missing if "not measured again under" in line]
    assert len(lines) == bool(owes)
    assert all(f"on 2026-01-06 on n1, n2; tonight {other})" in line for line in lines)
    left = owed(3)
    assert list(left) == [LAST] * bool(owes)
    assert not left or (left[LAST].nodes, left[LAST].session) == (("n1", "n2"), first)
    last(3, RIGHT, condition={"depth": "nightly"})
    assert not owed(4)


def test_what_other_nodes_did_wrong_too_is_owed_on_both():
    whole_night()
    for number, how, nodes in ((1, MISSED, "n1,n2"), (2, MISSED, "n3,n4"), (3, RIGHT, "n3,n4")):
        last(number, {**how, "nodelist": nodes})
    assert owed(4)[LAST].nodes == ("n1", "n2")
    last(4, RIGHT)
    assert not owed(5)


def test_what_failed_and_was_never_proven_is_not_forgotten_when_its_stack_goes():
    whole_night(0, FIRST_ONES)
    night(1, odd=REST[-1:], how=WRONG["timed out"])
    session = night(2, made=plan(2, FIRST_ONES, OF_A))
    assert said(judge(session), "it no longer exists")
    retire()
    assert judge(session).complete


def test_a_session_that_was_withdrawn_leaves_nothing_owed():
    whole_night()
    wrong = last(1, MISSED, FIRST_ONES)
    Store(HERE).withdraw(wrong, "a wrong cable")
    assert judge(night(2)).complete


def test_what_was_slower_than_the_nights_before_is_owed_until_a_night_held_it_against_them():
    """No reference was missed. A night that nothing was held against
    does not clear it; tonight's is about to be.
    """
    key = (LAST.partition, LAST.stack, LAST.name)

    def answer(session, slower):
        records.answer(HERE, session, records.NIGHT, "nightly", [], slower=slower)

    whole_night()
    answer(night(1, ALL), [key])
    slow = f"{LAST.name} (slower than the nights before on 2026-01-06"
    assert said(judge(night(2)), slow)
    second = night(3, [LAST])
    assert judge(second).complete, "its own judgement is the gate's"
    for slower, complete in ((None, False), ([key], False), ([], True)):
        answer(second, slower)
        assert judge(night(4)).complete is complete
