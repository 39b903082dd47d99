"""NAS Parallel Benchmarks: real outputs of 3.3 and 3.4 are read; a failed verification and ranks left over are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalogue_launches import launches, stack_of
from reframe_tests.harness.suites import catalogue, npb, reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.vocabulary import NotMeasured
from studies.output_damage import GOLDEN, golden

GOOD = sorted(path.name for path in GOLDEN.glob("npb-*.txt") if path.stem[-1].isdigit())


def refusal(text: str) -> str:
    with pytest.raises(OutputError) as error:
        reader.parse(text, source="bt_S.1.out")
    sentence = str(error.value)
    assert sentence.startswith("bt_S.1.out") and sentence.endswith(".") and "\n" not in sentence
    return sentence


@pytest.mark.parametrize("name", GOOD)
def test_every_program_of_both_versions(name: str) -> None:
    _, _, kernel, ranks = name.removesuffix(".txt").split("-")
    (record,) = reader.parse(golden(name))
    assert (record.suite, record.benchmark, record.ranks) == ("npb", kernel.upper(), int(ranks[1:]))
    assert (record.variant, record.message_bytes) == ("class=S", None)
    assert set(record.values) == set(npb.QUANTITIES)


def test_all_programs_are_there() -> None:
    assert {name.split("-")[2].upper() for name in GOOD if "3.4" in name} == set(npb.RANKS)
    assert {name.split("-")[2].upper() for name in GOOD if "3.3" in name} == {"BT", "IS"}, "one in Fortran, one in C"


def test_seconds_and_operations() -> None:
    assert reader.parse(golden("npb-3.4-cg-n2.txt"))[0].values == {"time_s": 0.95, "mop_per_s": 70.46}
    # 3.3.1 prints a digit more.
    assert reader.parse(golden("npb-3.3-bt-n4.txt"))[0].values == {"time_s": 0.163, "mop_per_s": 1401.90}


#: A change of a good output, as the programs' sources print it -> words of the refusal.
FAILURES = {
    ("npb-3.4-cg-n2.txt", "              SUCCESSFUL", "            UNSUCCESSFUL"): "the verification of CG failed",
    ("npb-3.4-cg-n2.txt", "VERIFICATION SUCCESSFUL", "VERIFICATION FAILED"): "the verification of CG failed",
    ("npb-3.4-bt-n4.txt", " Verification Successful", " Verification failed"): "the verification of BT failed",
    ("npb-3.4-lu-n2.txt", "           1   0.16", " FAILURE:  1   0.16"): "the verification of LU failed",
    ("npb-3.4-ft-n2.txt", "Result verification successful", "Result verification failed"): "the verification of FT failed",
    ("npb-3.4-bt-n4.txt", " Verification Successful", " No verification performed"): "failed or was not made",
    ("npb-3.4-cg-n2.txt", "Active procs    =                        2", "Active procs    =                        1"): (
        "CG was started on 2 ranks, and 1 took part"
    ),
    ("npb-3.3-bt-n4.txt", "Compiled procs  =                        4", "Compiled procs  =                        9"): (
        "BT was started on 4 ranks, and 9 is what it was built for"
    ),
    ("npb-3.4-cg-n2.txt", " Class           =                        S", " Class           =                        A"): (
        "of different runs"
    ),
    ("npb-3.4-cg-n2.txt", "(class S)", "(class A)"): "of different runs",
    ("npb-3.4-cg-n2.txt", "Mop/s/process   =                    35.23", "Mop/s/process   =                    70.46"): (
        "Mop/s of CG is not 2 times"
    ),
    ("npb-3.4-cg-n2.txt", " Version         =                      3.4", " Version         =                    3.3.1"): (
        "of different runs"
    ),
    ("npb-3.4-cg-n2.txt", "Time in seconds =                     0.95\n", ""): "the block at the end of CG",
    ("npb-3.4-cg-n2.txt", "0.95\n", "0.9S\n"): "the block at the end of CG",
    ("npb-3.4-is-n2.txt", "keys ranked", "keys ranked\n Failed partial verification: iteration 1"): "verification of IS",
}


@pytest.mark.parametrize(("change", "words"), FAILURES.items(), ids=lambda each: each[0] if isinstance(each, tuple) else "")
def test_every_failure_is_a_sentence(change: tuple[str, str, str], words: str) -> None:
    name, old, new = change
    assert old in golden(name)
    assert words in " ".join(refusal(golden(name).replace(old, new)).split())


def test_recorded_refusals() -> None:
    """An FT on three ranks prints wrong sums."""
    assert "the verification of FT failed" in refusal(golden("npb-3.4-ft-n3-failed.txt"))
    assert "LU did not run: 'ERROR: could not determine proper proc_grid" in refusal(golden("npb-3.4-lu-n3-invalid.txt"))
    assert "not output of" in refusal(golden("npb-3.4-cg-n3-invalid.txt"))


@pytest.mark.parametrize(
    ("ranks", "left_out"),
    {1: "", 2: "BT SP", 4: "", 16: "", 9: "CG FT IS LU MG", 12: "BT CG FT IS LU MG SP", 128: "BT SP"}.items(),
)
def test_each_program_runs_on_numbers_of_its_own(ranks: int, left_out: str) -> None:
    names = {item.benchmark for launch in launches("nas_c", ranks=ranks) for item in launch.expected}
    assert names == set(npb.RANKS) - set(left_out.split())


def test_a_class_is_a_group_and_a_variant() -> None:
    for problem in npb.CLASSES:
        made = launches(npb.group(problem), ranks=4)
        assert [launch.binary for launch in made] == [npb.program(kernel, problem) for kernel in npb.RANKS]
        names = {metric.name for metric in catalogue.metrics(made)}
        assert f"BT.class{problem}.time" in names and len(names) == 16


def test_three_three_is_built_for_a_number_of_ranks() -> None:
    stack = stack_of(binaries=tuple(f"{kernel.lower()}.C.4" for kernel in npb.RANKS))
    (bt, *_) = launches("nas_c", ranks=4, stack=stack)
    assert bt.words(stack) == ["/opt/mpi/bin/bt.C.4"]
    assert catalogue.why_unbuilt("nas_c", stack) == ""
    with pytest.raises(NotMeasured, match=r"has no cg\.C\.x"):
        launches("nas_c", ranks=8, stack=stack)
    without = replace(stack, binaries={})
    assert "has no bt.C.x and none of 7 more" in catalogue.why_unbuilt("nas_c", without)
