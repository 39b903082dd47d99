"""What is read of a node, from trees of ``/proc`` and ``/sys``, and from this machine."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import ClassVar

import pytest

from reframe_tests.harness.cases.preflight import node_facts
from synthetic_node import CXI, ETHERNET, HFI1, MLX5, NVIDIA, QUIET, gpu, make_node


def test_a_node_as_a_whole(tmp_path):
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


class Busy:
    """A node of four cores on which processes use processor time
    while it is watched, look by look.
    """

    #: Process to its name and user.
    RUN: ClassVar = {"1": ("systemd", 0), "7": ("kswapd0", 0), "8": ("a.out (old)", 4711)}

    def __init__(self, folder, *looks):
        self.folder = folder
        self.looks = list(looks)
        self.cpu = [200, 200]
        self.ticks = dict.fromkeys(self.RUN, 1)
        self.write()

    def write(self):
        rows = {"proc/stat": f"cpu  {self.cpu[0]} 0 0 {self.cpu[1]} 0 0 0 0\n"}
        for pid, (name, uid) in self.RUN.items():
            rows[f"proc/{pid}/status"] = f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
            stat = f"{pid} ({name}) R 1 1 1 0 0 0 0 0 0 0 {self.ticks[pid]} 0 0 0"
            rows[f"proc/{pid}/stat"] = stat
        make_node(self.folder, rows)

    def sleep(self, seconds):
        busy, used = self.looks.pop(0)
        self.cpu = [self.cpu[0] + busy, self.cpu[1] + 200 - busy]
        self.ticks = {pid: ticks + used.get(pid, 0) for pid, ticks in self.ticks.items()}
        self.write()


def test_what_computes_beside_the_job_is_seen(tmp_path, monkeypatch):
    """Two of four cores are busy, one with a process of user 4711; daemons say nothing, and what
    is busy for a moment only, as at the start of the job, does not either.
    """
    monkeypatch.setattr(node_facts.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(node_facts.os, "getuid", lambda: 1000)
    busy = (100, {"7": 39, "8": 49})
    moment = ((150, {"8": 40}), (60, {"8": 1}), (2, {}))
    for name, looks, cores, whose in (
        ("1", (busy, busy, busy), 2.0, "a.out (old) of uid 4711"),
        ("2", moment, 0.04, "none"),
    ):
        node = Busy(tmp_path / name, *looks)
        monkeypatch.setattr(node_facts.time, "sleep", node.sleep)
        seen = node_facts.use(node_facts.Node(node.folder))
        assert seen == {"busy_cores": cores, "processes_of_others": whose}


def test_all_facts_have_their_name_in_the_list(tmp_path, monkeypatch):
    """Rules are held against the list; a fact that is missing there could have no rule."""
    monkeypatch.setattr(node_facts, "WATCHED_S", 0.1)
    make_node(tmp_path, QUIET, MLX5, HFI1, CXI, ETHERNET, NVIDIA, gpu("0:41:00.0"))
    found, here = (node_facts.collect(node_facts.Node(at)) for at in (tmp_path, Path("/")))
    assert here["kernel"][""] and float(str(here["busy_cores"][""])) >= 0
    tool = "gpu_model nvlinks mig_mode ecc_mode persistence_mode gpu_answers"
    other = "clock_synchronised clock_error_ms busy_cores addresses"
    assert {*found, *here, *tool.split(), *other.split()} == node_facts.FACTS
    assert {fact for fact, values in found.items() if "" in values} <= node_facts.WHOLE_NODE
    assert ("lo", "127.0.0.1", 8) in node_facts.addresses()
    assert node_facts.leaves_by("127.0.0.1", "127.0.0.2") == "lo"


def test_an_old_python_can_run_it():
    """Red Hat 8's own is 3.6; a node need not have the one the tests are run with."""
    tree = ast.parse(node_facts.PROGRAM.read_text(), feature_version=(3, 6))
    nodes = list(ast.walk(tree))
    imports = (one for one in nodes if isinstance(one, ast.Import))
    there = "ctypes fcntl ipaddress json os re resource shutil socket struct subprocess sys time"
    assert {alias.name for one in imports for alias in one.names} <= set(there.split())
    written = [getattr(one, "returns", None) or getattr(one, "annotation", None) for one in nodes]
    inside = [part for each in written if each for part in ast.walk(each)]
    assert not any(isinstance(part, ast.Subscript) for part in inside), "no list[str] in 3.6"


TOGETHER = "10.0.0.0/24 with {} (arp_filter=0, arp_ignore=0, rp_filter=2, sends by eth1)"


@pytest.mark.parametrize(
    ("addresses", "file", "kept", "wanted"),
    [
        ("eth1 10.0.0.1/24, eth2 10.0.1.1/24", "", False, ["none", "none"]),
        (
            "eth1 10.0.0.1/24, eth2 10.0.0.2/24",
            "rp_filter 2",
            False,
            [TOGETHER.format("eth2"), TOGETHER.format("eth1")],
        ),
        ("eth1 10.0.0.1/24, eth2 10.0.0.2/24", "arp_filter 1", True, ["kept apart"] * 2),
        # One network: a bond has the address, a VLAN is of the same card; /32 is an address alone.
        ("bond0 10.0.0.1/24, eth2 10.0.0.9/32", "", False, ["none"]),
        ("eth1 10.0.0.1/24, vlan5 10.0.0.2/24", "", False, ["none", "none"]),
    ],
)
def test_two_networks_on_one_subnet_are_seen_unless_they_are_kept_apart(
    addresses, file, kept, wanted, tmp_path
):
    (tmp_path / "sys/class/net/vlan5/lower_eth1").mkdir(parents=True)
    if file:
        name, text = file.split()
        make_node(tmp_path, {f"proc/sys/net/ipv4/conf/all/{name}": text})
    rows = (row.replace("/", " ").split() for row in addresses.split(", "))
    found = [(name, number, int(bits)) for name, number, bits in rows]
    routes = {"10.0.0.2": "eth2"} if kept else {}
    shared = node_facts.shared_subnets(
        node_facts.Node(tmp_path), found, lambda source, _: routes.get(source, "eth1")
    )
    assert list(shared.values()) == wanted and set(shared) <= {name for name, *_ in found}
