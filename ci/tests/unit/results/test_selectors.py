"""Selectors: what they mean, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pytest

from mpibench.store import dataset_layout, selectors
from mpibench.store.records import UnreadableSession
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_verdicts import write_session

NOW = datetime.now(timezone.utc)


SESSIONS = pl.DataFrame(
    [
        ("aaaa1111-0000-4000-8000-000000000001", 480, '{"run": "nightly"}'),
        ("aaaa2222-0000-4000-8000-000000000002", 144, '{"run": "acceptance"}'),
        ("bbbb3333-0000-4000-8000-000000000003", 24, '{"run": "nightly"}'),
        ("cccc4444-0000-4000-8000-000000000004", 12, "{}"),
    ],
    schema=["session", "hours", "labels"],
    orient="row",
).select(
    "session",
    "labels",
    started=pl.lit(NOW) - pl.duration(hours=pl.col("hours")),
    system=pl.lit("s1"),
)


def numbers(selector: str) -> str:
    return "".join(one[-1] for one in selectors.select(selector, SESSIONS))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("aaaa1111-0000-4000-8000-000000000001", "1"),
        ("bbbb", "3"),
        ("latest", "4"),
        ("night", "3"),
        (f"{NOW - timedelta(days=22):%Y%m%d}:{NOW - timedelta(days=18):%Y%m%d}", "1"),
        ("now-7d:now", "234"),
        ("?run == 'nightly'", "13"),
        ("now-7d:now?run == 'nightly'", "3"),
        ("?run != 'nightly'", "2"),  # as in ReFrame, a session without the label is not selected
        ("?run in ('acceptance', 'x') or uuid == 'nothing'", "2"),
        ("?run in ('nightly', \"acceptance\"),latest", "1234"),
    ],
)
def test_selector_means(selector: str, expected: str) -> None:
    assert numbers(selector) == expected


def test_the_last_night_is_whole_and_has_a_label_where_one_does() -> None:
    """A part of a night, or a run by hand, is nobody's last night while there is one."""
    partial = SESSIONS.with_columns(cmdline=pl.lit("reframe -r -n Imb"))
    whole = (
        pl.when(pl.col("system") == "s1", pl.col("session").str.starts_with("a"))
        .then(pl.lit("reframe -r"))
        .otherwise("cmdline")
    )
    for table, meant in (
        (partial.with_columns(cmdline=whole), "2"),
        (partial, "3"),
        (partial.with_columns(labels=pl.lit("{}")), "4"),
    ):
        [found] = selectors.select("night", table)
        assert found[-1] == meant
    with refused_as("file-unreadable", match="'night' (means|counts) session eeee"):
        unread = UnreadableSession("eeee5555-0000-4000-8000-000000000005", NOW, (), "damaged")
        selectors.select("night", SESSIONS, unreadable=[unread])


@pytest.mark.parametrize(
    ("selector", "part"),
    [
        ("", "not a selector"),
        ("aaaa", "beginning of 2 sessions"),
        ("20261301:now", "not a period"),
        ("now:now-1d", "ends before it begins"),
        ("latest~9", "selects none"),
        ("?run == ", "not an expression"),
        ("?nonsuch == 1", "'nonsuch'"),
        ("?__import__('os').system('true')", "not an expression"),
        ("?run < 3", "quote texts"),
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
    "labels",
    [
        "[]",
        "nonsense",
        '{"run": 5}',
        "[" * 5000,
    ],
)
def test_labels_that_are_none_are_refused(labels: str) -> None:
    """Whether it is a night nobody can say: no older session stands in for it."""
    broken = SESSIONS.with_columns(labels=pl.lit(labels))
    for asked in ("latest", "?run == 'nightly'"):
        with refused_as("file-damaged", match=r"export (that|its) session again"):
            selectors.select(asked, broken)
    with refused_as("file-damaged", match=r"export (that|its) session again"):
        selectors.runs_of(broken)


def test_a_session_whose_labels_are_null_has_none(tmp_path: Path) -> None:
    name = write_session(tmp_path, 0, started=NOW - timedelta(days=2), where={"labels": None})
    assert Store(tmp_path).select("testbed", "now-30d:now").sessions == (name,)
    assert (
        selectors.select("?uuid != 'x'", SESSIONS.with_columns(labels=None))
        == SESSIONS["session"].to_list()
    )


def test_labels_stay_on_their_line() -> None:
    """Stored ones may come from another program than the one that refuses such labels."""
    stored = '{"why": "up\\u2028PASS: all is well\\u202e", "run": "nightly\\n"}'
    assert dataset_layout.read_labels(stored) == {"why": "up PASS: all is well", "run": "nightly"}


@pytest.mark.parametrize(
    ("selector", "days_ago", "counts"),
    [
        ("latest", 0, True),
        ("latest~1", 0, True),
        ("latest~1", 5, False),
        ("latest", 5, False),
    ],
)
def test_no_session_that_cannot_be_read_is_passed_over_in_counting_back(
    selector: str, days_ago: int, counts: bool
) -> None:
    """Behind it nobody knows which session is meant: one fewer was counted before."""
    when = NOW - timedelta(days=days_ago, hours=6)
    unread = [UnreadableSession("eeee5555", when, (), "it is damaged.")]
    if not counts:
        found = selectors.select(selector, SESSIONS, unreadable=unread)
        assert found == selectors.select(selector, SESSIONS)
        return
    with refused_as("file-unreadable", match="session eeee5555, which cannot be read"):
        selectors.select(selector, SESSIONS, unreadable=unread)


def test_sessions_without_a_label_are_one_series_only_where_they_are_the_same_kind(
    tmp_path: Path,
) -> None:
    smoke = "reframe -c reframe_tests -r --mode=smoke"
    plain = "reframe -c reframe_tests -r"
    kinds = [
        ("", "", plain),
        ("", "smoke", smoke),
        ("nightly", "smoke", smoke),
        ("", "smoke", f"{smoke} -n Imb"),
        ("", "smoke", smoke),
        ("", "smoke", f"{smoke} -n Imb"),
        ("", "smoke", f"{smoke} -P ppn=3"),
        ("", "smoke", f"{plain} --mode smoke"),
        ("nightly", "acceptance", plain),
    ]
    ids = []
    for number, (run, depth, line) in enumerate(kinds):
        labels = {"run": run} if run else {}
        condition = {"depth": depth} if depth else {}
        more = {"labels": labels, "condition": condition, "command_line": line, "sizes": (8,)}
        ids.append(write_session(tmp_path, number, **more))
    table = selectors.sessions_table(Store(tmp_path).scan("cases"))
    alike = [selectors.alike(table, session) for session in ids]
    earlier = [[ids.index(one) for one in each.earlier] for each in alike]
    assert earlier == [[], [], [], [1], [1], [1, 3, 4], [1, 4], [1, 4], [2]]
    assert alike[7].other == 4
    assert str(alike[7]).startswith("2 earlier sessions without a label")
    assert str(alike[8]) == "1 earlier session of its label"


def test_cases_are_filtered_by_the_same_expressions() -> None:
    cases = pl.DataFrame({"fabric": ["lo", "shm", None], "ppn": [1, 2, 4]})
    for expression, kept in (
        ("fabric == 'lo' or ppn > 3", [1, 4]),
        ("fabric != 'lo'", [2]),  # not the one without the field
    ):
        assert selectors.filter_cases(cases, expression)["ppn"].to_list() == kept
    for expression, code in (("ppn > 9", "file-unreadable"), ("fabrik == 'lo'", "unknown-name")):
        with refused_as(code):
            selectors.filter_cases(cases, expression)
