"""Received data are compared on real stacks: right ones pass, a
flipped bit in a real run fails everything.
"""

import pytest

import test_measurement as real
from reframe_tests.harness.cases.results import measurement
from reframe_tests.harness.evidence import data_check
from reframe_tests.harness.suites import catalogue
from synthetic_stack import compile_c

#: mpi4py opens libmpi privately, so that RTLD_NEXT does not see it.
FINDER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
typedef intptr_t word;
static void *libmpi;
static int look(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (strstr(info->dlpi_name, "/libmpi.so") || strstr(info->dlpi_name, "/libmpi_abi.so"))
        libmpi = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return libmpi != 0;
}
static void *find(const char *name)
{
    if (!libmpi)
        dl_iterate_phdr(look, 0);
    return dlsym(libmpi, name);
}
"""
#: What an MPI does that calls nobody back, counts a type's blocks wrongly, or forgets a handler.
LOST = (
    FINDER
    + r"""
static void nothing(void) {}
#ifdef OPERATION
int MPI_Op_create(void *function, int commute, word *made)
{
    return ((int (*)(void (*)(void), int, word *))find("PMPI_Op_create"))(nothing, commute, made);
}
int MPI_Op_create_c(void *function, int commute, word *made)
{
    return ((int (*)(void (*)(void), int, word *))find("PMPI_Op_create_c"))(nothing, commute, made);
}
#elif defined TYPE
int MPI_Type_vector(int count, int length, int stride, word old, word *made)
{
    return ((int (*)(int, int, int, word, word *))find("PMPI_Type_vector"))(count, length - 1, stride, old, made);
}
int MPI_Type_vector_c(word count, word length, word stride, word old, word *made)
{
    return ((int (*)(word, word, word, word, word *))find("PMPI_Type_vector_c"))(count, length - 1, stride, old, made);
}
#else
int MPI_Comm_call_errhandler(word comm, int code) { return 0; }
#endif
"""
)
#: Flips one bit of what MPI_Sendrecv received, in messages of one size: what a bad cable or library
#: may do. Handles are passed through untouched, so that one source serves every ABI. mpi4py opens
#: libmpi privately, so that RTLD_NEXT does not see it, and calls the large-count version where
#: there is one.
CORRUPTION = (
    FINDER
    + r"""
typedef int plain(const void *, int, word, int, int, void *, int, word, int, int, word, void *);
typedef int large(const void *, word, word, int, int, void *, word, word, int, int, word, void *);
static int flip(int code, void *got, word room)
{
    if (!code && room == 16411)
        ((unsigned char *)got)[4096] ^= 1;
    return code;
}
int MPI_Sendrecv(const void *sent, int count, word type, int to, int tag, void *got, int room, word got_type, int from,
                 int got_tag, word comm, void *status)
{
    plain *next = (plain *)find("PMPI_Sendrecv");
    return flip(next(sent, count, type, to, tag, got, room, got_type, from, got_tag, comm, status), got, room);
}
int MPI_Sendrecv_c(const void *sent, word count, word type, int to, int tag, void *got, word room, word got_type, int from,
                   int got_tag, word comm, void *status)
{
    large *next = (large *)find("PMPI_Sendrecv_c");
    if (!next)
        return MPI_Sendrecv(sent, (int)count, type, to, tag, got, (int)room, got_type, from, got_tag, comm, status);
    return flip(next(sent, count, type, to, tag, got, room, got_type, from, got_tag, comm, status), got, room);
}
"""
)


@pytest.fixture(scope="module")
def corruption(tmp_path_factory):
    """A library that, preloaded, falsifies received data."""
    made = tmp_path_factory.mktemp("corruption") / "fault.so"
    return compile_c(CORRUPTION, made, "-shared", "-fPIC", "-ldl")


def run_check(folder, stack, monkeypatch, group="p2p", **changes):
    """A job with the check and one benchmark, judged."""
    plan = catalogue.launches

    def with_check(wanted, *rest):
        check = data_check.launch(group, stack, 2)
        assert check
        return (check, *plan(wanted, *rest))

    monkeypatch.setattr(catalogue, "launches", with_check)
    return real.run_job(folder, stack, "shm", "p2p_mpi4py", repeats=1, **changes).judge()


def test_right_data_are_proven_on_a_real_stack(tmp_path, monkeypatch, stack):
    outcome = run_check(tmp_path, stack, monkeypatch, group="one_sided")
    assert (outcome.sentences, outcome.status) == ([], measurement.PROVEN)
    [note] = [note for note in outcome.proof["notes"] if "received data" in note]
    assert note.startswith("received data compared byte by byte before timing: ")
    assert {sample.benchmark for sample in outcome.samples} == {"pingpong"}
    assert {row["launch"] for row in outcome.proof["devices"]} <= {"mpi4py"}, (
        "the check is none of the launches that count"
    )


def test_one_flipped_bit_fails_everything_of_the_job(tmp_path, monkeypatch, corruption, stack):
    outcome = run_check(tmp_path, stack, monkeypatch, LD_PRELOAD=str(corruption))
    assert outcome.status == measurement.CONTRADICTED
    [sentence] = [
        sentence
        for sentence in outcome.sentences
        if sentence.startswith("data_check: received data are wrong")
    ]
    assert (
        "16411 bytes from rank" in sentence
        and "1 of 16411 bytes differ, the first is byte 4096" in sentence
    )
    assert outcome.samples, "the numbers are kept, marked"


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("OPERATION", "MPI_Allreduce with MPI_Op_create"),
        ("TYPE", "3000 bytes (MPI_Type_vector)"),
        ("HANDLER", "attributes and error handler of a communicator"),
    ],
)
def test_what_an_abi_must_translate_is_compared(tmp_path, require_stack, monkeypatch, fault, wrong):
    library = compile_c(LOST, tmp_path / "so/fault.so", "-shared", "-fPIC", f"-D{fault}", "-ldl")
    stack = require_stack("mpich-wheels")
    outcome = run_check(tmp_path, stack, monkeypatch, LD_PRELOAD=str(library))
    assert outcome.status == measurement.CONTRADICTED
    assert any(wrong in sentence for sentence in outcome.sentences)
