"""``stacks add --build``: what is built is registered with its facts; what goes wrong is one sentence, and nothing stays."""

from __future__ import annotations

import io
import json
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import synthetic_installation as synthetic
from mpibench.stacks import suite_builds, system
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

#: A release as small as can be: its configure writes down what it was called with, its Makefile builds one program.
CONFIGURE = """#!/bin/sh
for word in "$@"; do case $word in --prefix=*) prefix=${word#--prefix=} ;; CC=*) cc=${word#CC=} ;; esac; done
cat >Makefile <<END
all: osu_latency
osu_latency: osu_latency.c
	$cc -o osu_latency osu_latency.c -L@LIB@ -l:libmpi.so.40
install: all
	mkdir -p $prefix/libexec/pt2pt
	cp osu_latency $prefix/libexec/pt2pt
END
"""
NAME = "osu-micro-benchmarks-7.4"


@pytest.fixture
def mpi(tmp_path: Path) -> Path:
    """Launcher of an Open MPI that has compiler wrappers."""
    launcher = synthetic.make_open_mpi(tmp_path / "mpi")
    for name in ("mpicc", "mpicxx"):
        wrapper = launcher.with_name(name)
        wrapper.write_text('#!/bin/sh\nexec cc "$@"\n')
        wrapper.chmod(0o755)
    return launcher


@pytest.fixture
def tarball(tmp_path: Path, mpi: Path) -> Callable[..., Path]:
    """Writes a release, with other text in some of its files."""

    def write(**files: str) -> Path:
        head = f'#define RANKS 1\n#define CALL (void)0\n#define BANNER "{synthetic.OSU}"\n'
        content = {
            "configure": CONFIGURE.replace("@LIB@", str(mpi.parent.parent / "lib")),
            "osu_latency.c": synthetic.PROGRAM % head,
            "util/osu_util.h": "",
            **{name.replace("__", "/"): text for name, text in files.items()},
        }
        path = tmp_path / f"{NAME}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, text in content.items():
                row = tarfile.TarInfo(f"{NAME}/{name}")
                row.size, row.mode = len(text.encode()), 0o755
                archive.addfile(row, io.BytesIO(text.encode()))
        return path

    return write


@pytest.fixture
def add(tmp_path: Path, mpi: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stack]:
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)
    return lambda path, **more: system.add(
        str(mpi), builds=[f"osu={path}"], root=tmp_path / "project", say=lambda text: None, **more
    )


def left(tmp_path: Path) -> list[Path]:
    """What is registered or half built."""
    return [path for path in (tmp_path / "project").rglob("*") if path.is_file() and path.suffix not in (".log", ".lock")]


def test_what_is_built_is_registered_with_its_facts(tmp_path: Path, tarball, add) -> None:
    path = tarball()
    stack = add(path)
    folder = tmp_path / "project/environments/system/openmpi-system"
    assert sorted(path.name for path in folder.iterdir()) == ["osu", "stack.json"]
    assert stack.binaries == {"osu_latency": str(folder / "osu/libexec/pt2pt/osu_latency")}
    facts = json.loads((folder / "stack.json").read_text())["suites"]["osu"]
    assert (facts["version"], facts["release"], facts["source"]) == ("7.4", NAME, str(path))
    assert len(facts["sha256"]) == 64
    assert facts["compiler"] and facts["configure"] == (
        f"./configure --prefix={folder}/osu CC={tmp_path}/mpi/bin/mpicc CXX={tmp_path}/mpi/bin/mpicxx"
    )
    rest = {path.name for path in (tmp_path / "project/results/builds").iterdir()}
    assert rest == {"openmpi-system-osu.log", ".openmpi-system.lock"}
    assert system.remove("openmpi-system", tmp_path / "project") == folder and not folder.exists()


@pytest.mark.parametrize(
    ("gpu", "files", "words"),
    [
        ("cuda", ("include",), "--enable-cuda=basic --with-cuda={toolkit}"),
        ("cuda", ("include", "bin/nvcc"), "--enable-cuda --with-cuda={toolkit}"),
        ("cuda", ("include", "lib64/stubs"), "--enable-cuda=basic --with-cuda={toolkit} LDFLAGS=-L{toolkit}/lib64/stubs"),
        ("rocm", ("include",), "--enable-rocm --with-rocm={toolkit}"),
    ],
)
def test_osu_is_configured_for_the_toolkit_of_the_gpus(
    gpu: str, files: tuple[str, ...], words: str, tmp_path: Path, tarball, add
) -> None:
    toolkit = tmp_path / "toolkit"
    for name in files:
        (toolkit / name).parent.mkdir(parents=True, exist_ok=True)
        (toolkit / name).write_text("") if name.endswith("nvcc") else (toolkit / name).mkdir()
    stack = add(tarball(), gpu=gpu, env={"CUDA_HOME" if gpu == "cuda" else "ROCM_PATH": str(toolkit)})
    assert stack.suites["osu"]["configure"].endswith(f" {words.format(toolkit=toolkit)}")
    assert stack.gpu == gpu and "gpu" not in stack.suites["osu"]  # the program that was built knows of none


def test_a_toolkit_that_is_not_there_is_said(tmp_path: Path, tarball, add) -> None:
    path = tarball()
    with pytest.raises(BadInput, match="OSU is built for --gpu rocm with its toolkit: neither ROCM_PATH nor ROCM_HOME is set"):
        add(path, gpu="rocm")
    with pytest.raises(BadInput, match=r"has none; name its module, or --env CUDA_HOME=\.\.\."):
        add(path, gpu="cuda", env={"CUDA_HOME": str(tmp_path / "toolkit")})
    with pytest.raises(BadInput, match="--gpu sycl is none of the platforms known here: cuda, rocm"):
        add(path, gpu="sycl")
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (
            {"configure": "#!/bin/sh\necho 'configure: error: no working compiler'; exit 77"},
            r"configure ended with exit status 77 \(configure: error: no working compiler\); its log is .*osu.log",
        ),
        (
            {"configure": "#!/bin/sh\nprintf 'all:\\n\\t@echo cannot write: No space left on device; false\\n' >Makefile"},
            r"make ended with exit status 2 \(cannot write: No space left on device\); its log is",
        ),
        (
            {"configure": "#!/bin/sh\nprintf 'install all:\\n\\t@echo cp: x: Read-only file system; false\\n' >Makefile"},
            r"make ended with exit status 2 \(cp: x: Read-only file system\); its log is",
        ),
        ({"osu_latency.c": "int main(void) { return x; }"}, r"make ended .* \(osu_latency.c:1:\d+: error: .*\); its log is"),
        ({"configure": "#!/bin/sh\nprintf 'all install:\\n' >Makefile"}, r"was built and has no program of osu; its log is"),
        (
            {"osu_latency.c": "int MPI_Init(int *, char ***); int main(void) { MPI_Init(0, 0); return 3; }"},
            r"osu_latency: it does not start as a program of osu \(exit status 3\)",
        ),
    ],
)
def test_what_cannot_be_built_is_a_sentence(files: dict[str, str], sentence: str, tmp_path: Path, tarball, add) -> None:
    with pytest.raises(BadInput, match=sentence):
        add(tarball(**files))
    assert not left(tmp_path)


def test_what_is_no_release_is_refused(tmp_path: Path, tarball, add) -> None:
    path = tarball()
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(BadInput, match=r"cannot be unpacked \(.*\); name a whole tarball"):
        add(path)
    path.write_text("no tarball")
    with pytest.raises(BadInput, match=r"cannot be unpacked"):
        add(path)
    with tarfile.open(path, "w:gz") as archive:
        archive.add(Path(__file__), "osu/README")
    with pytest.raises(BadInput, match=r"is no release tarball of osu: its one folder has no c/util/osu_util.h or"):
        add(path)
    assert not left(tmp_path)


def _archive(path: Path, *members: tuple[str, bytes], link: str = "", mode: str = "w:gz") -> suite_builds.Tarball:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in (("osu-7.4/configure", b""), ("osu-7.4/util/osu_util.h", b""), *members):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if link and name == "osu-7.4/link":
                info.type, info.linkname, info.size = tarfile.SYMTYPE, link, 0
            archive.addfile(info, io.BytesIO(content))
    return suite_builds.Tarball("osu", path, str(path), "0" * 64)


@pytest.mark.parametrize("judged", [True, False], ids=["tarfile judges", "old tarfile"])
def test_nothing_is_unpacked_outside(judged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not judged:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    outside, work = tmp_path / "outside", tmp_path / "a" / "work"
    for number, (name, link) in enumerate(
        ((str(outside), ""), ("osu-7.4/../../../outside", ""), ("osu-7.4/link/outside", str(tmp_path)))
    ):
        first = [("osu-7.4/link", b"")] if link else []
        tarball = _archive(tmp_path / f"{number}.tar.gz", *first, (name, b"x"), link=link)
        with pytest.raises(BadInput):
            suite_builds.unpack(tarball, work.with_name(str(number)))
        assert not outside.exists()


@pytest.mark.parametrize("kind", ["gz", "xz"])
def test_a_damaged_tarball_is_not_built(kind: str, tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(200_000)
    tarball = _archive(tmp_path / f"x.tar.{kind}", ("osu-7.4/data", noise), mode=f"w:{kind}")
    whole = tarball.path.read_bytes()
    middle = len(whole) // 2
    tarball.path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    with pytest.raises(BadInput, match=r"cannot be unpacked \([^\n]*\); name a whole tarball"):
        suite_builds.unpack(tarball, tmp_path / "work")


@pytest.mark.parametrize("kind", ["link", "time"])
def test_a_member_that_cannot_be_unpacked_is_said(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    member = tarfile.TarInfo("osu-9.9/last")
    if kind == "link":
        member.type, member.linkname = tarfile.LNKTYPE, "osu-9.9/nothere"
    else:
        member.pax_headers = {"mtime": "1e400"}
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in ("osu-9.9/configure", "osu-9.9/util/osu_util.h"):
            archive.addfile(tarfile.TarInfo(name))
        archive.addfile(member)
    with pytest.raises(BadInput, match="cannot be unpacked"):
        suite_builds.unpack(suite_builds.Tarball("osu", path, str(path), "0" * 64), tmp_path / "work")


def test_a_compiler_that_shows_no_header_is_said(tmp_path: Path) -> None:
    wrapper = tmp_path / "mpicc"
    wrapper.write_text("#!/bin/sh\necho no mpi.h >&2; exit 1\n")
    wrapper.chmod(0o755)
    found = suite_builds.Compilers(wrapper, wrapper, "", {"PATH": "/usr/bin:/bin"})
    with pytest.raises(BadInput, match=r"mpicc -E does not show what mpi.h declares \(no mpi.h\)"):
        suite_builds._header(found)


def test_a_release_with_a_name_that_no_terminal_can_show_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("configure", "util/osu_util.h"):
            archive.addfile(tarfile.TarInfo(f"osu\x1b[31m/{name}"))
    with pytest.raises(BadInput, match="is no release tarball"):
        suite_builds.unpack(suite_builds.Tarball("osu", path, str(path), "0" * 64), tmp_path / "work")


def test_an_mpi_without_a_compiler_is_refused(tmp_path: Path, mpi: Path, tarball, add) -> None:
    path = tarball()
    mpi.with_name("mpicc").write_text("#!/bin/sh\necho cc: not found >&2; exit 127\n")
    with pytest.raises(BadInput, match=r"mpicc does not work \(cc: not found\); install the compiler it calls"):
        add(path)
    named = mpi.rename(mpi.with_name("mpirun.openmpi"))
    with pytest.raises(BadInput, match=r"there is no mpicc.openmpi and mpicxx.openmpi beside .*mpirun.openmpi; install what"):
        suite_builds.find_compilers(named, named.parent.parent, {"PATH": str(named.parent)})
    assert not left(tmp_path)


def test_where_nothing_can_be_put_nothing_is_built(tmp_path: Path, mpi: Path, tarball) -> None:
    (tmp_path / "file").write_text("")
    said: list[str] = []
    with pytest.raises(BadInput, match=r"file/stack cannot be made \(Not a directory\); make it"):
        system.add(
            str(mpi), builds=[f"osu={tarball()}"], root=tmp_path / "project", into=tmp_path / "file/stack", say=said.append
        )
    with pytest.raises(BadInput, match=r"/my stack/osu has ' ' in it, with which neither configure nor make works; name"):
        system.add(
            str(mpi), builds=[f"osu={tarball()}"], root=tmp_path / "project", into=tmp_path / "my stack", say=said.append
        )
    assert not any(line.startswith("building ") for line in said) and not (tmp_path / "my stack").exists()


def test_a_name_that_is_none_is_said_before_anything_is_looked_at(tmp_path: Path, mpi: Path) -> None:
    for name in ("with spaces", "../up", "7.5", "a\n"):
        with pytest.raises(BadInput, match=r"^--name .* is no name of a stack: use letters, digits, _ and -, beginning with"):
            system.add(str(mpi), name=name, root=tmp_path / "project")
    assert not (tmp_path / "project").exists()


def test_the_same_suite_twice_is_refused(tmp_path: Path, mpi: Path, tarball) -> None:
    word = f"osu={tarball()}"
    with pytest.raises(BadInput, match=r"--build osu=... is given twice"):
        system.add(str(mpi), builds=[word, word], root=tmp_path / "project", say=lambda text: None)


#: A configure that starts a process which writes down its number and would go on for long.
SLOW = "#!/bin/sh\nsleep 600 & echo $! >{0}/started; wait"


class Building:
    """``stacks add --build`` as a process of its own, of which something is being built."""

    def __init__(self, tmp_path: Path, mpi: Path, tarball: Path, into: Path) -> None:
        self.words = ["stacks", "add", "--mpirun", str(mpi), "--name", "ended_by_a_test", "--into", str(into)]
        self.words += ["--build", f"osu={tarball}"]
        self.process = self.start()
        started = tmp_path / "started"
        deadline = time.monotonic() + 120
        while not started.is_file() or not started.read_text().strip():
            assert time.monotonic() < deadline and self.process.poll() is None
            time.sleep(0.05)
        self.child = Path("/proc", started.read_text().strip())

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "import sys; from mpibench.cli import main; sys.exit(main(sys.argv[1:]))", *self.words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def has_child(self) -> bool:
        try:
            return (self.child / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False


def test_a_build_that_is_ended_leaves_nothing(tmp_path: Path, mpi: Path, tarball) -> None:
    into = tmp_path / "stack"
    building = Building(tmp_path, mpi, tarball(configure=SLOW.format(tmp_path)), into)
    building.process.send_signal(signal.SIGTERM)
    said, _ = building.process.communicate(timeout=120)
    assert building.process.returncode not in (0, -signal.SIGTERM) and "Traceback" not in said
    assert not into.exists() and not building.has_child()


def test_two_builds_of_one_stack_do_not_take_away_each_others(tmp_path: Path, mpi: Path, tarball) -> None:
    """The second one says who is at it, and the first one goes on."""
    into = tmp_path / "stack"
    building = Building(tmp_path, mpi, tarball(configure=SLOW.format(tmp_path)), into)
    second = building.start()
    said, _ = second.communicate(timeout=120)
    assert second.returncode == 2 and "at work on stack 'ended_by_a_test': wait for it, or end it" in said, said
    assert f"process {building.process.pid} on " in said and building.has_child()
    building.process.terminate()
    building.process.communicate(timeout=120)


def test_a_build_whose_command_was_killed_ends_and_can_be_repeated(tmp_path: Path, mpi: Path, tarball) -> None:
    into = tmp_path / "stack"
    building = Building(tmp_path, mpi, tarball(configure=SLOW.format(tmp_path)), into)
    building.process.kill()
    building.process.communicate(timeout=120)
    deadline = time.monotonic() + 60
    while building.has_child():
        assert time.monotonic() < deadline, "it would build on"
        time.sleep(0.05)
    assert not (into / "stack.json").exists()
    assert [path.name for path in into.iterdir() if path.is_file()] == [system.UNFINISHED]
    (tmp_path / "started").unlink()
    again = Building(tmp_path, mpi, tmp_path / f"{NAME}.tar.gz", into)  # nothing holds the lock any more
    again.process.terminate()
    again.process.communicate(timeout=120)
    assert not into.exists() and not again.has_child()
