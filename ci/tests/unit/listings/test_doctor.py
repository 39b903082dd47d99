"""Doctor counts the stacks that fit each partition, and drafts extras in words that Python, YAML and the schema take."""

from __future__ import annotations

import ast
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
from synthetic_node import CXI, ETHERNET, HFI1, MLX5, gpu, make_node
from synthetic_stack import describe

EXTRAS = {"fabrics": {"shm": {"transport": "shm", "scope": "node"}}}


def system(**extras: object) -> dict:
    return {"name": "here", "partitions": [{"name": "p", "extras": {**EXTRAS, **extras}}]}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("a-spack", "b-wheels")
    stacks = [metadata.parse({**describe(tmp_path), "name": name}, tmp_path) for name in names]
    monkeypatch.setattr(metadata, "discover", lambda *_: (stacks, []))


def test_stacks_are_counted_and_a_pattern_that_fits_none_is_missing(registered: None) -> None:
    good, bad = doctor.fitting(system(stacks=["*-wheels", "*-spak"]))
    assert (good.subject, good.state, good.detail) == ("here:p stacks", doctor.OK, "1 of 2: b-wheels")
    assert bad.state == doctor.MISSING
    assert bad.detail.startswith("'*-spak' in extras.stacks fits no stack")
    [nothing] = doctor.fitting(system(stacks=["*-spak"]))
    assert nothing.state == doctor.MISSING


@pytest.mark.parametrize(("stacks", "status"), [(["*"], 0), (["*", "*-spak"], 1)])
def test_the_exit_status_tells_ci(registered: None, monkeypatch: pytest.MonkeyPatch, stacks: list[str], status: int) -> None:
    described = {**system(stacks=stacks), "hostnames": [".*"], "descr": "x"}
    monkeypatch.setattr(systems, "system_files", lambda *_: [Path("x")])
    monkeypatch.setattr(systems, "read_system", lambda *_: described)
    monkeypatch.setattr(systems, "find", lambda name, _: described if name == "here" else None)
    assert doctor.report(None, Console(quiet=True), stacks_only=True) == status
    monkeypatch.setenv("RFM_SYSTEM", "here:p")
    assert doctor.report(None, Console(quiet=True), stacks_only=True) == status
    monkeypatch.setenv("RFM_SYSTEM", "elsewhere")
    with refused_as("system-unknown", match="elsewhere"):
        doctor.report(None, Console(quiet=True), stacks_only=True)


GPUS = {"kind": "cuda", "of_node": [{"bus_id": "0000:03:00.0", "numa_node": 0}]}
UCX = {"transport": "ucx", "scope": "cluster", "memory": ["host", "device"], "rails": [{"device": "mlx5_0"}]}


def notes_on_gpus(folder: Path, stack: dict[str, Any], **partition: Any) -> list[str]:
    """What doctor says of a partition with a GPU for one stack."""
    row = {"name": "p", "scheduler": "slurm", "extras": {"fabrics": {"ib": UCX}, "gpus": GPUS}, **partition}
    found = list(doctor.check_gpus("here:p", row, [metadata.parse({**describe(folder), **stack}, folder)]))
    assert {finding.state for finding in found} <= {doctor.NOTE}
    return [f"{finding.subject} {finding.detail}" for finding in found]


def test_a_partition_with_gpus_is_told_what_it_lacks(tmp_path: Path) -> None:
    never, resource, aware, nccl = notes_on_gpus(tmp_path, {})
    assert "memory of CUDA GPUs was never measured by this project (no machine with a GPU was at hand)" in never
    assert '{"name": "_rfm_gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}' in resource
    assert "nothing of MPI is measured on ib_device; see 'mpibench stacks build openmpi-cuda'" in aware
    assert "no stack here has nccl-tests built for CUDA" in nccl


def test_a_partition_with_gpus_that_lacks_nothing_is_told_only_that_nobody_ran_it(tmp_path: Path) -> None:
    suites = {name: {"version": "2", "built_with": "x", "gpu": "cuda"} for name in ("osu", "nccl_tests")}
    asked = {"resources": [{"name": "cards", "options": ["--gres=gpu:{num_gpus_per_node}"]}]}
    [never] = notes_on_gpus(tmp_path, {"gpu": "cuda", "suites": suites}, **asked)
    assert "never measured" in never
    others = {"fabrics": {"shm": EXTRAS["fabrics"]["shm"]}, "gpus": GPUS}
    assert "no fabric has 'memory'" in notes_on_gpus(tmp_path, {"gpu": "cuda"}, extras=others, **asked)[1]
    assert list(doctor.check_gpus("here:p", {"scheduler": "slurm", "extras": EXTRAS}, [])) == []


@pytest.mark.parametrize(
    ("fabric", "said"),
    [
        ({"transport": "gpu_ipc", "scope": "node", "memory": ["device"]}, "extras.gpus has no peer_gbit_per_s: bandwidths are"),
        ({"transport": "as_shipped", "scope": "cluster", "memory": ["device"]}, ""),
        (UCX, "a rail has no line_rate_gbit_per_s: bandwidths are"),
    ],
)
def test_a_line_rate_that_is_missing_is_named_where_it_belongs(fabric: dict[str, Any], said: str) -> None:
    [described, *_] = site.fabrics_of({"fabrics": {"x": fabric}, "gpus": GPUS}).values()
    [_, *notes] = doctor._fabric("here:p x", described, look=False)
    assert [note.detail.startswith(said) for note in notes] == [True] * bool(said)


def test_a_long_name_leaves_the_text_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finding is one line for grep, in a pipe and in a narrow terminal, with brackets as they are."""
    findings = [
        doctor.Finding(
            "mysystem partitions.0.extras.fabrics.ndr400.rails.0.line_rate_gbit_per_s", doctor.MISSING, "a " * 60 + "end"
        ),
        doctor.Finding("python", doctor.OK, "login[0-9]+ and [bold]"),
    ]
    monkeypatch.setattr(doctor, "examine", lambda *_: findings)
    written = io.StringIO()
    assert doctor.report(None, Console(file=written, width=80)) == 1
    long, short = written.getvalue().splitlines()
    assert long == f"missing  {findings[0].subject}  {findings[0].detail}"
    assert short.split(None, 2) == ["ok", "python", "login[0-9]+ and [bold]"]


@pytest.mark.parametrize(("here", "state"), [(True, doctor.MISSING), (False, doctor.NOTE)])
def test_a_partition_whose_jobs_cannot_be_submitted_from_here_is_named(
    monkeypatch: pytest.MonkeyPatch, here: bool, state: str
) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda program: "/usr/bin/qsub" if program == "qsub" else None)
    [finding] = doctor.check_submission("mysystem:compute", "slurm", here)
    assert (finding.subject, finding.state) == ("mysystem:compute", state)
    assert finding.detail == "scheduler slurm: there is no sbatch here; start reframe where jobs are submitted"
    assert not list(doctor.check_submission("mysystem:login", "local", here))
    assert not list(doctor.check_submission("mysystem:compute", "pbs", here))


def test_tests_below_mpi_say_why_they_have_no_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """RDMA where there is Ethernet only, two nodes where there is one, and programs that the nodes may lack."""
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    tests = [metadata.ROOT / "reframe_tests"]
    system = systems.select("minicluster", metadata.ROOT)
    found = {row.subject: row for row in doctor.check_below_mpi(system, tests, here=True)}
    assert set(found) == {f"test {name}" for name in ("WireTcp", "WireRdma", "TransportUcx", "TransportLibfabric")}
    assert {row.state for row in found.values()} == {doctor.NOTE}
    assert "eth1g is of transport tcp, without an RDMA adapter" in found["test WireRdma"].detail
    assert "shm" not in found["test WireRdma"].detail
    assert found["test WireTcp"].detail == (
        "not on PATH here: iperf3; where the nodes have none of it the case is skipped (Debian's iperf3, Spack's iperf3)"
    )
    (alone,) = doctor.check_below_mpi(systems.select("generic", metadata.ROOT), tests, here=True)
    assert "WireTcp" in alone.detail and "no fabric of the system is between nodes" in alone.detail
    assert [row.subject for row in doctor.check_below_mpi(system, tests, here=False)] == ["test WireRdma"]
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert [row.subject for row in doctor.check_below_mpi(system, tests, here=True)] == ["test WireRdma"]


def test_files_of_a_site_that_were_read_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mpis").mkdir()
    (tmp_path / "mpis" / "own.py").touch()
    monkeypatch.setenv("MPIBENCH_EXTENSIONS", str(tmp_path))
    assert doctor.Finding("extension", doctor.OK, str(tmp_path / "mpis" / "own.py")) in doctor._software()


# ---- The draft of a partition's extras: what a machine shows, in words that Python, YAML and the schema take ----

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


@pytest.mark.parametrize(("driver", "kind"), [("nvidia", "cuda"), ("amdgpu", "rocm")])
def test_gpus_that_the_kernel_shows_are_part_of_it(tmp_path: Path, driver: str, kind: str) -> None:
    cards = {**gpu("0000:41:00.0", driver, numa=1), **gpu("0000:03:00.0", driver, numa=-1)}
    text = draft(tmp_path / "node", TWO_RAILS, cards)
    extras = read(text)
    rows = [{"bus_id": "0000:03:00.0"}, {"bus_id": "0000:41:00.0", "numa_node": 1}]
    assert extras["gpus"] == {"kind": kind, "of_node": rows}
    assert set(site.fabrics_of(extras)) == {"ndr400", "ndr400_device", "shm", "gpu_ipc"}
    assert 'add "nic" to each' in text and "gpus" not in read(draft(tmp_path / "other", TWO_RAILS))


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
