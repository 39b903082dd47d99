"""Of the results of a launch: the line that tells why it failed, its
time, and the bytes that it must have sent.
"""

import re

import pytest

from reframe_tests.harness.cases.job import script
from reframe_tests.harness.cases.results import measurement
from reframe_tests.harness.cases.results.error_excerpt import excerpt
from reframe_tests.harness.cases.results.measurement import (
    least_bytes,
    name_uncounted,
)
from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.catalogue import ROWS
from reframe_tests.harness.suites.gpcnet import LOADED_GROUP, bound_of, nodes_tested
from studies.output_damage import golden
from synthetic_evidence import on_grid, simple_condition
from synthetic_stack import ETH, LO, SHM, launches

#: MPICH 5.0 on UCX 1.20, shortened: one node's interface has no carrier.
LINK_DOWN = """\
[1795272961.092024] [c2:208  :0]     ucp_context.c:2463 UCX  INFO  Version 1.20.1 (loaded from /opt/mpich/lib/libucp.so.0)
[1795272961.100037] [c2:208  :0]     ucp_context.c:1381 UCX  WARN  network device 'eth1g' is not available, please use 'lo'(tcp)
[1795272961.145571] [c2:208  :0]       rdmacm_cm.c:953  UCX  DIAG  rdma_create_event_channel failed: No such device
Abort(473056527) on node 0: Fatal error in internal_Init_thread: Other MPI error, error stack:
"""


#: How a rank ended that a signal killed, as each library or its launcher says it; shortened.
KILLED = (
    # UCX
    "[vm:2:0:2] Caught signal 11 (Segmentation fault: kill(2) or raise(3) at address "
    "0x55c3)\n==== backtrace (tid:  2) ====\n=================================\n",
    # Open MPI
    "[vm:2] *** Process received signal ***\n[vm:2] Signal: Segmentation fault (11)\n"
    "[vm:2] Signal code:  (0)\n[vm:2] *** End of error message ***\n",
    # PRRTE
    f"{'-' * 74}\nprterun noticed that process rank 0 with PID 2 on node vm exited on\n"
    f"signal 11 (Segmentation fault).\n{'-' * 74}\n",
)
#: Intel MPI 2021.18, on standard output.
BY_SIGNAL = (
    f"\n{'=' * 83}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 0 PID 2 "
    f"RUNNING AT vm\n=   KILLED BY SIGNAL: 11 (Segmentation fault)\n{'=' * 83}\n"
)


def test_a_signal_that_hydra_names_on_standard_output_is_named(tmp_path):
    files = script.files_of("one", 1)
    (tmp_path / files.output).write_text("# Benchmarking PingPong\n" + BY_SIGNAL)
    said = measurement._judge_end(255, 60, tmp_path, files, "")
    assert "status 255; it said: " in said and "BY SIGNAL: 11 (Segmentation fault)" in said


#: Ranks that Slurm 22.05 started with another PMI than their MPI's, shortened: MPICH 4.3.2 and 5.0.2
#: with --mpi=pmix, Open MPI 4.1.4 and 5.0.11 with --mpi=pmi2.
OTHER_PMI = (
    """\
[unset]: launcher not compatible with PMI1 client
Abort(203024911): Fatal error in internal_Init_thread: Other MPI error, error stack:
internal_Init_thread(71): MPI_Init_thread(argc=0x7fff86177ac8, argv=0x7fff86177ac0) failed
MPIR_pmi_init(150)......:
pmi1_init(14)...........: PMI_Init returned -1
srun: error: c2: task 1: Exited with exit code 15
""",
    """\
Abort(270157072): Fatal error in internal_Init_thread: Internal MPI error!, error stack:
internal_Init_thread(71)........: MPI_Init_thread(argc=0x7ffc43680ee8) failed
check_MPIR_CVAR_PMI_VERSION(167):  Runtime environment uses unsupported PMI version PMIx. Aborting.
srun: error: c2: task 1: Exited with exit code 16
""",
    """\
The application appears to have been direct launched using "srun",
but OMPI was not built with SLURM's PMI support and therefore cannot
execute. There are several options for building PMI support under
*** An error occurred in MPI_Init
*** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,
srun: error: c2: task 1: Exited with exit code 1
""",
    """\
No PMIx server was reachable, but a PMI1/2 was detected.
If srun is being used to launch application,  2 singletons will be started.
""",
)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([LINK_DOWN], r"^c2: UCX WARN network device 'eth1g' is not available, .* 'lo'\(tcp\)$"),
        (KILLED, r"signal 11 \(|Signal: Segmentation fault"),
        (OTHER_PMI, "srun_mpi"),
    ],
    ids=["the cause comes before what follows from it", "a signal", "another PMI"],
)
def test_why_a_launch_ended_is_said(texts, said):
    """Ranks of another PMI than the launcher's are told what to do."""
    for text in texts:
        assert len(re.findall(said, excerpt(text))) == 1


# ---- What a launch must have sent, of what it printed; and that nothing
# was counted on is said, never passed over ----


def judged(group, file, ranks, nodes=1, fabric=LO, **more):
    """Bytes counted on and notes of an output, by its file or its
    text, as if of a job on so many nodes.
    """
    where = simple_condition({}, {}, {}, fabric=fabric, forced=True, nodes=nodes, ranks=ranks)
    parsed = reader.parse(golden(file) if file.endswith(".txt") else file)
    names = {record.benchmark for record in parsed}
    planned = launches(group, ranks, nodes=nodes, **more)
    launch = next(one for one in planned if {row.name for row in one.rows()} >= names)
    return (least_bytes(where, launch, parsed), name_uncounted(where, launch, parsed))


def test_the_random_numbers_of_nas_move_no_data_by_design():
    least, [note] = judged("nas_s", "npb-3.4-ep-n2.txt", 2)
    assert least == 0
    assert note.startswith("not checked against the bytes that lo carried: EP (moves no data")
    assert judged("nas_s", "npb-3.4-ep-n2.txt", 2, fabric=SHM) == (0.0, [])


def test_a_transposition_that_may_stay_on_its_nodes_is_named():
    """Of a square grid with two ranks a node; with one a node it leaves them."""
    two, notes = judged("hpcc", on_grid(2, 2), 4, 2, ETH, level="smoke")
    assert [note for note in notes if "PTRANS (its grid of ranks is random" in note]
    four, notes = judged("hpcc", on_grid(2, 2), 4, 4, ETH, level="smoke")
    assert not [note for note in notes if "PTRANS" in note] and four > two > 0


def test_gpcnet_under_load_counts_the_nodes_that_test():
    """13 of 64 nodes, alone and under load; the factors are computed from them."""
    assert (
        bound_of("Multiple Alltoall", 1, timed=False, loaded=False)({}, 200, 200) == 200 * 199 * 20
    )
    least, [note] = judged(LOADED_GROUP, "gpcnet-1.3-network_load_test-n2048.txt", 2048, 64, ETH)
    assert nodes_tested(64, loaded=True) == 13
    assert least == 2 * 13 * 32 * (30 * 200 * 2 * 8 + 30 * 8 * 8 * 2 * 131072 + 200 * 8)
    assert note.endswith(
        "Lat_impact, RR_Two-sided_BW_Sync_impact, Multiple_Allreduce_impact (the ratio of two "
        "others)"
    )


@pytest.mark.parametrize("suite", ["hpcc", "npb", "gpcnet"])
def test_no_row_of_an_application_is_passed_over_in_silence(suite):
    for row in ROWS:
        if row.suite == suite:
            assert row.unbounded or row.of_run or row.traffic_between(0, 16, 4), row.name
