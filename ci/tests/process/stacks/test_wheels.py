"""Installing the wheels stacks: what is pinned, what is left alone,
what is built again, and what is said on failure.
"""

import dataclasses
import json
import os
import re
import shutil
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from folders import write
from mpibench.only_one import only_one
from mpibench.stacks import probe, wheels
from mpibench.stacks.wheels import InstallError, Platform
from reframe_tests.harness.stacks import metadata
from synthetic_project import make_mpi_wheel, pin, write_table

PROJECT = metadata.ROOT / "environments" / "wheels"
HERE = Platform("x86_64", "2.36", "cp311")


class Site:
    """A table in a scratch folder, an installer that counts what
    it fetches, and the lines it says.
    """

    def __init__(self, folder):
        # pip splits links at spaces
        self.wheels = folder / "environments" / "wheels"
        self.index = folder.parent / "index"
        self.said = []
        self.fetched = []
        self.obstruct = lambda words: None
        write_table(self.wheels, self.index, PROJECT / "stacks.schema.json")

    def install(self, here=HERE, only=()):
        self.said.clear()
        self.fetched.clear()
        return wheels.install(self.wheels, self.said.append, here, only)

    def good(self, **how):
        """Install without a failure; what was fetched."""
        assert self.install(**how) == []
        return self.fetched

    def renew(self, name, version, **content):
        """Pin another version of a stack's wheel."""
        wheel = make_mpi_wheel(self.index, f"{name}mpi", version, **content)
        (self.wheels / f"{name}.txt").write_text(pin(wheel))

    def change_table(self, change):
        path = self.wheels / "stacks.yaml"
        table = json.loads(path.read_text())
        change(table["stacks"]["guest"])
        path.write_text(json.dumps(table))

    def run_pip(self, words, log, what, echo):
        """Stands in for pip: takes the pinned wheels out of the index,
        and unpacks the wheels it is given.
        """
        self.obstruct(words)
        if words[0] == "download":
            self.fetched.append(what)
            destination = Path(words[words.index("--dest") + 1])
            for path in (Path(word) for word in words if word.endswith(".txt")):
                name, version = path.read_text().split(" ")[0].split("==")
                shutil.copy(self.index / f"{name}-{version}-py3-none-any.whl", destination)
            return
        option = max(words.index(one) for one in ("--prefix", "--target") if one in words)
        for archive in (word for word in words if word.endswith(".whl")):
            with zipfile.ZipFile(archive) as members:
                for member in members.infolist():
                    name = re.sub(r"^[^/]*\.data/data/", "", member.filename)
                    text = members.read(member).decode()
                    executable = bool(member.external_attr >> 16 & 0o111)
                    write(Path(words[option + 1]) / name, text, executable=executable)

    def stacks(self):
        found, problems = metadata.discover(self.wheels.parents[1], {})
        assert problems == []
        return {stack.name: stack for stack in found}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A scratch site whose installer uses no real pip."""
    made = Site(tmp_path / "a site")
    monkeypatch.setattr(wheels, "run_pip", made.run_pip)
    return made


def test_the_project_pins_every_file_of_every_stack():
    recipes = wheels.read_table(PROJECT)
    assert [recipe.optional for recipe in recipes] == [False] * 3 + [True] * 2
    for place, recipe in enumerate(recipes):
        pins = set()
        for name in recipe.requirements:
            text = re.sub(r"#.*", "", (PROJECT / name).read_text()).replace("\\\n", " ")
            for line in filter(str.strip, text.splitlines()):
                match = re.fullmatch(
                    r"([\w-]+)==[\w.]+( ;[^\\]*?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", line
                )
                assert match, f"{name}: {line}"
                pins.add(match[1])
        assert pins >= {recipe.wheel, "mpi4py"}
        assert recipe.donor in [earlier.folder for earlier in recipes[: place + 1]]


def test_installed_stacks_describe_themselves(site):
    """A second run does nothing; a new pin builds that stack again, and those
    that run its binaries.
    """
    site.good()
    donor, guest = site.stacks().values()
    assert (donor.mpi_version, donor.prefix) == ("1.2", str(site.wheels / "donor"))
    assert donor.library_version_pattern == r"^donormpi 1\.2$"
    assert donor.env_vars["ROOT"] == donor.prefix
    assert guest.binaries == {"IMB-MPI1": f"{donor.prefix}/bin/IMB-MPI1"}
    assert guest.suites["imb"]["built_with"] == "mpich 1.2, run through the common mpich ABI"
    assert [row["name"] for row in guest.build["wheels"]] == ["donormpi", "guestmpi", "mpi4py"]
    assert guest.commands["mpi4py.bench"][0] == sys.executable
    assert not list((site.wheels / ".partial").glob("*/"))
    assert site.good() == [] == site.said
    site.renew("guest", "3.5")
    assert site.good() == ["guest-wheels: download"]
    site.renew("donor", "1.3", imb=True)
    assert site.good() == ["donor-wheels: download", "guest-wheels: download"]
    guest = site.stacks()["guest-wheels"]
    assert guest.mpi_version == "3.5" and "mpich 1.3" in guest.suites["imb"]["built_with"]
    # One that became optional is kept as it is pinned; elsewhere it is installed when named.
    site.change_table(lambda row: row.update(optional=True))
    site.renew("guest", "3.6")
    site.good()
    assert site.stacks()["guest-wheels"].mpi_version == "3.6"
    shutil.rmtree(site.wheels / "guest")
    site.good()
    assert list(site.stacks()) == ["donor-wheels"]
    site.good(only=["guest"])
    assert len(site.stacks()) == 2


def test_a_stale_or_damaged_stack_is_built_again(site):
    site.install()
    source = site.wheels / "guest" / "stack.json"
    library = source.parent / "lib" / "libmpi.so.12"
    for damage in (
        lambda: source.write_text(re.sub(r'"stamp": "\w+"', '"stamp": "old"', source.read_text())),
        lambda: source.write_text(source.read_text()[:100]),
        source.unlink,
        library.unlink,
    ):
        damage()
        assert site.good() == ["guest-wheels: download"]
    other = dataclasses.replace(HERE, python="cp312")
    assert len(site.good(here=other)) == 2
    assert site.stacks()["guest-wheels"].build["python"] == "cp312"


@pytest.mark.parametrize(
    ("step", "replacing"),
    [
        ("download", True),
        ("--prefix", False),
        ("--target", True),
        ("probe", False),
        ("probe", True),
    ],
)
def test_an_interrupted_installation_leaves_no_half_stack_and_goes_on(
    site, step, replacing, monkeypatch
):
    if replacing:
        site.install()
        site.renew("donor", "1.3", imb=True)

    def interrupt(words):
        if step in words:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(site, "obstruct", interrupt)
        if step == "probe":
            patch.setattr(probe, "find_contradiction", lambda *_: interrupt(["probe"]))
        with pytest.raises(KeyboardInterrupt):
            site.install()
    kept = site.stacks().get("donor-wheels")
    assert not kept or (replacing and step != "probe" and kept.mpi_version == "1.2")
    site.good()
    assert site.stacks().keys() == {"donor-wheels", "guest-wheels"}
    assert site.stacks()["donor-wheels"].mpi_version == ("1.3" if replacing else "1.2")
    assert not list((site.wheels / ".partial").glob("*/"))


def test_one_failing_stack_does_not_hinder_the_others(site, monkeypatch):
    def refuse(words):
        if words[0] == "download" and str(site.wheels / "donor.txt") in words:
            raise InstallError("build-failed", "no reason.")

    with monkeypatch.context() as patch:
        patch.setattr(site, "obstruct", refuse)
        assert site.install() == ["no reason."]
    guest = site.stacks()["guest-wheels"]
    assert guest.binaries == {} and "imb" not in guest.suites
    assert any("guest-wheels: IMB is missing" in line for line in site.said)
    site.good()
    assert site.stacks()["guest-wheels"].binaries.keys() == {"IMB-MPI1"}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("lib/version", "donormpi 1.20", "says it is 'donormpi 1.20'"),
        ("bin/IMB-MPI1", "#!/bin/sh\necho IMB 2019\nexit 3\n", "(exit status 3): IMB 2019"),
        ("bin/mpirun", "#!/bin/sh\nexit 7\n", "(exit status 7): it printed nothing"),
        ("bin/mpirun", "#!/bin/sh\necho No slots.; echo ---\nexit 7\n", "7): No slots."),
        ("python/mpi4py/__init__.py", "raise ImportError('no libmpi')", "ImportError: no libmpi"),
    ],
)
def test_a_stack_that_does_not_work_gets_no_metadata(site, file, text, said, monkeypatch):
    real_unpack = wheels.unpack

    def unpack_and_damage(*arguments):
        real_unpack(*arguments)
        if "donor" in str(arguments[1]):
            (arguments[1] / file).write_text(text)

    monkeypatch.setattr(wheels, "unpack", unpack_and_damage)
    (failure,) = site.install()
    assert failure.startswith("donor-wheels is installed but does not work: ")
    assert said.rstrip(".") in failure and "/.partial/donor.log" in failure
    assert site.stacks().keys() == {"guest-wheels"}


def test_a_probe_sees_the_wrong_library_and_a_hanging_program(site, tmp_path):
    """And its program the stack's variables, not those of a surrounding job."""
    site.install()
    stack = site.stacks()["donor-wheels"]
    other = tmp_path / "libmpi.so.12"
    other.write_text("another")
    (tmp_path / "version").write_text("donormpi 1.2")
    deceived = dataclasses.replace(stack, env_vars={**stack.env_vars, "MPI4PY_LIBMPI": str(other)})
    assert f"loads {other} and not {stack.library}" in probe.find_contradiction(deceived)
    hangs = ["/bin/sh", "-c", "echo begun; sleep 60 & sleep 60"]
    assert probe.run_inside(stack, hangs, limit_s=5) == (124, "begun\n")
    outside = {**os.environ, "SLURM_JOB_ID": "1", "PMI_RANK": "0", "LD_LIBRARY_PATH": "/old"}
    status, output = probe.run_inside(stack, ["/usr/bin/env"], outside)
    assert status == 0 and f"LD_LIBRARY_PATH={stack.prefix}/lib:/old" in output.splitlines()
    assert "SLURM_JOB_ID" not in output and "PMI_RANK" not in output


def test_two_installers_take_turns(site):
    with only_one(site.wheels, "installation of stacks", ".lock"):
        second = threading.Thread(target=site.install)
        second.start()
        second.join(0.5)
        assert second.is_alive()
        [waiting] = site.said
        assert f"(process {os.getpid()} on " in waiting
    second.join(60)
    assert not second.is_alive() and site.stacks()


@pytest.fixture
def real_pip(tmp_path, monkeypatch):
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


def test_pip_installs_from_a_folder_without_network(real_pip, tmp_path):
    real_pip.good(only=["donor"])
    stack = real_pip.stacks()["donor-wheels"]
    assert Path(stack.prefix, "python", "mpi4py", "__init__.py").exists()
    assert probe.find_contradiction(stack) == ""
    assert not (tmp_path / "diverted").exists()
