"""The rows of OSU as launches: one benchmark is one binary, and each run makes the same repetitions at every size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalogue_launches import OSU, launches, stack_of
from reframe_tests.harness.suites import catalogue, osu, traffic


def test_arguments_of_osu():
    first, middle, last = [launch for launch in launches("p2p_osu") if launch.binary == "osu_bw"]
    assert first.words(stack_of()) == [
        *("/opt/mpi/bin/osu_bw", "-m", "1:8192", "-i", "100", "-x", "31", "-W", "64"),
    ]
    assert [launch.expected[0].repetitions for launch in (first, middle, last)] == [100, 16, 4]
    assert [size for launch in (first, middle, last) for size in launch.expected[0].sizes] == [1 << log for log in range(21)]
    put = next(launch for launch in launches("one_sided_osu") if launch.binary == "osu_put_bw")
    assert put.args[-4:] == ("-w", "create", "-s", "flush")
    assert put.expected[0].variants == ("create,flush",)
    barrier = next(launch for launch in launches("collectives_osu") if launch.binary == "osu_barrier")
    assert barrier.args == ("-i", "500", "-x", "50", "-f")


def test_a_pair_is_warm_before_small_messages_are_timed():
    """Else the first size of a run carries what the MPI does once."""

    def warm_up(binary: str, group: str = "p2p_osu", level: str = "nightly", number: int = 0) -> int:
        args = [launch for launch in launches(group, level=level) if launch.binary == binary][number].args
        return int(args[args.index("-x") + 1])

    assert warm_up("osu_latency") == warm_up("osu_latency", level="smoke") == 1000
    assert warm_up("osu_bibw") * 2 * traffic.WINDOW <= osu.WARM_UP_MESSAGES
    assert warm_up("osu_put_latency", "one_sided_osu") == 2000
    assert warm_up("osu_multi_lat", "transfer_osu") == 1000
    assert warm_up("osu_latency", number=2) == 2, "large messages are warm after a few"
    assert warm_up("osu_bcast", "collectives_osu") == 50
    assert warm_up("osu_latency_mp", "threads_osu") == 100, "its processes wait for each other"


def test_a_program_that_never_calls_finalize_is_left_out():
    """Its ranks could not say how they ended (osu_latency_mt.c of 7.4 and 7.5)."""

    def threaded(version: str) -> set[str]:
        return {launch.binary for launch in launches("threads_osu", stack=stack_of(osu=version))}

    assert threaded("7.1") == {"osu_latency_mt", "osu_latency_mp"}
    assert threaded("7.2") == threaded("7.5") == {"osu_latency_mp"}


def test_startup_knows_neither_sizes_nor_repetitions():
    assert [launch.args for launch in launches("startup_osu", ranks=4)] == [(), ()]
    init = launches("startup_osu", ranks=4)[0]
    assert (init.expected[0].sizes, init.expected[0].repetitions) == ((None,), 1)


@pytest.mark.parametrize(("nodes", "ranks"), [(1, 2), (2, 2), (64, 768)])
def test_startup_is_measured_by_the_number_of_nodes(nodes: int, ranks: int) -> None:
    metrics = list(catalogue.metrics(launches("startup_osu", ranks=ranks, nodes=nodes)))
    init = {f"osu_init.nodes{nodes}.{name}" for name in ("t_min", "t_max", "t_avg")}
    assert {metric.name for metric in metrics} == {*init, f"osu_hello.nodes{nodes}.time"}
    assert {(metric.variant, metric.ranks, metric.message_bytes) for metric in metrics} == {(f"nodes={nodes}", ranks, None)}
    assert {metric.name for metric in metrics if metric.gated} == {
        *(f"osu_init.nodes{nodes}.t_max", f"osu_hello.nodes{nodes}.time"),
    }
    assert set(catalogue.planned_metrics("startup_osu")) == {
        *("osu_init.nodes*.t_min", "osu_init.nodes*.t_max", "osu_init.nodes*.t_avg", "osu_hello.nodes*.time"),
    }


def test_osu_over_a_slow_link_makes_fewer_repetitions():
    slow = launches("p2p_osu", limits=catalogue.Limits(line_rate_gbit_per_s=1.0))
    assert {launch.name: launch.expected[0].repetitions for launch in slow if launch.binary != "osu_latency"} == {
        **{"osu_bw_1": 100, "osu_bw_2": 8, "osu_bw_3": 1},
        **{"osu_bibw_1": 100, "osu_bibw_2": 8, "osu_bibw_3": 1},
    }


def test_pairs_of_osu_refuse_more_ranks():
    with pytest.raises(catalogue.NotMeasured, match="no benchmark of group p2p_osu runs on 4 ranks"):
        launches("p2p_osu", ranks=4, nodes=2)
    assert {launch.binary for launch in launches("transfer_osu", ranks=4)} == {"osu_multi_lat", "osu_mbw_mr"}


def test_old_osu_lacks_benchmarks():
    old = stack_of(osu="5.6", binaries=[name for name in OSU if name not in ("osu_alltoallw", "osu_reduce_scatter_block")])
    new = {launch.binary for launch in launches("collectives_osu")}
    assert new - {launch.binary for launch in launches("collectives_osu", stack=old)} == {
        "osu_alltoallw",
        "osu_reduce_scatter_block",
    }
    with pytest.raises(catalogue.NotMeasured, match="has no osu_alltoallw"):
        launches("collectives_osu", stack=replace(old, suites={"osu": {"version": "7.5"}}))


def test_reductions_are_of_floats_in_every_release():
    """Which is what a release before 7.1 reduces without being asked, and IMB."""
    groups = ("collectives_osu", "nonblocking_osu", "persistent_osu")
    for version, asked in (("5.6", False), ("7.0", False), ("7.1", True), ("7.4", True), ("7.5", True)):
        for launch in (
            each
            for group in groups[: 3 if asked and version != "7.1" else 2]
            for each in launches(group, stack=stack_of(osu=version))
        ):
            assert (launch.args[-2:] == ("-T", "mpi_float")) == (asked and "reduce" in launch.binary)
            assert launch.expected[0].variants == ("",)


def test_osu_bands_that_do_not_fit_into_memory_are_left_out():
    names = [launch.name for launch in launches("collectives_osu", ranks=1 << 14) if launch.binary == "osu_alltoall"]
    assert names == ["osu_alltoall_1"]
    metrics = [metric.name for metric in catalogue.metrics(launches("collectives_osu", ranks=1 << 12))]
    assert len(metrics) == len(set(metrics))


def test_blocks_of_a_reduction_leave_elements_over():
    assert [traffic.equal_blocks(size, 3) for size in (4, 8, 12, 16, 28)] == [0, 0, 24, 24, 48]
