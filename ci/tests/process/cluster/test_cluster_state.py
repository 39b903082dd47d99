"""The runtime directory: right processes, one command at a time, nobody else's directory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from folders import write
from mpibench_cluster import lifecycle, plan, state
from programs import as_another_user, finished
from reframe_tests.harness.vocabulary import BadInput


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    path = tmp_path / "runtime"
    monkeypatch.setenv(state.RUNTIME_VARIABLE, str(path))
    return path


@pytest.fixture
def begin(tmp_path):
    """Starts processes of a given name, which end with the test."""
    begun = []

    def start(name):
        program = tmp_path / name
        program.symlink_to(Path("/bin/sleep").resolve())
        begun.append(subprocess.Popen([str(program), "60"], executable=str(program)))
        process = state.Process.observe(begun[-1].pid)
        return process

    yield start
    for child in begun:
        child.kill()
        child.wait()


def a_state(pid, start_ticks):
    layout = plan.ClusterPlan(2, "spread", (0, 1))
    return state.State(layout, state.Process(pid, start_ticks), False)


def save(made):
    with state.locked():
        state.save(made)


def test_a_corpse_is_not_alive():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        assert state.Process.observe(child) is None
    finally:
        os.waitpid(child, 0)


@pytest.mark.parametrize("text", [b'{"plan": ', b'{"plan": {}}', b"[]", b"\xff"])
def test_a_damaged_state_file_is_one_sentence(runtime, text):
    with state.locked():
        (runtime / "state.json").write_bytes(text)
    with pytest.raises(BadInput, match="damaged"):
        state.load()


def test_a_dead_or_half_built_cluster_cannot_be_used(runtime, begin):
    init = begin(state.INIT)
    for process, said in (
        ((os.getpid(), 1), "not up"),
        ((init.pid, init.start_ticks), "did not come up completely"),
    ):
        save(a_state(*process))
        with pytest.raises(BadInput, match=said):
            state.running()


def test_one_command_at_a_time(runtime):
    with state.locked():
        program = "from mpibench_cluster import state\nwith state.locked(): pass"
        other = finished(sys.executable, "-c", program)
    assert "another mpibench cluster command is running" in other.stderr
    with state.locked():
        pass


def _moved(path):
    return path.rename(path.with_name(f"{path.name}.moved"))


#: What is done to a path: the directory, or the state file in it.
TRICKS = {
    "others may write": lambda path: path.chmod(0o620 if path.is_file() else 0o777),
    "a link": lambda path: path.symlink_to(_moved(path)),
    "a file": lambda path: (_moved(path), path.touch()),
    "a pipe": lambda path: (_moved(path), os.mkfifo(path, 0o600)),
    "of somebody else": lambda path: None,
}


@pytest.mark.parametrize(
    ("place", "trick"),
    [
        *(("", trick) for trick in TRICKS if trick != "a pipe"),
        *(("state.json", trick) for trick in ("others may write", "a link", "a pipe")),
    ],
)
def test_what_others_control_is_believed_by_no_command(runtime, monkeypatch, begin, place, trick):
    """Whoever writes the state file chooses whose namespaces root
    enters, and so what root executes there.
    """
    init = begin(state.INIT)
    made = a_state(init.pid, init.start_ticks)
    made.ready = True
    save(made)
    assert state.running() == made
    TRICKS[trick](runtime / place)
    if trick == "of somebody else":
        as_another_user(monkeypatch)
    for command in (state.running, state.load, lifecycle.look, lambda: lifecycle.down(print)):
        with pytest.raises(BadInput, match=r"only you own and can write to.* remove it"):
            command()
    if not place:
        with pytest.raises(BadInput, match="only you own and can write to"), state.locked():
            pass
    assert init.alive


def test_only_an_init_of_the_callers_own_is_entered(runtime, monkeypatch, begin):
    other = begin("sleepy")
    save(a_state(other.pid, other.start_ticks))
    with pytest.raises(BadInput, match=f"process {other.pid}, which is not the mc-init"):
        state.load()
    made = a_state(os.getpid(), 1)  # this one is dead
    made.nodes["c1"] = other
    save(made)
    with pytest.raises(BadInput, match=f"process {other.pid}, which is not the mc-c1"):
        state.load()
    # The name alone is not a proof: anybody can call a process of his own mc-init.
    named = begin(state.INIT)
    assert named.is_own(state.INIT)
    as_another_user(monkeypatch)
    assert not named.is_own(state.INIT)


def test_what_is_read_of_a_held_process_is_never_another_ones(
    begin,
):
    process = begin("first")
    with process.held() as folder:
        assert os.readlink("exe", dir_fd=folder) == str(Path("/bin/sleep").resolve())
        os.kill(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)
        with pytest.raises(OSError):
            os.readlink("exe", dir_fd=folder)
    with pytest.raises(ProcessLookupError), process.held():
        pass
    mine = state.Process.observe(os.getpid())
    with pytest.raises(ProcessLookupError), state.Process(mine.pid, mine.start_ticks - 1).held():
        pass


def test_root_keeps_its_cluster_where_nobody_else_can_write(
    monkeypatch,
):
    monkeypatch.delenv(state.RUNTIME_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")  # as sudo may keep it
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state.runtime_dir() == Path("/run/mpibench-cluster")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert state.runtime_dir() == Path("/run/user/1000/mpibench-cluster")


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_what_is_written_is_believed_under_any_umask(runtime, mask):
    previous = os.umask(mask)
    try:
        with state.locked():
            state.save(a_state(os.getpid(), 1))
            (runtime / state.ETC).mkdir()
        assert state.load() == a_state(os.getpid(), 1)
        assert not (runtime / state.ETC).stat().st_mode & 0o022  # what the nodes' daemons read
        assert os.umask(mask) == mask
    finally:
        os.umask(previous)


def everything(folder):
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("with_names_of_a_cluster", [False, True])
def test_a_directory_with_something_else_in_it_stays_as_it_is(runtime, with_names_of_a_cluster):
    write(runtime / "etc" / "precious.conf", "years of work")
    if with_names_of_a_cluster:
        (runtime / "state.json").write_text("{}")
        (runtime / "log").mkdir()
    before = everything(runtime)
    for command in (lifecycle.down, lambda say: lifecycle.up(2, "spread", [], say)):
        with pytest.raises(BadInput, match="nothing was changed"):
            command(print)
    state.remove()
    assert everything(runtime) == before


def test_down_removes_what_a_cluster_makes_and_nothing_else(runtime, tmp_path):
    outside = tmp_path / "outside"
    write(outside / "kept", "kept")
    save(a_state(os.getpid(), 1))
    write(runtime / "log" / "init.log", "")
    (runtime / "etc").symlink_to(outside)
    (runtime / "thesis.tex").write_text("mine")
    said = []
    lifecycle.down(said.append)
    assert said[1].startswith(f"left in {runtime}") and "thesis.tex" in said[1]
    assert everything(runtime) == {state.MARK: b"", "thesis.tex": b"mine"}
    assert (outside / "kept").exists()
    (runtime / "thesis.tex").unlink()
    lifecycle.down(print)
    assert not runtime.exists()


def test_inside_a_node_every_command_is_refused(runtime, tmp_path, monkeypatch):
    mark = tmp_path / "node.json"
    mark.write_text("{}")
    monkeypatch.setattr(state, "_NODE_MARK", mark)
    for command in (lambda: state.locked().__enter__(), state.running):
        with pytest.raises(BadInput, match="is a node of the cluster"):
            command()
