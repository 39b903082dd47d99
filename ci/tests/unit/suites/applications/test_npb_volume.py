"""What the NAS Parallel Benchmarks must at least send: below what was counted, and above what hides a wrong network."""

from __future__ import annotations

import pytest

from catalogue_launches import launches
from reframe_tests.harness.suites import npb, reader
from refusals import refused_as
from studies.output_damage import golden


@pytest.mark.parametrize("kernel", [kernel for kernel in npb.RANKS if kernel != "EP"])
def test_a_run_that_used_another_network_is_not_green(kernel: str) -> None:
    """``counters.OTHER_FLOOR_BYTES`` of background a node would hide the rest."""
    for problem, least in (("A", 2e6), ("C", 4e7)):
        [row] = [row for row in npb.ROWS if (row.name, row.variants) == (kernel, (npb.variant(problem),))]
        for ranks, nodes in ((2, 2), (4, 2), (64, 4)):
            one = row.traffic_between(0, ranks, nodes)
            assert one * npb.PROBLEMS[kernel][problem].iterations > least, (kernel, problem, ranks, nodes)


def test_ep_sends_too_little_to_be_sure_of() -> None:
    [row] = [row for row in npb.ROWS if (row.name, row.variants) == ("EP", ("class=C",))]
    assert row.traffic_between(0, 64, 4) == row.traffic(0, 64) == 0


def test_a_rank_alone_sends_nothing() -> None:
    assert {row.traffic(0, 1) for row in npb.ROWS} == {0}


#: Bytes that the loopback carried in whole runs of class S of NPB 3.4 on 2 and on 4 ranks (Open MPI 4.1, its tcp alone).
SENT_OF_S = {
    "BT": {4: 14_682_996},
    "CG": {2: 4_880_980, 4: 14_649_614},
    "FT": {2: 16_813_920, 4: 25_335_432},
    "IS": {2: 1_503_528, 4: 2_393_614},
    "LU": {2: 1_765_818, 4: 3_695_978},
    "MG": {2: 990_224, 4: 2_058_794},
    "SP": {4: 15_283_088},
}


def test_bounds_are_below_what_was_counted() -> None:
    for kernel, counted in SENT_OF_S.items():
        for ranks, sent in counted.items():
            least = npb.bound_of(kernel, "S")(0, ranks) * npb.PROBLEMS[kernel]["S"].iterations
            assert 0 < least < sent, (kernel, ranks)


@pytest.mark.parametrize("parties", [2, 3, 8, 27, 64, 1000])
def test_no_cut_of_a_grid_has_fewer_faces(parties: int) -> None:
    """Slabs, and cubes where there are so many: both have at least the faces of the inequality."""
    size = 60
    faces = {"slabs": 2 * (parties - 1) * size**2}
    side = round(parties ** (1 / 3))
    if side**3 == parties:
        faces["cubes"] = 6 * (side - 1) * size**2
    least = npb.surface(1)(size, parties) / 2
    assert all(least <= each for each in faces.values()), (least, faces)


def test_the_iterations_are_those_of_the_class() -> None:
    text = golden("npb-3.4-cg-n2.txt")
    [record] = reader.parse(text)
    assert record.repetitions == 15
    line = next(line for line in text.splitlines() if line.split()[:2] == ["Iterations", "="])
    with refused_as("output-damaged", match="CG of class S made 14 iterations, and the class has 15"):
        reader.parse(text.replace(line, line.replace("15", "14")), source="cg_S.1.out")


def test_rows_of_a_launch_have_bounds() -> None:
    assert {row.name for launch in launches("nas_c", ranks=4) for row in launch.rows() if row.traffic(0, 4)} == (
        set(npb.RANKS) - {"EP"}
    )
