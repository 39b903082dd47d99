"""What is offered by releases of the suites is measured by a test or left out for a reason, and the page says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpibench.commands.listings import coverage
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.model import Suite
from reframe_tests.harness.vocabulary import ROOT

FOLDERS = (ROOT / "reframe_tests",)
OFFERING = [suite for suite in catalogue.SUITES.values() if suite.offer]


def test_the_page_is_that_of_the_records():
    """``mpibench catalogue --coverage > docs/reference/coverage.md`` after a change of rows, plans or tests."""
    assert coverage.PAGE.read_text() == coverage.page()


def test_both_suites_say_what_they_offer():
    assert {suite.name: suite.offer.version for suite in OFFERING} == {"imb": "2021.11", "osu": "7.5"}
    counts = {suite.name: sum(map(len, suite.offer.programs.values())) for suite in OFFERING}
    assert counts == {"imb": 157, "osu": 78}


@pytest.mark.parametrize("suite", OFFERING, ids=lambda suite: suite.name)
def test_everything_offered_is_measured_or_left_out(suite: Suite):
    tests = coverage.tests_by_group(FOLDERS)
    assert coverage.uncovered(suite.offer, tests) == []
    both = set(suite.offer.programs) & {name for names in suite.offer.left_out.values() for name in names}
    assert not both


@pytest.mark.parametrize("suite", OFFERING, ids=lambda suite: suite.name)
def test_every_row_is_planned(suite: Suite):
    """That rows and programs of releases are the same, ``mpi/test_suite_releases_mpi.py`` asks of builds."""
    planned = {(plan.binary, name) for group in suite.groups.values() for plan in group.plans for name in plan.benchmarks}
    assert {(row.binary, row.name) for row in suite.rows} == planned


def test_what_no_test_measures_is_named():
    offer = catalogue.SUITES["imb"].offer
    more = replace(offer, programs={**offer.programs, "IMB-MPI5": ("Teleport",)})
    tests = coverage.tests_by_group(FOLDERS)
    assert coverage.uncovered(more, tests) == ["IMB-MPI5 Teleport"]
    without = {group: test for group, test in tests.items() if group != "p2p"}
    assert coverage.uncovered(offer, without) == ["IMB-MPI1 PingPong", "IMB-MPI1 PingPing"]


def test_groups_are_read_from_classes_without_running_them(tmp_path):
    (tmp_path / "one.py").write_text("raise SystemExit\n\nclass Mine:\n    group = 'p2p'\n")
    (tmp_path / "two.py").write_text("this is no Python\n")
    assert coverage.tests_by_group([tmp_path, tmp_path / "absent"]) == {"p2p": "Mine"}
