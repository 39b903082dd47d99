"""Options that select tests, held against the tests that were
loaded: one that fits none is an error.
"""

import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from reframe_tests.harness import command_line
from reframe_tests.harness.sites import selected_tests
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as


class Compiled:
    """A fixture's class."""

    param_space = SimpleNamespace(params={})
    var_space = frozenset({"flags"})
    fixture_space = SimpleNamespace(fixtures={})


class _Test:
    """What ReFrame's filters and ours read of a loaded test."""

    param_space = SimpleNamespace(
        params={
            "fabric": SimpleNamespace(values=("shm", "eth1g")),
            "nodes": SimpleNamespace(values=(1, 2)),
            "ppn": SimpleNamespace(values=("1", "full")),
            "pinning": SimpleNamespace(values=("none", "bunch")),
        }
    )
    var_space = frozenset({"level", "depth", "limit_s", "group"})
    fixture_space = SimpleNamespace(fixtures={"built": SimpleNamespace(cls=Compiled)})

    def __init__(self, fabric, level="nightly", places=("here:nodes",)):
        self.fabric = fabric
        self.level = level
        self.valid_systems = places
        self.tags = {fabric, "production", "maintenance"}
        self.display_name = f"{type(self).__name__} %fabric={fabric} %nodes=1"
        self.unique_name = f"{type(self).__name__}_{fabric}"
        self.hashcode = "1a2b3c4d"
        self.variant_num = 0


class ImbPointToPoint(_Test):
    pass


class Placement(_Test):
    pass


KINDS = (ImbPointToPoint, Placement, Compiled)
TESTS = (ImbPointToPoint("shm"), ImbPointToPoint("eth1g"), Placement("shm"))

REFUSED = {
    "-r -t nosuch": "^-t nosuch fits no test: the tags are eth1g, maintenance, production, shm.$",
    "-rn PointToPoit": "^-n PointToPoit fits no test: there are ImbPointToPoint, Placement; ",
    "-n Placement -n Colectives": "^-n Colectives fits no test",
    "-n Placement%fabric=eth1g": "^-n Placement%fabric=eth1g fits no test: there are Imb",
    "-t shm -x .": "^-x . leaves no test.$",
    "-E fabric=='nosuch'": r"fits no test: parameters are fabric \(shm, eth1g\), nodes \(1, 2\),",
    "-E nosuch==1": "^-E nosuch==1 fits no test: parameters are fabric",
    "-P fabric=shm,eht1g": "'eht1g' is not a value of fabric; give shm, eth1g.$",
    "-P ppn=ful": "give 1, full, 2, gpu, numa, socket, half or a number.$",
    "-P fabrik=shm": r"^-P fabrik=shm: fabrik is not a parameter \(.*'fabric'\?\); parameters are",
    "-P Plasement.fabric=shm": r"matches no test: .* \(did you mean 'Placement'\?\)\.$",
    "-S depth=nosuch": r"^Placement: 'nosuch' is not a level; choose one of smoke, nightly, accept",
    "-S suite_options=window:shared": "^suite_options: 'shared' is not a value of window",
}


SETS_NOTHING = {
    "-rS levl=smoke -S level=smoke": "'level'",
    "-S level": "-S level=VALUE",
    "--setvar=Placement.levl=smoke": "Placement has no variable 'levl' .did you mean 'level'",
    "-S built.Compiled.flags=-O3": "no test 'built'",
    "-S Placement.built.flag=-O3": "Placement has no variable 'built.flag'",
    "-S Placement.fabric=shm": "use -P Placement.fabric=shm.",
    "--mode=ours": "-S repeat=3 has no effect",
}


@pytest.mark.parametrize("words", REFUSED)
def test_an_option_that_fits_no_test_is_refused_with_what_there_is(words, monkeypatch):
    mine = Placement("shm", level="nosuch" if "depth" in words else "nightly")
    if "suite_options" in words:
        vars(mine)["suite_options"] = {"window": "shared"}
    warned = []
    filters = selected_tests.filters
    monkeypatch.setattr(filters, "getlogger", lambda: SimpleNamespace(warning=warned.append))
    with pytest.raises(BadInput, match=REFUSED[words]):
        selected_tests.check(words.split(), (*TESTS, mine), {ImbPointToPoint, Placement})
    assert not warned


def test_a_setting_that_sets_nothing_is_refused_however_it_is_written(
    monkeypatch,
):
    """As ReFrame 4.10 matches them: ``VAR``, ``TEST.VAR``,
    ``TEST.FIXTURE.VAR``, with a fixture's class as TEST, too.
    """
    config = {"modes": [{"name": "ours", "options": ["-S repeat=3", "-t shm"]}]}
    monkeypatch.setattr(selected_tests.rt, "runtime", lambda: SimpleNamespace(site_config=config))
    sets = "-S level=smoke -S Placement.level=smoke -S Placement.built.flags=-O3 -S Compiled.flags="
    selected_tests.check_settings(sets.split(), KINDS)
    for words, said in SETS_NOTHING.items():
        with pytest.raises(BadInput, match=said):
            selected_tests.check_settings(words.split(), KINDS)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("-l", True),
        ("-l -n Placement -n ^Imb", True),
        ("-l -E fabric=='shm' -n ImbP", True),
        ("-l -t shm", False),
        ("-l -n Placement", False),
    ],
)
def test_tests_that_can_be_measured_nowhere_are_named_with_the_reasons(words, named):
    """Without an option, all tests are meant."""
    mine = [ImbPointToPoint("shm", places=()) for _ in range(3)]
    none = "no stack of this partition has imb"
    loading = selected_tests.Loading()
    loading.tests = mine if words == "-l" else [*mine, Placement("shm")]
    loading.left_out = [
        (test, selected_tests.LeftOutPlace("here:nodes", reason, everywhere=reason == none))
        for test, reason in zip(mine, ["same placement as ppn=1", none, none], strict=True)
    ]
    said = loading.why_none(words.split())
    whole = f"no case of ImbPointToPoint can be measured here: {none} (here:nodes); same placement"
    assert [text.startswith(whole) for text in said] == [True] * named


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("-l -v", ["ImbPair", "Placement"]),
        ("-l -n ^Imb", ["ImbPair"]),
        ("-l -n /1a", ["ImbPair", "Placement"]),
        ("-l -T imb -n P", ["Placement"]),
        ("-l -x Imb", ["Placement"]),
        ("-l -E num_tasks==1", ["ImbPair", "Placement"]),
    ],
)
def test_what_was_left_out_is_said_of_the_tests_that_are_asked_for(monkeypatch, words, named):
    said = []
    monkeypatch.setattr(selected_tests, "getlogger", lambda: SimpleNamespace(verbose=said.append))
    monkeypatch.setattr(selected_tests.sys, "argv", ["reframe", *words.split()])
    loading = selected_tests.Loading()
    place = selected_tests.LeftOutPlace("here:nodes", "too few cores")
    for test in 2 * ("ImbPair", "Placement"):
        facts = SimpleNamespace(display_name=f"{test} %ppn=2", tags={test[:3].lower()}, ppn=2)
        loading.pass_over(test, 0, facts, [place])
    for _ in range(2):  # said once
        loading.say_left_out()
    assert "".join(said).splitlines() == [
        f"left out: {test} %ppn=2 and 1 more @here:nodes: too few cores" for test in named
    ]


def test_options_that_fit_tests_together_are_no_fault():
    assert not selected_tests.find_fault(
        ["-l", "-n", "Imb", "-t", "shm", "-E", "fabric=='shm'"], TESTS
    )
    fault = selected_tests.find_fault(["-l", "-t", "shm", "-E", "fabric=='eth1g'"], TESTS)
    assert fault.startswith("-E fabric=='eth1g' fits no test that the options before it leave: ")


@pytest.mark.parametrize(
    ("words", "variable", "sentence"),
    [
        ("--system=testbad", "", "no 'testbad' (did you mean 'testbed'?); there are testbed, x."),
        ("--system testbed:nodse", "", "'nodse' (did you mean 'nodes'?); there are nodes, login."),
        ("-l", "x1", "RFM_SYSTEM=x1: there is no 'x1' (did you mean 'x'?); there are testbed, x."),
        ("--mode=fast", "", "--mode=fast: there is no 'fast'; there are smoke, nightly."),
        ("-l --system=testbed:login --mode=smoke", "nowhere", ""),
        ("--system=testbad --system=x", "", ""),
    ],
)
def test_a_system_or_mode_that_is_not_there_is_refused_with_those_there_are(
    words, variable, sentence
):
    systems = {"testbed": ("nodes", "login"), "x": ()}
    refused = pytest.raises(BadInput, match=re.escape(sentence)) if sentence else nullcontext()
    with refused:
        environ = {"RFM_SYSTEM": variable}
        command_line.check_named(words.split(), environ, systems, ("smoke", "nightly"))


# ---- options of the suites on ReFrame's command line ----


def test_options_of_a_suite_are_written_once_with_a_value_each():
    for words in (
        "-S suite_options=multi",
        "-S suite_options=multi:0,multi:1",
        "-S suite_options=multi:0 -S suite_options=off_cache:-1",
        "--setvar=ImbPointToPoint.suite_options=multi:",
        r"-S env_vars=A:x\,y,B:z",
    ):
        with refused_as(
            "bad-option", match=r"in one option, -S .*=NAME:VALUE,NAME:VALUE; .* as JSON, -S"
        ):
            command_line.check_settings(words.split())
    for words in (
        "-S suite_options=window:allocate,sync:flush -S env_vars=A:x,B:",
        '-S env_vars={"A":"x,y"}',
    ):
        command_line.check_settings(words.split())
