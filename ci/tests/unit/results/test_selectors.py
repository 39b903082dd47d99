"""Selectors: what they mean, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pytest

from mpibench.store import dataset_layout, selectors
from mpibench.store.records import Unreadable
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_verdicts import write_session

NOW = datetime.now(timezone.utc)
SESSIONS = pl.DataFrame(
    [
        ("aaaa1111-0000-4000-8000-000000000001", NOW - timedelta(days=20), '{"run": "nightly"}', "s1"),
        ("aaaa2222-0000-4000-8000-000000000002", NOW - timedelta(days=6), '{"run": "acceptance"}', "s1"),
        ("bbbb3333-0000-4000-8000-000000000003", NOW - timedelta(days=1), '{"run": "nightly"}', "s1"),
        ("cccc4444-0000-4000-8000-000000000004", NOW - timedelta(hours=12), "{}", "s1"),
    ],
    schema=["session", "started", "labels", "system"],
    orient="row",
)


def numbers(selector: str) -> str:
    return "".join(one[-1] for one in selectors.select(selector, SESSIONS))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("aaaa1111-0000-4000-8000-000000000001", "1"),
        ("bbbb", "3"),
        ("latest", "4"),
        ("latest~2", "2"),
        (f"{NOW - timedelta(days=22):%Y%m%d}:{NOW - timedelta(days=18):%Y%m%d}", "1"),
        ("now-7d:now", "234"),
        ("now-4w:now-1d", "123"),
        ("?run == 'nightly'", "13"),
        ("?'run == \"nightly\"'", "13"),
        ("now-7d:now?run == 'nightly'", "3"),
        ("?run != 'nightly'", "2"),  # as in ReFrame, a session without the label is not selected
        ("?run in ('acceptance', 'x') or uuid == 'nothing'", "2"),
        ("?not run == 'nightly'", "2"),
        ("latest,aaaa1", "14"),
        ("?run in ('nightly', \"acceptance\"),latest", "1234"),
    ],
)
def test_selector_means(selector: str, expected: str) -> None:
    assert numbers(selector) == expected


@pytest.mark.parametrize(
    ("selector", "part"),
    [
        ("", "not a selector"),
        ("aaaa", "beginning of 2 sessions"),
        ("yesterday", "not a selector"),
        ("20261301:now", "not a period"),
        ("now:now-1d", "ends before it begins"),
        ("latest~9", "selects none"),
        ("dddd", "selects none of the 4 sessions"),
        ("?run == ", "not an expression"),
        ("?nonsuch == 1", "'nonsuch'"),
        ("?__import__('os').system('true')", "not an expression"),
        ("?run < 3", "quote texts"),
        ("?run", "quote texts"),
        ("now-99999999999d:now", "not a period"),
        ("?" + "(" * 300 + "run" + ")" * 300, "not an expression"),
    ],
)
def test_bad_selector_is_one_sentence(selector: str, part: str) -> None:
    with pytest.raises(BadInput) as caught:
        numbers(selector)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("selector", "lost", "verb"),
    [
        ("latest", 21, "means"),
        ("latest~1", 21, "counts"),
        ("latest~3", 16, "counts"),
        ("latest~1", 16, None),
        ("latest", 16, None),
    ],
)
def test_no_session_that_cannot_be_read_is_passed_over_in_counting_back(selector: str, lost: int, verb: str | None) -> None:
    """Behind it nobody knows which session is meant: one fewer was counted before."""
    unread = Unreadable("eeee5555", NOW - timedelta(days=21 - lost, hours=6), (), "it is damaged.")
    if verb is None:
        assert selectors.select(selector, SESSIONS, unreadable=[unread]) == selectors.select(selector, SESSIONS)
        return
    with refused_as(
        "session-unreadable", match=rf"^selector '{selector}' {verb} session eeee5555, which cannot be read: it is damaged\.$"
    ):
        selectors.select(selector, SESSIONS, unreadable=[unread])


@pytest.mark.parametrize(
    "labels",
    ["[]", "null", "5", "nonsense", '{"run": 5}', '{"run": null}', '{"run": {"a": ["b"]}}', '{"run"', "[" * 5000, '"\x00\n"'],
)
def test_labels_that_are_none_are_refused(labels: str) -> None:
    """Whether it is a night nobody can say: no older session stands in for it."""
    broken = SESSIONS.with_columns(labels=pl.lit(labels))
    for asked in ("latest", "?run == 'nightly'"):
        with refused_as("dataset-damaged", match=r"export (that|its) session again"):
            selectors.select(asked, broken)
    with refused_as("dataset-damaged", match=r"export (that|its) session again"):
        selectors.runs_of(broken)


def test_a_session_whose_labels_are_null_has_none(tmp_path: Path) -> None:
    name = write_session(tmp_path, 0, started=NOW - timedelta(days=2), where={"labels": None})
    assert Store(tmp_path).select("testbed", "now-30d:now").sessions == (name,)
    assert selectors.select("?uuid != 'x'", SESSIONS.with_columns(labels=None)) == SESSIONS["session"].to_list()


def test_sessions_without_a_label_are_one_series_only_where_they_are_the_same_kind(tmp_path: Path) -> None:
    smoke, plain = "reframe -c reframe_tests -r --mode=smoke", "reframe -c reframe_tests -r"
    kinds = [
        ({}, {}, plain),
        ({}, {"depth": "smoke"}, smoke),
        ({"run": "nightly"}, {"depth": "smoke"}, smoke),
        ({}, {"depth": "smoke"}, f"{smoke} -n Imb"),
        ({}, {"depth": "smoke"}, smoke),
        ({}, {"depth": "smoke"}, f"{smoke} -n Imb"),
        ({}, {"depth": "smoke"}, f"{smoke} -P ppn=3"),
        ({}, {"depth": "smoke"}, f"{plain} --mode smoke"),
        ({"run": "nightly"}, {"depth": "acceptance"}, plain),
    ]
    ids = [
        write_session(tmp_path, number, labels=labels, condition=condition, command_line=line, sizes=(8,))
        for number, (labels, condition, line) in enumerate(kinds)
    ]
    table = selectors.sessions_table(Store(tmp_path).scan("cases"))
    earlier = [[ids.index(one) for one in selectors.alike(table, session).earlier] for session in ids]
    assert earlier == [[], [], [], [1], [1], [1, 3, 4], [1, 4], [1, 4], [2]]
    assert selectors.alike(table, ids[7]).other == 4
    taken = f"2 earlier sessions without a label ({ids[1][:8]} to {ids[4][:8]}), level smoke, mode smoke, whole"
    assert str(selectors.alike(table, ids[7])) == f"{taken}; 4 of another kind"
    assert "whole or with --name=Imb" in str(selectors.alike(table, ids[5]))
    assert str(selectors.alike(table, ids[8])) == "1 earlier session of its label"


def test_cases_are_filtered_by_the_same_expressions() -> None:
    cases = pl.DataFrame({"fabric": ["lo", "shm", None], "ppn": [1, 2, 4]})
    assert selectors.filter_cases(cases, "fabric == 'lo' or ppn > 3")["ppn"].to_list() == [1, 4]
    assert selectors.filter_cases(cases, "fabric != 'lo'")["ppn"].to_list() == [2]  # not the one without the field
    groups = pl.DataFrame({"group": ["p2p", "group"]})
    assert selectors.filter_cases(groups, 'group == "group"').rows() == [("group",)]
    with refused_as("where-keeps-nothing", match="keeps none of 3 cases"):
        selectors.filter_cases(cases, "ppn > 9")
    with refused_as("expression-name-unknown", match=r"'fabrik'.*fabric, ppn"):
        selectors.filter_cases(cases, "fabrik == 'lo'")


def test_labels_stay_on_their_line() -> None:
    """Stored ones may come from another program than the one that refuses such labels."""
    stored = '{"why": "up\\u2028PASS: all is well\\u202e", "run": "nightly\\n"}'
    assert dataset_layout.read_labels(stored) == {"why": "up PASS: all is well", "run": "nightly"}
