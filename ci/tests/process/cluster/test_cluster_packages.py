"""Fetching Debian's Slurm without installing it: against a stand-in for apt and dpkg, and with apt
itself on an archive of our own.
"""

import hashlib
import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from folders import write
from mpibench_cluster import packages
from programs import as_another_user, finished
from reframe_tests.harness.vocabulary import BadInput

#: apt-get as far as it is used: lists packages that the machine lacks, and "downloads" them;
#: without lists it must be updated first.
APT = r"""#!/bin/sh
case "$*" in
    *update) touch "$APT_STATE/updated" ;;
    *install*--simulate*)
        [ -z "$NEED_UPDATE" ] || [ -e "$APT_STATE/updated" ] || { echo "E: Unable to locate package slurmd" >&2; exit 100; }
        echo "Reading package lists..."
        echo "Inst libc6 (2.36-9 Debian:12/stable [amd64])"
        case "$*" in *slurmd*) ;; *) exit ;; esac
        echo "Inst slurmd (22.05.8-4 Debian:12/stable [amd64])"
        echo "Inst libevent-2.1-7 [2.1.12-7] (2.1.12-8 Debian:12/stable [amd64]) []"
        echo "Conf slurmd (22.05.8-4 Debian:12/stable [amd64])" ;;
    *download*) echo "$*" > "$APT_STATE/download"; cp "$APT_STATE"/*.deb . ;;
esac
"""
DPKG = """#!/bin/sh
cat "$2"
"""


def archive(path, names):
    """A tar file; a name with text is a link to it."""
    with tarfile.open(path, "w") as tar:
        for name, target in names.items():
            row = tarfile.TarInfo(name)
            if target is not None:
                row.type = tarfile.SYMTYPE
                row.linkname = target
                tar.addfile(row)
            else:
                row.size = 2
                row.mode = 0o755
                tar.addfile(row, io.BytesIO(b"x\n"))


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """A machine without Slurm, with the stand-ins; the folder of their state."""
    tools = tmp_path / "tools"
    kept = tmp_path / "kept"
    kept.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-deb", DPKG)):
        write(tools / name, text, executable=True)
    slurmd = "./usr/sbin/slurmd-wlm ./etc/init.d/slurmd ./usr/share/man/man8/slurmd.8.gz"
    archive(kept / "slurmd.deb", dict.fromkeys((*slurmd.split(), "./../../outside")))
    libraries = "./lib/x/libevent.so ./bin/ip usr/lib/x/pmix2/lib/libpmix.so.2"
    archive(kept / "libs.deb", {**dict.fromkeys(libraries.split()), "usr/lib/x/a.so": "b.so"})
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("APT_STATE", str(kept))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "missing_programs", lambda: ["slurmctld", "slurmd"])
    return kept


def test_packages_are_unpacked_below_usr_and_nothing_else(apt, tmp_path):
    """What a killed command left goes, and a second time nothing is fetched."""
    stale = tmp_path / "cache/mpibench/fetch-abc/root/usr"
    stale.mkdir(parents=True)
    root = packages.provide(print)
    assert root.parent == tmp_path / "cache/mpibench" and not stale.exists()
    files = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    programs = "usr/sbin/slurmd-wlm usr/sbin/slurmd usr/bin/ip packages.json"
    libraries = "libevent.so a.so pmix2/lib/libpmix.so.2 pmix2/lib/libpmix.so"
    assert files == {*programs.split(), *(f"usr/lib/x/{name}" for name in libraries.split())}
    assert (root / "usr/sbin/slurmd").readlink() == Path("slurmd-wlm")
    fetched = ["slurmd=22.05.8-4", "libevent-2.1-7=2.1.12-8"]
    assert json.loads((root / "packages.json").read_text()) == fetched
    assert " ".join(fetched) in (apt / "download").read_text()
    assert not list((tmp_path / "cache/mpibench").glob("fetch-*"))
    (apt / "download").unlink()
    packages.provide(print)
    assert not (apt / "download").exists()


# ---- with apt itself
# ------------------------------------------------------------------------------------------------

#: An archive: package to what it depends on. libpmix2 stands for any
#: library that other packages bring as well.
PLAIN = (
    "dpkg libevent slurmctld slurmdbd slurm-client munge mariadb-server-core iproute2 libfaketime"
)
ARCHIVE = {
    "libc6": "",
    "apt": "dpkg",
    "libpmix2": "libc6, libevent",
    "openmpi-bin": "libpmix2",
    "slurmd": "libc6, libevent",
    "slurm-wlm-mysql-plugin": "slurmdbd",
    **dict.fromkeys((*PLAIN.split(), *packages.measuring()), "libc6"),
}


def fields_of(name):
    """What a package says of itself."""
    needed = f"Depends: {ARCHIVE[name]}\n" if ARCHIVE[name] else ""
    return (
        f"Package: {name}\nVersion: 1.0\nArchitecture: all\n"
        f"Maintainer: x <x@example.org>\nDescription: x\n{needed}"
    )


@pytest.fixture(scope="module")
def archive_of_packages(tmp_path_factory):
    """A folder of real packages with an index, as ``deb [trusted=yes] copy:FOLDER ./`` wants it."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("[debian] this machine has no apt")
    folder = tmp_path_factory.mktemp("archive")
    index = []
    for name in ARCHIVE:
        made = folder / name
        below = "usr/lib/x/pmix2/lib/libpmix.so.2" if name == "libpmix2" else f"usr/share/{name}"
        for file, text in ((below, name), ("DEBIAN/control", fields_of(name))):
            write(made / file, text)
        finished("dpkg-deb", "--build", made, folder)
        [package] = folder.glob(f"{name}_*.deb")
        content = package.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        place = f"Filename: {package.name}\nSize: {len(content)}\nSHA256: {digest}\n"
        index.append(f"{fields_of(name)}{place}")
    (folder / "Packages").write_text("\n".join(index))
    return folder


def machine_with(installed, archive, place, monkeypatch):
    """Let apt take this for a machine where exactly these packages are
    installed (``apt.conf(5)``); its dpkg status.
    """
    (place / "lists/partial").mkdir(parents=True)
    (place / "parts").mkdir()
    rows = [f"{fields_of(name)}Status: install ok installed\n" for name in installed]
    status = write(place / "status", "\n".join(rows))
    write(place / "sources.list", f"deb [trusted=yes] copy:{archive} ./\n")
    settings = write(
        place / "apt.conf",
        f'Dir::State::status "{place}/status"; Dir::State::lists "{place}/lists"; '
        f'Dir::Etc::sourcelist "{place}/sources.list";Dir::Etc::sourceparts "{place}/parts"; '
        f'Dir::Etc::preferencesparts "{place}/parts"; APT::Sandbox::User "";',
    )
    monkeypatch.setenv("APT_CONFIG", str(settings))
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.setattr(packages, "missing_programs", lambda: ["slurmctld"])
    return status


BASE = ["libc6", "dpkg", "apt"]


@pytest.mark.parametrize(
    "installed",
    [
        BASE,
        [*BASE, "libevent", "libpmix2", "openmpi-bin"],
        [*BASE, "libevent", "slurmd"],
        list(ARCHIVE),
    ],
    ids=["bare machine", "Open MPI before", "half of Slurm", "everything but Slurm's programs"],
)
def test_the_packages_do_not_depend_on_what_is_installed(
    archive_of_packages, tmp_path, monkeypatch, installed
):
    status = machine_with(installed, archive_of_packages, tmp_path / "machine", monkeypatch)
    before = status.read_text()
    root = packages.provide(print)
    names = {row.partition("=")[0] for row in json.loads((root / "packages.json").read_text())}
    assert names == set(ARCHIVE) - {"openmpi-bin", *BASE}
    # Slurm's plugin opens PMIx by this name, which is made for an unpacked library only.
    assert (root / "usr/lib/x/pmix2/lib/libpmix.so").read_text() == "libpmix2"
    assert status.read_text() == before


# ---- programs that somebody else could change are not run
# -----------------------------------------------------------


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o077])
def test_nobody_else_can_write_what_was_unpacked_whatever_the_umask(apt, tmp_path, mask):
    """And no program keeps a set-user-id bit."""
    with tarfile.open(apt / "setuid.deb", "w") as tar:
        row = tarfile.TarInfo("./usr/bin/su")
        row.mode = 0o6777
        tar.addfile(row)
    previous = os.umask(mask)
    try:
        root = packages.provide(print)
    finally:
        os.umask(previous)
    assert (root / "usr/bin/su").stat().st_mode & 0o7777 == 0o755
    for path in [tmp_path / "cache", root.parent, root, *root.rglob("*")]:
        assert path.is_symlink() or not path.stat().st_mode & 0o022, path
    assert packages.provide(print) == root


@pytest.mark.parametrize("place", ["usr/sbin/slurmd-wlm", "usr/sbin", "packages.json"])
def test_a_file_that_others_can_write_is_not_run(apt, place):
    root = packages.provide(print)
    (root / place).chmod(0o775)
    with pytest.raises(BadInput, match=f"{place} belongs to, or can be written by, another user"):
        packages.provide(print)


@pytest.mark.parametrize("place", ["cache", "cache/mpibench", ""])
def test_a_directory_that_others_can_write_is_no_place_for_programs(apt, tmp_path, place):
    (tmp_path / "cache" / "mpibench").mkdir(parents=True)
    for _ in range(2):
        (tmp_path / place).chmod(0o777)
        with pytest.raises(BadInput, match=f"'chmod go-w {tmp_path / place}'"):
            packages.provide(print)
        (tmp_path / place).chmod(0o755)
        packages.provide(print)  # now they are there, and the second time are looked at as well


def test_somebody_elses_programs_are_not_run(apt, monkeypatch):
    """As with root's HOME kept by sudo: the cache is a user's, who would choose what root runs."""
    packages.provide(print)
    as_another_user(monkeypatch)
    with pytest.raises(BadInput, match=r"another user|a directory of your own"):
        packages.provide(print)
