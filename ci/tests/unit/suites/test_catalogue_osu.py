"""The rows of OSU as launches: one benchmark is one binary, and each
run makes the same repetitions at every size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalogue_launches import OSU, launches, stack_of
from reframe_tests.harness.machine.gpu import (
    DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    MANAGED,
    OF_HOST,
    Memory,
)
from reframe_tests.harness.mpis.transport import NONBLOCKING_REDUCTION, ONE_SIDED
from reframe_tests.harness.suites import catalogue, osu
from reframe_tests.harness.vocabulary import NotMeasured


def made(group: str, binary: str = "", **more: Any) -> list[catalogue.Launch]:
    """Launches of a group, or those of one of its programs."""
    return [each for each in launches(group, **more) if not binary or each.binary == binary]


def option(launch: catalogue.Launch, name: str) -> str:
    return launch.args[launch.args.index(name) + 1]


def test_arguments_of_osu():
    bands = made("p2p_osu", "osu_bw")
    words = "/opt/mpi/bin/osu_bw -m 1:8192 -i 100 -x 31 -W 64"
    assert bands[0].words(stack_of()) == words.split()
    assert [band.expected[0].repetitions for band in bands] == [100, 16, 4]
    assert [size for band in bands for size in band.expected[0].sizes] == [
        1 << log for log in range(21)
    ]
    (put, *_) = made("one_sided_osu", "osu_put_bw")
    assert put.args[-4:] == ("-w", "create", "-s", "flush")
    assert put.expected[0].variants == ("create,flush",)
    (barrier,) = made("collectives_osu", "osu_barrier")
    assert barrier.args == ("-i", "500", "-x", "50", "-f")
    slow = made("p2p_osu", "osu_bw", limits=catalogue.Limits(line_rate_gbit_per_s=1.0))
    assert [band.expected[0].repetitions for band in slow] == [100, 8, 1]


@pytest.mark.parametrize(
    ("group", "binary", "number", "warm"),
    [
        ("p2p_osu", "osu_latency", 0, "1000"),
        ("p2p_osu", "osu_latency", 2, "2"),  # large messages are warm after a few
        ("one_sided_osu", "osu_put_latency", 0, "2000"),
        ("collectives_osu", "osu_bcast", 0, "50"),
        ("threads_osu", "osu_latency_mp", 0, "100"),  # its processes wait for each other
    ],
)
def test_a_pair_is_warm_before_small_messages_are_timed(group, binary, number, warm):
    """Else the first size of a run carries what the MPI does once."""
    assert option(made(group, binary)[number], "-x") == warm


def test_a_program_that_never_calls_finalize_is_left_out():
    """Its ranks could not say how they ended (osu_latency_mt.c of 7.4 and 7.5)."""
    for version, left in (("7.1", {"osu_latency_mt"}), ("7.2", set()), ("7.5", set())):
        names = {each.binary for each in made("threads_osu", stack=stack_of(osu=version))}
        assert names == {"osu_latency_mp"} | left


def test_startup_is_measured_by_the_number_of_nodes() -> None:
    started = made("startup_osu", ranks=768, nodes=64)
    assert [launch.args for launch in started] == [(), ()]
    metrics = {metric.name: metric for metric in catalogue.metrics(started)}
    names = {"osu_init.nodes64.t_max", "osu_hello.nodes64.time"}
    times = {f"osu_init.nodes64.{name}" for name in ("t_min", "t_avg")}
    assert set(metrics) == times | names
    assert {name for name, metric in metrics.items() if metric.gated} == names
    assert {(each.variant, each.ranks, each.message_bytes) for each in metrics.values()} == {
        ("nodes=64", 768, None)
    }
    assert "osu_hello.nodes*.time" in catalogue.planned_metrics("startup_osu")


def test_old_osu_lacks_benchmarks():
    lacked = {"osu_alltoallw", "osu_reduce_scatter_block"}
    old = stack_of(osu="5.6", binaries=[name for name in OSU if name not in lacked])
    new = {each.binary for each in made("collectives_osu")}
    assert new - {each.binary for each in made("collectives_osu", stack=old)} == lacked
    claimed = replace(old, suites={"osu": {"version": "7.5"}})
    for words, group, stack in (
        ("has no osu_alltoallw", "collectives_osu", claimed),
        (r"OSU 7\.2 has none of the benchmarks", "persistent_osu", stack_of(osu="7.2")),
    ):
        with pytest.raises(NotMeasured, match=words):
            launches(group, stack=stack)


@pytest.mark.parametrize(("version", "asked"), [("7.0", False), ("7.1", True), ("7.5", True)])
def test_reductions_are_of_floats_in_every_release(version, asked):
    """Which is what a release before 7.1 reduces without being asked, and IMB."""
    for group in ("collectives_osu", "nonblocking_osu"):
        for launch in made(group, stack=stack_of(osu=version)):
            of_floats = launch.args[-2:] == ("-T", "mpi_float")
            assert of_floats == (asked and "reduce" in launch.binary)
            assert launch.expected[0].variants == ("",)


def test_osu_bands_that_do_not_fit_into_memory_are_left_out():
    assert len(made("collectives_osu", "osu_alltoall", ranks=1 << 14)) == 1
    metrics = catalogue.metrics(launches("collectives_osu", ranks=1 << 12))
    names = [metric.name for metric in metrics]
    assert len(names) == len(set(names))


# Memory of GPUs.

#: Memory to the words it is asked for by; those of gets stand the other way round.
PLACES = {DEVICE: "D D", MANAGED: "MD MD", HOST_TO_DEVICE: "H D", DEVICE_TO_HOST: "D H"}
OPTIONS = {DEVICE: "-d cuda", MANAGED: "-d managed"}
DEVICE_ALONE = {DEVICE: "-d cuda"}
ON_GPU = {
    **dict.fromkeys(
        (
            "p2p_osu",
            "one_sided_osu",
            "p2p_persistent_osu",
            "partitioned_osu",
            "atomics_osu",
            "congestion_osu",
        ),
        PLACES,
    ),
    **dict.fromkeys(("collectives_osu", "persistent_osu"), DEVICE_ALONE),
    **dict.fromkeys(("nonblocking_osu", "neighbourhood_osu"), OPTIONS),
}
CHECKED = {"validation": "on"}


def words_of(
    group: str, word: str, kind: str = "cuda", version: str = "7.5", **more
) -> dict[str, str]:
    """Words of a launch behind those of memory of the host, by benchmark;
    empty where the group has none of that memory.
    """
    more["stack"] = stack_of(osu=version, gpu=kind)
    more["ranks"] = 4 if group in ("transfer_osu", "neighbourhood_osu") else 2
    known = {launch.name: launch for launch in launches(group, **more)}
    try:
        found = launches(group, memory=Memory(word, kind), **more)
    except NotMeasured as error:
        assert "CUDA memory" in str(error) or "ROCm memory" in str(error)
        return {}
    words = {}
    for launch in found:
        host = known[launch.name]
        behind = len(host.args)
        assert launch.args[:behind] == host.args
        assert list(launch.expected[0].variants) == [
            ",".join(filter(None, (name, f"memory={word}"))) for name in host.expected[0].variants
        ]
        words[launch.binary] = " ".join(launch.args[behind:])
    return words


@pytest.mark.parametrize("group", osu.GROUPS)
def test_words_of_each_memory(group: str) -> None:
    for word in PLACES:
        wanted = ON_GPU.get(group, {}).get(word, "")
        found = words_of(group, word)
        assert bool(found) == bool(wanted), word
        for binary, words in found.items():
            get = binary.startswith("osu_get_") and len(wanted) == 3
            assert words == (wanted[::-1] if get else wanted), (binary, word)
    left_out = {row.name for row in catalogue.rows(group)} - set(words_of(group, DEVICE))
    # barriers send nothing, and one program takes the words and stays on the host
    if group in ON_GPU:
        assert {name for name in left_out if "barrier" not in name} <= {"osu_get_acc_latency"}


def test_what_each_release_and_platform_can() -> None:
    assert set(words_of("transfer_osu", DEVICE, version="7.2")) == {"osu_multi_lat", "osu_mbw_mr"}
    assert words_of("neighbourhood_osu", DEVICE, version="7.4") == {}
    assert words_of("p2p_osu", DEVICE, "rocm")["osu_bw"] == "D D"
    assert words_of("collectives_osu", DEVICE, "rocm")["osu_bcast"] == "-d rocm"
    for group in ("p2p_osu", "nonblocking_osu"):
        assert words_of(group, MANAGED, "rocm") == {}


def test_rows_of_what_an_mpi_does_not_do_there_are_left_out() -> None:
    asked: dict[str, Any] = {"stack": stack_of(gpu="cuda"), "memory": Memory(DEVICE, "cuda")}
    found = made("nonblocking_osu", ranks=4, **asked, without=(NONBLOCKING_REDUCTION,))
    names = {launch.binary for launch in found}
    assert "osu_iallgather" in names
    assert not names & {"osu_ireduce", "osu_iallreduce", "osu_ireduce_scatter"}
    with pytest.raises(NotMeasured, match="its MPI does no one-sided operations"):
        launches("atomics_osu", 2, **asked, without=(ONE_SIDED,))


def test_data_on_a_gpu_are_compared_too() -> None:
    memory = Memory(DEVICE, "cuda")
    (launch, *_) = launches("p2p_osu", stack=stack_of(gpu="cuda"), memory=memory, chosen=CHECKED)
    assert launch.args[-3:] == ("-c", "D", "D")
    assert launch.expected[0].validated
    assert words_of("p2p_osu", MANAGED, version="7.4", chosen=CHECKED)["osu_bw"] == "MD MD"
    for word, kind, version in ((MANAGED, "cuda", "7.2"), (DEVICE, "rocm", "7.0")):
        stack = stack_of(osu=version, gpu=kind)
        with pytest.raises(NotMeasured, match=r"does not do validation=on in .* rightly"):
            launches("p2p_osu", stack=stack, memory=Memory(word, kind), chosen=CHECKED)


def test_other_programs_send_memory_of_the_host() -> None:
    catalogue.check_memory(catalogue.PLACEMENT, OF_HOST)
    for group in ("bisection", "guidelines", "sharing", catalogue.PLACEMENT):
        with pytest.raises(NotMeasured, match=rf"{group} measures CUDA memory \(device\)"):
            catalogue.check_memory(group, Memory(DEVICE, "cuda"))
    [launch] = launches("pair_map", 4, nodes=4, memory=Memory(DEVICE, "rocm"))
    assert launch.args[-2:] == ("--memory", "rocm")
    assert {row.variants for row in launch.expected} == {("memory=device",)}
    assert "--memory" not in launches("pair_map", 4, nodes=4)[0].args
    with pytest.raises(NotMeasured, match=r"measures CUDA memory \(managed\)"):
        catalogue.check_memory("pair_map", Memory(MANAGED, "cuda"))
