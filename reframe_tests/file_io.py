"""Files: what MPI-IO makes of the file system the job runs on."""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import MaintenanceTest


@rfm.simple_test
class ImbFileIo(MaintenanceTest):
    """All benchmarks of IMB-IO, in the stage directory."""

    group = "file_io"
