"""What is read of a node, from trees of ``/proc`` and ``/sys``, and from this machine."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import ClassVar

import pytest

from reframe_tests.harness.cases.preflight import node_facts
from synthetic_node import CXI, ETHERNET, HFI1, MLX5, NVIDIA, QUIET, gpu, make_node


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_facts, "WATCHED_S", 0.1)


def facts(folder: Path) -> dict[str, dict[str, object]]:
    return node_facts.collect(node_facts.Node(folder))


def test_a_node_as_a_whole(tmp_path: Path) -> None:
    found = node_facts.system(node_facts.Node(make_node(tmp_path, QUIET)))
    assert found == {
        "kernel": "5.14.0-427.el9.x86_64",
        "kernel_command_line": "ro nosmt mitigations=off",
        "booted_unix_s": 1795311410,
        "cpu_model": "AMD EPYC 9654",
        "cpus_online": "0-191",
        "numa_nodes_online": "0-1",
        "microcode": "0xa101144",
        "smt": "off",
        "turbo": "on",
        "governor": "performance",
        "clock_source": "tsc",
        "zone_reclaim_mode": 0,
        "numa_balancing": 0,
        "transparent_huge_pages": "always",
        "huge_page_defragmentation": "madvise",
        "memory_gib": 1007.1,
        "memory_available_percent": 97.5,
        "swap_used_mib": 0,
    }


@pytest.mark.parametrize(("file", "on"), [("intel_pstate/no_turbo", "0"), ("cpufreq/boost", "1")])
def test_turbo_is_what_either_driver_says(tmp_path: Path, file: str, on: str) -> None:
    for text in "01":
        node = make_node(tmp_path / text, {f"sys/devices/system/cpu/{file}": text})
        turbo = node_facts.system(node_facts.Node(node))["turbo"]
        assert turbo == ("on" if text == on else "off")
    assert "turbo" not in node_facts.system(node_facts.Node(tmp_path / "none"))


def test_cores_with_different_governors_show_both(tmp_path: Path) -> None:
    node = make_node(
        tmp_path, QUIET, {"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave"}
    )
    assert facts(node)["governor"] == {"": "performance, powersave"}


def test_ports_of_three_fabrics(tmp_path: Path) -> None:
    found = node_facts.ports(node_facts.Node(make_node(tmp_path, MLX5, HFI1, CXI)))
    assert found["state"] == {"hfi1_0:1": "active", "mlx5_0:1": "active", "cxi0": "active"}
    assert found["rate_gbit_per_s"] == {"hfi1_0:1": 100.0, "mlx5_0:1": 400.0, "cxi0": 200.0}
    assert found["lanes"] == {"hfi1_0:1": "4X", "mlx5_0:1": "4X"}
    assert found["firmware"] == {"hfi1_0:1": "1.27.0", "mlx5_0:1": "28.39.3004", "cxi0": "1.5.41"}
    assert found["board"] == {"mlx5_0:1": "MT_0000000838"}
    assert found["pcie_speed"] == {"mlx5_0:1": "32.0 GT/s PCIe"} and found["pcie_width"] == {
        "mlx5_0:1": "16"
    }


def test_interfaces_have_a_card_or_are_asked_for(tmp_path: Path) -> None:
    node = node_facts.Node(make_node(tmp_path, ETHERNET))
    assert node_facts.interfaces(node)["mtu_bytes"] == {"eth0": 9000}
    asked = node_facts.interfaces(node, ("br0",))
    assert asked["mtu_bytes"] == {"br0": 1500, "eth0": 9000}
    assert asked["rate_gbit_per_s"] == {"eth0": 25.0}, "software has no rate of its own"


def test_what_a_node_does_not_show_is_left_out(tmp_path: Path) -> None:
    """Where no process is shown nobody knows of others'; the kernel's clock needs no file."""
    own = {"clock_synchronised", "clock_error_ms"}
    assert facts(tmp_path).keys() - own == {"locked_memory_kib", "unix_s"}


class Busy:
    """A node of four cores on which processes use processor time
    while it is watched, look by look.
    """

    NAMES: ClassVar[dict[str, str]] = {"1": "systemd", "7": "kswapd0", "8": "a.out (old)"}
    UIDS: ClassVar[dict[str, int]] = {"1": 0, "7": 0, "8": 4711}

    def __init__(self, folder: Path, busy: list[int], used: list[dict[str, int]]) -> None:
        self.folder = folder
        self.looks = list(zip(busy, used, strict=True))
        self.cpu = [200, 200]
        self.ticks = dict.fromkeys(self.NAMES, 1)
        self.write()

    def write(self) -> None:
        rows = {"proc/stat": f"cpu  {self.cpu[0]} 0 0 {self.cpu[1]} 0 0 0 0\n"}
        for pid, uid in self.UIDS.items():
            rows[f"proc/{pid}/status"] = f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
            stat = f"{pid} ({self.NAMES[pid]}) R 1 1 1 0 0 0 0 0 0 0 {self.ticks[pid]} 0 0 0"
            rows[f"proc/{pid}/stat"] = stat
        make_node(self.folder, rows)

    def sleep(self, seconds: float) -> None:
        busy, used = self.looks.pop(0)
        self.cpu = [self.cpu[0] + busy, self.cpu[1] + 200 - busy]
        self.ticks = {pid: ticks + used.get(pid, 0) for pid, ticks in self.ticks.items()}
        self.write()


def watch(node: Busy, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setattr(node_facts.time, "sleep", node.sleep)
    monkeypatch.setattr(node_facts.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(node_facts.os, "getuid", lambda: 1000)
    return node_facts.use(node_facts.Node(node.folder))


def test_what_computes_beside_the_job_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of four cores are busy, one with a process of user 4711; daemons say nothing, and what
    is busy for a moment only, as at the start of the job, does not either.
    """
    node = Busy(tmp_path / "1", [100, 100, 100], [{"7": 39, "8": 49}] * 3)
    seen = {"busy_cores": 2.0, "processes_of_others": "a.out (old) of uid 4711"}
    assert watch(node, monkeypatch) == seen
    node = Busy(tmp_path / "2", [150, 60, 2], [{"8": 40}, {"8": 1}, {}])
    assert watch(node, monkeypatch) == {"busy_cores": 0.04, "processes_of_others": "none"}


def test_hidden_processes_are_not_said_to_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hidepid, only one's own are shown."""
    monkeypatch.setattr(Busy, "UIDS", {"8": 1000})
    assert watch(Busy(tmp_path, [2, 2, 2], [{}, {}, {}]), monkeypatch) == {"busy_cores": 0.04}


def test_words_that_name_one_node_are_no_difference(tmp_path: Path) -> None:
    """What HPE's boot service, Warewulf and dracut add for each node; the
    address of a PCI device is no MAC address.
    """
    words = (
        "quiet pci=noaer vfio-pci.ids=15b3:101b,15b3:101e nid=17 xname=x1000c0s0b0n0 "
        "BOOTIF=01-b8-ca-3a-00-00-01 ifname=a:b "
    )
    words += "hwaddr=b8:ca:3a:00:00:01 rd.md=0F2C1111-2222-3333-4444-555566667777 mem=4G@0x00:00"
    node = make_node(tmp_path, QUIET, {"proc/cmdline": words})
    shown = node_facts.system(node_facts.Node(node))["kernel_command_line"]
    assert shown == "quiet pci=noaer vfio-pci.ids=15b3:101b,15b3:101e mem=4G@0x00:00"


def test_reserved_huge_pages_are_not_missing_memory(tmp_path: Path) -> None:
    memory = "MemTotal: 1000 kB\nMemAvailable: 450 kB\nHugetlb: 500 kB\n"
    unread = {"sys/kernel/mm/hugepages/hugepages-16kB/nr_hugepages": "?"}
    found = facts(make_node(tmp_path, QUIET, {"proc/meminfo": memory}, unread))
    assert found["memory_available_percent"] == {"": 90.0}
    assert found["huge_pages_reserved"] == {"2048kB": 0}, "what cannot be read is left out"
    old = make_node(tmp_path / "old", QUIET, {"proc/meminfo": "MemTotal: 1000 kB\n"})
    assert "memory_available_percent" not in facts(old), "no such line is no memory of 0"


def test_interfaces_on_usb_lead_to_the_nodes_own_controller(tmp_path: Path) -> None:
    """They have a name no other node has, so that each would be odd; bonds
    and VLANs have a rate, bridges only claim one.
    """
    usb = make_node(tmp_path / "sys/devices/pci0000:00/0000:00:14.0/usb1/1-1", {"idVendor": "046b"})
    network = tmp_path / "sys/class/net"
    names = {"enx0a01": "", "bond0": "DEVTYPE=bond", "br0": "DEVTYPE=bridge"}
    shown = {"operstate": "up", "mtu": "1500", "speed": "50000"}
    for name, event in names.items():
        make_node(network / name, {**shown, "uevent": event})
    (network / "enx0a01/device").symlink_to(usb)
    node = node_facts.Node(tmp_path)
    assert node_facts.interfaces(node) == {}
    rates = node_facts.interfaces(node, tuple(names))["rate_gbit_per_s"]
    assert rates == {"bond0": 50.0, "enx0a01": 50.0}


def test_all_facts_have_their_name_in_the_list(tmp_path: Path) -> None:
    """Rules are held against the list; a fact that is missing there could have no rule."""
    found = facts(make_node(tmp_path, QUIET, MLX5, HFI1, CXI, ETHERNET, NVIDIA, gpu("0:41:00.0")))
    here = facts(Path("/"))
    assert here["kernel"][""] and float(str(here["busy_cores"][""])) >= 0
    tool = "gpu_model nvlinks mig_mode ecc_mode persistence_mode gpu_answers"
    other = "clock_synchronised clock_error_ms busy_cores addresses"
    assert {*found, *here, *tool.split(), *other.split()} == node_facts.FACTS
    assert {fact for fact, values in found.items() if "" in values} <= node_facts.WHOLE_NODE


def test_gpus_by_their_pci_address(tmp_path: Path) -> None:
    """A virtual function, a card's sound and the board's own display are none."""
    pci = "sys/bus/pci/devices/0000"
    others = gpu("0000:41:00.4") | gpu("0000:41:00.1") | gpu("0000:05:00.0")
    others |= {f"{pci}:41:00.4/physfn/x": "", f"{pci}:41:00.1/class": "0x040300"}
    others |= {f"{pci}:05:00.0/vendor": "0x1a03"}
    at = "0000:41:00.0"
    node = node_facts.Node(make_node(tmp_path, QUIET, NVIDIA, others, gpu(at, numa=1)))
    assert node_facts.gpus(node) == {
        "gpu": {at: "10de:2330"},
        "driver": {at: "nvidia"},
        "driver_version": {at: "590.48.01"},
        "numa_node": {at: 1},
        "gpu_pcie_speed": {at: "32.0 GT/s PCIe"},
        "gpu_pcie_speed_now": {at: "2.5 GT/s PCIe"},
        "pcie_width": {at: "16"},
        "pcie_width_of_card": {at: "16"},
        "peer_memory_module": {"": "nvidia_peermem"},
        "gdrdrv": {"": "none"},
    }
    assert node_facts.gpus(node_facts.Node(make_node(tmp_path / "none", QUIET, MLX5))) == {}
    older = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.274.02  Mon Sep  8 2025"
    make_node(tmp_path, {"proc/driver/nvidia/version": older, "sys/module/gdrdrv/version": "2.5"})
    again = node_facts.gpus(node)
    assert again["driver_version"] == {at: "535.274.02"} and again["gdrdrv"] == {"": "loaded"}


def test_a_card_of_amd_has_the_link_of_its_own_switch(tmp_path: Path) -> None:
    """Below it every GPU has 16 lanes, whatever the slot gives; the
    processor's port above is of vendor 1022.
    """
    path = tmp_path / "sys/devices/pci0000:40"
    bridges = ("0000:40:01.1", "0x1022", "4"), ("0000:41:00.0", "0x1002", "8")
    for name, vendor, width in (*bridges, ("0000:42:00.0", "0x1002", "16")):
        path /= name
        link = {"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16", "vendor": vendor}
        make_node(
            path, link | {"current_link_speed": "16.0 GT/s PCIe", "current_link_width": width}
        )
    at = "0000:43:00.0"
    make_node(path / at, {Path(name).name: text for name, text in gpu(at, "amdgpu").items()})
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (devices / at).symlink_to(path / at)
    make_node(tmp_path, {"sys/module/amdgpu/version": "6.3.6"})
    found = node_facts.gpus(node_facts.Node(tmp_path))
    assert found["pcie_width"] == {at: "8"} and found["driver_version"] == {at: "6.3.6"}
    assert "peer_memory_module" not in found, "the driver has it built in"


def test_addresses_are_by_interface() -> None:
    assert ("lo", "127.0.0.1", 8) in node_facts.addresses()
    assert node_facts.leaves_by("127.0.0.1", "127.0.0.2") == "lo"


def test_an_old_python_can_run_it() -> None:
    """Red Hat 8's own is 3.6; a node need not have the one the tests are run with."""
    tree = ast.parse(node_facts.PROGRAM.read_text(), feature_version=(3, 6))
    nodes = list(ast.walk(tree))
    imports = (one for one in nodes if isinstance(one, ast.Import))
    there = "ctypes fcntl ipaddress json os re resource shutil socket struct subprocess sys time"
    assert {alias.name for one in imports for alias in one.names} <= set(there.split())
    functions = [one for one in nodes if isinstance(one, ast.FunctionDef)]
    written = [one.returns for one in functions]
    written += [each.annotation for one in functions for each in one.args.args]
    inside = [part for each in written if each for part in ast.walk(each)]
    assert not any(isinstance(part, ast.Subscript) for part in inside), "no list[str] in 3.6"


@pytest.mark.parametrize(
    ("addresses", "file", "kept", "wanted"),
    [
        ("eth1 10.0.0.1/24, eth2 10.0.1.1/24", "", False, {"eth1": "none", "eth2": "none"}),
        (
            "eth1 10.0.0.1/24, eth2 10.0.0.2/24",
            "conf/all/rp_filter 2",
            False,
            {
                "eth1": "10.0.0.0/24 with eth2 (arp_filter=0, arp_ignore=0, rp_filter=2, sends by"
                " eth1)",
                "eth2": "10.0.0.0/24 with eth1 (arp_filter=0, arp_ignore=0, rp_filter=2, sends by"
                " eth1)",
            },
        ),
        (
            "eth1 10.0.0.1/24, eth2 10.0.0.2/24",
            "conf/all/arp_filter 1",
            True,
            {"eth1": "kept apart", "eth2": "kept apart"},
        ),
        # One network: a bond has the address, a VLAN is of the same card; /32 is an address alone.
        ("bond0 10.0.0.1/24, eth2 10.0.0.9/32", "", False, {"bond0": "none"}),
        ("eth1 10.0.0.1/24, vlan5 10.0.0.2/24", "", False, {"eth1": "none", "vlan5": "none"}),
    ],
)
def test_two_networks_on_one_subnet_are_seen_unless_they_are_kept_apart(
    addresses: str, file: str, kept: bool, wanted: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sys/class/net/vlan5/lower_eth1").mkdir(parents=True)
    if file:
        name, text = file.split()
        make_node(tmp_path, {f"proc/sys/net/ipv4/{name}": text})
    found = []
    for row in addresses.split(", "):
        name, number, bits = row.replace("/", " ").split()
        found.append((name, number, int(bits)))
    routes = {"10.0.0.2": "eth2"} if kept else {}
    shared = node_facts.shared_subnets(
        node_facts.Node(tmp_path), found, lambda source, _: routes.get(source, "eth1")
    )
    assert shared == wanted
