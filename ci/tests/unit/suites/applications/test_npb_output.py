"""NAS Parallel Benchmarks: real outputs of 3.3 and 3.4 are read; a
failed verification and ranks left over are refused.
"""

from dataclasses import replace

import pytest

from reframe_tests.harness.suites import catalogue, npb, reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.vocabulary import NotMeasured
from studies.output_damage import GOLDEN, golden
from synthetic_stack import launches, stack_of

GOOD = sorted(path.name for path in GOLDEN.glob("npb-*.txt") if path.stem[-1].isdigit())


def test_three_three_is_built_for_a_number_of_ranks():
    stack = stack_of(binaries=tuple(f"{kernel.lower()}.C.4" for kernel in npb.RANKS))
    (bt, *_) = launches("nas_c", ranks=4, stack=stack)
    assert bt.words(stack) == ["/opt/mpi/bin/bt.C.4"]
    assert catalogue.why_unbuilt("nas_c", stack) == ""
    with pytest.raises(NotMeasured, match=r"has no cg\.C\.x"):
        launches("nas_c", ranks=8, stack=stack)
    without = replace(stack, binaries={})
    assert "has no bt.C.x nor any of 7 more" in catalogue.why_unbuilt("nas_c", without)


def test_every_program_of_both_versions():
    read = set()
    for name in GOOD:
        _, version, kernel, ranks = name.removesuffix(".txt").split("-")
        (record,) = reader.parse(golden(name))
        assert (record.benchmark, record.ranks) == (kernel.upper(), int(ranks[1:]))
        assert (record.suite, record.variant, record.message_bytes) == ("npb", "class=S", None)
        read.add((version, record.benchmark))
    # of the older one in Fortran, one in C
    assert read == {("3.4", kernel) for kernel in npb.RANKS} | {("3.3", "BT"), ("3.3", "IS")}


#: A change of a good output, as the programs' sources print it.
FAILURES = [
    ("3.4-cg-n2", "              SUCCESSFUL", "            UNSUCCESSFUL"),
    ("3.4-cg-n2", "VERIFICATION SUCCESSFUL", "VERIFICATION FAILED"),
    ("3.4-bt-n4", " Verification Successful", " Verification failed"),
    ("3.4-lu-n2", "           1   0.16", " FAILURE:  1   0.16"),
    ("3.4-ft-n2", "Result verification successful", "Result verification failed"),
    ("3.4-bt-n4", " Verification Successful", " No verification performed"),
    ("3.4-cg-n2", f"Active procs    =   {2:22}", f"Active procs    =   {1:22}"),
    ("3.3-bt-n4", f"Compiled procs  =   {4:22}", f"Compiled procs  =   {9:22}"),
    ("3.4-cg-n2", f" Class           =   {'S':>22}", f" Class           =   {'A':>22}"),
    ("3.4-cg-n2", "(class S)", "(class A)"),
    ("3.4-cg-n2", f"Mop/s/process   =   {'35.23':>22}", f"Mop/s/process   =   {'70.46':>22}"),
    ("3.4-cg-n2", f" Version         =   {'3.4':>22}", f" Version         =   {'3.3.1':>22}"),
    ("3.4-cg-n2", f"Time in seconds =   {'0.95':>22}\n", ""),
    ("3.4-cg-n2", "0.95\n", "0.9S\n"),
    ("3.4-is-n2", "keys ranked", "keys ranked\n Failed partial verification: iteration 1"),
    # CG of class S has 15
    ("3.4-cg-n2", f" Iterations      =   {15:22}", f" Iterations      =   {14:22}"),
]


@pytest.mark.parametrize(("name", "old", "new"), FAILURES)
def test_every_failure_is_refused(name, old, new):
    text = golden(f"npb-{name}.txt")
    assert old in text
    with pytest.raises(OutputError, match=r"^bt_S\.1\.out"):
        reader.parse(text.replace(old, new), source="bt_S.1.out")
