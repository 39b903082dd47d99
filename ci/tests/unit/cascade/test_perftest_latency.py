"""perftest's latency tables are read whole.

The table is written by ``RESULT_FMT_LAT`` and ``REPORT_FMT_LAT`` of perftest 4.5
(``src/perftest_parameters.h``), since nothing here has an RDMA adapter; the values are those a 100
Gbit/s link may give.
"""

import pytest

from reframe_tests.harness.suites import catalogue, reader

RULE = "-" * 87
HEAD = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] "
)
ROW = (
    " %-7d 1000          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     "
    "\t%-7.2f\t\t%-7.2f \t\t%-7.2f"
)
TIMES = (0.98, 3.61, 1.01, 1.02, 0.04, 1.21, 3.60)


@pytest.mark.parametrize(
    ("title", "name"),
    [("RDMA_Write", "ib_write_lat"), ("RDMA_Read", "ib_read_lat"), ("Send", "ib_send_lat")],
)
def test_mean_median_and_percentile_are_read(title, name):
    rows = [ROW % (size, *(more + time for time in TIMES)) for size, more in ((2, 0), (4, 1))]
    device = " Dual-port       : OFF\t\tDevice         : mlx5_0"
    lines = [RULE, f"          {title} Latency Test", device, RULE, HEAD, *rows, RULE, ""]
    record, larger = reader.parse("\n".join(lines))
    assert (record.benchmark, record.message_bytes) == (name, 2)
    assert (record.repetitions, record.ranks) == (1000, 2)
    assert record.values == {"latency_us": 1.02, "latency_p50_us": 1.01, "latency_p99_us": 1.21}
    assert record.values.keys() == set(catalogue.find(name, name).quantities)
    assert (larger.message_bytes, larger.values["latency_us"]) == (4, 2.02)
