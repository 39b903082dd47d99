"""The draft of a partition's extras: what a machine shows, in words that Python, YAML and the schema take."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from mpibench.commands.listings import fabrics_draft
from reframe_tests.harness import schema
from reframe_tests.harness.cases.preflight import node_facts
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.sites import site, systems
from synthetic_node import CXI, ETHERNET, HFI1, MLX5, make_node

COMMAND = "mpibench doctor --system lagoon --draft"
COMPUTE = {"name": "compute", "scheduler": "slurm", "launcher": "srun", "access": ["-p std"], "processor": describe(2, 4)}
TWO_RAILS = {
    **MLX5,
    **{name.replace("mlx5_0", "mlx5_1"): text for name, text in MLX5.items()},
    "sys/class/infiniband/mlx5_0/device/numa_node": "0",
    "sys/class/infiniband/mlx5_1/device/numa_node": "1",
    "sys/class/infiniband/mlx5_0/device/net/ib0/mtu": "4092",
    "sys/class/infiniband/mlx5_1/device/net/ib1/mtu": "4092",
}
ROCE = {
    "sys/class/infiniband/mlx5_bond_0/ports/2/state": "4: ACTIVE",
    "sys/class/infiniband/mlx5_bond_0/ports/2/rate": "100 Gb/sec (4X EDR)",
    "sys/class/infiniband/mlx5_bond_0/ports/2/link_layer": "Ethernet",
    "sys/class/infiniband/mlx5_2/ports/1/state": "1: DOWN",
    "sys/class/infiniband/mlx5_2/ports/1/rate": "10 Gb/sec (4X SDR)",
}


def interface(name: str, speed: int | None, **more: str) -> dict[str, str]:
    """Files of an interface that is up."""
    files = {"operstate": "up", "mtu": "9000", "type": "1", **({"speed": str(speed)} if speed else {}), **more}
    return {f"sys/class/net/{name}/{key.replace('__', '/')}": text for key, text in files.items()}


INTERFACES = {
    **interface("eth0", 25000, device__vendor="0x15b3", device__numa_node="1"),
    **interface("eth1", 25000, device__vendor="0x15b3", device__numa_node="-1"),
    **interface("eth2", 1000, device__vendor="0x8086", operstate="down"),
    **interface("ens1f0", 25000, device__vendor="0x15b3", master__operstate="up"),
    **interface("bond0", 50000, uevent="DEVTYPE=bond"),
    **interface("br0", 10000, uevent="DEVTYPE=bridge", bridge__bridge_id="8000"),
    **interface("veth7", 10000, master__operstate="up"),
    **interface("fab", None),
    **interface("lo", None, type="772", operstate="unknown"),
    **interface("ib0", None, type="32"),
}


def draft(folder: Path, *parts: Mapping[str, str], row: Mapping[str, Any] = COMPUTE, environ: Mapping[str, str] = {}) -> str:
    """The draft for one partition, on a machine with these files."""
    return fabrics_draft.write([row], COMMAND, node_facts.Node(make_node(folder, *parts)), environ)


def read(text: str) -> dict[str, Any]:
    """The extras as a configuration in Python and one in YAML have them, held against the schema."""
    document = ast.literal_eval(f"{{\n{text}}}")
    assert document == yaml.safe_load(f"{{\n{text}}}")
    extras: dict[str, Any] = document["extras"]
    assert schema.find_fault(systems.SYSTEM_SCHEMA, extras, systems.EXTRAS) is None
    return extras


def test_ports_of_a_kind_and_rate_are_rails_of_one_fabric(tmp_path: Path) -> None:
    found = read(draft(tmp_path / "node", TWO_RAILS))
    assert found["node_counts"] == [2]
    assert found["fabrics"] == {
        "ndr400": {
            "transport": "ucx",
            "scope": "cluster",
            "tcp_interfaces": ["ib0", "ib1"],
            "rails": [
                {"device": "mlx5_0", "line_rate_gbit_per_s": 400, "numa_node": 0},
                {"device": "mlx5_1", "line_rate_gbit_per_s": 400, "numa_node": 1},
            ],
        },
        "shm": {"transport": "shm", "scope": "node"},
    }


def test_each_kind_has_its_transport(tmp_path: Path) -> None:
    faster = {
        name.replace("hfi1_0", "hfi1_1"): text.replace("100 Gb/sec (4X EDR)", "400 Gb/sec (4X NDR)")
        for name, text in HFI1.items()
    }
    extras = read(draft(tmp_path / "node", HFI1, faster, CXI, ROCE))
    fabrics = site.fabrics_of(extras)
    shown = {name: (each.transport, each.devices, each.line_rate_gbit_per_s) for name, each in fabrics.items()}
    assert shown == {
        "opa100": ("psm2", ("hfi1_0",), 100),
        "opx400": ("opx", ("hfi1_1",), 400),
        "roce100": ("ucx", ("mlx5_bond_0",), 100),
        "ss200": ("cxi", ("cxi0",), 200),
        "shm": ("shm", (), None),
    }
    assert extras["fabrics"]["roce100"]["rails"][0]["port"] == 2


def test_interfaces_are_networks_of_their_own(tmp_path: Path) -> None:
    """Without those that are down, part of another, or nobody's network."""
    fabrics = read(draft(tmp_path / "node", INTERFACES))["fabrics"]
    assert {name: row["rails"] for name, row in fabrics.items() if name != "shm"} == {
        "eth50g": [{"device": "bond0", "line_rate_gbit_per_s": 50}],
        "eth25g": [{"device": "eth0", "line_rate_gbit_per_s": 25, "numa_node": 1}],
        "eth25g_eth1": [{"device": "eth1", "line_rate_gbit_per_s": 25}],
        "fab": [{"device": "fab"}],
    }
    assert {row["mtu_bytes"] for name, row in fabrics.items() if name != "shm"} == {9000}
    assert all(row["transport"] == "tcp" for name, row in fabrics.items() if name != "shm")


def test_a_machine_without_a_network_says_so(tmp_path: Path) -> None:
    text = draft(tmp_path / "node", ETHERNET | {"sys/class/net/eth0/operstate": "down"})
    assert "no network was seen on" in text.splitlines()[0]
    assert set(read(text)["fabrics"]) == {"shm"}


def test_a_partition_where_reframe_is_started_is_not_measured(tmp_path: Path) -> None:
    text = draft(tmp_path / "node", row={"name": "login", "scheduler": "local", "launcher": "local"})
    assert "# login runs where ReFrame is started" in text and "extras" not in text.splitlines()[-1]


@pytest.mark.parametrize("counts", [{}, {"processor": {"num_cpus": 8}}])
def test_outside_of_its_jobs_a_draft_says_so_and_what_topology_lacks(tmp_path: Path, counts: dict[str, Any]) -> None:
    row = {"name": "1_gpu", "scheduler": "slurm", "launcher": "srun", "access": ["-p gpu", "-A me"], **counts}
    outside = draft(tmp_path / "node", TWO_RAILS, row=row)
    assert "run the same in one of its jobs (-p gpu -A me)" in outside
    assert "what 'reframe --detect-host-topology' prints in one of its jobs" in outside
    inside = draft(tmp_path / "node", TWO_RAILS, row=row, environ={"SLURM_JOB_ID": "7"})
    assert "run the same" not in inside and "'processor'" in inside
    assert "processor" not in draft(tmp_path / "node", TWO_RAILS, environ={"SLURM_JOB_ID": "7"})
