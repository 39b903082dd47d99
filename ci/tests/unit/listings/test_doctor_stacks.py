"""doctor counts the stacks that fit each partition; a pattern that fits none is missing."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from mpibench.commands.listings import doctor
from reframe_tests.harness.sites import systems
from reframe_tests.harness.stacks import metadata
from synthetic_stack import describe

EXTRAS = {"fabrics": {"shm": {"transport": "shm", "scope": "node"}}}


def system(**extras: object) -> dict:
    return {"name": "here", "partitions": [{"name": "p", "extras": {**EXTRAS, **extras}}]}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("a-spack", "b-wheels")
    stacks = [metadata.parse({**describe(tmp_path), "name": name}, tmp_path) for name in names]
    monkeypatch.setattr(metadata, "discover", lambda *_: (stacks, []))


def test_stacks_are_counted_and_a_pattern_that_fits_none_is_missing(registered: None) -> None:
    good, bad = doctor.fitting(system(stacks=["*-wheels", "*-spak"]))
    assert (good.subject, good.state, good.detail) == ("here:p stacks", doctor.OK, "1 of 2: b-wheels")
    assert bad.state == doctor.MISSING
    assert bad.detail.startswith("'*-spak' in extras.stacks fits no stack")
    [nothing] = doctor.fitting(system(stacks=["*-spak"]))
    assert nothing.state == doctor.MISSING


@pytest.mark.parametrize(("stacks", "status"), [(["*"], 0), (["*", "*-spak"], 1)])
def test_the_exit_status_tells_ci(registered: None, monkeypatch: pytest.MonkeyPatch, stacks: list[str], status: int) -> None:
    described = {**system(stacks=stacks), "hostnames": [".*"], "descr": "x"}
    monkeypatch.setattr(systems, "system_files", lambda *_: [Path("x")])
    monkeypatch.setattr(systems, "read_system", lambda *_: described)
    monkeypatch.setattr(systems, "find", lambda name, _: described if name == "here" else None)
    assert doctor.report(None, Console(quiet=True), stacks_only=True) == status
    monkeypatch.setenv("RFM_SYSTEM", "here:p")
    assert doctor.report(None, Console(quiet=True), stacks_only=True) == status
    monkeypatch.setenv("RFM_SYSTEM", "elsewhere")
    with pytest.raises(doctor.BadInput, match="elsewhere"):
        doctor.report(None, Console(quiet=True), stacks_only=True)


def test_a_long_name_leaves_the_text_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finding is one line for grep, in a pipe and in a narrow terminal, with brackets as they are."""
    findings = [
        doctor.Finding(
            "mysystem partitions.0.extras.fabrics.ndr400.rails.0.line_rate_gbit_per_s", doctor.MISSING, "a " * 60 + "end"
        ),
        doctor.Finding("python", doctor.OK, "login[0-9]+ and [bold]"),
    ]
    monkeypatch.setattr(doctor, "examine", lambda *_: findings)
    written = io.StringIO()
    assert doctor.report(None, Console(file=written, width=80)) == 1
    long, short = written.getvalue().splitlines()
    assert long == f"missing  {findings[0].subject}  {findings[0].detail}"
    assert short.split(None, 2) == ["ok", "python", "login[0-9]+ and [bold]"]


@pytest.mark.parametrize(("here", "state"), [(True, doctor.MISSING), (False, doctor.NOTE)])
def test_a_partition_whose_jobs_cannot_be_submitted_from_here_is_named(
    monkeypatch: pytest.MonkeyPatch, here: bool, state: str
) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda program: "/usr/bin/qsub" if program == "qsub" else None)
    [finding] = doctor.check_submission("mysystem:compute", "slurm", here)
    assert (finding.subject, finding.state) == ("mysystem:compute", state)
    assert finding.detail == "scheduler slurm: there is no sbatch here; start reframe where jobs are submitted"
    assert not list(doctor.check_submission("mysystem:login", "local", here))
    assert not list(doctor.check_submission("mysystem:compute", "pbs", here))


def test_tests_below_mpi_say_why_they_have_no_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """RDMA where there is Ethernet only, two nodes where there is one, and programs that the nodes may lack."""
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    tests = [metadata.ROOT / "reframe_tests"]
    system = systems.select("minicluster", metadata.ROOT)
    found = {row.subject: row for row in doctor.check_below_mpi(system, tests, here=True)}
    assert set(found) == {f"test {name}" for name in ("WireTcp", "WireRdma", "TransportUcx", "TransportLibfabric")}
    assert {row.state for row in found.values()} == {doctor.NOTE}
    assert "eth1g is of transport tcp, without an RDMA adapter" in found["test WireRdma"].detail
    assert "shm" not in found["test WireRdma"].detail
    assert found["test WireTcp"].detail == (
        "not on PATH here: iperf3; where the nodes have none of it the case is skipped (Debian's iperf3, Spack's iperf3)"
    )
    (alone,) = doctor.check_below_mpi(systems.select("generic", metadata.ROOT), tests, here=True)
    assert "WireTcp" in alone.detail and "no fabric of the system is between nodes" in alone.detail
    assert [row.subject for row in doctor.check_below_mpi(system, tests, here=False)] == ["test WireRdma"]
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert [row.subject for row in doctor.check_below_mpi(system, tests, here=True)] == ["test WireRdma"]


def test_files_of_a_site_that_were_read_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mpis").mkdir()
    (tmp_path / "mpis" / "own.py").touch()
    monkeypatch.setenv("MPIBENCH_EXTENSIONS", str(tmp_path))
    assert doctor.Finding("extension", doctor.OK, str(tmp_path / "mpis" / "own.py")) in doctor._software()
