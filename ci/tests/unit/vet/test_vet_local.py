"""One node's own facts against what was learned: a folder stands for the node's root."""

import json

import pytest

from mpibench_vet import local
from synthetic_node import make_node

FILES = {
    "proc/meminfo": "MemTotal: 16777216 kB\n",
    "proc/sys/kernel/random/boot_id": "b1\n",
    "sys/devices/system/cpu/online": "0-7\n",
    "sys/class/net/eth0/device/vendor": "0x15b3\n",
    "sys/class/net/eth0/operstate": "up\n",
    "sys/class/net/eth0/mtu": "9000\n",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "sys/class/infiniband/mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)\n",
    "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error": "7\n",
    "sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "0\n",
    "sys/bus/pci/devices/0000:17:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:17:00.0/class": "0x030200\n",
    "sys/bus/pci/devices/0000:17:00.0/device": "0x2330\n",
}
#: Nothing to say.
RIGHT = (local.RIGHT, [])
PORT = "sys/class/infiniband/mlx5_0/ports/1"


@pytest.fixture
def node(tmp_path):
    return make_node(tmp_path / "root", FILES)


def look(node):
    return local.look(node.parent / "learned", node.parent / "state", node)


@pytest.fixture
def learned(node):
    assert local.run(node.parent / "learned", None, learn=True, root=node) == local.RIGHT
    assert look(node) == RIGHT
    return node.parent / "learned"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("sys/class/net/eth0/operstate", "down", "eth0 is down"),
        ("sys/class/net/eth0/mtu", "1500", "mtu_bytes of eth0 is 1500, learned was 9000"),
        (f"{PORT}/rate", "50 Gb/sec (2X EDR)", "of mlx5_0:1 is 50.0, learned were 100.0"),
        ("sys/devices/system/cpu/online", "0-5,7", "cpus_online is 0-5,7, learned was 0-7"),
        ("proc/meminfo", "MemTotal: 12582912 kB\n", "memory_gib is 12.0, learned were 16.0"),
        ("sys/bus/pci/devices/0000:17:00.0/vendor", "0x8086", "0000:17:00.0 is not there"),
        (f"{PORT}/counters/symbol_error", "900", "mlx5_0:1 counted 893 more symbol_error"),
        (f"{PORT}/counters/link_downed", "2", "the link of mlx5_0:1 was down 2 times"),
    ],
)
def test_what_is_less_than_learned_is_named(node, learned, file, text, said):
    (node / file).write_text(text)
    status, lines = look(node)
    assert status == local.WRONG
    assert any(said in line for line in lines), lines


def test_more_than_was_learned_and_counters_of_before_a_boot_are_no_fault(node, learned):
    (node / "proc/meminfo").write_text("MemTotal: 33554432 kB\n")
    (node / f"{PORT}/rate").write_text("200 Gb/sec (4X HDR)\n")
    (node / f"{PORT}/counters/symbol_error").write_text("17\n")
    assert look(node) == RIGHT
    (node / "proc/sys/kernel/random/boot_id").write_text("b2\n")
    (node / f"{PORT}/counters/link_downed").write_text("2\n")
    assert look(node) == RIGHT
    (node.parent / "state").write_text('{"boot": "b2"}')
    assert look(node) == RIGHT
    assert json.loads((node.parent / "state").read_text())["counters"], "written anew"


@pytest.mark.parametrize("text", [None, "", "[]", '{"facts": 3}', "{"])
def test_without_what_was_learned_nothing_is_decided(node, text):
    if text is not None:
        (node.parent / "learned").write_text(text)
    status, lines = look(node)
    assert status == local.UNDECIDED
    assert lines
