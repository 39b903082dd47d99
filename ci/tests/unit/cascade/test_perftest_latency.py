"""perftest's latency tables, and both ends of its programs: read whole or refused.

The tables are written by ``RESULT_FMT_LAT`` and ``REPORT_FMT_LAT`` of perftest 4.5 (``src/perftest_parameters.h``), since
nothing here has an RDMA adapter; the values are those a 100 Gbit/s link may give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.benchmark import OutputError, Record
from refusals import refused_as
from synthetic_pair import end

RULE = "-" * 87
LATENCY_HEAD = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] "
)
BANDWIDTH_HEAD = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
BANDWIDTH_ROW = " 65536      5000             11520.01            11512.28\t\t   0.184196"
TIMES = (0.98, 3.61, 1.01, 1.02, 0.04, 1.21, 3.60)


def latency_row(size: int = 8, count: int = 1000, times: Sequence[float] = TIMES) -> str:
    """A row as ``REPORT_FMT_LAT`` writes it."""
    form = " %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f \t\t%-7.2f"
    return form % (size, count, *times)


def output(title: str, head: str, *rows: str, closed: bool = True) -> str:
    """An output with the test's head in front."""
    lines = [RULE, f"                    {title}", " Dual-port       : OFF\t\tDevice         : mlx5_0", RULE, head, *rows]
    return "\n".join([*lines, *([RULE] if closed else [])]) + "\n"


LATENCY = output("RDMA_Write Latency Test", LATENCY_HEAD, latency_row())


@pytest.mark.parametrize(
    ("title", "name"), [("RDMA_Write", "ib_write_lat"), ("RDMA_Read", "ib_read_lat"), ("Send", "ib_send_lat")]
)
def test_mean_median_and_percentile_are_read(title: str, name: str) -> None:
    [record] = reader.parse(output(f"{title} Latency Test", LATENCY_HEAD, latency_row()))
    assert (record.benchmark, record.message_bytes, record.repetitions, record.ranks) == (name, 8, 1000, 2)
    assert record.values == {"latency_us": 1.02, "latency_p50_us": 1.01, "latency_p99_us": 1.21}
    assert record.values.keys() == set(catalogue.find(name, name).quantities)


def test_all_sizes_are_read() -> None:
    rows = [latency_row(size, 1000, [size + time for time in TIMES]) for size in (2, 4, 8)]
    found = reader.parse(output("Send Latency Test", LATENCY_HEAD, *rows))
    assert [(one.message_bytes, one.values["latency_us"]) for one in found] == [(2, 3.02), (4, 5.02), (8, 9.02)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (output("Send Latency Test", LATENCY_HEAD, latency_row(), closed=False), "has no end"),
        (output("Send Latency Test", LATENCY_HEAD), "has no rows"),
        (output("Send Latency Test", BANDWIDTH_HEAD, BANDWIDTH_ROW), "head of a table stands where none can be"),
        (output("Send BW Test", LATENCY_HEAD, latency_row()), "head of a table stands where none can be"),
        (output("Send Latency Test", LATENCY_HEAD, BANDWIDTH_ROW), "is not a row of a perftest latency table"),
        (output("Send Latency Test", LATENCY_HEAD, latency_row(), latency_row()), "8 bytes follow 8 bytes"),
        (LATENCY + LATENCY, "a second test starts"),
    ],
)
def test_what_cannot_be_is_refused(text: str, wanted: str) -> None:
    with pytest.raises(OutputError, match=wanted) as caught:
        reader.parse(text, source="job.out")
    assert str(caught.value).startswith("job.out") and str(caught.value).endswith(".")


def started(program: str, printed: str, *, data: int, both: bool = False, server: str = "", read: bool = False) -> str:
    """Both ends of a launch of 1000 messages of 8 bytes, whose interfaces carried ``data`` bytes."""
    words = (program, "-d", "mlx5_0", "-i", "1", "-p", "{port}", "-s", "8", "-n", "1000", "-F")
    to, fro = (40, data) if read else (data, data if both else 40)
    parts = {"server": (server or printed, to, fro), "client": (printed, fro, to)}
    return "".join(
        end(which, words if which == "server" else (*words, "{address}"), text, rx=rx, tx=tx)
        for which, (text, rx, tx) in parts.items()
    )


def test_both_ends_are_read_and_must_have_carried_it() -> None:
    [record] = reader.parse(started("ib_write_lat", LATENCY, data=8000, both=True))
    assert isinstance(record, Record) and record.values["latency_us"] == 1.02
    with refused_as("other-network", match="interface eth1g of c2 received 40 bytes, and ib_write_lat exchanged 8000"):
        reader.parse(started("ib_write_lat", LATENCY, data=8000))
    read = output("RDMA_Read Latency Test", LATENCY_HEAD, latency_row())
    assert reader.parse(started("ib_read_lat", read, data=8000, read=True))[0].benchmark == "ib_read_lat"
    with refused_as("other-network", match="of c2 received 40 bytes"):
        reader.parse(started("ib_read_lat", read, data=8000))


@pytest.mark.parametrize(
    ("program", "facts", "wanted"),
    [
        ("ib_send_lat", {}, "server does not say that it ran ib_send_lat"),
        ("ib_write_lat", {"server": "nothing\n"}, "server does not say that it ran ib_write_lat"),
    ],
)
def test_ends_of_two_programs_are_refused(program: str, facts: dict[str, Any], wanted: str) -> None:
    with refused_as("output-mixed", match=wanted):
        reader.parse(started(program, LATENCY, data=8000, both=True, **facts))


def test_another_size_than_asked_for_is_refused() -> None:
    other = output("RDMA_Write Latency Test", LATENCY_HEAD, latency_row(16))
    with refused_as("output-mixed", match="was asked for 8 bytes, 1000 times, and printed another table"):
        reader.parse(started("ib_write_lat", other, data=16000, both=True))
