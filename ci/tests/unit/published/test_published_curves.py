"""Published curves beside measured ones: which are chosen, how they are divided, and that none is taken for a measurement."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mpibench.pages import outcomes as report_summary
from mpibench.pages import published
from mpibench.pages import session as report
from mpibench.store import sessions
from published_session import SOURCE, chosen, eth1g_case, published_session
from reframe_tests.harness.sites import site
from synthetic_report import changed, refused, session_of


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
    assert curves[1].points[4194304] == "115.62" and curves[3].points[4194304] == "116.96"
    assert {(one.nodes, one.ppn, one.fabric) for one in curves} == {(2, 1, "eth1g")}


def test_links_and_tasks_make_a_curve_another() -> None:
    curves = published.curves("ibm-p5-575/ib4x", "ib")
    exchange = [one for one in curves if one.benchmark == "Biband"]
    assert len(exchange) == 12 and len({(one.title, one.ppn) for one in exchange}) == 12
    assert all(len(one.points) == 3 for one in exchange)


def test_ratio_is_median_over_published_and_nothing_is_divided_by_zero(session: sessions.Session) -> None:
    latency, bandwidth, rate, put = chosen(session)
    twice, half = published.beside(session, latency)
    assert (twice.case.stack, half.case.stack) == ("intelmpi-wheels", "mpich-wheels")
    assert set(twice.ratios.values()) == {2.0} and set(half.ratios.values()) == {0.5}
    assert twice.measured[0] == pytest.approx(2 * 49.81)
    # 0.00 MB/s at 0 bytes divides nothing, and measured 0.00 are too few digits for a ratio.
    assert 0 not in published.beside(session, bandwidth)[0].ratios
    assert published.beside(session_of(eth1g_case(0.0)), bandwidth) == []
    assert published.beside(session, rate) == published.beside(session, put) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "contradicted", "reason": "wrong network", "end": "sanity"},
        {"verdict": "missing", "reason": "no evidence", "end": "sanity"},
    ],
)
def test_only_proven_curves_stand_beside(changes: dict[str, Any]) -> None:
    session = session_of(eth1g_case(**changes))
    assert [published.beside(session, curve) for curve in chosen(session)] == [[]] * 4


@pytest.mark.parametrize(("key", "value"), [("nodes", 4), ("fabric", "eth10g"), ("ppn", 2)])
def test_another_condition_is_not_compared(key: str, value: object) -> None:
    plan = eth1g_case()
    other = {**plan, key: value, "ppn_symbol": "2" if key == "ppn" else "1", "condition": {**plan["condition"], key: value}}
    session = session_of(eth1g_case(), other)
    assert [len(published.beside(session, curve)) for curve in chosen(session)] == [1, 1, 0, 0]


def test_the_site_says_what_a_fabric_stands_beside(session: sessions.Session) -> None:
    described = site.read_system(site.ROOT / "site_configs" / "minicluster" / "system.py")
    declared = [row["extras"]["fabrics"]["eth1g"].get("published") for row in described["partitions"] if "eth1g" in row["name"]]
    assert declared == [[SOURCE]] * 2
    assert published.choose(session) == [], "its system is not described here"
    there = sessions.Session(session.info, tuple(changed(case, system="minicluster") for case in session.cases))
    assert published.choose(there) == chosen(session), "each data set once, whatever the number of partitions"
    [other, *_] = published.choose(there, ["eth1g=openhpc-mini/opa100"])
    assert other.source == "openhpc-mini/opa100", "the command line wins"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("eth1g=openhpc-mini/eth10g", "of openhpc-mini there are openhpc-mini/edr100"),
        ("eth1g=openhpc-mini", "names no published curve"),
        ("eth1g=nowhere/eth1g", "system 'nowhere' has no published data"),
        ("eth2=" + SOURCE, "the session has no fabric 'eth2'; it has eth1g"),
    ],
)
def test_a_choice_of_nothing_is_one_sentence(session: sessions.Session, given: str, wanted: str) -> None:
    refused(lambda: published.choose(session, [given]), wanted)


def test_the_page_has_every_ratio_without_a_script(session: sessions.Session, tmp_path: Path) -> None:
    page = report.render(report.View(session, tmp_path, (), chosen(session)))
    table = page.partition('<section id="published">')[2].partition("</section>")[0]
    assert "eth1g: PingPong latency beside openhpc-mini/eth1g" in table and "they carry no proof" in table
    assert len(re.findall(r">2\.000<", table)) == 24 + 23 and len(re.findall(r">0\.500<", table)) == 24 + 23
    assert ">115.62<" in table, "as printed"
    assert "osu_put_bw bandwidth" in table.partition("not measured here")[2]
    assert 'id="published"' not in report.render(report.View(session, tmp_path))


def test_published_figures_change_nothing_but_what_is_shown(session: sessions.Session, tmp_path: Path) -> None:
    def facts(page: str) -> dict[str, Any]:
        found = json.loads(re.search(r'id="index">(.*?)</script>', page)[1])
        drawn = [one.pop("published") for one in found["measures"]]
        return {"index": found, "published": drawn}

    with_them, without = (facts(report.render(report.View(session, tmp_path, (), curves))) for curves in (chosen(session), ()))
    assert with_them["index"] == without["index"]
    assert [len(one) for one in with_them["published"]] == [3] and without["published"] == [[]]
    assert report_summary.counts(session) == report_summary.counts(
        session_of(eth1g_case(2.0), eth1g_case(0.5, stack="mpich-wheels"))
    )


def test_the_terminal_says_the_range(session: sessions.Session) -> None:
    [first, *_] = published.beside_lines(session, chosen(session))
    assert first.strip() == "intelmpi-wheels on p: PingPong latency is 2.00 to 2.00 times that of openhpc-mini/eth1g (24 sizes)"
