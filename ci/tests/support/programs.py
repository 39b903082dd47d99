"""Programs made on the spot for tests, waiting for them, and job scripts as golden files have them."""

from __future__ import annotations

import json
import os
import re
import resource
import runpy
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

import synthetic_stack
from folders import DATA, write
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from synthetic_stack import sealed

# ---- Programs made on the spot for tests, shell lines in a mount namespace of their own, and a
# machine with small caches.


@contextmanager
def room_for(size_bytes: int) -> Iterator[None]:
    """No file can grow beyond this size, by a limit that anybody can set."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@cache
def instrument(group: str) -> SimpleNamespace:
    """What the instrument of a group defines, without MPI."""
    stand_in = ModuleType("mpi4py")
    vars(stand_in)["MPI"] = SimpleNamespace(Exception=RuntimeError, FLOAT=None)
    script = catalogue.SUITES[group].script
    assert script
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mpi4py", stand_in)
        return SimpleNamespace(**runpy.run_path(str(script.path)))


def compile_c(target: Path, text: str, *options: str) -> Path:
    """Compile C that loads libraries and has threads."""
    return synthetic_stack.compile_c(text, target, *options, "-ldl", "-lpthread")


def inside_namespace(folder: Path, *lines: str) -> None:
    """Run shell lines where they may mount what they like, unseen by
    the machine; skip where a user may not.
    """
    _need_namespaces()
    script = write(folder / "script", "\n".join(("set -e", *lines)))
    subprocess.run(["unshare", "-Urm", "sh", str(script)], check=True)


def with_small_caches(folder: Path, program: Path) -> Path:
    """A script that runs a program as if each cache of this machine had 4
    MiB, so that what must be larger is small.
    """
    _need_namespaces()
    size = write(folder / "size", "4096K\n")
    mounts = (
        "for each in /sys/devices/system/cpu/cpu*/cache/index*/size; do mount --bind {} $each "
        "|| exit; done; exec {} {}"
    )
    inside = mounts.format(shlex.quote(str(size)), shlex.quote(str(program)), '"$@"')
    text = f'#!/bin/sh\nexec unshare -Urm sh -c {shlex.quote(inside)} sh "$@"\n'
    return write(folder / "with-small-caches", text, executable=True)


def _need_namespaces() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("[namespaces] no unshare (util-linux) to mount in a namespace of its own")
    trial = ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("[namespaces] this machine does not let a user mount in a namespace of his own")


# ---- Programs that stand for osu_init and osu_hello of OMB 7.5: they print what those do, and
# start ranks of a real MPI.

#: Title, and the line of rank 0 in a program's words; whole milliseconds, as osu_init.c has them.
INIT = ("# OSU MPI Init Test v7.5", "nprocs: {size}, min: {low} ms, max: {high} ms, avg: {mean} ms")
HELLO = ("# OSU MPI Hello World Test v7.5", "This is a test with {size} processes")
_PROGRAM = """#!{python}
import time
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
begun = time.monotonic()
MPI.Init()
spent, world = int(1e3 * (time.monotonic() - begun)), MPI.COMM_WORLD
low, high, total = (world.reduce(spent, each) for each in (MPI.MIN, MPI.MAX, MPI.SUM))
if world.rank == 0:
    for line in {lines!r}:
        print(line.format(size=world.size, low=low, high=high, mean=total // world.size))
MPI.Finalize()
"""


def add_to(stack: Stack, folder: Path) -> str:
    """A stack ``NAME-startup`` in a folder of its own: a stack with
    mpi4py, and these two programs. Returns its name.
    """
    document = json.loads(Path(stack.source).read_text())
    python = document["commands"]["mpi4py.bench"][0]
    for name, lines in (("osu_init", INIT), ("osu_hello", HELLO)):
        text = _PROGRAM.format(python=python, lines=lines)
        document["binaries"][name] = str(write(folder / name, text, executable=True))
    document["suites"]["osu"] = {"version": "7.5", "built_with": "these tests"}
    document["name"] = f"{stack.mpi}-startup"
    write(folder / "stack.json", json.dumps(sealed(document)))
    return str(document["name"])


# ---- C that stands for an MPI library and for programs on it, in each way one can be loaded,
# entered, left or broken off.

#: An MPI library: the PMPI_ names are the functions and the MPI_
#: names weak aliases, as in all MPIs.
MPI_SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#define ALIAS(name) __attribute__((weak, alias(name)))
static int number(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }
int PMPI_Init(int *c, char ***v) { (void)c; (void)v; return number("FAKE_INIT_CODE", 0); }
int PMPI_Init_thread(int *c, char ***v, int wanted, int *got) { *got = wanted; return PMPI_Init(c, v); }
int PMPI_Finalize(void) { return 0; }
int PMPI_Get_library_version(char *text, int *length)
{
    strcpy(text, getenv("FAKE_VERSION") ? getenv("FAKE_VERSION") : "MPICH Version: 0 \"fake\"\n\tcaf\xc3\xa9 \\");
    *length = (int)strlen(text);
    return 0;
}
#ifdef OPENMPI
char ompi_mpi_comm_world[64];
#define HANDLE void *
#define WORLD (void *)ompi_mpi_comm_world
#else
#define HANDLE int
#define WORLD 0x44000000
#endif
int PMPI_Comm_rank(HANDLE world, int *rank) { if (world != WORLD) abort(); *rank = number("FAKE_RANK", 0); return 0; }
int PMPI_Comm_size(HANDLE world, int *size) { if (world != WORLD) abort(); *size = number("FAKE_SIZE", 1); return 0; }
int PMPI_Session_init(HANDLE info, HANDLE handler, HANDLE *session)
{
    (void)info; (void)handler; *session = (HANDLE)7; return number("FAKE_INIT_CODE", 0);
}
int PMPI_Session_finalize(HANDLE *session) { if (*session != (HANDLE)7) abort(); *session = 0; return 0; }
int MPI_Session_init(HANDLE info, HANDLE handler, HANDLE *session) ALIAS("PMPI_Session_init");
int MPI_Session_finalize(HANDLE *session) ALIAS("PMPI_Session_finalize");
int MPI_Init(int *c, char ***v) ALIAS("PMPI_Init");
int MPI_Init_thread(int *c, char ***v, int wanted, int *got) ALIAS("PMPI_Init_thread");
int MPI_Finalize(void) ALIAS("PMPI_Finalize");
"""

#: Fortran bindings on top of it, which call the PMPI_ functions (as the
#: f08 module of Intel MPI and Open MPI does).
FORTRAN_SOURCE = r"""
int PMPI_Init(int *, char ***);
int PMPI_Finalize(void);
void mpi_init_(int *code) { *code = PMPI_Init(0, 0); }
void mpi_finalize_(int *code) { *code = PMPI_Finalize(); }
void mpi_init_f08_(int *code) { *code = PMPI_Init(0, 0); }
void mpi_finalize_f08_(int *code) { *code = PMPI_Finalize(); }
"""

#: So many bytes through a TCP connection over loopback, both ends
#: in one process; 1 where that fails.
EXCHANGE_SOURCE = r"""
static int exchange(long bytes)
{
    static char block[65536];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t width = sizeof at;
    int door = socket(AF_INET, SOCK_STREAM, 0), out = socket(AF_INET, SOCK_STREAM, 0), in;
    if (bind(door, (struct sockaddr *)&at, sizeof at) || listen(door, 1)) return 1;
    if (getsockname(door, (struct sockaddr *)&at, &width) || connect(out, (struct sockaddr *)&at, width)) return 1;
    in = accept(door, 0, 0);
    for (; bytes > 0; bytes -= sizeof block)
        if (write(out, block, sizeof block) != sizeof block || recv(in, block, sizeof block, MSG_WAITALL) < 1) return 1;
    return 0;
}
"""

PROGRAM_SOURCE = (
    r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
int MPI_Init(int *, char ***), MPI_Init_thread(int *, char ***, int, int *), MPI_Finalize(void);
int PMPI_Init(int *, char ***), PMPI_Finalize(void);
int MPI_Session_init(void *, void *, void **), MPI_Session_finalize(void **);
void mpi_init_(int *), mpi_finalize_(int *), mpi_init_f08_(int *), mpi_finalize_f08_(int *);
static void *idle(void *nothing) { pause(); return nothing; }
"""
    + EXCHANGE_SOURCE
    + r"""
int main(int count, char **words)
{
    int code = 0, level;
    const char *way = count > 1 ? words[1] : "";
    void *one = 0, *two = 0;
    if (!strcmp(way, "without")) return 0;
    if (!strncmp(way, "session", 7) && MPI_Session_init(0, 0, &one)) return 3;
    if (!strcmp(way, "session")) return MPI_Session_finalize(&one);
    if (!strcmp(way, "session and world")) return MPI_Init(&count, &words) | MPI_Finalize() | MPI_Session_finalize(&one);
    if (!strcmp(way, "session left open")) return MPI_Init(&count, &words) | MPI_Finalize();
    if (!strcmp(way, "sessions")) return MPI_Session_finalize(&one) | MPI_Session_init(0, 0, &two) | MPI_Session_finalize(&two);
    if (!strcmp(way, "sessions, the second open")) return MPI_Session_finalize(&one) | MPI_Session_init(0, 0, &two);
    if (!strcmp(way, "fortran")) { mpi_init_(&code); mpi_finalize_(&code); return code; }
    if (!strcmp(way, "f08")) { mpi_init_f08_(&code); mpi_finalize_f08_(&code); return code; }
    if (!strcmp(way, "profiled")) return PMPI_Init(&count, &words) | PMPI_Finalize();
    if (!strcmp(way, "threaded") && MPI_Init_thread(&count, &words, 3, &level)) return 1;
    if (strcmp(way, "threaded") && MPI_Init(&count, &words)) return 3;
    if (!strcmp(way, "threaded")) {
        pthread_t thread;
        pthread_create(&thread, 0, idle, 0);
        pthread_setname_np(thread, "progress");
    }
    if (!strcmp(way, "killed")) raise(SIGKILL);
    if (!strcmp(way, "exits")) return 0;
    if (!strcmp(way, "forks")) { if (fork()) wait(0); else { MPI_Finalize(); _exit(0); } }
    if (!strcmp(way, "sends") && exchange(4 << 20)) return 4;
    if (!strcmp(way, "udp") && socket(AF_INET, SOCK_DGRAM, 0) < 0) return 4;
    if (!strcmp(way, "udp")) { struct sockaddr_in any = {.sin_family = AF_INET}; bind(3, (struct sockaddr *)&any, sizeof any); }
    if (!strcmp(way, "private")) return 5;
    return MPI_Finalize();
}
"""
)

#: A program that needs nothing but MPI.
MPI_PROGRAM = (
    "int MPI_Init(int *, char ***), MPI_Finalize(void); int main(void) { return MPI_Init(0, 0) "
    "| MPI_Finalize(); }"
)
#: Opens the library as mpi4py does: privately, so that no symbol of it can be found by name.
PRIVATE_SOURCE = r"""
#include <dlfcn.h>
#include <stdio.h>
int MPI_Init(int *, char ***) __attribute__((weak));
int MPI_Finalize(void) __attribute__((weak));
int main(int count, char **words)
{
    if (!dlopen(words[1], RTLD_NOW | RTLD_LOCAL)) return fprintf(stderr, "%s\n", dlerror());
    if (!MPI_Init) return 6; /* not preloaded */
    return MPI_Init(&count, &words) | MPI_Finalize();
}
"""


# ---- Programs of a user: started in a folder, waited for, and what comes by itself.

#: The command ``mpibench`` of these sources.
MPIBENCH = (sys.executable, "-c", "import sys; from mpibench.cli import main; sys.exit(main())")


def finished(
    *words: object, environ: Mapping[str, str | Path] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """A program that has ended, with both of its streams; ``environ`` comes to our own variables."""
    settings = {"env": {**os.environ, **(environ or {})}, "timeout": 600, **options}
    return subprocess.run(list(map(str, words)), text=True, capture_output=True, **settings)


def as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process is somebody else's, as far as it asks."""
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)


def git(folder: Path, *words: object) -> str:
    """What git prints in a folder, as somebody who signs nothing."""
    own = ("user.name=x", "user.email=x@example.org", "tag.gpgsign=false", "commit.gpgsign=false")
    done = finished("git", "-C", folder, *(word for one in own for word in ("-c", one)), *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def begin(
    words: Sequence[str], cwd: Path | str, environ: Mapping[str, str | None] | None = None
) -> subprocess.Popen[str]:
    """Start a program whose output is both of its streams; a variable that is ``None`` is not set."""
    wanted = {**os.environ, **(environ or {})}
    return subprocess.Popen(
        words,
        cwd=cwd,
        env={name: value for name, value in wanted.items() if value is not None},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def end_of(process: subprocess.Popen[str], timeout_s: float = 400) -> tuple[int, str]:
    """Exit status and output of a program that was begun."""
    try:
        output, _ = process.communicate(timeout=timeout_s)
    finally:
        process.kill()
    return process.returncode, output


def wait_for(condition: Callable[[], bool], timeout_s: float = 120) -> bool:
    """Poll until true; whether it came true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


# ---- Job scripts as ReFrame writes them in a dry run, made comparable with golden files.

GOLDEN = DATA / "golden" / "job_scripts"


def kept(system: str) -> dict[str, str]:
    """Golden scripts and listing of a system, by file; ``alike.yaml`` has
    those that are another's but for some words.
    """
    files = {path.name: path.read_text() for path in (GOLDEN / system).glob("*.txt")}
    alike = yaml.safe_load((GOLDEN / "alike.yaml").read_text()).get(system, {})
    made = {
        name: "".join(
            row["words"].get(word, word)
            for word in re.split(r"([^A-Za-z0-9_.-])", files[row["of"]])
        )
        for name, row in alike.items()
    }
    return {**made, **files}


def compare(system: str, written: dict[str, str]) -> None:
    """Hold what was written against the golden files; with
    ``MPIBENCH_GOLDEN=write`` what differs is written first.
    """
    if os.environ.get("MPIBENCH_GOLDEN") == "write":
        (GOLDEN / system).mkdir(parents=True, exist_ok=True)
        for name, text in written.items():
            if kept(system).get(name) != text:
                (GOLDEN / system / name).write_text(text)
    assert len(written) > 1, "something must be left to run"
    assert written == kept(system)


#: What a job script has that depends on neither system, stack nor condition, and what stands for
#: hashes, times and paths of this machine: patterns (``.`` is any character where it says ``(?s)``).
UNLIKE = (
    (r"(?s)^\. \S*measure\.sh.*?^set_debug\(\) \{.*?^\}\n", ""),
    (r"(?s)^measure\(\) \{.*?^ +launch (.*?)^ +done.*\Z", r"\1"),
    (r"\A#!/bin/bash\n", ""),
    (r"^#SBATCH --(comment|time)=.*\n|^#PBS -l walltime=.*\n", ""),
    (r"^ *sh \S*record\.sh.*\n", ""),
    (r"^cd /.*", "cd WORKDIR"),
    (r"(ImbPointToPoint_)[0-9a-f]{8}", r"\1HASH"),
    (r"/\S*?/stacks\d*/([a-z0-9]+-[a-z0-9]+)/", r"/opt/\1/"),
    (r"(IMB-MPI1) .*", r"\1 ..."),
    (r"^ +", "    "),
)


def normalised(script: str) -> str:
    """The parts of a job script that depend on system, stack and condition,
    without hashes, times and paths of this machine.
    """
    for pattern, text in UNLIKE:
        script = re.sub(pattern, text, script, flags=re.MULTILINE)
    return script


def fabric_of(script: Path, listing: str) -> str:
    """Fabric of a script, by the hash of its test in the listing."""
    digest = script.parent.name.rsplit("_", 1)[1]
    match = re.search(rf"%fabric=(\S+) .*/{digest}", listing)
    assert match, (digest, listing[-2000:])
    return match[1]


def listed(printed: str) -> str:
    """What ``reframe -lC`` lists, without the hashes: a line a test and
    cases, with all places that have these cases.
    """
    cases: dict[tuple[str, str], list[str]] = {}
    for test, point, place in re.findall(
        r"^ *- (\S+) (.*?) ?/[0-9a-f]{8} @(.*)$", printed, re.MULTILINE
    ):
        cases.setdefault((test, place), []).append(point)
    places: dict[tuple[str, str], list[str]] = {}
    for (test, place), points in sorted(cases.items()):
        places.setdefault((test, " | ".join(points)), []).append(place)
    return "".join(
        f"{test} @ {' '.join(where)}: {points}\n" for (test, points), where in places.items()
    )
