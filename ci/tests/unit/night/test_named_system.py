"""Which system a night is of."""

from __future__ import annotations

import pytest

from mpibench.night import settings
from reframe_tests.harness.sites import systems


def test_of_two_systems_the_last_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ReFrame takes them; the first once decided whether there is a batch system."""
    asked: list[object] = []
    monkeypatch.setattr(
        systems, "select", lambda name, *_: asked.append(name) or {"partitions": []}
    )
    settings.on_batch(["--system=one:part", "--system=two:part"], {"RFM_SYSTEM": "three"})
    settings.on_batch([], {"RFM_SYSTEM": "three:part"})
    assert asked == ["two", "three"]
