"""Datasets from which settings are recommended: fabrics and
pinnings of one stack with known differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpibench_tune import documents
from mpibench_tune.choice import Recommendation
from reframe_tests.harness.stacks.stack import Stack
from synthetic_evidence import STACK
from synthetic_verdicts import write_session

INTEL = replace(
    STACK,
    name="intelmpi-wheels",
    mpi="intelmpi",
    mpi_version="2021.18.1",
    abi="mpich",
    launcher_family="hydra-intel",
    build={"lock_hash": "0123abcd"},
)
#: Selector of all sessions these tests write.
ALL = "20250101:20300101"
#: Variables of Intel MPI over TCP, with one that only makes it speak.
ENVIRONMENT = {
    "I_MPI_OFI_PROVIDER": "tcp",
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": "eth1",
    "I_MPI_FABRICS": "shm:ofi",
    "I_MPI_DEBUG": "5",
    "I_MPI_PIN": "on",
    "USERS_OWN": "1",
}


def measured(
    folder: Path,
    number: int,
    *,
    factor: float = 1.0,
    fabric: str = "eth10g",
    pinning: str = "bunch",
    scope: str = "cluster",
    transport: str = "tcp",
    environment: dict[str, str] | None = None,
    change: Callable[[str, int, str], float] | None = None,
    **more: Any,
) -> None:
    """One session with one condition, so many times slower than others."""
    stored = {
        "transport": transport,
        "scope": scope,
        "nodes": 2,
        "ppn": 2,
        "placement": None if pinning in ("default", "none") else [[0], [1]],
        "environment": ENVIRONMENT if environment is None else environment,
    }
    write_session(
        folder,
        number,
        **{
            "stacks": (INTEL.name,),
            "mpi_version": INTEL.mpi_version,
            "condition": stored,
            "where": {
                "fabric": fabric,
                "pinning": pinning,
                "ppn": 2,
                "mpi": "intelmpi",
                "lock_hash": None,
            },
            "change": change or (lambda benchmark, size, stack: factor),
            **more,
        },
    )


def registered(*stacks: Stack) -> Callable[[], tuple[list[Stack], list[str]]]:
    """Stands for ``metadata.discover``."""
    return lambda: (list(stacks), [])


def variables_of(row: Recommendation) -> dict[str, str]:
    """What a recommendation sets."""
    return {setting.name: setting.value for setting in documents.variables(row)}
