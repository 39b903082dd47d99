"""Registering an installed MPI: what is found out, what is refused with
which sentence, and that nothing half done stays.
"""

import fcntl
import re
from pathlib import Path

import pytest

import synthetic_stack as synthetic
from mpibench.stacks import probe, system
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from refusals import refusal


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Registers into a project that has no stack yet; what is said is kept in ``add.said``."""
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)

    def call(mpirun, **words):
        return system.add(str(mpirun), root=tmp_path / "project", say=call.said.append, **words)

    call.said = []
    return call


def left(tmp_path):
    """What is registered, or half registered."""
    return [
        str(path)
        for path in (tmp_path / "project/environments").rglob("*")
        if path.name != "system"
    ]


# ---- what is found out ----


@pytest.mark.parametrize(
    ("answer", "who"),
    [
        ("Intel(R) MPI Library 2021.18.1 for Linux* OS\n", "intelmpi 2021.18.1 "),
        (
            "MPICH Version:      5.0.2\nMPICH Device:       ch4:ucx ofi\n",
            "mpich 5.0.2 ch4:ucx,ofi",
        ),
        (
            "MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Device       :\tch3:mrail\n",
            "mvapich2 2.3.7 ch3:mrail",
        ),
        ("Open MPI v5.0.0rc12, package: x\n", "openmpi 5.0.0rc12 "),
        ("MPI VERSION    : CRAY MPICH version 8.1.27", "craympich 8.1.27 "),
        (
            "=== ParaStation MPI 5.10.0-1 ===\n4.1.1\nMPICH Version:\t4.1.1\n",
            "parastation 5.10.0-1 ",
        ),
    ],
)
def test_the_answer_tells_who_a_library_is(answer, who):
    found = probe.identify(answer, "/opt/libmpi.so")
    version = found.version
    assert f"{found.mpi} {version} {found.device}" == who
    assert found.abi == registry.known()[found.mpi].abi
    assert re.search(found.pattern, answer)
    assert not re.search(found.pattern, answer.replace(version, version + "1"))


def test_an_installation_is_registered_with_what_it_is(add, tmp_path):
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    program = synthetic.make_program(
        tmp_path / "bench/osu_latency", "libmpi.so.40", synthetic.OSU_SOURCE
    )
    for name, target in (("alternatives", mpirun), ("bin", tmp_path / "alternatives/mpirun")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mpirun").symlink_to(target)
    stack = add(tmp_path / "bin/mpirun", binaries=[tmp_path / "bench"], env={"SITE": "yes"})
    assert metadata.read(Path(stack.source)) == stack
    assert (stack.origin, stack.mpi, stack.mpi_version) == ("system", "openmpi", "4.1.4")
    assert stack.launcher_family == "orterun" and stack.mpirun == (str(mpirun),)
    assert stack.library == str(tmp_path / "opt/lib/libmpi.so.40")
    assert stack.binaries == {"osu_latency": str(program)}
    assert stack.suites["osu"]["version"] == "7.4"
    # Neither is where processes look by themselves.
    assert stack.prepend_path["PATH"] == (str(tmp_path / "opt/bin"),)
    assert stack.prepend_path["LD_LIBRARY_PATH"] == (str(tmp_path / "opt/lib"),)
    assert stack.env_vars["SITE"] == "yes" and "links" not in stack.build


def test_binaries_that_ask_for_another_name_get_a_link_and_nothing_else(add, tmp_path):
    mpirun = synthetic.make_mpich(tmp_path / "opt")
    synthetic.make_program(tmp_path / "imb/bin/IMB-MPI1", "libmpi.so.12")
    # must not come in
    synthetic.make_library(tmp_path / "imb/lib/libmpi.so.12", "Another", "libmpi.so.12")
    stack = add(mpirun, binaries=[tmp_path / "imb/bin"])
    folder = Path(stack.source).parent / "lib"
    assert {path.name: str(path.readlink()) for path in folder.iterdir()} == {
        "libmpi.so.12": stack.library
    }
    assert stack.prepend_path["LD_LIBRARY_PATH"] == (str(folder), str(tmp_path / "opt/lib"))
    assert list(stack.build["links"]) == ["libmpi.so.12"]


def test_a_binary_that_does_not_run_here_is_left_out_and_said(add, tmp_path):
    """osu_mbw_mr 7.5 and osu_get_acc_latency do not even say their version to
    one rank; osu_bw_fan_in needs two nodes. NAS programs say it in their files,
    and are not started. One beside the launcher nobody has named.
    """
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    bench = tmp_path / "bench"
    for name, banner, ranks in (
        ("osu_mbw_mr", synthetic.OSU_SOURCE, 2),
        ("osu_bw_fan_in", synthetic.OSU_SOURCE, 3),
        ("bt.D.x", NPB, 99),
        ("bt.D.x.txt", NPB, 1),
    ):
        synthetic.make_program(bench / name, "libmpi.so.40", banner, ranks=ranks)
    synthetic.make_program(bench / "IMB-RMA", "libmpi.so.40", call="MPI_Session_init")
    synthetic.make_program(tmp_path / "opt/bin/hpcc", "libmpi.so.40", HPCC, call="MPI_Session_init")
    stack = add(mpirun, binaries=[bench])
    assert set(stack.binaries) == {"osu_mbw_mr", "bt.D.x"}
    assert stack.suites["npb"]["version"] == "3.4" and probe.find_contradiction(stack) == ""
    said = "\n".join(add.said)
    for name, reason in (
        ("IMB-RMA", "it needs MPI_Session_init"),
        ("hpcc", "it needs MPI_Session_init"),
        ("osu_bw_fan_in", ".*Error: more ranks"),
    ):
        assert re.search(f"{name} is left out: {reason}", said)


# ---- what is refused ----


def test_a_launcher_of_another_installation_is_refused(add, tmp_path):
    mpirun = synthetic.make_open_mpi(tmp_path / "opt", size="1")
    assert "two worlds of one rank" in refusal(add, mpirun)
    mpirun.write_text(mpirun.read_text().replace("for rank", "echo no slots; exit 3\nfor rank"))
    assert "(exit status 3): no slots" in refusal(add, mpirun)
    assert left(tmp_path) == []


def test_binaries_of_another_abi_or_none_at_all_are_refused(add, tmp_path):
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    synthetic.make_program(tmp_path / "abi/IMB-MPI1", "libmpi.so.12")
    synthetic.make_program(tmp_path / "late/IMB-MPI1", "libmpi.so.40", call="MPI_Session_init")
    synthetic.make_program(tmp_path / "fake/IMB-MPI1", "libmpi.so.40", "no banner")
    for folder, reason in (
        ("abi", "needs libmpi.so.12, the mpich ABI"),
        ("opt", "has no "),
        ("nosuch", "is not a folder"),
        ("late", "none of the 1 binaries runs on"),
        ("fake", "does not start as a program of imb"),
    ):
        assert reason in refusal(add, mpirun, binaries=[tmp_path / folder])
    assert left(tmp_path) == []


def test_what_a_killed_command_left_is_taken_over(add, tmp_path):
    """Not while another checkout works there."""
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    into = tmp_path / "shared"
    into.mkdir()
    (into / "made").touch()
    with (into / system.UNFINISHED).open("x") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        assert "is running in" in refusal(add, mpirun, into=into)
        assert (into / "made").exists() and (into / system.UNFINISHED).exists()
    (tmp_path / "link").symlink_to(into)
    assert Path(add(mpirun, name="other", into=tmp_path / "link").source) == into / "stack.json"
    assert not (into / "made").exists() and not (into / system.UNFINISHED).exists()


def test_only_what_add_registered_is_removed(add, tmp_path):
    """Nor a link to a stack; and what is added again has its hash, unless the library changed."""
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    hashes = []
    for text in ("", "", "patched"):
        with (tmp_path / "opt/lib/libmpi.so.40").open("a") as stream:
            stream.write(text)
        stack = add(mpirun)
        hashes.append(stack.lock_hash)
        folder = Path(stack.source).parent
        (folder.parent / "link").symlink_to(folder)
        for name in ("", "nosuch", "../wheels", ".", "link"):
            with pytest.raises(BadInput, match=r"is registered in|is a link"):
                system.remove(name, tmp_path / "project")
        (folder.parent / "link").unlink()
        system.remove(stack.name, tmp_path / "project")
        assert left(tmp_path) == []
    assert hashes[0] == hashes[1] != hashes[2]


# ---- programs that know no option, or lie beside the launcher ----

HPCC = "This is the DARPA/DOE HPC Challenge Benchmark version 1.5.0 October 2012"
NPB = " NAS Parallel Benchmarks 3.4 -- BT Benchmark"
