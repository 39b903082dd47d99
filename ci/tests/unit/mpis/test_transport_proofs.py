"""The transport table's proofs against recorded runs: those that were
what was asked for, and those that were not.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from folders import DATA
from reframe_tests.harness.cases.job.transports import check_proofs, strip_debug
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.stacks.stack import Stack
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
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_recorded_runs_are_proven(stack: Stack, fabric: Fabric, recording: str) -> None:
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


def test_a_device_name_is_no_regular_expression() -> None:
    setting = setting_of(OPENMPI, replace(LO, rails=(Rail("eth1.5"),)))
    lines = (
        "[n:1] btl:tcp: 0x1: if {} kidx 1 cnt 0\n[n:1] mca: bml: Using tcp btl for send to "
        "[[1,1],1] on node n\n"
    )
    assert check_proofs(setting, lines.format("eth1.5")) == []
    assert len(check_proofs(setting, lines.format("eth1x5"))) == 1


# --- missing evidence
# -------------------------------------------------------------------------------------------------


# --- mapped libraries
# -------------------------------------------------------------------------------------------------


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
