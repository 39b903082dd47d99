"""What is read of a node, from trees of ``/proc`` and ``/sys``, and from this machine."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from reframe_tests.harness.preflight import node_facts
from synthetic_node import CXI, ETHERNET, HFI1, MLX5, QUIET, make_node


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


@pytest.mark.parametrize(
    ("file", "turbo"),
    [("intel_pstate/no_turbo", {"0": "on", "1": "off"}), ("cpufreq/boost", {"1": "on", "0": "off"})],
)
def test_turbo_is_what_either_driver_says(tmp_path: Path, file: str, turbo: dict[str, str]) -> None:
    for number, (text, said) in enumerate(turbo.items()):
        node = make_node(tmp_path / str(number), {f"sys/devices/system/cpu/{file}": text})
        assert node_facts.system(node_facts.Node(node))["turbo"] == said
    assert node_facts.system(node_facts.Node(tmp_path / "none"))["turbo"] is None


def test_cores_with_different_governors_show_both(tmp_path: Path) -> None:
    node = make_node(tmp_path, QUIET, {"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave"})
    assert facts(node)["governor"] == {"": "performance, powersave"}


def test_ports_of_three_fabrics(tmp_path: Path) -> None:
    found = node_facts.ports(node_facts.Node(make_node(tmp_path, MLX5, HFI1, CXI)))
    assert found["state"] == {"hfi1_0:1": "active", "mlx5_0:1": "active", "cxi0": "active"}
    assert found["rate_gbit_per_s"] == {"hfi1_0:1": 100.0, "mlx5_0:1": 400.0, "cxi0": 200.0}
    assert found["lanes"] == {"hfi1_0:1": "4X", "mlx5_0:1": "4X"}
    assert found["firmware"] == {"hfi1_0:1": "1.27.0", "mlx5_0:1": "28.39.3004", "cxi0": "1.5.41"}
    assert found["board"] == {"mlx5_0:1": "MT_0000000838"}
    assert found["pcie_speed"] == {"mlx5_0:1": "32.0 GT/s PCIe"} and found["pcie_width"] == {"mlx5_0:1": "16"}


def test_interfaces_have_a_card_or_are_asked_for(tmp_path: Path) -> None:
    node = node_facts.Node(make_node(tmp_path, ETHERNET))
    assert node_facts.interfaces(node)["mtu_bytes"] == {"eth0": 9000}
    asked = node_facts.interfaces(node, ("br0",))
    assert asked["mtu_bytes"] == {"br0": 1500, "eth0": 9000}
    assert asked["rate_gbit_per_s"] == {"eth0": 25.0}, "software has no rate of its own"


def test_what_a_node_does_not_show_is_left_out(tmp_path: Path) -> None:
    found = facts(tmp_path)
    own = {"clock_synchronised", "clock_error_ms"}  # the kernel's, which needs no file
    assert set(found) - own == {"locked_memory_kib", "unix_s", "processes_of_others"}
    assert found["processes_of_others"] == {"": "none"}


def test_what_computes_beside_the_job_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of four cores are busy, one with a process of user 4711; the daemon and the shell that waits say nothing."""
    status = {name: f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n" for name, uid in (("7", 0), ("8", 4711), ("9", 4711))}
    names = {"7": "kswapd0", "8": "a.out (old)", "9": "bash"}

    def write(idle: int, ticks: dict[str, int]) -> None:
        rows = {f"proc/{pid}/status": status[pid] for pid in status}
        rows |= {f"proc/{pid}/stat": f"{pid} ({names[pid]}) R 1 1 1 0 0 0 0 0 0 0 {used} 0 0 0" for pid, used in ticks.items()}
        make_node(tmp_path, rows, {"proc/stat": f"cpu  {400 - idle} 0 0 {idle} 0 0 0 0\n"})

    write(200, {"7": 1, "8": 1, "9": 1})
    monkeypatch.setattr(node_facts.time, "sleep", lambda seconds: write_later())
    monkeypatch.setattr(node_facts.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(node_facts.os, "getuid", lambda: 1000)

    def write_later() -> None:
        rows = {"7": 40, "8": 50, "9": 1}
        write(200, rows)
        make_node(tmp_path, {"proc/stat": "cpu  300 0 0 300 0 0 0 0\n"})

    found = node_facts.use(node_facts.Node(tmp_path))
    assert found == {"busy_cores": 2.0, "processes_of_others": "a.out (old) of uid 4711"}


def test_this_machine_answers_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(Path("/"))
    assert found["kernel"][""] and found["cpus_online"][""] and float(str(found["busy_cores"][""])) >= 0
    assert "\n" not in json.dumps(found)


def test_an_old_python_can_run_it() -> None:
    """Red Hat 8's own is 3.6; a node need not have the one the tests are run with."""
    source = node_facts.PROGRAM.read_text()
    tree = ast.parse(source, feature_version=(3, 6))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= {"ctypes", "fcntl", "json", "os", "re", "resource", "socket", "struct", "sys", "time"}
    assert not any(isinstance(node, ast.Subscript) for returned in _annotations(tree) for node in ast.walk(returned))


def _annotations(tree: ast.AST) -> list[ast.expr]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [
        one
        for each in functions
        for one in (each.returns, *(argument.annotation for argument in each.args.args))
        if one is not None
    ]
