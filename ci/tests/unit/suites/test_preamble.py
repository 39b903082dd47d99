"""Other programs' lines around a benchmark's output: harmless ones are
set aside and counted, trouble is an error.
"""

from __future__ import annotations

import pytest

from folders import DATA
from reframe_tests.harness.suites import preamble, reader
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
REMOVED = (
    "[0] MPI startup(): I_MPI_DAPL_DIRECT_COPY_THRESHOLD variable has been removed from the "
    "product, its value is ignored\n"
)
KNOWN = {
    REMOVED: "Intel MPI",
    "MPI startup(): Warning: I_MPI_PMI_LIBRARY will be ignored since the hydra process manager "
    "was found\n": "Intel MPI",
    "srun: job 4901 queued and waiting for resources\n": "Slurm",
    "srun: job 4901 has been allocated resources\n": "Slurm",
    "salloc: Granted job allocation 46116226\n": "Slurm",
    "Submitted batch job 728155\n": "Slurm",
    "Job <3616> is submitted to queue <interactive>.\n": "LSF",
    "<<Waiting for dispatch ...>>\n": "LSF",
    "<<Starting on hostA>>\n": "LSF",
    "Warning: no access to tty (Bad file descriptor).\n": "the batch shell",
    "Thus no job control in this shell.\n": "the batch shell",
    ":: initializing oneAPI environment ...\n": "setvars.sh",
    "   slurm_script: BASH_VERSION = 4.4.20(1)-release\n": "setvars.sh",
    '   args: Using "$@" for setvars.sh arguments: --force\n': "setvars.sh",
    ":: dpcpp-ct -- latest\r\n": "setvars.sh",
    ":: oneAPI environment initialized ::\n": "setvars.sh",
}

NO_RESULT = (
    "[0] MPI startup(): PMI server not found. Please set I_MPI_PMI_LIBRARY variable if it is "
    "not a singleton case.\n",
    "srun: error: Unable to create step for job 7: More processors requested than permitted\n",
    "srun: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1\n",
    "slurmstepd: error: *** STEP 7.0 ON c1 CANCELLED ***\n",
)

#: In front of a job's output, as IBM Spectrum LSF 10.1 documents it.
LSF_REPORT = """Sender: LSF System <lsfadmin@hostB>
Subject: Job 1021: <./rfm_job.sh> in cluster <cluster1> Done

Job <./rfm_job.sh> was submitted from host <hostA> by user <user1> in cluster <cluster1> at Fri Nov 20 02:00:00 2026
Job was executed on host(s) <hostB>, in queue <normal>, as user <user1> in cluster <cluster1> at Fri Nov 20 02:00:01 2026
</home/user1> was used as the home directory.
Started at Fri Nov 20 02:00:01 2026

Your job looked like:

------------------------------------------------------------
# LSBATCH: User input
#!/bin/bash
mpirun -n 2 IMB-MPI1 PingPong
------------------------------------------------------------

Successfully completed.

Resource usage summary:

    CPU time :                                   0.03 sec.
    Max Memory :                                 2 MB

The output (if any) follows:

"""

HARMLESS = "hello from the prologue\n"


@pytest.mark.parametrize("name", TALKATIVE)
def test_recorded_outputs_of_talkative_libraries_are_read(name: str) -> None:
    text = (RECORDED / name).read_text()
    read = reader.read(text, source=name)
    assert dict(read.set_aside) == TALKATIVE[name]
    lines = text.splitlines(keepends=True)
    assert read.records == reader.parse("".join(lines[sum(TALKATIVE[name].values()) :])) != []


def test_a_line_of_the_library_inside_the_output_stays_an_error() -> None:
    name = "mpich-5.0.2-lo-but-local.out.txt"
    with refused_as(
        "output-damaged", match=r"line 121: 'Rank: 1, Local_rank: 1 .* is not a line of IMB"
    ):
        reader.parse((RECORDED / name).read_text(), source=name)


def test_lines_that_nobody_knows_are_set_aside_where_the_output_says_where_it_begins_and_ends() -> (
    None
):
    for suite in ("imb", "osu"):
        whole = reader.parse(OUTPUTS[suite])
        read = reader.read(REMOVED + HARMLESS + OUTPUTS[suite] + HARMLESS)
        assert (read.records, dict(read.set_aside)) == (whole, {"Intel MPI": 1, preamble.OTHERS: 2})
    with refused_as("output-damaged", match=r"job\.out, line 2"):
        reader.parse(REMOVED + HARMLESS + OUTPUTS["mpi4py"], source="job.out")


@pytest.mark.parametrize("suite", OUTPUTS)
def test_known_lines_are_counted_before_the_title_and_refused_behind_it(suite: str) -> None:
    text = OUTPUTS[suite]
    whole = reader.read(text)
    assert not whole.set_aside
    rows, end, last = text.rstrip("\n").rpartition("\n")
    for line, program in KNOWN.items():
        read = reader.read(2 * line + text)
        assert (read.records, dict(read.set_aside)) == (whole.records, {program: 2})
        with refused_as("output-damaged"):
            reader.parse(f"{rows}{end}{line}{last}\n")


@pytest.mark.parametrize("suite", OUTPUTS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_report_of_lsf_in_front_of_an_output_is_set_aside_whole(suite: str, end: str) -> None:
    report = LSF_REPORT.replace("\n", end)
    read = reader.read(report + OUTPUTS[suite])
    assert dict(read.set_aside) == {"LSF": LSF_REPORT.count("\n") - 1}
    assert read.records == reader.parse(OUTPUTS[suite])
    failed = report.replace("Successfully completed.", "Exited with exit code 1.")
    for other in (failed, failed.replace("> Done", "> Exited")):
        with pytest.raises(OutputError):
            reader.read(other + OUTPUTS[suite])


@pytest.mark.parametrize("line", NO_RESULT, ids=lambda line: line[:40])
def test_a_line_that_says_that_something_failed_is_an_error_and_is_named(line: str) -> None:
    for text in OUTPUTS.values():
        with pytest.raises(OutputError, match=r"job\.out, line 2"):
            reader.parse(REMOVED + line + text, source="job.out")
