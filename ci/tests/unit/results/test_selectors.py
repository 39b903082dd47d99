"""Selectors: what they mean, and what is refused."""

from datetime import datetime, timedelta, timezone

import polars as pl
import pytest

from mpibench.store import selectors
from mpibench.store.records import UnreadableSession
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

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


@pytest.mark.parametrize(
    ("selector", "part"),
    [
        ("", "not a selector"),
        ("lastest", "did you mean 'latest'?"),
        ("aaaa", "beginning of 2 sessions"),
        ("20261301:now", "not a period"),
        ("now:now-1d", "ends before it begins"),
        ("latest~9", "selects none"),
        ("?nonsuch == 1", "'nonsuch'"),
        ("?__import__('os').system('true')", "not an expression"),
        ("?run < 3", "quote strings"),
        ("now-99999999999d:now", "not a period"),
        ("?" + "(" * 300 + "run" + ")" * 300, "not an expression"),
    ],
)
def test_bad_selector_is_one_sentence(selector, part):
    with pytest.raises(BadInput) as caught:
        selectors.select(selector, SESSIONS)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("selector", ["latest", "latest~1"])
def test_no_session_that_cannot_be_read_is_passed_over_in_counting_back(selector):
    """Behind it nobody knows which session is meant: one fewer was counted before."""
    newest, old = [
        [UnreadableSession("eeee5555", NOW - timedelta(hours=hours), (), "it is damaged.")]
        for hours in (6, 126)
    ]
    found = selectors.select(selector, SESSIONS, unreadable=old)
    assert found == selectors.select(selector, SESSIONS)
    with refused_as("file-unreadable", match="session eeee5555, which cannot be read"):
        selectors.select(selector, SESSIONS, unreadable=newest)
