"""How an MPI library was compiled, as it reports itself: one without optimisation is slow whatever
it is compared with.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.model import CompilerReport
from reframe_tests.harness.stacks.stack import Stack

from . import probe

#: Value of ``optimisation`` of a library that does not say it.
UNKNOWN = "not known"
#: Value of ``optimisation`` of a library that says its flags, and none is ``-O``.
NO_FLAG = "no -O"
#: What is no optimisation (GCC and Clang, "Options That Control
#: Optimization"): ``-Og`` is for debuggers.
_SLOW = (NO_FLAG, "-O0", "-Og")
#: Compilers that do not optimise unless told to; Intel's do (-O2), and so do others.
_PLAIN = re.compile(r"(?:.*[/-])?(?:cc|gcc|clang)(?:-[\d.]+)?$")
#: Prints what MPICH and MPIs made of it have in their library, whatever
#: their banner has (MPICH, src/mpi/init/initinfo.c).
_TEXTS = """
for name in ("configure", "CC"):
    try:
        address = ctypes.addressof(ctypes.c_char.in_dll(library, "MPII_Version_" + name))
    except ValueError:
        continue
    print("\\nMPII %s: %s" % (name, ctypes.string_at(address).decode(errors="replace")))
"""


def ask(
    stack: Stack, injected: str = "", environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """How the stack's library was compiled, for ``build.compiled``
    of its ``stack.json``; see :func:`read`.
    """
    banner = registry.find(stack.mpi).banner
    says = banner.compiled if banner else None
    if not says:
        return {"optimisation": UNKNOWN}
    words = [sys.executable, "-I", "-c", probe.LIBRARY_ANSWER + _TEXTS, stack.library]
    if says.words:
        words = [
            str(probe.find_program(Path(stack.mpirun[0]), says.words[0]) or ""),
            *says.words[1:],
        ]
    try:
        status, text = probe.run_inside(
            stack, words, probe.clean_environment(environ), probe.ANSWER_S
        )
    except OSError:
        status = 127
        text = ""
    # A program beside another release's launcher speaks of that one.
    return read(says, "" if status or stack.mpi_version not in text else text, injected)


def read(says: CompilerReport, text: str, injected: str = "") -> dict[str, str]:
    """What a library's answer says.

    :param injected: flags that a compiler wrapper put before those the
        library knows of (Spack's, for ``cflags``).
    :returns: ``optimisation`` (the last ``-O`` counts, :data:`NO_FLAG` or :data:`UNKNOWN`); where
        it is known also ``debugging`` and ``checks`` (of arguments), each ``yes`` or ``no``.
    """
    found = [
        (compiler, f"{injected} {flags}") for compiler, flags in re.findall(says.flags, text, re.M)
    ]
    # Who took all flags out of it has taken out the others, too (MPICH of PyPI).
    compiler, flags = next(
        ((compiler, flags) for compiler, flags in found if flags.strip()), ("", "")
    )
    levels = re.findall(r"(?<!\S)-O(?:[0-9gsz]|fast)?(?!\S)", flags)
    if not flags or (not levels and compiler and not _PLAIN.match(compiler)):
        return {"optimisation": UNKNOWN}
    debugging = re.search(says.debugging, text, re.M) or "-fsanitize=" in flags
    checks = (value for value, pattern in says.checks.items() if re.search(pattern, text, re.M))
    return {
        "optimisation": levels[-1] if levels else NO_FLAG,
        "debugging": "yes" if debugging else "no",
        "checks": next(checks, UNKNOWN),
    }


def find_fault(compiled: Mapping[str, str]) -> str:
    """Why numbers of a library are not worth comparing, as the end of a sentence; empty if no
    reason is known.
    """
    level = compiled.get("optimisation", UNKNOWN)
    if level in _SLOW:
        return f"compiled without optimisation ({level})"
    return "built for debugging" if compiled.get("debugging") == "yes" else ""


def describe(compiled: Mapping[str, str]) -> str:
    """How it was compiled, as the end of a sentence."""
    level = compiled.get("optimisation", UNKNOWN)
    if level == UNKNOWN:
        return "its flags are unknown"
    checks = {"yes": ", checks arguments", "no": ", checks no arguments"}.get(
        compiled.get("checks", ""), ""
    )
    return (find_fault(compiled) or f"compiled with {level}") + checks


def sentence(stack: Stack) -> str:
    """The note on a stack at registration, without its full stop."""
    compiled = stack.build.get("compiled", {})
    wrong = "; its numbers reflect these flags, not the MPI" if find_fault(compiled) else ""
    alone = (
        ""
        if "linked" in stack.build
        else "; it loads only in jobs, so replaced files beside it go unnoticed"
    )
    return f"its MPI library: {describe(compiled)}{wrong}{alone}"


def aspects(mpi: str, compiled: Mapping[str, str]) -> dict[str, str]:
    """The known aspects in which stacks are compared (:func:`.spack.lock.table`). The ``-O`` level
    is compared only between builds of one MPI, because each MPI has its own default.
    """
    level = compiled.get("optimisation", UNKNOWN)
    if level == UNKNOWN:
        return {}
    said = {
        f"mpi {name}": compiled[name]
        for name in ("debugging", "checks")
        if compiled.get(name, UNKNOWN) != UNKNOWN
    }
    return {
        "mpi optimised": "no" if level in _SLOW else "yes",
        f"{mpi} optimisation": level,
        **said,
    }
