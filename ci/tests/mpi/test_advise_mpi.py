"""Profiles of real programs: every call of a known pattern is in them, whatever MPI it ran on."""

import pytest

from folders import TESTS
from mpibench_tune import profiles
from test_catalogue_mpi import oversubscribed

PROGRAM = TESTS.parent / "studies" / "profiled_patterns.py"
ITERATIONS = 40
#: Calls of an iteration of each rank: name, bytes, how many.
SOLVER = {("Irecv", 8192): 1, ("Isend", 8192): 1, ("Waitall", None): 1, ("Allreduce", 8): 2}
STEPS = {
    ("Send", 2048): 1,
    ("Recv", 2048): 1,
    ("Allgather", 2048): 1,
    ("Allreduce", 4096): 1,
    ("Bcast", 1024): 1,
}


@pytest.mark.parametrize(("pattern", "calls"), [("solver", SOLVER), ("steps", STEPS)])
def test_a_profile_has_every_call(stack, pattern, calls, run_on, tmp_path):
    out = tmp_path / "profile.csv"
    program = f"{PROGRAM} {pattern} {ITERATIONS} {out}"
    words = [*oversubscribed(stack), *stack.python_with("mpi4py.bench"), *program.split()]
    status, output = run_on(stack, *words, ranks=2, limit_s=120)
    assert status == 0, output
    found = profiles.read(out)
    assert found.ranks == 2 and found.share_in_mpi is not None and 0 < found.share_in_mpi <= 1
    assert {(one.call, one.message_bytes): one.count for one in found.calls} == {
        key: 2 * ITERATIONS * count for key, count in calls.items()
    }
    assert all(one.seconds is not None and one.seconds > 0 for one in found.calls)
