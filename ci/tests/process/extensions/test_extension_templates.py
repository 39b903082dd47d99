"""The templates of site_configs/template/extensions work as they are, with ReFrame and with the command that adds stacks."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import documentation
import synthetic_installation as synthetic
from reframe_tests.harness import records
from reframe_tests.harness.launchers.model import Launcher
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.mpis.model import Mpi
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites.model import Suite
from synthetic_stack import write_stack
from test_suite_extension import COMMAND, run_with
from tiny_site import write_site

FOLDER = metadata.ROOT / "site_configs" / "template" / "extensions"
SYSTEM = {
    "name": "mysystem",
    "descr": "nodes that are not here",
    "hostnames": ["nowhere"],
    "partitions": [
        {
            "name": "compute",
            "scheduler": "local",
            "launcher": "mylaunch",
            "processor": describe(1, 2),
            "extras": {
                "fabrics": {"eth": {"transport": "tcp", "scope": "cluster", "rails": [{"device": "eth0"}]}},
                "remote": True,
            },
        }
    ],
}
BUILD = {"name": "mympi", "version": "1.2", "device": ""}


@pytest.fixture(autouse=True)
def extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder itself, not a copy."""
    monkeypatch.setenv(records.EXTENSIONS, str(FOLDER))
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)


def test_reframe_writes_the_job_of_all_three(tmp_path: Path, run_reframe: Callable[..., Any]) -> None:
    write_site(tmp_path, SYSTEM)
    folder = tmp_path / "environments" / "mympi"
    program = folder / "bin" / "mysuite-ring"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    suites = {"mysuite": {"version": "1.0", "built_with": "gcc"}}
    write_stack(folder, name="mympi-system", mpi=BUILD, abi="mympi", binaries={program.name: str(program)}, suites=suites)
    result = run_reframe(
        *("--dry-run", "--system=mysystem", "-S", "level=smoke", "-n", "MysuiteRing%fabric=eth%nodes=2%ppn=2%pinning=bunch"),
        *("-c", str(FOLDER / "tests")),
        config=tmp_path / "site_configs" / "settings.py",
        only="point_to_point.py",
        environ={"RFM_PREFIX": str(tmp_path / "results")},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    [script] = [path.read_text() for path in (tmp_path / "results").rglob("rfm_*.sh")]
    for line in ("MYMPI_NETWORK=tcp", "MYMPI_INTERFACE=eth0", "MYMPI_VERBOSE=1", "MYMPI_BIND=0"):
        assert re.search(rf"^export {line}$", script, re.M), line
    assert "MYMPI_SHM" not in script, "only inside a node"
    launch = r"mylaunch --ranks=4 --nodes=2 --pmi=pmi2 --per-node=2 --bind=cpus:0/1 --export=[^\n]*\\\n[^\n]*\n"
    assert re.search(rf"{launch} *{program} --sizes 8:1024 --repeat 100$", script, re.M), script


def test_where_no_stack_has_the_program_the_listing_and_the_doctor_say_why(
    tmp_path: Path, run_reframe: Callable[..., Any]
) -> None:
    write_site(tmp_path, SYSTEM)
    write_stack(tmp_path / "environments" / "mpich")
    result = run_reframe(
        *("-l", "--system=mysystem", "-n", "MysuiteRing", "-c", str(FOLDER / "tests")),
        config=tmp_path / "site_configs" / "settings.py",
        only="point_to_point.py",
        environ={"RFM_PREFIX": str(tmp_path / "results")},
    )
    assert "Found 0 check(s)" in result.stdout, result.stdout + result.stderr
    [said] = [line for line in result.stdout.splitlines() if "MysuiteRing can be measured" in line]
    assert (
        "WARNING: no case of MysuiteRing can be measured here: mysystem:compute: no stack of this partition has mysuite" in said
    )
    stack = tmp_path / "environments" / "mpich" / "stack.json"
    program = (
        "from pathlib import Path; from mpibench.commands.listings import doctor\n"
        "from reframe_tests.harness.stacks import metadata\n"
        f"stack = metadata.read(Path({str(stack)!r}))\n"
        "for row in doctor.check_suites([stack]): print(row.subject, row.state, row.detail)\n"
        "for row in doctor.check_groups(doctor.test_folders(metadata.ROOT)): print(row.subject)\n"
        "for row in doctor.check_groups([metadata.ROOT / 'reframe_tests']): print('without', row.subject, row.state)\n"
    )
    done = run_with(FOLDER, "-c", program)
    assert done.returncode == 0, done.stderr
    assert "suite mysuite note no stack has a program of My suite, so nothing is measured for mysuite_ring; see" in done.stdout
    assert "suite imb" not in done.stdout, "the stack has it"
    assert re.findall(r"^(?:without )?group .*", done.stdout, re.M) == ["without group mysuite_ring note"]


def test_the_suite_reads_its_output_and_refuses_a_damaged_one(tmp_path: Path) -> None:
    listed = run_with(FOLDER, "-c", COMMAND, "catalogue", "mysuite_ring")
    lines = [line.strip() for line in listed.stdout.splitlines()]
    assert listed.returncode == 0 and "Test: MysuiteRing." in listed.stdout, listed.stderr
    assert lines[0].startswith("mysuite_ring: ") and {"program: mysuite-ring", "Ring"} <= set(lines)
    output = tmp_path / "output.txt"
    output.write_text("# My suite 1.0\n8 1.50\n16 1.75\n")
    parsed = run_with(FOLDER, "-c", COMMAND, "catalogue", "--parse", "--format", "csv", str(output))
    assert parsed.returncode == 0 and "1.75" in parsed.stdout, parsed.stderr
    output.write_text("# My suite 1.0\n8 1.50\n16 nothing\n")
    damaged = run_with(FOLDER, "-c", COMMAND, "catalogue", "--parse", "--format", "csv", str(output))
    assert damaged.returncode == 2 and "this is not a whole table of My suite" in damaged.stderr


def test_an_installation_with_the_program_is_registered(tmp_path: Path) -> None:
    synthetic.make_library(tmp_path / "opt/lib/libmympi.so.1", "My MPI 1.2 (built today)", "libmympi.so.1")
    mpirun = synthetic.make_launcher(tmp_path / "opt", synthetic.HYDRA)
    synthetic.make_program(tmp_path / "suite/mysuite-ring", "libmympi.so.1", "My suite 1.0")
    words = ("--mpirun", str(mpirun), "--binaries", str(tmp_path / "suite"), "--into", str(tmp_path / "registered"))
    done = run_with(FOLDER, "-c", COMMAND, "stacks", "add", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    stack = json.loads((tmp_path / "registered" / "stack.json").read_text())
    assert (stack["name"], stack["mpi"], stack["launcher_family"]) == ("mympi-system", BUILD, "hydra")
    assert stack["binaries"] == {"mysuite-ring": str(tmp_path / "suite/mysuite-ring")}
    assert stack["suites"]["mysuite"]["version"] == "1.0"


@pytest.mark.parametrize(
    ("file", "name", "kind"),
    [("mpis/mympi.py", "MPI", Mpi), ("launchers/mylaunch.py", "LAUNCHER", Launcher), ("suites/mysuite.py", "SUITE", Suite)],
)
def test_the_page_says_what_a_file_must_define(file: str, name: str, kind: type[Any]) -> None:
    [row] = [line for line in documentation.page("how-to/extensions").splitlines() if line.startswith(f"| `{file}` |")]
    assert f"`{name}`, of `{kind.__module__}`" in row and f"\n{name} = {kind.__name__}(" in (FOLDER / file).read_text()
    required = [each.name for each in dataclasses.fields(kind) if each.default is each.default_factory is dataclasses.MISSING]
    assert required and all(f"`{each}`" in row.split("|")[3] for each in required)
