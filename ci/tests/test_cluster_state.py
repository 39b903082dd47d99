"""The runtime directory: right processes, one command at a time, nobody else's directory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mpibench.cluster import namespaces, plan, state
from reframe_tests.harness.vocabulary import BadInput


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "runtime"
    monkeypatch.setenv(state.RUNTIME_VARIABLE, str(path))
    return path


def a_state(pid: int, start_ticks: int) -> state.State:
    return state.State(plan.Plan(2, "spread", (0, 1)), state.Process(pid, start_ticks), None, False)


def test_a_process_is_itself_and_a_later_one_of_the_same_number_is_not() -> None:
    me = state.Process.observe(os.getpid())
    assert me is not None
    assert me.alive
    assert not state.Process(me.pid, me.start_ticks - 1).alive


def test_a_corpse_is_not_alive() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        assert state.Process.observe(child) is None
    finally:
        os.waitpid(child, 0)


def test_a_process_name_with_parentheses_and_blanks_is_read(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to(Path("/bin/sleep").resolve())
    with subprocess.Popen([str(program), "60"], executable=str(program)) as child:
        try:
            found = state.Process.observe(child.pid)
            assert found is not None
            ticks = os.sysconf("SC_CLK_TCK")
            uptime = float(Path("/proc/uptime").read_text().split()[0])
            assert 0 < found.start_ticks / ticks <= uptime + 1
        finally:
            child.kill()


def test_the_state_file_survives_a_round_trip(runtime: Path) -> None:
    made = a_state(1, 2)
    made.nodes["c1"] = state.Process(3, 4)
    made.faults.append({"name": "link-down", "words": ["c1", "eth1g"], "node": "c1", "fabric": "eth1g"})
    with state.locked():
        state.save(made)
    assert state.load() == made


def test_a_damaged_state_file_is_one_sentence(runtime: Path) -> None:
    with state.locked():
        (runtime / "state.json").write_text('{"plan": ')
    with pytest.raises(BadInput, match="damaged"):
        state.load()


def test_a_dead_cluster_is_not_up(runtime: Path) -> None:
    with state.locked():
        state.save(a_state(os.getpid(), 1))
    with pytest.raises(BadInput, match="not up"):
        state.running()


def test_a_half_built_cluster_cannot_be_used(runtime: Path) -> None:
    me = state.Process.observe(os.getpid())
    assert me is not None
    with state.locked():
        state.save(a_state(me.pid, me.start_ticks))
    with pytest.raises(BadInput, match="did not come up completely"):
        state.running()


def test_one_command_at_a_time(runtime: Path) -> None:
    with state.locked():
        program = "from mpibench.cluster import state\nwith state.locked(): pass"
        other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "another mpibench cluster command is at work" in other.stderr
    with state.locked():
        pass


def test_a_lock_on_a_directory_removed_meanwhile_does_not_count(runtime: Path) -> None:
    with state.locked():
        state.remove()
        # The first command still holds the removed directory; a second one works on a new one.
        with state.locked() as again:
            assert again.exists()


def test_a_directory_others_can_write_to_is_refused(runtime: Path) -> None:
    runtime.mkdir()
    runtime.chmod(0o777)
    with pytest.raises(BadInput, match="only you can write to"), state.locked():
        pass


def test_a_link_in_place_of_the_directory_is_refused(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    runtime.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="only you can write to"), state.locked():
        pass


def test_inside_a_node_every_command_is_refused(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "node.json"
    mark.write_text(json.dumps({}))
    monkeypatch.setattr(state, "_NODE_MARK", mark)
    with pytest.raises(BadInput, match="is a node of the cluster"), state.locked():
        pass
    with pytest.raises(BadInput, match="is a node of the cluster"):
        state.running()


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        (["/home/me"], []),
        (["/tmp"], []),
        (["/tmp/a/b", "/tmp/a", "/run/x", "/opt"], ["/run/x", "/tmp/a"]),
        (["/tmp/a", "/tmp/ab"], ["/tmp/a", "/tmp/ab"]),
        (["/dev/shm/x", "/tmpfiles"], ["/dev/shm/x"]),
    ],
)
def test_only_directories_below_private_paths_need_sharing(paths: list[str], wanted: list[str]) -> None:
    assert namespaces.hidden([Path(path) for path in paths]) == [Path(path) for path in wanted]


@pytest.mark.parametrize(("status", "wanted"), [(0, 0), (3 << 8, 3), (9, 137), (15, 143)])
def test_exit_statuses_are_a_shells(status: int, wanted: int) -> None:
    assert namespaces.exit_status(status) == wanted


def test_an_interrupt_that_python_dropped_is_not_lost() -> None:
    """A KeyboardInterrupt inside a hook of os.fork is printed and dropped; the next check raises it."""
    from mpibench.cluster import lifecycle

    with lifecycle._interruptible() as check:
        check()
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
