"""The templates of site_configs/template/extensions work as they are,
with ReFrame and with the command that adds stacks.
"""

import re

import pytest

from folders import write
from programs import MPIBENCH
from reframe_tests.harness import records
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.stacks import metadata
from synthetic_site import write_site
from synthetic_stack import write_stack
from test_suite_extension import run_with

FOLDER = metadata.ROOT / "site_configs" / "template" / "extensions"
RAIL = {"transport": "tcp", "scope": "cluster", "rails": [{"device": "eth0"}]}
PARTITION = {
    "name": "compute",
    "scheduler": "local",
    "launcher": "mylaunch",
    "processor": describe(1, 2),
    "extras": {"fabrics": {"eth": RAIL}, "remote": True},
}
SYSTEM = {
    "name": "mysystem",
    "descr": "nodes that are not here",
    "hostnames": ["nowhere"],
    "partitions": [PARTITION],
}
BUILD = {"name": "mympi", "version": "1.2", "device": ""}


@pytest.fixture(autouse=True)
def extensions(monkeypatch):
    """The folder itself, not a copy."""
    monkeypatch.setenv(records.EXTENSIONS, str(FOLDER))
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)


def test_reframe_writes_the_job_of_all_three(tmp_path, run_reframe):
    config = write_site(tmp_path, SYSTEM)
    folder = tmp_path / "environments" / "mympi"
    program = write(folder / "bin" / "mysuite-ring", "#!/bin/sh\n", executable=True)
    suites = {"mysuite": {"version": "1.0", "built_with": "gcc"}}
    own = {"binaries": {program.name: str(program)}, "suites": suites}
    write_stack(folder, name="mympi-system", mpi=BUILD, abi="mympi", **own)
    case = "MysuiteRing%fabric=eth%nodes=2%ppn=2%pinning=bunch"
    run_reframe(
        words=f"--dry-run -S level=smoke -n {case} -c {FOLDER / 'tests'}",
        config=config,
        only="point_to_point.py",
        environ={"RFM_PREFIX": tmp_path / "results", "RFM_SYSTEM": "mysystem"},
        ended=0,
    )
    [script] = [path.read_text() for path in (tmp_path / "results").rglob("rfm_*.sh")]
    for line in ("MYMPI_NETWORK=tcp", "MYMPI_INTERFACE=eth0", "MYMPI_VERBOSE=1", "MYMPI_BIND=0"):
        assert re.search(rf"^export {line}$", script, re.M), line
    assert "MYMPI_SHM" not in script, "only inside a node"
    launch = (
        r"mylaunch --ranks=4 --nodes=2 --pmi=pmi2 --per-node=2 --bind=cpus:0/1"
        r" --export=[^\n]*\\\n[^\n]*\n"
    )
    assert re.search(rf"{launch} *{program} --sizes 8:1024 --repeat 100$", script, re.M), script


def test_the_suite_reads_its_output_and_refuses_a_damaged_one(tmp_path):
    listed = run_with(FOLDER, *MPIBENCH, "catalogue", "mysuite_ring")
    assert listed.returncode == 0 and "Test: MysuiteRing." in listed.stdout, listed.stderr
    output = tmp_path / "output.txt"
    words = (*MPIBENCH, *["catalogue", "--parse", "--format", "csv"], output)
    for last, status in (("1.75", 0), ("nothing", 2)):
        output.write_text(f"# My suite 1.0\n8 1.50\n16 {last}\n")
        parsed = run_with(FOLDER, *words)
        assert (parsed.returncode, "1.75" in parsed.stdout) == (status, status == 0), parsed.stderr
    assert "this is not a whole table of My suite" in parsed.stderr
