"""What the NAS Parallel Benchmarks must at least send: below what was
counted, and above what hides a wrong network.
"""

import pytest

from reframe_tests.harness.suites import npb

#: Bytes that the loopback carried in whole runs of class S of NPB 3.4 on 2
#: and on 4 ranks (Open MPI 4.1, its tcp alone).
SENT_OF_S = {
    "BT": {4: 14_682_996},
    "CG": {2: 4_880_980, 4: 14_649_614},
    "FT": {2: 16_813_920, 4: 25_335_432},
    "IS": {2: 1_503_528, 4: 2_393_614},
    "LU": {2: 1_765_818, 4: 3_695_978},
    "MG": {2: 990_224, 4: 2_058_794},
    "SP": {4: 15_283_088},
}


def test_bounds_are_below_what_was_counted():
    for kernel, counted in SENT_OF_S.items():
        for ranks, sent in counted.items():
            least = npb.bound_of(kernel, "S")(0, ranks) * npb.PROBLEMS[kernel]["S"].iterations
            assert 0 < least < sent, (kernel, ranks)


@pytest.mark.parametrize("kernel", npb.RANKS)
def test_a_run_that_used_another_network_is_not_green(kernel):
    """``counters.OTHER_FLOOR_BYTES`` of background a node would hide the
    rest; EP sends too little to be sure of.
    """
    for problem, least in (("A", 2e6), ("C", 4e7)):
        iterations = npb.PROBLEMS[kernel][problem].iterations
        wanted = (kernel, (npb.variant(problem),))
        [row] = [row for row in npb.ROWS if (row.name, row.variants) == wanted]
        assert row.traffic(0, 1) == 0
        for ranks, nodes in ((2, 2), (4, 2), (64, 4)):
            sent = row.traffic_between(0, ranks, nodes) * iterations
            assert sent > least if kernel != "EP" else sent == row.traffic(0, ranks) == 0


@pytest.mark.parametrize("parties", [2, 3, 27, 64, 1000])
def test_no_cut_of_a_grid_has_fewer_faces(parties):
    """Slabs, and cubes where there are so many: both have at least the faces of the inequality."""
    size = 60
    least = npb.surface(1)(size, parties) / 2
    assert least <= 2 * (parties - 1) * size**2
    side = round(parties ** (1 / 3))
    assert side**3 != parties or least <= 6 * (side - 1) * size**2
