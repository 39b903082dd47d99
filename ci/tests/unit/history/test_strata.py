"""What makes cases those of one history."""

from __future__ import annotations

import json

import polars as pl
import pytest

from mpibench.history import strata

OPTIONS = next(fact for fact in strata.FACTS if fact.column == "suite_options")


def cases(*options: str | None) -> pl.DataFrame:
    """One case each, alike but for its options; a case stored before there were any says nothing of them."""
    conditions = [json.dumps({} if each is None else {"suite_options": each}) for each in options]
    beside = {"mpi_version": "5.0", "lock_hash": "", "labels": "{}", "group": "p2p", "nodes": 1, "ppn": 2, "pinning": "none"}
    return pl.DataFrame({"condition": conditions, **{name: [value] * len(options) for name, value in beside.items()}})


@pytest.mark.parametrize("other", ["off_cache=8", "lengths=0+8+1000"])
def test_cases_with_and_without_options_are_no_one_history(other: str) -> None:
    described = strata.describe(cases(None, other))
    assert described["suite_options"].to_list() == ["", other]
    said = described.select(strata.why_not(OPTIONS)).to_series().to_list()
    assert said == ["with suite options none", f"with suite options {other}"]
