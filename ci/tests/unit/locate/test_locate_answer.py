"""Sentences, exit statuses and records of ``mpibench locate`` on maps with known faults, and bad input."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from mpibench import cli
from mpibench.locate import answers
from mpibench.locate.findings import Answer
from mpibench.locate.maps import Places
from mpibench.store import dataset
from mpibench.store.sessions import Session
from mpibench.store.store import Store
from reframe_tests.harness.cases.pair_map import map_judgement
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY, MEAN, PairMap
from reframe_tests.harness.machine.switches import YAML, Switch, SwitchTree
from reframe_tests.harness.vocabulary import ROOT
from synthetic_pair_map import across, late, names, of_one_node, pair_map, sends_slowly, session_of


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Exit status and output of the command on a session."""

    def run(session, *options: str) -> tuple[int, str]:
        dataset.export_session(session, tmp_path / "set")
        monkeypatch.setattr(Store, "session", lambda store, named: session)
        status = cli.main(["locate", "--session=0123", "--dataset-only", "--dataset", str(tmp_path / "set"), *options])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def test_a_node_that_sends_slowly(ask) -> None:
    status, said = ask(session_of(pair_map(8, sends_slowly("c5", 4.0))))
    assert status == 1
    assert said.startswith(
        "minicluster, session 0123abcd, mpich-wheels on eth100m, eth100m: 1 suspect is accused among 8 nodes (in"
    )
    assert (
        "\n  c5 sends at 22 % of line rate to all 7 partners, receives normally: its transmit side (cable, port, driver)\n"
        in said
    )
    (line,) = [line for line in said.splitlines() if "scontrol" in line]
    assert shlex.split(line)[:4] == ["scontrol", "update", "nodename=c5", "state=drain"]
    assert shlex.split(line)[4].startswith("reason=mpibench 0123abcd: c5 sends at 22 % of line rate to all 7")


def test_a_gpu_of_a_node_that_sends_slowly(ask) -> None:
    status, said = ask(session_of(of_one_node(pair_map(8, sends_slowly("c4", 4.0)))))
    assert status == 1 and "1 suspect is accused among 8 GPUs (in" in said
    assert "\n  n1:gpu3 sends at 22 % of line rate to all 7 partners, receives normally: the GPUs' links (NVLink" in said
    (line,) = [line for line in said.splitlines() if "scontrol" in line]
    assert shlex.split(line)[2] == "nodename=n1" and "each pair with each of 8 GPUs" in said
    slow, other = sends_slowly("c4", 4.0), sends_slowly("c6", 3.0)
    both = of_one_node(pair_map(8, lambda *pair: max(slow(*pair), other(*pair))))
    status, said = ask(session_of(both))
    assert "n1:gpu3 sends" in said and "n1:gpu5 sends" in said and said.count("scontrol update nodename=n1 ") == 1


def test_errors_of_its_nodes_links_are_said_of_a_gpu(ask) -> None:
    counted = {"node": "n1", "link": "mlx5_0:1", "counter": "symbol_error", "new": 7, "reported": True}
    measured = of_one_node(pair_map(8, sends_slowly("c4", 4.0)))
    (case,) = (session := session_of(measured)).cases
    assert case.proof is not None
    case = replace(case, proof=replace(case.proof, link_errors=(counted,)))
    assert "its mlx5_0:1 counted 7 " in ask(replace(session, cases=(case,)))[1]


#: Links between the dies of a node of MI250X that are not of one module; the others have one between them, or none.
TWO_LINKS = ("c1c7", "c2c8", "c3c5", "c4c6")


@pytest.mark.parametrize("seed", range(4))
def test_dies_that_are_joined_by_more_or_fewer_links_are_not_accused(ask, seed: int) -> None:
    modules = {node: place // 2 for place, node in enumerate(names(8))}

    def unequal(quantity: str, source: str, target: str, round_: int) -> float:
        few = 2.0 if "".join(sorted((source, target))) in TWO_LINKS else 4.0
        return 1.0 if quantity != BANDWIDTH or modules[source] == modules[target] else few

    status, said = ask(session_of(of_one_node(pair_map(8, unequal, orders=4, seed=seed))))
    assert status in (0, 3) and "nobody is accused among 8 GPUs" in said, said


def test_the_latest_is_the_newest_with_a_map_of_that_system(tmp_path: Path, monkeypatch, capsys) -> None:
    """What its advice measures next, without a map, would else be what it looks at."""
    mapped, bare = session_of(pair_map(8, sends_slowly("c5", 4.0))), session_of(None)
    other = [replace(case, entry={**case.entry, "system": "other"}) for case in mapped.cases]
    stored: dict[str, Session] = {}
    for uuid, began, cases in (("0123abcd", 1.0, mapped.cases), ("ffff0000", 9.0, bare.cases), ("eeee0000", 9.0, tuple(other))):
        stored[f"{uuid}-0000"] = Session({**mapped.info, "uuid": f"{uuid}-0000", "time_start_unix": began}, cases)
        dataset.export_session(stored[f"{uuid}-0000"], tmp_path)
    monkeypatch.setattr(Store, "session", lambda store, named: stored[named])
    words = ["locate", "--dataset-only", "--dataset", str(tmp_path), "--system"]
    for system, uuid in (("minicluster", "0123abcd"), ("other", "eeee0000")):
        cli.main([*words, system])
        assert capsys.readouterr().out.startswith(f"{system}, session {uuid}")


def rank(node: str, cpus: str, boot_id: str | None = "b") -> dict[str, object]:
    return {"rank": int(node[1:]), "host": f"{node}.cluster", "cpus_allowed": cpus, "boot_id": boot_id}


@pytest.mark.parametrize(
    ("ranks", "at_once", "shared"),
    [
        ([rank("c1", "0"), rank("c2", "1"), rank("c3", "0"), rank("c4", "1")], 2, "the ranks of c1, c3 share core 0 of one"),
        ([rank("c1", "0"), rank("c2", "1"), rank("c3", "1")], math.inf, "the ranks of c2, c3 share core 1 of one machine"),
        ([rank(f"c{number}", "0-1") for number in range(1, 9)], 2, ""),
        ([rank(f"c{number}", "0-1") for number in range(1, 9)], math.inf, "share cores 0-1 of one machine"),
        ([rank("c1", "0-3"), rank("c2", "1"), rank("c3", "2")], math.inf, ""),
        ([rank(f"c{number}", "0", f"boot {number}") for number in range(1, 5)], math.inf, ""),
        ([rank(f"c{number}", "0", None) for number in range(1, 5)], math.inf, ""),
    ],
    ids=["pinned", "two", "one pair at a time", "all at once", "room", "machines", "unknown"],
)
def test_ranks_share_cores_on_one_machine_only(ranks: list[dict[str, object]], at_once: float, shared: str) -> None:
    found = map_judgement.find_shared(ranks, at_once)
    assert shared in found and bool(shared) == bool(found)


def test_latency_of_ranks_that_share_a_core_accuses_nobody(ask) -> None:
    def slow(quantity: str, source: str, target: str, round_: int) -> float:
        return 80.0 if quantity != BANDWIDTH and {source, target} == {"c2", "c4"} else 1.0

    shared = "the ranks of c2, c4 share core 1 of one machine"
    status, said = ask(session_of(pair_map(4, slow, orders=10)))
    assert status == 1 and "c2 and c4" in said
    status, said = ask(session_of(replace(pair_map(4, slow, orders=10), shared_cores=shared)))
    assert status == 0 and "nobody is accused" in said and f"latency was not judged: {shared}" in said, said
    both = pair_map(4, lambda *of: slow(*of) * sends_slowly("c3", 4.0)(*of), orders=10)
    status, said = ask(session_of(replace(both, shared_cores=shared)))
    assert status == 1 and "c3 sends at 2" in said and "c2 and c4" not in said


def test_a_node_with_latency(ask) -> None:
    status, said = ask(session_of(pair_map(8, late("c3", 1.36))))
    assert status == 1
    assert "\n  c3: 18 us more latency in all 7 pairs: its CPU frequency or its NIC's interrupt settings\n" in said.replace(
        "19 us", "18 us"
    )


def test_one_direction_between_two_leaves(ask) -> None:
    nodes = names(8)
    status, said = ask(session_of(pair_map(8, across((nodes[:4], nodes[4:]), 2.0))))
    assert status == 1
    assert "\n  all 16 pairs from leaf1 to leaf2 at 4" in said and "% of line rate: the uplink\n" in said
    assert "scontrol" not in said


def test_both_directions_of_the_only_uplink_are_inconclusive_until_it_is_said_what_it_should_carry(ask) -> None:
    nodes = names(8)
    one, other = across((nodes[:4], nodes[4:]), 2.0), across((nodes[4:], nodes[:4]), 2.0)
    session = session_of(pair_map(8, lambda *pair: max(one(*pair), other(*pair))))
    status, said = ask(session)
    assert status == 3
    assert (
        "inconclusive: bandwidth: pairs across switches reach 50 % of those below one switch: the uplink is slow, or overs"
        in said
    )
    assert ask(session, "--oversubscribed")[0] == 0
    status, said = ask(session, "--full-rate")
    assert status == 1
    assert "\n  all 16 pairs across leaf1-leaf2 at " in said and ": the uplink\n" in said


@pytest.mark.parametrize("noise", [0.005, 0.02])
def test_a_slow_uplink_that_carries_one_message_as_well_as_a_good_one(ask, noise: float) -> None:
    """Rounds in which all pairs cross it are slow as a whole, which once was taken for what came and went for all."""
    slow = pair_map(8, uplink=1.0, noise=noise)
    status, said = ask(session_of(slow))
    assert status == 3
    assert "with 3 on an uplink at once reach 3" in said and "the uplink is slow, or oversubscribed by design: say" in said
    for known in ((session_of(slow), "--full-rate"), (session_of(replace(slow, oversubscription=1.0)),)):
        status, said = ask(*known)
        assert status == 1 and "1 suspect is accused" in said
        assert " pairs across leaf1-leaf2 with 2 or more at once at 4" in said and "% of line rate: the uplink\n" in said
    assert ask(session_of(replace(slow, oversubscription=4.0)))[0] == 0


def test_a_healthy_uplink_of_a_site_that_says_its_rate(ask) -> None:
    assert ask(session_of(pair_map(8, oversubscription=1.0)))[0] == 0


def test_a_node_that_stands_still_now_and_then_shows_in_the_mean_only(ask) -> None:
    status, said = ask(session_of(pair_map(8, late("c3", 4.0, (MEAN,)))))
    assert status == 1
    assert "us more mean latency in all 7 pairs: it stands still now and then: a quota of its processor, other pro" in said
    assert "us more latency" not in said


def test_what_latency_and_mean_both_show_is_said_once(ask) -> None:
    _, said = ask(session_of(pair_map(8, late("c3", 4.0))))
    assert "1 suspect is accused" in said and "more mean latency" not in said.split("note:")[0]


def test_one_node_that_two_quantities_accuse_is_one_suspect(ask) -> None:
    """As a link at a quarter of its rate, on which messages of 8 bytes now and then wait as well."""
    sends, stands = sends_slowly("c3", 4.0), late("c3", 4.0, (MEAN,))
    _, said = ask(session_of(pair_map(8, lambda *where: sends(*where) * stands(*where))))
    assert "  c3 sends at " in said and "  c3: " in said, "two sentences"
    assert ": 1 suspect is accused among 8 nodes" in said


def test_a_busy_machine_is_no_reason_to_decide_nothing(ask) -> None:
    """Ranks that wait for a core take milliseconds: 4 of 10 latencies one way, as on two cores beside four other programs."""
    busy = np.random.default_rng(7)
    times = lambda quantity, source, target, round_: 100.0 if quantity == LATENCY and busy.random() < 0.4 else 1.0  # noqa: E731
    status, said = ask(session_of(pair_map(8, times)))
    assert status == 0, said
    assert "more latency in every measurement would be accused" in said


def test_means_too_noisy_to_judge_are_a_note(ask) -> None:
    busy = np.random.default_rng(7)
    times = lambda quantity, source, target, round_: 100.0 if quantity == MEAN and busy.random() < 0.6 else 1.0  # noqa: E731
    status, said = ask(session_of(pair_map(8, times)))
    assert status == 0, said
    assert "note: mean latency: " in said and "are too few to accuse a node" in said


def test_two_faults_at_once(ask) -> None:
    sends, slow = sends_slowly("c2", 3.0), late("c7", 2.0)
    status, said = ask(session_of(pair_map(8, lambda *pair: max(sends(*pair), slow(*pair)))))
    assert status == 1 and "2 suspects are accused" in said
    assert "  c2 sends at " in said and "  c7: " in said and "more latency in all 7 pairs" in said


def test_a_healthy_map(ask) -> None:
    status, said = ask(session_of(pair_map(8)))
    assert status == 0, said
    assert ": nobody is accused among 8 nodes (innocents expected per run: at most 0.05)\n" in said
    assert "note: a node with 7 % less bandwidth in every measurement would be accused (noise here: " in said


def test_a_fabric_that_is_slow_everywhere_is_said_and_nobody_accused(ask) -> None:
    status, said = ask(session_of(pair_map(8, lambda quantity, *rest: 4.0 if quantity == BANDWIDTH else 1.0)))
    assert status == 0 and "nobody is accused" in said
    assert "note: also pairs that are not slow reach 22 % of line rate only" in said
    assert "of line rate only" not in ask(session_of(pair_map(8)))[1]


def test_how_to_measure_an_accused_link_without_mpi_is_said(ask) -> None:
    """With a node below the same switch that nobody accuses; over TCP or RDMA, as the fabric is, or not where it is neither."""
    slow = pair_map(8, lambda *pair: max(sends_slowly("c5", 3.0)(*pair), sends_slowly("c6", 2.0)(*pair)))
    _, said = ask(session_of(slow, transport="tcp"))
    shown = said.partition("to measure their links without MPI:\n")[2].splitlines()
    begin = "    reframe -c reframe_tests/cascade.py -r -n WireTcp%fabric=eth100m --system=minicluster:eth100m -J nodelist="
    assert shown == [f"{begin}c5,c7", f"{begin}c6,c7"]
    assert "-n WireRdma%fabric=eth100m" in ask(session_of(slow, transport="verbs"))[1]
    assert "without MPI" not in ask(session_of(slow))[1]
    assert "without MPI" not in ask(session_of(pair_map(8), transport="tcp"))[1]


def test_tests_without_mpi_are_there() -> None:
    known = (ROOT / "reframe_tests" / "cascade.py").read_text()
    for group, name in answers.WIRES.items():
        assert re.search(rf'class {name}\(PairTest\):\n    """.*"""\n\n    group = "{group}"\n', known)


def test_facts_stand_beside_an_accused_node(ask) -> None:
    links = [{"node": node, "link": "eth1", "pcie_width": 8 if node == "c5" else 16, "mtu_bytes": 1500} for node in names(8)]
    _, said = ask(session_of(pair_map(8, sends_slowly("c5", 4.0)), links=links))
    assert "(cable, port, driver); its PCIe lanes of eth1 is 8, 7 of 7 others have 16\n" in said


def test_a_link_that_is_set_otherwise_is_named_whatever_it_reaches(ask) -> None:
    links = [{"node": node, "link": "eth1", "mtu_bytes": 1400 if node == "c2" else 1500} for node in names(8)]
    status, said = ask(session_of(pair_map(8), links=links, status="contradicted", result="fail"))
    assert status == 1
    assert "\n  c2: its MTU of eth1 is 1400, 7 of 8 nodes have 1500\n" in said
    assert "inconclusive: the case has no proof of its condition" in said


def test_a_node_that_dies_is_named_and_the_rest_is_used(ask) -> None:
    silent = {"c7": "no answer for 20 s in round 9"}
    status, said = ask(session_of(pair_map(8, sends_slowly("c2", 2.0), silent=silent), status="missing", result="fail"))
    assert status == 1
    assert "\n  c7: stopped answering (no answer for 20 s in round 9)\n" in said and "c2 sends at" in said
    assert "nodename=c7" in said


def test_two_nodes(ask) -> None:
    status, said = ask(session_of(pair_map(2, leaf=None)))
    assert status == 3
    assert "of two nodes there is one pair, and nothing to hold it against: measure three nodes or more" in said


def test_two_nodes_that_met_once(ask) -> None:
    status, said = ask(session_of(pair_map(2, leaf=None, orders=1)))
    assert status == 3 and "of two nodes there is one pair" in said


def test_an_odd_number(ask) -> None:
    status, said = ask(session_of(pair_map(7, sends_slowly("c7", 2.0))))
    assert status == 1 and "c7 sends at 4" in said and "to all 6 partners" in said


def test_pairs_that_are_missing_are_no_green(ask) -> None:
    whole = pair_map(8)
    part = replace(
        whole,
        values=tuple(row._replace(value=None) if row.source == "c1" and row.target == "c2" else row for row in whole.values),
    )
    status, said = ask(session_of(part))
    assert status == 3 and "inconclusive: 1 pairs were to be measured and were not: c1-c2" in said
    uncounted = replace(whole, values=tuple(row._replace(counted=row.source != "c1") for row in whole.values))
    status, said = ask(session_of(uncounted))
    assert status == 3 and "did not count the bytes that were sent on the fabric" in said


def test_switches_that_contradict_the_host_names(ask) -> None:
    tree = SwitchTree(YAML, {"leaf1": Switch(None, ("node1", "node2"))})
    status, said = ask(session_of(replace(pair_map(8), tree=tree)))
    assert status == 3
    assert "have none of the nodes that were measured, but node1, node2" in said and "contradict the host names" in said


def two_kinds(count: int) -> PairMap:
    old = set(names(count)[:6])
    return pair_map(
        count, lambda quantity, source, target, round_: 2.0 if quantity == BANDWIDTH and {source, target} & old else 1.0
    )


def test_nodes_of_two_kinds_are_guessed_and_not_accused(ask) -> None:
    session = session_of(replace(two_kinds(16), tree=None))
    status, said = ask(session)
    assert status == 3, said
    assert "6 of 16 nodes (c1, c2, c3, c4, c5, c6) are alike and slower in all pairs" in said
    status, said = ask(session, *(word for number in range(1, 7) for word in ("--kind", f"old=c{number}")))
    assert status == 0, said
    assert ask(session, "--kind", "old=x*")[0] == 2


def test_groups_are_guessed_and_said_to_be_a_guess(ask) -> None:
    nodes = names(12)
    group = {node: place // 4 for place, node in enumerate(nodes)}
    farther = pair_map(12, lambda quantity, source, target, round_: 1.0 if group[source] == group[target] else 1.2, leaf=None)
    status, said = ask(session_of(farther))
    assert status == 0, said
    assert "a guess from the map: 3 groups of nodes (group1 = c1, c2, c3, c4; group2 = c5, c6, c7, c8; group3 = c9," in said


def test_two_groups_that_are_far_apart_are_inconclusive_without_a_description_as_well(ask) -> None:
    """Half of the rate between them is a slow uplink, or one that is meant to be: the groups were guessed by just that."""
    slow = pair_map(8, lambda quantity, source, target, round_: 2.0 if (source < "c5") != (target < "c5") else 1.0, leaf=None)
    status, said = ask(session_of(slow))
    assert status == 3, said
    assert "inconclusive: bandwidth: pairs across switches reach 50 % of those below one switch" in said
    assert ask(session_of(slow), "--oversubscribed")[0] == 0


def test_healthy_maps_without_a_description_have_no_groups(ask) -> None:
    """Of 8 nodes the four fastest pairs are always somewhere."""
    for seed in range(12):
        assert "guess from the map" not in ask(session_of(pair_map(8, leaf=None, seed=seed)))[1]


def test_records_say_the_same(ask, tmp_path: Path) -> None:
    junit, out = tmp_path / "locate.xml", tmp_path / "locate.html"
    status, said = ask(session_of(pair_map(8, sends_slowly("c5", 4.0))), "--json", "--junit", str(junit), "--out", str(out))
    assert status == 1
    (data,) = json.loads(said[: said.rindex("]") + 1][said.index("[") :])
    assert (data["status"], data["accused_nodes"], data["findings"][0]["way"]) == (1, ["c5"], "sends")
    assert 20 < data["findings"][0]["directions"][0]["percent_of_others"] < 30
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("9", "1", "0")
    (failure,) = suite.iter("failure")
    assert failure.get("message", "").startswith("c5 sends at 22 % of line rate")
    page = out.read_text()
    assert "c5 sends at 22 % of line rate" in page and "Plotly.react" in page


def test_a_session_without_a_map_is_bad_input(ask) -> None:
    status, said = ask(session_of(None))
    assert status == 2 and "holds no map of pairs; measure one with: reframe -c reframe_tests -r -n PairMap" in said


def test_bad_rates_and_margins(ask) -> None:
    session = session_of(pair_map(4))
    assert ask(session, "--rate", "0")[0] == 2
    assert ask(session, "--bandwidth-margin", "100")[0] == 2
    assert ask(session, "--latency-margin", "-1")[0] == 2


@pytest.mark.parametrize("name", ["c1;reboot", "-x", "c1 c2", "c[1-4]", "$(id)", ""])
def test_no_command_is_printed_for_what_is_no_node_name(name: str) -> None:
    (line,) = Answer((), Places({}), (), evident={name: "x"}).drain("0123")
    assert line.startswith("# no command for ")


def test_a_reason_is_one_word_for_a_shell() -> None:
    said = {"c1": 'it\'s "bad"; rm -rf $HOME `id`\nand more'}
    (line,) = Answer((), Places({}), (), evident=said).drain("0123abcd")
    words = shlex.split(line)
    assert words[:4] == ["scontrol", "update", "nodename=c1", "state=drain"] and len(words) == 5
    assert not set("'\"$`\n;&|") & set(words[4].partition("mpibench")[2].replace(";", ""))
