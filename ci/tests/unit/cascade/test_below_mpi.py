"""Which network carried a launch, and maps of the wire from the records of their ends."""

import json
import zlib
from pathlib import Path
from types import MappingProxyType

import pytest

from mpibench.locate.answers import judge_map
from reframe_tests.harness.cases.cascade import below_mpi
from reframe_tests.harness.cases.cascade.below_mpi import (
    MapStep,
    find_lacking,
    make_launch,
    read_map,
)
from reframe_tests.harness.instruments import schedule
from reframe_tests.harness.instruments.pairs.pair_values import PairMap
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.samples import CONTRADICTED, MISSING
from reframe_tests.harness.suites import catalogue, pair
from reframe_tests.harness.suites.benchmark import Limits
from reframe_tests.harness.suites.pair import Exchanged
from synthetic_evidence import QUIET, end

#: A link of which the kernel knows the rate.
ETH = Fabric("eth1g", "tcp", "cluster", (Rail("eth1g", 1.0),), 1500)
MOVED = Exchanged(10_000_000, 0, 10)
WORDS = ("program", "-p", "{port}", "{address}")
#: What a healthy link counts: payload and headers one way, acknowledgements the other.
HEALTHY = {"server": {"rx": 10_460_000, "tx": 230_000}, "client": {"rx": 230_000, "tx": 10_460_000}}


def both(which, changes):
    """A healthy launch, with something of one end changed."""
    rows = {name: {**HEALTHY[name], **(changes if name == which else {})} for name in pair.ENDS}
    return pair.read(
        "".join(end(name, WORDS, "", **row) for name, row in rows.items()), "program", "it"
    )


OTHER = {"others": {**QUIET, "eth10g": 5_000_000}}


@pytest.mark.parametrize(
    ("which", "changes", "said"),
    [
        ("server", OTHER, "asked for eth1g (eth1g), but eth10g of c1 also carried 5.0 MB."),
        ("client", OTHER, "asked for eth1g (eth1g), but eth10g of c2 also carried 5.0 MB."),
        ("server", {"rx": 20_000_000}, "somebody else used the link: eth1g of c1 received 20 MB"),
        ("client", {"tx": 20_000_000}, "somebody else used the link: eth1g of c2 sent 20 MB"),
        ("client", {"rx": 20_000_000}, "somebody else used the link: eth1g of c2 received 20 MB"),
        ("client", {"host": "c1"}, "server and client both ran on c1, so nothing went over eth1g."),
    ],
)
def test_what_the_two_did_not_send_over_the_fabric_is_said(which, changes, said):
    ends = both(which, changes)
    [sentence] = [*below_mpi.judge_links(ends, ETH), *below_mpi.judge_bytes(ends, MOVED, ETH)]
    assert sentence.startswith(said)


RECORDED = (
    Path(__file__).parents[2] / "data" / "golden" / "iperf3-3.12-two-nodes-tcp.txt"
).read_text()
GROUP = catalogue.PAIRS["wire_tcp"]
SIZE = 131072
LAUNCH = make_launch(GROUP.mapped.plan, "wire_tcp", ETH, SIZE, "smoke", Limits(1.0, None))
NODES = 4
STEPS = tuple(
    MapStep(1, number, phase, tuple(pairs if phase == 1 else [pair[::-1] for pair in pairs]))
    for number, pairs in enumerate(schedule.circle_rounds(NODES), 1)
    for phase in (1, 2)
)


def write(folder, changes=MappingProxyType({})):
    """The records of a job whose first node is c1.

    :param changes: host and end (``server``, ``client``) to what is different
        of all its records; ``None``: it left none.
    """
    for step in STEPS:
        (folder / step.folder).mkdir(parents=True)
        for server, client in step.pairs:
            lines = RECORDED.splitlines()
            for title, line in zip(lines[::3], lines[1::3], strict=True):
                which = title.split()[1]
                content = json.loads(line)
                content["host"] = f"c{(server if which == 'server' else client) + 1}.cluster"
                # which the recording of before there were such lacks
                for look in ("before", "after"):
                    content[look]["others"] = {"mgmt": {"rx_bytes": 900, "tx_bytes": 100}}
                end_of_host = (content["host"].partition(".")[0], which)
                change = changes.get(end_of_host, lambda row: None)
                if change is not None:
                    change(content)
                    said = f"{title}\n{json.dumps(content, sort_keys=True)}\n"
                    path = folder / step.folder / f"{server}-{client}.{which}"
                    path.write_text(f"{said}# end: CRC-32 {zlib.crc32(said.encode()):08x}\n")


def read(folder):
    return read_map(folder, STEPS, NODES, LAUNCH, GROUP, ETH, ["c1", "c2", "c3", "c4"])


def stored(found):
    return PairMap("all", 1, len(STEPS) // 2, found.hosts, found.silent, found.values(SIZE))


def test_a_cable_that_came_up_slow_is_in_the_map_and_said_once(tmp_path):
    """Its bytes went over the fabric, so that what it reached counts;
    that it is not as the site says fails the case.
    """

    def slow(content):
        for look in ("before", "after"):
            content[look]["link"]["speed"] = "250"

    write(tmp_path, {("c3", which): slow for which in pair.ENDS})
    found = read(tmp_path)
    assert {status for status, _ in found.findings} == {CONTRADICTED}
    [said] = [
        sentence
        for _, sentence in found.findings
        if "c3.cluster came up at 0.25 Gbit/s" in sentence
    ]
    assert " and 1 more: " in said, "six pairs and directions, of which five are named"
    assert all(one.counted and one.value for one in found.values(SIZE))


def test_a_node_without_the_program_does_not_hide_the_others(tmp_path):
    def absent(content):
        for name in content.keys() - {"end", "host", "interface", "before", "after"}:
            content.pop(name)
        content["failed"] = "there is no program iperf3 on PATH"

    write(tmp_path, {("c2", which): absent for which in pair.ENDS})
    found = read(tmp_path)
    assert find_lacking(tmp_path) == {"c2.cluster": "iperf3"}
    assert {status for status, _ in found.findings} == {MISSING} and found.silent == {
        "c2": "left no record"
    }
    whole = [(one.source, one.target) for one in found.values(SIZE) if one.value is not None]
    assert len(whole) == 6 and not any("c2" in pair for pair in whole)


def test_what_went_elsewhere_is_not_used(tmp_path):
    def other(content):
        content["after"]["counters"] = dict(content["before"]["counters"])

    write(tmp_path, {("c1", "client"): other})
    found = read(tmp_path)
    [(status, sentence)] = [row for row in found.findings if "it used another network" in row[1]]
    assert status == CONTRADICTED and sentence.startswith("c1 to c")
    assert {one.source for one in found.values(SIZE) if one.counted is False} == {"c1"}
    assert any("did not count the bytes" in said for said in judge_map(stored(found)).inconclusive)


def test_a_job_that_ended_early_says_how_far_it_got(tmp_path):
    write(tmp_path)
    for step in STEPS[2:]:
        for path in (tmp_path / step.folder).iterdir():
            path.unlink()
        (tmp_path / step.folder).rmdir()
    found = read(tmp_path)
    assert found.findings == [(MISSING, "2 of 6 steps started: the job ended early, or gave up.")]
    assert len([one for one in found.values(SIZE) if one.value is not None]) == 4


def test_a_node_that_died_is_named_as_the_scheduler_has_it(tmp_path):
    write(tmp_path, {("c4", which): None for which in pair.ENDS})
    found = read(tmp_path)
    assert found.silent == {"c4": "left no record"} and found.seen == ["c1", "c2", "c3"]
    assert found.hosts == ("c1", "c2", "c3", "c4")
    # what was not measured is not known
    assert {one.counted for one in found.values(SIZE) if one.value is None} == {None}
    assert judge_map(stored(found)).evident == {"c4": "c4: stopped answering (left no record)"}
