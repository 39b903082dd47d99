"""What is known of one MPI library: one record. Everything else that names MPIs is derived from the
records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..machine.transport import TRANSPORTS, Transport
from .transport import Gap, TransportRow, Version
from .tuning.model import Tuning


@dataclass(frozen=True)
class CompilerReport:
    """How a library says what it was compiled with. Each pattern
    is a regular expression (multi-line).

    :param flags: compiler, empty where it is not told there, and
        flags of its C sources: two groups.
    :param debugging: what only a build for its developers says, which checks itself while it runs.
    :param checks: whether every call checks its arguments (``yes``, ``no``)
        to what says so; the first that fits counts.
    :param words: program beside the launcher that says it, and its
        options; without, the library itself does.
    """

    flags: str
    debugging: str
    checks: Mapping[str, str]
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Banner:
    """How a library introduces itself in ``MPI_Get_library_version``.

    :param version: regular expression (multi-line) whose first group is the version.
    :param pattern: what goes into ``library_version_pattern``;
        ``{version}`` stands for the escaped version.
    :param device: regular expression of the communication device, where builds differ in it.
    :param device_by_path: where the banner does not say it: regular
        expression of the library's path to the device.
    :param gpu: platform of GPUs whose memory it was built to send to a regular expression
        (multi-line) of what says so: the banner, what ``gpu_words`` print, or the name of a library
        that programs are linked with.
    :param gpu_words: program beside the launcher that says it, and its options.
    :param compiled: how it says what it was compiled with; without, that is unknown.
    """

    version: str
    pattern: str
    device: str = ""
    device_by_path: Mapping[str, str] = field(default_factory=dict)
    gpu: Mapping[str, str] = field(default_factory=dict)
    gpu_words: tuple[str, ...] = ()
    compiled: CompilerReport | None = None


@dataclass(frozen=True)
class Unbinding:
    """How a library is kept from binding its ranks by itself.

    :param manual: where that is described.
    :param launchers: launchers of its own under which it would bind
        them; under a site's it always would.
    :param env: variables that keep it from doing so.
    :param before: first version that does not bind any more; empty: all do.
    """

    manual: str
    launchers: tuple[str, ...]
    env: Mapping[str, str]
    before: Version = ()


@dataclass(frozen=True)
class SpackPackage:
    """How the library appears as a package of Spack.

    :param name: the package, which gives an environment its name, too.
    :param homes: where below the package's prefix ``bin`` is; ``{version}`` is its version,
        ``{short}`` the first two numbers.
    :param libraries: folders below home its libraries need on the search path,
        because programs do not find them otherwise.
    :param launchers: where its launcher is, below home or, from the root,
        where a machine has it: the first that is there.
    :param bundle: its version is that of what the library comes in, and the library has another.
    :param env: variables without which it cannot work where it is, as its
        recipe sets them; ``{prefix}`` is its home.
    """

    name: str
    homes: tuple[str, ...] = ("",)
    libraries: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ("bin/mpirun",)
    bundle: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


#: Binary interfaces of the MPIs of this folder; a site's own MPI may have one of its own.
ABIS = ("mpich", "openmpi", "pempi")
#: That of the standard itself (MPI 5.0, chapter 20), which several MPIs have beside their own, the
#: library that has it, whoever made it, and ``MPI_COMM_WORLD`` there (appendix A).
FORUM_ABI = "forum"
FORUM_LIBRARY = "libmpi_abi"
FORUM_SONAME = "libmpi_abi.so.1"
FORUM_WORLD = "0x101"
#: Major version of it, as ``MPI_Abi_get_version`` says.
FORUM_MAJOR = 1
#: ``MPI_COMM_WORLD`` of the ABI that MPICH, Intel MPI and MVAPICH have in common (``mpi.h``).
MPICH_WORLD = "0x44000000"
#: Symbol that a library has whose ``MPI_COMM_WORLD`` is that: MPICH's ``mpi.h`` has programs use it
#: (MPI_DUP_FN).
MPICH_SYMBOL = "MPIR_Dup_fn"
#: What MPICH and MPIs made of it were configured with, in their banner.
MPICH_GPU = {
    "cuda": r"--(?:with|enable)-cuda(?!=no\b)",
    "rocm": r"--(?:with|enable)-(?:hip|rocm)(?!=no\b)",
}
#: MPICH and MPIs made of it say it in their banner, or in texts that their library has (MPICH,
#: src/mpi/init/initinfo.c). Its configure checks arguments unless told otherwise; of ``--enable-g``
#: (4.0: configure.ac) only ``dbg`` costs nothing.
MPICH_COMPILED = CompilerReport(
    flags=r"^\w+ CC\s*:[ \t]*(\S+)(.*)$",
    debugging=r"--enable-g(?![\w=-])|--enable-g='?(?!(?:none|no|dbg|debug)(?![\w,]))",
    checks={"no": r"--(?:disable-error-checking|enable-error-checking=no)(?![\w-])", "yes": ""},
)


@dataclass(frozen=True)
class Mpi:
    """One MPI library.

    :param name: as in ``mpi.name`` of ``stack.json``.
    :param title: its name in sentences.
    :param abi: binary interface of its libmpi: binaries built for the same one run on it.
    :param launchers: process managers its own ``mpirun`` may be.
    :param newest: its newest release known here; empty: none is.
    :param rows: how it uses each transport.
    :param gaps: why it has no row for a transport or version.
    :param banner: how it introduces itself; without, an installed one is not recognised.
    :param libraries: its C libraries, without what follows ``.so``.
    :param sonames: regular expressions of the names (SONAME) under which programs ask for them.
    :param world: ``MPI_COMM_WORLD`` of its ABI: a number, or the name of the
        object whose address it is; empty: not known.
    :param env: variables without which its launcher cannot work where
        it is; ``{prefix}`` is where that is.
    :param pmi: process management interface its ranks speak, as ``srun --mpi`` names it; empty: no
        launcher that needs its name starts them.
    :param stdout_lines: whole lines it can print on stdout only, among the benchmark's.
    :param unbinding: how its ranks are kept from binding themselves.
    :param settings: first letters of variables that choose or tune
        it, which each rank's record keeps.
    :param bookkeeping: first letters of those among them that say nothing: its launcher's own
        notes, long and different for every rank.
    :param spack: its packages, where Spack can build it or build on it:
        several vendors' builds may be one library.
    :param untested: why nothing of it was ever run by the project, as
        the end of a sentence; empty: it was.
    :param tuning: what of its collectives can be tuned; ``None``: nothing is known.
    :param transports: transports it adds to :data:`machine.transport.TRANSPORTS`; a name alone is
        one of RDMA devices.
    """

    name: str
    title: str
    abi: str
    launchers: tuple[str, ...]
    rows: tuple[TransportRow, ...] = ()
    gaps: tuple[Gap, ...] = ()
    banner: Banner | None = None
    libraries: tuple[str, ...] = ("libmpi",)
    sonames: tuple[str, ...] = ()
    world: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    pmi: str = ""
    stdout_lines: re.Pattern[str] | None = None
    unbinding: tuple[Unbinding, ...] = ()
    settings: tuple[str, ...] = ()
    bookkeeping: tuple[str, ...] = ()
    spack: tuple[SpackPackage, ...] = ()
    untested: str = ""
    tuning: Tuning | None = None
    transports: tuple[Transport | str, ...] = ()
    newest: str = ""

    @property
    def own_transports(self) -> dict[str, Transport]:
        """Transports it names itself, by name."""
        rows = (
            row if isinstance(row, Transport) else TRANSPORTS.get(row, Transport(row))
            for row in self.transports
        )
        return {row.name: row for row in rows}
