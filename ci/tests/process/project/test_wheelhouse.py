"""ci/setup for a machine without network, and on distributions other than Debian."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reframe_tests.harness.vocabulary import ROOT
from synthetic_project import Project
from synthetic_wheels import make_wheel


@pytest.fixture
def bare(tmp_path: Path) -> Project:
    """A project in which nothing has been set up, on a machine with a compiler."""
    project = Project(tmp_path, ROOT)
    project.add_tool("cc", "#!/bin/sh\n")
    return project


def pin(wheel: Path) -> str:
    """A line of a lock file."""
    name, version, *_ = wheel.name.split("-")
    return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


@pytest.mark.parametrize("arguments", [("--wheelhouse",), ("test", "--fill-wheelhouse"), ("--wheelhouse", "/a", "more")])
def test_usage_of_wheelhouses(bare: Project, arguments: tuple[str, ...]) -> None:
    assert bare.run("ci/setup", *arguments)[0] == 2


def test_a_machine_without_network_is_set_up_from_a_wheelhouse(bare: Project, tmp_path: Path) -> None:
    """Filled by the same project on another machine; a lock file that names what is not there is an error."""
    index, house, other = tmp_path / "index", tmp_path / "house", tmp_path / "other"
    index.mkdir()
    wheel = make_wheel(index, "pinned", "1.0", {"pinned.py": "V = 1"})
    stack = make_wheel(index, "somempi", "2.0", {"some.py": "V = 2"})
    bare.write("requirements.lock", pin(wheel))
    bare.write("environments/wheels/requirements/some.txt", pin(stack))
    bare.environ["PIP_FIND_LINKS"] = str(index)
    status, output = bare.run("ci/setup", "--fill-wheelhouse", str(house))
    assert status == 0 and f"copy {house} to the other machine" in output, output
    assert {path.name for path in house.glob("*.whl")} == {wheel.name, stack.name}

    tested = tmp_path / "tested"
    bare.write("requirements-test.lock", pin(wheel))
    status, output = bare.run("ci/setup", "test", "--fill-wheelhouse", str(tested))
    assert status == 0, output
    assert {path.name for path in tested.glob("*.whl")} == {wheel.name, stack.name}

    other.mkdir()
    away = Project(other, ROOT)
    away.add_tool("cc", "#!/bin/sh\n")
    away.write("requirements.lock", pin(wheel))
    assert away.run("ci/setup")[0] == 1
    status, output = away.run("ci/setup", "--wheelhouse", str(house))
    assert status == 0, output
    assert away.python("import pinned; print(pinned.V)") == "1"
    away.write("requirements.lock", pin(make_wheel(index, "further", "1.0", {"further.py": ""})))
    status, output = away.run("ci/setup", "--wheelhouse", str(house))
    assert status == 1 and "pip could not install what the project needs (" in output

    (house / "filled-for").write_text("Python 3.9 on riscv64\n")
    status, output = away.run("ci/setup", "--wheelhouse", str(house))
    assert status == 1 and f"{house} was filled for Python 3.9 on riscv64, and this is Python 3." in output
    (house / "filled-for").unlink()
    status, output = away.run("ci/setup", "--wheelhouse", str(house))
    assert status == 1 and f"{house} is no wheelhouse" in output


@pytest.mark.parametrize(
    ("manager", "python", "browser"),
    [
        ("dnf", "dnf install python3.12 python3.12-pip", "as root: dnf install openmpi mpich"),
        ("zypper", "zypper install python311 python311-pip", "as root: zypper install openmpi4 mpich"),
    ],
)
def test_remedies_name_the_packages_of_the_distribution(bare: Project, manager: str, python: str, browser: str) -> None:
    bare.add_tool(manager, "#!/bin/bash\nexit 1\n")
    quick = bare.environ.pop("MPIBENCH_PYTHON")
    old = bare.add_tool("python3", "#!/bin/bash\nexit 1\n")
    assert f"install one ({python}), or name it" in bare.run("ci/setup")[1]
    old.unlink()
    bare.environ["MPIBENCH_PYTHON"] = quick
    assert f"will be skipped ({browser})" in bare.run("ci/setup", "test")[1]
