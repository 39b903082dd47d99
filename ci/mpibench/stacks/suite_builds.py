"""Builds OSU and IMB from a release tarball with an MPI's own compiler wrappers, as ``stacks add --build`` asks for."""

from __future__ import annotations

import ctypes
import gzip
import lzma
import os
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from reframe_tests.harness.vocabulary import BadInput

from . import logged
from .benchmark_programs import suite_of
from .logged import Echo
from .releases import Tarball

#: What unpacking raises for a damaged archive, beside errors of values in it.
_DAMAGED = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
#: Flags that IMB's Makefiles append to whatever is asked for: no optimisation, warnings as errors.
_APPENDED = re.compile(r"^(override C(?:XX)?FLAGS \+=.*?)\s-(?:O[03]|Werror)\b", re.M)

#: What the system says where it does not let a program write (``strerror(3)``).
_REFUSED = re.compile("No space left on device|Disk quota exceeded|Read-only file system|Permission denied|Input/output error")
#: What Autoconf calls unsafe in the name of a folder, and white space.
_UNSAFE = re.compile(r"[\s\\\"#$&'`]")
#: ``prctl(2)``: a process gets a signal when its parent dies, by SIGKILL too.
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
#: Starts a command in a group of processes, and ends all of these at SIGTERM.
_GUARD = """trap 'trap "" TERM; kill -TERM 0; exit 143' TERM; "$@" & wait $!"""


@dataclass(frozen=True)
class Compilers:
    """An MPI's compiler wrappers, and what they start.

    :param says: the compiler's own first line.
    :param environ: environment in which they work.
    """

    cc: Path
    cxx: Path
    says: str
    environ: Mapping[str, str]


@dataclass(frozen=True)
class Built:
    """A suite that was built.

    :param prefix: folder with its programs.
    :param facts: for ``suites`` of ``stack.json``: release, source, sha256, compiler, configure.
    """

    prefix: Path
    facts: Mapping[str, str] = field(default_factory=dict)


def find_compilers(mpirun: Path, prefix: Path, environ: Mapping[str, str]) -> Compilers:
    """The wrappers that belong to a launcher: beside it with its ending (Debian's ``mpirun.openmpi``), in its prefix, on PATH.

    :param environ: environment they are to work in.
    """
    ending = mpirun.suffix if mpirun.name.startswith(("mpirun.", "mpiexec.")) and mpirun.suffix != ".hydra" else ""
    folders = [mpirun.parent, mpirun.resolve().parent, prefix / "bin", *map(Path, environ["PATH"].split(":"))]
    for folder in folders[:3] if ending else folders:
        cc, cxx = folder / f"mpicc{ending}", folder / f"mpicxx{ending}"
        if os.access(cc, os.X_OK) and os.access(cxx, os.X_OK):
            break
    else:
        raise BadInput(
            "compiler-wrappers-missing",
            f"there is no mpicc{ending} and mpicxx{ending} beside {mpirun}; install what this MPI's programs are compiled with "
            f"(Debian: libopenmpi-dev, libmpich-dev), or name programs that are built with --binaries.",
        )
    says, _ = (_ask_compiler(wrapper, environ) for wrapper in (cc, cxx))
    return Compilers(cc, cxx, says, environ)


def _ask_compiler(wrapper: Path, environ: Mapping[str, str]) -> str:
    """What the compiler behind a wrapper says it is, in its first line."""
    try:
        done = logged.ask([wrapper, "--version"], environ, 60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput("compiler-failed", f"{wrapper} cannot be run ({error}); see that it works in a shell.") from None
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode or not lines:
        said = lines[-1].rstrip(".") if lines else f"exit status {done.returncode}"
        raise BadInput(
            "compiler-failed",
            f"{wrapper} does not work ({said}); install the compiler it calls (Debian: gcc, g++), or name its module, too.",
        )
    return lines[0]


def build(tarball: Tarball, compilers: Compilers, into: Path, work: Path, say: Echo = print, lock: int = -1) -> Built:
    """Build a suite and put its programs into a folder.

    :param into: folder the suite's own is made in.
    :param work: a folder for the sources while they are built, removed at the end; the log stays beside it.
    :param lock: descriptor of a lock that is held as long as anything builds, also after this process was killed.
    """
    log = work.with_name(f"{work.name}.log")
    prefix = into / tarball.suite
    for path in (prefix, work, compilers.cc, compilers.cxx):
        if odd := _UNSAFE.search(str(path)):
            raise BadInput(
                "build-folder-name",
                f"{path} has {odd[0]!r} in it, with which neither configure nor make works; "
                + ("name another folder with --into." if path == prefix else "have it in a folder without."),
            )
    try:
        prefix.mkdir(parents=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)
        try:
            top = unpack(tarball, work)
            say(f"building {top.name} with {compilers.cc} ({compilers.says}); its log is {log}")
            made = _Make(compilers, log, say, top.name, lock)
            with _ended_by_signals():
                configured = (_osu if tarball.suite == "osu" else _imb)(made, top, prefix)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise BadInput(
            "build-failed", f"{tarball.origin} cannot be built: {error.filename or log}: {error.strerror or error}."
        ) from None
    if not any(suite_of(path.name) == tarball.suite for path in prefix.rglob("*")):
        raise BadInput(
            "build-without-programs", f"{top.name} was built and has no program of {tarball.suite}; its log is {log}."
        )
    facts = {
        "release": top.name,
        "source": tarball.origin,
        "sha256": tarball.sha256,
        "compiler": compilers.says,
        "configure": configured,
    }
    return Built(prefix, facts)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """What ends this process ends what it started, too, and leaves nothing behind, as Ctrl-C does."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if ours and signal.getsignal(each) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def unpack(tarball: Tarball, work: Path) -> Path:
    """Unpack a release; its one folder."""
    work.mkdir(parents=True)
    try:
        with tarfile.open(tarball.path) as archive:
            if hasattr(tarfile, "data_filter"):  # Python 3.10.12 and 3.11.4
                archive.extractall(work, filter="data")
            else:
                archive.extractall(work, _inside(archive))
            # A checksum of what is compressed stands behind the archive's end.
            while archive.fileobj.read(1 << 20):
                pass
    except (*_DAMAGED, ValueError, LookupError, OverflowError) as error:
        said = str(error).partition("\n")[0].rstrip(":")
        raise BadInput("tarball-damaged", f"{tarball.path} cannot be unpacked ({said}); name a whole tarball.") from None
    tops = list(work.iterdir())
    top = tops[0] if len(tops) == 1 else work
    # The second name of each is that of older releases.
    marks = {"osu": ("c/util/osu_util.h", "util/osu_util.h"), "imb": ("src_cpp/Makefile", "src/Makefile.base")}[tarball.suite]
    known = any((top / name).is_file() for name in marks) and (tarball.suite == "imb" or (top / "configure").is_file())
    if len(tops) != 1 or not re.fullmatch(r"[\w.+-]+", top.name) or not known:
        raise BadInput(
            "tarball-unusable",
            f"{tarball.path} is no release tarball of {tarball.suite}: its one folder has no {' or '.join(marks)}; name "
            "upstream's.",
        )
    return top


def _inside(archive: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Members of an archive, where nothing else looks at where they lead."""
    members = archive.getmembers()
    for member in members:
        if not (member.isreg() or member.isdir()) or member.name.startswith("/") or ".." in member.name.split("/"):
            raise ValueError(f"{member.name!r} is a link or leads outside; this Python's tarfile is too old to judge it")
    return members


@dataclass(frozen=True)
class _Make:
    """Runs what builds, with its output in a log."""

    compilers: Compilers
    log: Path
    say: Echo
    what: str
    lock: int

    def __call__(self, words: Sequence[str], folder: Path) -> None:
        """Run a command, and everything it starts is gone at the end."""
        status, output = logged.run(
            ["sh", "-c", _GUARD, "sh", *words], self.log, self.what, self.say, self.compilers.environ,
            end=lambda process: os.killpg(process.pid, signal.SIGKILL),
            cwd=folder, start_new_session=True, pass_fds=[self.lock] if self.lock >= 0 else [],
            preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0),  # killed, it builds no more
        )  # fmt: skip
        if status:
            lines = [line.strip() for line in output.splitlines() if line.strip()]
            errors = [line for line in lines if re.search(r"\berror:|multiple definition|undefined reference|\*\*\* ", line)]
            refused = [line for line in lines if re.search(_REFUSED, line)]
            reason = (refused or errors or lines[-1:] or ["it printed nothing"])[0].rstrip(".")
            raise BadInput(
                "build-failed",
                f"{self.what} cannot be built: {Path(words[0]).name} ended with exit status {status} ({reason}); "
                f"its log is {self.log}.",
            )

    @property
    def jobs(self) -> str:
        """Option of make for as many compilers as there are cores."""
        return f"-j{len(os.sched_getaffinity(0))}"


def _osu(make: _Make, top: Path, prefix: Path) -> str:
    """Build OMB; returns the line that configured it. Programs go below ``libexec``, spread over folders."""
    line = ["./configure", f"--prefix={prefix}", f"CC={make.compilers.cc}", f"CXX={make.compilers.cxx}"]
    # The configure of 7.5 sets mpi4_partition_send and tests mpi4_partition_pt2pt: it never builds osu_partitioned_latency.
    configure = (top / "configure").read_text(errors="replace")
    if "mpi4_partition_pt2pt" in configure and "MPI_Psend_init" in _header(make.compilers):
        line.append("mpi4_partition_pt2pt=true")
    # A header of 7.0 defines a variable, in every file that includes it (util/osu_util_papi.h).
    line += ["CFLAGS=-g -O2 -fcommon", "CXXFLAGS=-g -O2 -fcommon"] if top.name.endswith("-7.0") else []
    make(line, top)
    make(["make", make.jobs], top)
    make(["make", "install"], top)
    return shlex.join(line)


def _imb(make: _Make, top: Path, prefix: Path) -> str:
    """Build IMB; returns the first line that built a program.

    Each program is built in a copy of its own: upstream's Makefiles share object files that they compile with other flags, and
    append no optimisation and warnings as errors to whatever is asked for.
    """
    cc, cxx = make.compilers.cc, make.compilers.cxx
    if (top / "src").is_dir():  # 2018: one Makefile, C only
        rows = [(name, "src") for name in ("MPI1", "EXT", "IO", "NBC", "RMA")]
    else:
        rows = [
            (name, "src_cpp") for name in ("MPI1", "EXT", "IO", "NBC", "RMA", "MT", "MPI4") if (top / "src_cpp" / name).is_dir()
        ]
        rows += [("P2P", "src_c/P2P")] if (top / "src_c/P2P/Makefile").is_file() else []
    for makefile in (top / "src_cpp/Makefile", top / "src_c/P2P/Makefile"):
        if makefile.is_file():
            text = makefile.read_text(errors="surrogateescape")
            while text != (text := _APPENDED.sub(r"\1", text)):
                pass
            makefile.write_text(text, errors="surrogateescape")
    said = re.search(r"^standard ([0-9]+)$", _header(make.compilers), re.M)
    standard = int(said[1]) if said else 0
    (prefix / "bin").mkdir()
    lines = []
    for name, folder in rows:
        program = f"IMB-{name}"
        if name == "MPI4" and standard < 4:
            make.say(f"{program} is not built: it needs MPI 4, and this MPI's mpi.h says {standard}.")
            continue
        copy = top.parent / program
        shutil.copytree(top, copy)
        openmp = " -fopenmp" if name == "MT" else ""
        if folder == "src":
            part = "MPIIO" if name == "IO" else name
            (copy / folder / f"build_{part}").mkdir()
            line = ["make", "-f", "Makefile.base", name, f"CPP={part}", f"CC={cc}", f"CLINKER={cc}", "OPTFLAGS=-O2"]
            line.append(f"{program}={program}")
        else:
            flags = [f"CFLAGS=-O2{openmp}", f"CXXFLAGS=-O2{openmp}", "CPPFLAGS="]
            line = ["make", f"TARGET={name}", f"CC={cc}", f"CXX={cxx}", *flags]
        make([line[0], make.jobs, *line[1:]], copy / folder)
        shutil.move(copy / folder / program, prefix / "bin" / program)
        shutil.rmtree(copy)
        lines.append(shlex.join(line))
    return lines[0] if lines else ""


def _header(compilers: Compilers) -> str:
    """What ``mpi.h`` declares, and ``standard N``, the version of the MPI standard it says."""
    try:
        source = "#include <mpi.h>\nstandard MPI_VERSION\n"
        done = logged.ask([compilers.cc, "-E", "-x", "c", "-"], compilers.environ, 60, source)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(
            "compiler-failed", f"{compilers.cc} -E does not show what mpi.h declares ({error}); correct it."
        ) from error
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
        raise BadInput("compiler-failed", f"{compilers.cc} -E does not show what mpi.h declares ({said}); correct it.")
    return done.stdout
