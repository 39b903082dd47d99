"""The short name of a case: cases that were not measured alike are not called alike."""

from __future__ import annotations

import pytest

from mpibench.pages.outcomes import title_of
from mpibench.store.sessions import Case


@pytest.mark.parametrize(
    ("options", "end"),
    [
        ("memory=remote,page_cache=filled", " · bunch · memory=remote,page_cache=filled"),
        ("window=allocate\nPASS", " · bunch · window=allocate PASS"),
        ("", " · bunch"),
        (None, " · bunch"),
    ],
)
def test_a_title_names_the_options_of_the_suite(options: str | None, end: str) -> None:
    condition = {
        "suite_options": options,
        "ppn_symbol": "2",
        "group": "memory",
        "fabric": "memory",
        "nodes": 1,
        "ppn": 2,
        "pinning": "bunch",
    }
    case = Case("1:0:0", 0, {"condition": condition}, condition, (), None, ())
    assert title_of(case) == f"memory · memory · 1 node · ppn 2{end}"
    shared = {**condition, "oversubscribed": "2 ranks on 1 core"}
    case = Case("1:0:0", 0, {"condition": shared}, shared, (), None, ())
    assert title_of(case) == f"memory · memory · 1 node · ppn 2{end} · oversubscribed: 2 ranks on 1 core"
