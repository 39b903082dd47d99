"""How MPI libraries say that they were compiled, as printed, and what is made of it."""

import pytest

from mpibench.stacks import compilation
from reframe_tests.harness.mpis import registry

#: Debian 12's MPICH 4.0.2 and Open MPI 4.1.4, MPICH 4.3.2 of PyPI and
#: Intel MPI 2021.18 in its texts, shortened.
MPICH = """MPICH Version:\t4.0.2
MPICH Device:\tch4:ucx
MPICH configure:\t--build=x86_64-linux-gnu --prefix=/usr {configure} FFLAGS=-O2
MPICH CC:\t{cc}
MPICH CXX:\tg++ -O2
"""
OPENMPI = """ident:4.1.4
compiler:c:command:gcc
option:build:cflags:{cflags}
option:build:cxxflags:-O3
option:debug:{debug}
option:mem-debug:no
mca:mpi:base:param:mpi_param_check:value:{checks}
"""
INTEL = (
    "Intel(R) MPI Library 2021.18.1 for Linux* OS\n\nMPII configure: CC=icx --enable-g=none "
    "--enable-error-checking=runtime\n"
)
#: MVAPICH 4.0 as --enable-fast=opt leaves it: no compiler takes -03, and
#: CFLAGS are set, so that configure adds no -O2.
MVAPICH = """MVAPICH Version:        4.0
MVAPICH configure:      '--enable-fast={fast}' '--enable-shared'
MVAPICH CC:             /site/lib/spack/env/gcc/gcc    {flags}
"""


def mpich(cc="gcc  -g -O2", configure=""):
    return MPICH.format(cc=cc, configure=configure)


def openmpi(cflags="-DNDEBUG -g -O2 -O3", debug="no", checks="true"):
    return OPENMPI.format(cflags=cflags, debug=debug, checks=checks)


#: MPI, its answer, what is made of it (debugging and checks where they are known), and flags
#: that a wrapper put in front.
ANSWERS = {
    "Debian's MPICH": ("mpich", mpich(), "-O2 no yes"),
    "Debian's Open MPI": ("openmpi", openmpi(), "-O3 no yes"),
    "MPICH of PyPI, which took them out": ("mpich", mpich("cc"), "not known"),
    "Intel MPI": ("intelmpi", INTEL + "MPII CC: icx -g -O3 -DNDEBUG -O3", "-O3 no yes"),
    "Intel MPI, whose compiler optimises by itself": (
        "intelmpi",
        INTEL + "MPII CC: icx -fPIC",
        "not known",
    ),
    "MVAPICH by builtin": (
        "mvapich",
        MVAPICH.format(fast="opt", flags="-DNDEBUG -DNVALGRIND"),
        "no -O no yes",
    ),
    "the same with cflags of Spack": (
        "mvapich",
        MVAPICH.format(fast="opt", flags="-DNDEBUG"),
        "-O2 no yes",
        "-O2",
    ),
    "cflags of Spack that the library's own undo": ("mpich", mpich("gcc -O0"), "-O0 no yes", "-O3"),
    "of a versioned clang": ("mpich", mpich("/opt/bin/clang-14 -Og"), "-Og no yes"),
    "MPICH that traces memory": ("mpich", mpich(configure="--enable-g=mem,dbg"), "-O2 yes yes"),
    "MPICH with symbols, without checks": (
        "mpich",
        mpich(configure="--enable-g=dbg --disable-error-checking"),
        "-O2 no no",
    ),
    "MPICH with a sanitizer": ("mpich", mpich("gcc -O1 -fsanitize=address"), "-O1 yes yes"),
    "Open MPI for its developers": ("openmpi", openmpi("-O0 -g", "yes"), "-O0 yes yes"),
    "Open MPI without checks": ("openmpi", openmpi(checks="false"), "-O3 no no"),
    "no answer": ("openmpi", "", "not known"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_a_library_says_is_read(name):
    mpi, text, right, *injected = ANSWERS[name]
    compiled = compilation.read(registry.find(mpi).banner.compiled, text, *injected)
    assert " ".join(compiled.values()) == right
    bad = right.startswith(("no -O", "-O0", "-Og")) or " yes " in right
    assert bool(compilation.find_fault(compiled)) == bad
    assert bool(compilation.aspects(mpi, compiled)) == (right != "not known")
