"""What a launcher is: one record in one file of this folder.

A launcher gets the number of ranks, of ranks per node, and their CPUs; under a batch system also
how to reach other nodes, and some need the names of the variables to export. The functions of a
record write each of these in the syntax of the launcher's manual. CPU numbers are the operating
system's unless a file says otherwise. None oversubscribes cores unless requested.

What launchers print or fail to do is left to the test's evidence: several print nothing if they did
not bind as requested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..machine.placement import RankPlacement
from ..mpis.transport import Range

#: Name of a host file, in the directory the launcher is started in.
HOSTFILE = "hostfile"
#: Every version.
ANY = Range((0,))


@dataclass(frozen=True)
class Binding:
    """What to give a launcher.

    :param env: variables to set for the launcher and the ranks.
    :param options: words between ``-np N`` and the program.
    :param files: name to content, to be written where the launcher is started.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    def adding(
        self,
        *options: str,
        env: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> Binding:
        return Binding(
            {**self.env, **(env or {})}, (*self.options, *options), {**self.files, **(files or {})}
        )


@dataclass(frozen=True)
class Request:
    """Where ranks are to go.

    :param nodes: nodes of the job, which the batch system's allocation names, or this machine if
        there is none; every node gets the same placement.
    :param ppn: processes per node, as resolved.
    :param mpi: MPI library of the ranks (:mod:`mpis`), if known.
    :param version: its version, if known; without, the newest that has this launcher.
    :param oversubscribe: allow more ranks than the launcher counts slots or
        CPUs, for nodes that only pretend to have cores.
    :param hostfile: the job itself will write :data:`HOSTFILE`, from what
        the batch system says (:class:`Bootstrap`).
    :param unbinding: variables that keep the MPI library from binding
        its ranks again, after this launcher did.
    """

    placement: RankPlacement
    nodes: int
    ppn: int
    mpi: str = ""
    version: tuple[int, ...] = ()
    oversubscribe: bool = False
    hostfile: bool = False
    unbinding: Mapping[str, str] = field(default_factory=dict)

    @property
    def ranks(self) -> tuple[tuple[int, ...], ...]:
        """CPUs per rank of a node; empty for ``default`` and ``none``."""
        return self.placement.ranks or ()

    @property
    def narrow(self) -> bool:
        """True if every rank has exactly one CPU."""
        return all(len(cpus) == 1 for cpus in self.ranks)

    def before(self, *version: int) -> bool:
        """True if the MPI is known to be older than a version."""
        return bool(self.version) and self.version < version


@dataclass(frozen=True)
class Exports:
    """What a launcher may need so that ranks on every node get the variables of the job.

    :param words: its command line so far.
    :param values: variables and their values.
    :param names: names of these, and of variables that the job has set
        although their value is not known here.
    """

    nodes: int
    words: tuple[str, ...]
    values: Mapping[str, str]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Introduction:
    """How a stack's own launcher introduces itself.

    :param pattern: regular expression that finds it in what ``option``
        makes it print, and finds no other launcher.
    :param program: regular expression of the program's own name,
        where others must not be asked this way.
    """

    pattern: str
    option: str = "--version"
    program: str = ""


@dataclass(frozen=True)
class Bootstrap:
    """What to add to a job of several nodes so that a stack's own
    launcher starts ranks on all of them.

    :param manual: where it is described.
    :param schedulers: ReFrame's names of the batch systems it is for.
    :param versions: versions of the MPI it holds for.
    :param env: variables for the launcher; ``$PWD`` is the job's directory.
    :param scripts: name to content of executable files to be written there.
    :param prepare: shell lines before the first launch.
    :param hostfile: :data:`HOSTFILE` will hold one line per rank slot of the job.
    """

    manual: str = ""
    schedulers: tuple[str, ...] = ()
    versions: Range = ANY
    env: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    hostfile: bool = False


@dataclass(frozen=True)
class RankNames:
    """Names of the variables with a rank's identity, for the recorder; of several, the first that
    is set counts.

    :param rank: rank among all ranks.
    :param size: number of all ranks.
    :param local_rank: rank on the node; its rank 0 reads the state of the node's links.
    :param job: number of the batch job, where the batch system itself
        does not say it (``BatchSystem.job``).
    """

    rank: tuple[str, ...] = ()
    size: tuple[str, ...] = ()
    local_rank: tuple[str, ...] = ()
    job: tuple[str, ...] = ()


def export_nothing(exports: Exports) -> tuple[str, ...]:
    """For launchers that pass on the whole environment anyway."""
    return ()


@dataclass(frozen=True)
class Launcher:
    """A way of starting ranks.

    :param name: of a stack's own ``mpirun`` as ``stack.json`` has it
        (``launcher_family``); of a site's launcher its program.
    :param title: its name in sentences.
    :param manual: sections that define the words.
    :param count: options that fix the processes per node; all that policy ``default`` asks.
    :param unbound: policy ``none``: no binding at all, by launcher and library.
    :param explicit: policies that name CPUs; raises ``NotMeasured``
        for a placement it has no words for.
    :param total: words for the number of ranks; ``{ranks}``, ``{nodes}`` and ``{pmi}``, the process
        management interface that the ranks speak, are filled in.
    :param total_last: options of the whole job must stand in front of :attr:`total`.
    :param site: ReFrame launchers (``launcher`` of a partition) that are this
        one; empty: it is a stack's own ``mpirun``.
    :param program: a site's launcher without options; empty: what
        ReFrame's launcher of that name starts.
    :param pmi_extra: key of a partition's extras that says, by MPI or stack, which process
        management interface ranks speak.
    :param pmi_words: process management interface, as ``srun --mpi`` names it (``Mpi.pmi``), to the
        words that ask for it; without any the name itself stands in :attr:`total`. One that is not
        here is one it does not offer.
    :param introduction: how to recognise a stack's own; without one it can only be named in
        ``stack.json``. A site's launcher that has one is the ``mpirun`` of some stack, too.
    :param untested: why nothing of it was ever run by the project, as
        the end of a sentence; empty: it was.
    :param exports: words that hand variables on to ranks; they end the command line.
    :param oversubscribe: options that allow more ranks than cores; empty: it never refuses them.
    :param bootstraps: ways to the other nodes, per batch system. Slurm needs none: every ``mpirun``
        here finds its allocation and starts through it by itself.
    :param private: beginnings of the names of variables that only the
        launcher reads, and need not pass on.
    :param rewritten: likewise, of variables that it sets again for
        the ranks to what it made of them.
    :param identity: where its ranks find who they are; needed where an
        MPI's world is unknown (``Mpi.world``).
    :param settings: first letters of variables that say how it started
        the ranks, which each rank's record keeps.
    :param stdout_lines: whole lines it can print on stdout only, among the benchmark's.
    :param note: what a reader of the record must know.
    """

    name: str
    title: str
    manual: str
    count: Callable[[Request], Binding]
    unbound: Callable[[Request], Binding]
    explicit: Callable[[Request], Binding]
    total: tuple[str, ...] = ("-np", "{ranks}")
    total_last: bool = False
    site: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    pmi_extra: str = ""
    pmi_words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    untested: str = ""
    introduction: Introduction | None = None
    exports: Callable[[Exports], tuple[str, ...]] = export_nothing
    oversubscribe: tuple[str, ...] = ()
    bootstraps: tuple[Bootstrap, ...] = ()
    private: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    identity: RankNames = RankNames()
    settings: tuple[str, ...] = ()
    stdout_lines: re.Pattern[str] | None = None
    note: str = ""

    @property
    def needs_pmi(self) -> bool:
        """True if its command line names the process management interface the ranks speak."""
        return bool(self.pmi_words) or any("{pmi}" in word for word in self.total)

    def offers(self, pmi: str) -> bool:
        """True if it starts ranks that speak a process management
        interface, whose name must be known.
        """
        return bool(pmi) and (not self.pmi_words or pmi in self.pmi_words)

    def bootstrap(self, version: tuple[int, ...], scheduler: str, nodes: int) -> Bootstrap:
        """What it needs under a batch system; nothing inside one
        node or where no row says otherwise.

        :param version: of the stack's MPI.
        :param scheduler: ReFrame's name of the batch system.
        """
        rows = [
            row
            for row in self.bootstraps
            if nodes > 1 and scheduler in row.schedulers and version in row.versions
        ]
        return rows[0] if rows else Bootstrap()

    def words(
        self, program: Sequence[str], options: Sequence[str], nodes: int, ranks: int, pmi: str = ""
    ) -> tuple[str, ...]:
        """The command line, but for :attr:`exports` and what should be started.

        :param pmi: process management interface of the ranks, where :attr:`needs_pmi`.
        """
        total = [
            word.format(nodes=nodes, ranks=ranks, pmi=pmi)
            for word in (*self.total, *self.pmi_words.get(pmi, ()))
        ]
        return (*program, *options, *total) if self.total_last else (*program, *total, *options)


def mask(cpus: Sequence[int]) -> str:
    """CPUs as a bit mask, ``0x5`` for 0 and 2."""
    return hex(sum(1 << cpu for cpu in cpus))
