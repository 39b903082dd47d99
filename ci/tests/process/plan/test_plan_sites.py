"""Nights planned for two whole sites, whose cases ReFrame itself lists: what a night holds, and what a week covers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

import planned_sites
from mpibench.judge.plan import making
from mpibench.judge.plan.making import NightPlan
from mpibench.judge.plan.record import ListedCase, Listing, ask
from mpibench.night import settings as night_settings
from reframe_tests.harness.vocabulary import BadInput

DAY = date(2026, 11, 23)


class Listed:
    """A site whose cases were listed once.

    :param top: its checkout.
    """

    def __init__(self, top: Path) -> None:
        self.top = top
        self.environ = {**os.environ, "RFM_CONFIG_FILES": str(top / "site_configs" / "settings.py")}
        words = night_settings.request("1m", "nightly", "nightly", self.options, top / "set", root=top).words
        self.listing: Listing = ask(words, self.environ, top)
        self.smoke: tuple[ListedCase, ...] = ask([*words, "-t", "smoke"], self.environ, top).cases

    options = ("--system=mysystem",)

    def plan(self, budget: str, **asked: str) -> NightPlan:
        request = night_settings.request(
            budget, "nightly", "nightly", self.options, self.top / "set", day=DAY, root=self.top, **asked
        )
        return making.make(request, self.listing, self.smoke)


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Listed:
    return Listed(planned_sites.write(tmp_path_factory.mktemp("newcomer"), planned_sites.newcomer()))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Listed:
    return Listed(planned_sites.write(tmp_path_factory.mktemp("large"), planned_sites.large()))


@pytest.fixture(params=["newcomer", "large"])
def listed(request: pytest.FixtureRequest) -> Listed:
    found: Listed = request.getfixturevalue(request.param)
    return found


def test_a_node_count_belongs_to_the_partitions_that_list_it(tmp_path: Path) -> None:
    """What two ranks measure takes the smallest count; ``-P nodes=`` asks for others."""
    top = planned_sites.write(tmp_path, planned_sites.three_partitions())
    environ = {**os.environ, "RFM_CONFIG_FILES": str(top / "site_configs" / "settings.py")}

    def counts(*more: str) -> dict[tuple[str, str], set[str]]:
        tests = "^(ImbCollectives|ImbPointToPoint)%fabric=hdr200"
        words = ["--system=mysystem", "-p", "openmpi-spack", "-n", tests, *more]
        found: dict[tuple[str, str], set[str]] = {}
        for case in ask(words, environ, top).cases:
            found.setdefault((case.test, case.partition), set()).add(case.parameters["nodes"])
        return found

    places = [(test, partition) for test in ("ImbCollectives", "ImbPointToPoint") for partition in ("cpu", "gpu", "gpu-mpirun")]
    assert counts() == {**{place: {"2"} for place in places}, ("ImbCollectives", "cpu"): {"2", "16"}}
    assert counts("-P", "nodes=16") == {place: {"16"} for place in places}


def budget_of(listed: Listed, share: float) -> str:
    """The core, and a share of all the rest."""
    whole = listed.plan("1000000nodeh")
    core = whole.tonight.core
    return f"{core + share * (whole.tonight.spent - core):.3f}nodeh"


def test_with_room_for_all_a_night_is_the_whole_matrix(listed: Listed) -> None:
    plan = listed.plan("1000000nodeh")
    assert plan.record.planned == set(listed.listing.cases) and len(plan.record.planned) > 500
    assert plan.record.broken == () and plan.record.pairs_tonight == plan.record.pairs


def test_a_planned_night_keeps_its_budget_and_what_it_promises(listed: Listed) -> None:
    plan = listed.plan(budget_of(listed, 0.1))
    assert plan.record.broken == (), making.lines(plan)
    assert plan.tonight.spent <= plan.candidates.room + 1e-6
    smoke = {one for one in listed.smoke if one.nodes in (1, 2)}
    assert smoke <= plan.record.planned < set(listed.listing.cases) and len(smoke) > 50
    assert smoke < set(listed.smoke) or listed.top.name.startswith("newcomer"), "those on more nodes are not of each night"
    week = {pair for night in plan.ahead for one in night.reasons for pair in plan.candidates.pairs.of[one]}
    assert len(plan.ahead) == 7 and week == set(range(plan.record.pairs)), "every pair in a week"
    assert all(night.spent <= plan.candidates.room + 1e-6 for night in plan.ahead)
    assert re.fullmatch(
        r"\d+ jobs, \d+ launches, [\d.]+ node-hours, [\d.]+ min \(budget [\d.]+nodeh\); no planned night before: "
        r"0 of \d+ costs are measured, the others are those of a model",
        making.headline(plan),
    )


def test_a_plan_is_the_same_whenever_it_is_made(newcomer: Listed) -> None:
    budget = budget_of(newcomer, 0.2)
    assert newcomer.plan(budget).record.text == newcomer.plan(budget).record.text


def test_a_budget_that_is_too_small_says_what_it_would_take(newcomer: Listed) -> None:
    plan = newcomer.plan("0.01nodeh")
    needed = plan.tonight.core
    [sentence] = plan.record.broken
    assert sentence == plan.misfit
    assert f"{len(newcomer.smoke)} cases take {needed:.1f} node-hours; left out would be" in sentence
    late = newcomer.plan(f"{needed * 1.0001:.4f}nodeh", nights="2")
    [sentence] = late.record.broken
    found = re.search(
        r"\d+ of \d+ pairs of values, such as \w+=\S+ with \w+=\S+, are not measured within 2 nights \(in 1 night\): a "
        r"budget of about ([\d.]+) node-hours would do",
        sentence,
    )
    assert found and float(found[1]) > needed


def test_a_case_is_explained(newcomer: Listed) -> None:
    plan = newcomer.plan(budget_of(newcomer, 0.1))
    smoke = newcomer.smoke[0]
    lines = making.explain(plan, f"^{re.escape(str(smoke).replace(' ', ''))}$")
    assert lines[0] == f"{smoke}: in: smoke" and "by the model" in lines[1] and lines[2].startswith("  never measured")
    out = next(one.case for one in plan.record.cases if not one.planned)
    lines = making.explain(plan, f"^{re.escape(str(out))}$")
    assert lines[0] == f"{out}: out: no room tonight" and re.search(r"comes next on 20\d\d-\d\d-\d\d", lines[-1])


@pytest.mark.parametrize(
    ("pattern", "said"), [("ImbPointTwoPoint", "fits none of"), ("Imb", "say more of the name"), ("(", "not a regular")]
)
def test_a_question_that_means_no_case_is_refused(newcomer: Listed, pattern: str, said: str) -> None:
    plan = newcomer.plan(budget_of(newcomer, 0.1))
    with pytest.raises(BadInput, match=said):
        making.explain(plan, pattern)


def test_reframe_makes_the_planned_cases_and_no_others(newcomer: Listed, tmp_path: Path) -> None:
    """With the plan's file in the environment ReFrame lists what was planned, and nothing else."""
    plan = newcomer.plan(budget_of(newcomer, 0.3))
    file = plan.record.write(tmp_path)
    program = str(Path(sys.executable).with_name("reframe"))
    settings = str(newcomer.top / "site_configs" / "settings.py")
    done = subprocess.run(
        [program, "--nocolor", "-c", "reframe_tests", "-lC", *plan.request.words],
        env={**os.environ, "MPIBENCH_PLAN": str(file), "RFM_CONFIG_FILES": settings},
        cwd=newcomer.top,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    listed = re.findall(r"^- (.+) /[0-9a-f]+ @mysystem:compute\+(\S+)$", done.stdout, re.M)
    assert {ListedCase("compute", stack, name) for name, stack in listed} == plan.record.planned


def test_reframes_own_sentence_is_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "reframe"
    program.write_text('#!/bin/sh\necho "ERROR: -n Nothing fits no test: there are Two."\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(BadInput, match=r"^ReFrame cannot list the cases: -n Nothing fits no test: there are Two\.$"):
        ask(["-n", "Nothing"], root=tmp_path)


def run(top: Path, *words: str, **environ: str) -> tuple[int, str]:
    code = "import sys; from mpibench.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "plan", *words]
    done = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=False, cwd=top)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def settings(newcomer: Listed) -> Callable[..., tuple[int, str]]:
    """The command, on the made-up site."""
    return lambda *words: run(
        newcomer.top,
        "--system=mysystem",
        *words,
        "--dataset",
        str(newcomer.top / "set"),
        RFM_CONFIG_FILES=str(newcomer.top / "site_configs" / "settings.py"),
    )


def test_the_command_plans_and_its_exit_status_says_whether_it_fits(settings: Callable[..., tuple[int, str]]) -> None:
    status, said = settings("--budget", "1000nodeh", "--date", "2026-11-23")
    assert status == 0 and said.startswith("2026-11-23, mysystem, run=nightly: "), said
    status, said = settings("--budget", "0.001nodeh", "--date", "2026-11-23")
    assert status == 1 and "NOT KEPT: a budget of 0.001nodeh is too small" in said, said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "much"), "mpibench: a budget of 'much' is none: write minutes"),
        (("--budget", "30m", "--date", "tomorrow"), "mpibench: --date tomorrow is no day"),
        (("--budget", "30m", "--date", "9999-12-31"), "mpibench: --date 9999-12-31 is no day"),
        (("--budget", "30m", "--nights", "0"), "is no number of nights"),
        (("--budget", "30m", "--nights", "61"), "61 nights is not possible: give 1 to 60"),
        (("--budget", "30m", "--mode", "often"), "mpibench: MODE=often is not a mode"),
        (("--budget", "30m", "--", "--system=mysystem", "-n", "Nothing"), "cannot list the cases: -n Nothing fits no test"),
        (("--budget", "30m", "--", "--mode=smoke"), "mpibench: ci/nightly does not take --mode"),
    ],
)
def test_bad_input_is_one_sentence(newcomer: Listed, words: tuple[str, ...], said: str) -> None:
    environ = {"RFM_CONFIG_FILES": str(newcomer.top / "site_configs" / "settings.py")}
    status, text_said = run(newcomer.top, *words, **environ)
    assert status == 2 and said in text_said and "Traceback" not in text_said, text_said
