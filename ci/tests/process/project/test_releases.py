"""What a release consists of: version, changelog, citation, forms,
source distribution, wheel and container.
"""

import re
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from programs import finished, git


def run(*words, cwd):
    done = finished(*words, cwd=cwd)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def copy(root, tmp_path_factory):
    """What git has of the project, with what was changed and not yet
    committed, in a repository without a tag.
    """
    if not (root / ".git").exists() or shutil.which("git") is None:
        pytest.skip("[git] no git here, or no repository of it")
    folder = tmp_path_factory.mktemp("release") / "project"
    names = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(lambda name: name and (root / name).is_file(), names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    for words in ("init --quiet", "add --all", "commit --quiet --message all"):
        git(folder, *words.split())
    return folder


def version_of(folder):
    return run(sys.executable, "-m", "setuptools_scm", cwd=folder).strip()


def test_the_version_is_that_of_the_tag(copy, tmp_path):
    here = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", copy, here)
    assert re.fullmatch(r"0\.1(\.0)?\.dev\d+\+g[0-9a-f]+", version_of(here))
    git(here, "tag", "-a", "-m", "x", "v1.2.3")
    git(here, "tag", "nightly-2026")
    assert version_of(here) == "1.2.3"
    git(here, "commit", "--quiet", "--allow-empty", "--message", "more")
    assert re.fullmatch(r"1\.2\.4\.dev1\+g[0-9a-f]+", version_of(here))
    shutil.rmtree(here / ".git")
    assert version_of(here).startswith("0.1.0"), "a copy without git"


@pytest.fixture(scope="module")
def built(copy, tmp_path_factory):
    """The source distribution, and the wheel that is made from it where there is no git."""
    top = tmp_path_factory.mktemp("built")

    def build(what, folder):
        code = f"from setuptools import build_meta; print(build_meta.build_{what}({str(top)!r}))"
        return top / run(sys.executable, "-c", code, cwd=folder).split()[-1]

    source = build("sdist", copy)
    shutil.unpack_archive(source, top / "unpacked")
    [folder] = (top / "unpacked").iterdir()
    return source, build("wheel", folder)


def test_distributions_have_what_git_has_and_nothing_that_a_run_left(built, copy):
    """The source all of it, the wheel what a run needs."""
    tracked = set(git(copy, "ls-files").splitlines())
    with tarfile.open(built[0]) as archive:
        files = {row.name.partition("/")[2] for row in archive.getmembers() if row.isfile()}
    further = {name for name in files - tracked if ".egg-info/" not in name}
    assert tracked <= files and further <= {"PKG-INFO", "setup.cfg"}
    with zipfile.ZipFile(built[1]) as archive:
        names = {name.partition(".data/data/share/mpibench/")[2] for name in archive.namelist()}
    assert names - {""} <= tracked
    tops = ("ci/mpibench", "ci/pipelines/", "environments/", "repo/", "reframe_tests/")
    assert not {name for name in tracked - names if name.startswith((*tops, "site_configs/"))}


def test_the_wheel_works_in_an_empty_environment(built, tmp_path):
    """Its own dependencies are those of this environment; the
    project's modules there are not seen.
    """
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    inside = {"base": str(venv), "platbase": str(venv)}
    packages = Path(sysconfig.get_path("purelib", "venv", inside))
    # Path configuration files of a folder that is named in one are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    run(venv / "bin" / "pip", "install", "--no-deps", "--no-index", built[1], cwd=tmp_path)
    reframe = venv / "bin" / "reframe"
    text = Path(sys.executable).with_name("reframe").read_text()
    reframe.write_text(text.replace(sys.executable, str(venv / "bin" / "python")))
    reframe.chmod(0o755)
    share = venv / "share" / "mpibench"

    def ask(*words):
        # As a person has it who never set anything up.
        environ = {"HOME": tmp_path, "PATH": f"{venv}/bin:/usr/bin:/bin"}
        return finished(*words, cwd=tmp_path, env=environ)

    said = ask("mpibench", "--version").stdout
    assert said.startswith("mpibench 0.1.") and said.rstrip().endswith(f"of {share}")
    doctor = ask("mpibench", "doctor")
    assert "Traceback" not in doctor.stderr
    assert re.search(r"(?m)^ok +system +generic: ", doctor.stdout), doctor
    assert re.search(rf"(?m)^ok +configuration +{share}/site_configs/settings.py", doctor.stdout)
    stacks = Path(__file__).parents[4] / "environments" / "wheels"
    if not (stacks / "mpich" / "stack.json").is_file():
        pytest.skip("[stacks] no wheels stack to list tests for (ci/setup)")
    shutil.copytree(stacks / "mpich", share / "environments" / "wheels" / "mpich", symlinks=True)
    listed = ask("reframe", "-c", str(share / "reframe_tests"), "--system=generic", "-l")
    assert listed.returncode == 0 and re.search(r"Found \d\d+ check\(s\)", listed.stdout), listed
