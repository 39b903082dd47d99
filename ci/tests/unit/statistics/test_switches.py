"""Where it changed: a switch of protocol that moved is one finding, and no other change is taken for one."""

from __future__ import annotations

import re
import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mpibench import cli
from mpibench.judge import switches
from mpibench.judge.engine import Array
from mpibench.judge.switches import Move
from studies import error_rates, moved_switches
from synthetic_verdicts import FIRST, Change, write_session

SIZES = 2.0 ** np.arange(4, 23)
KIB = 1024


def times(switch: float) -> Array:
    """Eager messages are copied, those by rendezvous wait for each other first: about 3/4 slower at 16 KiB, faster from 128."""
    return np.where(switch > SIZES, 5 + SIZES / 1000, 25 + SIZES / 1300)


def measured(curve: Array, noise: float = 0.01, units: int = 5, seed: int = 1) -> Array:
    return np.log(curve)[:, None] + noise * np.random.default_rng(seed).standard_normal((len(curve), units))


def find(baseline: Array, candidate: Array, margin: float = 0.05) -> Move | None:
    """As if everything beyond the margin was called."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        changed = np.abs(np.nanmedian(candidate, axis=1) - np.nanmedian(baseline, axis=1)) > margin
    return switches.find_move(SIZES, baseline, candidate, changed, np.full(len(SIZES), margin))


@pytest.mark.parametrize(
    ("old", "new"), [(16, 64), (64, 16), (16, 32), (32, 16), (4, 64), (8, 32)], ids=lambda size: f"{size}KiB"
)
@pytest.mark.parametrize("noise", [0.0, 0.005, 0.02])
def test_a_moved_switch_is_found_between_the_sizes_where_it_was_and_is(old: int, new: int, noise: float) -> None:
    move = find(measured(times(old * KIB), noise), measured(times(new * KIB), noise, seed=2))
    assert move is not None
    assert (SIZES[move.first], SIZES[move.last + 1]) == (min(old, new) * KIB, max(old, new) * KIB)
    assert move.upwards == (new > old)
    assert min(move.support) >= switches.SUPPORT


@pytest.mark.parametrize("slower", [0.7, 1.2, 1.3, 2.0])
@pytest.mark.parametrize("switch", [1, 16 * KIB, 1e9])
def test_slower_sizes_of_another_cause_are_no_moved_switch(slower: float, switch: float) -> None:
    """Also beside a switch, which is then at one end of what changed."""
    curve = times(switch)
    named = 0
    for first in range(len(SIZES)):
        for last in range(first + 1, len(SIZES)):
            candidate = curve.copy()
            candidate[first:last] *= slower
            named += find(measured(curve, seed=first), measured(candidate, seed=100 + last)) is not None
    assert named == 0


def test_what_else_changed_is_no_moved_switch() -> None:
    old, new = measured(times(16 * KIB)), measured(times(64 * KIB), seed=2)
    assert find(old, new) is not None
    assert find(old, old) is None, "nothing changed"
    beside = new.copy()
    beside[-2:] += 0.2
    assert find(old, beside) == find(old, new), "what changed elsewhere has causes of its own"
    near = new.copy()
    near[13] += 0.2
    assert find(old, near) is None, "the sizes beside it say how each curve goes on"
    hole = new.copy()
    hole[10] = old[10]
    assert SIZES[10] == 16 * KIB
    assert find(old, hole) is None or SIZES[find(old, hole).first] > 16 * KIB, "from the first size that changed"
    everything = old + 0.3
    assert find(old, everything) is None


def test_gaps_single_units_and_sizes_at_an_end() -> None:
    old, new = measured(times(16 * KIB)), measured(times(64 * KIB), seed=2)
    one = find(old[:, :1], new[:, :1])
    assert one is not None and SIZES[one.first] == 16 * KIB, "one night each"
    gapped = old.copy()
    gapped[3] = np.nan
    gapped[10, 1:4] = np.nan
    move = find(gapped, new)
    assert move is not None and SIZES[move.first] == 16 * KIB
    assert find(measured(times(32)), measured(times(256), seed=2)) is None, "nothing below it to say how it goes on"
    nothing = np.full(old.shape, np.nan)
    assert switches.find_move(SIZES, nothing, new, np.ones(len(SIZES), dtype=bool), np.full(len(SIZES), 0.05)) is None
    few = slice(9, 12)
    assert switches.find_move(SIZES[few], old[few], new[few], np.ones(3, dtype=bool), np.full(3, 0.05)) is None
    flat = np.zeros(old.shape)
    assert find(flat, flat) is None, "constants"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert switches.find_move(SIZES, flat, flat, SIZES == 16 * KIB, np.full(len(SIZES), 0.0)) is None


def moved(switch: float) -> Change:
    """Sessions whose switch is there."""
    curve = dict(zip(SIZES, times(switch) / (5 + SIZES / 1000), strict=True))
    return lambda benchmark, size, stack: float(curve[size])


def session(folder: Path, number: int, change: Change, **more: object) -> None:
    write_session(folder, number, sizes=[int(size) for size in SIZES], change=change, **more)


def run(folder: Path, command: str, *words: str) -> int:
    return cli.main([command, "--dataset-only", "--dataset", str(folder), *words])


SENTENCE = "the switch of protocol moved from between 32 KiB and 64 KiB to between 8 KiB and 16 KiB"


def test_accept_names_the_move_once_and_lists_what_it_made_slower_beneath(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(6):
        session(tmp_path, number, moved(64 * KIB))
    session(tmp_path, 6, moved(16 * KIB))
    words = ("--baseline", "latest~6,latest~5,latest~4,latest~3,latest~2,latest~1", "--out", str(tmp_path / "record"))
    assert run(tmp_path, "accept", *words) == 1
    lines = capsys.readouterr().out.splitlines()
    assert SENTENCE in lines[0], "the headline begins with it, too"
    at = next(number for number, line in enumerate(lines) if SENTENCE in line and number)
    assert lines[at].startswith(f"  openmpi-spack on node, eth1g: {SENTENCE}; 16 KiB and 32 KiB: ")
    assert lines[at].endswith(" % lower bandwidth because of it, 4 metrics")
    assert [re.split(" is | has ", line)[0] for line in lines[at + 1 : at + 3]] == [
        f"    openmpi-spack on node, eth1g, 2 x 1, bunch: {name} at 16 KiB and 32 KiB" for name in ("PingPong", "Uniband")
    ]
    assert not [line for line in lines if line.strip().startswith("regressed: ")]
    assert SENTENCE in (tmp_path / "record" / "accept.html").read_text()


def test_a_move_that_made_sizes_faster_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(6):
        session(tmp_path, number, moved(16 * KIB))
    session(tmp_path, 6, moved(64 * KIB))
    words = ("--baseline", "latest~6,latest~5,latest~4,latest~3,latest~2,latest~1", "--out", str(tmp_path / "record"))
    assert run(tmp_path, "accept", *words) == 0
    out = capsys.readouterr().out
    assert "note: openmpi-spack on node, eth1g: the switch of protocol moved from between 8 KiB and 16 KiB to between" in out
    assert "faster because of it, 4 metrics" in out


def test_a_slower_band_stays_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(6):
        session(tmp_path, number, moved(64 * KIB))
    session(tmp_path, 6, lambda *key: moved(64 * KIB)(*key) * (1.15 if 16 * KIB <= key[1] < 64 * KIB else 1.0))
    words = ("--baseline", "latest~6,latest~5,latest~4,latest~3,latest~2,latest~1", "--out", str(tmp_path / "record"))
    assert run(tmp_path, "accept", *words) == 1
    out = capsys.readouterr().out
    assert "switch of protocol" not in out
    assert "regressed: openmpi-spack on node, eth1g, 2 x 1, bunch: PingPong at 16 KiB and 32 KiB" in out


def test_drift_names_the_move_and_since_when(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(14):
        session(tmp_path, number, moved((64 if number < 10 else 16) * KIB), noise=0.01)
    assert run(tmp_path, "drift") == 1
    (line,) = capsys.readouterr().out.splitlines()
    since = FIRST + timedelta(days=10)
    assert line.startswith(f"since {since:%d %b %Y}, openmpi-spack on eth1g: {SENTENCE}; 16 KiB and 32 KiB: ")
    assert " % lower bandwidth because of it, 4 metrics (PingPong, Uniband)" in line


def test_drift_names_the_move_beside_another_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one benchmark the switch moved; of the other everything became slower."""

    def late(benchmark: str, size: int, stack: str) -> float:
        return moved((16 if benchmark == "PingPong" else 64) * KIB)(benchmark, size, stack) * (
            1.3 if benchmark == "Uniband" else 1.0
        )

    for number in range(14):
        session(tmp_path, number, moved(64 * KIB) if number < 10 else late, noise=0.01)
    assert run(tmp_path, "drift") == 1
    (line,) = capsys.readouterr().out.splitlines()
    said = "% lower bandwidth, 21 metrics (PingPong, Uniband); 2 of them because the switch of protocol moved from between"
    assert said in line


#: Launches of Open MPI with ``btl_sm_eager_limit`` at 4 KiB and at 16 KiB; the file says how they were recorded.
RECORDED = Path(__file__).parents[2] / "data" / "golden_switches" / "openmpi_sm_eager_limit.csv"


def test_a_recorded_move_of_an_eager_limit_is_found() -> None:
    """Both ways; beside it a size is called at which launches differ by a factor of two under either limit."""
    table = pl.read_csv(RECORDED, comment_prefix="#")
    sizes = np.array(sorted(set(table["message_bytes"])), dtype=float)
    sides = [
        np.log(table.filter(pl.col("eager_limit_bytes") == limit).sort("launch", "message_bytes")["latency_us"].to_numpy())
        .reshape(-1, len(sizes))
        .T
        for limit in (4 * KIB, 16 * KIB)
    ]
    apart = (sides[0].min(axis=1) > sides[1].max(axis=1)) | (sides[1].min(axis=1) > sides[0].max(axis=1))
    assert [int(size) for size in sizes[apart]] == [4 * KIB, 8 * KIB]
    margin = np.full(len(sizes), 0.05)
    for old, new in (sides, sides[::-1]):
        for changed in (apart, apart | (sizes == 128 * KIB)):
            move = switches.find_move(sizes, old, new, changed, margin)
            assert move is not None and (sizes[move.first], sizes[move.last]) == (4 * KIB, 8 * KIB)
            assert move.upwards == (old is sides[0]) and min(move.support) > 7


def test_of_recorded_curves_slower_bands_are_no_moved_switch() -> None:
    recording = next(one for one in error_rates.read_file(moved_switches.NOISE) if one.name == "shm")
    found = moved_switches.measure(recording, 0.01, 30)
    assert (found.wrong, found.tried) == (0, 60)
    sizes, logs = moved_switches.times(recording, 0.01)[0]
    steps = np.diff(np.median(logs, axis=1))[sizes[1:] >= 64]
    assert sizes[sizes >= 64][int(np.argmax(steps))] == 8 * KIB, "there is a switch that bands lie beside"
