"""Outputs of perftest's bandwidth tests: units of old and new releases, refusal of damaged ones."""

from __future__ import annotations

import pytest

from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.benchmark import OutputError

RULE = "-" * 87
HEAD = " #bytes     #iterations    BW peak[{0}/sec]    BW average[{0}/sec]   MsgRate[Mpps]"
#: 65536 bytes at 0.184196e6 messages/s: 11512.25 MiB/s, 96.572 Gbit/s.
ROW = " 65536      5000             11520.01            11512.28\t\t     0.184196"


def output(*rows: str, unit: str = "MB", title: str = "Send BW Test", end: str = f"{RULE}\n") -> str:
    """An output as REPORT_FMT of perftest_parameters.h writes it, with the test's head in front."""
    lines = [RULE, f"                    {title}", " Dual-port       : OFF", RULE, HEAD.format(unit), *rows]
    return "\n".join(lines) + "\n" + end


def test_what_is_called_mb_is_mib() -> None:
    [record] = reader.parse(output(ROW))
    assert record.values == {"bandwidth_mb_per_s": pytest.approx(11512.28 * 1.048576), "message_rate_per_s": 184196.0}
    assert (record.suite, record.benchmark, record.message_bytes, record.repetitions) == ("perftest", "ib_send_bw", 65536, 5000)
    assert reader.parse(output(ROW, unit="MiB")) == [record]
    reader.check_complete([record], [catalogue.Expected("ib_send_bw", 2, (65536,))])


def test_gbit_per_s_is_decimal() -> None:
    [record] = reader.parse(output(" 65536      5000             96.60              96.57 \t 0.184196", unit="Gb"))
    assert record.values["bandwidth_mb_per_s"] == pytest.approx(96.57 * 125)


@pytest.mark.parametrize(
    ("title", "name", "variant"),
    [
        ("Send BW Test", "ib_send_bw", ""),
        ("RDMA_Write BW Test", "ib_write_bw", ""),
        ("RDMA_Read BW Test", "ib_read_bw", ""),
        ("Send Bidirectional BW Test", "ib_send_bw", "bidirectional"),
    ],
)
def test_the_title_tells_the_program(title: str, name: str, variant: str) -> None:
    [record] = reader.parse(output(ROW, title=title))
    assert (record.benchmark, record.variant) == (name, variant)


def test_all_sizes_and_cpu_use() -> None:
    rows = (" 2          1000             5.59               5.50               2.883584", f"{ROW}          3.04")
    assert [record.message_bytes for record in reader.parse(output(*rows))] == [2, 65536]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (output(ROW, end=""), "no end"),
        (output(), "no rows"),
        (output(ROW, ROW), "65536 bytes follow 65536 bytes"),
        (output(ROW.replace("0.184196", "nan")), "is not a row"),
        (output("Couldn't connect to c1:18515", ROW), "says that something failed"),
        (output(ROW, end=f"{RULE}\n Completion with error at client\n"), "stands behind the end of the table"),
        (output(ROW, end=f"{RULE}\n{ROW}\n"), "stands behind the end of the table"),
        ("Failed status 12: wr_id 0\n" + output(ROW), "says that something failed"),
        (output(" 65536      5000             0.00             0.00\t\t     0.000000"), "a value is 0: nothing was measured"),
        (output(ROW) + output(ROW), "a second test starts"),
    ],
)
def test_damage_is_one_sentence(text: str, wanted: str) -> None:
    with pytest.raises(OutputError, match=wanted) as caught:
        reader.parse(text, source="job.out")
    assert str(caught.value).startswith("job.out") and str(caught.value).endswith(".")


def test_the_row_is_read_and_never_planned() -> None:
    row = catalogue.find("ib_send_bw", "ib_send_bw")
    assert row in catalogue.READ_ONLY and row not in catalogue.ROWS and row in catalogue.rows("wire_rdma")
