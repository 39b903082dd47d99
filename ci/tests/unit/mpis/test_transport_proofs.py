"""The transport table's proofs against recorded runs: those that were
what was asked for, and those that were not.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from folders import DATA
from reframe_tests.harness.cases.job.transports import Setting, check_proofs, strip_debug
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.stacks.stack import Stack
from transport_cases import (
    EDR,
    ETH,
    FORCED,
    GOLDEN,
    INTEL,
    INTEL_401,
    LO,
    MPICH,
    MPICH_4,
    MPICH_UCX,
    MVAPICH2,
    OPENMPI,
    OPENMPI_4,
    SHM,
    attempt,
    every_stack,
    fabric_of,
    golden,
    judge,
    make_stack,
    setting_of,
)

# --- recorded runs that were what they were asked to be
# ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("stack", "fabric", "recording"),
    [
        (INTEL, SHM, "intelmpi-2021.18.1-shm"),
        (INTEL, LO, "intelmpi-2021.18.1-lo"),
        (MPICH, LO, "mpich-5.0.2-lo"),
        (MPICH_UCX, Fabric("eth0", "tcp", "node", (Rail("eth0"),)), "mpich-5.0.2-ucx-eth0"),
        (MPICH_4, SHM, "mpich-4.0.2-shm"),
        (OPENMPI, SHM, "openmpi-5.0.11-shm"),
        (OPENMPI, LO, "openmpi-5.0.11-lo"),
        (OPENMPI_4, SHM, "openmpi-4.1.4-shm"),
        (OPENMPI_4, LO, "openmpi-4.1.4-lo"),
        (INTEL, ETH, "intelmpi-2021.18.1-two-nodes"),
        (MPICH, ETH, "mpich-5.0.2-two-nodes"),
        (OPENMPI, ETH, "openmpi-5.0.11-two-nodes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_recorded_runs_are_proven(stack: Stack, fabric: Fabric, recording: str) -> None:
    assert judge(stack, fabric, recording) == []


def test_the_ofi_mtl_says_its_provider() -> None:
    efa = setting_of(OPENMPI, fabric_of("efa", "cluster"))
    _, err = golden("openmpi-5.0.11-ofi-lo")
    assert check_proofs(efa, err) == [
        "asked for the_efa (rdmap0s6) over efa, but Open MPI reports libfabric provider "
        f"'tcp;ofi_rxm' ({efa.choice})."
    ]
    assert (
        check_proofs(efa, err.replace("mtl:ofi:provider: tcp;ofi_rxm", "mtl:ofi:provider: efa"))
        == []
    )
    # Open MPI 4 prints the same with another word.
    old = setting_of(OPENMPI_4, fabric_of("efa", "cluster"))
    assert check_proofs(old, "[n1:7] mtl_ofi_component.c:366: mtl:ofi:prov: efa\n") == []


# --- recorded runs that were something else
# ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stack", "fabric", "recording", "reported"),
    [
        (INTEL, LO, "intelmpi-2021.18.1-lo-but-shm", "I_MPI_FABRICS 'shm:ofi'"),
        (INTEL, LO, "intelmpi-2021.18.1-lo-but-provider-shm", "libfabric provider 'shm'"),
        (INTEL, LO, "intelmpi-2021.18.1-lo-but-no-such-interface", "NIC 'eth0'"),
        (MPICH, LO, "mpich-5.0.2-lo-but-any-provider", "libfabric provider 'sockets'"),
        (
            MPICH,
            LO,
            "mpich-5.0.2-lo-but-local",
            "Local_rank (0 everywhere under MPIR_CVAR_NOLOCAL=1) '1'",
        ),
        (MPICH, SHM, "mpich-5.0.2-shm-but-tcp", "UCX lane 'tcp/eth0'"),
        (MPICH, ETH, "mpich-5.0.2-two-nodes-but-shm", "UCX lane 'self/memory', 'cma/memory'"),
        (OPENMPI, LO, "openmpi-5.0.11-two-nodes", "BTL 'sm'"),
        (OPENMPI, LO, "openmpi-5.0.11-lo-but-eth0", "tcp BTL interface 'eth0'"),
        (OPENMPI, SHM, "openmpi-5.0.11-lo", "BTL 'tcp'"),
        (OPENMPI, EDR, "openmpi-5.0.11-ucx-eth0", "UCX lane 'tcp/eth0'"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_recorded_runs_of_something_else_are_caught(
    stack: Stack, fabric: Fabric, recording: str, reported: str
) -> None:
    assert any(
        f" reports {reported}" in said and said.startswith("asked for ")
        for said in judge(stack, fabric, recording)
    )


def test_a_second_btl_beside_the_right_one_is_caught() -> None:
    sentences = judge(OPENMPI, LO, "openmpi-5.0.11-lo-but-any-btl")
    assert any("BTL 'sm'" in sentence for sentence in sentences)
    assert any("tcp BTL interface 'eth0'" in sentence for sentence in sentences)


def test_another_device_than_the_one_asked_for_on_the_same_transport() -> None:
    line = (
        "ucp_worker.c:1912 UCX  INFO    ucp_context_0 inter-node cfg#2 tag(rc_mlx5/{0}:1)  "
        "am(rc_mlx5/{0}:1)\n"
    )
    setting = setting_of(MPICH_UCX, EDR)
    assert check_proofs(setting, line.format("mlx5_0")) == []
    (sentence,) = check_proofs(setting, line.format("mlx5_1"))
    assert "UCX lane 'rc_mlx5/mlx5_1:1'" in sentence
    # Two networks at once: the right one is there, the wrong one is still named.
    (sentence,) = check_proofs(setting, line.format("mlx5_0") + line.format("mlx5_1"))
    assert "'rc_mlx5/mlx5_1:1'" in sentence and "mlx5_0:1'" not in sentence


def test_a_device_name_is_no_regular_expression() -> None:
    setting = setting_of(OPENMPI, replace(LO, rails=(Rail("eth1.5"),)))
    lines = (
        "[n:1] btl:tcp: 0x1: if {} kidx 1 cnt 0\n[n:1] mca: bml: Using tcp btl for send to "
        "[[1,1],1] on node n\n"
    )
    assert check_proofs(setting, lines.format("eth1.5")) == []
    assert len(check_proofs(setting, lines.format("eth1x5"))) == 1


def test_intel_mpi_before_2019_says_its_data_transfer_mode() -> None:
    setting = setting_of(INTEL_401, Fabric("qdr", "verbs", "cluster", (Rail("mlx4_0"),)))
    said = (
        "[{rank}] MPI startup(): DAPL provider ofa-v2-mlx4_0-1\n[{rank}] MPI startup(): {mode} "
        "data transfer modes\n"
    )
    assert check_proofs(setting, said.format(rank=0, mode="shm and dapl")) == []
    (sentence,) = check_proofs(
        setting, said.format(rank=0, mode="shm and dapl") + said.format(rank=1, mode="shm and tcp")
    )
    assert "data transfer mode 'shm and tcp'" in sentence


def test_intel_mpi_prints_nics_in_two_layouts() -> None:
    setting = setting_of(INTEL, ETH)
    said = "[0] MPI startup(): libfabric provider: tcp\n[0] MPI startup(): I_MPI_FABRICS=shm:ofi\n"
    pinning = "[0] MPI startup(): 0       8912     vm         {0}\n"
    for nic in ("0    0         {}    0", "0    {}    0", "0       0          {}"):
        line = "[0] MPI startup(): " + nic + "\n"
        assert check_proofs(setting, said + line.format("eth1") + pinning) == []
        assert "NIC 'eth2'" in check_proofs(setting, said + line.format("eth2") + pinning)[0]


def test_mvapich2_says_its_adapters() -> None:
    setting = setting_of(MVAPICH2, Fabric("edr", "verbs", "cluster", (Rail("mlx5_0"),)))
    said = "-------------HCA AFFINITY-------------\nProcess: 0 HCAs: mlx5_0\nProcess: 1 HCAs: {}\n"
    assert check_proofs(setting, said.format("mlx5_0")) == []
    assert "HCA 'mlx5_2'" in check_proofs(setting, said.format("mlx5_0 mlx5_2"))[0]
    psm = setting_of(make_stack("mvapich2", "2.3.7", "ch3:psm"), fabric_of("psm2", "cluster"))
    assert check_proofs(psm, "\tHCA NAME                       : MV2_HCA_INTEL_HFI1\n") == []
    assert (
        "'MV2_HCA_MLX_CX_EDR'"
        in check_proofs(psm, "\tHCA NAME                       : MV2_HCA_MLX_CX_EDR\n")[0]
    )


# --- missing evidence
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stack", every_stack(), ids=lambda stack: f"{stack.mpi}-{stack.mpi_version}-{stack.device}"
)
def test_no_setting_is_proven_by_silence(stack: Stack) -> None:
    for transport in FORCED:
        setting = attempt(stack, fabric_of(transport, "node"))
        if isinstance(setting, Setting):
            for text in ("", "# Benchmarking PingPong\n       #bytes #repetitions      t[usec]\n"):
                assert check_proofs(setting, text, []), setting.summary


def test_evidence_an_older_version_does_not_print_is_not_missed() -> None:
    out, _ = golden("intelmpi-2021.18.1-lo")
    without = "".join(
        line
        for line in out.splitlines(keepends=True)
        if not re.search(r"\): \d+ +\d+ +lo$", line.rstrip())
    )
    assert check_proofs(setting_of(INTEL, LO), without) == [
        "Intel MPI printed no line naming its NIC (asked for by I_MPI_DEBUG=5); evidence missing."
    ]
    assert check_proofs(setting_of(make_stack("intelmpi", "2021.9.0"), LO), without) == []
    # A NIC it does print still has to be the right one.
    wrong = out.replace("0          lo", "0          eth0")
    assert (
        "NIC 'eth0'" in check_proofs(setting_of(make_stack("intelmpi", "2021.9.0"), LO), wrong)[0]
    )


def test_recordings_without_the_deciding_lines_are_refused() -> None:
    assert judge(OPENMPI_4, fabric_of("psm2", "node"), "openmpi-4.1.4-psm2-without-adapter") == [
        "Open MPI printed no line naming its MTL (asked for by OMPI_MCA_mtl_base_verbose=10); "
        "evidence missing."
    ]


# --- mapped libraries
# -------------------------------------------------------------------------------------------------


def test_loaded_providers_are_no_used_ones() -> None:
    """On a machine with RDMA libraries libfabric loads their providers
    too, then takes the one FI_PROVIDER names.
    """
    lib = "/opt/intelmpi/lib/"
    rdma = tuple(f"{lib}lib{name}-fi.so" for name in ("mlx", "psm3", "psmx2", "verbs-1.12"))
    assert (
        judge(
            INTEL,
            LO,
            "intelmpi-2021.18.1-lo",
            (lib + "libfabric.so.1", lib + "libtcp-fi.so", *rdma),
        )
        == []
    )
    wheel = ("/opt/mpich/lib/libfabric/libefa-fi.so", "/opt/mpich/lib/libfabric/libverbs-fi.so")
    assert judge(MPICH, LO, "mpich-5.0.2-lo", wheel) == []


def test_a_network_library_under_shared_memory_counts() -> None:
    lib = "/opt/intelmpi/lib/"
    assert judge(INTEL, SHM, "intelmpi-2021.18.1-shm", (lib + "libmpi.so.12",)) == []
    (sentence,) = judge(INTEL, SHM, "intelmpi-2021.18.1-shm", (lib + "libfabric.so.1",))
    assert "has mapped network library 'libfabric.so'" in sentence


def test_a_build_that_prints_nothing_is_judged_by_its_libraries() -> None:
    setting = setting_of(make_stack("mvapich2", "2.3.7", "ch3:nemesis"), LO)
    assert check_proofs(setting, "", ["/opt/mpi/lib/libmpi.so.12"]) == []
    assert "RDMA library 'ibverbs'" in check_proofs(setting, "", ["/usr/lib64/libibverbs.so.1"])[0]
    assert "no mapped libraries were recorded" in check_proofs(setting, "")[0]


# --- debug lines among the benchmark's
# --------------------------------------------------------------------------------

STACK_OF = {
    "intelmpi-2021.18.1": INTEL,
    "mpich-5.0.2": MPICH,
    "mpich-4.0.2": MPICH_4,
    "openmpi-5.0.11": OPENMPI,
    "openmpi-4.1.4": OPENMPI_4,
}
_TABLE = re.compile(r"\s*|#.*| +#bytes .*| +\d.*")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.out.txt")), ids=lambda path: path.name)
def test_stripping_leaves_the_benchmark_and_nothing_else(path: Path) -> None:
    stack = next(stack for name, stack in STACK_OF.items() if path.name.startswith(name))
    text = path.read_text()
    clean, debug = strip_debug(stack, text)
    strangers = [line for line in clean.splitlines() if not _TABLE.fullmatch(line)]
    assert strangers == []
    assert not any(_TABLE.fullmatch(line) for line in debug.splitlines())
    assert sorted((clean + debug).splitlines()) == sorted(text.splitlines())
    assert strip_debug(stack, clean) == (clean, "")


@pytest.mark.parametrize("stack", [INTEL, MPICH, OPENMPI], ids=lambda stack: stack.mpi)
def test_benchmark_output_is_never_taken_for_debug_lines(stack: Stack) -> None:
    # hpcc writes into a file of its own.
    outputs = [
        path for path in sorted((DATA / "golden").glob("*.txt")) if not path.name.startswith("hpcc")
    ]
    assert outputs
    for path in outputs:
        text = path.read_text()
        assert strip_debug(stack, text) == (text, ""), path.name


def test_a_stranger_among_the_debug_lines_stays_in_the_benchmarks_output() -> None:
    for text in (
        "[0] something else\n",
        "Abort(271205519) on node 0\n",
        "warning: eth0 is down\n",
        "[0] MPI startup\n",
    ):
        assert strip_debug(INTEL, text) == (text, "")
        assert strip_debug(MPICH, text) == (text, "")
