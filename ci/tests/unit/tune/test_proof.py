"""What shows that settings are taken: never what a library would do as well that ignores them."""

from __future__ import annotations

import pytest

from mpibench.tune import proof
from mpibench.tune.choosing import BETTER, INCONCLUSIVE, Compared
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.tuning.model import COUNTED, DEFAULT, NOT_PROVEN, STRICT, TIMED, Tuning

LINEAR, RING, BINARY = [4, 4096, "1a"], [6, 6144, "2b"], [4, 4096, "3c"]


def tuning_of(name: str) -> Tuning:
    found = registry.find(name).tuning
    assert found is not None
    return found


def row(outcome: str) -> Compared:
    return Compared("Allreduce", 1024, "4", 100.0, 90.0, 0.9, 0.85, 0.95, 8, outcome)


@pytest.mark.parametrize(
    ("own", "forced", "default", "outcome", "shown"),
    [
        (RING, RING, LINEAR, INCONCLUSIVE, COUNTED),
        (BINARY, BINARY, LINEAR, INCONCLUSIVE, COUNTED),  # the same messages to other ranks
        (RING, RING, RING, INCONCLUSIVE, NOT_PROVEN),  # as without settings
        (RING, RING, RING, BETTER, TIMED),
        (LINEAR, RING, LINEAR, INCONCLUSIVE, NOT_PROVEN),  # not what was forced
        (RING, RING, [], INCONCLUSIVE, NOT_PROVEN),  # nothing is known of the library's own choice
    ],
)
def test_messages_show_what_a_library_would_not_send_anyway(own, forced, default, outcome: str, shown: str) -> None:
    counted = {"4": {"1024": forced}, DEFAULT: {"1024": default} if default else {}}
    tuned = {"messages": {"1024": own}}
    found = proof.show(tuning_of("openmpi"), tuned, counted, {1024: "4"}, [row(outcome)], "Allreduce", {"rules": "0"})
    assert found == shown


def test_one_size_with_other_messages_shows_that_the_file_is_read() -> None:
    """At small sizes several algorithms send the same."""
    counted = {"4": {"8": LINEAR, "1024": RING}, DEFAULT: {"8": LINEAR, "1024": LINEAR}}
    tuned = {"messages": counted["4"]}
    chosen = {8: "4", 1024: "4"}
    assert proof.show(tuning_of("openmpi"), tuned, counted, chosen, [], "Allreduce", {"rules": "0"}) == COUNTED


def test_a_file_is_not_shown_by_what_a_variable_would_end() -> None:
    """MPICH looks at what a variable forces, and at nothing of a file."""
    mpich = tuning_of("mpich")
    assert proof.show(mpich, {}, {}, {1024: "ring"}, [], "Allreduce", {}) == STRICT
    assert proof.show(mpich, {}, {}, {1024: "ring"}, [], "Allreduce", {"selection": "0"}) == NOT_PROVEN
    assert proof.show(mpich, {}, {}, {1024: "ring"}, [row(BETTER)], "Allreduce", {"selection": "0"}) == TIMED
