"""The five verdicts, by name, for all who judge, count or show them."""

from __future__ import annotations

PASS, REGRESSED, IMPROVED, INCONCLUSIVE, MISSING = "pass", "regressed", "improved", "inconclusive", "missing"
#: Why a metric is missing where nothing else is known.
ABSENT = "the candidate does not have it"
