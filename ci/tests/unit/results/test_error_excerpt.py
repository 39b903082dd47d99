"""The line that tells why a launch failed, among what MPI libraries print around it."""

from __future__ import annotations

import pytest

from reframe_tests.harness.cases.results.error_excerpt import excerpt

#: MPICH 5.0 on UCX 1.20, shortened: one node's interface has no carrier.
LINK_DOWN = """\
[1795272961.092024] [c2:208  :0]     ucp_context.c:2463 UCX  INFO  Version 1.20.1 (loaded from /opt/mpich/lib/libucp.so.0)
[1795272961.100037] [c2:208  :0]     ucp_context.c:1381 UCX  WARN  network device 'eth1g' is not available, please use 'lo'(tcp)
[1795272961.145571] [c2:208  :0]       rdmacm_cm.c:953  UCX  DIAG  rdma_create_event_channel failed: No such device
Abort(473056527) on node 0: Fatal error in internal_Init_thread: Other MPI error, error stack:
"""
#: MVAPICH2 2.3.7, shortened: two settings that exclude each other.
STACK = """\
Fatal error in PMPI_Init_thread: Other MPI error, error stack:
MPIR_Init_thread(493)..............: 
MPID_Init(419).....................: channel initialization failed
MPID_nem_tcp_get_business_card(436): 
MPID_nem_tcp_init(314).............: Only one of A and B environment variables are allowed, but both were set.
"""
#: Slurm 22.05: slurmd of one node is dead.
NO_SLURMD = """\
srun: error: Task launch for StepId=5.1 failed on node c2: Communication connection failure
srun: error: Application launch failed: Communication connection failure
srun: Job step aborted
"""


def test_the_cause_comes_before_what_follows_from_it_and_chatter_is_not_quoted() -> None:
    assert excerpt(LINK_DOWN) == "c2: UCX WARN network device 'eth1g' is not available, please use 'lo'(tcp)"


def test_the_same_trouble_reads_the_same_in_every_repeat() -> None:
    again = LINK_DOWN.replace("1795272961", "1795272999").replace("c2:208 ", "c2:4711 ")
    assert excerpt(again) == excerpt(LINK_DOWN)


def test_the_end_that_lost_its_device_is_quoted_and_not_the_one_that_could_not_reach_it() -> None:
    other = "[1795272961.090000] [c1:29  :0]          select.c:639  UCX  ERROR no active messages transport to <peer>: "
    other += "self/memory - iface id differs (1 vs 2), tcp/eth1g - not available\n"
    for text in (other + LINK_DOWN, LINK_DOWN + other):
        assert excerpt(text) == excerpt(LINK_DOWN)


def test_of_an_error_stack_the_innermost_function_is_quoted() -> None:
    said = "Fatal error in PMPI_Init_thread: Only one of A and B environment variables are allowed, but both were set."
    assert excerpt(STACK + STACK) == said
    assert excerpt(STACK + "MPI_Finalize failed\n") == said
    assert excerpt(STACK.splitlines()[0]) == STACK.splitlines()[0], "a stack that was cut off"


def test_a_launch_that_slurm_did_not_understand_says_what_to_do() -> None:
    """Slurm 22.05 and MPICH 5.0.2 with UCX 1.20: the ranks wait until they are ended."""
    said = excerpt("slurmstepd-c1: error: mpi/pmi2: invalid client request\nsrun: error: c1: task 0: Terminated\n" + NO_SLURMD)
    assert said.startswith("slurmstepd-c1: error: mpi/pmi2: invalid client request (MPICH 5.0 with UCX can send ")
    assert said.endswith("use MPICH 4.3, or start it with its own mpirun)")


def test_slurm_names_the_node() -> None:
    assert "failed on node c2" in excerpt(NO_SLURMD)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ""),
        ("\n \n", ""),
        ("bye\n", "bye"),
        ("warm\nFatal error in MPI_Init\nbye\n", "Fatal error in MPI_Init"),
        ("error: first\nsh: /x/IMB-MPI1: No such file or directory\n", "sh: /x/IMB-MPI1: No such file or directory"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_what_else_may_be_there(text: str, wanted: str) -> None:
    assert excerpt(text) == wanted
