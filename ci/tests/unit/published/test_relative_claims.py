"""Claims as relative references: what each takes, how it is scaled, and that each can fail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import published_tables as papers
from mpibench.published import claims, relative_claims, session_claims
from mpibench.published.relative_claims import LinkedFabric, RelativeClaim
from mpibench.published.session_claims import SessionClaimAnswer
from reframe_tests.harness import yaml_file
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.sites import reference_keys, references, site
from reframe_tests.harness.suites.catalogue import GROUPS, OPTIONS, SUITES
from reframe_tests.harness.vocabulary import BadInput

PAPER_OF = {"openhpc-mini": papers.OPENHPC, "ibm-p5-575": papers.IBM, "opa-dual-rail": papers.OPA}
CLAIMS = [claim for paper in PAPER_OF for claim in relative_claims.read(paper)]
NAMES = {claim.name: claim for claim in CLAIMS}
every = pytest.mark.parametrize("name", NAMES)


def fabric(name: str, rails: int, *, striped: bool = False, adapters: int = 0, rate: float = 100.0) -> LinkedFabric:
    """A fabric of some rails; those of few adapters share them."""
    made = [Rail(f"hfi1_{n}", rate, adapter=f"card{n * adapters // rails}" if adapters else "") for n in range(rails)]
    return LinkedFabric("part", Fabric(name, "psm2", "cluster", tuple(made), striped=striped))


#: One, two and four rails, with two of them on an adapter; and two striped.
KNOWN = [fabric("f1", 1, adapters=1), fabric("f2", 2, adapters=1), fabric("f4", 4, adapters=2)]
KNOWN += [fabric("s2", 2, striped=True, adapters=1)]
NO_HALF = "no fabric has half as many rails of the same kind"
PLACE = {"stack": "mpi", "pinning": "default"}


def pairs(claim: RelativeClaim, known: list[LinkedFabric] = KNOWN) -> set[tuple[str, str]]:
    return {
        (over.fabric.name, other.fabric.name)
        for over in known
        if claim.fits(over.fabric)
        for other in claim.others(over, known)
    }


def first_pair(claim: RelativeClaim) -> tuple[LinkedFabric, LinkedFabric]:
    return next((over, other) for over in KNOWN if claim.fits(over.fabric) for other in claim.others(over, KNOWN))


def test_the_papers_are_found() -> None:
    assert set(relative_claims.papers()) == set(PAPER_OF)
    assert len(NAMES) == len(CLAIMS) == 14


@every
def test_a_relative_claim_quotes_its_sentence(name: str) -> None:
    assert NAMES[name].sentence in papers.blocks(PAPER_OF[NAMES[name].paper])["sentences"]


@pytest.mark.parametrize("paper", PAPER_OF)
def test_relative_claims_keep_to_the_schema(paper: str) -> None:
    rows = yaml_file.read(site.ROOT / "site_configs" / paper / "published" / "relative_claims.yaml")
    jsonschema.Draft202012Validator(json.loads(relative_claims.SCHEMA.read_text())).validate(rows)


@every
def test_every_relative_claim_can_fail(name: str) -> None:
    """Figures at a bound hold, figures beyond it do not."""
    claim = NAMES[name]
    over, other = first_pair(claim)
    concrete = claim.at(over, other, claim.sizes[-1], PLACE)
    under = 1000.0 if isinstance(concrete.under, Mapping) else concrete.under

    def outcome(ratio: float) -> str:
        rows = [{**concrete.over, "value": ratio * under}]
        rows += [{**concrete.under, "value": under}] if isinstance(concrete.under, Mapping) else []
        return claims.ask(concrete, rows).outcome

    bounds = [bound for bound in (concrete.at_least, concrete.at_most) if bound is not None]
    assert bounds
    if concrete.at_least is not None:
        assert outcome(concrete.at_least * 1.001) == claims.HOLDS
        assert outcome(concrete.at_least * 0.99) == claims.FAILS
    if concrete.at_most is not None:
        assert outcome(concrete.at_most * 0.999) == claims.HOLDS
        assert outcome(concrete.at_most * 1.01) == claims.FAILS


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("opa-dual-rail/uniband-32k", {("f1", "f1"), ("f2", "f2"), ("f4", "f4")}),
        ("opa-dual-rail/uniband-rank-a-rail", {("f2", "f2"), ("f4", "f4")}),
        ("opa-dual-rail/striped-rank", {("s2", "s2")}),
        ("opa-dual-rail/striped-rank-against-rank-a-rail", {("s2", "f2")}),
        ("opa-dual-rail/striped-rank-against-one-rail", {("s2", "f1")}),
        # Two rails striped are not used as two of four are.
        ("ibm-p5-575/unidirectional-links", {("f2", "f1"), ("f4", "f2"), ("s2", "f1")}),
        ("ibm-p5-575/exchange-one-adapter", {("f2", "f1"), ("s2", "f1")}),
        ("ibm-p5-575/exchange-two-adapters", {("f4", "f2")}),
        ("ibm-p5-575/exchange-above-unidirectional", {("f1", "f1"), ("f2", "f2"), ("f4", "f4"), ("s2", "s2")}),
    ],
)
def test_of_which_fabrics_a_claim_is_asked(name: str, wanted: set[tuple[str, str]]) -> None:
    assert pairs(NAMES[name]) == wanted


def test_rails_of_another_rate_or_transport_are_no_half() -> None:
    claim = NAMES["ibm-p5-575/unidirectional-links"]
    assert pairs(claim, [fabric("slow", 1, rate=50.0), fabric("f2", 2)]) == set()
    tcp = fabric("f1", 1)
    tcp = replace(tcp, fabric=replace(tcp.fabric, transport="tcp"))
    assert pairs(claim, [tcp, fabric("f2", 2)]) == set()
    elsewhere = replace(fabric("f2", 1), partition="small")
    assert pairs(claim, [elsewhere, fabric("f2", 2)]) == {("f2", "f2")}, "of one name on two partitions, as links1 and links2"
    assert pairs(claim, [replace(elsewhere, partition="small"), fabric("other", 2)]) == set()


@pytest.mark.parametrize(
    ("name", "known", "why"),
    [
        ("opa-dual-rail/uniband-32k", [], "no fabric between nodes has a line rate and one rail for each rank"),
        ("opa-dual-rail/striped-rank", KNOWN[:3], "no fabric has striped rails"),
        ("opa-dual-rail/uniband-rank-a-rail", KNOWN[:1], "no fabric has several rails of which each rank takes one"),
        ("opa-dual-rail/striped-rank-against-rank-a-rail", KNOWN[3:], "no fabric has the same rails not striped"),
        ("ibm-p5-575/unidirectional-links", KNOWN[:1], NO_HALF),
        (
            "ibm-p5-575/exchange-two-adapters",
            KNOWN[:2],
            "no fabric has half as many rails of the same kind on half as many adapters",
        ),
        (
            "ibm-p5-575/exchange-one-adapter",
            [fabric("a", 1), fabric("b", 2)],
            "the site does not say which rails share an adapter",
        ),
    ],
)
def test_why_a_claim_is_not_asked(name: str, known: list[LinkedFabric], why: str) -> None:
    assert pairs(NAMES[name], known) == set()
    assert NAMES[name].why_not_asked(known).startswith(why)


def test_line_rates_are_the_systems_own() -> None:
    """Rails, both ways at once, and what headers leave: 0.9415 of 1 Gbit/s with TCP at an MTU of 1500."""

    def under(name: str, over: LinkedFabric) -> float:
        found = NAMES[f"opa-dual-rail/{name}"].at(over, over, 1 << 20, PLACE).under
        assert isinstance(found, float)
        return found

    assert under("uniband-32k", KNOWN[1]) == 12500, "one rank uses one rail"
    assert under("biband-128k", KNOWN[0]) == 25000
    assert under("uniband-rank-a-rail", KNOWN[1]) == under("striped-rank", KNOWN[3]) == 25000
    assert under("biband-rank-a-rail", KNOWN[2]) == 100000
    ethernet = Fabric("eth1g", "tcp", "cluster", (Rail("eth1", 1.0),), mtu_bytes=1500)
    assert under("uniband-32k", LinkedFabric("part", ethernet)) == pytest.approx(117.69, abs=0.01)
    assert references.payload_limit(ethernet) == pytest.approx(0.9415, abs=1e-4)


def test_what_is_expected_of_rails_grows_with_them() -> None:
    found = NAMES["ibm-p5-575/unidirectional-links"].at(KNOWN[2], KNOWN[1], 1 << 21, PLACE)
    assert (found.at_least, found.at_most) == (1.9, 2.1)
    assert isinstance(found.under, Mapping)
    assert (found.over["ppn"], found.under["ppn"]) == (8, 4), "two ranks a link"
    once = NAMES["opa-dual-rail/striped-rank-against-one-rail"].at(KNOWN[3], KNOWN[0], 1 << 20, PLACE)
    assert isinstance(once.under, Mapping)
    assert (once.over["ppn"], once.under["ppn"], once.at_least) == (1, 1, 1.8)


def test_the_line_rate_may_be_exceeded_below_the_sizes_that_show_it() -> None:
    """A token bucket gives a short burst at once."""
    claim = NAMES["opa-dual-rail/uniband-32k"]
    assert claim.sizes == tuple(32768 << step for step in range(6)), "each size up to 1 MiB"
    assert claim.asks(1 << 22) and not claim.asks(16384) and not claim.asks(None)
    assert claim.at(KNOWN[0], KNOWN[0], 32768, PLACE).at_most is None
    assert claim.at(KNOWN[0], KNOWN[0], 1 << 20, PLACE).at_most == 1.03


@every
def test_each_command_measures_what_its_claim_takes(name: str) -> None:
    """Test, group, options and sizes exist, and both figures come from one session."""
    claim = NAMES[name]
    over, other = first_pair(claim)
    answer = SessionClaimAnswer(claim, over, other, "mpi-x", "default", session_claims.NOT_MEASURED)
    command = session_claims.command("sys", [answer])
    assert command.startswith("reframe -c reframe_tests -r -n ")
    words = command.split()
    tests = reference_keys.tests()
    measured = {tests[test] for test in words[words.index("-n") + 1].strip("'").split("|")}
    assert {side.row.group for side, _ in answer.sides} == measured
    ranks = {side.ranks_a_node(at.fabric) for side, at in answer.sides}
    assert f"-P ppn={','.join(map(str, sorted(ranks)))} -P pinning=default -p 'mpi-x$'" in command
    assert f"-P fabric={','.join(dict.fromkeys(at.fabric.name for _, at in answer.sides))} -P nodes=2 " in command
    assert "--system=sys:part " in command
    level = "acceptance" if command.endswith(" -S level=acceptance") else "nightly"
    for side, _ in answer.sides:
        row = side.row
        plans = [plan for plan in GROUPS[row.group].plans if plan.binary == row.binary and row.name in plan.benchmarks]
        ranges = [(plan, plan.size_ranges[level]) for plan in plans if level in plan.size_ranges]
        assert set(claim.sizes) <= {size for plan, each in ranges for size in SUITES[row.suite].sizes(row, plan, each)}
        for option, value in side.suite_options.items():
            assert value in OPTIONS[option].values and row.group in OPTIONS[option].groups


def test_the_variant_of_put_is_what_its_options_make() -> None:
    side = NAMES["openhpc-mini/put-bandwidth"].over
    row = OPTIONS["window"].change(side.row, side.suite_options["window"], 2)
    assert row is not None and row.variants == (side.variant,)
    assert side.suite_options["sync"] == OPTIONS["sync"].default


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- {id: x}\n", "see site_configs/relative_claims.schema.json"),
        ("{}\n", "see site_configs/relative_claims.schema.json"),
    ],
)
def test_a_file_that_breaks_the_schema_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "site_configs" / "paper" / "published" / "relative_claims.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(BadInput, match=why):
        relative_claims.read("paper", tmp_path)


@pytest.mark.parametrize(
    ("benchmark", "quantity", "why"),
    [
        ("Nothing", "bandwidth_mb_per_s", "has no benchmark called 'Nothing'"),
        ("Uniband", "latency_us", "Uniband of IMB-MPI1 does not measure latency_us"),
        ("Sendrecv", "bandwidth_mb_per_s", "Sendrecv says nothing about a line rate"),
    ],
)
def test_a_benchmark_that_cannot_answer_is_refused(tmp_path: Path, benchmark: str, quantity: str, why: str) -> None:
    path = tmp_path / "site_configs" / "paper" / "published" / "relative_claims.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "- {id: x, sentence: 'twenty letters or some more', section: s, fabrics: any, under: line_rate, sizes: {from: 1},\n"
        f"   over: {{program: IMB-MPI1, benchmark: {benchmark}, quantity: {quantity}, ppn: 1}},\n"
        "   at_least: 1, at_most: null, bounds: ours}\n"
    )
    with pytest.raises(BadInput, match=why):
        relative_claims.read("paper", tmp_path)
