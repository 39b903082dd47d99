"""``mpibench vet --local`` as Slurm starts it: a program by itself, on a node without any package."""

import sys
from pathlib import Path

from folders import write
from mpibench_vet import local
from programs import finished

HEAVY = ("polars", "reframe", "typer", "msgspec", "yaml", "mpibench")


def start(*words):
    program = Path(local.__file__).resolve()
    return finished(sys.executable, "-I", "-S", "-X", "importtime", program, *words)


def test_it_learns_and_judges_by_itself_and_loads_no_package(tmp_path):
    learned, state = tmp_path / "learned", tmp_path / "state"
    assert start("--learned", learned, "--learn").returncode == local.RIGHT
    done = start("--learned", learned, "--state", state)
    assert (done.returncode, done.stdout) == (local.RIGHT, ""), done.stderr
    assert state.exists()
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()
    }
    assert "json" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_what_cannot_look_calls_no_node_bad(tmp_path):
    """Slurm would drain every node that a checkout with a missing file looks at."""
    text = Path(local.__file__).read_text()
    alone = write(tmp_path / "ci" / "mpibench_vet" / "local.py", text)
    done = finished(sys.executable, "-I", alone)
    assert (done.returncode, len(done.stderr.splitlines())) == (local.UNDECIDED, 1)
    assert start("--learned", tmp_path / "ci" / "none", "--learn").returncode == local.RIGHT
    assert start("--learned", "/proc/none", "--learn").returncode == local.UNDECIDED


def test_the_command_waits_for_no_other(tmp_path):
    """Before each job the command asks for no checkout, and loads no other command for it."""
    program = (
        "import sys; from mpibench import exit_status; from mpibench_vet.commands import app; "
    )
    program += "status = exit_status.run(app, ['--local']); print(*sys.modules); sys.exit(status)"
    done = finished(sys.executable, "-c", program)
    assert done.returncode == local.UNDECIDED, done.stderr
    said, loaded = done.stdout.splitlines()
    assert said and {"mpibench.cli", "mpibench.store", "polars", "reframe"}.isdisjoint(
        loaded.split()
    )
