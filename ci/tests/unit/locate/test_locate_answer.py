"""Sentences, exit statuses and records of ``mpibench locate`` on
maps with known faults, and bad input.
"""

import json
import math
import shlex
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from mpibench import cli
from mpibench.locate.findings import MapJudgement
from mpibench.locate.maps import Places
from mpibench.store import dataset
from mpibench.store.store import Store
from reframe_tests.harness.cases.pair_map import map_judgement
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH
from reframe_tests.harness.machine.switches import YAML, Switch, SwitchTree
from synthetic_fabric import names, of_one_node, pair_map, sends_slowly, session_of


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    """Exit status and output of the command on a session."""

    def run(session, *options):
        dataset.export_session(session, tmp_path / "set")
        monkeypatch.setattr(Store, "session", lambda store, named: session)
        where = ["--session=0123", "--dataset-only", "--dataset", str(tmp_path / "set")]
        status = cli.main(["locate", *where, *options])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def test_a_gpu_of_a_node_that_sends_slowly(ask):
    slow = sends_slowly("c4", 4.0)
    other = sends_slowly("c6", 3.0)
    both = of_one_node(pair_map(8, lambda *pair: max(slow(*pair), other(*pair))))
    status, said = ask(session_of(both))
    assert status == 1 and "2 suspects flagged among 8 GPUs" in said
    assert "n1:gpu3 sends" in said and "n1:gpu5 sends" in said
    assert said.count("scontrol update nodename=n1 ") == 1


def ranks(*cpus, boots=1, known=True):
    """Ranks of nodes by the cores they may use, on as many machines as there are boots."""
    found = []
    for number, one in enumerate(cpus, 1):
        boot = f"boot {number % boots}" if known else None
        row = {"rank": number, "host": f"c{number}.cluster", "cpus_allowed": one, "boot_id": boot}
        found.append(row)
    return found


@pytest.mark.parametrize(
    ("ranks", "at_once", "shared"),
    [
        (ranks("0", "1", "0", "1"), 2, "the ranks of c1, c3 share core 0 of one"),
        (ranks(*["0-1"] * 8), 2, ""),
        (ranks(*["0-1"] * 8), math.inf, "share cores 0-1 of one machine"),
        (ranks("0-3", "1", "2"), math.inf, ""),
        (ranks(*["0"] * 4, boots=4), math.inf, ""),
        (ranks(*["0"] * 4, known=False), math.inf, ""),
    ],
    ids=["pinned", "one pair at a time", "all at once", "room", "machines", "unknown"],
)
def test_ranks_share_cores_on_one_machine_only(ranks, at_once, shared):
    found = map_judgement.find_shared(ranks, at_once)
    assert shared in found and bool(shared) == bool(found)


def test_latency_of_ranks_that_share_a_core_flags_nothing(ask):
    def slow(quantity, source, target, round_):
        return 80.0 if quantity != BANDWIDTH and {source, target} == {"c2", "c4"} else 1.0

    status, said = ask(session_of(pair_map(4, slow, orders=10)))
    assert status == 1 and "c2 and c4" in said
    shared = "the ranks of c2, c4 share core 1 of one machine"
    both = pair_map(4, lambda *of: slow(*of) * sends_slowly("c3", 4.0)(*of), orders=10)
    status, said = ask(session_of(replace(both, shared_cores=shared)))
    assert f"latency was not judged: {shared}" in said, said
    assert status == 1 and "c3 sends at 2" in said and "c2 and c4" not in said


def test_both_directions_of_the_only_uplink_are_inconclusive_until_it_is_said_what_it_should_carry(
    ask,
):
    apart = lambda quantity, source, target, _: 2.0 if (source < "c5") != (target < "c5") else 1.0  # noqa: E731
    for leaf in (4, None):  # without a description the groups were guessed by just that
        session = session_of(pair_map(8, apart, leaf=leaf))
        status, said = ask(session)
        assert status == 3 and "pairs across switches reach 50 % of those below one" in said
        assert ask(session, "--oversubscribed")[0] == 0
    status, said = ask(session_of(pair_map(8, apart)), "--full-rate")
    assert status == 1 and "pairs across leaf1-leaf2 at " in said


def test_a_healthy_map_and_one_that_is_slow_everywhere_flag_nothing(ask):
    status, said = ask(session_of(pair_map(8)))
    assert status == 0 and "nothing flagged among 8 nodes" in said, said
    assert "a node with 7 % less bandwidth in every measurement would be flagged" in said
    assert "of line rate only" not in said
    slow = lambda quantity, *_: 4.0 if quantity == BANDWIDTH else 1.0  # noqa: E731
    status, said = ask(session_of(pair_map(8, slow)))
    assert status == 0 and "pairs that are not slow reach only 22 % of line rate" in said


def test_a_link_that_is_set_otherwise_is_named_whatever_it_reaches(ask):
    links = [
        {"node": node, "link": "eth1", "mtu_bytes": 1400 if node == "c2" else 1500}
        for node in names(8)
    ]
    status, said = ask(session_of(pair_map(8), links=links, status="contradicted", result="fail"))
    assert status == 1 and "c2: its MTU of eth1 is 1400, 7 of 8 nodes have 1500" in said
    assert "inconclusive: the case has no proven condition" in said


def test_switches_that_contradict_the_host_names(ask):
    tree = SwitchTree(YAML, {"leaf1": Switch(None, ("node1", "node2"))})
    status, said = ask(session_of(replace(pair_map(8), tree=tree)))
    assert status == 3 and "do not match the host names" in said


def test_nodes_of_two_kinds_are_guessed_and_not_flagged(ask):
    old = set(names(16)[:6])
    slow = lambda of, *ends: 2.0 if of == BANDWIDTH and old & {*ends[:2]} else 1.0  # noqa: E731
    session = session_of(replace(pair_map(16, slow), tree=None))
    status, said = ask(session)
    assert status == 3 and "6 of 16 nodes (c1, c2, c3, c4, c5, c6) are alike and slower" in said
    kinds = [word for node in sorted(old) for word in ("--kind", f"old={node}")]
    assert ask(session, *kinds)[0] == 0
    assert ask(session, "--kind", "old=x*")[0] == ask(session, "--rate", "0")[0] == 2


def test_records_say_the_same(ask, tmp_path):
    junit = tmp_path / "locate.xml"
    out = tmp_path / "locate.html"
    session = session_of(pair_map(8, sends_slowly("c5", 4.0)))
    status, said = ask(session, "--json", "--junit", str(junit), "--out", str(out))
    (data,) = json.loads(said[: said.rindex("]") + 1][said.index("[") :])
    [finding] = data["findings"]
    assert (status, data["status"], data["flagged_nodes"]) == (1, 1, ["c5"])
    assert finding["way"] == "sends" and 20 < finding["directions"][0]["percent_of_others"] < 30
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("9", "1", "0")
    page = out.read_text()
    assert "c5 sends at 22 % of line rate" in page and "Plotly.react" in page


@pytest.mark.parametrize("name", ["c1;reboot", "-x", "c[1-4]", ""])
def test_no_command_is_printed_for_what_is_no_node_name(name):
    (line,) = MapJudgement((), Places({}), (), evident={name: "x"}).drain("0123")
    assert line.startswith("# no command for ")


def test_a_reason_is_one_word_for_a_shell():
    said = {"c1": 'it\'s "bad"; rm -rf $HOME `id`\nand more'}
    (line,) = MapJudgement((), Places({}), (), evident=said).drain("0123abcd")
    words = shlex.split(line)
    assert words[:4] == ["scontrol", "update", "nodename=c1", "state=drain"] and len(words) == 5
    assert not set("'\"$`\n;&|") & set(words[4].partition("mpibench")[2].replace(";", ""))
