"""Follows the README on a minimal Debian with nothing but python3, as an ordinary user and as root.

    ci/bare-machine                  both lanes, about 20 minutes on two cores
    ci/bare-machine user             one lane: user, root; or whole: the whole test suite, as
    continuous integration runs it ci/bare-machine --only WORD      only steps with that word in
    their title, after the set-up; repeatable ci/bare-machine --list           list the steps and
    run none

Tests the committed state of this checkout, without its caches. Needs root and debootstrap. The
minimal Debian is made from this machine's package sources and kept for a week (--cache DIR, by
default ~/.cache/mpibench/bare-machine); each lane works in a copy that is removed at its end
(--keep leaves it and prints its path). Logs: results/bare-machine/.

Exit status: 0 all steps passed; 1 one failed; 2 this cannot be run here, or wrong usage.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

PROJECT = Path(__file__).resolve().parents[1]
ACTIVATE = ". .venv/bin/activate\n"
#: A group of tests that meets host packages, the cluster's own packages and both together.
TESTS = (
    "process/project/test_setup",
    "process/cluster/test_cluster_packages",
    "cluster/fabrics/test_cluster_run",
    "cluster/test_cluster_ends",
    "process/stacks/test_system_stacks",
    "mpi/test_system_stacks_mpi",
    "cluster/fabrics/test_system_stacks_cluster",
)
CLUSTER = f"""{ACTIVATE}trap 'mpibench cluster down' EXIT
mpibench cluster up
mpibench cluster exec -- reframe -c reframe_tests -r -S level=smoke --system=minicluster \
    -n 'ImbPointToPoint%fabric=eth1g%nodes=2%ppn=1%pinning=default' -p mpich-wheels
"""
CLUSTER_SAYS = (
    r"Slurm: c1 idle, c2 idle",
    r"\[ +OK *\] \(2/2\)",
    r"\[ +PASSED +\] Ran 2/2",
    r"the cluster is down",
)
#: What tests need (ci/tests/support/untested.py) and a bare machine cannot have.
MAY_SKIP = "spack pushgateway git sources"
DEBIAN_MPI = (
    "apt-get install --yes openmpi-bin mpich || { apt-get update; apt-get install --yes "
    "openmpi-bin mpich; }"
)


class Step(NamedTuple):
    """Something to run inside.

    :param title: what it is; also the name of its log.
    :param command: lines for bash, in the project's folder.
    :param says: patterns that its output must have; a program that says nothing has not done it.
    """

    title: str
    command: str
    as_root: bool = False
    says: tuple[str, ...] = ()
    limit_s: int = 1200


def _tests(*modules: str) -> str:
    return (
        f"{ACTIVATE}python -m pytest -q -p no:cacheprovider "
        f"{' '.join(f'ci/tests/{module}.py' for module in modules)}"
    )


#: Lane to what it does, in this order: packages of the host come after
#: the cluster was used (user) and before (root).
LANES: dict[str, tuple[Step, ...]] = {
    "user": (
        Step(
            "ci-nightly",
            "MODE=smoke ci/nightly",
            says=(r"setup: ready: ", r"done: results/report.html"),
        ),
        Step(
            "reframe -l", f"{ACTIVATE}reframe -c reframe_tests -l", says=(r"Found [1-9]\d* check",)
        ),
        Step(
            "stored sessions",
            f"{ACTIVATE}reframe --list-stored-sessions",
            says=(r"(?i)uuid", r"[0-9a-f]{8}-[0-9a-f]{4}"),
        ),
        Step("doctor", f"{ACTIVATE}mpibench doctor", says=(r"mpich-wheels",)),
        Step("cluster, first", CLUSTER, says=CLUSTER_SAYS),
        Step("host packages", DEBIAN_MPI, as_root=True),
        Step("cluster, again", CLUSTER, says=CLUSTER_SAYS),
        Step("set-up for tests", "ci/setup test", says=(r"setup: ready: ",)),
        Step("tests", _tests(*TESTS), says=(r"\d+ passed",)),
    ),
    "root": (
        Step(
            "set-up for tests",
            "ci/setup test",
            as_root=True,
            says=(r"setup: ready: ", r"apt-get install chromium"),
        ),
        Step("host packages", DEBIAN_MPI, as_root=True),
        Step(
            "tests",
            _tests(*TESTS, "judge/verdicts/test_rebaseline"),
            as_root=True,
            says=(r"\d+ passed",),
        ),
        Step("cluster", CLUSTER, as_root=True, says=CLUSTER_SAYS),
        Step("doctor", f"{ACTIVATE}mpibench doctor", as_root=True, says=(r"mpich-wheels",)),
    ),
    "whole": (
        Step(
            "ci-test",
            f"CI=true MPIBENCH_MAY_SKIP='{MAY_SKIP}' ci/test",
            as_root=True,
            says=(r"\d+ passed",),
            limit_s=5400,
        ),
    ),
}
USUAL = ("user", "root")
#: Steps that others stand on; --only leaves them in.
FOUNDATIONS = ("ci-nightly", "set-up for tests", "ci-test")

#: Exit status of a step that ran into its limit, as timeout(1) has it.
TIMED_OUT = 124
HEARTBEAT_S = 30.0
#: A base older than this is made again, in seconds: its package
#: lists would no longer fit the archive.
BASE_LASTS_S = 7 * 24 * 3600
#: Variables that say how to reach the network and whom to trust
#: there; nothing else is carried inside.
CARRIED = re.compile(
    r"(?i)(https?|ftp|all|no)_proxy"
    r"|(?-i:SSL_CERT_FILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    r"|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|CERT|CLIENT_CERT|PROXY|DEFAULT_TIMEOUT"
    r"|RETRIES))"
)
#: Settings of apt that say how files are fetched, not what is done
#: with them (apt.conf(5), "The Acquire group").
ACQUIRE = re.compile(
    r"(?i)^Acquire::(https?|ftp|ForceIPv[46]|Retries|Check-Valid-Until|Check-Date"
    r'|Max-FutureTime)\b.* ".+";$'
)
PIP_SETTINGS = ("/etc/pip.conf", "/etc/xdg/pip/pip.conf")
PIP_SETTINGS_OF_USER = (".config/pip/pip.conf", ".pip/pip.conf")
KEYRINGS = ("/usr/share/keyrings", "/etc/apt/keyrings", "/etc/apt/trusted.gpg.d")
#: The ordinary user inside; Debian gives the first one this number.
USER = "tester"
USER_ID = 1000
#: ReFrame colours its words also where nobody looks (ECMA-48, 8.3.117: select graphic rendition).
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: Process 1 of a step, in namespaces of its own: a machine that has just started, with root $1
#: (pivot_root(8): chroot alone would refuse user namespaces), then the words from $2 on. When it
#: ends, the kernel ends everything inside, with its mounts.
BOX = r"""
set -e
cd -- "$1"; shift
mount --bind . . && cd "$PWD"
mount -t proc -o nosuid,noexec,nodev proc proc
mount -t sysfs -o nosuid,noexec,nodev sysfs sys
[ ! -d /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount -t tmpfs -o nosuid,mode=755 tmpfs dev
mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs run
for name in null zero full random urandom tty; do
    [ ! -e "/dev/$name" ] || { : >"dev/$name"; mount --bind "/dev/$name" "dev/$name"; }
done
mkdir dev/pts dev/shm
mount -t devpts -o nosuid,noexec,newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
mount -t tmpfs -o nosuid,noexec,mode=1777 tmpfs dev/shm
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
ln -s pts/ptmx dev/ptmx
echo bare >proc/sys/kernel/hostname
mkdir -p run/outside
pivot_root . run/outside
cd /
umount --lazy /run/outside
echo entered >&3
exec 3>&-
set +e
"$@"
exit $?
"""

_began = time.monotonic()


class Failed(Exception):
    """It was tried and went wrong."""

    status = 1


class Impossible(Failed):
    """This cannot be tried here."""

    status = 2


def say(text: str) -> None:
    print(f"bare-machine: [{time.monotonic() - _began:4.0f} s] {text}", flush=True)


def choose(lanes: Sequence[str], words: Sequence[str]) -> dict[str, tuple[Step, ...]]:
    """The steps asked for, by lane."""
    if unknown := [lane for lane in lanes if lane not in LANES]:
        raise Impossible(f"there is no lane {unknown[0]!r}; there are {', '.join(LANES)}.")
    chosen = {lane: LANES[lane] for lane in lanes or USUAL}
    for word in words:
        if not any(word in step.title for steps in chosen.values() for step in steps):
            raise Impossible(f"no step has {word!r} in its title; see ci/bare-machine --list.")
    for lane, steps in chosen.items() if words else ():
        first = next(at for at, step in enumerate(steps) if step.title in FOUNDATIONS)
        chosen[lane] = (
            *steps[: first + 1],
            *(s for s in steps[first + 1 :] if any(word in s.title for word in words)),
        )
    return chosen


# The minimal root. Nothing names a server: sources, apt's and pip's settings, proxies and
# certificates are this machine's.


def _output(*words: str, **variables: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C", **variables}
    )
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise Failed(f"'{' '.join(words)}' failed: {reason[-1]}.")
    return done.stdout


def install_debootstrap(environ: Mapping[str, str]) -> None:
    """Installed where host packages may be, as ``ci/setup`` does, else asked for."""
    wish = environ.get("MPIBENCH_INSTALL", "")
    if (
        not shutil.which("debootstrap")
        and shutil.which("apt-get")
        and (wish == "yes" or (not wish and environ.get("CI") == "true"))
    ):
        say("installing debootstrap")
        words = "apt-get install --yes --no-install-recommends debootstrap"
        inside = {**environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(
            ["/bin/sh", "-c", f"{words} || {{ apt-get update; {words}; }}"],
            capture_output=True,
            env=inside,
        )
    if not shutil.which("debootstrap"):
        raise Impossible(
            "there is no debootstrap here; apt-get install debootstrap, or MPIBENCH_INSTALL=yes "
            "lets this do it."
        )


def find_source(scratch: Path, os_release: Path = Path("/etc/os-release")) -> tuple[str, str, str]:
    """Release, address of its archive and file of keys (or nothing)
    that this machine itself is installed from.

    :param scratch: folder for package lists, where the machine has none.
    """
    words = dict(
        re.findall(r'(?m)^(\w+)="?(.*?)"?$', os_release.read_text() if os_release.exists() else "")
    )
    suite = words.get("VERSION_CODENAME", "")
    if not suite or not shutil.which("apt-get"):
        raise Impossible(
            "this machine runs neither Debian nor Ubuntu (no apt-get, or no VERSION_CODENAME); "
            "run it on one."
        )
    fields = "$(CODENAME)\t$(SUITE)\t$(COMPONENT)\t$(REPO_URI)\t$(SIGNED_BY)"
    for options in ([], ["-o", f"Dir::State::lists={scratch}", "-o", "Debug::NoLocking=1"]):
        if options:
            (scratch / "partial").mkdir(parents=True, exist_ok=True)
            _output("apt-get", *options, "update")
        asked = _output(
            "apt-get", *options, "indextargets", "--format", fields, "Created-By: Packages"
        )
        for codename, _, component, mirror, keyring in (
            line.split("\t") for line in asked.splitlines()
        ):
            if codename == suite and component == "main":
                return suite, mirror, keyring if Path(keyring).is_file() else ""
    raise Failed(
        f"apt has no source for component 'main' of {suite}; add one to /etc/apt/sources.list.d."
    )


def provide_base(cache: Path, log: Path) -> Path:
    """The minimal root, made with debootstrap where the cache has no fresh one."""
    base = cache / "base"
    partial = cache / "base.partial"
    if base.exists() and time.time() - base.stat().st_mtime < BASE_LASTS_S:
        say(f"the minimal root is in {base}")
        return base
    for stale in (base, partial, cache / "lists"):
        remove(stale)
    suite, mirror, keyring = find_source(cache / "lists")
    say(f"making a minimal root of {suite} in {base}: what is required, and python3 (about 270 MB)")
    options = [
        "--variant=minbase",
        "--include=python3",
        "--force-check-gpg",
        *([f"--keyring={keyring}"] if keyring else []),
    ]
    # debootstrap mounts /proc inside; in a mount namespace of its
    # own that ends with it, however it ends.
    fence = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]
    with log.open("w") as stream:
        words = [*fence, "debootstrap", *options, suite, str(partial), mirror]
        status = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        ).returncode
    if status:
        raise Failed(
            f"debootstrap failed ({last_line(log)}); check apt's sources, its log is {log}."
        )
    partial.rename(base)
    os.utime(base)
    say("made")
    return base


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "no message")


def remove(folder: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> None:
    """Remove a tree, but never what is mounted in it."""
    mounted = [line.split()[4] for line in mountinfo.read_text().splitlines()]
    if below := [path for path in mounted if f"{path}/".startswith(f"{folder}/")]:
        raise Failed(f"{below[0]} is a mount point; unmount it, then run the command again.")
    if folder.exists():
        shutil.rmtree(folder)


def carried_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if CARRIED.fullmatch(name)}


def copy(base: Path, root: Path, environ: Mapping[str, str]) -> None:
    """A root to work in: the base with this machine's way to the network, and an ordinary user."""

    def carry(path: Path, inside: str | Path = "") -> None:
        """A file, links followed, to a place inside; by default the same."""
        if path.is_file():
            target = root / str(inside or path).lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copy(path, target)

    _output("cp", "--archive", "--reflink=auto", str(base), str(root))
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    sources = [
        path
        for path in Path("/etc/apt/sources.list.d").glob("*")
        if path.suffix in (".list", ".sources")
    ]
    for path in (
        *map(Path, ("/etc/resolv.conf", "/etc/hosts", "/etc/apt/sources.list", *PIP_SETTINGS)),
        *sources,
    ):
        carry(path)
    for folder in filter(os.path.isdir, KEYRINGS):
        shutil.copytree(folder, root / folder.lstrip("/"), dirs_exist_ok=True)
    (root / "etc/apt/apt.conf.d").mkdir(parents=True, exist_ok=True)
    lines = [line for line in _output("apt-config", "dump").splitlines() if ACQUIRE.match(line)]
    (root / "etc/apt/apt.conf.d/90machine").write_text("".join(f"{line}\n" for line in lines))
    with (root / "etc/passwd").open("a") as users, (root / "etc/group").open("a") as groups:
        users.write(f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/bash\n")
        groups.write(f"{USER}:x:{USER_ID}:\n")
    own = [Path(environ.get("HOME", "/root"), name) for name in PIP_SETTINGS_OF_USER]
    for home in ("/root", f"/home/{USER}"):
        (root / home.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for name, path in zip(PIP_SETTINGS_OF_USER, own, strict=True):
            carry(path, f"{home}/{name}")
    # Certificates, by the names they are known under here.
    settings = "\n".join(
        path.read_text() for path in (*map(Path, PIP_SETTINGS), *own) if path.is_file()
    )
    named = re.findall(r"(?m)^\s*(?:client-)?cert\s*=\s*(/\S+)\s*$", settings)
    for value in (
        *named,
        *(value for value in carried_variables(environ).values() if value.startswith("/")),
    ):
        carry(Path(value))
    give(root / "home" / USER)


def give(folder: Path) -> None:
    """Make the ordinary user the owner of a tree."""
    _output("chown", "--recursive", "--no-dereference", f"{USER_ID}:{USER_ID}", str(folder))


def _git(*words: str) -> str:
    """Run git on a checkout that may be somebody else's, as those of
    continuous integration are (git-config(1)).
    """
    with tempfile.NamedTemporaryFile("w", prefix="gitconfig-") as settings:
        settings.write("[safe]\n\tdirectory = *\n")
        settings.flush()
        return _output("git", *words, GIT_CONFIG_GLOBAL=settings.name)


def clone(project: Path, target: Path) -> None:
    """The committed state of the project."""
    if not shutil.which("git") or not (project / ".git").exists():
        raise Impossible(
            f"{project} is not a git checkout, or there is no git; what is committed is what "
            "would be tried."
        )
    _git("clone", "--quiet", "--no-hardlinks", "--depth=1", f"file://{project}", str(target))


def uncommitted(project: Path) -> int:
    """Number of files that a clone does not have as they are here."""
    return len(_git("-C", str(project), "status", "--porcelain").splitlines())


# Steps


def run_step(root: Path, project: str, step: Step, log: Path, variables: Mapping[str, str]) -> int:
    """Run a step inside ``root``, in namespaces of its own: its exit status, that of a shell.

    However this ends, nothing of the step runs any more and nothing is mounted.
    """
    home, user = ("/root", "root") if step.as_root else (f"/home/{USER}", USER)
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    inside = {
        **variables,
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "PATH": path,
        "LANG": "C.UTF-8",
    }
    number = "0" if step.as_root else str(USER_ID)
    become = [
        "setpriv",
        f"--reuid={number}",
        f"--regid={number}",
        "--clear-groups",
        "env",
        "--ignore-environment",
    ]
    become += [*(f"{name}={value}" for name, value in inside.items())]
    words = [
        *become,
        "setsid",
        "--wait",
        "bash",
        "-euo",
        "pipefail",
        "-c",
        f"cd {shlex.quote(project)}\n{step.command}",
    ]
    # A signal at the parent's death goes with a change of user
    # (prctl(2)): process 1 stays root and waits.
    apart = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--ipc",
        "--uts",
        "--fork",
        "--kill-child=KILL",
    ]
    reading, writing = os.pipe()
    with log.open("w") as stream, os.fdopen(reading) as entered:
        process = subprocess.Popen(
            [
                *apart,
                "bash",
                "-c",
                f"exec 3>&{writing} {writing}>&-\n{BOX}",
                "bare-machine",
                str(root),
                *words,
            ],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env={"PATH": path},
            pass_fds=(writing,),
            start_new_session=True,
        )
        os.close(writing)
        try:
            if not entered.readline():
                raise Impossible(
                    f"this machine refuses a namespace or a mount ({last_line(log)}); start it "
                    "as real root."
                )
            began = time.monotonic()
            while (taken := time.monotonic() - began) < step.limit_s:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(min(HEARTBEAT_S, step.limit_s - taken))
                if time.monotonic() - began < step.limit_s:
                    say(f"    still at it after {time.monotonic() - began:.0f} s")
            stream.write(f"\nbare-machine: ended at its limit of {step.limit_s} s\n")
            return TIMED_OUT
        finally:
            # The end of process 1 is that of everything inside, and unshare waits for it.
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            with suppress(OSError):
                for pid in children.read_text().split() or [str(process.pid)]:
                    os.kill(int(pid), signal.SIGKILL)
            process.wait()


def judge(status: int, step: Step, log: Path) -> str:
    """Why a step failed, or an empty text."""
    if status == TIMED_OUT:
        return f"ended at its limit of {step.limit_s} s"
    if status:
        return f"exit status {status}"
    text = COLOUR.sub("", log.read_text(errors="replace"))
    absent = [pattern for pattern in step.says if not re.search(pattern, text)]
    return f"its output has nothing like '{absent[0]}'" if absent else ""


def run_lane(
    lane: str, steps: Sequence[Step], base: Path, cache: Path, logs: Path, keep: bool
) -> list[tuple[str, ...]]:
    """Run a lane in a copy of the base; rows of the table."""
    scratch = Path(tempfile.mkdtemp(dir=cache, prefix="run-"))
    scratch.chmod(0o755)
    rows: list[tuple[str, ...]] = []
    try:
        with (scratch / ".lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            root = scratch / "root"
            copy(base, root, os.environ)
            # Root's where everybody may read it, as a site would install it:
            # some tests of root try it as somebody else.
            place = "opt" if steps[0].as_root else f"home/{USER}"
            clone(PROJECT, root / place / "mpibench")
            if not steps[0].as_root:
                give(root / place)
            for step in steps:
                say(f"{lane}: {step.title}")
                log, began = (
                    logs / f"{lane}-{re.sub('[^a-z]+', '-', step.title)}.log",
                    time.monotonic(),
                )
                status = run_step(
                    root, f"/{place}/mpibench", step, log, carried_variables(os.environ)
                )
                took, problem = f"{time.monotonic() - began:.0f} s", judge(status, step, log)
                rows.append((lane, step.title, took, problem or "ok"))
                say(f"{lane}: {step.title}: {problem or 'ok'} after {took}")
                for line in log.read_text(errors="replace").splitlines()[-30:] if problem else ():
                    print(f"    | {line}", flush=True)
    finally:
        if keep:
            (scratch / ".lock").unlink(missing_ok=True)  # the mark of what may be removed
            say(f"{lane}: left in {scratch}; remove it when done")
        else:
            remove(scratch)
    return rows


def remove_stale(cache: Path) -> None:
    """Copies whose command was killed; whoever is at work holds a lock."""
    for lock in cache.glob("run-*/.lock"):
        with lock.open("w") as tried, suppress(BlockingIOError):
            fcntl.flock(tried, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(lock.parent)


def format_table(rows: Iterable[Sequence[str]]) -> str:
    table = [("lane", "step", "time", "outcome"), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def run(arguments: Sequence[str]) -> int:
    """Do what the command line says; the exit status."""
    parser = argparse.ArgumentParser(
        prog="ci/bare-machine",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "lanes",
        nargs="*",
        metavar="LANE",
        help=f"{', '.join(LANES)}; default: {' and '.join(USUAL)}",
    )
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--cache", type=Path, metavar="DIR")
    options = parser.parse_args(arguments)
    chosen = choose(options.lanes, options.only)
    if options.list:
        all_steps = ((lane, step) for lane, steps in chosen.items() for step in steps)
        print(
            format_table(
                (lane, s.title, f"<= {s.limit_s} s", "root" if s.as_root else "user")
                for lane, s in all_steps
            )
        )
        return 0
    if os.geteuid() != 0:
        raise Impossible("only root can make a root file system and enter it; run it with sudo.")
    install_debootstrap(os.environ)
    if not (PROJECT / ".git").exists():
        raise Impossible(
            f"{PROJECT} is not a git checkout; what is committed is what would be tried."
        )
    usual = Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "mpibench/bare-machine"
    )
    cache = (options.cache or usual).absolute()
    logs = PROJECT / "results" / "bare-machine"
    for folder in (cache, logs):
        folder.mkdir(parents=True, exist_ok=True)
    if changed := uncommitted(PROJECT):
        say(f"{changed} files differ from what is committed; what is committed is tried")
    with (cache / "base.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remove_stale(cache)
        base = provide_base(cache, logs / "debootstrap.log")
    rows = [
        row
        for lane, steps in chosen.items()
        for row in run_lane(lane, steps, base, cache, logs, options.keep)
    ]
    print(f"\n{format_table(rows)}\n")
    failed = sum(row[-1] != "ok" for row in rows)
    say(
        f"{failed} of {len(rows)} steps failed; logs are in {logs}"
        if failed
        else f"all {len(rows)} steps went well"
    )
    return int(bool(failed))


def _ended(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def main(arguments: Sequence[str]) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ended)
    try:
        return run(arguments)
    except Failed as error:
        print(f"bare-machine: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("bare-machine: interrupted; nothing is left mounted or running", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
