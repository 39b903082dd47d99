"""The output of a pair map's instrument: whole, cut off, damaged, with a silent node; and its summary as records."""

from __future__ import annotations

import json
import runpy
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from instrument_output import SO_FAR, sealed
from reframe_tests.harness.instruments import FOLDER, schedule
from reframe_tests.harness.instruments.pairs import output
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY, MEAN
from reframe_tests.harness.machine.switches import SLURM, YAML, Switch
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.vocabulary import BadInput

SUITE = catalogue.SUITES["pair_map"]


@pytest.fixture(scope="module")
def program() -> Any:
    """The instrument without MPI."""
    stand_in = ModuleType("mpi4py")
    stand_in.MPI = SimpleNamespace(Exception=RuntimeError, FLOAT=None)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mpi4py", stand_in)
        return SimpleNamespace(**runpy.run_path(str(FOLDER / "pair_map.py")))


def made(nodes: int = 3, orders: int = 2, *, leaves: bool = True, origin: str = "Slurm", silent: int | None = None) -> str:
    """An output as the instrument writes it; a latency is 10 us and a bandwidth 100 MB/s but for what node 0 sends, half."""
    rounds = schedule.circle_rounds(nodes)
    head = {
        **{"instrument": "pair_map", "format": 3, "ranks": nodes, "design": "all", "seed": 1, "rounds": len(rounds)},
        **{"orders": orders, "repeats": 1, "latency_count": 100, "message_count": 3, "switches": origin if leaves else None},
        "nodes": [[f"n{node}", ["spine", f"leaf{node // 2 + 1}"] if leaves else []] for node in range(nodes)],
    }
    lines: list[dict[str, Any]] = []
    number = 0
    for order in range(1, orders + 1):
        for pairs in schedule.in_order(rounds, order, 1):
            number += 1
            for quantity, size in ((LATENCY, 8), (MEAN, 8), (BANDWIDTH, 1 << 20)):
                for phase in (1, 2):
                    for one, other in (pair[:: 3 - 2 * phase] for pair in pairs):
                        value = 10.0 if quantity != BANDWIDTH else 50.0 if one == 0 else 100.0
                        place = {"order": order, "round": number, "phase": phase, "source": one, "target": other}
                        measured = {"repeat": 1, "value": None if silent in (one, other) else value}
                        lines.append({**place, "quantity": quantity, "bytes": size, **measured})
            lines.append(SO_FAR)
    if silent is not None:
        lines.append({"silent": f"n{silent}", "why": "did not answer in round 1"})
    return sealed(head, [*lines, {"seconds": number / 10}])


def test_a_whole_output() -> None:
    found = output.read(made(), "map.1.out")
    assert (found.whole, found.design, found.rounds, found.silent, found.seconds) == (True, "all", 6, {}, 0.6)
    assert found.nodes == ("n0", "n1", "n2")
    assert len(found.values) == 3 * 3 * 2 * 2
    assert found.tree is not None and found.tree.origin == SLURM
    assert found.tree.switches["leaf1"] == Switch("spine", ("n0", "n1"))
    other = output.read(made(origin="the site"), "map.1.out").tree
    assert other is not None and other.origin == YAML
    assert output.read(made(leaves=False), "map.1.out").tree is None


def test_its_summary_is_records() -> None:
    latency, bandwidth = SUITE.parse(made(4), "map.1.out")
    assert (latency.benchmark, latency.message_bytes, latency.ranks, latency.values["latency_p50_us"]) == (
        "Pair_latency",
        8,
        4,
        10,
    )
    assert bandwidth.values == {"bandwidth_p50_mb_per_s": 100.0, "bandwidth_slowest_mb_per_s": 50.0}
    # 12 directions in 2 passes, each 3 messages of a rank and 100 round trips.
    assert (bandwidth.repetitions, latency.repetitions) == (12 * 2 * 3 // 4, 12 * 2 * 2 * 100 // 4)
    said = SUITE.said(made(4))
    assert said.hosts == {0: "n0", 1: "n1", 2: "n2", 3: "n3"}
    assert said.notes == ("72 values of pairs (all) in 6 rounds in 1 s; switches from slurm",)


def test_two_nodes() -> None:
    found = output.read(made(2, 1), "map.1.out")
    assert found.whole and len(found.values) == 6
    assert {(one.source, one.target) for one in found.values} == {("n0", "n1"), ("n1", "n0")}


def test_a_map_that_was_cut_off_is_kept_up_to_its_last_checksum() -> None:
    text = made(4)
    mark = text.index('{"so_far": "pair_map", "rows": 24')
    for end, values in ((mark - 20, 12), (mark + 20, 12), (text.index("\n", mark) + 20, 24)):
        found = output.read(text[:end], "map.1.out")
        assert not found.whole and len(found.values) == values
    with pytest.raises(OutputError, match="cut off"):
        SUITE.parse(text[: text.rindex('{"end"')], "map.1.out")


def test_a_silent_node_is_named_and_its_pairs_have_no_value() -> None:
    text = made(4, silent=2)
    found = output.read(text, "map.1.out")
    assert found.silent == {"n2": "did not answer in round 1"}
    assert {one.value is None for one in found.values if "n2" in (one.source, one.target)} == {True}
    assert {one.value is None for one in found.values if "n2" not in (one.source, one.target)} == {False}
    with pytest.raises(OutputError, match="n2"):
        SUITE.parse(text, "map.1.out")


def test_lines_of_others_are_passed_over() -> None:
    text = made()
    assert output.read(f"a warning\n{text}".replace('{"so_far"', 'libmpi: hello\n{"so_far"', 1) + "goodbye\n", "x").whole


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("100.0", "999.0", 1), "do not fit together"),
        (lambda text: text.replace('"instrument": "pair_map"', '"instrument": "another"', 1), "no beginning"),
        (lambda text: text.replace('"source": 0', '"source": 9', 1), "do not fit together"),
        (lambda text: text + text, "behind the last line"),
    ],
)
def test_damage_is_one_sentence(change: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        output.read(change(made()), "map.1.out")


def test_the_instrument_takes_each_pair_both_ways_in_every_pass(program: Any) -> None:
    steps = program.steps_of(schedule.circle_rounds(5), 2, 1, 0)
    assert [step.quantity for step in steps[:3]] == [LATENCY, BANDWIDTH, BANDWIDTH]
    assert steps[1].pairs == [pair[::-1] for pair in steps[2].pairs] == steps[0].pairs
    assert max(step.round for step in steps) == 10
    alone = program.steps_of(schedule.circle_rounds(4), 1, 1, 1)
    assert [len(step.pairs) for step in alone[:4]] == [1, 1, 2, 2], "where cores are shared, one latency at a time"


class StoppedNow:
    """An MPI and a clock, in which a message takes 2.5 us and a processor is stopped for 3 of each 4 ms."""

    def __init__(self, *, stopped: bool) -> None:
        self.now, self.stopped, self.sent = 0.0, stopped, list[int]()

    def perf_counter(self) -> float:
        return self.now

    def Send(self, what: Any, partner: int, tag: int) -> None:  # noqa: N802
        self.sent.append(what[0][0])
        self._pass()

    def Recv(self, what: Any, partner: int, tag: int) -> None:  # noqa: N802
        self._pass()

    def _pass(self) -> None:
        self.now += 2.5e-6
        if self.stopped and self.now % 0.004 > 0.001:
            self.now += 0.004 - self.now % 0.004


def test_a_latency_lasts_long_enough_to_meet_a_processor_that_is_stopped_now_and_then(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    means, call = [], program.Rank.call
    for stopped in (False, True):
        other = StoppedNow(stopped=stopped)
        monkeypatch.setitem(call.__globals__, "time", other)
        monkeypatch.setitem(call.__globals__, "MPI", SimpleNamespace(BYTE="byte"))
        times = call(SimpleNamespace(comm=other, latency=program.Size(8, 100)), 1)
        assert len(times) >= 100 and other.now >= schedule.LATENCY_S
        assert other.sent == [0] * (len(other.sent) - 1) + [1], "the other side hears which message is the last"
        means.append(sum(times) / len(times))
    assert means[1] > 2 * means[0]


def test_the_instrument_prints_what_is_read(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    head = json.loads(made(2, 1).splitlines()[0])
    facts = {name: value for name, value in head.items() if name not in ("instrument", "format", "ranks")}
    lines = program.common.Lines(SimpleNamespace(rank=0, size=2), "pair_map", **facts)
    table = program.Table(lines, ["n0", "n1"], {LATENCY: 8, BANDWIDTH: 1 << 20}, 1)
    steps = program.steps_of(schedule.circle_rounds(2), 1, 1, 0)
    table.add(steps[0], {0: [7.5, 8.5], 1: [7.25, 9.0]})
    table.add(steps[1], {steps[1].pairs[0][0]: [11.5]})
    table.add(steps[2], {})
    found = output.read(capsys.readouterr().out, "map.1.out")
    assert [one.value for one in found.values if one.quantity == BANDWIDTH] == [11.5, None]
    assert {one.value for one in found.values if one.quantity == LATENCY} == {7.5, 7.25}
    assert {one.value for one in found.values if one.quantity == MEAN} == {8.5, 9.0}
