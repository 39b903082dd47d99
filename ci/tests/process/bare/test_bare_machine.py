"""ci/bare-machine: what it runs, what it refuses, what it takes inside, and that nothing of it stays."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import bare_machine
import untested
from bare_machine import Failed, Step
from live_cluster import wait_for
from reframe_tests.harness.stacks import metadata

ROOT = metadata.ROOT


def command(*words: str, **environ: str) -> tuple[int, str]:
    """The command as users run it; exit status and both streams."""
    done = subprocess.run(
        [str(ROOT / "ci/bare-machine"), *words],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        cwd="/",
    )
    return done.returncode, done.stdout


def test_the_list_has_what_the_readme_promises_in_both_orders() -> None:
    status, output = command("--list")
    assert status == 0
    rows = [re.split("  +", line) for line in output.splitlines()]
    assert rows[0] == ["lane", "step", "time", "outcome"]
    user = [title for lane, title, *_ in rows if lane == "user"]
    root = [title for lane, title, *_ in rows if lane == "root"]
    assert user[:5] == ["ci-nightly", "reframe -l", "stored sessions", "doctor", "cluster, first"]
    assert user.index("cluster, first") < user.index("host packages") < user.index("cluster, again") < user.index("tests")
    assert root.index("host packages") < root.index("tests") < root.index("cluster")
    assert not any(step.as_root for step in bare_machine.LANES["user"] if step.title != "host packages")
    assert all(step.as_root for step in bare_machine.LANES["root"])


def test_the_tests_it_runs_exist() -> None:
    named = re.findall(
        r"ci/tests/([\w/]+\.py)", " ".join(step.command for lane in bare_machine.LANES.values() for step in lane)
    )
    assert len(named) >= 2 * len(bare_machine.TESTS) - 1
    assert all((ROOT / "ci/tests" / name).is_file() for name in named)
    assert set(bare_machine.MAY_SKIP.split()) <= set(untested.NEEDS)


def test_some_steps_stand_on_others() -> None:
    chosen = bare_machine.choose(["user"], ["doctor"])
    assert [step.title for step in chosen["user"]] == ["ci-nightly", "doctor"]
    assert [step.title for step in bare_machine.choose([], ["cluster"])["root"]] == ["set-up for tests", "cluster"]
    assert list(bare_machine.choose([], [])) == ["user", "root"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["users"], "bare-machine: there is no lane 'users'; there are user, root, whole.\n"),
        (["--only", "dokter"], "bare-machine: no step has 'dokter' in its title; see ci/bare-machine --list.\n"),
    ],
)
def test_a_word_that_names_nothing_is_refused(words: list[str], sentence: str) -> None:
    assert command(*words) == (2, sentence)


def test_without_a_suitable_python_it_says_so(tmp_path: Path) -> None:
    for name in ("python3", "mpython"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    script = (ROOT / "ci/bare-machine").read_text().replace("/usr/bin/python3", str(tmp_path / "mpython"))
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/bare-machine").write_text(script)
    words = ["bash", str(tmp_path / "ci/bare-machine")]
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60)
    said = "bare-machine: no Python >= 3.10 on PATH; install one, or name it with MPIBENCH_PYTHON=<path>.\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_only_root_may(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert bare_machine.main([]) == 2
    said = "bare-machine: only root can make a root file system and enter it; run it with sudo.\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("environ", "installed"),
    [
        ({}, False),
        ({"CI": "true"}, True),
        ({"MPIBENCH_INSTALL": "yes"}, True),
        ({"CI": "true", "MPIBENCH_INSTALL": "no"}, False),
    ],
)
def test_debootstrap_is_installed_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], installed: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "apt-get").write_text(f"#!/bin/sh\n/bin/cp {tmp_path}/apt-get {tmp_path}/$4\n")
    (tmp_path / "apt-get").chmod(0o755)
    refusal = pytest.raises(Failed, match="no debootstrap here; apt-get install debootstrap, or MPIBENCH_INSTALL=yes")
    with contextlib.nullcontext() if installed else refusal:
        bare_machine.install_debootstrap({**environ, "PATH": str(tmp_path)})
    assert (tmp_path / "debootstrap").exists() == installed


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="[debian] this machine has no apt")
def test_a_root_that_cannot_be_made_is_a_failure_and_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Continuous integration passes over what cannot be tried, not over what went wrong."""
    source = ("bookworm", "http://127.0.0.1:9/debian/", "")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(bare_machine, "find_source", lambda _: source)
    monkeypatch.setattr(bare_machine, "install_debootstrap", lambda *_: None)
    monkeypatch.setattr(bare_machine, "PROJECT", tmp_path)
    monkeypatch.setattr(bare_machine, "uncommitted", lambda _: 0)
    (tmp_path / ".git").mkdir()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, line in {
        "setpriv": 'while [[ $1 != debootstrap ]]; do shift; done; exec "$@"',
        "debootstrap": "echo E: no archive; exit 1",
    }.items():
        (tools / name).write_text(f"#!/bin/bash\n{line}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    assert bare_machine.main(["user", "--cache", str(tmp_path / "cache")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("bare-machine: debootstrap failed (E: no archive); check apt's sources, its log is ")
    assert not (tmp_path / "cache/base").exists()


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for apt's programs; the file is what ``apt-get indextargets`` prints."""
    tools, targets = tmp_path / "tools", tmp_path / "targets"
    tools.mkdir()
    (tools / "apt-get").write_text(f'#!/bin/sh\ncase "$*" in *" update") touch {targets}.updated ;; esac\ncat {targets}\n')
    lines = 'Acquire::http::Proxy "http://proxy:3128";\nAcquire::Languages "none";\nAPT::Install-Recommends "0";\n'
    (tools / "apt-config").write_text(f"#!/bin/sh\nprintf '%s' '{lines}'\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    (tmp_path / "os-release").write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
    return targets


def test_the_archive_is_that_of_this_machines_release(apt: Path, tmp_path: Path) -> None:
    key = tmp_path / "key.gpg"
    key.touch()
    apt.write_text(
        "nodistro\tnodistro\tmain\thttps://other/\t\n"
        "bookworm\tstable\tcontrib\thttp://mirror/contrib/\t\n"
        f"bookworm\tstable\tmain\thttp://mirror/debian/\t{key}\n"
    )
    found = bare_machine.find_source(tmp_path / "lists", tmp_path / "os-release")
    assert found == ("bookworm", "http://mirror/debian/", str(key))
    assert not Path(f"{apt}.updated").exists()
    apt.write_text("trixie\tstable\tmain\thttp://mirror/debian/\t\n")
    with pytest.raises(Failed, match="apt has no source for component 'main' of bookworm"):
        bare_machine.find_source(tmp_path / "lists", tmp_path / "os-release")
    assert Path(f"{apt}.updated").exists()  # lists of its own, where the machine has none
    with pytest.raises(Failed, match="neither Debian nor Ubuntu"):
        bare_machine.find_source(tmp_path / "lists", tmp_path / "nothing")


def test_only_the_way_to_the_network_is_carried_inside() -> None:
    carried = {"https_proxy": "http://p", "NO_PROXY": "x", "PIP_INDEX_URL": "https://i", "SSL_CERT_FILE": "/c.pem"}
    others = {"HOME": "/root", "PATH": "/bin", "CI": "true", "RFM_CONFIG_FILES": "x", "PIP_TARGET": "/t", "MY_PIP_CERT": "x"}
    assert bare_machine.carried_variables(carried | others) == carried


def test_a_copy_reaches_the_network_as_this_machine_does(apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare_machine, "give", lambda folder: None)
    base, certificate, home = tmp_path / "base", tmp_path / "ca.pem", tmp_path / "home"
    for name in ("etc/apt", "root"):
        (base / name).mkdir(parents=True)
    (base / "etc/passwd").write_text("root:x:0:0::/root:/bin/bash\n")
    (base / "etc/group").write_text("root:x:0:\n")
    certificate.write_text("a certificate\n")
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text("[global]\nindex-url = https://mirror/simple\n")
    bare_machine.copy(base, tmp_path / "copy", {"HOME": str(home), "PIP_CERT": str(certificate)})
    inside = tmp_path / "copy"
    assert (inside / "etc/passwd").read_text().endswith("tester:x:1000:1000::/home/tester:/bin/bash\n")
    assert (inside / "etc/apt/apt.conf.d/90machine").read_text() == 'Acquire::http::Proxy "http://proxy:3128";\n'
    assert (inside / str(certificate).lstrip("/")).read_text() == "a certificate\n"
    for user in ("root", "home/tester"):
        assert "mirror/simple" in (inside / user / ".config/pip/pip.conf").read_text()
    assert (base / "etc/passwd").read_text() == "root:x:0:0::/root:/bin/bash\n"


@pytest.mark.parametrize("owner", [0, 1000], ids=["own", "anothers"])
@pytest.mark.skipif(shutil.which("git") is None, reason="[git] no git here")
def test_what_is_tried_is_what_is_committed(tmp_path: Path, owner: int) -> None:
    if owner and os.geteuid() != 0:
        pytest.skip("[root] only root can give a checkout to somebody else")
    project = tmp_path / "project"
    git = ["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    (project / "file").write_text("committed\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "x"], check=True)
    if owner:
        subprocess.run(["chown", "-R", str(owner), str(project)], check=True)
    assert bare_machine.uncommitted(project) == 0
    (project / "file").write_text("changed\n")
    assert bare_machine.uncommitted(project) == 1
    bare_machine.clone(project, tmp_path / "clone")
    assert (tmp_path / "clone/file").read_text() == "committed\n"
    with pytest.raises(Failed, match="is not a git checkout"):
        bare_machine.clone(tmp_path, tmp_path / "other")


def test_a_tree_with_a_mount_in_it_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "run-1/root/proc").mkdir(parents=True)
    table = tmp_path / "mountinfo"
    table.write_text(f"30 29 0:5 / {tmp_path}/run-1/root/proc rw - proc proc rw\n")
    with pytest.raises(Failed, match="run-1/root/proc is a mount point; unmount it"):
        bare_machine.remove(tmp_path / "run-1", table)
    assert (tmp_path / "run-1/root/proc").exists()
    table.write_text(f"30 29 0:5 / {tmp_path}/run-10 rw - proc proc rw\n")
    bare_machine.remove(tmp_path / "run-1", table)
    assert not (tmp_path / "run-1").exists()


def test_copies_of_killed_commands_go_and_those_at_work_stay(tmp_path: Path) -> None:
    for name in ("run-dead", "run-alive", "run-starting"):
        (tmp_path / name).mkdir()
    (tmp_path / "run-dead/.lock").touch()
    with (tmp_path / "run-alive/.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        bare_machine.remove_stale(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-alive", "run-starting"]


@pytest.mark.parametrize(
    ("status", "text", "problem"),
    [
        (0, "\x1b[32m  OK \x1b[0m done: 5 passed\n", ""),
        (0, "", "its output has nothing like 'OK'"),
        (3, "OK done: 5 passed\n", "exit status 3"),
        (bare_machine.TIMED_OUT, "OK 5 passed\n", "ended at its limit of 1200 s"),
    ],
)
def test_a_step_is_judged_by_status_and_words(tmp_path: Path, status: int, text: str, problem: str) -> None:
    step = Step("x", "true", says=("OK", r"OK +done: \d passed"))
    (tmp_path / "log").write_text(text)
    assert bare_machine.judge(status, step, tmp_path / "log") == problem


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A root file system with bash, what a step is started with, and nothing else."""
    if os.geteuid() != 0:
        pytest.skip("[root] only root can enter another root file system")
    root = tmp_path / "root"
    for name in ("proc", "sys", "dev", "run", "tmp", "home/tester", "root", "bin"):
        (root / name).mkdir(parents=True)
    programs = [shutil.which(name) or "" for name in ("bash", "env", "setpriv", "setsid", "umount")]
    for program in programs:
        shutil.copy(program, root / "bin")
    for library in re.findall(r"(/\S+)(?= \()", subprocess.run(["ldd", *programs], capture_output=True, text=True).stdout):
        (root / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, root / library.lstrip("/"))
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    return root


def run_in(root: Path, *steps: Step) -> tuple[list[int], list[str]]:
    logs = [root.parent / f"{number}.log" for number in range(len(steps))]
    variables = {"PIP_CERT": "/ca.pem"}
    found = [bare_machine.run_step(root, "/home/tester", step, log, variables) for step, log in zip(steps, logs, strict=True)]
    return found, [log.read_text() for log in logs]


#: A sleep for a machine without programs.
SLEEP = "read -r -t 1000 <> <(:) || true"


def test_steps_run_inside_as_the_user_asked_for(tiny: Path) -> None:
    ask = 'echo "$EUID $HOME $PWD $PIP_CERT ${PYTHONPATH-none} $HOSTNAME"; for f in /*; do echo "$f"; done'
    before = Path("/proc/self/mountinfo").read_text()
    statuses, said = run_in(tiny, Step("user", ask), Step("root", ask, as_root=True), Step("bad", "echo no; exit 3"))
    assert statuses == [0, 0, 3]
    assert said[0].splitlines()[0] == "1000 /home/tester /home/tester /ca.pem none bare"
    assert said[1].splitlines()[0] == "0 /root /home/tester /ca.pem none bare"
    assert said[0].splitlines()[1:] == sorted(f"/{path.name}" for path in tiny.iterdir())
    assert Path("/proc/self/mountinfo").read_text() == before
    bare_machine.remove(tiny)


def test_a_step_that_hangs_is_ended_and_leaves_nothing_to_the_next(tiny: Path) -> None:
    hang = Step("hang", f"({SLEEP}) & {SLEEP}", limit_s=1)
    count = Step("count", 'set -- /proc/[0-9]*; echo "$# processes"')  # process 1 and this one
    statuses, said = run_in(tiny, hang, count)
    assert statuses == [bare_machine.TIMED_OUT, 0]
    assert said[0].endswith("ended at its limit of 1 s\n")
    assert said[1] == "2 processes\n"


def test_a_root_that_cannot_be_entered_is_one_sentence(tiny: Path) -> None:
    (tiny / "proc").rmdir()
    with pytest.raises(Failed, match="refuses a namespace or a mount"):
        run_in(tiny, Step("x", "true"))


def holders(log: Path) -> list[str]:
    """Processes that have this file open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may end meanwhile
            if any(entry.readlink() == log for entry in (process / "fd").iterdir()):
                found.append(process.name)
    return found


def test_who_gives_up_waiting_meets_a_quiet_tree(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after Ctrl-C: the tree is removed next, and nobody may be writing in it."""
    log = tiny.parent / "log"

    def interrupted(_: str) -> None:
        assert wait_for(lambda: "begun" in log.read_text(), 30)
        assert holders(log)
        raise KeyboardInterrupt

    monkeypatch.setattr(bare_machine, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(bare_machine, "say", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bare_machine.run_step(tiny, "/home/tester", Step("hang", f"({SLEEP}) & echo begun; {SLEEP}"), log, {})
    assert not holders(log)
    bare_machine.remove(tiny)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("wrong", [False, True], ids=["well", "interrupted"])
def test_a_lane_removes_its_copy_however_it_ends(tiny: Path, monkeypatch: pytest.MonkeyPatch, keep: bool, wrong: bool) -> None:
    cache = tiny.parent / "cache"
    cache.mkdir()
    monkeypatch.setattr(bare_machine, "copy", lambda base, root, _: shutil.copytree(base, root))
    monkeypatch.setattr(bare_machine, "clone", lambda _, target: target.mkdir(parents=True))
    steps = (
        Step("good", "echo good", as_root=True),
        Step("bad", f"echo bad; {SLEEP if wrong else 'true'}; exit 3", as_root=True),
    )
    if wrong:
        monkeypatch.setattr(bare_machine, "judge", lambda *_: signal.raise_signal(signal.SIGINT))
    expected = pytest.raises(KeyboardInterrupt) if wrong else contextlib.nullcontext()
    rows: list[tuple[str, ...]] = []
    with expected:
        rows = bare_machine.run_lane("root", steps, tiny, cache, tiny.parent, keep)
    assert [(row[1], row[3]) for row in rows] == ([] if wrong else [("good", "ok"), ("bad", "exit status 3")])
    assert len(list(cache.iterdir())) == keep
    bare_machine.remove_stale(cache)
    assert len(list(cache.iterdir())) == keep


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_command_leaves_no_process_and_no_mount(tiny: Path, number: int) -> None:
    log = tiny.parent / "log"
    code = (
        "import sys; from pathlib import Path; import bare_machine\n"
        f"step = bare_machine.Step('x', 'echo begun; ({SLEEP}) & {SLEEP}', as_root=True)\n"
        "bare_machine.run_step(Path(sys.argv[1]), '/root', step, Path(sys.argv[2]), {})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tiny), str(log)], cwd=ROOT / "ci")
    assert wait_for(lambda: log.exists() and "begun" in log.read_text(), 30)
    assert holders(log)
    process.send_signal(number)
    process.wait(30)
    assert wait_for(lambda: not holders(log), 30)
    assert str(tiny) not in Path("/proc/self/mountinfo").read_text()
    bare_machine.remove(tiny)
