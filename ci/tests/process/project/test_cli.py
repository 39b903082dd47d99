"""The ``mpibench`` command as its user meets it: helps worth reading, one sentence for bad input, exit codes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = ("doctor", "stacks", "catalogue", "export", "report", "cluster")


@pytest.fixture
def mpibench(root: Path):
    """Run the installed command."""

    def run(*words: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        command = Path(sys.executable).parent / "mpibench"
        environ = {**os.environ, "COLUMNS": "200", "RFM_CONFIG_FILES": str(root / "site_configs" / "settings.py"), **variables}
        return subprocess.run(
            [command, *words], input=stdin, text=True, capture_output=True, env=environ, timeout=120, check=False
        )

    return run


def test_help_names_every_command(mpibench) -> None:
    result = mpibench("--help")
    assert result.returncode == 0
    assert [name for name in COMMANDS if name not in result.stdout] == []


HEAVY = {"numpy", "polars", "scipy", "plotly", "reframe", "jinja2", "jsonschema", "rich.console", "rich.table"}
#: Distributions take longer to load than all else; a night without nights before it asks for none.
OF_NIGHTS = {"scipy.stats", "scipy.special", "scipy.sparse", "scipy.optimize", "plotly", "reframe"}


@pytest.mark.parametrize(
    ("module", "not_loaded"),
    [
        ("mpibench.cli", HEAVY),
        ("reframe_tests.harness.suites.reader", HEAVY | {"yaml"}),
        *((f"mpibench.{name}", OF_NIGHTS) for name in ("commands.nightly", "judge.accept", "judge.gate")),
    ],
)
def test_nothing_waits_for_what_only_some_need(root: Path, module: str, not_loaded: set[str]) -> None:
    """`reframe -l` and each command start with it, a night with several."""
    words = [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"]
    loaded = set(subprocess.run(words, cwd=root, text=True, capture_output=True, check=True).stdout.split())
    assert module in loaded and not not_loaded & loaded


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("catalogue", "--parse", "/no/such/file"), "/no/such/file"),
        (("doctor", "--system", "nosuch"), "there is no system 'nosuch'"),
        (("export", "--db", "/no/such/results.db"), "/no/such/results.db"),
    ],
)
def test_bad_input_is_one_sentence(mpibench, words: tuple[str, ...], wanted: str) -> None:
    result = mpibench(*words)
    assert result.returncode == 2
    assert result.stdout == ""
    [sentence] = result.stderr.splitlines()
    assert sentence.startswith("mpibench: ") and wanted in sentence


def test_parse_reads_standard_input_and_says_what_it_set_aside(mpibench, root: Path) -> None:
    output = (root / "ci/tests/data/golden/imb-mpi1-2018.1-n2.txt").read_text()
    before = "[0] MPI startup(): I_MPI_X is ignored\nsrun: job 7 has been allocated resources\n"
    result = mpibench("catalogue", "--parse", "-", "--format", "csv", stdin=before + output)
    assert result.returncode == 0
    assert result.stderr == "-: set aside around the output: 1 line of Intel MPI, 1 line of Slurm\n"
    head, *rows = result.stdout.splitlines()
    assert {"benchmark", "ranks", "groups", "message_bytes", "repetitions", "latency_us"} <= set(head.split(","))
    assert any("PingPong" in row for row in rows)


def test_doctor_finds_what_the_tests_need(mpibench, stacks) -> None:
    if not stacks:
        pytest.skip("[stacks] no stack is built here")
    result = mpibench("doctor", "--system", "generic")
    assert result.returncode == 0, result.stdout
    for wanted in ("evidence library", "generic:default lo", *(f"stack {name}" for name in stacks)):
        assert wanted in result.stdout


def test_doctor_says_how_to_configure_reframe(mpibench, tmp_path: Path) -> None:
    """A configuration without ours, and one that is not there."""
    alone = tmp_path / "alone.py"
    partition = {"name": "p", "scheduler": "local", "launcher": "local", "environs": ["builtin"]}
    system = {"name": "elsewhere", "hostnames": ["nowhere"], "partitions": [partition]}
    alone.write_text(f"site_configuration = {{'systems': [{system!r}]}}\n")
    result = mpibench("doctor", RFM_CONFIG_FILES=str(alone))
    assert result.returncode == 1, result.stderr
    assert f"RFM_CONFIG_FILES={alone}:" in result.stdout.replace("\n", "").replace(" ", "")
    result = mpibench("doctor", RFM_CONFIG_FILES="/elsewhere.py")
    assert result.returncode == 2 and "/elsewhere.py" in result.stderr and "take it out of RFM_CONFIG_FILES" in result.stderr


def test_output_that_nobody_reads_is_no_answer(root: Path) -> None:
    command = Path(sys.executable).parent / "mpibench"
    process = subprocess.Popen([command, "catalogue"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.close()
    assert process.wait(timeout=120) == 141


def test_a_plain_install_says_that_it_lacks_the_checkout(root: Path, tmp_path: Path) -> None:
    """``pip install .`` copies the modules and leaves systems, stacks and schemas behind."""
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in ("ci/mpibench", "reframe_tests"):
        shutil.copytree(root / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(root / name, source / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "install", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, timeout=120)
    for command in ("doctor", "report", "stacks"):
        words = [sys.executable, "-c", f"import sys; from mpibench.cli import main; sys.exit(main([{command!r}]))"]
        environ = {**os.environ, "PYTHONPATH": str(target)}
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)
        said = f"mpibench: {target} has the program without the systems and stacks of its checkout; run ci/setup of "
        assert done.returncode == 2 and done.stderr.startswith(said) and len(done.stderr.splitlines()) == 1, done.stderr
