"""ReFrame's command line that measures exactly the called cases again, as they were measured before.

Why ``-n``, and none of ReFrame's facilities for repeating (manual of 4.10, "Options controlling ReFrame execution", "Test
filtering"; ``frontend/cli.py``, ``frontend/executors/__init__.py``):

``--max-retries N``
    repeats at once what failed, inside the session. It repeats cases without evidence, too, and forgets their first run;
    it knows nothing of what ``accept`` calls after the session has ended; its only bound is ``--retries-threshold``.
``--restore-session REPORT --failed``
    selects what failed, again with the cases that lack evidence, and nothing that passed in ReFrame and was called by a
    verdict. Without ``--failed`` it takes only the files of the tests from the report, not the cases.
``--reruns N``, ``--duration T``
    repeat a whole session, as often or as long as they say.
``-n /HASH``
    as exact as a name, but a hash is in no dataset, and one that is gone says nothing to a reader.

So a session of its own is run with the names of the cases as ``-n``, anchored, in one alternation: a case that does not exist
any more is then not selected, and the others are. ReFrame selects the product of names, environments (``-p``) and one partition
(``--system``), so cases are grouped until each product holds nothing that was not called. Everything else on the command line
of the first session stays: levels, repeats, parameters, job options.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from reframe_tests.harness import batch_systems
from reframe_tests.harness.vocabulary import BadInput

from ...store.sessions import CONFIRMS
from .. import options as night_options
from .called import CalledCase

#: Value of the label ``run``: these sessions are no nights of any series.
RUN = "confirmation"
#: ReFrame's options with a value that select cases, bound or repeat a session, or say where its report goes.
_DROPPED = (
    *("-n --name", "-x --exclude", "-t --tag", "-T --exclude-tag", "-p --prgenv", "-E --filter-expr", "--maintainer"),
    *("--system", "--session-extras", "--report-file", "--report-junit", "--timestamp"),
    *("--max-retries", "--retries-threshold", "--maxfail", "--reruns", "--duration"),
)
#: Those without a value, and how much is said.
_DROPPED_FLAGS = (
    *("-r --run", "--dry-run", "--cpu-only", "--gpu-only", "--failed"),
    *("-v --verbose", "-q --quiet", "--nocolor"),
)


@dataclass(frozen=True)
class Rerun:
    """One session that measures cases of another one again: all names with all stacks on one partition and the same nodes.

    :param session: the one whose cases they are.
    :param nodes: of their jobs, as the scheduler calls them; none where it named none.
    """

    session: str
    system: str
    partition: str
    stacks: tuple[str, ...]
    names: tuple[str, ...]
    cases: tuple[CalledCase, ...]
    nodes: tuple[str, ...] = ()


def plan(cases: Sequence[CalledCase]) -> list[Rerun]:
    """The fewest sessions of this kind that hold these cases and no others; those with the worst cases first."""
    by_stack: dict[tuple[str, str, str, tuple[str, ...], str], list[CalledCase]] = {}
    for case in cases:
        by_stack.setdefault((case.session, case.system, case.partition, case.on.job, case.stack), []).append(case)
    products: dict[tuple[str, str, str, tuple[str, ...], frozenset[str]], list[CalledCase]] = {}
    for (session, system, partition, nodes, _), held in by_stack.items():
        products.setdefault((session, system, partition, nodes, frozenset(case.name for case in held)), []).extend(held)
    reruns = [
        Rerun(
            *(session, system, partition),
            stacks=tuple(dict.fromkeys(one.stack for one in held)),
            names=tuple(sorted(names)),
            cases=tuple(held),
            nodes=nodes,
        )
        for (session, system, partition, nodes, names), held in products.items()
    ]
    return sorted(reruns, key=lambda rerun: -max(case.slower for case in rerun.cases))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise argparse.ArgumentError(None, message)


def kept_options(command_line: str) -> list[str]:
    """Options of a session's command line that say how it measured.

    A mode becomes its options: ReFrame 4.10 forgets ``-p`` beside ``--mode`` (:func:`mpibench.night.options.of_mode`).

    :param command_line: ReFrame's, quoted as for a shell.
    :raises BadInput: no shell would take it, or it names a mode that does not exist.
    """
    parser = _Parser(add_help=False)
    for names in _DROPPED:
        parser.add_argument(*names.split(), action="append", dest="dropped")
    for names in _DROPPED_FLAGS:
        parser.add_argument(*names.split(), action="count", dest="flag")
    parser.add_argument("--mode")
    parser.add_argument("-R", "--recursive", action="store_true")  # may stand in one word with -r
    parser.add_argument("--restore-session", nargs="?", dest="dropped_too")
    try:
        known, kept = parser.parse_known_args(shlex.split(command_line)[1:])
        if known.mode:
            again, more = parser.parse_known_args(night_options.of_mode(known.mode))
            kept = [*more, *kept]
            known.recursive |= again.recursive
    except (ValueError, argparse.ArgumentError) as error:
        raise BadInput(
            "command-line-unreadable",
            f"how the session was measured cannot be read from its command line {command_line!r}: {error}.",
        ) from None
    return [*kept, *(["-R"] if known.recursive else [])]


def words(rerun: Rerun, command_line: str, report: Path, scheduler: str = "") -> list[str]:
    """The command line that runs it.

    :param command_line: of the session that is confirmed.
    :param report: where the run report goes, from which the new session's id is read.
    :param scheduler: of its jobs, as ReFrame calls it; the nodes are asked for where that takes their names.
    :raises BadInput: as :func:`kept_options`.
    """
    return [
        *(_program(), "--nocolor", "-r", *kept_options(command_line), f"--system={rerun.system}:{rerun.partition}"),
        *(["-J", option] if (option := batch_systems.ask_for_nodes(scheduler, rerun.nodes)) else []),
        *("-p", _anyone(rerun.stacks), "-n", _anyone(name.replace(" ", "") for name in rerun.names)),
        *("--session-extras", f"run={RUN},{CONFIRMS}={rerun.session}", f"--report-file={report}"),
    ]


def _program() -> str:
    """ReFrame, as a night finds it, or that of our own Python where that was not activated."""
    return shutil.which("reframe") or str(Path(sys.executable).with_name("reframe"))


def _anyone(names: Iterable[str]) -> str:
    """A regular expression that fits each of some names and nothing else; ReFrame takes an ``@`` for something else."""
    escaped = (re.escape(name).replace("@", ".") for name in names)
    return f"^(?:{'|'.join(escaped)})$"
