"""Fetching Debian's Slurm without installing it, against a stand-in for apt and dpkg."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from mpibench.cluster import packages
from reframe_tests.harness.vocabulary import BadInput

#: apt-get as far as it is used: lists two packages, and "downloads" them; without lists it must be updated first.
APT = r"""#!/bin/sh
case "$*" in
    *update) touch "$APT_STATE/updated" ;;
    *install*--simulate*)
        [ -z "$NEED_UPDATE" ] || [ -e "$APT_STATE/updated" ] || { echo "E: Unable to locate package slurmd" >&2; exit 100; }
        echo "Reading package lists..."
        echo "Inst slurmd (22.05.8-4 Debian:12/stable [amd64])"
        echo "Inst libevent-2.1-7 [2.1.12-7] (2.1.12-8 Debian:12/stable [amd64]) []"
        echo "Conf slurmd (22.05.8-4 Debian:12/stable [amd64])" ;;
    *download*) echo "$*" > "$APT_STATE/download"; cp "$APT_STATE"/*.deb . ;;
esac
"""
DPKG = """#!/bin/sh
cat "$2"
"""


def archive(path: Path, names: dict[str, str | None]) -> None:
    """A tar file; a name with text is a link to it."""
    with tarfile.open(path, "w") as tar:
        for name, target in names.items():
            row = tarfile.TarInfo(name)
            if target is not None:
                row.type, row.linkname = tarfile.SYMTYPE, target
                tar.addfile(row)
            else:
                row.size, row.mode = 2, 0o755
                tar.addfile(row, io.BytesIO(b"x\n"))


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Slurm, with the stand-ins; the folder of their state."""
    tools, kept = tmp_path / "tools", tmp_path / "kept"
    tools.mkdir()
    kept.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-deb", DPKG)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    archive(
        kept / "slurmd.deb",
        {
            "./usr/sbin/slurmd-wlm": None,
            "./etc/init.d/slurmd": None,
            "./usr/share/man/man8/slurmd.8.gz": None,
            "./../../outside": None,
        },
    )
    archive(
        kept / "libs.deb",
        {"./lib/x/libevent.so": None, "./bin/ip": None, "usr/lib/x/pmix2/lib/libpmix.so.2": None, "usr/lib/x/a.so": "b.so"},
    )
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("APT_STATE", str(kept))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "missing_programs", lambda: ["slurmctld", "slurmd"])
    return kept


def test_packages_are_unpacked_below_usr_and_nothing_else(apt: Path, tmp_path: Path) -> None:
    said: list[str] = []
    root = packages.provide(said.append)
    assert root == tmp_path / "cache/mpibench/cluster-packages"
    files = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    assert files == {
        "packages.json",
        "usr/sbin/slurmd-wlm",
        "usr/sbin/slurmd",
        "usr/lib/x/libevent.so",
        "usr/bin/ip",
        "usr/lib/x/a.so",
        "usr/lib/x/pmix2/lib/libpmix.so.2",
        "usr/lib/x/pmix2/lib/libpmix.so",
    }
    assert (root / "usr/sbin/slurmd").readlink() == Path("slurmd-wlm")
    assert json.loads((root / "packages.json").read_text()) == ["slurmd=22.05.8-4", "libevent-2.1-7=2.1.12-8"]
    assert "nothing is installed" in said[0]
    assert "slurmd=22.05.8-4 libevent-2.1-7=2.1.12-8" in (apt / "download").read_text()
    assert not list((tmp_path / "cache/mpibench").glob("fetch-*"))


def test_a_second_time_nothing_is_fetched(apt: Path) -> None:
    packages.provide(print)
    (apt / "download").unlink()
    packages.provide(print)
    assert not (apt / "download").exists()


def test_without_package_lists_they_are_fetched_into_a_folder_of_our_own(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEED_UPDATE", "1")
    packages.provide(print)
    assert (apt / "updated").exists()
    assert "Dir::State::lists=" in (apt / "download").read_text()


def test_a_failed_download_leaves_nothing_half_done(apt: Path, tmp_path: Path) -> None:
    (apt / "libs.deb").write_text("this is no archive")
    with pytest.raises((BadInput, tarfile.TarError)):
        packages.provide(print)
    assert [path.name for path in (tmp_path / "cache/mpibench").iterdir()] == ["cluster-packages.lock"]


def test_what_a_killed_command_left_goes(apt: Path, tmp_path: Path) -> None:
    stale = tmp_path / "cache/mpibench/fetch-abc/root/usr"
    stale.mkdir(parents=True)
    packages.provide(print)
    assert not stale.exists()


def test_what_is_installed_is_used(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "missing_programs", list)
    assert packages.provide(print) is None


def test_without_apt_the_missing_programs_are_named(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BadInput, match=r"lacks slurmctld, slurmd and has no apt-get"):
        packages.provide(print)
