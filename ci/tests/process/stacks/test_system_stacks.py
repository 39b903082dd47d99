"""Registering an installed MPI: what is found out, what is refused with which sentence, and that nothing half done stays."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import synthetic_installation as synthetic
from mpibench.cli import main
from mpibench.commands import stacks as stacks_command
from mpibench.stacks import probe, system
from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

Add = Callable[..., Stack]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    """Registers into a project that has no stack yet; what is said is kept in ``add.said``."""
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)

    def call(mpirun: Path | str, **words: object) -> Stack:
        return system.add(str(mpirun), root=tmp_path / "project", say=call.said.append, **words)  # type: ignore[arg-type]

    call.said = []  # type: ignore[attr-defined]
    return call


def left(tmp_path: Path) -> list[str]:
    """What is registered, or half registered."""
    return [str(path) for path in (tmp_path / "project/environments").rglob("*") if path.name != "system"]


# ---- what is found out ----


@pytest.mark.parametrize(
    ("answer", "mpi", "version", "device", "abi"),
    [
        ("Intel(R) MPI Library 2021.18.1 for Linux* OS\n", "intelmpi", "2021.18.1", "", "mpich"),
        ("Intel(R) MPI Library 2019 Update 9 for Linux* OS\n", "", "", "", ""),
        ("MPICH Version:\t4.0.2\nMPICH Device:\tch4:ucx\nMPICH CC:\tgcc\n", "mpich", "4.0.2", "ch4:ucx", "mpich"),
        ("MPICH Version:      5.0.2\nMPICH Device:       ch4:ucx ofi\n", "mpich", "5.0.2", "ch4:ucx,ofi", "mpich"),
        ("MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Device       :\tch3:mrail\n", "mvapich2", "2.3.7", "ch3:mrail", "mpich"),
        ("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4\n", "openmpi", "4.1.4", "", "openmpi"),
        ("Open MPI v5.0.0rc12, package: x\n", "openmpi", "5.0.0rc12", "", "openmpi"),
        ("MPI VERSION    : CRAY MPICH version 8.1.27", "craympich", "8.1.27", "", "mpich"),
        ("MPI VERSION    : CRAY MPICH version 9.0.0.113 (ANL base 4.1.2)\n", "craympich", "9.0.0.113", "", "mpich"),
        (
            "=== ParaStation MPI 5.10.0-1 ===\n4.1.1\nMPICH Version:\t4.1.1\nMPICH Device:\tpsp\n",
            *("parastation", "5.10.0-1", "", "mpich"),
        ),
        ("Open MPI v4.1.7rc1, package: Open MPI root@hpc-kernel-03 Distribution\n", "openmpi", "4.1.7rc1", "", "openmpi"),
        ("Fujitsu MPI Library 4.0.1 (4.0.1fj4.0.0)\n", "", "", "", ""),
    ],
)
def test_the_answer_tells_who_a_library_is(answer: str, mpi: str, version: str, device: str, abi: str) -> None:
    if not mpi:
        with pytest.raises(BadInput, match="an MPI not known here"):
            probe.identify(answer, "/opt/libmpi.so")
        return
    found = probe.identify(answer, "/opt/libmpi.so")
    assert (found.mpi, found.version, found.device, found.abi) == (mpi, version, device, abi)
    assert re.search(found.pattern, answer)
    assert not re.search(found.pattern, answer.replace(version, version + "1"))


@pytest.mark.parametrize(("folder", "device"), [("ofi/gnu/9.1", "ch4:ofi"), ("ucx/cray/10.0", "ch4:ucx"), ("opt", "")])
def test_a_build_that_only_its_folder_tells(tmp_path: Path, folder: str, device: str) -> None:
    """Programs find Cray MPICH by a link, /opt/cray/pe/lib64; where that leads says which of its two builds it is."""
    library = tmp_path / "mpich" / "8.1.28" / folder / "lib" / "libmpi_gnu_91.so.12"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    link = tmp_path / "libmpi_gnu_91.so.12"
    link.symlink_to(library)
    banner = "MPI VERSION    : CRAY MPICH version 8.1.28.2 (ANL base 3.4a2)\n"
    assert probe.identify(banner, str(link)).device == device


def test_rows_use_the_words_of_the_vocabulary() -> None:
    families = {family for mpi in mpis.known().values() if mpi.banner for family in mpi.launchers}
    recognised = {name for name, row in launchers.families().items() if row.introduction}
    assert recognised == families <= set(launchers.families())


def test_an_installation_is_registered_with_what_it_is(add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    program = synthetic.make_program(tmp_path / "bench/osu_latency", "libmpi.so.40", synthetic.OSU)
    stack = add(mpirun, binaries=[tmp_path / "bench"], env={"SITE": "yes"})
    assert metadata.read(Path(stack.source)) == stack
    assert Path(stack.source) == tmp_path / "project/environments/system/openmpi-system/stack.json"
    assert (stack.origin, stack.mpi, stack.mpi_version, stack.launcher_family) == ("system", "openmpi", "4.1.4", "orterun")
    assert stack.library == str(tmp_path / "opt/lib/libmpi.so.40")
    assert stack.mpirun == (str(mpirun),)
    assert stack.binaries == {"osu_latency": str(program)}
    assert stack.suites["osu"]["version"] == "7.4"
    assert str(tmp_path / "bench") in stack.suites["osu"]["built_with"]
    # Neither is where processes look by themselves.
    assert stack.prepend_path["PATH"] == (str(tmp_path / "opt/bin"),)
    assert stack.prepend_path["LD_LIBRARY_PATH"] == (str(tmp_path / "opt/lib"),)
    assert stack.env_vars["SITE"] == "yes"
    assert "links" not in stack.build


def test_the_hash_changes_with_the_library(add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    before = add(mpirun)
    system.remove(before.name, tmp_path / "project")
    assert add(mpirun).lock_hash == before.lock_hash
    system.remove(before.name, tmp_path / "project")
    with Path(before.library).open("ab") as stream:
        stream.write(b"patched")
    assert add(mpirun).lock_hash != before.lock_hash


def test_binaries_that_ask_for_another_name_get_a_link_and_nothing_else(add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_mpich(tmp_path / "opt")
    synthetic.make_program(tmp_path / "imb/bin/IMB-MPI1", "libmpi.so.12")
    synthetic.make_library(tmp_path / "imb/lib/libmpi.so.12", "Another", "libmpi.so.12")  # must not come in
    stack = add(mpirun, binaries=[tmp_path / "imb/bin"])
    folder = Path(stack.source).parent / "lib"
    assert {path.name: str(path.readlink()) for path in folder.iterdir()} == {"libmpi.so.12": stack.library}
    assert stack.prepend_path["LD_LIBRARY_PATH"] == (str(folder), str(tmp_path / "opt/lib"))
    assert stack.build["links"] == {"libmpi.so.12": str(tmp_path / "opt/lib/libmpich.so.12")}
    assert stack.device == "ch4:ucx"


def test_a_binary_that_needs_a_function_the_library_lacks_is_left_out(add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    synthetic.make_program(tmp_path / "bench/bin/IMB-MPI1", "libmpi.so.40")
    synthetic.make_program(tmp_path / "bench/bin/IMB-RMA", "libmpi.so.40", call="MPI_Session_init")
    stack = add(mpirun, binaries=[tmp_path / "bench/bin"])
    assert list(stack.binaries) == ["IMB-MPI1"]
    assert f"IMB-RMA is left out: it needs MPI_Session_init, which {stack.library} does not have." in add.said  # type: ignore[attr-defined]


def test_osu_programs_are_asked_as_two_ranks(add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    # osu_mbw_mr 7.5 and osu_get_acc_latency do not even say their version to one rank; osu_bw_fan_in needs two nodes.
    synthetic.make_program(tmp_path / "bench/osu_mbw_mr", "libmpi.so.40", synthetic.OSU, ranks=2)
    synthetic.make_program(tmp_path / "bench/osu_bw_fan_in", "libmpi.so.40", synthetic.OSU, ranks=3)
    assert list(add(mpirun, binaries=[tmp_path / "bench"]).binaries) == ["osu_mbw_mr"]
    assert any("osu_bw_fan_in is left out" in said and "Error: more ranks" in said for said in add.said)  # type: ignore[attr-defined]


def with_ompi_info(mpirun: Path, says: str) -> Path:
    """An Open MPI that says more of itself."""
    program = mpirun.with_name("ompi_info")
    program.write_text(f"#!/bin/sh\n[ \"$*\" = '--parsable --all' ] && cat <<'END'\n{says}\nEND\n")
    program.chmod(0o755)
    return mpirun


#: What ``ompi_info --parsable --all`` says of a build without, for CUDA (4.1 and 5.0) and for ROCm (5.0), and so the platform.
OMPI_INFO = {
    "options:mpi_ext:affinity, cuda, pcollreq\nmca:opal:base:param:opal_built_with_cuda_support:value:false": "",
    "mca:mpi:base:param:mpi_built_with_cuda_support:value:true": "cuda",
    'mca:accelerator:cuda:version:"mca:2.1.0"\nmca:opal:base:param:opal_built_with_cuda_support:value:true': "cuda",
    'mca:accelerator:null:version:"mca:2.1.0"\nmca:accelerator:rocm:version:"mca:2.1.0"': "rocm",
    'mca:accelerator:rocm:version:"x"\nmca:opal:base:param:opal_built_with_cuda_support:value:true': "",
}


@pytest.mark.parametrize("says", OMPI_INFO)
def test_open_mpi_says_whose_memory_it_sends(says: str, add: Add, tmp_path: Path) -> None:
    stack = add(with_ompi_info(synthetic.make_open_mpi(tmp_path / "opt"), says))
    assert stack.gpu == OMPI_INFO[says]
    assert ("gpu" in json.loads(Path(stack.source).read_text())) == bool(stack.gpu)


@pytest.mark.parametrize(
    ("configured", "gpu"),
    [
        ("--with-device=ch4:ofi --with-cuda=/usr/local/cuda", "cuda"),
        ("--with-device=ch4:ofi --with-hip=/opt/rocm --without-cuda", "rocm"),
        ("--with-device=ch4:ucx --with-cuda=no --enable-cuda=no", ""),
        ("--with-device=ch4:ucx", ""),
    ],
)
def test_mpich_says_what_it_was_configured_for(configured: str, gpu: str, add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_mpich(tmp_path / "opt")
    answer = f"{synthetic.MPICH}MPICH configure:\\t{configured}\\n"
    synthetic.make_library(tmp_path / "opt/lib/libmpich.so.12", answer, "libmpich.so.12")
    assert add(mpirun).gpu == gpu


def test_a_platform_is_named_where_the_mpi_does_not_say_it(add: Add, tmp_path: Path) -> None:
    """UCX below Open MPI may know CUDA although Open MPI itself was built without."""
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    assert add(mpirun, gpu="cuda").gpu == "cuda"
    system.remove("openmpi-system", tmp_path / "project")
    with_ompi_info(mpirun, "mca:accelerator:rocm:version:1")
    with pytest.raises(BadInput, match=r"libmpi.so.40 was built for rocm, and --gpu is cuda; leave it out"):
        add(mpirun, gpu="cuda")
    assert left(tmp_path) == []


@pytest.mark.parametrize(("title", "gpu"), [("MPI-CUDA", "cuda"), ("MPI-ROCM", "rocm"), ("MPI", "")])
def test_osu_says_what_it_was_built_for(title: str, gpu: str, add: Add, tmp_path: Path) -> None:
    synthetic.make_program(tmp_path / "bench/osu_latency", "libmpi.so.40", synthetic.OSU.replace("MPI", title))
    stack = add(synthetic.make_open_mpi(tmp_path / "opt"), binaries=[tmp_path / "bench"])
    assert stack.suites["osu"].get("gpu", "") == gpu
    line = f"openmpi-system: memory of GPUs: its MPI sends none of them; built are osu for {gpu}."
    assert bool(gpu) == (line in add.said)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("library", "gpu"), [("libmpi_gtl_cuda.so.0", "cuda"), ("libmpi_gtl_hsa.so.0", "rocm"), ("libz.so.0", "")]
)
def test_cray_mpich_sends_memory_for_programs_with_its_library(library: str, gpu: str, tmp_path: Path) -> None:
    made = synthetic.make_library(tmp_path / library, "", library)
    program = synthetic.compile_c("int main(void) { return 0; }", tmp_path / "osu_bw", "-Wl,--no-as-needed", str(made))
    identity = probe.identify("MPI VERSION    : CRAY MPICH version 8.1.28\n", "/opt/libmpi.so")
    mpi = probe.Installation(tmp_path / "mpirun", "pals", tmp_path, made, identity, "", found_by_loader=True)
    assert probe.find_gpu(mpi, {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(tmp_path)}, [str(program)]) == gpu
    assert probe.find_gpu(mpi, {"PATH": os.environ["PATH"]}) == ""


def test_a_link_through_the_alternatives_is_followed(tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    (tmp_path / "alternatives").mkdir()
    (tmp_path / "alternatives/mpirun").symlink_to(mpirun)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mpirun").symlink_to(tmp_path / "alternatives/mpirun")
    assert probe.examine(str(tmp_path / "bin/mpirun")).mpirun == mpirun


def test_the_callers_modules_do_not_count(add: Add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    needed = synthetic.compile_c("int hidden(void) { return 0; }", tmp_path / "module/libhidden.so", "-shared", "-fPIC")
    extra = "char ompi_mpi_comm_world[8]; int hidden(void); int use(void) { return hidden(); }"
    library = tmp_path / "opt/lib/libmpi.so.40"
    source = synthetic.LIBRARY % f'#define ANSWER "{synthetic.OPEN_MPI}"\n{extra}'
    synthetic.compile_c(source, library, "-shared", "-fPIC", "-Wl,-soname,libmpi.so.40", "-Wl,--no-as-needed", str(needed))
    # As linked, it names the file; what a module provides is found by name only.
    monkeypatch.setenv("LD_LIBRARY_PATH", str(needed.parent))
    moved = needed.parent.with_name("moved")
    needed.parent.rename(moved)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(moved))
    with pytest.raises(BadInput, match=r"libhidden\.so.*--prepend-path"):
        add(mpirun)
    assert left(tmp_path) == []


# ---- what is refused ----


def refused(add: Add, *words: object, **options: object) -> str:
    with pytest.raises(BadInput) as refusal:
        add(*words, **options)
    sentence = str(refusal.value)
    assert sentence.endswith(".") and "\n" not in sentence
    return sentence


def test_a_launcher_that_is_none_is_refused(add: Add, tmp_path: Path) -> None:
    assert "does not exist" in refused(add, tmp_path / "nosuch")
    assert "launcher nosuch-mpirun is not on PATH" in refused(add, "nosuch-mpirun")
    (tmp_path / "text").write_text("no program")
    assert "is not a program" in refused(add, tmp_path / "text")
    strange = synthetic.make_launcher(tmp_path / "strange", "jsrun 10.4")
    assert "says 'jsrun 10.4' and is the mpirun of no MPI known here" in refused(add, strange)
    assert left(tmp_path) == []


def test_a_library_that_is_none_is_refused(add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_launcher(tmp_path / "opt", synthetic.OPEN_RTE)
    assert "there is no libmpi below" in refused(add, mpirun)
    (tmp_path / "opt/lib").mkdir()
    (tmp_path / "opt/lib/libmpi.so.40").write_text("no library")
    assert "libmpi.so.40 does not answer (" in refused(add, mpirun)
    synthetic.make_library(tmp_path / "opt/lib/libmpi.so.40", "CRAY MPICH version 8", "libmpi.so.40")
    assert "an MPI not known here" in refused(add, mpirun)
    synthetic.make_library(tmp_path / "opt/lib/libmpi.so.40", synthetic.MPICH, "libmpi.so.40")
    assert "is mpich 4.0.2, whose launcher is hydra" in refused(add, mpirun)
    assert left(tmp_path) == []


def test_two_libraries_of_one_launcher_must_be_distinguished(add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    other = synthetic.make_library(
        tmp_path / "opt/lib64/libmpi.so.40", synthetic.OPEN_MPI, "libmpi.so.40", "char ompi_mpi_comm_world[8];"
    )
    assert "may belong to any of" in refused(add, mpirun)
    assert add(mpirun, library=other).library == str(other)


def test_a_launcher_of_another_installation_is_refused(add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt", size="1")
    assert "two worlds of one rank" in refused(add, mpirun)
    mpirun.write_text(mpirun.read_text().replace("for rank", "echo no slots; exit 3\nfor rank"))
    assert "starts no two ranks of" in (said := refused(add, mpirun)) and "(exit status 3): no slots" in said
    assert left(tmp_path) == []


def test_binaries_of_another_abi_or_none_at_all_are_refused(add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    synthetic.make_program(tmp_path / "bench/bin/IMB-MPI1", "libmpi.so.12")
    said = refused(add, mpirun, binaries=[tmp_path / "bench/bin"])
    assert "needs libmpi.so.12, the mpich ABI, and" in said and "has the openmpi ABI" in said
    globs = "network_*test or hpcc or IMB-* or *_perf or *.[A-FSW].* or osu_*"
    assert f"holds no {globs} program" in refused(add, mpirun, binaries=[tmp_path / "opt"])
    assert "is not a folder" in refused(add, mpirun, binaries=[tmp_path / "nosuch"])
    synthetic.make_program(tmp_path / "late/bin/IMB-MPI1", "libmpi.so.40", call="MPI_Session_init")
    assert "none of the 1 binaries runs on" in refused(add, mpirun, binaries=[tmp_path / "late/bin"])
    synthetic.make_program(tmp_path / "fake/bin/IMB-MPI1", "libmpi.so.40", "no banner")
    assert "does not start as a program of imb" in refused(add, mpirun, binaries=[tmp_path / "fake/bin"])
    assert left(tmp_path) == []


def test_names_are_given_once_and_must_fit_the_schema(add: Add, tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    first = add(mpirun)
    before = Path(first.source).read_bytes()
    assert "already describes a stack 'openmpi-system'; 'mpibench stacks remove openmpi-system' first" in refused(add, mpirun)
    elsewhere = tmp_path / "elsewhere"
    assert "already describes a stack 'openmpi-system'" in refused(add, mpirun, into=elsewhere)
    assert "is no name of a stack" in refused(add, mpirun, name="my stack")
    assert "env_vars.A'" in refused(add, mpirun, name="other", env={"A": "$(reboot)"})
    (elsewhere / "mine").mkdir(parents=True)
    assert "not an empty folder" in refused(add, mpirun, name="other", into=elsewhere)
    assert (elsewhere / "mine").is_dir()
    assert Path(first.source).read_bytes() == before
    assert [path.name for path in Path(first.source).parents[1].iterdir()] == ["openmpi-system"]


def test_what_a_killed_command_left_is_taken_over(add: Add, tmp_path: Path) -> None:
    mpirun, into = synthetic.make_open_mpi(tmp_path / "opt"), tmp_path / "shared"
    into.mkdir()
    (into / "made").touch()
    (into / system.UNFINISHED).touch()
    (tmp_path / "link").symlink_to(into)
    assert Path(add(mpirun, name="other", into=tmp_path / "link").source) == into / "stack.json"
    assert not (into / "made").exists() and not (into / system.UNFINISHED).exists()


def test_a_folder_that_another_checkout_works_in_is_not_touched(add: Add, tmp_path: Path) -> None:
    mpirun, into = synthetic.make_open_mpi(tmp_path / "opt"), tmp_path / "shared"
    into.mkdir()
    (into / "made").touch()
    with (into / system.UNFINISHED).open("x") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        assert f"another 'mpibench stacks add' is at work in {into}: wait for it" in refused(add, mpirun, into=into)
    assert (into / "made").exists() and (into / system.UNFINISHED).exists()


def test_a_link_to_a_stack_is_not_removed(add: Add, tmp_path: Path) -> None:
    stack = add(synthetic.make_open_mpi(tmp_path / "opt"), into=tmp_path / "mine")
    folder = tmp_path / "project" / "environments" / "system"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(BadInput, match="is a link"):
        system.remove("link", tmp_path / "project")
    assert Path(stack.source).is_file()


def test_an_interruption_leaves_nothing(add: Add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpirun = synthetic.make_mpich(tmp_path / "opt")
    synthetic.make_program(tmp_path / "imb/bin/IMB-MPI1", "libmpi.so.12")

    def interrupted(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(probe, "find_launch_fault", interrupted)
    with pytest.raises(KeyboardInterrupt):
        add(mpirun, binaries=[tmp_path / "imb/bin"])
    assert left(tmp_path) == []


def test_only_what_add_registered_is_removed(add: Add, tmp_path: Path) -> None:
    stack = add(synthetic.make_open_mpi(tmp_path / "opt"))
    for name in ("", "nosuch", "../wheels", "."):
        with pytest.raises(BadInput, match="was registered in"):
            system.remove(name, tmp_path / "project")
    system.remove(stack.name, tmp_path / "project")
    assert left(tmp_path) == []
    assert (tmp_path / "opt/lib/libmpi.so.40").exists()


def test_the_command_registers_lists_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    words = ["add", "--mpirun", str(mpirun), "--name", "synthetic-openmpi", "--into", str(tmp_path / "mine")]
    assert main([*words, "--env", "SITE=a=b", "--prepend-path", f"MANPATH={tmp_path}"], run=stacks_command.app) == 0
    document = json.loads((tmp_path / "mine/stack.json").read_text())
    assert document["env_vars"]["SITE"] == "a=b"
    assert document["prepend_path"]["MANPATH"] == [str(tmp_path)]
    monkeypatch.setenv(metadata.EXTRA_STACKS, str(tmp_path / "mine"))
    main([], run=stacks_command.app)
    assert "synthetic-openmpi" in capsys.readouterr().out
    assert main([*words, "--env", "SITE"], run=stacks_command.app) == 2
    assert "--env SITE is not NAME=VALUE" in capsys.readouterr().err


def test_needs_are_the_loaders(tmp_path: Path) -> None:
    program = synthetic.make_program(tmp_path / "bench/IMB-MPI1", "libmpi.so.20", call="MPI_Session_init")
    synthetic.make_library(tmp_path / "opt/lib/libmpi.so.20", synthetic.OPEN_MPI, "libmpi.so.20")
    libraries, _ = probe.list_needs(program, probe.clean_environment())
    assert libraries["libmpi.so.20"] == ""
    inside = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path / "opt/lib")}
    libraries, missing = probe.list_needs(program, inside)
    assert libraries["libmpi.so.20"] == str(tmp_path / "opt/lib/libmpi.so.20")
    assert missing == ["MPI_Session_init"]


# ---- programs that know no option, or lie beside the launcher ----

HPCC = "This is the DARPA/DOE HPC Challenge Benchmark version 1.5.0 October 2012"
NPB = " NAS Parallel Benchmarks 3.4 -- BT Benchmark"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stack of this machine's."""
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)


def add_to(tmp_path: Path, mpirun: Path, said: list[str] | None = None, **words: object) -> Stack:
    listened = [] if said is None else said
    return system.add(str(mpirun), root=tmp_path / "project", say=listened.append, **words)  # type: ignore[arg-type]


def test_hpcc_beside_the_launcher_is_found(tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    program = synthetic.make_program(tmp_path / "opt/bin/hpcc", "libmpi.so.40", HPCC)
    stack = add_to(tmp_path, mpirun)
    assert (stack.binaries, stack.suites["hpcc"]["version"]) == ({"hpcc": str(program)}, "1.5.0")
    assert probe.find_contradiction(stack) == ""


def test_one_for_another_mpi_is_no_business_of_this(tmp_path: Path) -> None:
    """Debian has one /usr/bin for two MPIs."""
    mpirun = synthetic.make_mpich(tmp_path / "opt")
    synthetic.make_program(tmp_path / "opt/bin/hpcc", "libmpi.so.40", HPCC)
    assert add_to(tmp_path, mpirun).binaries == {}


def test_one_that_does_not_run_is_left_out_and_said(tmp_path: Path) -> None:
    """Nobody has named it, so that the MPI is registered without it."""
    mpirun, said = synthetic.make_open_mpi(tmp_path / "opt"), []
    synthetic.make_program(tmp_path / "opt/bin/hpcc", "libmpi.so.40", HPCC, call="MPI_Session_init")
    assert add_to(tmp_path, mpirun, said).binaries == {}
    assert any("hpcc is left out: it needs MPI_Session_init" in line for line in said)


def test_nas_programs_say_their_version_in_their_files_and_are_not_started(tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    # Started, they would ask for more ranks and so be left out.
    for name in ("bt.D.x", "cg.S.4"):
        synthetic.make_program(tmp_path / "bench" / name, "libmpi.so.40", NPB, ranks=99)
    synthetic.make_program(tmp_path / "bench/bt.D.x.txt", "libmpi.so.40", NPB)
    stack = add_to(tmp_path, mpirun, binaries=[tmp_path / "bench"])
    assert sorted(stack.binaries) == ["bt.D.x", "cg.S.4"]
    assert stack.suites["npb"]["version"] == "3.4"
    assert probe.find_contradiction(stack) == ""
