"""What a release consists of: version, changelog, citation, forms, source distribution, wheel and container."""

from __future__ import annotations

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
import yaml

FORMS = ("defect.yml", "wrong_verdict.yml", "addition.yml")


def run(*words: str | Path, cwd: Path, **environ: str) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env={**os.environ, **environ}, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def git(*words: str | Path, cwd: Path) -> str:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "tag.gpgsign=false", "-c", "commit.gpgsign=false")
    return run("git", *identity, *words, cwd=cwd)


@pytest.fixture(scope="module")
def copy(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git has of the project, with what was changed and not yet committed, in a repository without a tag."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        pytest.skip("[git] no git here, or no repository of it")
    folder = tmp_path_factory.mktemp("release") / "project"
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=root).split("\0")
    for name in filter(lambda name: name and (root / name).is_file(), names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    git("init", "--quiet", cwd=folder)
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message", "all", cwd=folder)
    return folder


def version_of(folder: Path) -> str:
    return run(sys.executable, "-m", "setuptools_scm", cwd=folder).strip()


def test_the_version_is_that_of_the_tag(copy: Path, tmp_path: Path) -> None:
    here = tmp_path / "clone"
    git("clone", "--quiet", copy, here, cwd=tmp_path)
    untagged = version_of(here)
    assert re.fullmatch(r"0\.1\.0\.dev\d+\+g[0-9a-f]+", untagged) or re.fullmatch(r"0\.1\.dev\d+\+g[0-9a-f]+", untagged)
    git("tag", "-a", "-m", "x", "v1.2.3", cwd=here)
    git("tag", "nightly-2026", cwd=here)
    assert version_of(here) == "1.2.3"
    (here / "README.md").write_text("changed")
    git("commit", "--quiet", "--all", "--message", "more", cwd=here)
    assert re.fullmatch(r"1\.2\.4\.dev1\+g[0-9a-f]+", version_of(here))
    shutil.rmtree(here / ".git")
    assert version_of(here).startswith("0.1.0"), "a copy without git"


def test_changelog_citation_and_fallback_agree(root: Path) -> None:
    text = (root / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.M)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", one) for one in headings[1:])
    kinds = set(re.findall(r"^### (.*)$", text, re.M))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"} and kinds
    cited = yaml.safe_load((root / "CITATION.cff").read_text())
    newest = re.findall(r"\[(.*)\] - (.*)", headings[1]) if len(headings) > 1 else []
    assert [(cited["version"], str(cited["date-released"]))] == newest if newest else "version" not in cited
    [fallback] = re.findall(r'^fallback_version = "(.*)\.dev0"$', (root / "pyproject.toml").read_text(), re.M)
    assert fallback > newest[0][0] if newest else fallback == "0.1.0"


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("vendor.github-issue-forms", [f".github/ISSUE_TEMPLATE/{name}" for name in FORMS]),
        ("vendor.github-issue-config", [".github/ISSUE_TEMPLATE/config.yml"]),
        ("vendor.citation-file-format", ["CITATION.cff"]),
    ],
)
def test_forms_and_citation_keep_to_their_schemas(root: Path, schema: str, names: list[str]) -> None:
    run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *names, cwd=root)
    assert {path.name for path in (root / ".github" / "ISSUE_TEMPLATE").iterdir()} == {*FORMS, "config.yml"}


BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


@pytest.fixture(scope="module")
def built(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is made from it where there is no git."""
    top = tmp_path_factory.mktemp("built")
    source = top / run(sys.executable, "-c", BUILD, "build_sdist", top, cwd=copy).split()[-1]
    with tarfile.open(source) as archive:
        archive.extractall(top / "unpacked", filter="data")
    [folder] = (top / "unpacked").iterdir()
    return source, top / run(sys.executable, "-c", BUILD, "build_wheel", top, cwd=folder).split()[-1]


def test_the_source_distribution_is_all_of_git(built: tuple[Path, Path], copy: Path) -> None:
    with tarfile.open(built[0]) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    tracked = set(git("ls-files", cwd=copy).splitlines())
    assert tracked - names == set()
    assert {name for name in names - tracked if ".egg-info/" not in name} <= {"PKG-INFO", "setup.cfg"}


def test_the_wheel_has_what_a_run_needs_and_nothing_that_a_run_left(built: tuple[Path, Path], copy: Path) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        names = {name.partition(".data/data/share/mpibench/")[2] for name in archive.namelist()} - {""}
    tracked = set(git("ls-files", cwd=copy).splitlines())
    assert names <= tracked
    tops = ("ci/mpibench/", "ci/monitoring/", "ci/pipelines/", "environments/", "repo/", "reframe_tests/", "site_configs/")
    assert {name for name in tracked - names if name.startswith(tops)} == set()


def test_the_wheel_works_in_an_empty_environment(built: tuple[Path, Path], tmp_path: Path) -> None:
    """Its own dependencies are those of this environment; the project's modules there are not seen."""
    venv, home = tmp_path / "venv", tmp_path / "home"
    home.mkdir()
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    inside = {"base": str(venv), "platbase": str(venv)}
    packages = Path(sysconfig.get_path("purelib", "venv", inside))
    # Path configuration files of a folder that is named in one are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    run(venv / "bin" / "pip", "install", "--no-deps", "--no-index", built[1], cwd=tmp_path)
    reframe = venv / "bin" / "reframe"
    reframe.write_text(
        Path(sys.executable).with_name("reframe").read_text().replace(sys.executable, str(venv / "bin" / "python"))
    )
    reframe.chmod(0o755)
    share = venv / "share" / "mpibench"

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        # As a person has it who never set anything up.
        environ = {"HOME": str(home), "PATH": f"{venv}/bin:/usr/bin:/bin"}
        return subprocess.run(words, cwd=home, env=environ, capture_output=True, text=True, timeout=500)

    said = ask("mpibench", "--version")
    assert said.stdout.startswith("mpibench 0.1.") and said.stdout.rstrip().endswith(f"of {share}"), said
    doctor = ask("mpibench", "doctor")
    assert "Traceback" not in doctor.stderr and re.search(r"^ok +system +generic: ", doctor.stdout, re.M), doctor
    assert re.search(rf"^ok +configuration +{re.escape(str(share))}/site_configs/settings.py", doctor.stdout, re.M)
    stacks = Path(__file__).parents[4] / "environments" / "wheels"
    if not (stacks / "mpich" / "stack.json").is_file():
        pytest.skip("[stacks] no wheels stack to list tests for (ci/setup)")
    shutil.copytree(stacks / "mpich", share / "environments" / "wheels" / "mpich", symlinks=True)
    listed = ask("reframe", "-c", str(share / "reframe_tests"), "--system=generic", "-l")
    assert listed.returncode == 0 and "ImbPointToPoint" in listed.stdout, listed.stdout[-2000:] + listed.stderr[-2000:]
    assert re.search(r"Found \d\d+ check\(s\)", listed.stdout)


def test_an_image_has_what_git_has(root: Path) -> None:
    """What commands leave behind would be in every layer."""
    ignored = {line.strip("/") for line in (root / ".gitignore").read_text().splitlines() if line.startswith("/")}
    left = set((root / ".dockerignore").read_text().splitlines())
    assert {name for name in ignored if not name.startswith(("environments/*", "site_configs"))} <= left


@pytest.mark.parametrize("name", ["Dockerfile", "mpibench.def"])
def test_what_an_image_runs_is_there_and_is_shell(root: Path, name: str, tmp_path: Path) -> None:
    text = (root / "ci" / "container" / name).read_text()
    shown = re.findall(r"^#   (?:.*&& )?(?:docker|apptainer).*?(ci/\S+|mpibench\.def|Dockerfile)", text, re.M)
    assert shown and all((root / one).exists() for one in shown)
    if name == "Dockerfile":
        scripts = re.findall(r"^RUN ((?:.*\\\n)*.*)$", text, re.M)
    else:
        scripts = re.findall(r"^%(?:post|environment|runscript|test)\n((?:    .*\n?)+)", text, re.M)
    assert len(scripts) in (2, 4)
    for script in scripts:
        (tmp_path / "script.sh").write_text(f"#!/bin/sh\n{script}\n")
        run(Path(sys.executable).with_name("shellcheck"), "-e", "SC2164", tmp_path / "script.sh", cwd=tmp_path)
    assert "ci/setup" in scripts[1 if name == "Dockerfile" else 0]
