"""An MPI of your own, to copy: one record, called MPI. All fields:
reframe_tests/harness/mpis/model.py and transport.py.

Replace each made-up word (mympi, MYMPI_..., the lines it prints) with what the MPI's manual says. A
stack.json selects the file with "mpi": {"name": "mympi", ...}; 'mpibench stacks add --mpirun' finds
an installed one by banner, libraries and sonames.
"""

import re

from reframe_tests.harness.mpis.model import Banner, Mpi, Unbinding
from reframe_tests.harness.mpis.transport import Gap, Proof, Range, TransportRow, scoped

#: What the library prints about its choice: without such a line
#: nothing shows which network carried the bytes.
SAY = {"MYMPI_VERBOSE": "1"}
ALL_VERSIONS = Range((1,))

MPI = Mpi(
    # Required: these four. The name is mpi.name of stack.json,
    # launchers are names of records in launchers/.
    name="mympi",
    title="My MPI",
    # or "mpich", "openmpi" where it runs programs built for these; 'world' is then theirs, too
    abi="mympi",
    launchers=("hydra",),
    # To use a fabric it needs a row per transport: variables that
    # choose it, and the line that proves it.
    rows=(
        TransportRow(
            "tcp",
            ALL_VERSIONS,
            "its manual, 'Networks'",
            # the fabric's device; more: transport.py
            env={"MYMPI_NETWORK": "tcp", "MYMPI_INTERFACE": "{device}"},
            debug_env=SAY,
            # Within a node all bytes must take the network, so shared memory is switched off there.
            by_scope=scoped(node={"MYMPI_SHM": "0"}, cluster={}),
            # Of memory of GPUs: memory={"cuda": DeviceMemory("its manual, 'CUDA'",
            # env={"MYMPI_CUDA": "1"}, proofs=...)},
            proofs=(Proof("interface", r"mympi: network tcp on (\S+)", ("{device}",)),),
        ),
        TransportRow(
            "shm",
            ALL_VERSIONS,
            "its manual, 'Shared memory'",
            env={"MYMPI_NETWORK": "none"},
            debug_env=SAY,
            proofs=(Proof("network", r"mympi: network (\S+)", ("none",)),),
        ),
    ),
    # A network that no other MPI has is described in 'transports'
    # (reframe_tests/harness/machine/transport.py). What it cannot do, with what to do instead: the
    # reason of a case that is left out.
    gaps=(Gap("ucx", ALL_VERSIONS, "My MPI cannot use UCX: use transport tcp."),),
    # To be found by 'mpibench stacks add': MPI_Get_library_version, file names, SONAME,
    # MPI_COMM_WORLD in its mpi.h.
    banner=Banner(r"^My MPI ([0-9.]+)", r"My MPI {version}\b"),
    libraries=("libmympi",),
    sonames=(r"libmympi\.so\.1",),
    world="0x44000000",
    # As srun --mpi= names it, for launchers that need it.
    pmi="pmi2",
    # Variables that keep it from binding ranks which the launcher has bound.
    unbinding=(Unbinding("its manual, 'Binding'", ("hydra",), {"MYMPI_BIND": "0"}),),
    # Variables with these first letters are kept in each rank's record.
    settings=("MYMPI_",),
    # Lines it prints on stdout among the benchmark's; any other unknown line is an error.
    stdout_lines=re.compile(r"mympi: .*"),
)
