"""The settings of one node as JSON: ``node_facts.py FOLDER [--gpus] INTERFACE...`` writes
``FOLDER/NODE.json``.

Runs on a compute node under its own ``python3`` (3.6 or newer, no package).

Everything is read from ``/proc`` and ``/sys``, as do the tools that print it (ibstat, opainfo,
cxi_stat, ethtool, lspci, cpupower, numactl): so no tool must be installed, no version's output
understood, and no privilege is needed. Only GPUs have more to tell: with ``--gpus`` the vendor's
tool is asked if it is installed. A fact that a node does not show is omitted; the judgement reports
it as missing.

A fact has a name, and an instance if a node has several of its kind: ``{"mtu_bytes": {"eth0": 1500,
"ib0": 4092}}``. A fact of the whole node has an empty instance. ``site_configs/preflight.yaml``
explains the names.
"""

import ctypes
import fcntl
import ipaddress
import json
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: This program, for who starts it.
PROGRAM = Path(__file__).resolve()
#: Behind a node's name in its file's.
SUFFIX = ".json"
_OF_NODE = """
    kernel kernel_command_line booted_unix_s cpu_model cpus_online numa_nodes_online microcode
    smt turbo governor clock_source zone_reclaim_mode numa_balancing transparent_huge_pages
    huge_page_defragmentation memory_gib memory_available_percent swap_used_mib
    locked_memory_kib unix_s clock_synchronised clock_error_ms busy_cores processes_of_others
"""
_OF_CARD = """
    huge_pages_reserved state physical_state addresses shared_subnet numa_node mtu_bytes
    rate_gbit_per_s duplex lanes link_layer driver driver_version firmware board pcie_speed
    pcie_speed_of_card pcie_width pcie_width_of_card
"""
_OF_GPU = (
    "gpu gpu_model gpu_pcie_speed gpu_pcie_speed_now mig_mode ecc_mode persistence_mode nvlinks"
)
_OF_GPU_NODE = "gpu_answers peer_memory_module gdrdrv"
#: Names of the facts of a node as a whole, of those that only nodes with GPUs show, and of all; the
#: others have an instance for each interface, port, GPU or page size.
WHOLE_NODE = frozenset((_OF_NODE + _OF_GPU_NODE).split())
GPU_FACTS = frozenset((_OF_GPU + " " + _OF_GPU_NODE).split())
FACTS = WHOLE_NODE | GPU_FACTS | frozenset(_OF_CARD.split())
#: Vendors of GPUs by platform (the PCI ID Repository), and PCI classes:
#: display controllers, processing accelerators.
VENDORS = {"cuda": "10de", "rocm": "1002"}
GPU_CLASSES = ("0x03", "0x12")
#: Tools of the vendors, and seconds that one may take: with a broken GPU it may hang for ever.
COLUMNS = ("pci.bus_id", "name", "mig.mode.current", "ecc.mode.current", "persistence_mode")
NVIDIA_SMI = ("nvidia-smi", "--query-gpu=" + ",".join(COLUMNS), "--format=csv")
NVLINKS = ("nvidia-smi", "nvlink", "-s")
ROCM_SMI = ("rocm-smi", "--showbus", "--showproductname", "--json")
TOOL_S = 30
#: Among the interfaces on the command line: ask them.
ASK = "--gpus"
#: Words of nvidia-smi for a mode; anything else says that something is wrong ("[GPU requires
#: reset]", "[Unknown Error]").
MODES = ("Enabled", "Disabled", "[N/A]", "[Not Supported]")
#: What nvidia-smi says instead of a GPU's links; of some that have none, nothing.
NO_NVLINKS = {
    "": "none",
    "Device does not have or support Nvlink": "none",
    "Nvlink queries are not supported for Devices in MIG mode": "not shown with MIG",
    "NVML: Unable to retrieve NVLink information as all links are inactive": "all down",
}
#: What the tools are worth to a rule.
COMPLETE = "complete"
#: Seconds over which the processors are watched, and how often: what a job's own start costs
#: passes, a computation goes on.
WATCHED_S = 0.5
WATCHES = 3
#: Uids below are those of services (login.defs(5), UID_MIN), and so are
#: systemd's dynamic ones and nobody's (its UIDS-GIDS).
FIRST_USER = 1000
SERVICES = range(61184, 65536)
#: Words of the kernel command line that name one installation and not how it runs (bootparam(7),
#: dracut.cmdline(7); the last four: HPE's boot service), as do all with a MAC address or a UUID.
OWN_WORDS = (
    "BOOT_IMAGE=",
    "root=",
    "initrd=",
    "resume=",
    "ip=",
    "ifname=",
    "BOOTIF=",
    "rd.luks.uuid=",
    "rd.lvm.lv=",
    "hostname=",
    "systemd.hostname=",
    "systemd.machine_id=",
    "rd.iscsi.initiator=",
    "rd.nvmf.hostnqn=",
    "rd.nvmf.hostid=",
    "xname=",
    "nid=",
    "bss_referral_token=",
    "ds=",
)
OWN_VALUES = re.compile(
    r"(?i)(?<![0-9a-f])(?:(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)
#: Processors in ``sysfs``.
CPU = "sys/devices/system/cpu"
#: ``SIOCETHTOOL`` (linux/sockios.h), ``ETHTOOL_GDRVINFO`` and the texts of ``struct
#: ethtool_drvinfo`` (linux/ethtool.h).
SIOCETHTOOL = 0x8946
GDRVINFO = 3
DRVINFO_BYTES = 196
DRVINFO = (
    ("driver", slice(4, 36)),
    ("driver_version", slice(36, 68)),
    ("firmware", slice(68, 100)),
)
#: ``SIOCGIFCONF`` (linux/sockios.h), bytes of ``struct ifreq`` of a
#: 64-bit Linux (linux/if.h), and addresses at most.
SIOCGIFCONF = 0x8912
IFREQ_BYTES = 40
MOST_ADDRESSES = 1024
#: ``SIOCGIFNETMASK`` (linux/sockios.h); rtnetlink(7): messages and
#: attributes of a question for a route.
SIOCGIFNETMASK = 0x891B
RTM_NEWROUTE = 24
RTM_GETROUTE = 26
NLM_F_REQUEST = 1
RTA_DST = 1
RTA_SRC = 2
RTA_OIF = 4
#: Settings of an interface, of which the greater of its own and that of
#: all counts (Linux, networking/ip-sysctl.rst).
SHARING = ("arp_filter", "arp_ignore", "rp_filter")
#: What a shared subnet is where nothing takes the wrong network: nothing
#: shares it, or ARP and routes keep them apart.
ALONE = "none"
KEPT_APART = "kept apart"
#: ``struct timex`` (sys/timex.h) of a 64-bit Linux: modes, then offset, freq, maxerror, esterror,
#: status; its size with room.
TIMEX = "@Illlli"
TIMEX_BYTES = 512
STA_UNSYNC = 0x0040


class Node:
    """The files of a node.

    :param root: another folder than ``/`` that holds ``proc`` and ``sys``.
    """

    def __init__(self, root: "Path" = Path("/")) -> None:
        self.root = root

    def text(self, name: str) -> "str":
        """A file without the white space around it; empty where
        there is none or it cannot be read.
        """
        try:
            return (self.root / name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def number(self, name: str) -> "int | None":
        text = self.text(name)
        return int(text) if re.match(r"-?[0-9]+$", text) else None

    def entries(self, name: str) -> "list[str]":
        try:
            return sorted(entry.name for entry in (self.root / name).iterdir())
        except OSError:
            return []

    def target(self, name: str) -> "str":
        """Last part of what a link points to, such as a driver's
        name; empty if there is none.
        """
        try:
            return Path(os.readlink(str(self.root / name))).name  # noqa: PTH115 (Path.readlink is of Python 3.9)
        except OSError:
            return ""

    def search(self, pattern: str, name: str) -> "str":
        """What the first group of a pattern finds in a file; empty if it finds nothing."""
        match = re.search(pattern, self.text(name))
        return match.group(1) if match else ""


def system(node: Node) -> "dict[str, object]":
    memory = {
        key: int(kib) for key, kib in re.findall(r"(?m)^(\w+):\s+(\d+)", node.text("proc/meminfo"))
    }
    words = node.text("proc/cmdline").split()
    microcode = set(re.findall(r"(?m)^microcode\s*:\s*(\S+)", node.text("proc/cpuinfo")))
    cores = [CPU + "/" + name for name in node.entries(CPU) if re.match(r"cpu[0-9]+$", name)]
    governors = {node.text(core + "/cpufreq/scaling_governor") for core in cores} - {""}
    boost = {"0": "off", "1": "on"}.get(node.text(CPU + "/cpufreq/boost"))
    facts = {
        "kernel": node.text("proc/sys/kernel/osrelease"),
        "kernel_command_line": " ".join(
            word for word in words if not word.startswith(OWN_WORDS) and not OWN_VALUES.search(word)
        ),
        "cpu_model": node.search(r"(?m)^model name\s*:\s*(.*)$", "proc/cpuinfo"),
        "cpus_online": node.text(CPU + "/online"),
        "numa_nodes_online": node.text("sys/devices/system/node/online"),
        "microcode": ", ".join(sorted(microcode)),
        "smt": {"1": "on", "0": "off"}.get(node.text(CPU + "/smt/active")),
        "turbo": {"0": "on", "1": "off"}.get(node.text(CPU + "/intel_pstate/no_turbo"), boost),
        "governor": ", ".join(sorted(governors)),
        "clock_source": node.text(
            "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "zone_reclaim_mode": node.number("proc/sys/vm/zone_reclaim_mode"),
        "numa_balancing": node.number("proc/sys/kernel/numa_balancing"),
        # In brackets among all that there are: always [madvise] never.
        "transparent_huge_pages": node.search(
            r"\[([^\]]+)\]", "sys/kernel/mm/transparent_hugepage/enabled"
        ),
        "huge_page_defragmentation": node.search(
            r"\[([^\]]+)\]", "sys/kernel/mm/transparent_hugepage/defrag"
        ),
    }  # type: dict[str, object]
    boot = node.search(r"(?m)^btime (\d+)", "proc/stat")
    if boot:
        facts["booted_unix_s"] = int(boot)
    if memory:
        # Reserved huge pages are not available either, and are meant to be so.
        total = memory.get("MemTotal", 0)
        usable = memory.get("MemTotal", 0) - memory.get("Hugetlb", 0)
        facts["swap_used_mib"] = (memory.get("SwapTotal", 0) - memory.get("SwapFree", 0)) // 1024
        if total:
            facts["memory_gib"] = round(total / 2**20, 1)
        if usable > 0 and "MemAvailable" in memory:
            facts["memory_available_percent"] = round(100 * memory["MemAvailable"] / usable, 1)
    return {fact: value for fact, value in facts.items() if value not in (None, "")}


def huge_pages(node: Node) -> "dict[str, dict[str, object]]":
    folder = "sys/kernel/mm/hugepages/"
    rows = {name: node.number(folder + name + "/nr_hugepages") for name in node.entries(folder)}
    return _by_fact(
        {
            name.replace("hugepages-", ""): {"huge_pages_reserved": pages}
            for name, pages in rows.items()
        }
    )


def slots(node: Node, device: str) -> "dict[str, object]":
    """How a card sits in its slot: what the link to it came up
    with, and what it could (sysfs-bus-pci).
    """
    rows = {}
    for quantity in ("speed", "width"):
        now = node.text(device + "/current_link_" + quantity)
        most = node.text(device + "/max_link_" + quantity)
        if now and most and "Unknown" not in now + most and now not in ("0", "255"):
            rows["pcie_" + quantity] = now
            rows["pcie_" + quantity + "_of_card"] = most
    return dict(rows)


def numa_node(node: Node, card: "str") -> "int | None":
    """The NUMA node of a card; -1 is the kernel's word for none (sysfs-bus-pci, numa_node)."""
    number = node.number(card + "/numa_node")
    return number if number is not None and number >= 0 else None


def addresses() -> "list[tuple[str, str, int]]":
    """IPv4 addresses of this node: interface, address, length of the prefix (netdevice(7),
    SIOCGIFCONF and SIOCGIFNETMASK).
    """
    room = ctypes.create_string_buffer(MOST_ADDRESSES * IFREQ_BYTES)
    request = struct.pack("@iL", len(room), ctypes.addressof(room))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
            (length,) = struct.unpack_from("@i", fcntl.ioctl(unused.fileno(), SIOCGIFCONF, request))
            found = []
            for at in range(0, length, IFREQ_BYTES):
                # A second address may have a label of its own, eth0:1; the
                # kernel is asked with label and address.
                mask = fcntl.ioctl(
                    unused.fileno(), SIOCGIFNETMASK, room.raw[at : at + IFREQ_BYTES]
                )[20:24]
                name = (
                    room.raw[at : at + 16]
                    .split(b"\0")[0]
                    .decode("ascii", "replace")
                    .partition(":")[0]
                )
                bits = bin(int.from_bytes(mask, "big")).count("1")
                found.append((name, socket.inet_ntoa(room.raw[at + 20 : at + 24]), bits))
            return found
    except OSError:
        return []


def leaves_by(source: str, destination: str) -> str:
    """Interface by which the kernel sends from one address to another
    (``ip route get``); empty if it does not say.
    """
    numbers = ((RTA_DST, destination), (RTA_SRC, source))
    body = struct.pack("=8BI", socket.AF_INET, 32, 32, 0, 0, 0, 0, 0, 0)
    body += b"".join(
        struct.pack("=HH4s", 8, kind, socket.inet_aton(number)) for kind, number in numbers
    )
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
            kernel.settimeout(TOOL_S)
            kernel.send(
                struct.pack("=IHHII", 16 + len(body), RTM_GETROUTE, NLM_F_REQUEST, 1, 0) + body
            )
            answer = kernel.recv(8192)
    except OSError:
        return ""
    at = 28  # behind the heads of message and route
    while struct.unpack_from("=H", answer, 4)[0] == RTM_NEWROUTE and at + 8 <= len(answer):
        length, kind = struct.unpack_from("=HH", answer, at)
        if kind == RTA_OIF:
            return socket.if_indextoname(struct.unpack_from("=I", answer, at + 4)[0])
        at += max(4, (length + 3) & ~3)
    return ""


def _below(node: Node, name: str) -> "set[str]":
    """The interfaces that one is made of in the end, such as the
    cards of a bond or the one below a VLAN.
    """
    lower = [
        entry[6:] for entry in node.entries("sys/class/net/" + name) if entry.startswith("lower_")
    ]
    return set().union(*(_below(node, each) for each in lower)) if lower else {name}


def shared_subnets(
    node: Node, found: "list[tuple[str, str, int]]", route: "Callable[[str, str], str]" = leaves_by
) -> "dict[str, str]":
    """What shares the subnet of each interface with an IPv4 address, and
    whether ARP and routes keep the two apart.

    Without, the kernel answers ARP for any of its addresses on any interface, and sends by the
    first that reaches the subnet: the other network stays idle (Linux, networking/ip-sysctl.rst,
    arp_filter, arp_ignore).
    """
    # An address alone (/32) shares no subnet, and neither do the two ends of a line (/31).
    networks = {
        (name, number): ipaddress.ip_network(f"{number}/{bits}", strict=False)
        for name, number, bits in found
        if bits < 31
    }
    rows = {}  # type: dict[str, str]
    for (name, number), network in networks.items():
        others = sorted(
            {
                other
                for (other, _), theirs in networks.items()
                if theirs.overlaps(network) and not _below(node, other) & _below(node, name)
            }
        )
        if not others or network.is_loopback:
            rows.setdefault(name, ALONE)
            continue
        conf = "proc/sys/net/ipv4/conf/"
        settings = {
            key: max(node.number(conf + which + "/" + key) or 0 for which in ("all", name))
            for key in SHARING
        }
        own = {address for _, address, _ in found}
        neighbour = next((str(host) for host in network.hosts() if str(host) not in own), "")
        way = route(number, neighbour) if neighbour else ""
        if way == name and (settings["arp_filter"] or settings["arp_ignore"]):
            rows[name] = KEPT_APART
        else:
            said = [f"{key}={value}" for key, value in settings.items()] + [
                "sends by " + (way or "no known interface")
            ]
            rows[name] = f"{network} with {', '.join(others)} ({', '.join(said)})"
    return rows


def interfaces(node: Node, described: "tuple[str, ...]" = ()) -> "dict[str, dict[str, object]]":
    """Network interfaces with a card below them, and those that are asked for by name.

    Those on USB are left out: they lead to the node's own management controller, and are named by a
    MAC address that no other node has.

    :param described: a fabric's, which may be software.
    """
    rows = {}
    found = addresses() if node.root == Path("/") else []
    own, shared = {}, shared_subnets(node, found)  # type: dict[str, list[str]], dict[str, str]
    for name, number, _ in found:
        own.setdefault(name, []).append(number)
    for name in node.entries("sys/class/net"):
        folder = "sys/class/net/" + name
        card = bool(node.entries(folder + "/device"))
        # The buses that a device is on are folders of its path.
        on_usb = "/usb" in os.path.realpath(str(node.root / folder / "device"))
        if (not card or on_usb) and name not in described:
            continue
        # Other software interfaces claim a rate that nothing holds them to.
        real = card or node.search(r"(?m)^DEVTYPE=(bond|vlan)$", folder + "/uevent")
        speed = node.number(folder + "/speed")
        rows[name] = {
            "state": node.text(folder + "/operstate"),
            "addresses": ", ".join(sorted(own.get(name, ()))),
            "shared_subnet": shared.get(name),
            "mtu_bytes": node.number(folder + "/mtu"),
            "rate_gbit_per_s": speed / 1000 if real and speed is not None and speed > 0 else None,
            "duplex": node.text(folder + "/duplex") if card else None,
            "numa_node": numa_node(node, folder + "/device"),
            **(_driver(name) if node.root == Path("/") and card else {}),
            **slots(node, folder + "/device"),
        }
    return _by_fact(rows)


def ports(node: Node) -> "dict[str, dict[str, object]]":
    """RDMA ports as ``mlx5_0:1`` (sysfs-class-infiniband), and Slingshot devices as ``cxi0``."""
    rows = {}
    for device in node.entries("sys/class/infiniband"):
        folder = "sys/class/infiniband/" + device
        for port in node.entries(folder + "/ports"):
            at = folder + "/ports/" + port
            rate = node.search(r"^([0-9.]+) Gb/sec", at + "/rate")
            driver = node.target(folder + "/device/driver")
            rows[device + ":" + port] = {
                "state": node.text(at + "/state").partition(": ")[2].lower(),
                "physical_state": node.text(at + "/phys_state").partition(": ")[2].lower(),
                "rate_gbit_per_s": float(rate) if rate else None,
                "lanes": node.search(r"Gb/sec \((\d+X) ", at + "/rate"),
                "link_layer": node.text(at + "/link_layer"),
                "driver": driver,
                "driver_version": node.text("sys/module/" + driver + "/version"),
                "firmware": node.text(folder + "/fw_ver"),
                "board": node.text(folder + "/board_id"),
                "numa_node": numa_node(node, folder + "/device"),
                **slots(node, folder + "/device"),
            }
    for device in node.entries("sys/class/cxi"):
        folder = "sys/class/cxi/" + device + "/device"
        speed = node.search(r"([0-9]+)G", folder + "/port/speed")
        state = node.text(folder + "/port/link")
        rows[device] = {
            "state": "active" if state == "on" else state,
            "rate_gbit_per_s": float(speed) if speed else None,
            "driver": node.target(folder + "/driver"),
            "firmware": node.text(folder + "/uc/qspi_blob_version"),
            "numa_node": numa_node(node, folder),
            **slots(node, folder),
        }
    return _by_fact(rows)


def gpus(node: Node, *, ask: bool = False) -> "dict[str, dict[str, object]]":
    """GPUs by PCI address, and what lets adapters reach their memory.

    An idle GPU lowers the speed of its link, so that what it can
    is another fact than what it has now.

    :param ask: the vendors' tools too, which list those GPUs only that the job was given.
    """
    rows = {}
    folder = "sys/bus/pci/devices/"
    for name in node.entries(folder):
        at = folder + name
        vendor = node.text(at + "/vendor")[2:]
        kind = node.text(at + "/class")
        # Virtual functions are no GPUs of their own.
        if (
            vendor not in VENDORS.values()
            or not kind.startswith(GPU_CLASSES)
            or node.entries(at + "/physfn")
        ):
            continue
        driver = node.target(at + "/driver")
        card = Path(os.path.realpath(str(node.root / at)))
        # Cards of AMD have a switch of their own: the slot's link is that of its upper port.
        while vendor == VENDORS["rocm"] and node.text(str(card.parent / "vendor"))[2:] == vendor:
            card = card.parent
        link = slots(node, str(card))
        rows[name] = {
            "gpu": vendor + ":" + node.text(at + "/device")[2:],
            "driver": driver,
            "driver_version": node.search(
                r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)", "proc/driver/nvidia/version"
            )
            if driver == "nvidia"
            else node.text("sys/module/" + driver + "/version"),
            "numa_node": numa_node(node, at),
            "gpu_pcie_speed": link.get("pcie_speed_of_card"),
            "gpu_pcie_speed_now": link.get("pcie_speed"),
            **{fact: link.get(fact) for fact in ("pcie_width", "pcie_width_of_card")},
        }
    whole = {}
    faults = []
    for vendor, words, read in (
        (VENDORS["cuda"], NVIDIA_SMI, read_nvidia),
        (VENDORS["rocm"], ROCM_SMI, read_rocm),
    ):
        there = [name for name, row in rows.items() if str(row["gpu"]).startswith(vendor)]
        if there and vendor == VENDORS["cuda"]:
            loaded = [
                name
                for name in ("nvidia_peermem", "nv_peer_mem", "gdrdrv")
                if node.entries("sys/module/" + name)
            ]
            whole["peer_memory_module"] = (
                ", ".join(name for name in loaded if name != "gdrdrv") or "none"
            )
            whole["gdrdrv"] = "loaded" if "gdrdrv" in loaded else "none"
        if there and ask and shutil.which(words[0]):
            try:
                said = read(_run(words))
                lost = [name for name in there if name not in said]
                if lost:
                    raise ValueError(
                        "does not list " + ", ".join(lost) + " of " + str(len(there)) + " GPUs"
                    )
                for name in there:
                    said[name].update(rows[name])
                    rows[name] = said[name]
                if words == NVIDIA_SMI:
                    read_nvlinks(_run(NVLINKS), said)
            except ValueError as error:
                faults.append(words[0] + " " + str(error))
            whole["gpu_answers"] = "; ".join(faults) or COMPLETE
    return dict(_by_fact(rows), **{fact: {"": value} for fact, value in whole.items()})


def read_nvidia(text: str) -> "dict[str, dict[str, object]]":
    """Facts by PCI address of :data:`NVIDIA_SMI`; raises
    :class:`ValueError` for anything but a whole table.
    """
    head, *lines = [
        [cell.strip() for cell in line.split(",")] for line in text.strip().splitlines()
    ] or [[]]
    rows = {}  # type: dict[str, dict[str, object]]
    for cells in lines:
        if (
            tuple(head) != COLUMNS
            or len(cells) != len(COLUMNS)
            or not cells[1]
            or not set(cells[2:]) <= set(MODES)
        ):
            raise ValueError("prints '" + ", ".join(cells)[:100] + "'")
        address, model, mig, ecc, persistence = cells
        rows[_address(address)] = {
            "gpu_model": model,
            "mig_mode": mig,
            "ecc_mode": ecc,
            "persistence_mode": persistence,
        }
    if len(rows) != len(lines) or not rows:
        raise ValueError("prints '" + text.strip()[:100] + "'")
    return rows


def read_nvlinks(text: str, rows: "dict[str, dict[str, object]]") -> "None":
    """Adds the links of :data:`NVLINKS` to each GPU of :func:`read_nvidia`; raises
    :class:`ValueError` for any other line.

    A bridge that is not there is a link that is down, too:
    whether that is wrong the other nodes say.
    """
    _, *parts = re.split(r"(?m)^GPU (\d+): (.+) \(UUID: \S+\)$", "\n" + text.rstrip())
    heads = [str(number) + " " + str(row["gpu_model"]) for number, row in enumerate(rows.values())]
    if text.strip() and heads != [" ".join(parts[at : at + 2]) for at in range(0, len(parts), 3)]:
        raise ValueError("nvlink -s prints '" + text.strip()[:100] + "'")
    for number, row in enumerate(rows.values()):
        lines = parts[3 * number + 2].strip() if parts else ""
        speeds = re.findall(r"Link \d+: (\d[\d.]* GB/s|<inactive>)(?=\n|$)", lines)
        if lines in NO_NVLINKS:
            row["nvlinks"] = NO_NVLINKS[lines]
        elif speeds and len(speeds) == len(lines.splitlines()):
            counts = [(speed, speeds.count(speed)) for speed in sorted(set(speeds))]
            row["nvlinks"] = ", ".join(
                str(count) + " x " + speed.replace("<inactive>", "down") for speed, count in counts
            )
        else:
            raise ValueError("nvlink -s prints '" + lines[:100] + "'")


def read_rocm(text: str) -> "dict[str, dict[str, object]]":
    """The same of :data:`ROCM_SMI`, behind whose JSON warnings may stand:
    the title of a model differs between releases.
    """
    try:
        cards = json.loads(text[text.find("{") : text.rfind("}") + 1]).items()
        return {
            _address(row["PCI Bus"]): {
                "gpu_model": row["Card Series" if "Card Series" in row else "Card series"]
            }
            for name, row in cards
            if name.startswith("card")
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError("prints '" + text.strip()[:100] + "'") from None


def _address(text: str) -> "str":
    """A PCI address as the kernel writes it."""
    if not re.match(r"(?i)[0-9a-f]{4,8}(:[0-9a-f]{2}){2}\.[0-7]$", text):
        raise ValueError("prints '" + text[:100] + "' as a PCI address")
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _run(words: "tuple[str, ...]") -> "str":
    try:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise ValueError("cannot be started: " + str(error)) from None
    try:
        said, wrong = (
            text.decode("utf-8", "replace") for text in child.communicate(timeout=TOOL_S)
        )
    except subprocess.TimeoutExpired:
        child.kill()  # and no wait, which a driver that hangs would make endless
        raise ValueError("did not answer in " + str(TOOL_S) + " s") from None
    if child.returncode:
        lines = (said + wrong).strip().splitlines() or ["no word"]
        raise ValueError("ended with status " + str(child.returncode) + ": " + lines[0][:200])
    return said


def limits() -> "dict[str, object]":
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {
        "locked_memory_kib": "unlimited" if locked == resource.RLIM_INFINITY else locked // 1024
    }


def clock() -> "dict[str, object]":
    """The clock, and whether something disciplines it (adjtimex(2): the
    kernel's own view, whichever daemon there is).
    """
    facts = {"unix_s": round(time.time(), 3)}  # type: dict[str, object]
    try:
        room = ctypes.create_string_buffer(TIMEX_BYTES)  # modes 0: only reads
        if ctypes.CDLL(None, use_errno=True).adjtimex(room) >= 0:
            _, _, _, most_us, _, status = struct.unpack_from(TIMEX, room)
            facts["clock_synchronised"] = "no" if status & STA_UNSYNC else "yes"
            facts["clock_error_ms"] = round(most_us / 1000, 3)
    except (AttributeError, OSError):  # another C library, or a sandbox
        pass
    return facts


def use(node: Node) -> "dict[str, object]":
    """What runs beside the job: cores that are busy while this program
    only waits, and processes of other users.

    The quietest of a few looks counts, and what was busy in each of them: daemons wake up, and jobs
    end, for a moment. Those of a user who logged in to look cost nothing; what has used no
    processor in that time is not counted.
    """
    busy = []
    others = []
    before = _cpu_ticks(node)
    ticks = _process_ticks(node)
    for _ in range(WATCHES):
        time.sleep(WATCHED_S)
        after = _cpu_ticks(node)
        later = _process_ticks(node)
        if before and after and sum(after) > sum(before):
            idle = (after[3] + after[4]) - (before[3] + before[4])
            busy.append((1 - idle / (sum(after) - sum(before))) * max(os.cpu_count() or 1, 1))
        others.append(
            {
                key
                for key, used in later.items()
                if used > ticks.get(key, used) and _is_others(key[1])
            }
        )
        before = after
        ticks = later
    facts = {}  # type: dict[str, object]
    if busy:
        facts["busy_cores"] = round(min(busy), 2)
    # Where other users' processes are hidden (proc(5), hidepid), so is that of init.
    if node.text("proc/1/status"):
        words = [name + " of uid " + str(uid) for _, uid, name in sorted(set.intersection(*others))]
        facts["processes_of_others"] = ", ".join(words[:5]) or "none"
    return facts


def _is_others(uid: int) -> bool:
    return uid >= FIRST_USER and uid not in SERVICES and uid != os.getuid()


def _cpu_ticks(node: Node) -> "list[int]":
    """Ticks of all processors: user, nice, system, idle, iowait,
    irq, softirq, steal (proc(5), /proc/stat).
    """
    return [int(word) for word in node.search(r"^cpu +([0-9 ]+)", "proc/stat").split()[:8]]


def _process_ticks(node: Node) -> "dict[tuple[int, int, str], int]":
    """User and system ticks of each process by pid, uid and name (proc(5), /proc/pid/stat)."""
    ticks = {}
    for pid in filter(str.isdigit, node.entries("proc")):
        uid = node.search(r"(?m)^Uid:\s+(\d+)", "proc/" + pid + "/status")
        stat = re.match(r"\d+ \((.*)\) (.*)", node.text("proc/" + pid + "/stat"), re.DOTALL)
        words = stat.group(2).split() if stat else []
        if uid and stat and len(words) > 12:
            ticks[int(pid), int(uid), stat.group(1)] = int(words[11]) + int(words[12])
    return ticks


def _driver(name: str) -> "dict[str, object]":
    """Driver and firmware of an interface, from the kernel (``ethtool -i``)."""
    room = bytearray(DRVINFO_BYTES)
    struct.pack_into("@I", room, 0, GDRVINFO)
    address = (ctypes.c_char * len(room)).from_buffer(room)
    request = struct.pack("16sP16x", name.encode(), ctypes.addressof(address))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
            fcntl.ioctl(unused.fileno(), SIOCETHTOOL, request)
    except OSError:
        return {}
    texts = {
        key: bytes(room[at]).split(b"\0")[0].decode("ascii", "replace").strip()
        for key, at in DRVINFO
    }
    return {key: text for key, text in texts.items() if text and text != "N/A"}


def _by_fact(rows: "dict[str, dict[str, object]]") -> "dict[str, dict[str, object]]":
    """Instances by name of a fact, from facts by name of an instance; without what is unknown."""
    instances_of = {}  # type: dict[str, dict[str, object]]
    for instance, facts in rows.items():
        for fact, value in facts.items():
            if value not in (None, ""):
                instances_of.setdefault(fact, {})[instance] = value
    return instances_of


def collect(node: Node, described: "tuple[str, ...]" = ()) -> "dict[str, dict[str, object]]":
    by_fact = {
        fact: {"": value}
        for whole in (system(node), limits(), clock(), use(node))
        for fact, value in whole.items()
    }
    for more in (
        huge_pages(node),
        interfaces(node, described),
        ports(node),
        gpus(node, ask=ASK in described),
    ):
        for fact, instances in more.items():
            by_fact.setdefault(fact, {}).update(instances)
    return by_fact


def name_of_node() -> str:
    """As the scheduler calls it (sbatch(1), SLURMD_NODENAME), which need
    not be its host name, or else the latter.
    """
    return "_".join((os.environ.get("SLURMD_NODENAME") or socket.gethostname()).split())[:200]


def main(folder: str, *described: str) -> None:
    """Leave the node's file, which is there whole or not at all."""
    path = Path(folder) / (name_of_node() + SUFFIX)
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(json.dumps(collect(Node(), described)), encoding="utf-8")
    scratch.rename(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
