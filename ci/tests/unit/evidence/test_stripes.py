"""Whether every rail of a striped fabric carried its share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reframe_tests.harness.evidence import traffic
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_evidence import exchange

GB = 10**9
TWO = Fabric("two", "tcp", "cluster", (Rail("eth1", 1.0), Rail("eth2", 1.0)), striped=True)
UNLIKE = replace(TWO, rails=(Rail("eth1", 1.0), Rail("eth2", 3.0)))


@pytest.mark.parametrize(
    ("fabric", "sent", "idle"),
    [
        (TWO, {"eth1": 1.4 * GB, "eth2": 0.6 * GB}, []),
        (TWO, {"eth1": 1.6 * GB, "eth2": 0.4 * GB}, ["eth2"]),
        (UNLIKE, {"eth1": 0.4 * GB, "eth2": 1.6 * GB}, []),
        (UNLIKE, {"eth1": 1.5 * GB, "eth2": 0.5 * GB}, ["eth2"]),
        (
            replace(UNLIKE, rails=(Rail("eth1"), Rail("eth2", 3.0))),
            {"eth1": 0.4 * GB, "eth2": 1.6 * GB},
            ["eth1"],
        ),
        (replace(TWO, striped=False), {"eth1": 0.0, "eth2": 2.0 * GB}, []),
    ],
)
def test_a_rail_below_half_of_its_share_is_named(
    fabric: Fabric, sent: dict[str, float], idle: list[str]
) -> None:
    """A share is that of the rail's rate; without rates all are alike."""
    said = traffic.check_stripes(exchange(sent), fabric, 2 * GB).sentences
    assert [text.split("rails, but ")[1].split()[0] for text in said] == idle
