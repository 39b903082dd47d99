"""Published curves beside measured ones: which are chosen, how they are
divided, and that none is taken for a measurement.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hostile_pages import hostile_report
from mpibench.pages import session as report
from mpibench.store import sessions
from mpibench_tune import published
from page_reader import Reader
from published_session import SOURCE, chosen, eth1g_case, published_session
from reframe_tests.harness.vocabulary import BadInput
from synthetic_report import HOSTILE, changed, session_of


@pytest.fixture
def session() -> sessions.Session:
    return published_session()


def test_curves_of_a_data_set_are_its_tables() -> None:
    curves = published.curves(SOURCE, "eth1g")
    assert [(one.benchmark, one.quantity, len(one.points)) for one in curves] == [
        ("PingPong", "latency_us", 24),
        ("PingPong", "bandwidth_mb_per_s", 24),
        ("PingPong", "message_rate_per_s", 24),
        ("osu_put_bw", "bandwidth_mb_per_s", 23),
    ]
    assert curves[1].points[4194304] == "115.62"
    assert {(one.nodes, one.ppn, one.fabric) for one in curves} == {(2, 1, "eth1g")}
    many = [one for one in published.curves("ibm-p5-575/ib4x", "ib") if one.benchmark == "Biband"]
    assert len({(one.title, one.ppn) for one in many}) == 12, "links and tasks make another"


def test_ratio_is_median_over_published_and_nothing_is_divided_by_zero(
    session: sessions.Session,
) -> None:
    latency, bandwidth, rate, put = chosen(session)
    twice, half = published.beside(session, latency)
    assert (twice.case.stack, half.case.stack) == ("intelmpi-wheels", "mpich-wheels")
    assert set(twice.ratios.values()) == {2.0} and set(half.ratios.values()) == {0.5}
    assert twice.measured[0] == pytest.approx(2 * 49.81)
    # 0.00 MB/s at 0 bytes divides nothing, and measured 0.00 are too few digits for a ratio.
    assert 0 not in published.beside(session, bandwidth)[0].ratios
    assert published.beside(session_of(eth1g_case(0.0)), bandwidth) == []
    assert published.beside(session, rate) == published.beside(session, put) == []


@pytest.mark.parametrize("verdict", ["contradicted", "missing"])
def test_only_proven_curves_stand_beside(verdict: str) -> None:
    session = session_of(eth1g_case(verdict=verdict, reason="wrong network", end="sanity"))
    assert [published.beside(session, curve) for curve in chosen(session)] == [[]] * 4


@pytest.mark.parametrize(("key", "value"), [("nodes", 4), ("fabric", "eth10g"), ("ppn", 2)])
def test_another_condition_is_not_compared(key: str, value: object) -> None:
    plan = eth1g_case()
    other = {**plan, key: value, "condition": {**plan["condition"], key: value}}
    other["ppn_symbol"] = "2" if key == "ppn" else "1"
    session = session_of(plan, other)
    assert [len(published.beside(session, curve)) for curve in chosen(session)] == [1, 1, 0, 0]


def test_the_site_says_what_a_fabric_stands_beside(session: sessions.Session) -> None:
    assert published.choose(session) == [], "its system is not described here"
    cases = tuple(changed(case, system="minicluster") for case in session.cases)
    there = sessions.Session(session.info, cases)
    assert published.choose(there) == chosen(session), (
        "each data set once, whatever the number of partitions"
    )
    [other, *_] = published.choose(there, ["eth1g=openhpc-mini/opa100"])
    assert other.source == "openhpc-mini/opa100", "the command line wins"


@pytest.mark.parametrize(
    "given", ["eth1g=openhpc-mini/eth10g", "eth1g=openhpc-mini", "eth1g=no/eth1g", f"eth2={SOURCE}"]
)
def test_a_choice_of_nothing_is_refused(session: sessions.Session, given: str) -> None:
    with pytest.raises(BadInput):
        published.choose(session, [given])


def test_published_figures_change_nothing_but_what_is_shown(
    session: sessions.Session, tmp_path: Path
) -> None:
    """Every ratio is there without a script."""
    pages = [
        report.render(report.View(session, tmp_path, (), curves))
        for curves in (chosen(session), ())
    ]
    facts = [json.loads(re.search(r'id="index">(.*?)</script>', page)[1]) for page in pages]
    drawn = [[one.pop("published") for one in found["measures"]] for found in facts]
    assert facts[0] == facts[1] and [len(one) for one in drawn[0]] == [3] and drawn[1] == [[]]
    table = pages[0].partition('<section id="published">')[2].partition("</section>")[0]
    assert "they carry no proof" in table and ">115.62<" in table, "as printed"
    assert table.count(">2.000<") == table.count(">0.500<") == 24 + 23
    assert "osu_put_bw bandwidth" in table.partition("not measured here")[2]
    assert 'id="published"' not in pages[1]


def test_the_terminal_says_the_range(session: sessions.Session) -> None:
    [first, *_] = published.beside_lines(session, chosen(session))
    assert "PingPong latency is 2.00 to 2.00 times that of openhpc-mini/eth1g (24 sizes)" in first


def test_the_section_shows_hostile_names(tmp_path: Path) -> None:
    assert HOSTILE in Reader(hostile_report(tmp_path)).text["published"]
