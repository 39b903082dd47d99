"""Where it changed: a switch of protocol that moved is one
finding, and no other change is taken for one.
"""

from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mpibench import cli
from mpibench.judge import switches
from synthetic_verdicts import FIRST, write_session

SIZES = 2.0 ** np.arange(4, 23)
KIB = 1024


def times(switch):
    """Eager messages are copied, those by rendezvous wait for each other
    first: about 3/4 slower at 16 KiB, faster from 128.
    """
    return np.where(switch > SIZES, 5 + SIZES / 1000, 25 + SIZES / 1300)


def measured(switch, seed):
    noise = np.random.default_rng(seed).normal(0, 0.02, (len(SIZES), 5))
    return np.log(times(switch))[:, None] + noise


@pytest.mark.parametrize(("old", "new"), [(16, 64), (64, 16), (32, 16), (4, 64)])
def test_a_moved_switch_is_found_between_the_sizes_where_it_was_and_is(old, new):
    """As if everything beyond the margin was called."""
    before = measured(old * KIB, 1)
    after = measured(new * KIB, 2)
    changed = np.abs(np.median(after, axis=1) - np.median(before, axis=1)) > 0.05
    move = switches.find_move(SIZES, before, after, changed, np.full(len(SIZES), 0.05))
    assert (SIZES[move.first], SIZES[move.last + 1]) == (min(old, new) * KIB, max(old, new) * KIB)
    assert move.upwards == (new > old)
    assert min(move.support) >= switches.SUPPORT


def moved(switch):
    """Sessions whose switch is there."""
    curve = dict(zip(SIZES, times(switch) / (5 + SIZES / 1000), strict=True))
    return lambda benchmark, size, stack: float(curve[size])


def session(folder, number, change, **more):
    write_session(folder, number, sizes=[int(size) for size in SIZES], change=change, **more)


def run(folder, command, *words):
    return cli.main([command, "--dataset-only", "--dataset", str(folder), *words])


SENTENCE = "the switch of protocol moved from between 32 KiB and 64 KiB to between 8 KiB and 16 KiB"


def test_accept_names_the_move_once_and_lists_what_it_made_slower_beneath(tmp_path, capsys):
    for number in range(7):
        session(tmp_path, number, moved(64 * KIB if number < 6 else 16 * KIB))
    words = f"--baseline latest~6,latest~5,latest~4,latest~3,latest~2,latest~1 --out {tmp_path}/out"
    assert run(tmp_path, "accept", *words.split()) == 1
    lines = capsys.readouterr().out.splitlines()
    assert SENTENCE in lines[0]
    [at] = [number for number, line in enumerate(lines) if SENTENCE in line and number]
    assert lines[at].startswith(f"  openmpi-spack on node, eth1g: {SENTENCE}; 16 KiB and 32 KiB: ")
    assert lines[at].endswith(" % lower bandwidth because of it, 4 metrics")
    assert ["at 16 KiB and 32 KiB" in line for line in lines[at + 1 : at + 4]] == [
        True,
        True,
        False,
    ]
    assert not [line for line in lines if line.strip().startswith("regressed: ")]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another change"])
def test_drift_names_the_move_and_since_when(tmp_path, capsys, beside):
    """Also where of one benchmark the switch moved, and of the other everything became slower."""

    def late(name, size, stack):
        if beside and name == "Uniband":
            return 1.3 * moved(64 * KIB)(name, size, stack)
        return moved(16 * KIB)(name, size, stack)

    for number in range(14):
        session(tmp_path, number, moved(64 * KIB) if number < 10 else late, noise=0.01)
    assert run(tmp_path, "drift") == 1
    (line,) = capsys.readouterr().out.splitlines()
    since = FIRST + timedelta(days=10)
    head = f"since {since:%d %b %Y}, openmpi-spack on eth1g"
    whole = f"{head}: {SENTENCE}; 16 KiB and 32 KiB: "
    assert line.startswith(head if beside else whole)
    assert ("; 2 of them because the switch of protocol moved" in line) is beside


#: Launches of Open MPI with ``btl_sm_eager_limit`` at 4 KiB and at 16
#: KiB; the file says how they were recorded.
RECORDED = Path(__file__).parents[2] / "data" / "golden_switches" / "openmpi_sm_eager_limit.csv"


def test_a_recorded_move_of_an_eager_limit_is_found():
    """Both ways; beside it a size is called at which launches differ
    by a factor of two under either limit.
    """
    table = pl.read_csv(RECORDED, comment_prefix="#").sort("launch", "message_bytes")
    sizes = np.array(sorted(set(table["message_bytes"])), dtype=float)
    low, high = [
        np.log(table.filter(eager_limit_bytes=limit * KIB)["latency_us"].to_numpy())
        .reshape(-1, len(sizes))
        .T
        for limit in (4, 16)
    ]
    apart = (low.min(axis=1) > high.max(axis=1)) | (high.min(axis=1) > low.max(axis=1))
    assert sizes[apart].tolist() == [4 * KIB, 8 * KIB]
    margin = np.full(len(sizes), 0.05)
    for old, new in ((low, high), (high, low)):
        move = switches.find_move(sizes, old, new, apart | (sizes == 128 * KIB), margin)
        assert (sizes[move.first], sizes[move.last]) == (4 * KIB, 8 * KIB)
        assert move.upwards == (old is low) and min(move.support) > 7
