"""Nights planned for two whole sites, whose cases ReFrame itself
lists: what a night holds, and what a week covers.
"""

import itertools
import os
import re
import sys
from datetime import date

import pytest

import synthetic_site
from mpibench.judge.plan import making
from mpibench.judge.plan.record import ListedCase, ask
from mpibench.night import settings as night_settings
from programs import MPIBENCH, finished

DAY = date(2026, 11, 23)


class Listed:
    """A site whose cases were listed once.

    :param top: its checkout.
    """

    def __init__(self, top):
        self.top = top
        self.environ = {**os.environ, "RFM_CONFIG_FILES": str(top / "site_configs" / "settings.py")}
        self.listings = {
            mode: ask(self.request("1m", mode).words, self.environ, top)
            for mode in ("nightly", "wide")
        }

    def request(self, budget, mode, **asked):
        place = {"day": DAY, "root": self.top}
        words = (budget, mode, mode, ["--system=mysystem"], self.top / "set")
        return night_settings.request(*words, **place, **asked)

    def plan(self, budget, mode="nightly", **asked):
        return making.make(self.request(budget, mode, **asked), self.listings[mode])


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory):
    return Listed(
        synthetic_site.write(tmp_path_factory.mktemp("newcomer"), synthetic_site.newcomer())
    )


@pytest.fixture(scope="module")
def centre(tmp_path_factory):
    top = tmp_path_factory.mktemp("centre")
    return Listed(synthetic_site.write(top, synthetic_site.centre(), synthetic_site.FIVE_STACKS))


def run(site, words):
    """The command, on a made-up site."""
    given = f"plan --system=mysystem --dataset {site.top}/set {words}"
    env = {**site.environ, "MPIBENCH_SITES": str(site.top / "site_configs")}
    done = finished(*MPIBENCH, *given.split(), cwd=site.top, env=env)
    return done.returncode, done.stdout + done.stderr


def test_a_node_count_belongs_to_the_partitions_that_list_it(tmp_path):
    """What two ranks measure takes the smallest count; ``-P nodes=`` asks for others."""
    top = synthetic_site.write(tmp_path, synthetic_site.three_partitions())
    environ = {**os.environ, "RFM_CONFIG_FILES": str(top / "site_configs" / "settings.py")}
    tests = "^(ImbCollectives|ImbPointToPoint)%fabric=hdr200"

    def counts(*more):
        words = ["--system=mysystem", "-p", "openmpi-spack", "-n", tests, *more]
        listed = ask(words, environ, top).cases
        return {(case.test, case.partition, case.parameters["nodes"]) for case in listed}

    partitions = ("cpu", "gpu", "gpu-mpirun")
    names = ("ImbCollectives", "ImbPointToPoint")
    smallest = set(itertools.product(names, partitions, ["2"]))
    assert counts() == smallest | {("ImbCollectives", "cpu", "16")}
    assert counts("-P", "nodes=16") == set(itertools.product(names, partitions, ["16"]))


def test_a_centre_has_ten_minute_nights(centre):
    """Three partitions, three networks and five stacks: the core list in a
    week, a partition busy for 10 minutes at most.
    """
    plan = centre.plan("10m")
    cases = plan.candidates.cases
    assert plan.record.broken == (), making.lines(plan)
    assert len(centre.listings["wide"].cases) > 6000
    assert len(cases) < 200 and plan.record.nights == 6
    spent = plan.candidates.spent(plan.tonight)
    assert all(7.0 < minutes <= 10.0 for minutes in spent.values()), spent
    assert plan.record.predicted.minutes <= 10.0 and plan.record.predicted.node_hours < 15
    questions = {"ImbPointToPoint", "ImbParallelTransfer", "ImbAllreduceAlltoall"}
    for partition, fabrics in {"cpu": 4, "gpu": 3, "old": 2}.items():
        here = [case for case in cases if case.partition == partition]
        assert {case.test for case in here} == questions
        assert {case.stack for case in here} == set(synthetic_site.FIVE_STACKS)
        assert len({case.parameters["fabric"] for case in here}) == fabrics


def test_a_planned_night_keeps_its_budget_and_says_when_the_rest_comes(newcomer):
    plan = newcomer.plan("5m")
    assert plan.record.broken == () and plan.record.every == f"in about {plan.record.nights} nights"
    assert "min (budget 5m); no planned night before: 0 of " in making.headline(plan)
    assert newcomer.plan("5m").record.text == plan.record.text


def test_of_a_small_budget_is_said_what_never_comes_and_what_would_do(newcomer):
    longest = max(cost.seconds / 60 for cost in newcomer.plan("1h").cost)
    small = newcomer.plan("1m")
    [sentence] = small.record.broken
    assert small.tonight and "never measured, taking more than the whole" in sentence
    assert sentence.endswith(f"a budget of {longest:.1f} min has room for each")
    none = newcomer.plan("0.01m")
    assert not none.tonight and none.record.broken == (none.misfit,)


def test_reframe_makes_the_planned_cases_and_no_others(newcomer, tmp_path):
    """With the plan's file in the environment ReFrame lists what was planned, and nothing else."""
    plan = newcomer.plan("5m")
    file = plan.record.write(tmp_path)
    words = ("-c", "reframe_tests", "-lC", *plan.request.words)
    env = {**newcomer.environ, "MPIBENCH_PLAN": str(file), "RFM_COLORIZE": "no"}
    done = finished(f"{sys.prefix}/bin/reframe", *words, cwd=newcomer.top, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = re.findall(r"^- (.+) /[0-9a-f]+ @mysystem:compute\+(\S+)$", done.stdout, re.M)
    assert {ListedCase("compute", stack, name) for name, stack in listed} == plan.record.planned


def test_the_command_plans_and_its_exit_status_says_whether_it_fits(newcomer):
    status, said = run(newcomer, "--date 2026-11-23")
    assert status == 0 and said.startswith("2026-11-23, mysystem, run=nightly: "), said
    status, said = run(newcomer, "--budget 0.001nodeh --date 2026-11-23")
    assert status == 1 and "NOT KEPT: a budget of 0.001nodeh is too small" in said, said


@pytest.mark.parametrize("words", ["-n Nothing", "--mode=smoke"])
def test_bad_input_is_one_sentence(newcomer, words):
    status, said = run(newcomer, f"--budget 30m -- {words}")
    assert status == 2 and "mpibench: " in said and "Traceback" not in said, said
