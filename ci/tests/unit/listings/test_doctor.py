"""Doctor counts the stacks that fit each partition, and drafts extras
in words that Python, YAML and the schema take.
"""

import ast
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from mpibench.commands.listings import doctor, fabrics_draft
from reframe_tests.harness import schema
from reframe_tests.harness.cases.preflight import node_facts
from reframe_tests.harness.machine import topology
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.stacks import metadata
from refusals import refused_as
from synthetic_node import CXI, HFI1, MLX5, gpu, make_node
from synthetic_stack import describe

EXTRAS = {"fabrics": {"shm": {"transport": "shm", "scope": "node"}}}


def system(**extras):
    return {"name": "here", "partitions": [{"name": "p", "extras": {**EXTRAS, **extras}}]}


@pytest.fixture
def registered(monkeypatch, tmp_path):
    names = ("a-spack", "b-wheels")
    stacks = [metadata.parse({**describe(tmp_path), "name": name}, tmp_path) for name in names]
    monkeypatch.setattr(metadata, "discover", lambda *_: (stacks, []))


def test_stacks_are_counted_and_a_pattern_that_fits_none_is_missing(registered):
    good, bad = doctor.fitting(system(stacks=["*-wheels", "*-spak"]))
    assert good == doctor.DoctorLine("here:p stacks", doctor.OK, "1 of 2: b-wheels")
    assert bad.state == doctor.MISSING and "'*-spak' in extras.stacks fits no" in bad.detail
    [nothing] = doctor.fitting(system(stacks=["*-spak"]))
    assert nothing.state == doctor.MISSING


@pytest.mark.parametrize(("stacks", "status"), [(["*"], 0), (["*", "*-spak"], 1)])
def test_the_exit_status_tells_ci(registered, monkeypatch, stacks, status):
    described = {**system(stacks=stacks), "hostnames": [".*"], "descr": "x"}
    monkeypatch.setattr(systems, "system_files", lambda *_: [Path("x")])
    monkeypatch.setattr(systems, "read_system", lambda *_: described)
    monkeypatch.setattr(systems, "find", lambda name, _: described if name == "here" else None)
    for name in ("", "here:p"):
        monkeypatch.setenv("RFM_SYSTEM", name)
        assert doctor.report(None, Console(quiet=True), stacks_only=True) == status
    monkeypatch.setenv("RFM_SYSTEM", "elsewhere")
    with refused_as("unknown-name", match="elsewhere"):
        doctor.report(None, Console(quiet=True), stacks_only=True)


def test_a_stack_without_osu_and_imb_is_noted(tmp_path, monkeypatch):
    bare = {"suites": {"mpi4py": {"version": "4", "built_with": "x"}}}
    for row, notes in ((bare, 1), ({}, 0)):
        stacks = [metadata.parse({**describe(tmp_path), **row}, tmp_path)]
        monkeypatch.setattr(metadata, "discover", lambda *_, found=stacks: (found, []))
        said = [line.detail for line in doctor._stacks(tmp_path) if line.state == doctor.NOTE]
        assert sum("its tests leave that out" in detail for detail in said) == notes


GPUS = {"kind": "cuda", "of_node": [{"bus_id": "0000:03:00.0", "numa_node": 0}]}
UCX = {
    "transport": "ucx",
    "scope": "cluster",
    "memory": ["host", "device"],
    "rails": [{"device": "mlx5_0"}],
}


def notes_on_gpus(folder, stack, **partition):
    """What doctor says of a partition with a GPU for one stack."""
    extras = {"fabrics": {"ib": UCX}, "gpus": GPUS}
    row = {"name": "p", "scheduler": "slurm", "extras": extras, **partition}
    parsed = metadata.parse({**describe(folder), **stack}, folder)
    found = list(doctor.check_gpus("here:p", row, [parsed]))
    assert {finding.state for finding in found} <= {doctor.NOTE}
    return [finding.detail for finding in found]


def test_a_partition_with_gpus_is_told_what_it_lacks(tmp_path):
    never, resource, aware, nccl = notes_on_gpus(tmp_path, {})
    assert "not been measured" in never and '{"name": "_rfm_gpu", "options":' in resource
    assert "no MPI test runs on ib_device" in aware
    assert "no stack here has nccl-tests built for CUDA" in nccl
    suite = {"version": "2", "built_with": "x", "gpu": "cuda"}
    whole = {"gpu": "cuda", "suites": {"osu": suite, "nccl_tests": suite}}
    asked = {"resources": [{"name": "cards", "options": ["--gres=gpu:{num_gpus_per_node}"]}]}
    assert notes_on_gpus(tmp_path, whole, **asked) == [never]
    others = {**EXTRAS, "gpus": GPUS}
    said = notes_on_gpus(tmp_path, {"gpu": "cuda"}, extras=others, **asked)
    assert "no fabric has 'memory'" in said[1]
    assert list(doctor.check_gpus("here:p", {"scheduler": "slurm", "extras": EXTRAS}, [])) == []


# ---- The draft of a partition's extras: what a machine shows, in words
# that Python, YAML and the schema take ----

COMMAND = "mpibench doctor --system lagoon --draft"
COMPUTE = {
    "name": "compute",
    "scheduler": "slurm",
    "launcher": "srun",
    "access": ["-p std"],
    "processor": topology.describe(2, 4),
}
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


def interface(name, speed, **more):
    """Files of an interface that is up."""
    files = {"operstate": "up", "mtu": "9000", "type": "1", "speed": speed, **more}
    rows = {key.replace("__", "/"): text for key, text in files.items() if text}
    return {f"sys/class/net/{name}/{key}": text for key, text in rows.items()}


INTERFACES = {
    **interface("eth0", "25000", device__vendor="0x15b3", device__numa_node="1"),
    **interface("eth1", "25000", device__vendor="0x15b3", device__numa_node="-1"),
    **interface("eth2", "1000", device__vendor="0x8086", operstate="down"),
    **interface("ens1f0", "25000", device__vendor="0x15b3", master__operstate="up"),
    **interface("bond0", "50000", uevent="DEVTYPE=bond"),
    **interface("br0", "10000", uevent="DEVTYPE=bridge", bridge__bridge_id="8000"),
    **interface("fab", ""),
    **interface("lo", "", type="772", operstate="unknown"),
    **interface("ib0", "", type="32"),
}


def draft(folder, *parts):
    """The extras for one partition on a machine with these files, as a configuration in Python
    and one in YAML have them, held against the schema.
    """
    node = node_facts.Node(make_node(folder, *parts))
    text = fabrics_draft.write([COMPUTE], COMMAND, node, {})
    document = ast.literal_eval(f"{{\n{text}}}")
    assert document == yaml.safe_load(f"{{\n{text}}}")
    extras = document["extras"]
    assert schema.find_fault(systems.SYSTEM_SCHEMA, extras, systems.EXTRAS) is None
    return extras


def test_each_kind_has_its_transport(tmp_path):
    faster = {
        name.replace("hfi1_0", "hfi1_1"): text.replace("100 Gb/sec (4X EDR)", "400 Gb/sec (4X NDR)")
        for name, text in HFI1.items()
    }
    extras = draft(tmp_path / "node", HFI1, faster, CXI, ROCE)
    assert {(each.name, each.transport) for each in site.fabrics_of(extras).values()} == {
        ("opa100", "psm2"),
        ("opx400", "opx"),
        ("roce100", "ucx"),
        ("ss200", "cxi"),
        ("shm", "shm"),
    }
    assert extras["fabrics"]["roce100"]["rails"][0]["port"] == 2


def test_interfaces_are_networks_of_their_own(tmp_path):
    """Without those that are down, part of another, or nobody's network."""
    fabrics = draft(tmp_path / "node", INTERFACES)["fabrics"]
    del fabrics["shm"]
    assert {name: row["rails"] for name, row in fabrics.items()} == {
        "eth50g": [{"device": "bond0", "line_rate_gbit_per_s": 50}],
        "eth25g": [{"device": "eth0", "line_rate_gbit_per_s": 25, "numa_node": 1}],
        "eth25g_eth1": [{"device": "eth1", "line_rate_gbit_per_s": 25}],
        "fab": [{"device": "fab"}],
    }
    assert {(row["mtu_bytes"], row["transport"]) for row in fabrics.values()} == {(9000, "tcp")}


@pytest.mark.parametrize(("driver", "kind"), [("nvidia", "cuda"), ("amdgpu", "rocm")])
def test_gpus_that_the_kernel_shows_are_part_of_it(tmp_path, driver, kind):
    cards = {**gpu("0000:41:00.0", driver, numa=1), **gpu("0000:03:00.0", driver, numa=-1)}
    extras = draft(tmp_path / "node", TWO_RAILS, cards)
    rows = [{"bus_id": "0000:03:00.0"}, {"bus_id": "0000:41:00.0", "numa_node": 1}]
    assert extras["gpus"] == {"kind": kind, "of_node": rows}
    assert set(site.fabrics_of(extras)) == {"ndr400", "ndr400_device", "shm", "gpu_ipc"}
