"""What a launch must have sent, of what it printed; and that nothing was counted on is said, never passed over."""

from __future__ import annotations

import pytest

from catalogue_launches import launches
from hpcc_outputs import on_grid
from reframe_tests.harness.cases.results.measurement import least_bytes, name_uncounted
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.catalogue import ROWS
from reframe_tests.harness.suites.gpcnet import GROUP, LOADED_GROUP, bound_of, nodes_tested
from studies.output_damage import golden
from synthetic_conditions import simple_condition

ETH = Fabric("eth1g", "tcp", "cluster", (Rail("eth1"),))
LO = Fabric("lo", "tcp", "node", (Rail("lo"),))
SHM = Fabric("shm", "shm", "node")


def judged(group: str, file: str, ranks: int, nodes: int = 1, fabric: Fabric = LO, **more: str) -> tuple[float, list[str]]:
    """Bytes counted on and notes of an output, by its file or its text, as if of a job on so many nodes."""
    where = simple_condition({}, {}, {}, fabric=fabric, forced=True, nodes=nodes, ranks=ranks)
    planned = launches(group, ranks, nodes=nodes, **more)
    parsed = reader.parse(golden(file) if file.endswith(".txt") else file)
    launch = next(one for one in planned if {row.name for row in one.rows()} >= {record.benchmark for record in parsed})
    return (least_bytes(where, launch, parsed), name_uncounted(where, launch, parsed))


def test_the_random_numbers_of_nas_move_no_data_by_design() -> None:
    assert judged("nas_s", "npb-3.4-ep-n2.txt", 2) == (
        0.0,
        ["not held against the bytes that lo carried: EP (moves no data by design but a dozen numbers at its end)"],
    )


def test_what_hpccs_ranks_do_by_themselves_is_named() -> None:
    least, [note] = judged("hpcc", "hpcc-1.5.0-n2.txt", 2, level="smoke")
    # HPL, PTRANS, MPIRandomAccess, MPIFFT, two rings of 2 MB and of 8 bytes, as test_hpcc_volume counts them.
    assert least == 691_200 + 2_048_000 + 2_097_152 + 524_288 + 2 * 4 * 2_000_000 + 2 * 4 * 8
    assert note.endswith(" (moves no data by design)")
    names = note.removeprefix("not held against the bytes that lo carried: ").removesuffix(" (moves no data by design)")
    assert set(names.split(", ")) == {
        *("StarDGEMM", "SingleDGEMM", "StarRandomAccess", "StarFFT"),
        *(f"StarSTREAM_{kernel}" for kernel in ("Copy", "Scale", "Add", "Triad")),
    }


def test_a_transposition_that_may_stay_on_its_nodes_is_named() -> None:
    """Of a square grid with two ranks a node; with one a node it leaves them."""
    two, notes = judged("hpcc", on_grid(2, 2), 4, 2, ETH, level="smoke")
    assert [note for note in notes if "PTRANS (its grid of ranks is drawn by chance" in note]
    four, notes = judged("hpcc", on_grid(2, 2), 4, 4, ETH, level="smoke")
    assert not [note for note in notes if "PTRANS" in note] and four > two > 0


def test_in_memory_nothing_is_held_against_anything() -> None:
    assert judged("nas_s", "npb-3.4-ep-n2.txt", 2, fabric=SHM) == (0.0, [])


def test_the_first_measurement_of_gpcnet() -> None:
    """By hand, on two nodes of a rank each: 30 rings, 200 x 2 messages of 8 bytes or 8 x 8 x 2 of 128 KiB."""
    least, notes = judged(GROUP, "gpcnet-1.3-network_test-n2-mpich.txt", 2, 2, ETH)
    latency, bandwidth = 2 * 30 * 200 * 2 * 8, 2 * 30 * 8 * 8 * 2 * 131072
    assert least == 2 * latency + 4 * bandwidth + 2 * 200 * 8 + 2 * 64 * 4096
    assert not notes


def test_gpcnet_under_load_counts_the_nodes_that_test() -> None:
    """13 of 64 nodes, alone and under load; the factors are computed from them."""
    least, [note] = judged(LOADED_GROUP, "gpcnet-1.3-network_load_test-n2048.txt", 2048, 64, ETH)
    assert nodes_tested(64, loaded=True) == 13
    assert least == 2 * 13 * 32 * (30 * 200 * 2 * 8 + 30 * 8 * 8 * 2 * 131072 + 200 * 8)
    assert note.endswith("Lat_impact, RR_Two-sided_BW_Sync_impact, Multiple_Allreduce_impact (the quotient of two others)")


@pytest.mark.parametrize("nodes", [2, 64, 65, 200, 5000])
def test_gpcnets_alltoall_is_called_less_often_on_more_than_64_nodes(nodes: int) -> None:
    calls = bound_of("Multiple Alltoall", 1, timed=False, loaded=False)({}, nodes, nodes) / nodes / (nodes - 1)
    assert calls == max(1, min(64, 64 * 64 // nodes))


@pytest.mark.parametrize("suite", ["hpcc", "npb", "gpcnet"])
def test_no_row_of_an_application_is_passed_over_in_silence(suite: str) -> None:
    for row in ROWS:
        if row.suite == suite:
            assert row.unbounded or row.of_run or row.traffic_between(0, 16, 4), row.name
