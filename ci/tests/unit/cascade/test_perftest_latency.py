"""perftest's latency tables, and both ends of its programs: read whole or refused.

The tables are written by ``RESULT_FMT_LAT`` and ``REPORT_FMT_LAT`` of perftest 4.5
(``src/perftest_parameters.h``), since nothing here has an RDMA adapter; the values are those a 100
Gbit/s link may give.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reframe_tests.harness.suites import catalogue, reader

RULE = "-" * 87
LATENCY_HEAD = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] "
)
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
