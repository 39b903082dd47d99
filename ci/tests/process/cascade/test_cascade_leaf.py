"""The tests below MPI as ReFrame lists and dry-runs them: where they are left out and why, and the job that they would run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]


def test_fabrics_that_a_program_does_not_know_are_left_out_and_say_why(run_here: Run) -> None:
    said = run_here("-l", "-v", "--system=minicluster", only="cascade.py").stdout
    listed = set(re.findall(r"^- (\w+ %fabric=\w+)", said, re.MULTILINE))
    tests = ("WireTcp", "TransportUcx", "TransportLibfabric")
    assert listed == {f"{test} %fabric={fabric}" for test in tests for fabric in ("eth1g", "eth10g", "eth40g")}
    why = "eth1g is of transport tcp, without an RDMA adapter; it is measured on verbs, ucx"
    assert f"left out: WireRdma %fabric=eth1g @minicluster:eth1g: {why}" in said
    assert "left out: WireTcp %fabric=shm @minicluster:shm: shm is inside a node, and server and client run on two" in said
    two = "one pair of nodes has nothing to be held against: node_counts of the partition has no more than 2"
    assert f"left out: WireTcpMap %fabric=eth1g @minicluster:eth1g: {two}" in said
    only = run_here("-l", "-n", "WireRdma%", "--system=minicluster", only="cascade.py").stdout
    assert "no case of WireRdma can be measured here" in only and "without an RDMA adapter" in only


def test_memory_of_gpus_is_not_measured_as_memory_of_the_host(run_here: Run, sandbox: Path) -> None:
    described = sandbox / "site_configs" / "openhpc-mini" / "system.py"
    places = '[{"bus_id": "0000:41:00.0"}, {"bus_id": "0000:81:00.0", "nic": "mlx5_0"}]'
    gpus = f'"gpus": {{"kind": "cuda", "of_node": {places}}}, "fabrics": {{'
    text = (
        described.read_text().replace('"fabrics": {', gpus).replace('"transport"', '"memory": ["host", "device"], "transport"')
    )
    described.write_text(text.replace('"node_counts": [2]', '"node_counts": [2, 4]'))
    said = run_here("-l", "-v", "--system=openhpc-mini", only="cascade.py").stdout
    listed = set(re.findall(r"^- (\w+ .*%fabric=\w+_device)", said, re.MULTILINE))
    assert listed == {"WireRdma %fabric=edr100_device", "WireRdmaMap %fabric=edr100_device"}
    for test in ("TransportUcx", "TransportLibfabric"):
        assert re.search(
            rf"left out: {test} %fabric=\w+_device .*memory of the host, and \w+ is of CUDA memory \(device\)", said
        )
    words = ("--dry-run", "--system=openhpc-mini", "-S", "level=smoke", "-n", "WireRdma.*%fabric=edr100_device")
    result = run_here(*words, only="cascade.py")
    assert result.returncode == 0, result.stdout[-3000:]
    steps = [line for path in sandbox.rglob("rfm_job.sh") for line in path.read_text().splitlines() if "ib_" in line]
    assert len(steps) == 2 * 2 + 1 and all(" -F --use_cuda=1 " in f"{line} " for line in steps)
    assert all(line.count("CUDA_DEVICE_ORDER=PCI_BUS_ID ib_") == 2 for line in steps)
    assert sum(" task ib_read_bw_memorydevice_8.$repeat" in line for line in steps) == 1


def test_on_one_machine_nothing_can_be_started(run_here: Run) -> None:
    said = run_here("-l", "-v", "--system=generic", only="cascade.py").stdout
    assert "Found 0 check(s)" in said
    assert re.search(r"left out: WireTcp %fabric=\w+ @generic:default: \w+ is inside a node", said)


def test_a_dry_run_writes_the_job(run_here: Run, sandbox: Path) -> None:
    words = ("--dry-run", "--system=minicluster:eth1g", "-S", "level=smoke", "-S", "repeats=2", "-n", "TransportLibfabric")
    result = run_here(*words, only="cascade.py")
    assert result.returncode == 0, result.stdout[-3000:]
    [script] = sandbox.rglob("rfm_job.sh")
    text = script.read_text()
    assert "--exclusive" in text and "--nodes=2" in text and "for repeat in 1 2; do" in text
    steps = [line for line in text.splitlines() if " task " in line]
    assert len(steps) == 2 and all(line.endswith("|| exit") for line in steps)
    assert "pingpong_endpointrdm_8.$repeat eth1g 120 FI_TCP_IFACE=eth1g fi_pingpong -p 'tcp;ofi_rxm'" in steps[0]


def test_no_run_at_all_is_refused(run_here: Run) -> None:
    result = run_here("--dry-run", "--system=minicluster:eth1g", "-S", "repeats=0", "-n", "WireTcp", only="cascade.py")
    assert result.returncode == 1 and "-S repeats=0 would measure nothing; give 1 or more." in result.stdout


@pytest.mark.parametrize("system", ["cambridge-westmere", "openhpc-mini", "opa-dual-rail"])
def test_every_bundled_system_says_what_of_it_can_be_measured(run_here: Run, system: str) -> None:
    result = run_here("-l", "-v", f"--system={system}", only="cascade.py")
    assert result.returncode == 0 and ("Found 0 check(s)" not in result.stdout or "left out: " in result.stdout)


def test_rdma_programs_take_the_port_and_meet_over_ip(run_here: Run, sandbox: Path) -> None:
    """Nobody here has the adapter: the job as it would be written for the white paper's EDR."""
    words = ("--dry-run", "--system=openhpc-mini", "-S", "level=smoke", "-n", "WireRdma")
    result = run_here(*words, only="cascade.py")
    assert result.returncode == 0, result.stdout[-3000:]
    [script] = sandbox.rglob("rfm_job.sh")
    steps = [line for line in script.read_text().splitlines() if " task " in line]
    programs = [f"ib_{verb}_{kind}" for kind in ("bw", "lat") for verb in ("write", "read", "send")]
    assert len(steps) == 2 * len(programs)
    assert all(
        any(f" task {name}_8.$repeat mlx5_0/1@ib0 120 {name} -d mlx5_0 -i 1 " in line for line in steps) for name in programs
    )


def test_a_map_of_the_wire_is_a_step_for_each_direction_of_a_round(run_here: Run, sandbox: Path) -> None:
    described = sandbox / "site_configs" / "openhpc-mini" / "system.py"
    described.write_text(described.read_text().replace('"node_counts": [2]', '"node_counts": [2, 4]'))
    words = ("--dry-run", "--system=openhpc-mini", "-n", "WireRdmaMap")
    result = run_here(*words, "-S", "orders=1", only="cascade.py")
    assert result.returncode == 0, result.stdout[-3000:]
    assert "3 rounds on 4 nodes, about " in result.stdout
    [script] = sandbox.rglob("rfm_job.sh")
    text = script.read_text()
    assert "--exclusive" in text and "--ntasks=4" in text and "scontrol show topology" in text
    steps = [line.split()[1:] for line in text.splitlines() if line.startswith("step map/")]
    assert [name for name, _ in steps] == [f"map/{number}.{phase}" for number in (1, 2, 3) for phase in (1, 2)]
    met = [tuple(map(int, pair.split("-"))) for _, pairs in steps for pair in pairs.split(",")]
    assert sorted(met) == [(one, other) for one in range(4) for other in range(4) if one != other]
    for options, sentence in (
        (("nodes=2",), "-S nodes=2 is not possible; give 3 or more"),
        (("repeats=2",), "give -S orders="),
        (("level=thorough",), "'thorough' is not a level; there are smoke, nightly, acceptance"),
        (("limit_s=1",), "-S limit_s=1 would end each measurement, which takes 1 s"),
        (("switches=/nonesuch",), "/nonesuch"),
    ):
        refused = run_here(*words, *(word for one in options for word in ("-S", one)), only="cascade.py")
        assert refused.returncode == 1 and sentence in refused.stdout, refused.stdout[-2000:]
