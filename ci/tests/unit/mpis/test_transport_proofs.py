"""The transport table's proofs against recorded runs: those that were
what was asked for, and those that were not.
"""

import re
from dataclasses import replace

import pytest

from folders import DATA
from reframe_tests.harness.cases.job.transports import check_proofs, strip_debug
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_stack import (
    EDR,
    ETH,
    GOLDEN,
    INTEL,
    LO,
    MPICH,
    MPICH_4,
    MPICH_UCX,
    OPENMPI,
    OPENMPI_4,
    SHM,
    judge,
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
)
def test_recorded_runs_are_proven(stack, fabric, recording):
    assert judge(stack, fabric, recording) == []


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
        # A second one beside the right one.
        (OPENMPI, LO, "openmpi-5.0.11-lo-but-any-btl", "BTL 'sm'"),
        (OPENMPI, LO, "openmpi-5.0.11-lo-but-any-btl", "tcp BTL interface 'eth0'"),
        (OPENMPI, SHM, "openmpi-5.0.11-lo", "BTL 'tcp'"),
        (OPENMPI, EDR, "openmpi-5.0.11-ucx-eth0", "UCX lane 'tcp/eth0'"),
    ],
)
def test_recorded_runs_of_something_else_are_caught(stack, fabric, recording, reported):
    assert any(
        f" reports {reported}" in said and said.startswith("asked for ")
        for said in judge(stack, fabric, recording)
    )


def test_another_device_than_the_one_asked_for_on_the_same_transport():
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


def test_a_device_name_is_no_regular_expression():
    setting = setting_of(OPENMPI, replace(LO, rails=(Rail("eth1.5"),)))
    lines = (
        "[n:1] btl:tcp: 0x1: if {} kidx 1 cnt 0\n[n:1] mca: bml: Using tcp btl for send to "
        "[[1,1],1] on node n\n"
    )
    assert check_proofs(setting, lines.format("eth1.5")) == []
    assert len(check_proofs(setting, lines.format("eth1x5"))) == 1


# --- mapped libraries
# -------------------------------------------------------------------------------------------------


def test_loaded_providers_are_no_used_ones():
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
def test_stripping_leaves_the_benchmark_and_nothing_else(path):
    stack = next(stack for name, stack in STACK_OF.items() if path.name.startswith(name))
    text = path.read_text()
    clean, debug = strip_debug(stack, text)
    strangers = [line for line in clean.splitlines() if not _TABLE.fullmatch(line)]
    assert strangers == []
    assert not any(_TABLE.fullmatch(line) for line in debug.splitlines())
    assert sorted((clean + debug).splitlines()) == sorted(text.splitlines())
    assert strip_debug(stack, clean) == (clean, "")


@pytest.mark.parametrize("stack", [INTEL, MPICH, OPENMPI], ids=lambda stack: stack.mpi)
def test_benchmark_output_is_never_taken_for_debug_lines(stack):
    # hpcc writes into a file of its own.
    outputs = [
        path for path in sorted((DATA / "golden").glob("*.txt")) if not path.name.startswith("hpcc")
    ]
    assert outputs
    for path in outputs:
        text = path.read_text()
        assert strip_debug(stack, text) == (text, ""), path.name
