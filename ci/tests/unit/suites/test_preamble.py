"""Other programs' lines around a benchmark's output: harmless ones are
set aside and counted, trouble is an error.
"""

import pytest

from folders import DATA
from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from refusals import refused_as
from studies.output_damage import golden

RECORDED = DATA / "golden_transports"
#: Recorded outputs of an MPI that says what it does: lines of it before the title.
TALKATIVE = {
    "intelmpi-2021.18.1-lo.out.txt": {"Intel MPI": 23},
    "intelmpi-2021.18.1-lo-mpi4py.out.txt": {"Intel MPI": 23},
    "mpich-5.0.2-lo.out.txt": {"MPICH": 89},
}
OUTPUTS = {
    "imb": golden("imb-mpi1-2021.11-n2-mpich.txt"),
    "osu": golden("osu/osu-7.0-mpich-n2-latency.txt"),
    "mpi4py": golden("mpi4py-pingpong-mpich-n2.txt"),
}


@pytest.mark.parametrize("name", TALKATIVE)
def test_recorded_outputs_of_talkative_libraries_are_read(name):
    text = (RECORDED / name).read_text()
    read = reader.read(text, source=name)
    assert dict(read.set_aside) == TALKATIVE[name]
    lines = text.splitlines(keepends=True)
    assert read.records == reader.parse("".join(lines[sum(TALKATIVE[name].values()) :])) != []


def test_a_line_that_another_rank_broke_into_is_set_aside():
    whole = "Rank: 1, Local_rank: 1 [ 0, 0 ]\n====== POSIX Topo Dist ======\n"
    torn = "Rank: 1, Local_rank: 1 [ 0====== POSIX Topo Dist ======\n, 0 ]\n"
    for lines in (whole, torn):
        read = reader.read(lines + OUTPUTS["osu"])
        assert dict(read.set_aside) == {"MPICH": 2}
        assert read.records == reader.parse(OUTPUTS["osu"])
    with pytest.raises(OutputError):
        reader.read("Rank: 1, Local_rank: 1 [ 0" + OUTPUTS["osu"])


def test_a_line_of_the_library_inside_the_output_stays_an_error():
    name = "mpich-5.0.2-lo-but-local.out.txt"
    with refused_as(
        "output-damaged", match=r"line 121: 'Rank: 1, Local_rank: 1 .* is not a line of IMB"
    ):
        reader.parse((RECORDED / name).read_text(), source=name)
