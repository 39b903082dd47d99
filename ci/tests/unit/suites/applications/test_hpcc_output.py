"""``hpccoutf.txt``: real ones are read, and whatever failed, was not run or was asked otherwise is refused with a sentence."""

from __future__ import annotations

import re

import pytest

from catalogue_launches import launches
from hpcc_outputs import TEXT, on_grid
from mpibench.pages import published
from published_session import selected
from reframe_tests.harness.suites import catalogue, hpcc, reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.vocabulary import QUANTITIES
from refusals import refused_as

#: Headings of tables 8 to 10 of paper 4, behind the number of nodes and the size of pages.
PAPER = ["HPL", "PTRANS", "*DGEMM", "*GUPS", "GUPS", "*STREAM", "*FFT", "FFT", "NRL", "NRBW", "RRL", "RRBW"]


def refusal(text: str) -> str:
    with pytest.raises(OutputError) as error:
        reader.parse(text, source="hpcc.1.out")
    sentence = str(error.value)
    assert sentence.startswith("hpcc.1.out") and sentence.endswith(".") and "\n" not in sentence
    return sentence


def test_every_number_is_the_summarys_in_the_units_of_the_vocabulary() -> None:
    records = {record.benchmark: record for record in reader.parse(TEXT)}
    assert list(records) == [result.name for result in hpcc.RESULTS]
    # HPL_Tflops=0.000414824, PTRANS_GBs=0.0290253, StarSTREAM_Triad=59.6753 (GB/s), MPIFFT_Gflops=0.100972.
    assert records["HPL"].values == {"gflop_per_s": 0.414824}
    assert records["PTRANS"].values == {"bandwidth_mb_per_s": 29.0253}
    assert records["StarSTREAM_Triad"].values == {"bandwidth_mb_per_s": 59675.3}
    assert records["MPIRandomAccess"].values == {"gup_per_s": 0.00217182}
    assert records["MPIFFT"].values == {"gflop_per_s": 0.100972}
    assert records["NaturallyOrderedRingLatency"].values == {"latency_us": 0.199841}
    assert records["RandomlyOrderedRingBandwidth"].values == {"bandwidth_mb_per_s": 9707.24}
    assert {record.ranks for record in records.values()} == {2}
    # The rings are the same whatever the order of the matrix.
    assert {name for name, record in records.items() if not record.variant} == {
        f"{order}OrderedRing{what}" for order in ("Naturally", "Randomly") for what in ("Latency", "Bandwidth")
    }
    assert {record.variant for record in records.values()} == {"", "N=640"}


@pytest.mark.parametrize("grid", [(1, 3), (2, 2)])
def test_other_numbers_of_ranks(grid: tuple[int, int]) -> None:
    """Three ranks are no power of two, of which hpcc says less."""
    text = on_grid(*grid).replace(" processors (PowerofTwo)", " processors" if 3 in grid else " processors (PowerofTwo)")
    assert {record.ranks for record in reader.parse(text)} == {grid[0] * grid[1]}


def test_the_papers_abbreviations() -> None:
    assert [result.abbreviation for result in hpcc.RESULTS if result.abbreviation] == PAPER
    assert all(result.quantity in QUANTITIES for result in hpcc.RESULTS)


def test_published_rows_have_the_catalogues_names() -> None:
    named = [result.name for result in hpcc.RESULTS if result.abbreviation]
    for system, tables in (("ibm-p5-575", ("Table 8", "Table 9")), ("ibm-js21", ("Table 10",))):
        for table in tables:
            printed = selected(published.read(system), table=table)
            assert list(dict.fromkeys(value["benchmark"] for value in printed)) == named


def test_lines_of_others_change_nothing() -> None:
    assert reader.parse("Submitted batch job 17\n" + TEXT) == reader.parse("Something else\n" + TEXT) == reader.parse(TEXT)
    assert "no line of hpcc's summary" in refusal(TEXT.replace("LANG=C\n", "LANG=C\nSomething else\n"))


def test_without_its_input_file_it_is_refused() -> None:
    """hpcc ends well and measures an order of its own."""
    assert "hpccinf.txt" in refusal(TEXT.replace("PMAP   : Row-major", "PMAP   : Column-major"))
    # And where only the size is another.
    (launch,) = launches("hpcc", level="smoke")
    reader.complete(reader.parse(TEXT), launch.expected)
    other = TEXT.replace("HPL_N=640", "HPL_N=3520").replace("N      :     640", "N      :    3520")
    with refused_as("output-damaged", match="HPL has the variants 'N=3520', asked for were 'N=640'"):
        reader.complete(reader.parse(other), launch.expected)


def test_a_failed_one_of_others_is_refused() -> None:
    assert "HPL ran on 1 of 1 ranks" in refusal(on_grid(1, 1)), "which has no ring"


#: Lines of the summary of 1.5.
LINES = 148
#: A change of a good output -> words of the refusal.
FAILURES = {
    ("Success=1", "Success=0"): "'Success=0' says that a check of hpcc failed",
    ("0.0053524 ...... PASSED", "17.2 ...... FAILED"): "FAILED' says that a check",
    ("0.0053524 ...... PASSED", "nan ...... FAILED"): "hpcc.1.out, line 416: '||Ax-b||",
    ("Found 0 errors in 262144 locations (passed)", "Found 9999 errors in 262144 locations (failed)"): "(failed)",
    ("Node(s) with error 0\nMinimum Copy", "Node(s) with error 1\nMinimum Copy"): "'Node(s) with error 1' says",
    ("    0 tests completed and failed", "    1 tests completed and failed"): "1 tests completed and failed",
    ("Solution Validates: avg error less than 1.000000e-13 on all three arrays", "Failed Validation on array a[]"): "Failed",
    ("MPIFFT_maxErr=1.24931e-15", "MPIFFT_maxErr=1.2e-13"): "the transform is wrong",
    ("MPIFFT_Gflops=0.100972", "MPIFFT_Gflops=-1"): "MPIFFT was not run",
    ("StarDGEMM_Gflops=1.09253", "StarDGEMM_Gflops=nan"): "or no number",
    ("CommWorldProcs=2", "CommWorldProcs=4"): "HPL ran on 2 of 4 ranks",
    ("PTRANS_npcol=2", "PTRANS_npcol=4"): "PTRANS ran on 4 ranks, MPIFFT on 2, of 2; it is damaged",
    ("MPIFFT_Procs=2", "MPIFFT_Procs=4"): "PTRANS ran on 2 ranks, MPIFFT on 4, of 2; it is damaged",
    ("HPL_N=640", "HPL_N=1280"): "head and summary are of different runs",
    ("VersionMinor=5", "VersionMinor=6"): "this is hpcc 1.6, and 1.4 and 1.5 are read",
    ("PTRANS_GBs=0.0290253\n", ""): "lacks PTRANS_GBs",
    ("PTRANS_GBs=0.0290253\n", "PTRANS_GBs=0.0290253\nPTRANS_GBs=0.03\n"): "there twice",
    ("LANG=C\n", "LANG=C\nHPL_Speed=1\n"): f"the summary of hpcc has {LINES + 1} lines and not {LINES}",
    ("LANG=C\n", ""): f"the summary of hpcc has {LINES - 1} lines and not {LINES}",
    ("End of PTRANS section.", "End of PTRANS secton."): "section PTRANS of hpcc is missing",
    ("End of Summary section.\n", ""): "without its summary",
}


@pytest.mark.parametrize(("change", "words"), FAILURES.items(), ids=lambda each: each if isinstance(each, str) else "")
def test_every_failure_is_a_sentence(change: tuple[str, str], words: str) -> None:
    assert change[0] in TEXT
    said = refusal(TEXT.replace(*change))
    assert words in re.sub(r"\s+", " ", said)


def test_one_four_has_no_lcg() -> None:
    """HPCC 1.4 without the sections and keys of the other generator (src/io.c of 1.4); made of an output of 1.5."""
    old = re.sub(r"Begin of \w+_LCG section\.\n.*?End of \w+_LCG section\.\n", "", TEXT, flags=re.S)
    old = re.sub(r"(?m)^\w*_LCG_\w+=.*\n", "", old).replace("version 1.5.0", "version 1.4.3")
    old = old.replace("VersionMinor=5", "VersionMinor=4").replace("VersionMicro=0", "VersionMicro=3")
    assert reader.parse(old) == reader.parse(TEXT)
    new = old.replace("version 1.4.3", "version 1.5.3").replace("VersionMinor=4", "VersionMinor=5")
    assert "section MPIRandomAccess_LCG of hpcc is missing" in refusal(new)


def test_metrics_carry_the_order_of_the_matrix() -> None:
    names = {metric.name for metric in catalogue.metrics(launches("hpcc", level="smoke"))}
    assert {"HPL.N640.gflops", "PTRANS.N640.bandwidth", "NaturallyOrderedRingLatency.latency"} < names
    planned = catalogue.planned_metrics("hpcc")
    assert "HPL.N*.gflops" in planned and "RandomlyOrderedRingBandwidth.bandwidth" in planned
