"""perftest's latency tables, and both ends of its programs: read whole or refused.

The tables are written by ``RESULT_FMT_LAT`` and ``REPORT_FMT_LAT`` of perftest 4.5
(``src/perftest_parameters.h``), since nothing here has an RDMA adapter; the values are those a 100
Gbit/s link may give.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.benchmark import OutputError
from refusals import refused_as
from synthetic_pair import end

RULE = "-" * 87
LATENCY_HEAD = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] "
)
BANDWIDTH_HEAD = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
BANDWIDTH_ROW = " 65536      5000             11520.01            11512.28\t\t   0.184196"
TIMES = (0.98, 3.61, 1.01, 1.02, 0.04, 1.21, 3.60)


def latency_row(size: int = 8, count: int = 1000, times: Sequence[float] = TIMES) -> str:
    """A row as ``REPORT_FMT_LAT`` writes it."""
    form = (
        " %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     "
        "\t%-7.2f\t\t%-7.2f \t\t%-7.2f"
    )
    return form % (size, count, *times)


def output(title: str, head: str, *rows: str, closed: bool = True) -> str:
    """An output with the test's head in front."""
    lines = [
        RULE,
        f"                    {title}",
        " Dual-port       : OFF\t\tDevice         : mlx5_0",
        RULE,
        head,
        *rows,
    ]
    return "\n".join([*lines, *([RULE] if closed else [])]) + "\n"


LATENCY = output("RDMA_Write Latency Test", LATENCY_HEAD, latency_row())


def started(
    program: str,
    printed: str,
    *,
    data: int,
    both: bool = False,
    server: str = "",
    read: bool = False,
) -> str:
    """Both ends of a launch of 1000 messages of 8 bytes, whose
    interfaces carried ``data`` bytes.
    """
    words = (program, "-d", "mlx5_0", "-i", "1", "-p", "{port}", "-s", "8", "-n", "1000", "-F")
    to, fro = (40, data) if read else (data, data if both else 40)
    parts = {"server": (server or printed, to, fro), "client": (printed, fro, to)}
    return "".join(
        end(which, words if which == "server" else (*words, "{address}"), text, rx=rx, tx=tx)
        for which, (text, rx, tx) in parts.items()
    )


@pytest.mark.parametrize(
    ("title", "name"),
    [("RDMA_Write", "ib_write_lat"), ("RDMA_Read", "ib_read_lat"), ("Send", "ib_send_lat")],
)
def test_mean_median_and_percentile_are_read(title: str, name: str) -> None:
    rows = (latency_row(2), latency_row(4, times=[1 + time for time in TIMES]))
    [record, larger] = reader.parse(output(f"{title} Latency Test", LATENCY_HEAD, *rows))
    assert (record.benchmark, record.message_bytes) == (name, 2)
    assert (record.repetitions, record.ranks) == (1000, 2)
    assert record.values == {"latency_us": 1.02, "latency_p50_us": 1.01, "latency_p99_us": 1.21}
    assert record.values.keys() == set(catalogue.find(name, name).quantities)
    assert (larger.message_bytes, larger.values["latency_us"]) == (4, 2.02)


def changed(place: int, time: float) -> str:
    times = [*TIMES[:place], time, *TIMES[place + 1 :]]
    return output("Send Latency Test", LATENCY_HEAD, latency_row(times=times))


@pytest.mark.parametrize(
    "text",
    [
        output("Send Latency Test", LATENCY_HEAD, latency_row(), closed=False),
        output("Send Latency Test", LATENCY_HEAD),
        output("Send Latency Test", BANDWIDTH_HEAD, BANDWIDTH_ROW),
        output("Send BW Test", LATENCY_HEAD, latency_row()),
        output("Send Latency Test", LATENCY_HEAD, BANDWIDTH_ROW),
        output("Send Latency Test", LATENCY_HEAD, latency_row(), latency_row()),
        LATENCY + LATENCY,
        # times that contradict each other
        changed(0, 1.98),
        changed(2, 1.41),
        changed(3, 10.2),
        changed(5, 12.1),
    ],
)
def test_what_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(OutputError, match=r"^job\.out"):
        reader.parse(text, source="job.out")


def test_both_ends_are_read_and_must_have_carried_it() -> None:
    [record] = reader.parse(started("ib_write_lat", LATENCY, data=8000, both=True))
    assert record.values["latency_us"] == 1.02
    read = output("RDMA_Read Latency Test", LATENCY_HEAD, latency_row())
    [record] = reader.parse(started("ib_read_lat", read, data=8000, read=True))
    assert record.benchmark == "ib_read_lat"
    for program, printed in (("ib_write_lat", LATENCY), ("ib_read_lat", read)):
        with refused_as("not-comparable", match="of c2 received 40 bytes"):
            reader.parse(started(program, printed, data=8000))


OTHER_SIZE = output("RDMA_Write Latency Test", LATENCY_HEAD, latency_row(16))


@pytest.mark.parametrize(
    ("program", "printed", "server", "wanted"),
    [
        ("ib_send_lat", LATENCY, "", "server does not say that it ran ib_send_lat"),
        ("ib_write_lat", LATENCY, "nothing\n", "server does not say that it ran ib_write_lat"),
        ("ib_write_lat", OTHER_SIZE, "", "was asked for 8 bytes, 1000 times"),
    ],
)
def test_ends_of_something_else_are_refused(program, printed, server, wanted) -> None:
    with refused_as("output-mixed", match=wanted):
        reader.parse(started(program, printed, data=16000, both=True, server=server))
