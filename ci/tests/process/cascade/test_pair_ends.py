"""Both ends of a launch on this machine, with programs of a few
lines in place of the measuring ones.
"""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from folders import write
from programs import wait_for
from reframe_tests.harness.cases.cascade import end
from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.suites import pair
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


def read(folder, name):
    """What both ends of a launch left."""
    text = "".join((folder / f"{name}.{which}").read_text() for which in pair.ENDS)
    return pair.read(text, PROGRAM, name)


def content(folder, name, which):
    return json.loads((folder / f"{name}.{which}").read_text().splitlines()[1])


def test_only_the_socket_of_the_process_itself_counts():
    with socket.create_server(("127.0.0.1", 0)) as asked:
        port = asked.getsockname()[1]
        assert end.listens(os.getpid(), port)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            assert not end.listens(other.pid, port)
            other.communicate(b"\n")
    assert not end.listens(os.getpid(), port)


@pytest.fixture
def sysfs(tmp_path, monkeypatch):
    """A node with a bond of two cards and an RDMA device of one port, as the kernel shows them."""
    files = {
        **{
            f"net/{name}/statistics/{way}_bytes": count
            for name, count in (("eth0", 5), ("bond0", 9), ("ib0", 70))
            for way in ("rx", "tx")
        },
        "net/bond0/lower_eth0/x": "",
        "net/eth0/upper_bond0/x": "",
        "net/ib0/operstate": "up",
        "net/ib0/mtu": "2044",
        "infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
        "infiniband/mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)",
        "infiniband/mlx5_0/ports/1/counters/port_rcv_data": "25",
        "infiniband/mlx5_0/ports/1/counters/port_xmit_data": "50",
        "infiniband/mlx5_0/ports/1/counters/link_downed": "0",
    }
    for name, text in files.items():
        write(tmp_path / name, f"{text}\n")
    monkeypatch.setattr(end, "INTERFACES", tmp_path / "net")
    monkeypatch.setattr(end, "DEVICES", tmp_path / "infiniband")
    return tmp_path


def test_a_port_counts_words_of_four_bytes(sysfs):
    found = end.look_at("mlx5_0/1")
    assert found["counters"] == {"rx_bytes": 100, "tx_bytes": 200}
    link = {"operstate": "4: ACTIVE", "speed": "100 Gb/sec (4X EDR)", "mtu": ""}
    assert found["link"] == {**link, "carrier_changes": "0"}
    assert set(found["others"]) == {"eth0", "bond0", "ib0"}


def test_what_counts_the_same_bytes_again_is_no_other_interface(sysfs):
    found = end.look_at("bond0")
    assert found["counters"] == {"rx_bytes": 9, "tx_bytes": 9}
    assert found["others"] == {
        "ib0": {"rx_bytes": 70, "tx_bytes": 70},
        "mlx5_0/1": {"rx_bytes": 100, "tx_bytes": 200},
    }
    assert found["others"] == end.look_at("eth0")["others"]


def begin(folder, *words, number=0):
    environ = {**os.environ, "SLURM_PROCID": str(number)}
    return subprocess.Popen([sys.executable, str(end.PROGRAM), *words], cwd=folder, env=environ)


def python(code, *more):
    return (sys.executable, "-c", code, *PLACES, *more)


def both(folder, name, server=(), client=(), limit_s="60"):
    """Both ends of a launch."""
    server, client = server or python(SERVER), client or python(CLIENT, name)
    return [
        begin(folder, which, name, "lo", limit_s, *words)
        for which, words in (("server", server), ("client", client))
    ]


def ended(running):
    return [each.wait(120) for each in running]


@pytest.mark.parametrize("several", [False, True])
def test_each_task_takes_its_own_part(tmp_path, several):
    """As Slurm starts them, one command line: of two tasks 0 is the server; four
    of five tasks are those of two pairs, and the fifth has a round off.
    """
    (tmp_path / "round").mkdir()
    first = ("pairs", "round/", "lo", "60", "3-0,1-2") if several else ("task", "step", "lo", "60")
    words = (*first, *python(SERVER), "+" if several else end.BETWEEN, *python(CLIENT, "hello"))
    running = [begin(tmp_path, *words, number=task) for task in range(5 if several else 2)]
    assert set(ended(running)) == {0}
    names = ["round/1-2", "round/3-0"] if several else ["step"]
    assert sorted(tmp_path.rglob("*.server")) == [tmp_path / f"{name}.server" for name in names]
    for name in names:
        found = read(tmp_path, name)
        assert found.server.output.strip() == "hello" and found.client.end == "client"
    there = {path.name for path in Path("/sys/class/net").iterdir()}
    assert {name for name in found.client.after.others if "/" not in name} <= there - {"lo"}


def test_launches_at_the_same_time_do_not_meet_each_other(tmp_path):
    names = [f"launch{number}" for number in range(3)]
    assert set(ended([each for name in names for each in both(tmp_path, name)])) == {0}
    found = [read(tmp_path, name) for name in names]
    assert [each.server.output.strip() for each in found] == names
    assert len({each.server.port for each in found}) == 3
    cores = re.findall(r"(?m)^Cpus_allowed_list:\s*(\S+)", Path("/proc/self/status").read_text())
    for each in found:
        assert each.client.bytes_of("tx_bytes") > 0 and each.server.address == "127.0.0.1"
        assert each.client.cores == cores[0]


def test_a_server_does_not_outlive_its_client(tmp_path):
    failing = python("raise SystemExit('no such device')")
    assert ended(both(tmp_path, "failed", client=failing)) == [0, 0]
    server = content(tmp_path, "failed", "server")
    assert (server["ended"], server["status"]) == ("after the client", -15)
    with pytest.raises(OutputError, match="client ended with exit status 1: no such device"):
        read(tmp_path, "failed")


def test_a_client_that_hangs_is_ended(tmp_path):
    hanging = python("import time; time.sleep(600)")
    assert ended(both(tmp_path, "hung", client=hanging, limit_s="2")) == [0, 0]
    with pytest.raises(OutputError, match="client was ended at the time limit"):
        read(tmp_path, "hung")


@pytest.mark.parametrize("which", ["server", "client"])
def test_no_program_outlives_an_end_that_is_killed(tmp_path, which):
    """As iperf3 would on a node whose jobs have no cgroup: its
    server waits for a client without end.
    """
    say = "import os, pathlib; pathlib.Path('who').write_text(str(os.getpid())); "
    listen = "import socket, sys; asked = socket.create_server((sys.argv[1], int(sys.argv[2]))); "
    programs = {"server": listen, "client": ""}
    programs[which] += say
    server, client = (python(f"{code}import time; time.sleep(600)") for code in programs.values())
    running = both(tmp_path, "killed", server, client)
    who = tmp_path / "who"
    assert wait_for(lambda: who.exists() and who.read_text() != "")
    program = int(who.read_text())
    for each in running:
        each.kill()
        each.wait()
    assert wait_for(lambda: Process.observe(program) is None, 60)
