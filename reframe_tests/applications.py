"""Applications: whole programs, whose numbers describe a machine rather than a message: HPC
Challenge, NAS Parallel Benchmarks.
"""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import MaintenanceTest


@rfm.simple_test
class Hpcc(MaintenanceTest):
    """HPL, PTRANS, DGEMM, GUPS, STREAM, FFT and two rings, the
    problem as large as the level says (HPCC).
    """

    group = "hpcc"


@rfm.simple_test
class NasS(MaintenanceTest):
    """All NAS Parallel Benchmarks of class S, for a look whether they run."""

    group = "nas_s"


@rfm.simple_test
class NasW(MaintenanceTest):
    """All NAS Parallel Benchmarks of class W."""

    group = "nas_w"


@rfm.simple_test
class NasA(MaintenanceTest):
    """All NAS Parallel Benchmarks of class A."""

    group = "nas_a"


@rfm.simple_test
class NasB(MaintenanceTest):
    """All NAS Parallel Benchmarks of class B."""

    group = "nas_b"


@rfm.simple_test
class NasC(MaintenanceTest):
    """All NAS Parallel Benchmarks of class C."""

    group = "nas_c"
    limit_s = 1800


@rfm.simple_test
class NasD(MaintenanceTest):
    """All NAS Parallel Benchmarks of class D."""

    group = "nas_d"
    limit_s = 7200
