"""The sections of the report, one file each, found by themselves; all but the charts are there without any script."""

from __future__ import annotations

from reframe_tests.harness import records

from ..section import Section

#: Every module here is a section.
SHARED = ()


def in_order() -> list[Section]:
    """All sections in the order of the page."""
    return sorted(records.load(__name__, "SECTION", Section).values(), key=lambda section: section.order)
