"""Who an MPI library is, from what ``MPI_Get_library_version`` says: one row per implementation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reframe_tests.harness.vocabulary import BadInput


@dataclass(frozen=True)
class Signature:
    """How one implementation introduces itself.

    :param version: regular expression whose first group is the version.
    :param pattern: what goes into ``library_version_pattern``; ``{version}`` stands for the escaped version.
    :param abi: binary interface of its libmpi.
    :param families: process managers that come with it (``vocabulary.LAUNCHER_FAMILIES``).
    :param device: regular expression of the communication device, where builds differ in it.
    """

    mpi: str
    version: str
    pattern: str
    abi: str
    families: tuple[str, ...]
    device: str = ""


#: Sources: MPI_Get_library_version of the releases named in ci/tests/golden_transports, and of MVAPICH2 2.3.7 and MVAPICH 3.0
#: (src/mpi/misc/get_library_version.c and src/binding, which print "<name> Version:" like MPICH).
SIGNATURES = (
    Signature(
        "intelmpi",
        r"Intel\(R\) MPI Library ([0-9][0-9.]*) for ",
        r"Intel\(R\) MPI Library {version} for ",
        "mpich",
        ("hydra-intel",),
    ),
    Signature(
        "mvapich2",
        r"^MVAPICH2 Version\s*:\s+([0-9][\w.-]*)",
        r"MVAPICH2 Version\s*:\s+{version}\s",
        "mpich",
        ("mpirun_rsh", "hydra"),
        r"^MVAPICH2 Device\s*:\s+(\S.*)$",
    ),
    Signature(
        "mvapich",
        r"^MVAPICH Version\s*:\s+([0-9][\w.-]*)",
        r"MVAPICH Version\s*:\s+{version}\s",
        "mpich",
        ("mpirun_rsh", "hydra"),
        r"^MVAPICH Device\s*:\s+(\S.*)$",
    ),
    Signature(
        "mpich",
        r"^MPICH Version:\s+([0-9][\w.-]*)",
        r"MPICH Version:\s+{version}\s",
        "mpich",
        ("hydra",),
        r"^MPICH Device:\s+(\S.*)$",
    ),
    Signature(
        "openmpi",
        r"^Open MPI v([0-9][\w.-]*),",
        r"Open MPI v{version}, ",
        "openmpi",
        ("orterun", "prrte"),
    ),
)


@dataclass(frozen=True)
class Identity:
    """An MPI library, in the words of ``stack.json``.

    :param device: ``ch4:ucx``, ``ch4:ucx,ofi``; empty where the implementation names none.
    :param pattern: value of ``library_version_pattern``.
    """

    mpi: str
    version: str
    device: str
    abi: str
    pattern: str
    families: tuple[str, ...]


def identify(answer: str, who: str) -> Identity:
    """The identity behind an answer of ``MPI_Get_library_version``.

    :param who: file that gave the answer, for the sentence.
    :raises BadInput: when no row knows it.
    """
    for row in SIGNATURES:
        found = re.search(row.version, answer, re.M)
        if not found:
            continue
        device = re.search(row.device, answer, re.M) if row.device else None
        # "ch4:ucx ofi" is a build with --with-device=ch4:ucx,ofi.
        words = re.split(r"[ ,]+", device[1].strip()) if device else []
        pattern = row.pattern.replace("{version}", re.escape(found[1]))
        return Identity(row.mpi, found[1], ",".join(words), row.abi, pattern, row.families)
    first = next((line.strip() for line in answer.splitlines() if line.strip()), "nothing")
    known = ", ".join(row.mpi for row in SIGNATURES)
    raise BadInput(f"{who} says it is {first!r}, an MPI not known here ({known}); add a row to mpi_identity.py.")
