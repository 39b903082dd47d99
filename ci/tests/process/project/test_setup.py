"""ci/setup, ci/test, .ci/run: from nothing, again, after changes,
interrupted, without network, on other distributions.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pip
import pytest

from folders import write
from mpibench.stacks.wheels import STACK_FAILED
from programs import finished, wait_for
from reframe_tests.harness.stacks import metadata
from synthetic_project import PYPROJECT, Project, make_wheel, pin

ROOT = metadata.ROOT


@pytest.fixture
def bare(tmp_path):
    """A project in which nothing has been set up."""
    return Project(tmp_path, ROOT)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project that has been set up once, by way of a symbolic link and from another folder."""
    folder = tmp_path_factory.mktemp("made")
    project = Project(folder, ROOT)
    project.add_tool("cc", "#!/bin/sh\n")
    (project.root / "link").symlink_to("ci/setup")
    quick = project.environ["MPIBENCH_PYTHON"]
    # Without ensurepip, as on a bare Debian, pip cannot come from the interpreter itself.
    if importlib.util.find_spec("ensurepip"):
        project.environ["MPIBENCH_PYTHON"] = project.interpreter
    (folder / "mpibench.py").write_text("raise SystemExit('the module of another project')\n")
    project.environ |= {"PYTHONPATH": str(folder), "PIP_USER": "1"}
    output = project.ends(0, "link", cwd=folder)
    assert "setup: making .venv" in output and "wheels ran\nrecorder ran\n" in output
    assert f"setup: ready: source {project.root}/.venv/bin/activate" in output
    project.environ["MPIBENCH_PYTHON"] = quick
    return project


def test_a_second_run_installs_nothing_and_looks_at_stacks_and_recorder(made, tmp_path):
    """Also where another copy of the project lies in the working directory."""
    for module in ("mpibench/__init__.py", "reframe_tests/__init__.py", "reframe_tests/harness.py"):
        write(tmp_path / module, "raise SystemExit('the other copy')\n")
    assert made.ends(0, cwd=tmp_path).splitlines()[:-1] == ["wheels ran", "recorder ran"]


@pytest.mark.parametrize(
    ("wish", "installed"),
    [({}, False), ({"CI": "true"}, True), ({"MPIBENCH_INSTALL": "yes"}, True)],
    ids=["", "ci", "yes"],
)
def test_host_packages_are_installed_only_when_asked(bare, wish, installed):
    """By root, and by somebody whose sudo needs no password."""
    asked = bare.tools / "asked"
    bare.add_tool("apt-get", f'#!/bin/bash\necho "apt-get $*" >>{asked}\n')
    bare.add_tool("sudo", '#!/bin/bash\n[[ $1 == -n ]] && shift\nexec "$@"\n')
    bare.add_tool("true", "#!/bin/bash\n")
    setup = bare.root / "ci" / "setup"
    setup.write_text(setup.read_text().replace("EUID", "UID_OF_THE_TEST"))
    interpreters = "tcl lua5.3 lua-posix lua-filesystem lua-term lua-json"
    packages = ("chromium", "openmpi-bin mpich hpcc", interpreters)
    for user in ("0", "1000"):
        output = bare.ends(0, "ci/setup", "test", **wish, UID_OF_THE_TEST=user)
        lines = asked.read_text().splitlines() if asked.exists() else []
        installs = [line.split(maxsplit=4)[4] for line in lines if " install " in line]
        assert installs == (list(packages) if installed else [])
        assert installed or output.count("will be skipped (as root: apt-get install ") >= 3
        asked.unlink(missing_ok=True)
    # Asked for later, they are installed although nothing else has changed.
    bare.environ |= {"MPIBENCH_INSTALL": "yes", "UID_OF_THE_TEST": "0"}
    bare.ends(0, "ci/setup", "test")
    assert "install --yes --no-install-recommends chromium" in asked.read_text()


def test_what_is_pinned_is_installed_and_nothing_else(made, tmp_path):
    """The lock files decide, also where the index has something
    newer or a file with another content.
    """
    wheels = {
        version: make_wheel(tmp_path, "pinned", version, {"pinned.py": f"V = {version!r}"})
        for version in ("1.0", "2.0")
    }
    made.environ["PIP_FIND_LINKS"] = str(tmp_path)
    made.write("requirements.lock", pin(wheels["1.0"]))
    made.ends(0)
    assert made.python("import pinned; print(pinned.V)") == "1.0"
    made.write("requirements.lock", pin(wheels["2.0"]))
    make_wheel(tmp_path, "pinned", "2.0", {"pinned.py": "V = 'not what was pinned'"})
    assert "pip could not install what the project needs (" in made.ends(1)
    assert made.python("import pinned; print(pinned.V)") == "1.0"
    made.write("requirements.lock", "")
    made.ends(0)


def test_a_change_of_requirements_or_compiler_is_noticed(made):
    made.write("pyproject.toml", PYPROJECT + "# changed\n")
    output = made.ends(0)
    assert "installing the project" in output and "making .venv" not in output
    made.write("requirements-test.lock", "# changed\n")
    assert "installing what the project needs;" in made.ends(0)
    (made.tools / "cc").rename(made.tools / "not-cc")
    assert "what the project needs (compiler)" in made.ends(0)
    (made.tools / "not-cc").rename(made.tools / "cc")
    made.ends(0)


def test_a_failed_stack_is_reported_and_stops_nothing(made):
    """The other stacks, the evidence library and who waits for the exit status get on."""
    wheels = made.write(
        "ci/mpibench/stacks/wheels.py", "import sys\nprint('mpich-wheels: no.')\nsys.exit(3)\n"
    )
    first, second, last = made.ends(3).splitlines()
    assert (first, second) == ("mpich-wheels: no.", "recorder ran")
    assert last.startswith("setup: ready, but for the stacks named above: source ")
    for accident in ("sys.exit('no table')", "1 / 0", "sys.exit(2)"):
        wheels.write_text(f"import sys\n{accident}\n")
        assert "ready" not in made.ends(1)
    wheels.write_text("")
    made.ends(0)


def test_a_night_without_one_stack_measures_the_others_and_is_reported(tmp_path):
    """Also where nobody says what HOME is; and none where nothing was set up."""
    programs = {
        "ci/nightly": (ROOT / "ci" / "nightly").read_text(),
        "ci/setup": "#!/bin/bash\nexit $SET_UP\n",
        ".venv/bin/activate": f'export PATH="{tmp_path}/.venv/bin:$PATH"\n',
        ".venv/bin/python": '#!/bin/bash\necho "$*, home $HOME"\n',
    }
    for name, text in programs.items():
        write(tmp_path / name, text, executable=True)
    environ = {name: value for name, value in os.environ.items() if name != "HOME"}
    home = pwd.getpwuid(os.getuid()).pw_dir
    said = f"-m mpibench.commands.nightly --set-up-status {STACK_FAILED} -n X, home {home}\n"
    for set_up, wanted in ((STACK_FAILED, (0, said)), (1, (1, "")), (2, (1, ""))):
        environ["SET_UP"] = str(set_up)
        done = finished(tmp_path / "ci/nightly", "-n", "X", env=environ)
        assert (done.returncode, done.stdout) == wanted


def test_set_ups_take_turns(made):
    starts = made.root / "starts"
    made.write(
        "ci/mpibench/stacks/wheels.py",
        "import pathlib, time\nwith open('starts', 'a') as stream: stream.write('x')\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.05)\n",
    )
    first = begin(made)
    assert wait_for(starts.exists)
    second = begin(made)
    try:
        assert second.stdout.readline() == "setup: waiting for another set-up of this project\n"
        time.sleep(0.5)
        assert starts.read_text() == "x"
    finally:
        (made.root / "go").touch()
        outputs = first.communicate(timeout=180)[0], second.communicate(timeout=180)[0]
    assert (first.returncode, second.returncode, starts.read_text()) == (0, 0, "xx"), outputs
    made.write("ci/mpibench/stacks/wheels.py", "")


@pytest.mark.parametrize("name", ["a:b", "a\tb"])
def test_a_path_that_cannot_be_preloaded_from_is_refused(bare, name):
    bare.root = bare.root.rename(bare.root.with_name(name))
    assert "has a blank or a colon in its path" in bare.ends(1)
    assert not (bare.root / ".venv").exists()


def replace_python(project, cases):
    """Let the interpreter run a shell script instead where its arguments match a shell pattern."""
    python = project.environ["MPIBENCH_PYTHON"]
    project.environ["MPIBENCH_PYTHON"] = project.stand_in("python-stub", python, cases)


def test_without_ensurepip_and_without_rights_debians_own_wheel_brings_pip(bare, tmp_path):
    """As on a bare Debian: apt-get hands packages out to anybody, and nothing is installed."""
    replace_python(
        bare, {"'-m venv --clear /'* | '-m virtualenv '* | '-m pip --version'": "exit 1"}
    )
    debian = tmp_path / "debian"
    wheel = "usr/share/python-wheels/pip-1.0-py3-none-any.whl/pip/__main__.py"
    said = tmp_path / "said"
    version = f"python3.{sys.version_info.minor}"
    write(
        debian / wheel,
        "import os, pathlib, sys\n"
        f"pathlib.Path({str(said)!r}).write_text(' '.join(sys.argv[1:]) + chr(10) + "
        "pathlib.Path(sys.argv[-1]).read_text())\n"
        f"os.symlink({str(Path(pip.__file__).parent)!r}, "
        f"f'{{sys.prefix}}/lib/{version}/site-packages/pip')\n",
    )
    write(debian / "usr/share/ca-certificates/mozilla/one.crt", "a certificate\n")
    bare.add_tool(
        "apt-get",
        '#!/bin/bash\n[[ " $* " != *" install "* && $* == *-o* ]] || exit 1\n[[ $* != '
        "*download* ]] || : >x.deb\n",
    )
    bare.add_tool(
        "dpkg-deb", f'#!/bin/bash\n[[ $1 == --extract ]] && exec /bin/cp -r {debian}/. "$3"\n'
    )
    bare.environ["PIP_CERT"] = "/none.pem"
    bare.write(
        "requirements.lock",
        "pip==9 \\\n    --hash=sha256:12 \\\n    --hash=sha256:34\n    # via something\n",
    )
    _, output = bare.run("ci/setup")
    assert "setup: fetching pip from Debian's packages (nothing is installed)\n" in output
    assert "setup: putting pip into .venv\n" in output
    assert "setup: installing what the project needs" in output
    command, *lines = said.read_text().splitlines()
    assert command.startswith("--no-input install --require-hashes --requirement ")
    assert lines == ["pip==9 \\", "    --hash=sha256:12 \\", "    --hash=sha256:34"]
    assert not (bare.root / "results" / "debian-pip").exists()


def begin(project):
    """A set-up as a process group of its own."""
    return subprocess.Popen(
        [project.root / "ci" / "setup"],
        env=project.environ,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


# ---- interrupted or killed: nothing is left running, and the next run goes on ----

#: Longest wait for a process that has nothing else to do, in seconds.
PATIENCE_S = 120.0


def start(project, seconds):
    """A set-up that is at its first step, which takes so long,
    and the file with the step's process.
    """
    begun = project.tools / "begun"
    (project.tools / "sleep").symlink_to("/bin/sleep")
    python = project.environ["MPIBENCH_PYTHON"]
    replace_python(project, {"'-m venv'*": f"echo $$ >{begun}; exec sleep {seconds}"})
    process = begin(project)
    project.environ["MPIBENCH_PYTHON"] = python
    assert wait_for(lambda: begun.exists() and begun.read_text().endswith("\n"))
    return process, begun


def test_a_killed_set_up_leaves_nobody_who_says_that_it_is_still_at_it(tmp_path):
    """They end with who wrote them, and by no signal: one that came too
    early was lost, and the set-up waited for ever.
    """
    process, begun = start(Project(tmp_path, ROOT), 600)
    process.kill()
    os.kill(int(begun.read_text()), signal.SIGKILL)
    # until the last process with this pipe has ended
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL
    assert output.startswith("setup: making .venv with ") and "interrupted" not in output


# ---- ci/setup for a machine without network, and on distributions other than Debian ----


def test_a_machine_without_network_is_set_up_from_a_wheelhouse(bare, tmp_path):
    """Filled by the same project on another machine; a lock file
    that names what is not there is an error.
    """
    bare.add_tool("cc", "#!/bin/sh\n")
    index = tmp_path / "index"
    house = tmp_path / "house"
    index.mkdir()
    wheel = make_wheel(index, "pinned", "1.0", {"pinned.py": "V = 1"})
    stack = make_wheel(index, "somempi", "2.0", {"some.py": "V = 2"})
    tested = make_wheel(index, "tested", "3.0", {"tested.py": "V = 3"})
    bare.write("requirements.lock", pin(wheel))
    bare.write("requirements-test.lock", pin(wheel) + pin(tested))
    bare.write("environments/wheels/requirements/some.txt", pin(stack))
    bare.environ["PIP_FIND_LINKS"] = str(index)
    for words, wheels in (([], {wheel, stack}), (["test"], {wheel, stack, tested})):
        shutil.rmtree(house, ignore_errors=True)
        bare.ends(0, "ci/setup", *words, "--fill-wheelhouse", str(house))
        assert {path.name for path in house.glob("*.whl")} == {path.name for path in wheels}

    (tmp_path / "other").mkdir()
    away = Project(tmp_path / "other", ROOT)
    away.add_tool("cc", "#!/bin/sh\n")
    away.write("requirements.lock", pin(wheel))
    away.ends(1)
    from_house = ("ci/setup", "--wheelhouse", str(house))
    away.ends(0, *from_house)
    assert away.python("import pinned; print(pinned.V)") == "1"
    away.write("requirements.lock", pin(make_wheel(index, "further", "1.0", {"further.py": ""})))
    assert "pip could not install what the project needs (" in away.ends(1, *from_house)
    (house / "filled-for").write_text("Python 3.9 on riscv64\n")
    assert "was filled for Python 3.9 on riscv64" in away.ends(1, *from_house)
    (house / "filled-for").unlink()
    assert f"{house} is no wheelhouse" in away.ends(1, *from_house)
