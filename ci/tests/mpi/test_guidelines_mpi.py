"""The guidelines' instrument for real: every call and mock-up
gives right data, and a slow call is found.
"""

import pytest

from reframe_tests.harness.suites import catalogue, reader
from test_catalogue_mpi import oversubscribed


def words_of(stack, *guidelines, program=(), sizes="16,1024"):
    suite = catalogue.SUITES["guidelines"]
    started = program or (str(suite.script.path),)
    bounds = ("--sizes", sizes, "--repetitions", "4", "--budget-s", "1")
    return [
        *oversubscribed(stack),
        *stack.python_with(suite.script.module),
        *started,
        *bounds,
        *guidelines,
    ]


def test_an_odd_number_of_ranks_receives_the_right_data(stack, run_on):
    """Three ranks: no block is a whole part of a vector, and the
    last ranks of a small one get none.
    """
    names = [row.name for row in catalogue.rows("guidelines")]
    status, output = run_on(stack, *words_of(stack, *names), ranks=3, limit_s=600)
    assert status == 0, output
    records = reader.parse(output)
    assert [(record.benchmark, record.message_bytes) for record in records] == [
        (each, size) for each in names for size in (16, 1024)
    ]
    assert {record.ranks for record in records} == {3}
    assert all(2 <= record.repetitions <= 4 for record in records)


def test_wrong_data_end_the_instrument(require_stack, run_on, tmp_path):
    stack = require_stack("mpich-wheels")
    path = tmp_path / "wrong.py"
    path.write_text(
        "import sys\nsys.path.insert(0, "
        f"{str(catalogue.SUITES['guidelines'].script.path.parent)!r})\n"
        "import guidelines as instrument\nfrom mpi4py import MPI\n"
        "class Wrong(instrument.Calls):\n"
        "    def bcast_by_scatter_allgather(self, size):\n"
        "        return instrument.Operation(lambda: None, self.bcast(size).received)\n"
        "instrument.Calls = Wrong\n"
        "instrument.main(sys.argv[1:], MPI.COMM_WORLD)\n"
    )
    words = words_of(stack, "Bcast-vs-Scatter-Allgather", program=(str(path),), sizes="1024")
    status, output = run_on(stack, *words, ranks=2, limit_s=120)
    assert status != 0
    assert (
        "Bcast-vs-Scatter-Allgather of 1024 bytes, the mock-up: a rank of 2, 1, received wrong "
        "data" in output
    )
    with pytest.raises(reader.OutputError):
        reader.parse(output)
