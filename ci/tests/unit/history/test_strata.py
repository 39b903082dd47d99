"""What makes cases those of one history."""

from __future__ import annotations

import json

import polars as pl
import pytest

from mpibench.judge.history import FACTS, describe_facts, why_not
from reframe_tests.harness.vocabulary import BadInput

OPTIONS = next(fact for fact in FACTS if fact.column == "suite_options")


def cases(*options: str | None) -> pl.DataFrame:
    """One case each, alike but for its options; a case stored before there were any says nothing of them."""
    conditions = [json.dumps({} if each is None else {"suite_options": each}) for each in options]
    beside = {"mpi_version": "5.0", "lock_hash": "", "labels": "{}", "group": "p2p", "nodes": 1, "ppn": 2, "pinning": "none"}
    return pl.DataFrame({"condition": conditions, **{name: [value] * len(options) for name, value in beside.items()}})


@pytest.mark.parametrize("other", ["off_cache=8", "lengths=0+8+1000"])
def test_cases_with_and_without_options_are_no_one_history(other: str) -> None:
    described = describe_facts(cases(None, other))
    assert described["suite_options"].to_list() == ["", other]
    said = described.select(why_not(OPTIONS)).to_series().to_list()
    assert said == ["with suite options none", f"with suite options {other}"]


@pytest.mark.parametrize(
    ("suites", "versions"),
    [({"imb": {"version": "2021.11"}}, "imb 2021.11"), (["imb"], ""), ({"imb": "2021.11"}, ""), (None, "")],
)
def test_versions_of_suites_are_those_stored(suites: object, versions: str) -> None:
    stored = cases(None).with_columns(condition=pl.lit(json.dumps({"suites": suites})))
    assert describe_facts(stored)["suites"].to_list() == [versions]


def test_suites_that_are_no_record_are_one_sentence() -> None:
    stored = cases(None).with_columns(condition=pl.lit('{"suites": "2021.11]"}'))
    with pytest.raises(BadInput, match=r"is not a JSON object: export its session again\.$"):
        describe_facts(stored)


def test_striped_and_unstriped_are_no_one_history() -> None:
    """Also where a site makes a fabric striped without another name."""
    rows = cases(None, None).with_columns(condition=pl.Series(["{}", json.dumps({"striped": True})]))
    fact = next(each for each in FACTS if each.column == "striped")
    said = describe_facts(rows).select(why_not(fact)).to_series().to_list()
    assert said == ["with striping none", "with striping true"]


def test_networks_that_plain_runs_took_are_no_one_history() -> None:
    """Of one fabric, on which nothing is forced."""
    taken = [json.dumps({"network": name}) for name in ("hdr200", "eth10g")]
    rows = cases(None, None).with_columns(condition=pl.Series(taken))
    fact = next(each for each in FACTS if each.column == "network")
    said = describe_facts(rows).select(why_not(fact)).to_series().to_list()
    assert said == ["with network hdr200", "with network eth10g"]
