"""An MPI installation made of a few functions: a real shared library and
programs linked with it, for tests without an MPI.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reframe_tests.harness.evidence import recorder

#: A launcher that runs its program as many times as ranks are asked for, one after the other.
MPIRUN = """#!/bin/sh
[ "$1" = --version ] && {{ echo '{version}'; exit 0; }}
while [ $# -gt 0 ]; do
    case $1 in -n | -np) ranks=$2; shift 2 ;; --oversubscribe) shift ;; *) break ;; esac
done
export SYNTHETIC_SIZE={size}
for rank in $(seq "$ranks"); do "$@" || exit $?; done
"""
LIBRARY = """
#include <stdlib.h>
#include <string.h>
%s
int MPI_Get_library_version(char *text, int *length) { strcpy(text, ANSWER); *length = (int)strlen(text); return 0; }
int MPI_Init(int *argc, char ***argv) { (void)argc; (void)argv; return 0; }
int MPI_Comm_size(void *world, int *size) { (void)world; *size = atoi(getenv("SYNTHETIC_SIZE")); return 0; }
int MPI_Finalize(void) { return 0; }
"""
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int MPI_Init(int *, char ***);
int MPI_Finalize(void);
%s
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    CALL;
    if (atoi(getenv("SYNTHETIC_SIZE")) < RANKS) return puts("Error: more ranks") < 0 ? 2 : 1;
    puts(BANNER);
    return MPI_Finalize();
}
"""
OPEN_MPI = "Open MPI v4.1.4, package: Synthetic, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022"
OPEN_RTE = "mpirun (Open MPI) 4.1.4"
MPICH = "MPICH Version:\\t4.0.2\\nMPICH Device:\\tch4:ucx\\n"
HYDRA = "HYDRA build details:"
IMB = "#    Intel(R) MPI Benchmarks 2021.11"
OSU = "# OSU MPI Latency Test v7.4"


def compile_c(source: str, made: Path, *options: str) -> Path:
    """Compile C text; the test is skipped where there is no compiler."""
    compilers = recorder.compilers()
    if not compilers:
        pytest.skip("[compiler] no C compiler here")
    made.parent.mkdir(parents=True, exist_ok=True)
    text = made.with_name(f".{made.name}.c")
    text.write_text(source)
    subprocess.run(
        [*compilers[0], "-o", str(made), str(text), *options],
        check=True,
        capture_output=True,
        timeout=120,
    )
    text.unlink()
    return made


def make_library(made: Path, answer: str, soname: str, extra: str = "") -> Path:
    """A libmpi that answers ``answer``; ``extra`` is C text."""
    source = LIBRARY % f'#define ANSWER "{answer}"\n{extra}'
    return compile_c(source, made, "-shared", "-fPIC", f"-Wl,-soname,{soname}")


def make_open_mpi(prefix: Path, size: str = "$ranks", version: str = OPEN_RTE) -> Path:
    """An Open MPI 4.1.4 below a prefix; its launcher. ``size`` is the world its ranks see."""
    make_library(
        prefix / "lib/libmpi.so.40", OPEN_MPI, "libmpi.so.40", "char ompi_mpi_comm_world[8];"
    )
    return make_launcher(prefix, version, size)


def make_mpich(prefix: Path) -> Path:
    """An MPICH 4.0.2 below a prefix, with its library named as Debian does; its launcher."""
    make_library(prefix / "lib/libmpich.so.12", MPICH, "libmpich.so.12")
    return make_launcher(prefix, HYDRA)


def make_launcher(prefix: Path, version: str, size: str = "$ranks") -> Path:
    """The launcher alone."""
    launcher = prefix / "bin/mpirun"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(MPIRUN.format(version=version, size=size))
    launcher.chmod(0o755)
    return launcher


def make_program(
    made: Path, soname: str, banner: str = IMB, call: str = "", ranks: int = 1
) -> Path:
    """A benchmark linked with a libmpi of that SONAME; it calls the function
    ``call``, which the libmpis here do not have.

    :param ranks: with fewer it says nothing but an error.
    """
    declared = f"void {call}(void)" if call else ""
    stub = make_library(
        made.parent.parent / "stub" / soname, "stub", soname, f"{declared} {{}}" if call else ""
    )
    head = f"#define RANKS {ranks}\n"
    head += f'#define BANNER "{banner}"\n' + (
        f"#define CALL {call}()\n{declared};" if call else "#define CALL (void)0"
    )
    return compile_c(PROGRAM % head, made, str(stub))
