"""Sites to plan nights for: as a newcomer's, with stacks that are
only files and topologies by data sheet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from documentation import system_example
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.suites import catalogue
from synthetic_stack import write_stack
from tiny_site import write_site

#: Name to MPI, version, device, ABI, launcher and what the library
#: says: the four that Spack builds here.
STACKS = {
    "openmpi-spack": ("openmpi", "5.0.10", "", "openmpi", "prrte", "Open MPI v5"),
    "mpich-spack": ("mpich", "5.0.2", "ch4:ucx,ofi", "mpich", "hydra", "MPICH Version"),
    "intelmpi-spack": ("intelmpi", "2021.18.1", "", "mpich", "hydra-intel", "Intel"),
    "mvapich2-spack": ("mvapich2", "2.3.7", "ch3:mrail", "mpich", "hydra", "MVAPICH2"),
}
#: The five of a centre: modules beside those.
FIVE_STACKS = {
    **{name: row for name, row in STACKS.items() if name != "mvapich2-spack"},
    "openmpi-module": ("openmpi", "4.1.6", "", "openmpi", "orterun", "Open MPI v4"),
    "mvapich-module": ("mvapich", "4.0", "ch4:ucx", "mpich", "hydra", "MVAPICH"),
}
#: Two sockets of 32 cores, as the tutorial's example says of its nodes.
NODE = describe(2, 32)


def newcomer() -> dict[str, Any]:
    """The tutorial's example: two nodes, two networks and shared memory."""
    names: dict[str, Any] = {}
    exec(system_example().replace("FILL_IN: ", ""), names)  # the block is Python, and ours
    system: dict[str, Any] = names["system"]
    system["partitions"][0]["processor"] = NODE
    del system["prefix"]
    return system


def large() -> dict[str, Any]:
    """Three networks and shared memory, on 2 to 64 nodes."""
    system = newcomer()
    extras = system["partitions"][0]["extras"]
    extras["node_counts"] = [2, 4, 8, 16, 32, 64]
    extras["fabrics"]["hdr100"] = {
        **extras["fabrics"]["hdr200"],
        "rails": [{"device": "mlx5_1", "line_rate_gbit_per_s": 100, "numa_node": 1}],
    }
    return system


def three_partitions() -> dict[str, Any]:
    """Nodes measured on 2 and on 16, others on 2, and these once
    more, started by each stack's own launcher.
    """
    system = newcomer()
    [partition] = system["partitions"]
    counts = {"cpu": ("srun", [2, 16]), "gpu": ("srun", [2]), "gpu-mpirun": ("mpirun", [2])}
    system["partitions"] = [
        {
            **partition,
            "name": name,
            "launcher": launcher,
            "extras": {**partition["extras"], "node_counts": numbers},
        }
        for name, (launcher, numbers) in counts.items()
    ]
    return system


def centre() -> dict[str, Any]:
    """A computing centre's: processors on 2, 16 and 64 nodes of three
    networks, GPUs on 2 and 8, and two old nodes.
    """
    system = large()
    [partition] = system["partitions"]
    fabrics = partition["extras"]["fabrics"]
    places = {
        "cpu": ([2, 16, 64], fabrics),
        "gpu": ([2, 8], {name: row for name, row in fabrics.items() if name != "hdr100"}),
        "old": ([2], {name: fabrics[name] for name in ("eth25g", "shm")}),
    }
    system["partitions"] = [
        {
            **partition,
            "name": name,
            "extras": {**partition["extras"], "node_counts": counts, "fabrics": there},
        }
        for name, (counts, there) in places.items()
    ]
    return system


def write(
    top: Path, system: dict[str, Any], stacks: Mapping[str, tuple[str, ...]] = STACKS
) -> Path:
    """A checkout with that site, four stacks and the project's own tests; its folder."""
    write_site(top, system)
    (top / "reframe_tests").symlink_to(ROOT / "reframe_tests")
    programs = {row.binary: row.suite for row in catalogue.ROWS if row.suite in ("imb", "osu")}
    for name, (mpi, version, device, abi, launcher, pattern) in stacks.items():
        folder = top / "environments" / name
        (folder / "bin").mkdir(parents=True)
        for program in programs:
            (folder / "bin" / program).write_text("#!/bin/sh\n")
            (folder / "bin" / program).chmod(0o755)
        suites = {
            "imb": {"version": "2021.11", "built_with": "gcc"},
            "osu": {"version": "7.5.2", "built_with": "gcc"},
        }
        write_stack(
            folder,
            name=name,
            origin="spack",
            mpi={"name": mpi, "version": version, "device": device},
            abi=abi,
            launcher_family=launcher,
            library_version_pattern=pattern,
            binaries={program: str(folder / "bin" / program) for program in programs},
            commands={"mpi4py.bench": ["/bin/true", "-m", "mpi4py.bench"]},
            suites=suites,
        )
    return top
