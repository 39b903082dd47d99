"""Both ends of a launch on this machine, with programs of a few lines in place of the measuring ones."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from reframe_tests.harness.cases.cascade import below_mpi, end
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import Memory
from reframe_tests.harness.suites import catalogue, pair
from reframe_tests.harness.suites.benchmark import OutputError

PROGRAM = Path(sys.executable).name
SERVER = """
import socket, sys
asked = socket.create_server((sys.argv[1], int(sys.argv[2])))
print(asked.accept()[0].recv(100).decode())
"""
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 20) as asked:
    asked.sendall(sys.argv[3].encode())
"""
PLACES = ("{address}", "{port}")


def start(folder: Path, name: str, which: str, *words: str, limit_s: float = 60) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(end.PROGRAM), which, name, "lo", str(limit_s), *words], cwd=folder)


def left(folder: Path, name: str) -> str:
    return "".join((folder / f"{name}.{which}").read_text() for which in pair.ENDS)


def content(folder: Path, name: str, which: str) -> dict[str, object]:
    return dict(json.loads((folder / f"{name}.{which}").read_text().splitlines()[1]))


def test_of_several_pairs_each_task_takes_its_own_part(tmp_path: Path) -> None:
    """Four of five tasks are those of two pairs; the fifth has a round off."""
    (tmp_path / "round").mkdir()
    words = ("pairs", "round/", "lo", "60", "3-0,1-2", sys.executable, "-c", SERVER, *PLACES, "+")
    words = (*words, sys.executable, "-c", CLIENT, *PLACES, "hello")
    running = [
        subprocess.Popen(
            [sys.executable, str(end.PROGRAM), *words], cwd=tmp_path, env={**os.environ, "SLURM_PROCID": str(number)}
        )
        for number in range(5)
    ]
    assert [each.wait(120) for each in running] == [0] * 5
    assert sorted(path.name for path in tmp_path.rglob("*.server")) == ["1-2.server", "3-0.server"]
    for name in ("round/1-2", "round/3-0"):
        assert pair.read(left(tmp_path, name), PROGRAM, name).server.output.strip() == "hello"


def test_launches_at_the_same_time_do_not_meet_each_other(tmp_path: Path) -> None:
    names = [f"launch{number}" for number in range(3)]
    running = [start(tmp_path, name, "server", sys.executable, "-c", SERVER, *PLACES) for name in names]
    running += [start(tmp_path, name, "client", sys.executable, "-c", CLIENT, *PLACES, name) for name in names]
    assert [each.wait(120) for each in running] == [0] * 6
    found = {name: pair.read(left(tmp_path, name), PROGRAM, name) for name in names}
    assert {name: each.server.output.strip() for name, each in found.items()} == {name: name for name in names}
    assert len({each.server.port for each in found.values()}) == 3
    assert all(each.client.bytes_of("tx_bytes") > 0 and each.server.address == "127.0.0.1" for each in found.values())
    assert {each.client.cores for each in found.values()} == {
        re.findall(r"(?m)^Cpus_allowed_list:\s*(\S+)", Path("/proc/self/status").read_text())[0]
    }


def test_a_server_does_not_outlive_its_client(tmp_path: Path) -> None:
    running = [
        start(tmp_path, "failed", "server", sys.executable, "-c", SERVER, *PLACES),
        start(tmp_path, "failed", "client", sys.executable, "-c", "raise SystemExit('no such device')", *PLACES),
    ]
    assert [each.wait(120) for each in running] == [0, 0]
    server = content(tmp_path, "failed", "server")
    assert (server["ended"], server["status"]) == ("after the client", -15)
    with pytest.raises(OutputError, match=f"{PROGRAM}'s client ended with exit status 1: no such device"):
        pair.read(left(tmp_path, "failed"), PROGRAM, "failed")


@pytest.mark.parametrize("which", ["server", "client"])
def test_no_program_outlives_an_end_that_is_killed(tmp_path: Path, which: str) -> None:
    """As iperf3 would on a node whose jobs have no cgroup: its server waits for a client without end."""
    say = "import os, pathlib; pathlib.Path('who').write_text(str(os.getpid())); "
    wait = "import time; time.sleep(600)"
    server = (
        f"import socket, sys; asked = socket.create_server((sys.argv[1], int(sys.argv[2]))); {say if which == 'server' else ''}"
    )
    running = [
        start(tmp_path, "killed", "server", sys.executable, "-c", server + wait, *PLACES),
        start(tmp_path, "killed", "client", sys.executable, "-c", (say if which == "client" else "") + wait, *PLACES),
    ]
    who = tmp_path / "who"
    while not (who.exists() and who.read_text()) and all(each.poll() is None for each in running):
        time.sleep(0.05)
    program = int(who.read_text())
    for each in running:
        each.kill()
        each.wait()
    until = time.monotonic() + 60
    while Path(f"/proc/{program}/stat").exists() and time.monotonic() < until:
        if Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        if Path(f"/proc/{program}").exists():
            os.kill(program, signal.SIGKILL)
            pytest.fail(f"the {which}'s program goes on")


def test_a_client_that_hangs_is_ended(tmp_path: Path) -> None:
    running = [
        start(tmp_path, "hung", "server", sys.executable, "-c", SERVER, *PLACES),
        start(tmp_path, "hung", "client", sys.executable, "-c", "import time; time.sleep(600)", *PLACES, limit_s=2),
    ]
    assert [each.wait(120) for each in running] == [0, 0]
    with pytest.raises(OutputError, match="client was ended at the time limit"):
        pair.read(left(tmp_path, "hung"), PROGRAM, "hung")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["no-such-program", "{port}"], "there is no program no-such-program on PATH"),
        ([PROGRAM, "-c", "raise SystemExit('no adapter')"], "the server did not listen: no adapter"),
    ],
)
def test_without_a_server_both_say_so(tmp_path: Path, words: list[str], wanted: str) -> None:
    if words[0] == PROGRAM:
        words = [sys.executable, *words[1:]]
    running = [start(tmp_path, "absent", which, *words) for which in pair.ENDS]
    assert [each.wait(120) for each in running] == [1, 1]
    assert content(tmp_path, "absent", "server")["failed"] == wanted
    with pytest.raises(OutputError, match=f"server could not measure: {wanted}"):
        pair.read(left(tmp_path, "absent"), Path(words[0]).name, "absent")


def test_a_client_without_its_program_says_so_before_it_waits(tmp_path: Path) -> None:
    running = [
        start(tmp_path, "alone", "server", sys.executable, "-c", SERVER, *PLACES),
        start(tmp_path, "alone", "client", "no-such-program", *PLACES),
    ]
    assert [each.wait(120) for each in running] == [0, 1]
    assert content(tmp_path, "alone", "client")["failed"] == "there is no program no-such-program on PATH"
    assert content(tmp_path, "alone", "server")["failed"] == ""


def test_ends_of_a_port_without_an_interface_meet_where_the_hosts_name_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    def known_as(*addresses: str) -> None:
        rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *asked: rows)

    known_as("127.0.1.1", "10.0.0.7")
    assert end.address_of(end.HOST_NAME) == "10.0.0.7"
    known_as("127.0.1.1")
    with pytest.raises(end.Failed, match=r"is 127\.0\.1\.1 here: give the fabric tcp_interfaces"):
        end.address_of(end.HOST_NAME)
    plain = Fabric("hdr200", "ucx", "cluster", (Rail("mlx5_0", 200),))
    assert not below_mpi.find_obstacle(plain, catalogue.PAIRS["wire_rdma"], "slurm")
    device, managed = (replace(plain, memory=Memory(word, "cuda")) for word in ("device", "managed"))
    assert not below_mpi.find_obstacle(device, catalogue.PAIRS["wire_rdma"], "slurm")
    assert "memory of one GPU" in below_mpi.find_obstacle(managed, catalogue.PAIRS["wire_rdma"], "slurm")
    assert "memory of the host" in below_mpi.find_obstacle(device, catalogue.PAIRS["transport_ucx"], "slurm")


def test_an_interface_without_address_is_named(tmp_path: Path) -> None:
    command = [sys.executable, str(end.PROGRAM), "server", "x", "none0", "5", sys.executable]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 1
    assert "interface none0 has no IPv4 address" in str(content(tmp_path, "x", "server")["failed"])


def test_only_the_socket_of_the_process_itself_counts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as asked:
        port = asked.getsockname()[1]
        assert end.listens(os.getpid(), port)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            assert not end.listens(other.pid, port)
            other.communicate(b"\n")
    assert not end.listens(os.getpid(), port)


def test_variables_and_places_of_a_command() -> None:
    assert end.part(["UCX_TLS=tcp", "A=b=c", "program", "X=1"]) == ({"UCX_TLS": "tcp", "A": "b=c"}, ["program", "X=1"])
    assert end.fill(["-c", "{address}:{port}", "{own}", "{size}"], "10.0.0.1", 7, "10.0.0.2") == [
        *("-c", "10.0.0.1:7", "10.0.0.2", "{size}")
    ]


def test_the_task_number_says_which_end_it_is(tmp_path: Path) -> None:
    """As Slurm starts the two: one command line, and 0 is the server."""
    words = ("task", "step", "lo", "60", sys.executable, "-c", SERVER, *PLACES)
    words = (*words, end.BETWEEN, sys.executable, "-c", CLIENT, *PLACES, "hello")
    running = [
        subprocess.Popen([sys.executable, str(end.PROGRAM), *words], cwd=tmp_path, env={**os.environ, "SLURM_PROCID": number})
        for number in ("0", "1")
    ]
    assert [each.wait(120) for each in running] == [0, 0]
    found = pair.read(left(tmp_path, "step"), PROGRAM, "step")
    assert found.server.output.strip() == "hello" and found.client.end == "client"
    there = {path.name for path in Path("/sys/class/net").iterdir()}
    assert {name for name in found.client.after.others if "/" not in name} <= there - {"lo"}


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with a bond of two cards and an RDMA device of one port, as the kernel shows them."""
    files = {
        **{
            f"net/{name}/statistics/{way}_bytes": str(count)
            for name, count in (("eth0", 5), ("bond0", 9))
            for way in ("rx", "tx")
        },
        **{f"net/ib0/statistics/{way}_bytes": "70" for way in ("rx", "tx")},
        **{"net/bond0/lower_eth0/x": "", "net/eth0/upper_bond0/x": "", "net/ib0/operstate": "up", "net/ib0/mtu": "2044"},
        **{"infiniband/mlx5_0/ports/1/state": "4: ACTIVE", "infiniband/mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)"},
        "infiniband/mlx5_0/ports/1/counters/port_rcv_data": "25",
        "infiniband/mlx5_0/ports/1/counters/port_xmit_data": "50",
        "infiniband/mlx5_0/ports/1/counters/link_downed": "0",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    monkeypatch.setattr(end, "INTERFACES", tmp_path / "net")
    monkeypatch.setattr(end, "DEVICES", tmp_path / "infiniband")
    return tmp_path


def test_a_port_counts_words_of_four_bytes(sysfs: Path) -> None:
    found = end.look_at("mlx5_0/1")
    assert found["counters"] == {"rx_bytes": 100, "tx_bytes": 200}
    wanted = {"operstate": "4: ACTIVE", "speed": "100 Gb/sec (4X EDR)", "mtu": "", "carrier_changes": "0"}
    assert found["link"] == wanted
    assert set(found["others"]) == {"eth0", "bond0", "ib0"}  # type: ignore[call-overload]


def test_what_counts_the_same_bytes_again_is_no_other_interface(sysfs: Path) -> None:
    found = end.look_at("bond0")
    assert found["counters"] == {"rx_bytes": 9, "tx_bytes": 9}
    assert found["others"] == {
        "ib0": {"rx_bytes": 70, "tx_bytes": 70},
        "mlx5_0/1": {"rx_bytes": 100, "tx_bytes": 200},
    }
    assert found["others"] == end.look_at("eth0")["others"]


def test_an_interface_without_counters_is_left_to_the_reader(sysfs: Path) -> None:
    assert end.look_at("none0")["counters"] == {}
    assert end.counters_of("mlx5_0/2") == {}
