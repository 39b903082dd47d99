"""ci/setup, ci/test and .ci/run: from nothing, again, after changes, without network, interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reframe_tests.harness import stack_metadata
from reframe_tests.harness.stack import Stack
from synthetic_project import METADATA, PYPROJECT, Project

ROOT = stack_metadata.ROOT
READY = re.compile(r"setup: ready: source (.*)/bin/activate, then reframe -c reframe_tests -l\n$")


@pytest.fixture
def bare(tmp_path: Path) -> Project:
    """A project in which nothing has been set up."""
    return Project(tmp_path, ROOT)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that has been set up once, by way of a symbolic link and from another folder."""
    folder = tmp_path_factory.mktemp("made")
    project = Project(folder, ROOT)
    project.add_tool("cc", "#!/bin/sh\n")
    (project.root / "link").symlink_to("ci/setup")
    quick = project.environ["MPIBENCH_PYTHON"]
    project.environ["MPIBENCH_PYTHON"] = project.interpreter
    (folder / "mpibench.py").write_text("raise SystemExit('the module of another project')\n")
    project.environ |= {"PYTHONPATH": str(folder), "PIP_USER": "1"}
    status, output = project.run("link", cwd=folder)
    assert status == 0, output
    assert re.findall("(?m)^setup: (?!  )(.*?) (?:with|and)", output)[:2] == ["making .venv", "installing the project"]
    assert "wheels ran\nwitness ran\n" in output
    assert READY.search(output)[1] == str(project.root / ".venv")
    project.environ["MPIBENCH_PYTHON"] = quick
    return project


def test_a_second_run_installs_nothing_and_looks_at_stacks_and_witness(made: Project) -> None:
    assert made.run("ci/setup")[1].splitlines()[:-1] == ["wheels ran", "witness ran"]


def test_another_copy_of_the_project_in_the_working_directory_is_not_run(made: Project, tmp_path: Path) -> None:
    for module in ("mpibench/__init__.py", "mpibench/wheels.py", "reframe_tests/__init__.py", "reframe_tests/harness.py"):
        (tmp_path / module).parent.mkdir(exist_ok=True)
        (tmp_path / module).write_text("raise SystemExit('the other copy')\n")
    assert made.run("ci/setup", cwd=tmp_path)[1].splitlines()[:-1] == ["wheels ran", "witness ran"]


def test_the_environment_finds_the_configuration_unless_told_otherwise(made: Project) -> None:
    ask = "import os; print(os.environ['RFM_CONFIG_FILES'])"
    assert made.python(ask) == str(made.root / "site_configs" / "settings.py")
    made.environ["RFM_CONFIG_FILES"] = "/mine.py"
    assert made.python(ask) == "/mine.py"
    del made.environ["RFM_CONFIG_FILES"]


def test_what_tests_need_is_installed_on_request_and_covers_the_rest(made: Project) -> None:
    status, output = made.run("ci/setup", "test")
    assert status == 0
    assert "installing the project and what it needs (test)" in output
    assert "no chromium here and no way to install it: the browser tests will be skipped" in output
    assert "the tests of system stacks on them will be skipped" in output
    for mode in (["test"], []):
        assert "installing" not in made.run("ci/setup", *mode)[1]


def test_a_change_of_requirements_or_compiler_is_noticed(made: Project) -> None:
    made.write("pyproject.toml", PYPROJECT + "# changed\n")
    status, output = made.run("ci/setup")
    assert status == 0 and "installing the project" in output and "making .venv" not in output
    (made.tools / "cc").rename(made.tools / "not-cc")
    status, output = made.run("ci/setup")
    assert status == 0 and "what it needs (compiler)" in output
    (made.tools / "not-cc").rename(made.tools / "cc")
    assert made.run("ci/setup")[0] == 0


def test_a_broken_environment_is_made_again(made: Project) -> None:
    """As after an upgrade of the system's Python: the interpreter that .venv points to is gone."""
    (made.root / ".venv" / "bin" / "python").unlink()
    status, output = made.run("ci/setup")
    assert status == 0 and "making .venv" in output
    assert "making .venv" not in made.run("ci/setup")[1]


def test_failing_stacks_or_witness_fail_the_set_up(made: Project) -> None:
    wheels = made.write("ci/mpibench/wheels.py", "import sys\nsys.exit('mpich-wheels: no.')\n")
    status, output = made.run("ci/setup")
    assert (status, output) == (1, "mpich-wheels: no.\n")
    wheels.write_text("")
    witness = made.write("reframe_tests/harness/witness.py", "def locate():\n    raise ValueError('no compiler')\n")
    status, output = made.run("ci/setup")
    assert status == 1
    assert output.startswith("setup: the evidence library could not be built (ValueError: no compiler); its log is ")
    witness.write_text("def locate(): ...\n")
    assert made.run("ci/setup")[0] == 0


def test_set_ups_take_turns(made: Project) -> None:
    starts, go = made.root / "starts", made.root / "go"
    made.write(
        "ci/mpibench/wheels.py",
        f"import pathlib, time\nwith open({str(starts)!r}, 'a') as stream: stream.write('x')\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)\n",
    )
    command = [str(made.root / "ci" / "setup")]
    pipes = {"env": made.environ, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    first = subprocess.Popen(command, **pipes)
    wait_for(starts)
    second = subprocess.Popen(command, **pipes)
    try:
        assert second.stdout.readline() == "setup: waiting for another set-up of this project\n"
        time.sleep(0.5)
        assert starts.read_text() == "x"
    finally:
        go.touch()
        outputs = first.communicate(timeout=180)[0], second.communicate(timeout=180)[0]
    assert (first.returncode, second.returncode, starts.read_text()) == (0, 0, "xx"), outputs
    made.write("ci/mpibench/wheels.py", "")


def test_ci_test_and_ci_run_hand_over_to_pytest(made: Project) -> None:
    status, output = made.run("ci/test", "-k", "a b")
    assert (status, output.splitlines()[-1]) == (0, "pytest ran with ['-k', 'a b']")
    assert made.run("ci/test", "-x")[0] == 1
    status, output = made.run(".ci/run", cwd=Path("/"))
    assert (status, output.splitlines()[-1]) == (0, "pytest ran with []")


def test_a_moved_project_is_set_up_in_its_new_place(made: Project) -> None:
    """The last test on this project: scripts in the old environment name its old path."""
    made.root = made.root.rename(made.root.with_name("moved"))
    status, output = made.run("ci/setup")
    assert status == 0 and "making .venv" in output
    assert made.python("import mpibench; print(mpibench.__file__)").startswith(str(made.root))


def test_usage(bare: Project) -> None:
    assert bare.run("ci/setup", "tests") == (2, "usage: ci/setup [test]\n")
    status, output = bare.run("ci/setup", "--help")
    assert status == 0 and "ci/setup test    also what" in output and "set -euo" not in output
    assert not (bare.root / ".venv").exists()


def test_without_a_suitable_python(bare: Project) -> None:
    old = bare.add_tool("python3", "#!/bin/bash\nexit 1\n")
    bare.environ["MPIBENCH_PYTHON"] = str(old)
    said = f"setup: MPIBENCH_PYTHON={old} is no Python >= 3.10; correct or unset it.\n"
    assert bare.run("ci/setup") == (1, said)
    del bare.environ["MPIBENCH_PYTHON"]
    said = "setup: no Python >= 3.10 on PATH; install one, or name it with MPIBENCH_PYTHON=<path>.\n"
    assert bare.run("ci/setup") == (1, said)


def test_a_colon_in_the_path_is_refused(bare: Project) -> None:
    bare.root = bare.root.rename(bare.root.with_name("a:b"))
    status, output = bare.run("ci/setup")
    assert status == 1 and output.endswith("has a colon in its path, which separates search paths; move the project.\n")


def replace_python(project: Project, cases: dict[str, str]) -> None:
    """Let the interpreter run a shell script instead where its arguments match a shell pattern."""
    python = project.environ["MPIBENCH_PYTHON"]
    project.environ["MPIBENCH_PYTHON"] = project.stand_in("python-stub", python, cases)


def test_without_ensurepip_and_without_rights_the_package_is_named(bare: Project) -> None:
    replace_python(bare, {"'-m '*": "echo ensurepip is not available; exit 1"})
    status, output = bare.run("ci/setup")
    assert status == 1
    version = f"python3.{sys.version_info.minor}"
    assert output.splitlines()[-1].endswith(f"as root: apt-get install {version}-venv.")
    assert "ensurepip is not available" in (bare.root / "results" / "setup.log").read_text()


def test_without_ensurepip_the_package_is_installed_where_that_is_allowed(bare: Project) -> None:
    replace_python(bare, {"'-m venv'*": f"[[ -e {bare.tools}/installed ]] || exit 1"})
    bare.add_tool("sudo", '#!/bin/bash\n[[ $1 == -n ]] && shift\nexec "$@"\n')
    bare.add_tool("true", "#!/bin/bash\n")
    bare.add_tool("apt-get", f'#!/bin/bash\necho "apt-get $*"\n[[ $1 != install ]] || : >{bare.tools}/installed\n')
    status, output = bare.run("ci/setup")
    assert status == 0, output
    version = f"python3.{sys.version_info.minor}"
    log = (bare.root / "results" / "setup.log").read_text()
    assert f"setup: installing {version}-venv\n" in output
    assert f"apt-get install --yes --no-install-recommends {version}-venv\n" in log


def test_without_ensurepip_the_systems_own_pip_is_used(bare: Project) -> None:
    """As on Debian with python3-pip but without python3-venv, and no rights to install it."""
    cases = {
        "'-m venv --clear /'* | '-m virtualenv '*": "exit 1",
        "'-m pip --version'": "exit 0",
        "'-m pip install --target '*": 'mkdir -p "$5/pip"; echo >"$5/pip/__main__.py"; exit 0',
    }
    replace_python(bare, cases)
    _, output = bare.run("ci/setup")
    assert "setup: putting pip into .venv\n" in output
    assert "setup: installing the project" in output


def test_without_network_the_reason_and_the_log_are_named(bare: Project) -> None:
    bare.write("METADATA", METADATA + "Requires-Dist: not-to-be-found\n")
    status, output = bare.run("ci/setup")
    assert status == 1
    log = bare.root / "results" / "setup.log"
    sentence = output.splitlines()[-1]
    assert sentence.startswith("setup: pip could not install the project (No matching distribution found for not-to-be-found)")
    assert sentence.endswith(f"its log is {log}.") and log.exists()
    bare.write("METADATA", METADATA)
    status, output = bare.run("ci/setup")
    assert status == 0 and "making .venv" not in output


def wait_for(path: Path) -> None:
    for _ in range(2400):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


def test_an_interrupted_set_up_says_so_and_goes_on(bare: Project) -> None:
    begun = bare.tools / "begun"
    real = bare.environ["MPIBENCH_PYTHON"]
    (bare.tools / "sleep").symlink_to("/bin/sleep")
    replace_python(bare, {"'-m venv'*": f"echo $$ >{begun}; exec sleep 60"})
    process = subprocess.Popen(
        [str(bare.root / "ci" / "setup")],
        env=bare.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_for(begun)
    os.killpg(process.pid, signal.SIGINT)  # what Ctrl-C in a terminal does
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert output.endswith("\nsetup: interrupted; the next run goes on from here\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    bare.environ["MPIBENCH_PYTHON"] = real
    assert bare.run("ci/setup")[0] == 0


def test_the_literal_command_finds_the_projects_configuration(stacks: dict[str, Stack], tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
    command = [str(Path(sys.executable).with_name("reframe")), "--show-config"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    configuration = json.loads(done.stdout[done.stdout.index("{") :])
    assert {environment["name"] for environment in configuration["environments"]} >= stacks.keys()
