"""Maps of pairs: their rounds, what the instrument prints, and what is stored."""

import copy
import errno
import json
import os
import shutil
import sys
import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import chain, combinations, islice
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mpibench import whole_file
from programs import instrument, room_for
from reframe_tests.harness.instruments import schedule
from reframe_tests.harness.instruments.pairs import output
from reframe_tests.harness.instruments.pairs.pair_values import (
    BANDWIDTH,
    LATENCY,
    MEAN,
    QUANTITIES,
    PairMap,
    PairValue,
    read_pair_map,
)
from reframe_tests.harness.machine.switches import SLURM, YAML, Switch, SwitchTree
from reframe_tests.harness.suites import catalogue, instruments, reader
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from studies.output_damage import golden
from synthetic_evidence import lines_of, sealed


def members(pairs):
    return list(chain.from_iterable(pairs))


@given(some.integers(0, 60))
def test_all_pairs_are_there_once_in_disjoint_rounds(nodes):
    rounds = schedule.circle_rounds(nodes)
    assert len(rounds) == schedule.number_of_rounds(nodes, 0)
    assert Counter(frozenset(pair) for pair in chain.from_iterable(rounds)) == Counter(
        map(frozenset, combinations(range(nodes), 2))
    )
    for pairs in rounds:
        assert len(set(members(pairs))) == len(members(pairs)) == nodes // 2 * 2, (
            "one has a round off at most"
        )
    off = Counter(node for pairs in rounds for node in set(range(nodes)) - set(members(pairs)))
    assert set(off.values()) <= {1}, "each in its turn"
    turned = [[(0, 3), (2, 1)], [(2, 0), (3, 1)], [(0, 1), (3, 2)]]
    assert list(schedule.circle_rounds(4)) == turned, "who sends first alternates"
    again = schedule.in_order(rounds, 2, 7)
    assert sorted(again) == sorted([pair[::-1] for pair in pairs] for pairs in rounds), (
        "in another pass the other node of each pair sends first"
    )


SUITE = catalogue.SUITES["pair_map"]


@pytest.fixture(scope="module")
def program():
    return instrument("pair_map")


def test_a_rank_holds_one_round_at_a_time(program):
    tracemalloc.start()
    try:
        steps = program.steps_of(schedule.circle_rounds(2000), 2, 1, 0)
        assert len(list(islice(steps, 9))[-1].pairs) == 1000
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


def kept(pairs, folder, *others):
    """A map as a record names it whose values are in a folder."""
    return read_pair_map(pairs.keep(folder), "case 1", others)


#: Five nodes, of which each rests once: 3 rounds in 2 orders, each value measured twice.
RECORDED = golden("pair_map-mpich-n5-sampled.txt")


def made(silent="", **changes):
    """The recorded output with another first line, or as one whose node did not answer."""
    head, lines = copy.deepcopy(lines_of(RECORDED))
    named = [node for node, _ in head["nodes"]]
    for line in lines:
        ends = zip(line.get("source", ()), line.get("target", ()), strict=True)
        left = [silent not in (named[one], named[other]) for one, other in ends]
        for column in line.get("values", ()):
            column[2] = [
                value if kept else None for value, kept in zip(column[2], left, strict=True)
            ]
    if silent:
        lines.insert(-1, {"silent": silent, "why": "did not answer in round 1"})
    return sealed({**head, **changes}, lines)


def test_a_whole_output():
    found = output.read(RECORDED, "map.1.out")
    assert found.whole and (found.rounds, found.silent, found.seconds) == (6, {}, 13.6)
    assert (found.design, found.nodes) == ("sampled", ("c1", "c2", "c3", "c4", "c5"))
    assert len(found.values) == found.expected == 6 * 2 * 2 * 2 * len(QUANTITIES)
    assert found.values[0] == PairValue(1, 1, 1, "c3", "c1", LATENCY, 8, 1, 6.204, None)
    back = [one.value for one in found.values if (one.source, one.target) == ("c1", "c3")]
    assert back[:2] == [6.381, 810.04]
    assert found.tree.origin == SLURM
    other = output.read(made(design="all"), "map.1.out")
    assert (other.whole, other.expected) == (False, 10 * 2 * 2 * 2 * len(QUANTITIES))
    assert found.tree.switches["leaf2"] == Switch("spine", ("c5",))
    assert output.read(made(switches="the site"), "map.1.out").tree.origin == YAML
    assert output.read(made(switches=None), "map.1.out").tree is None
    others = RECORDED.replace('{"so_far"', 'libmpi: hello\n{"so_far"', 1)
    again = output.read(f"a warning\n{others}goodbye\n", "map.1.out")
    assert list(again.values) == list(found.values) and again.whole


def test_a_silent_node_is_named_and_its_pairs_have_no_value():
    text = made("c2")
    found = output.read(text, "map.1.out")
    assert found.silent == {"c2": "did not answer in round 1"}
    for one in found.values:
        assert (one.value is None) == ("c2" in (one.source, one.target))
    with refused_as("output-empty", match="c2"):
        SUITE.parse(text, "map.1.out")


def test_an_output_is_read_once(monkeypatch):
    added = []
    add = output.PairColumns.add

    def count(columns, *values):
        added.append(len(values[-1]))
        add(columns, *values)

    monkeypatch.setattr(output.PairColumns, "add", count)
    found = reader.read(
        RECORDED,
        source="map.1.out",
        parse=lambda text, source: instruments.pair_records(
            instruments.read_pairs(text, source), source
        ),
    )
    assert sum(added) == 144
    assert found.records == SUITE.parse(RECORDED, "map.1.out")
    assert found.notes == (
        "144 values of pairs (sampled) in 6 rounds in 14 s; switches from slurm",
    )
    assert SUITE.facts(RECORDED).hosts == dict(enumerate(f"c{number}" for number in range(1, 6)))


def test_what_was_read_is_kept_as_it_was_printed(tmp_path):
    found = output.read(made("c2"), "map.1.out")
    rows = sorted(found.values, key=lambda one: QUANTITIES.index(one.quantity))
    for right, counted in (({}, None), ({"c1": True, "c3": False}, False)):
        found.values.check(right)
        whole = PairMap("sampled", 1, 6, found.nodes, found.silent, found.values)
        again = kept(whole, tmp_path)
        assert [one._replace(counted=None) for one in again.rows()] == rows
        assert {
            one.counted for one in again.rows() if {one.source, one.target} == {"c1", "c3"}
        } == {counted}
    assert found.values.message_bytes(BANDWIDTH) == 1 << 20
    source, target, value = found.values.measured(BANDWIDTH)
    assert list(zip(source, target, value, strict=True)) == [
        (found.nodes.index(one.source), found.nodes.index(one.target), one.value)
        for one in found.values
        if one.quantity == BANDWIDTH and one.value is not None
    ]


class StoppedNow:
    """An MPI and a clock, in which a message takes 2.5 us and a
    processor is stopped for 3 of each 4 ms.
    """

    def __init__(self, *, stopped):
        self.now = 0.0
        self.stopped = stopped
        self.sent = list[int]()

    def perf_counter(self):
        return self.now

    def Send(self, what, partner, tag):  # noqa: N802
        self.sent.append(what[0][0])
        self._pass()

    def Recv(self, what, partner, tag):  # noqa: N802
        self._pass()

    def _pass(self):
        self.now += 2.5e-6
        if self.stopped and self.now % 0.004 > 0.001:
            self.now += 0.004 - self.now % 0.004


def test_a_latency_lasts_long_enough_to_meet_a_processor_that_is_stopped_now_and_then(
    program, monkeypatch
):
    means = []
    call = program.Rank.call
    for stopped in (False, True):
        other = StoppedNow(stopped=stopped)
        monkeypatch.setitem(call.__globals__, "time", other)
        monkeypatch.setitem(call.__globals__, "MPI", SimpleNamespace(BYTE="byte"))
        times = call(SimpleNamespace(comm=other, latency=program.Size(8, 100)), 1)
        assert len(times) >= 100 and other.now >= schedule.LATENCY_S
        assert other.sent == [0] * (len(other.sent) - 1) + [1], (
            "the other side hears which message is the last"
        )
        means.append(sum(times) / len(times))
    assert means[1] > 2 * means[0]


def test_the_instrument_prints_what_is_read(program, capsys):
    facts = {
        **dict.fromkeys(("seed", "rounds", "orders", "repeats"), 1),
        **{"design": "all", "latency_count": 1, "message_count": 1, "switches": None},
        "nodes": [["n0", []], ["n1", []]],
    }
    lines = program.common.Lines(SimpleNamespace(rank=0, size=2), "pair_map", **facts)
    table = program.PairTable(lines, ["n0", "n1"], {LATENCY: 8, BANDWIDTH: 1 << 20}, 1)
    steps = list(program.steps_of(schedule.circle_rounds(2), 1, 1, 0))
    table.add(steps[0], {0: [7.5, 8.5], 1: [7.25, 9.0]})
    table.add(steps[1], {steps[1].pairs[0][0]: [11.5]})
    table.add(steps[2], {})
    found = output.read(capsys.readouterr().out, "map.1.out")
    assert [one.value for one in found.values if one.quantity == BANDWIDTH] == [11.5, None]
    assert {one.value for one in found.values if one.quantity == LATENCY} == {7.5, 7.25}
    assert {one.value for one in found.values if one.quantity == MEAN} == {8.5, 9.0}


TREE = SwitchTree(
    SLURM,
    {"spine": Switch(), "leaf1": Switch("spine", ("c1", "c2")), "leaf2": Switch("spine", ("c3",))},
)
VALUES = (
    PairValue(1, 1, 1, "c1", "c2", LATENCY, 8, 1, 12.5, None),
    PairValue(1, 1, 2, "c2", "c1", BANDWIDTH, 1 << 20, 1, 11.7, True),
    PairValue(1, 2, 1, "c1", "c3", BANDWIDTH, 1 << 20, 1, None, False),
)
MAP = PairMap("all", 1, 3, ("c1", "c2", "c3"), {"c3": "did not answer in round 2"}, VALUES, TREE)


def test_values_are_a_file_beside_the_record_and_the_same_in_a_folder_it_moved_to(
    tmp_path,
):
    record = json.loads(json.dumps(MAP.keep(tmp_path / "here")))
    assert "rows" not in record
    found = read_pair_map(record, "case 1")
    assert tuple(found.rows()) == VALUES
    assert (found.nodes, found.silent, found.tree) == (MAP.nodes, MAP.silent, MAP.tree)
    linked = found.keep(tmp_path / "dataset")
    shutil.move(tmp_path / "dataset", tmp_path / "there")
    shutil.rmtree(tmp_path / "here")
    moved = read_pair_map(linked, "case 1", [tmp_path / "there"])
    assert moved == found and tuple(moved.rows()) == VALUES


def test_values_of_an_older_record_are_read_and_written_to_a_file(tmp_path):
    old = read_pair_map(json.loads(json.dumps(MAP.as_dict())), "case 1")
    assert old == MAP
    assert tuple(kept(old, tmp_path).rows()) == VALUES


def test_without_polars_the_record_has_the_values(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    assert kept(MAP, tmp_path) == MAP


def written(folder, *values):
    return kept(replace(MAP, values=values), folder)


def test_a_writer_that_was_killed_harms_no_map_and_what_it_left_is_known(tmp_path, monkeypatch):
    """The next one may have its process id."""
    first, second = (written(tmp_path / "maps", value) for value in VALUES[:2])
    with monkeypatch.context() as killed, pytest.raises(ZeroDivisionError):
        killed.setattr(Path, "replace", lambda *_: 1 / 0)
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        first.keep(tmp_path / "dataset")
    [left] = (tmp_path / "dataset").iterdir()
    second.keep(tmp_path / "dataset")
    assert (*first.rows(), *second.rows()) == VALUES[:2]
    monkeypatch.setattr(Path, "exists", lambda _: False)
    assert whole_file.abandoned(tmp_path / "dataset") == [left]


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EIO], ids=errno.errorcode.get)
def test_a_map_is_copied_only_where_it_cannot_be_linked(tmp_path, monkeypatch, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    found = written(tmp_path / "here", *VALUES)
    monkeypatch.setattr(os, "link", fail)
    if number == errno.EIO:
        with pytest.raises(OSError, match=os.strerror(number)):
            found.keep(tmp_path / "dataset")
        assert not list((tmp_path / "dataset").iterdir())
    else:
        assert tuple(kept(found, tmp_path / "dataset").rows()) == VALUES


def test_a_record_never_names_the_values_of_another_writer(tmp_path, monkeypatch):
    """Who writes to the same file at the same time, as from another node."""
    written(tmp_path / "theirs", VALUES[0])
    [theirs] = (tmp_path / "theirs").iterdir()
    write = pl.DataFrame.write_parquet

    def beside(frame, place, **options):
        write(frame, place, **options)
        if isinstance(place, Path):
            shutil.copy(theirs, place)

    monkeypatch.setattr(pl.DataFrame, "write_parquet", beside)
    assert tuple(written(tmp_path / "mine", *VALUES).rows()) == VALUES


def test_a_map_that_has_no_room_is_an_error_of_the_disk(tmp_path):
    with room_for(9), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        MAP.keep(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "of another map"])
def test_a_file_that_is_not_the_one_that_was_written_is_not_read(tmp_path, damage):
    found = kept(MAP, tmp_path)
    [file] = tmp_path.glob("*.parquet")
    content = file.read_bytes()
    written(tmp_path / "other", VALUES[0])
    [other] = (tmp_path / "other").iterdir()
    spoiled = {
        "cut": content[:-9],
        "flipped": content[:40] + bytes([content[40] ^ 1]) + content[41:],
        "of another map": other.read_bytes(),
    }
    file.unlink()
    if damage in spoiled:
        file.write_bytes(spoiled[damage])
    with refused_as("file-missing" if damage == "gone" else "file-damaged", match=file.name):
        found.table()
    # A whole one elsewhere is as good.
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / file.name).write_bytes(content)
    assert tuple(kept(MAP, tmp_path / "copy", tmp_path).rows()) == VALUES


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("6.204", "9.204"),
        ('"instrument": "pair_map"', '"instrument": "another"'),
        ('"source": [', '"source": [9, '),
        ('"values": [[', '"values": ["a", ['),
    ],
)
def test_damage_is_refused(old, new):
    for text in (RECORDED.replace(old, new, 1), RECORDED * 2):
        with pytest.raises(BadInput):
            output.read(text, "map.1.out")


# ---- Rounds ----


@given(
    some.lists(some.sampled_from("abcde"), min_size=2, max_size=40),
    some.integers(0, 12),
    some.integers(0, 10**6),
)
@settings(deadline=None)
def test_a_sample_is_perfect_matchings_that_know_the_switches(leaves, rounds, seed):
    found = schedule.matchings(leaves, rounds, seed)
    assert found == schedule.matchings(leaves, rounds, seed), "the seed determines it"
    assert len(found) == rounds
    nodes = set(range(len(leaves)))
    off = Counter(dict.fromkeys(nodes, 0))
    for number, pairs in enumerate(found):
        taking_part = members(pairs)
        assert len(set(taking_part)) == len(taking_part) == len(leaves) // 2 * 2
        off.update(nodes - set(taking_part))
        if len(set(leaves)) > 1:
            alike = sum(leaves[one] == leaves[other] for one, other in pairs)
            there = Counter(leaves[node] for node in taking_part).values()
            if number % schedule.WITHIN_EACH == 0:  # below one switch as far as that goes
                assert alike >= sum(count // 2 for count in there)
            else:  # apart as far as that goes
                assert alike <= max(0, max(there) - len(pairs))
    assert max(off.values()) - min(off.values()) <= 1, "rounds off are shared out"


def test_what_a_map_costs_and_how_often_it_is_passed():
    more = {"transfer_s": 0.25, "pings": 100}
    cost = schedule.cost_s(16, 15, 2, **more)
    assert cost == pytest.approx(2 * 15 * (2 * 0.25 + 2 * schedule.LATENCY_S + 3 * 0.0036))
    assert schedule.cost_s(16, 15, 2, **more, one_at_a_time=True) > cost
    pings = schedule.cost_s(16, 15, 2, **{**more, "pings": 1000})
    assert pings == pytest.approx(cost + 2 * 15 * 2 * (0.05 - schedule.LATENCY_S))
    orders = [schedule.usual_orders(*map_) for map_ in ((2, 0), (3, 0), (16, 0), (100, 4))]
    assert orders == [2, 14, 2, 7]


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": None},
        {"version": 3},
        {"design": "some"},
        {"rows": [[1, 2]]},
        {"rows": [[1, 1, 1, 0, 9, 0, 8, 1, 2.0, None]]},
        {"rows": [[1, 1, 1, 0, 1, 0, 8, 1, 2.0, "yes"]]},
        {"seed": -1},
        {"rows": [], "file": {"sha256": "../../etc/passwd"}},
        {"rows": [], "file": {"sha256": "0" * 64, "folders": 1}},
        {"tree": {"origin": "rumour", "switches": {}}},
        {"tree": {"origin": "slurm", "switches": {"a": {"parent": "b", "nodes": []}}}},
    ],
)
def test_what_is_wrong_is_refused(changes):
    row = {**MAP.as_dict(), **changes}
    with pytest.raises(BadInput):
        read_pair_map({name: value for name, value in row.items() if value is not None}, "case 1")
