"""Files: what MPI-IO reaches on the file system on which the job runs."""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import MaintenanceTest


@rfm.simple_test
class ImbFileIo(MaintenanceTest):
    """All benchmarks of IMB-IO, in the stage directory."""

    group = "file_io"
