"""Outputs of perftest's bandwidth tests: units of old and new releases, refusal of damaged ones."""

import re

import pytest

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from refusals import refused_as
from studies.output_damage import golden

#: Of AMD: small sizes in Gb/s with six decimals, its own lines in front of and behind the table.
ALL_SIZES = golden("perftest-amd-ib_write_bw-all-bidirectional.txt")

RULE = "-" * 87

#: 65536 bytes at 0.184196e6 messages/s: 11512.25 MiB/s, 96.572 Gbit/s.
ROW = " 65536      5000             11520.01            11512.28\t\t     0.184196\n"
#: As REPORT_FMT of perftest_parameters.h writes it, with the test's head in front.
OUTPUT = f"""\
{RULE}
                    Send BW Test
 Dual-port       : OFF
{RULE}
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
{ROW}{RULE}
"""


def test_all_sizes_with_small_bandwidths_of_six_decimals():
    records = reader.parse(ALL_SIZES)
    assert [record.message_bytes for record in records] == [2 << power for power in range(23)]
    bandwidths = [record.values["bandwidth_mb_per_s"] for record in records]
    assert bandwidths[0] == pytest.approx(0.146472 * 125)
    assert bandwidths[-1] == pytest.approx(97401.25)
    for old, new in (("0.147331", "0.14733"), ("0.147331", "0.15"), ("[Gb/", "[MiB/")):
        with refused_as("output-damaged"):
            reader.parse(ALL_SIZES.replace(old, new))
    with_cpu = OUTPUT.replace(ROW, ROW.replace("\n", "          3.04\n"))
    with_cpu = with_cpu.replace("MsgRate[Mpps]", "MsgRate[Mpps]   CPU_Util[%]")
    assert reader.parse(with_cpu) == reader.parse(OUTPUT)


def test_what_it_says_of_the_clock_on_standard_error_stands_anywhere():
    whole = reader.parse(ALL_SIZES)
    lines = ALL_SIZES.splitlines(keepends=True)
    said = "Conflicting CPU frequency values detected: 1200.000000 != 3591.635000. "
    said += "CPU Frequency is not max.\n"
    for place in range(len(lines) + 1):
        assert reader.parse("".join([*lines[:place], said, *lines[place:]])) == whole
    with refused_as("output-damaged"):
        reader.parse("".join([*lines[:-8], "CPU Frequency is not max.\n", *lines[-8:]]))


def test_both_ends_in_one_file_are_named_as_such():
    """Printed at the same time, or one after the other: what is
    local to one is remote to the other.
    """
    ends = {"local": "remote", "remote": "local"}
    other = re.sub(r"(local|remote)(?= address)", lambda end: ends[end[1]], ALL_SIZES)
    half = ALL_SIZES[: ALL_SIZES.index(" 1024 ")]
    for both in (ALL_SIZES + other, half + other + ALL_SIZES.removeprefix(half)):
        with refused_as("output-mixed", match="output of the other end"):
            reader.parse(both)


def test_no_row_is_missing_and_no_number_another():
    """Sizes double up to 8 MiB, and a bandwidth is the rate of its
    messages: each digit that changed its value is seen.
    """
    for row in re.findall("(?m)^ [0-9]+ .*\n", ALL_SIZES):
        refused = [ALL_SIZES.replace(row, "")]
        size, _, _, *values = re.finditer(r"\S+", row)
        for cell in (size, *values):
            place = next(at for at in range(cell.start(), cell.end()) if row[at] in "123456789")
            digit = int(row[place]) % 9 + 1
            refused.append(ALL_SIZES.replace(row, f"{row[:place]}{digit}{row[place + 1 :]}"))
        for text in refused:
            with pytest.raises(OutputError):
                reader.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        OUTPUT.removesuffix(f"{RULE}\n"),
        OUTPUT.replace(ROW, ""),
        OUTPUT.replace(ROW, ROW * 2),
        OUTPUT.replace("0.184196", "nan"),
        OUTPUT.replace(ROW, f"Couldn't connect to c1:18515\n{ROW}"),
        f"{OUTPUT} Completion with error at client\n",
        f"{OUTPUT}{ROW}",
        f"Failed status 12: wr_id 0\n{OUTPUT}",
        OUTPUT.replace(
            ROW, " 65536      5000             0.00             0.00\t\t     0.000000\n"
        ),
        OUTPUT.replace("11512.28", "11512.38"),
        OUTPUT * 2,
    ],
)
def test_damage_is_refused(text):
    assert text != OUTPUT
    with pytest.raises(OutputError, match=r"^job\.out"):
        reader.parse(text, source="job.out")
