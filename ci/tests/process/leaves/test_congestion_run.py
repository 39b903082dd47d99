"""GPCNeT under load through ReFrame, with a stand-in: ten nodes with a network of their own each,
and a program that sends as much and prints what GPCNeT printed on another machine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

import synthetic_stack as synthetic
from mpibench.store import sessions
from programs import EXCHANGE_SOURCE
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.sites.site import ROOT
from studies.output_damage import golden
from synthetic_extensions import GALLEY, GALLEY_PROGRAM, TORUS_LIBRARY, TORUS_MPI, torus_stack
from synthetic_site import SETTINGS

NODES = 10
#: Each rank is a node: a name and a network of its own, in which nobody else sends.
NODE_OF_ITS_OWN = """unshare --user --map-root-user --net --uts sh -c '
hostname "c$GALLEY_RANK" && ip link set lo up && exec "$@"' sh "$@" &"""
#: The torus as TCP over the one interface that each of these nodes has.
OVER_TCP = """
    rows=(
        TransportRow(
            "tcp",
            Range((2,)),
            "its manual, 'Sockets'",
            env={"TORUS_LINK": "{device}"},
            debug_env={"TORUS_SAY": "1"},
            proofs=(Proof("way", r"torus: uses (\\S+)", ("memory",)),),
        ),
"""
#: What the stand-in does: as many bytes through the node's interface,
#: both ends in one process, then the table.
STAND_IN = (
    r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
int MPI_Init(int *, char ***), MPI_Comm_rank(int, int *), MPI_Finalize(void);
"""
    + EXCHANGE_SOURCE
    + r"""
int main(int count, char **words)
{
    static char whole[65536];
    int rank = -1, each;
    setvbuf(stdout, whole, _IOFBF, sizeof whole); /* in one piece, among what other ranks print */
    if (MPI_Init(&count, &words) || MPI_Comm_rank(7, &rank)) return 1;
    if (exchange(atol(getenv("STAND_IN_BYTES")))) return 2;
    if (rank == 0) {
        FILE *table = fopen(getenv("STAND_IN_TABLE"), "r");
        if (!table) return 3;
        while ((each = getc(table)) != EOF) putchar(each);
    }
    return MPI_Finalize();
}
"""
)
#: Of two tested nodes' first measurements, alone and under load, ten
#: nodes send a tenth each, and a little more.
BYTES = 2 * 2 * (30 * 8 * 8 * 2 * 131072 + 30 * 200 * 2 * 8 + 200 * 8) // NODES + 5_000_000
Run = Callable[..., CompletedProcess[str]]


def table_of_ten_nodes() -> str:
    """As recorded on 64 nodes, with another head."""
    text = golden("gpcnet-1.3-network_load_test-n2048.txt")
    for before, after in (
        ("2048 MPI ranks (64 nodes)", f"{NODES} MPI ranks ({NODES} nodes)"),
        ("13 nodes running Network", "2 nodes running Network"),
        (
            "51 nodes running Congestion Tests (min 12 nodes",
            "8 nodes running Congestion Tests (min 2 nodes",
        ),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    return text


@dataclass(frozen=True)
class Machine:
    """Ten nodes with the stand-in."""

    top: Path
    reframe: Run

    def run(self, table: str, sent: int = BYTES) -> tuple[CompletedProcess[str], sessions.Case]:
        """One run of the leaf: what ReFrame said, and the case as stored."""
        (self.top / "table.txt").write_text(table)
        values = f"env_vars=STAND_IN_BYTES:{sent},STAND_IN_TABLE:{self.top / 'table.txt'}"
        words = "-r --system=torus -n ^GpcnetCongestion.*%ppn=1% -P pinning=default -S repeats=1 -S"
        options = (*words.split(), values)
        done = self.reframe(*options, top=self.top, only="parallel_transfer.py")
        database = self.top / "results" / "results.db"
        assert database.exists(), done.stdout + done.stderr
        newest = list(sessions.list_sessions(database))[-1]
        [stored] = sessions.read_session(database, newest).cases
        return done, stored


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_reframe: Run) -> Machine:
    trial = ["unshare", "--user", "--map-root-user", "--net", "--uts", "sh", "-c"]
    trial.append("hostname c0 && ip link set lo up")
    if not shutil.which("unshare") or subprocess.run(trial, capture_output=True).returncode:
        pytest.skip("[namespaces] no network and host name of one's own can be made here")
    own = tmp_path / "own"
    stack = tmp_path / "environments" / "torusmpi"
    extras = {
        "fabrics": {"net": {"transport": "tcp", "scope": "cluster", "rails": [{"device": "lo"}]}},
        "node_counts": [NODES],
    }
    nodes: dict[str, Any] = {
        "name": "nodes",
        "scheduler": "local",
        "launcher": "galley",
        "processor": describe(1, 2),
    }
    nodes["extras"] = {**extras, "remote": True}
    site = {"name": "torus", "descr": "ten nodes", "hostnames": ["nowhere"], "partitions": [nodes]}
    started = '"$@" &\n'
    assert started in GALLEY_PROGRAM
    files = {
        own / "mpis/torusmpi.py": TORUS_MPI.replace("    rows=(\n", OVER_TCP, 1),
        own / "launchers/galley.py": GALLEY,
        tmp_path / "site_configs/settings.py": SETTINGS,
        tmp_path / "site_configs/torus/system.py": f"system = {site!r}\n",
        tmp_path / "bin/galley": GALLEY_PROGRAM.replace(started, f"{NODE_OF_ITS_OWN}\n"),
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "bin/galley").chmod(0o755)
    (tmp_path / "reframe_tests").mkdir()
    shutil.copy(ROOT / "reframe_tests/parallel_transfer.py", tmp_path / "reframe_tests")
    monkeypatch.setenv("MPIBENCH_EXTENSIONS", str(own))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    library = synthetic.compile_c(
        TORUS_LIBRARY, stack / "lib/libtorus.so.7", "-shared", "-fPIC", "-Wl,-soname,libtorus.so.7"
    )
    program = synthetic.compile_c(
        STAND_IN, stack / "bin/network_load_test", str(library), f"-Wl,-rpath,{library.parent}"
    )
    torus_stack(
        stack,
        library=str(library),
        library_version_pattern=r"^Torus MPI 2\.1 ",
        binaries={"network_load_test": str(program)},
        commands={},
        suites={"gpcnet": {"version": "unknown", "built_with": "gcc"}},
    )
    return Machine(tmp_path, run_reframe)


def sentences(case: sessions.Case) -> str:
    return " ".join(case.proof.sentences) if case.proof else ""


def test_latency_alone_and_under_load_is_proven(machine: Machine) -> None:
    done, case = machine.run(table_of_ten_nodes())
    assert done.returncode == 0, f"{done.stdout}\n{sentences(case)}"
    assert (case.result, case.evidence, case.nodes) == ("pass", "proven", NODES)
    values: dict[tuple[str, str, str], Any] = {
        (one.benchmark, one.variant, one.quantity): one.measured for one in case.samples
    }
    assert (
        values["RR_Two-sided_Lat", "isolated", "latency_us"]
        and values["RR_Two-sided_Lat", "congested", "latency_us"]
    )
    [impact] = values["Multiple_Allreduce_impact", "", "impact"]
    assert impact == pytest.approx(20.3 / 20.2)
    assert case.proof is not None and len({row["host"] for row in case.proof.ranks}) == NODES


def test_bytes_that_went_elsewhere_fail(machine: Machine) -> None:
    """The table is whole, and the network of the nodes carried a
    tenth of what the tests must have sent.
    """
    done, case = machine.run(table_of_ten_nodes(), BYTES // 10)
    assert (done.returncode, case.evidence) == (1, "contradicted"), done.stdout
    assert "went elsewhere: lo carried" in sentences(case)
