"""Maps of pairs: their rounds, what the instrument prints, and what is stored."""

from __future__ import annotations

import json
import runpy
import sys
from collections import Counter
from itertools import chain, combinations
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from instrument_output import SO_FAR, sealed
from reframe_tests.harness.instruments import FOLDER, schedule
from reframe_tests.harness.instruments.pairs import output
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY, MEAN, PairMap, PairValue, read_pair_map
from reframe_tests.harness.machine.switches import SLURM, YAML, Switch, SwitchTree
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as


def members(pairs: schedule.Round) -> list[int]:
    return list(chain.from_iterable(pairs))


@given(some.integers(0, 60))
def test_all_pairs_are_there_once_in_disjoint_rounds(nodes: int) -> None:
    rounds = schedule.circle_rounds(nodes)
    assert len(rounds) == schedule.number_of_rounds(nodes, 0)
    assert Counter(frozenset(pair) for pair in chain.from_iterable(rounds)) == Counter(
        map(frozenset, combinations(range(nodes), 2))
    )
    for pairs in rounds:
        assert len(set(members(pairs))) == len(members(pairs)) == nodes // 2 * 2, "one has a round off at most"
    off = Counter(node for pairs in rounds for node in set(range(nodes)) - set(members(pairs)))
    assert set(off.values()) <= {1}, "each in its turn"


@given(some.lists(some.sampled_from("abcde"), min_size=2, max_size=40), some.integers(0, 12), some.integers(0, 10**6))
@settings(deadline=None)
def test_a_sample_is_perfect_matchings_that_know_the_switches(leaves: list[str], rounds: int, seed: int) -> None:
    found = schedule.matchings(leaves, rounds, seed)
    assert found == schedule.matchings(leaves, rounds, seed), "the seed determines it"
    assert len(found) == rounds
    nodes, sizes = len(leaves), Counter(leaves)
    for number, pairs in enumerate(found):
        assert len(set(members(pairs))) == len(members(pairs)) == nodes // 2 * 2
        alike = sum(leaves[one] == leaves[other] for one, other in pairs)
        if len(sizes) > 1 and number % schedule.WITHIN_EACH == 0:
            there = Counter(leaves[node] for node in members(pairs))
            assert alike >= sum(count // 2 for count in there.values()), "below one switch as far as that goes"
        elif len(sizes) > 1:
            there = Counter(leaves[node] for node in members(pairs))
            assert alike <= max(0, max(there.values()) - len(pairs)), "apart as far as that goes"
    off = Counter(dict.fromkeys(range(nodes), 0))
    off.update(node for pairs in found for node in set(range(nodes)) - set(members(pairs)))
    assert max(off.values()) - min(off.values()) <= 1, "rounds off are shared out"


@given(some.integers(2, 20), some.integers(1, 6), some.integers(0, 99))
def test_another_pass_has_the_same_pairs_in_another_order(nodes: int, order: int, seed: int) -> None:
    rounds = schedule.circle_rounds(nodes)
    mixed = schedule.in_order(rounds, order, seed)
    key = [sorted(tuple(sorted(pair)) for pair in pairs) for pairs in mixed]
    assert sorted(key) == sorted(sorted(tuple(sorted(pair)) for pair in pairs) for pairs in rounds)
    directed = {pair for pairs in mixed for pair in pairs}
    first = {pair for pairs in rounds for pair in pairs}
    assert directed == ({pair[::-1] for pair in first} if order % 2 == 0 else first), "in even passes the other sends first"


def test_rounds_are_mixed_from_the_second_pass_on() -> None:
    rounds = schedule.circle_rounds(16)
    assert schedule.in_order(rounds, 1, 1) == rounds
    assert schedule.in_order(rounds, 3, 1) != rounds


def test_two_nodes_are_one_round() -> None:
    assert schedule.make([(), ()], 0, 1) == ("all", [[(0, 1)]])


@pytest.mark.parametrize(
    ("nodes", "asked", "rounds"), [(16, 0, 15), (15, 0, 15), (16, 4, 4), (16, 99, 15), (1, 0, 0), (2, 5, 1)]
)
def test_how_many_rounds_are_known_in_advance(nodes: int, asked: int, rounds: int) -> None:
    assert schedule.number_of_rounds(nodes, asked) == rounds
    design, made = schedule.make(["x"] * nodes, asked, 1)
    assert len(made) == rounds
    assert design == ("sampled" if 0 < asked < schedule.number_of_rounds(nodes, 0) else "all")


def test_repeated_pairs_are_rare_in_a_sample() -> None:
    found = schedule.matchings(["x"] * 40, 12, 7)
    pairs = Counter(frozenset(pair) for pair in chain.from_iterable(found))
    assert sum(count > 1 for count in pairs.values()) < 12 * 20 // 5


def test_the_cost_grows_with_rounds_and_messages() -> None:
    def cost(nodes: int = 16, rounds: int = 15, **more: float) -> float:
        return schedule.cost_s(nodes, rounds, 2, **{"transfer_s": 0.25, "pings": 100, **more})  # type: ignore[arg-type]

    assert cost() == pytest.approx(2 * 15 * (2 * 0.25 + 2 * schedule.LATENCY_S + 3 * 0.0036))
    assert cost(pings=1000) == pytest.approx(cost() + 2 * 15 * 2 * (0.05 - schedule.LATENCY_S))
    assert cost(rounds=30) == pytest.approx(2 * cost())
    assert cost(one_at_a_time=True) > cost()


@pytest.mark.parametrize(("nodes", "rounds"), [(8, 1), (8, 3), (9, 2), (16, 4), (33, 5)])
def test_nights_in_turn_measure_every_pair(nodes: int, rounds: int) -> None:
    days = schedule.days_of_turn(nodes, rounds)
    for begin in (739_214, 739_215):
        seen = set()
        for day in range(begin, begin + days):
            design, tonight = schedule.make([()] * nodes, rounds, 1, schedule.turn(nodes, rounds, day))
            assert design == "sampled" and len(tonight) == rounds
            assert all(len({node for pair in one for node in pair}) == 2 * len(one) for one in tonight)
            seen |= {frozenset(pair) for one in tonight for pair in one}
        assert len(seen) == nodes * (nodes - 1) // 2


@pytest.mark.parametrize(
    ("nodes", "sampled", "orders"), [(2, 0, 2), (3, 0, 14), (4, 0, 10), (8, 0, 4), (16, 0, 2), (100, 4, 7)]
)
def test_small_maps_have_more_passes(nodes: int, sampled: int, orders: int) -> None:
    assert schedule.usual_orders(nodes, sampled) == orders


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
    facts = SUITE.facts(made(4))
    assert facts.hosts == {0: "n0", 1: "n1", 2: "n2", 3: "n3"}
    assert facts.notes == ("72 values of pairs (all) in 6 rounds in 1 s; switches from slurm",)


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
    with refused_as("output-cut", match="cut off"):
        SUITE.parse(text[: text.rindex('{"end"')], "map.1.out")


def test_a_silent_node_is_named_and_its_pairs_have_no_value() -> None:
    text = made(4, silent=2)
    found = output.read(text, "map.1.out")
    assert found.silent == {"n2": "did not answer in round 1"}
    assert {one.value is None for one in found.values if "n2" in (one.source, one.target)} == {True}
    assert {one.value is None for one in found.values if "n2" not in (one.source, one.target)} == {False}
    with refused_as("output-node-silent", match="n2"):
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


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_value_that_nothing_can_have_is_refused_and_not_lost_among_the_quantiles(value: float) -> None:
    head, row = (json.loads(line) for line in made().splitlines()[:2])
    with refused_as("output-zero"):
        output.read(sealed(head, [{**row, "value": value}]), "map.1.out")


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


TREE = SwitchTree(SLURM, {"spine": Switch(), "leaf1": Switch("spine", ("c1", "c2")), "leaf2": Switch("spine", ("c3",))})
VALUES = (
    PairValue(1, 1, 1, "c1", "c2", LATENCY, 8, 1, 12.5, None),
    PairValue(1, 1, 2, "c2", "c1", BANDWIDTH, 1 << 20, 1, 11.7, True),
    PairValue(1, 2, 1, "c1", "c3", BANDWIDTH, 1 << 20, 1, None, False),
)
MAP = PairMap("all", 1, 3, ("c1", "c2", "c3"), {"c3": "did not answer in round 2"}, VALUES, TREE)


def stored(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(json.dumps(MAP.as_dict()))
    return {**row, **changes}


def test_what_is_written_is_read() -> None:
    assert read_pair_map(stored(), "case 1") == MAP
    assert read_pair_map(stored(tree=None), "case 1") == PairMap(**{**vars(MAP), "tree": None})
    assert read_pair_map(None, "case 1") is None
    assert read_pair_map({}, "case 1") is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 2}, "newer mpibench"),
        ({"design": "some"}, "design"),
        ({"rows": 7}, "rows"),
        ({"rows": [[1, 2]]}, "rows"),
        ({"rows": [[1, 1, 1, 0, 9, 0, 8, 1, 2.0, None]]}, "out of range"),
        ({"rows": [[1, 1, 1, 0, 1, 0, 8, 1, 2.0, "yes"]]}, "rows"),
        ({"seed": -1}, "seed"),
        ({"tree": {"origin": "rumour", "switches": {}}}, "rumour"),
        ({"tree": {"origin": "slurm", "switches": {"a": {"parent": "b", "nodes": []}}}}, "not described"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_pair_map(stored(**changes), "case 1")
