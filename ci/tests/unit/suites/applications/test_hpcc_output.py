"""``hpccoutf.txt``: real ones are read, and whatever failed, was not run
or was asked otherwise is refused with a sentence.
"""

import re

import pytest

from reframe_tests.harness.suites import hpcc, reader
from reframe_tests.harness.suites.benchmark import OutputError
from refusals import refused_as
from studies.output_damage import golden
from synthetic_evidence import TEXT


def refuse(*texts):
    for text in texts:
        with pytest.raises(OutputError, match=r"^hpcc\.1\.out"):
            reader.parse(text, source="hpcc.1.out")


def test_every_number_is_the_summarys_in_the_units_of_the_vocabulary():
    records = {record.benchmark: record for record in reader.parse(TEXT)}
    assert list(records) == [result.name for result in hpcc.RESULTS]
    # HPL_Tflops=0.000414824, PTRANS_GBs=0.0290253,
    # StarSTREAM_Triad=59.6753 (GB/s), MPIFFT_Gflops=0.100972.
    for name, quantity, value in (
        ("HPL", "gflop_per_s", 0.414824),
        ("PTRANS", "bandwidth_mb_per_s", 29.0253),
        ("StarSTREAM_Triad", "bandwidth_mb_per_s", 59675.3),
        ("MPIRandomAccess", "gup_per_s", 0.00217182),
        ("MPIFFT", "gflop_per_s", 0.100972),
        ("NaturallyOrderedRingLatency", "latency_us", 0.199841),
        ("RandomlyOrderedRingBandwidth", "bandwidth_mb_per_s", 9707.24),
    ):
        assert records[name].values == {quantity: value}
    assert {record.ranks for record in records.values()} == {2}
    # The rings are the same whatever the order of the matrix.
    assert {record.variant for record in records.values() if "Ring" in record.benchmark} == {""}
    assert {record.variant for record in records.values() if "Ring" not in record.benchmark} == {
        "N=640"
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Success=1", "Success=0"),
        ("0.0053524 ...... PASSED", "17.2 ...... FAILED"),
        ("0.0053524 ...... PASSED", "nan ...... FAILED"),
        ("Found 0 errors in 262144 locations (passed)", "Found 9 errors in 262144 (failed)"),
        ("Node(s) with error 0\nMinimum Copy", "Node(s) with error 1\nMinimum Copy"),
        ("    0 tests completed and failed", "    1 tests completed and failed"),
        (
            "Solution Validates: avg error less than 1.000000e-13 on all three arrays",
            "Failed Validation on array a[]",
        ),
        ("MPIFFT_maxErr=1.24931e-15", "MPIFFT_maxErr=1.2e-13"),
        ("MPIFFT_Gflops=0.100972", "MPIFFT_Gflops=-1"),
        ("StarDGEMM_Gflops=1.09253", "StarDGEMM_Gflops=nan"),
        ("CommWorldProcs=2", "CommWorldProcs=4"),
        ("PTRANS_npcol=2", "PTRANS_npcol=4"),
        ("MPIFFT_Procs=2", "MPIFFT_Procs=4"),
        ("HPL_N=640", "HPL_N=1280"),
        ("VersionMinor=5", "VersionMinor=6"),
        ("PTRANS_GBs=0.0290253\n", ""),
        ("PTRANS_GBs=0.0290253\n", "PTRANS_GBs=0.0290253\nPTRANS_GBs=0.03\n"),
        ("LANG=C\n", "LANG=C\nHPL_Speed=1\n"),
        ("LANG=C\n", "LANG=C\nSomething else\n"),
        ("LANG=C\n", ""),
        ("End of PTRANS section.", "End of PTRANS secton."),
        ("End of Summary section.\n", ""),
    ],
)
def test_every_failure_is_refused(old, new):
    assert old in TEXT
    refuse(TEXT.replace(old, new))


def test_a_digit_of_the_summary_that_changed_is_seen():
    """Each number stands in its section, too, or follows from another: to
    six digits, or as many as the section prints.
    """
    for key in {*hpcc._COUNTS, *(result.key for result in hpcc.RESULTS)} - {"VersionMajor"}:
        (number,) = re.findall(rf"(?m)^{key}=(\S+)$", TEXT)
        seen = {"PTRANS_GBs": 2, "MPIFFT_Gflops": 3, "StarRandomAccess_GUPs": 5}.get(key, 6)
        places = [
            at
            for at, digit in enumerate(number)
            if digit.isdigit() and number[:at].strip("0.") + digit != "0"
        ]
        for at in places[:seen]:
            other = number[:at] + ("1" if number[at] != "1" else "6") + number[at + 1 :]
            refuse(TEXT.replace(f"\n{key}={number}\n", f"\n{key}={other}\n"))


@pytest.mark.parametrize(("name", "gflops"), [("1.4.2", 1.7037), ("1.5.0-git", 1.43698)])
def test_other_releases_are_read_whole(name, gflops):
    """1.4.2 with another generator's sections; the repository after 1.5.0,
    whose summary says the interface of the FFT.
    """
    text = golden(f"hpcc-{name}-n2.txt")
    records = {record.benchmark: record for record in reader.parse(text)}
    assert list(records) == [result.name for result in hpcc.RESULTS]
    assert records["HPL"].values == {"gflop_per_s": gflops}
    assert records["HPL"].variant == "N=960"
    lost = ("Begin of StarRandomAccess_LCG.*", "MPIRandomAccess_LCG_N=.*", "FFTEnp=.*")
    refuse(*(re.sub(f"(?m)^{line}\\n", "", text) for line in lost))
    refuse(text.replace(*(("(built-in)", "(built") if "git" in name else ("FFTEnp", "FFT_API"))))


def test_of_two_sizes_the_summary_says_the_best_of_either():
    """Recorded: the best PTRANS (PTRANS_n=160) is that of N = 320, the best HPL that of N = 640."""
    with refused_as("output-mixed"):
        reader.parse(golden("hpcc-1.5.0-git-n2-two-sizes-invalid.txt"))


def test_one_four_without_lcg():
    """Outputs of 1.4 that lack the sections and keys of the other generator; made of one of 1.5."""
    bare = re.sub(r"(?s)Begin of \w+_LCG section\.\n.*?End of \w+_LCG section\.\n", "", TEXT)
    bare = re.sub(r"(?m)^\w*_LCG_\w+=.*\n", "", bare)
    old = bare.replace("version 1.5.0", "version 1.4.0").replace("Minor=5", "Minor=4")
    assert reader.parse(old) == reader.parse(TEXT)
    refuse(bare)
