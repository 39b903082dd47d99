"""All MPI libraries: those of this folder, one file each, and those of ``MPIBENCH_EXTENSIONS``
(:mod:`records`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from .. import records
from ..machine.fabric import CLASSES
from ..machine.gpu import KINDS
from ..machine.transport import TRANSPORTS, Transport
from ..vocabulary import BadInput
from .model import (
    ABIS,
    FORUM_ABI,
    FORUM_LIBRARY,
    FORUM_SONAME,
    FORUM_WORLD,
    MPICH_SYMBOL,
    MPICH_WORLD,
    Mpi,
)
from .transport import PLACEHOLDERS, TransportRow

#: Name of an MPI, of an ABI and of a transport: a word of file names, metadata and column values.
_WORD = re.compile(r"[a-z][a-z0-9_]*")
#: First letters of a variable's name.
_PREFIX = re.compile(r"[A-Z][A-Z0-9_]*")
#: A number as C and Python both read it, and the name of a C object.
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|0|[1-9][0-9]*", re.ASCII)
_OBJECT = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: Largest number that is a handle: the recorder and ``probe`` pass it as a C int.
_MOST_HANDLE = 2**31 - 1


def known() -> dict[str, Mpi]:
    """Every MPI by name.

    :raises BadInput: for an extension that cannot be used, naming its file.
    """
    return records.load(__package__, "MPI", Mpi, _find_fault)


def find(name: str) -> Mpi:
    try:
        return known()[name]
    except KeyError:
        raise BadInput(
            "unknown-name", f"unknown MPI {name!r} (known: {', '.join(known())}); {remedy()}."
        ) from None


def remedy() -> str:
    """What to do about an MPI that is missing, as the end of a sentence."""
    return (
        "describe it in a file of reframe_tests/harness/mpis/, or of mpis/ in a folder that "
        f"{records.EXTENSIONS} names"
    )


def names() -> tuple[str, ...]:
    return tuple(known())


def abis() -> tuple[str, ...]:
    """Binary interfaces of all MPIs, each once, and the standard's own."""
    return _each_once((*(mpi.abi for mpi in known().values()), FORUM_ABI))


def libraries() -> tuple[str, ...]:
    """Libraries that are an MPI, without what follows ``.so``."""
    return _each_once(
        (*(name for mpi in known().values() for name in mpi.libraries), FORUM_LIBRARY)
    )


def transports() -> dict[str, Transport]:
    """Transports a fabric may name, by name."""
    rows = dict(TRANSPORTS)
    described = dict.fromkeys(TRANSPORTS, "")
    for mpi in known().values():
        for name, row in mpi.own_transports.items():
            if rows.setdefault(name, row) != row:
                raise BadInput(
                    "configuration-unusable",
                    f"{described[name]} and {mpi.name} describe transport {name!r} differently; "
                    "make them equal.",
                )
            described.setdefault(name, mpi.name)
    return rows


def transport(name: str) -> Transport:
    rows = transports()
    if name not in rows:
        raise BadInput("unknown-name", f"transport {name!r} is not one of {', '.join(rows)}.")
    return rows[name]


def settings() -> tuple[str, ...]:
    """First letters of variables that choose or tune some MPI."""
    return _each_once(prefix for mpi in known().values() for prefix in mpi.settings)


def bookkeeping() -> tuple[str, ...]:
    """First letters of variables among :func:`settings` that say nothing."""
    return _each_once(prefix for mpi in known().values() for prefix in mpi.bookkeeping)


def worlds() -> dict[str, str]:
    """``MPI_COMM_WORLD`` of each ABI by a symbol that only its libraries have."""
    handles = _each_once(mpi.world for mpi in known().values() if mpi.world)
    symbols = {MPICH_WORLD: MPICH_SYMBOL}
    return {
        symbols.get(handle, handle): handle
        for handle in handles
        if handle in symbols or not _NUMBER.fullmatch(handle)
    }


def abi_of(soname: str) -> str:
    """Binary interface behind the name of a needed MPI library; empty for other libraries."""
    return next(
        (
            mpi.abi
            for mpi in known().values()
            if any(re.fullmatch(pattern, soname) for pattern in mpi.sonames)
        ),
        FORUM_ABI if soname == FORUM_SONAME else "",
    )


def world_of(name: str, abi: str) -> str:
    """``MPI_COMM_WORLD`` of an MPI where programs use one of its ABIs."""
    return FORUM_WORLD if abi == FORUM_ABI else find(name).world


def _each_once(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _fault_of_row(row: TransportRow) -> str:
    proofs = [*row.proofs, *(proof for part in row.proofs_by_scope.values() for proof in part)]
    if not proofs:
        return "has neither 'proofs' nor 'proofs_by_scope', so no run can prove it"
    for word in row.classes:
        if word not in CLASSES:
            return f"has 'classes' of {word!r}; there are {', '.join(CLASSES)}"
        row = row.of_class(word)
    proofs = [*row.proofs, *proofs]
    variables = [row.env, row.debug_env, *row.by_scope.values(), *row.by_rails.values()]
    own = {proof.subject for proof in proofs}
    for kind, memory in row.memory.items():
        if kind not in KINDS:
            return (
                f"has 'memory' of {kind!r}, which is not a GPU platform; there are "
                f"{', '.join(KINDS)}"
            )
        if strange := [subject for subject in memory.replaces if subject not in own]:
            return (
                f"replaces the proof {strange[0]!r} for GPU memory, but has none of that subject; "
                "correct it"
            )
        variables += [
            memory.env,
            memory.debug_env,
            *memory.by_scope.values(),
            *memory.by_rails.values(),
        ]
        proofs += [
            *memory.proofs,
            *(proof for part in memory.proofs_by_scope.values() for proof in part),
        ]
    templates = [*(value for part in variables for value in part.values())]
    templates += [template for proof in proofs for template in (*proof.expect, *proof.allow)]
    for template in templates:
        for word in re.findall(r"\{([a-z_]+)\}", template):
            if word not in PLACEHOLDERS:
                return (
                    f"has the placeholder {{{word}}} in {template!r}; there are "
                    f"{', '.join(sorted(PLACEHOLDERS))}"
                )
    for proof in proofs:
        for pattern in (proof.pattern, proof.line):
            try:
                re.compile(pattern)
            except re.error as error:
                return (
                    f"has the pattern {pattern!r}, which is not a regular expression ({error}); "
                    "correct it"
                )
    return ""


def _find_fault(mpi: Mpi) -> str:
    for word in (mpi.name, mpi.abi, *mpi.own_transports):
        if not _WORD.fullmatch(word):
            return f"{word!r} is not a name of lower-case letters, digits and _; rename it"
    near = [] if mpi.abi in ABIS else difflib.get_close_matches(mpi.abi, ABIS, 1, 0.8)
    if near and not mpi.abi.startswith(near[0]):
        return (
            f"'abi' is {mpi.abi!r}, but no other MPI has it; write {near[0]!r}, or use another "
            "name for a new one"
        )
    for key, prefixes in (("settings", mpi.settings), ("bookkeeping", mpi.bookkeeping)):
        for prefix in prefixes:
            if not _PREFIX.fullmatch(prefix):
                return f"{prefix!r} in {key!r} is not the start of a variable name; correct it"
    # A number of C's int, or the name of an object.
    handle = (
        int(mpi.world, 0) <= _MOST_HANDLE
        if _NUMBER.fullmatch(mpi.world)
        else _OBJECT.fullmatch(mpi.world)
    )
    if mpi.world and not handle:
        return (
            f"'world' is {mpi.world!r}, which is neither a C int nor the name of an object; "
            "correct or remove it"
        )
    for row in mpi.rows:
        if fault := _fault_of_row(row):
            return f"the row of transport {row.transport!r} {fault}"
    named = {row.transport for row in mpi.rows} | {gap.transport for gap in mpi.gaps}
    for name, own in mpi.own_transports.items():
        if TRANSPORTS.get(name, own) != own:
            return f"transport {name!r} already exists with another description; rename yours"
    unknown = named - {*TRANSPORTS, *mpi.own_transports}
    if unknown:
        return (
            f"transport {sorted(unknown)[0]!r} is not one of {', '.join(TRANSPORTS)}; correct "
            "it, or name it in 'transports'"
        )
    return ""
