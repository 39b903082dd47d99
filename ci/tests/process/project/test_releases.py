"""What a release consists of: version, changelog, citation, forms,
source distribution, wheel and container.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest


def run(*words, cwd, **environ):
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def git(*words, cwd):
    settings = ("user.name=x", "user.email=x@example.org", "tag.gpgsign=false")
    identity = [word for one in (*settings, "commit.gpgsign=false") for word in ("-c", one)]
    return run("git", *identity, *words, cwd=cwd)


@pytest.fixture(scope="module")
def copy(root, tmp_path_factory):
    """What git has of the project, with what was changed and not yet
    committed, in a repository without a tag.
    """
    if not (root / ".git").exists() or shutil.which("git") is None:
        pytest.skip("[git] no git here, or no repository of it")
    folder = tmp_path_factory.mktemp("release") / "project"
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=root).split(
        "\0"
    )
    for name in filter(lambda name: name and (root / name).is_file(), names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    git("init", "--quiet", cwd=folder)
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message", "all", cwd=folder)
    return folder


def version_of(folder):
    return run(sys.executable, "-m", "setuptools_scm", cwd=folder).strip()


def test_the_version_is_that_of_the_tag(copy, tmp_path):
    here = tmp_path / "clone"
    git("clone", "--quiet", copy, here, cwd=tmp_path)
    assert re.fullmatch(r"0\.1(\.0)?\.dev\d+\+g[0-9a-f]+", version_of(here))
    git("tag", "-a", "-m", "x", "v1.2.3", cwd=here)
    git("tag", "nightly-2026", cwd=here)
    assert version_of(here) == "1.2.3"
    git("commit", "--quiet", "--allow-empty", "--message", "more", cwd=here)
    assert re.fullmatch(r"1\.2\.4\.dev1\+g[0-9a-f]+", version_of(here))
    shutil.rmtree(here / ".git")
    assert version_of(here).startswith("0.1.0"), "a copy without git"


BUILD = (
    "import sys; from setuptools import build_meta; print(getattr(build_meta, "
    "sys.argv[1])(sys.argv[2]))"
)


@pytest.fixture(scope="module")
def built(copy, tmp_path_factory):
    """The source distribution, and the wheel that is made from it where there is no git."""
    top = tmp_path_factory.mktemp("built")
    source = top / run(sys.executable, "-c", BUILD, "build_sdist", top, cwd=copy).split()[-1]
    shutil.unpack_archive(source, top / "unpacked")
    [folder] = (top / "unpacked").iterdir()
    return source, top / run(sys.executable, "-c", BUILD, "build_wheel", top, cwd=folder).split()[
        -1
    ]


def test_distributions_have_what_git_has_and_nothing_that_a_run_left(built, copy):
    """The source all of it, the wheel what a run needs."""
    tracked = set(git("ls-files", cwd=copy).splitlines())
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
        environ = {"HOME": str(tmp_path), "PATH": f"{venv}/bin:/usr/bin:/bin"}
        return subprocess.run(
            words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=500
        )

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
