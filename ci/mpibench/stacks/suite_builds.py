"""Builds OSU and IMB from a release tarball with an MPI's own compiler wrappers, for ``stacks add
--build``.

Addresses and checksums of the releases are those of Spack's recipes (builtin v2026.06.0 for OSU,
``repo/`` here for IMB); those of IMB 2018 are GitHub's archives of the tags.
"""

from __future__ import annotations

import ctypes
import gzip
import http.client
import json
import lzma
import os
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from reframe_tests.harness import optional_file
from reframe_tests.harness.printable import clause
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from . import logged
from .logged import Echo
from .probe import suite_of
from .writer import digest_of

#: Variable with the folder that tarballs are looked for in, and kept in once fetched.
SOURCES = "MPIBENCH_SOURCES"
_OSU = "https://mvapich.cse.ohio-state.edu/download/mvapich/osu-micro-benchmarks-{}.tar.gz"
_IMB = "https://github.com/intel/mpi-benchmarks/archive/refs/tags/{}.tar.gz"
#: Suite to release to SHA-256 of its tarball.
CHECKSUMS: Mapping[str, Mapping[str, str]] = {
    "osu": {
        "5.6.1": "943c426a653a6c56200193d747755efaa4c4e6f23b3571b0e3ef81ecd21b1063",
        "5.6.2": "2ecb90abd85398786823c0716d92448d7094657d3f017c65d270ffe39afc7b95",
        "5.6.3": "c5eaa8c5b086bde8514fa4cac345d66b397e02283bc06e44cb6402268a60aeb8",
        "5.7": "1470ebe00eb6ca7f160b2c1efda57ca0fb26b5c4c61148a3f17e8e79fbf34590",
        "5.7.1": "cb5ce4e2e68ed012d9952e96ef880a802058c87a1d840a2093b19bddc7faa165",
        "5.9": "d619740a1c2cc7c02a9763931546b320d0fa4093c415ff3873c2958e121c0609",
        "6.0": "309fb7583ff54562343b0e0df1eebde3fc245191e183be362f031ac74f4ab542",
        "6.1": "ecccedc868264f75db4d9529af79005419a2775113c7fae8f4e4a8434362e4a7",
        "6.2": "bb9dbc87dcf8ec6785977a61f6fceee8febf1a682488eaab4c58cf50e4fa985f",
        "7.0": "958e2faf9f3a4a244d7baac3469acee0375447decff6026c442552f0f6f08306",
        "7.0.1": "04954aea082ba1b90a461ffab82a3cee43fe2d5a60fed99f5cb4585ac7da8c66",
        "7.1": "2c4c931ecaf19e8ab72a393ee732e25743208c9a58fa50023e3fac47064292cc",
        "7.1-1": "85f4dd8be1df31255e232852769ae5b82e87a5fb14be2f8eba1ae9de8ffe391a",
        "7.2": "1a4e1f2aab0e65404b3414e23bd46616184b69b6231ce9313d9c630bd6e633c1",
        "7.3": "8fa25b8aaa34e4b07ab3a4f30b7690ab46b038b08d204a853a9b6aa7bdb02f2f",
        "7.4": "1edd0c2efa61999409bfb28740a7f39689a5b42b1a1b4c66d1656e5637f7cefc",
        "7.5": "1cf84ac5419456202757a757c5f9a4f5c6ecd05c65783c7976421cfd6020b3b3",
        "7.5.1": "160d0d5e3c3cb022520ecb247e9875bb0973b1d3cadccd6c17624f8407c52e22",
        "7.5.2": "618de3d0b1122f73a9229177d2da1e5cd62e431190580cb915f2605849cbbbdc",
    },
    "imb": {
        "2018.0": "2e60a9894a686a95791be2227bc569bf81ca3875421b5307df7d83f885b1de88",
        "2018.1": "718a4eb155f18cf15a736f6496332407b5837cf1f19831723d4cfe5266c43507",
        "2019.0": "1c7d44aa7fd86ca84ac7cae1a69a8426243048d6294582337f1de7b4ffe68d37",
        "2019.1": "fe0d065b9936b6943ea83cb3d00aede43b17565285c6b1791fee8e340853ef79",
        "2019.2": "0bc2224a913073aaa5958f6ae08341e5fcd39cedc6722a09bfd4a3d7591a340b",
        "2019.3": "4f256d11bfed9ca6166548486d61a062e67be61f13dd9f30690232720e185f31",
        "2019.4": "aeb336be10275c1a2f579b491b6631122876b461ac7148b1d0764f13b7552690",
        "2019.5": "61f8e872a3c3076af53007a68e4da3a8d66be2ba7a051dc21e626a4e2d26e651",
        "2019.6": "1cd0bab9e947228fced4666d907f77c51336291533919896a923cff5fcad62e9",
        "2021.1": "9089bb81e3091af3481e03b898b339fb2d9fb6574d4ef059adb1f5410112b23a",
        "2021.2": "ade3bfe18b4313a31fc09f0bf038e0a6c169c4145089bfc6f1f827687b81be6a",
        "2021.3": "9b58a4a7eef7c0c877513152340948402fd87cb06270d2d81308dc2ef740f4c7",
        "2021.4": "786570f0ff46aab01c4e5ecbde72c8051682809b23a04e55554f265b761ddde3",
        "2021.5": "ac144dbfad8759e4956d99569dfcbec25758ba10abfb5ae2d83831660f27be60",
        "2021.6": "57d1bcc0027f8fc7bffe323ab70cc9d3f1d7482d456c47b4a9e7c4337089bd54",
        "2021.7": "acee02cc719a74e6853194576cb7e6bf1fdc74f8971578e1b2141306c3c19477",
        "2021.8": "78914a8e127d776f1cf71b095dc564ade60c1cf8d497f65f3390167a11a121bf",
        "2021.9": "5922e74974e05e027aa7e2579afd5e2fb83de17e7d72f4da7d461580c04363c8",
        "2021.9.1": "85216bbef3ec8fd0b34f9d2e8a2c51d89c22faf58bfebadb6be0422b79a31fcc",
        "2021.10": "286a5a10009355a61ed4a499ab4cb81bade41e6930a651a92928228343ff4a82",
        "2021.11": "728b522b3bb05580c26e374bfae2a262bf8007b3b2c7d4c9480e4363953270c7",
    },
}
#: File in the folder of a suite that was built to its end: of what, and its facts.
WHOLE = ".built.json"
#: Platform of GPUs to the compiler of its toolkit and the variables that name its folder.
_TOOLKITS = {
    "cuda": ("nvcc", "CUDA_HOME", "CUDA_PATH"),
    "rocm": ("hipcc", "ROCM_PATH", "ROCM_HOME"),
}
#: Seconds for a server, and for a compiler that only says who it is.
LIMIT_S = 60.0
#: What unpacking raises for a damaged archive, and for values in it that cannot be.
#: What a release may unpack to; the largest known, of HPC Challenge with its libraries, has 50 MB.
MOST_BYTES = 1 << 30
MOST_MEMBERS = 100_000
_DAMAGED = (
    tarfile.TarError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    gzip.BadGzipFile,
    ValueError,
    LookupError,
    OverflowError,
)
#: Flags that IMB's Makefiles append to whatever is requested: no optimisation, warnings as errors.
_APPENDED = re.compile(r"^(override C(?:XX)?FLAGS \+=.*?)\s-(?:O[03]|Werror)\b", re.M)
#: What the system says where it does not let a program write
#: (``strerror(3)``), and what compilers and make call an error.
_REFUSED = re.compile(
    "No space left on device|Disk quota exceeded|Read-only file system|Permission "
    "denied|Input/output error"
)
_ERROR = re.compile(r"\berror:|multiple definition|undefined reference|\*\*\* ")
#: What Autoconf calls unsafe in the name of a folder, and white space.
_UNSAFE = re.compile(r"[\s\\\"#$&'`]")
#: ``prctl(2)``: a process gets a signal when its parent dies, by SIGKILL too.
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
#: Starts a command in a group of processes, and ends all of these at SIGTERM.
_GUARD = """trap 'trap "" TERM; kill -TERM 0; exit 143' TERM; "$@" & wait $!"""


@dataclass(frozen=True)
class Tarball:
    """A release as a file.

    :param origin: the file or address it was named by, or fetched from.
    """

    suite: str
    path: Path
    origin: str
    sha256: str


def url_of(suite: str, version: str) -> str:
    """Upstream's address of a release."""
    if suite == "osu":
        url = _OSU.format(version)
        return url.removesuffix(".tar.gz") + ".tgz" if version == "5.7.1" else url
    return _IMB.format(
        f"v{version}"
        if version.startswith("2018.") or version in ("2019.0", "2019.1")
        else f"IMB-v{version}"
    )


def sources_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Folder of tarballs, for use without network, too: ``MPIBENCH_SOURCES``, or
    ``mpibench/sources`` in the cache.
    """
    if named := environ.get(SOURCES):
        return Path(named).absolute()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpibench" / "sources"


def find(
    word: str, environ: Mapping[str, str] = os.environ, say: Callable[[str], object] = print
) -> Tarball:
    """The tarball that ``SUITE=SOURCE`` means, there and checked.

    :param word: a source is a release in :data:`CHECKSUMS` (taken from the sources folder, else
        fetched), the path of a tarball (taken as it is), or an address: of a release in the table,
        or with ``#sha256=...``.
    """
    suite, equals, source = word.partition("=")
    if suite not in CHECKSUMS or not equals or not source:
        raise BadInput(
            "configuration-unusable",
            f"--build {word} is not {' or '.join(f'{name}=VERSION' for name in CHECKSUMS)}, "
            "=PATH or =URL; write it so.",
        )
    if re.fullmatch(r"[0-9]+(\.[0-9]+)*(-[0-9]+)?", source):
        wanted = CHECKSUMS[suite].get(source)
        if not wanted:
            known = ", ".join(CHECKSUMS[suite])
            raise BadInput(
                "other-release",
                f"no known checksum of {suite} {source} ({known}); name its tarball with --build "
                f"{suite}=PATH.",
            )
        return _fetch(suite, url_of(suite, source), wanted, environ, say)
    if "://" in source:
        url, _, named = source.partition("#sha256=")
        known_urls = {
            url_of(suite, version): digest for version, digest in CHECKSUMS[suite].items()
        }
        wanted = named or known_urls.get(url, "")
        if not re.fullmatch(r"https?://[^\s#]+", url) or not re.fullmatch("[0-9a-f]{64}", wanted):
            raise BadInput(
                "checksum-differs",
                f"{source}: a download needs a checksum; write https://...#sha256=<64 digits>.",
            )
        return _fetch(suite, url, wanted, environ, say)
    path = optional_file.named(source).absolute()
    if not path.is_file() or not os.access(path, os.R_OK):
        reason = "a folder" if path.is_dir() else "missing or unreadable"
        raise BadInput(
            "configuration-unusable",
            f"{path} is {reason}; name the tarball of a release of {suite}.",
        )
    return Tarball(suite, path, str(path), digest_of(path))


def _fetch(
    suite: str, url: str, wanted: str, environ: Mapping[str, str], say: Callable[[str], object]
) -> Tarball:
    """A tarball from the sources folder, where it is put first if it is not there."""
    path = sources_folder(environ) / url.rpartition("/")[2]
    if not path.is_file():
        say(f"{path} is missing: fetching {url}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with (
                urllib.request.urlopen(url, timeout=LIMIT_S) as answer,
                whole_file.replacing(path) as partial,
            ):
                with partial.open("wb") as stream:
                    while block := answer.read(1 << 20):
                        stream.write(block)
                if (digest := digest_of(partial)) != wanted:
                    raise BadInput(
                        "checksum-differs",
                        f"{url} has the SHA-256 {digest} and not {wanted}; it was deleted: ask "
                        "whoever serves it.",
                    )
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise BadInput(
                "tool-failed",
                f"{url} cannot be fetched into {path.parent} ({reason}); copy the file there, or "
                f"name one with --build {suite}=PATH.",
            ) from None
    elif (digest := digest_of(path)) != wanted:
        raise BadInput(
            "checksum-differs",
            f"{path} has the SHA-256 {digest} and the release {wanted}; remove it, or use it as it "
            f"is with --build {suite}={path}.",
        )
    return Tarball(suite, path, url, wanted)


@dataclass(frozen=True)
class Compilers:
    """An MPI's compiler wrappers, and what they start."""

    cc: Path
    cxx: Path
    says: str
    environ: Mapping[str, str]


@dataclass(frozen=True)
class Built:
    """A suite that was built.

    :param facts: for ``suites`` of ``stack.json``: release, source, sha256, compiler, configure.
    """

    prefix: Path
    facts: Mapping[str, str]


def find_compilers(mpirun: Path, prefix: Path, environ: Mapping[str, str]) -> Compilers:
    """The wrappers of a launcher: beside it with its ending (Debian's
    ``mpirun.openmpi``), in its prefix, on PATH.
    """
    ending = (
        mpirun.suffix
        if mpirun.name.startswith(("mpirun.", "mpiexec.")) and mpirun.suffix != ".hydra"
        else ""
    )
    folders = [
        mpirun.parent,
        mpirun.resolve().parent,
        prefix / "bin",
        *map(Path, environ["PATH"].split(":")),
    ]
    pairs = [
        (folder / f"mpicc{ending}", folder / f"mpicxx{ending}")
        for folder in (folders[:3] if ending else folders)
    ]
    found = next((pair for pair in pairs if all(os.access(path, os.X_OK) for path in pair)), None)
    if not found:
        raise BadInput(
            "tool-missing",
            f"there is no mpicc{ending} and mpicxx{ending} beside {mpirun}; install this MPI's "
            "compiler wrappers (Debian: libopenmpi-dev, libmpich-dev), or name existing programs "
            "with --binaries.",
        )
    first_lines = []
    for wrapper in found:
        try:
            done = logged.ask([wrapper, "--version"], environ, LIMIT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadInput(
                "build-failed", f"{wrapper} cannot run ({error}); make it work in a shell first."
            ) from None
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        if done.returncode or not lines:
            said = clause(lines[-1]) if lines else f"exit status {done.returncode}"
            raise BadInput(
                "build-failed",
                f"{wrapper} does not work ({said}); install the compiler it calls (Debian: gcc, "
                "g++), or also name its module.",
            )
        first_lines.append(lines[0])
    return Compilers(*found, first_lines[0], environ)


def build(
    tarball: Tarball,
    compilers: Compilers,
    into: Path,
    work: Path,
    say: Echo = print,
    lock: int = -1,
    gpu: str = "",
    library: str = "",
) -> Built:
    """Build a suite and put its programs into a folder; what a killed
    command had built of just that is kept.

    :param into: folder the suite's own is made in.
    :param work: a folder for the sources while they are built, removed
        at the end; the log stays beside it.
    :param lock: descriptor of a lock that is held as long as anything
        builds, also after this process was killed.
    :param gpu: platform of GPUs that OSU is built for.
    :param library: SHA-256 of the libmpi that it is built for.
    """
    toolkit = find_toolkit(gpu, compilers.environ) if gpu and tarball.suite == "osu" else None
    if toolkit:  # OMB 5 takes nvcc from PATH
        compilers = replace(
            compilers,
            environ={**compilers.environ, "PATH": f"{toolkit}/bin:{compilers.environ['PATH']}"},
        )
    log = work.with_name(f"{work.name}.log")
    prefix = into / tarball.suite
    # No --into helps where the checkout's own path has it.
    for path in (work, compilers.cc, compilers.cxx, prefix):
        if odd := _UNSAFE.search(str(path)):
            raise BadInput(
                "not-ours",
                f"{path} has {odd[0]!r} in it, which breaks configure and make; "
                + (
                    "name another folder with --into."
                    if path == prefix
                    else "have it in a folder without."
                ),
            )
    built_of = [
        tarball.sha256,
        library,
        gpu,
        str(prefix),
        *map(str, (compilers.cc, compilers.cxx)),
        compilers.says,
    ]
    built_of += [f"{name}={value}" for name, value in sorted(compilers.environ.items())]
    record = prefix / WHOLE
    try:
        if record.is_file():
            try:
                kept = json.loads(record.read_text())
            except ValueError:  # a damaged record keeps nothing
                kept = {}
            if kept.get("of") == built_of:
                say(
                    f"{kept['facts']['release']} was built by a 'stacks add' that was killed "
                    "later; it is reused"
                )
                return Built(prefix, kept["facts"])
            shutil.rmtree(prefix)
        prefix.mkdir(parents=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)
        try:
            top = unpack(tarball, work)
            say(f"building {top.name} with {compilers.cc} ({compilers.says}); its log is {log}")
            with _ended_by_signals():
                make = _Make(compilers, log, say, top.name, lock)
                for_gpu = _gpu_options(gpu, toolkit) if toolkit else []
                configured = (
                    _build_osu(make, top, prefix, for_gpu)
                    if tarball.suite == "osu"
                    else _build_imb(make, top, prefix)
                )
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise BadInput(
            "build-failed",
            f"{tarball.origin} cannot be built: {error.filename or log}: "
            f"{error.strerror or error}.",
        ) from None
    if not any(suite_of(path.name) == tarball.suite for path in prefix.rglob("*")):
        raise BadInput(
            "file-missing",
            f"{top.name} was built, but without any program of {tarball.suite}; its log is {log}.",
        )
    about = {"release": top.name, "source": tarball.origin, "sha256": tarball.sha256}
    facts = {**about, "compiler": compilers.says, "configure": configured}
    whole_file.write_text(record, json.dumps({"of": built_of, "facts": facts}))
    return Built(prefix, facts)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """What ends this process ends what it started, too, and
    leaves nothing behind, as Ctrl-C does.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if ours and signal.getsignal(number) == signal.SIG_DFL
    ]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _check_size(tarball: Tarball, archive: tarfile.TarFile) -> None:
    """Refuse what would fill a disk, by the heads of its members and before anything is written."""
    size = 0
    for number, member in enumerate(archive, 1):
        size += member.size
        if number > MOST_MEMBERS or size > MOST_BYTES:
            raise BadInput(
                "too-large",
                f"{tarball.path} would unpack to more than {MOST_BYTES >> 20} MiB or "
                f"{MOST_MEMBERS} files, more than any suite; name a release of the suite.",
            )


def unpack(tarball: Tarball, work: Path) -> Path:
    """Unpack a release; its one folder."""
    work.mkdir(parents=True)
    try:
        with tarfile.open(tarball.path) as archive:
            _check_size(tarball, archive)
            if hasattr(tarfile, "data_filter"):  # Python 3.10.12 and 3.11.4
                archive.extractall(work, filter="data")
            else:
                members = archive.getmembers()
                for member in members:
                    if (
                        not (member.isreg() or member.isdir())
                        or member.name.startswith("/")
                        or ".." in member.name.split("/")
                    ):
                        raise ValueError(
                            f"{member.name!r} is a link or leads outside; this Python's tarfile "
                            "is too old to judge it"
                        )
                archive.extractall(work, members)
            # A checksum of what is compressed stands behind the archive's end.
            while archive.fileobj.read(1 << 20):
                pass
    except _DAMAGED as error:
        said = str(error).partition("\n")[0].rstrip(":")
        raise BadInput(
            "checksum-differs",
            f"{tarball.path} cannot be unpacked ({said}); name a complete tarball.",
        ) from None
    tops = list(work.iterdir())
    top = tops[0] if len(tops) == 1 else work
    # The second name of each is that of older releases.
    marks = {
        "osu": ("c/util/osu_util.h", "util/osu_util.h"),
        "imb": ("src_cpp/Makefile", "src/Makefile.base"),
    }[tarball.suite]
    known = any((top / name).is_file() for name in marks) and (
        tarball.suite == "imb" or (top / "configure").is_file()
    )
    if len(tops) != 1 or not re.fullmatch(r"[\w.+-]+", top.name) or not known:
        raise BadInput(
            "configuration-unusable",
            f"{tarball.path} is not a release tarball of {tarball.suite}: its folder has no "
            f"{' or '.join(marks)}; use upstream's.",
        )
    return top


@dataclass(frozen=True)
class _Make:
    """Runs what builds, with its output in a log."""

    compilers: Compilers
    log: Path
    say: Echo
    what: str
    lock: int

    def __call__(self, words: Sequence[str], folder: Path) -> None:
        """Run a command, and everything it starts is gone at the end; make
        runs as many compilers as there are cores.
        """
        jobs = (
            [f"-j{len(os.sched_getaffinity(0))}"]
            if words[0] == "make" and "install" not in words
            else []
        )
        command = [words[0], *jobs, *words[1:]]
        status, output = logged.run(
            ["sh", "-c", _GUARD, "sh", *command],
            self.log,
            self.what,
            self.say,
            self.compilers.environ,
            end=lambda process: os.killpg(process.pid, signal.SIGKILL),
            cwd=folder,
            start_new_session=True,
            pass_fds=[self.lock] if self.lock >= 0 else [],
            # killed, it builds no more
            preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0),
        )
        if status:
            lines = [line.strip() for line in output.splitlines() if line.strip()]
            named = [
                line for pattern in (_REFUSED, _ERROR) for line in lines if pattern.search(line)
            ]
            reason = clause((named or lines[-1:] or ["it printed nothing"])[0])
            raise BadInput(
                "build-failed",
                f"{self.what} cannot be built: {Path(words[0]).name} ended with exit status "
                f"{status} ({reason}); its log is {self.log}.",
            )


def find_toolkit(gpu: str, environ: Mapping[str, str]) -> Path:
    """Folder of the toolkit of a platform of GPUs: the one a variable
    names, or that of its compiler on PATH.
    """
    compiler, *names = _TOOLKITS[gpu]
    program = shutil.which(compiler, path=environ["PATH"])
    folder = next(filter(None, map(environ.get, names)), "") or (
        str(Path(program).parent.parent) if program else ""
    )
    if not folder or not Path(folder, "include").is_dir():
        said = (
            f"{folder} has none"
            if folder
            else f"neither {' nor '.join(names)} is set and {compiler} is not on PATH"
        )
        raise BadInput(
            "file-missing",
            f"OSU is built for --gpu {gpu} with its toolkit: {said}; name its module, or --env "
            f"{names[0]}=...",
        )
    return Path(folder)


def _gpu_options(gpu: str, toolkit: Path) -> list[str]:
    """What configures OMB for a platform of GPUs; without its compiler
    it has no kernels, and so no managed memory.
    """
    enabled = (
        f"--enable-{gpu}"
        if gpu != "cuda" or (toolkit / "bin" / "nvcc").is_file()
        else "--enable-cuda=basic"
    )
    # of the driver's library, which a node without GPUs has not
    stubs = toolkit / "lib64" / "stubs"
    return [enabled, f"--with-{gpu}={toolkit}", *([f"LDFLAGS=-L{stubs}"] if stubs.is_dir() else [])]


def _build_osu(make: _Make, top: Path, prefix: Path, for_gpu: Sequence[str] = ()) -> str:
    """Build OMB; returns the line that configured it. Programs go
    below ``libexec``, spread over folders.
    """
    line = [
        "./configure",
        f"--prefix={prefix}",
        f"CC={make.compilers.cc}",
        f"CXX={make.compilers.cxx}",
        *for_gpu,
    ]
    # The configure of 7.5 sets mpi4_partition_send and tests
    # mpi4_partition_pt2pt: it never builds osu_partitioned_latency.
    configure = (top / "configure").read_text(errors="replace")
    if "mpi4_partition_pt2pt" in configure and "MPI_Psend_init" in _header(make.compilers):
        line.append("mpi4_partition_pt2pt=true")
    # A header of 7.0 defines a variable, in every file that includes it (util/osu_util_papi.h).
    line += (
        ["CFLAGS=-g -O2 -fcommon", "CXXFLAGS=-g -O2 -fcommon"] if top.name.endswith("-7.0") else []
    )
    make(line, top)
    make(["make"], top)
    make(["make", "install"], top)
    return shlex.join(line)


def _build_imb(make: _Make, top: Path, prefix: Path) -> str:
    """Build IMB; returns the first line that built a program.

    Each program is built in a copy of its own: upstream's Makefiles share object files that they
    compile with other flags, and append no optimisation and warnings as errors to whatever is asked
    for.
    """
    cc = make.compilers.cc
    cxx = make.compilers.cxx
    old = (top / "src").is_dir()  # 2018: one Makefile, C only
    names = ("MPI1", "EXT", "IO", "NBC", "RMA", *(() if old else ("MT", "MPI4")))
    folders = {
        name: "src" if old else "src_cpp"
        for name in names
        if old or (top / "src_cpp" / name).is_dir()
    }
    folders |= {"P2P": "src_c/P2P"} if (top / "src_c/P2P/Makefile").is_file() and not old else {}
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
    for name, folder in folders.items():
        program = f"IMB-{name}"
        if name == "MPI4" and standard < 4:
            make.say(
                f"{program} is not built: it needs MPI 4, and this MPI's mpi.h says {standard}."
            )
            continue
        copy = top.parent / program
        shutil.copytree(top, copy)
        if old:
            part = "MPIIO" if name == "IO" else name
            (copy / folder / f"build_{part}").mkdir()
            line = [
                "make",
                "-f",
                "Makefile.base",
                name,
                f"CPP={part}",
                f"CC={cc}",
                f"CLINKER={cc}",
                "OPTFLAGS=-O2",
            ]
            line.append(f"{program}={program}")
        else:
            flags = "-O2 -fopenmp" if name == "MT" else "-O2"
            line = [
                "make",
                f"TARGET={name}",
                f"CC={cc}",
                f"CXX={cxx}",
                f"CFLAGS={flags}",
                f"CXXFLAGS={flags}",
                "CPPFLAGS=",
            ]
        make(line, copy / folder)
        shutil.move(copy / folder / program, prefix / "bin" / program)
        shutil.rmtree(copy)
        lines.append(shlex.join(line))
    return lines[0] if lines else ""


def _header(compilers: Compilers) -> str:
    """What ``mpi.h`` declares, and ``standard N``, the version of the MPI standard it says."""
    source = "#include <mpi.h>\nstandard MPI_VERSION\n"
    try:
        done = logged.ask([compilers.cc, "-E", "-x", "c", "-"], compilers.environ, LIMIT_S, source)
        if not done.returncode:
            return done.stdout
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    raise BadInput(
        "build-failed", f"{compilers.cc} -E cannot preprocess mpi.h ({said}); correct it."
    )
