"""Received data are compared before anything is timed: right ones pass,
a flipped byte in a real run fails everything.
"""

from dataclasses import replace

import pytest

from reframe_tests.harness.evidence import data_check
from reframe_tests.harness.machine.gpu import Memory
from synthetic_evidence import STACK
from synthetic_stack import launches, stack_of

GOOD = """\
data check: rank 1 of 2: 40 exchanges, 1000 bytes, 0 wrong
noise
data check: rank 0 of 2: 44 exchanges, 1100 bytes, 0 wrong
"""
WRONG = (
    "data check: wrong: rank 1, 1021 bytes from rank 0 (MPI_Sendrecv): 1 of 1021 bytes differ, "
    "the first is byte 7: 0x00 instead of 0x01\n"
)


def test_right_data_say_so():
    assert data_check.judge(GOOD, 2) == ([], [])
    assert data_check.summarise(GOOD).endswith("84 exchanges, 2100 bytes over all ranks")


def test_what_was_compared_of_memory_of_gpus():
    gpus = Memory("device", "cuda")
    for chosen, words in (({}, "was not compared"), ({"validation": "on"}, "was compared")):
        timed = launches("p2p_osu", nodes=2, memory=gpus, stack=stack_of(gpu="cuda"), chosen=chosen)
        assert f" {words} while it was timed" in data_check.summarise(GOOD, gpus, timed)


@pytest.mark.parametrize("cut", [False, True])
def test_one_wrong_byte_contradicts_and_is_quoted_even_if_the_check_is_cut(cut):
    whole = GOOD.replace("1000 bytes, 0 wrong", "1000 bytes, 1 wrong")
    contradicted, missing = data_check.judge(WRONG + ("" if cut else whole), 2)
    assert len(missing) == cut
    assert contradicted == [
        "received data are wrong in 1 exchange (rank 1, 1021 bytes from rank 0 (MPI_Sendrecv): "
        "1 of 1021 bytes differ, the first is byte 7: 0x00 instead of 0x01)."
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD.splitlines()[0],
        GOOD * 2,
        GOOD.replace("of 2", "of 3"),
        GOOD.replace("rank 1 of", "rank 7 of"),
        GOOD.replace("40 exchanges", "0 exchanges"),
        GOOD.replace("0 wrong", "0 wro"),
    ],
)
def test_a_check_that_is_not_whole_proves_nothing(text):
    contradicted, missing = data_check.judge(text, 2)
    assert (contradicted, len(missing)) == ([], 1)


def test_which_jobs_check_their_data():
    able = replace(STACK, commands={"mpi4py.bench": ("/opt/python", "-m", "mpi4py.bench")})
    found = data_check.launch("p2p", able, 2)
    assert found and found.words(able) == ["/opt/python", str(data_check.PROGRAM)]
    assert not found.balanced, "it has collectives, which a switch may add up or multiply"
    one_sided = data_check.launch("one_sided_osu", able, 2)
    assert one_sided and one_sided.words(able)[-1] == "one_sided"
    assert data_check.launch("p2p", STACK, 2) is None, "no mpi4py"
    assert data_check.launch("p2p", able, 1) is None, "a rank alone receives nothing"
