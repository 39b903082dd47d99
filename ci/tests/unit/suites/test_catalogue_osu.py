"""The rows of OSU as launches: one benchmark is one binary, and each run makes the same repetitions at every size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalogue_launches import OSU, launches, stack_of
from reframe_tests.harness.machine.gpu import DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, MANAGED, OF_HOST, Memory
from reframe_tests.harness.mpis.transport import NONBLOCKING_REDUCTION, ONE_SIDED
from reframe_tests.harness.suites import catalogue, osu, traffic
from reframe_tests.harness.vocabulary import NotMeasured


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


#: Group to the words of each memory of GPUs it is measured in; those of gets stand the other way round.
PLACES = {DEVICE: "D D", MANAGED: "MD MD", HOST_TO_DEVICE: "H D", DEVICE_TO_HOST: "D H"}
ON_GPU = {
    **dict.fromkeys(("p2p_osu", "one_sided_osu", "p2p_persistent_osu", "partitioned_osu", "atomics_osu"), PLACES),
    "congestion_osu": PLACES,
    **{group: {DEVICE: "-d cuda"} for group in ("collectives_osu", "persistent_osu")},
    "nonblocking_osu": {DEVICE: "-d cuda", MANAGED: "-d managed"},
    "neighbourhood_osu": {DEVICE: "-d cuda", MANAGED: "-d managed"},
    **{group: {} for group in ("transfer_osu", "threads_osu", "startup_osu")},
}


def words_of(group: str, word: str, kind: str = "cuda", version: str = "7.5", **more) -> dict[str, str]:
    """Words of a launch behind those of memory of the host, by benchmark; empty where the group has none of that memory."""
    stack, ranks = stack_of(osu=version, gpu=kind), 4 if group in ("transfer_osu", "neighbourhood_osu") else 2
    known = {launch.name: launch for launch in launches(group, ranks, stack=stack, **more)}
    try:
        made = launches(group, ranks, stack=stack, memory=Memory(word, kind), **more)
    except NotMeasured as error:
        assert "CUDA memory" in str(error) or "ROCm memory" in str(error)
        return {}
    for launch in made:
        host = known[launch.name]
        assert launch.args[: len(host.args)] == host.args
        variants = [",".join(filter(None, (name, f"memory={word}"))) for name in host.expected[0].variants]
        assert list(launch.expected[0].variants) == variants
    return {launch.binary: " ".join(launch.args[len(known[launch.name].args) :]) for launch in made}


@pytest.mark.parametrize("group", osu.GROUPS)
def test_words_of_each_memory(group: str) -> None:
    for word in PLACES:
        found = words_of(group, word)
        wanted = ON_GPU[group].get(word, "")
        assert bool(found) == bool(wanted), word
        for binary, words in found.items():
            assert words == (wanted[::-1] if binary.startswith("osu_get_") and len(wanted) == 3 else wanted), (binary, word)
    left_out = {row.name for row in catalogue.rows(group)} - set(words_of(group, DEVICE))
    if ON_GPU[group]:  # barriers send nothing, and one program takes the words and stays on the host
        assert {name for name in left_out if "barrier" not in name} <= {"osu_get_acc_latency"}


def test_what_each_release_and_platform_can() -> None:
    assert set(words_of("transfer_osu", DEVICE, version="7.2")) == {"osu_multi_lat", "osu_mbw_mr"}
    assert words_of("neighbourhood_osu", DEVICE, version="7.4") == {}
    assert words_of("p2p_osu", DEVICE, "rocm")["osu_bw"] == "D D"
    assert words_of("collectives_osu", DEVICE, "rocm")["osu_bcast"] == "-d rocm"
    assert words_of("p2p_osu", MANAGED, "rocm") == words_of("nonblocking_osu", MANAGED, "rocm") == {}
    assert words_of("nonblocking_osu", MANAGED, chosen={"full": "on"})["osu_ibcast"] == "-d managed"
    with pytest.raises(NotMeasured, match=r"no benchmark of group transfer_osu in this stack measures CUDA memory \(device\)"):
        launches("transfer_osu", 4, stack=stack_of(gpu="cuda"), memory=Memory(DEVICE, "cuda"))


def test_what_a_release_lacks_is_not_laid_on_the_ranks() -> None:
    with pytest.raises(NotMeasured, match=r"OSU 7\.2 has none of the benchmarks of group persistent_osu"):
        catalogue.check_stack("persistent_osu", stack_of(osu="7.2"), 48, 1)
    with pytest.raises(NotMeasured, match="no benchmark of group p2p_osu runs on 1 rank"):
        catalogue.check_stack("p2p_osu", stack_of(), 1, 1)


def test_a_probe_without_messages_is_in_no_memory_of_gpus() -> None:
    catalogue.check_memory(catalogue.PLACEMENT, OF_HOST)
    with pytest.raises(NotMeasured, match=r"no benchmark of group placement measures CUDA memory \(device\)"):
        catalogue.check_memory(catalogue.PLACEMENT, Memory(DEVICE, "cuda"))


def test_rows_of_what_an_mpi_does_not_do_there_are_left_out() -> None:
    asked: dict[str, Any] = {"stack": stack_of(gpu="cuda"), "memory": Memory(DEVICE, "cuda")}
    names = {launch.binary for launch in launches("nonblocking_osu", 4, **asked, without=(NONBLOCKING_REDUCTION,))}
    assert "osu_iallgather" in names and not names & {"osu_ireduce", "osu_iallreduce", "osu_ireduce_scatter"}
    for group in ("one_sided_osu", "atomics_osu"):
        with pytest.raises(NotMeasured, match=r"its MPI does no one-sided operations in CUDA memory \(device\)"):
            launches(group, 2, **asked, without=(ONE_SIDED,))


def test_data_on_a_gpu_are_compared_too() -> None:
    launch = launches("p2p_osu", stack=stack_of(gpu="cuda"), memory=Memory(DEVICE, "cuda"), chosen={"validation": "on"})[0]
    assert launch.args[-3:] == ("-c", "D", "D")
    assert launch.expected[0].validated
    chosen = {"validation": "on"}
    assert words_of("p2p_osu", MANAGED, version="7.4", chosen=chosen)["osu_bw"] == "MD MD"
    for word, kind, version in ((MANAGED, "cuda", "7.2"), (DEVICE, "rocm", "7.0")):
        memory = Memory(word, kind)
        with pytest.raises(
            NotMeasured, match=rf"osu_latency of OSU {version} does not do validation=on in .* memory .* rightly"
        ):
            launches("p2p_osu", stack=stack_of(osu=version, gpu=kind), memory=memory, chosen=chosen)


@pytest.mark.parametrize("group", ["bisection", "loaded_latency", "growth", "guidelines", "algorithms", "sharing"])
def test_our_own_programs_send_memory_of_the_host(group: str) -> None:
    with pytest.raises(NotMeasured, match=rf"no benchmark of group {group} measures CUDA memory \(device\)"):
        catalogue.check_memory(group, Memory("device", "cuda"))


def test_a_pair_map_asks_for_memory_of_gpus() -> None:
    for kind in ("cuda", "rocm"):
        [launch] = launches("pair_map", 4, nodes=4, memory=Memory(DEVICE, kind))
        assert launch.args[-2:] == ("--memory", kind)
        assert {row.variants for row in launch.expected} == {("memory=device",)}
    assert "--memory" not in launches("pair_map", 4, nodes=4)[0].args
    with pytest.raises(NotMeasured, match=r"measures CUDA memory \(managed\)"):
        catalogue.check_memory("pair_map", Memory(MANAGED, "cuda"))
