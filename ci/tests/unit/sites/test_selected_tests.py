"""Options that select tests, held against the tests that were loaded: one that fits none is an error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reframe_tests.harness import command_line
from reframe_tests.harness.sites import selected_tests
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as


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

    def __init__(self, fabric: str, level: str = "nightly", places: tuple[str, ...] = ("here:nodes",)) -> None:
        self.fabric, self.level, self.valid_systems = fabric, level, places
        self.tags = {fabric, "production", "maintenance"}
        self.display_name = f"{type(self).__name__} %fabric={fabric} %nodes=1"
        self.unique_name, self.hashcode, self.variant_num = f"{type(self).__name__}_{fabric}", "1a2b3c4d", 0


class ImbPointToPoint(_Test):
    pass


class Placement(_Test):
    pass


TESTS: tuple[Any, ...] = (ImbPointToPoint("shm"), ImbPointToPoint("eth1g"), Placement("shm"))

REFUSED = {
    "-r -t nosuch": "^-t nosuch fits no test: the tags are eth1g, maintenance, production, shm; 'reframe -l' lists the tests.$",
    "-t shm --tag=nosuch": "^-t nosuch fits no test",
    "-rn PointToPoit": "^-n PointToPoit fits no test: there are ImbPointToPoint, Placement;",
    "-n Placement -n Colectives": "^-n Colectives fits no test",
    "-n Placement%fabric=eth1g": "^-n Placement%fabric=eth1g fits no test",
    "-n /ffffffff": "^-n /ffffffff fits no test: .* a name is a regular expression for any part of such a line without",
    "-E fabric=='nosuch'": r"^-E fabric=='nosuch' fits no test: parameters are fabric \(shm, eth1g\), nodes \(1, 2\), pinning",
    "-P fabric=nosuch": "^-P fabric=nosuch: 'nosuch' is not a value of fabric; there are shm, eth1g.$",
    "-P fabric=shm,eht1g": "'eht1g' is not a value of fabric",
    "--parameterize=Placement.pinning=bunhc": "'bunhc' is not a value of pinning; there are none, bunch, default, scatter, ",
    "-P ppn=ful": "'ful' is not a value of ppn; there are 1, full, 2, gpu, numa, socket, half or a number.$",
    "-P fabrik=shm": r"^-P fabrik=shm: fabrik is not a parameter; parameters are fabric \(shm, eth1g\), ",
    "-P level=smoke,nosuch": "'nosuch' is not a value of level; there are smoke, nightly, acceptance.$",
    "-S fabric=nosuch": "^-S fabric=nosuch sets nothing, because fabric is a parameter: use -P fabric=nosuch.$",
    "-S Placement.fabric=shm": "use -P Placement.fabric=shm.$",
}


@pytest.mark.parametrize("words", REFUSED)
def test_an_option_that_fits_no_test_is_refused_with_what_there_is(words: str) -> None:
    with pytest.raises(BadInput, match=REFUSED[words]):
        selected_tests.check(words.split(), TESTS)


def test_a_level_that_is_not_there_is_refused_however_it_was_set() -> None:
    with refused_as("level-unknown", match=r"^Placement: 'nosuch' is not a level; there are smoke, nightly, acceptance\.$"):
        selected_tests.check(["-S", "depth=nosuch"], (*TESTS, Placement("shm", level="nosuch")))


def test_an_option_of_a_suite_that_is_not_there_is_refused_however_it_was_set() -> None:
    mine = Placement("shm")
    vars(mine)["suite_options"] = {"window": "shared"}
    with refused_as(
        "suite-option-value", match=r"^suite_options: 'shared' is not a value of window; there are create, allocate, "
    ):
        selected_tests.check(["-S", "suite_options=window:shared"], (*TESTS, mine))


@pytest.mark.parametrize(
    "words",
    [
        "", "-r -t production", "-t prod -t shm", "-n PointToPoint", "-n ^Placement%fabric=shm", "-n /1a2b3c4d",
        "-n Placement@0", "-E fabric=='shm'", "-P fabric=shm,eth1g", "-P pinning=nic_local", "-P ppn=half,7", "-P nodes=16",
        "-P limit_s=60", "-P ppn=1:full --param-values-delim=:", "-S level=smoke", "-S limit_s=60", "-S Placement.limit_s=60",
        "-n", "-P fabric",
    ],
)  # fmt: skip
def test_what_fits_a_test_or_is_for_reframe_to_refuse_is_taken(words: str) -> None:
    selected_tests.check(words.split(), TESTS)


def test_without_a_test_of_the_harness_there_is_nothing_to_hold_options_against() -> None:
    selected_tests.check(["-n", "OfSomebodyElse"], ())


def nowhere(monkeypatch: pytest.MonkeyPatch, *tests: _Test) -> None:
    reasons = ["same placement as ppn=1", "no stack of this partition has imb"]
    left_out = [(test, "here:nodes", reason) for test, reason in zip(tests, [*reasons, reasons[1]], strict=False)]
    monkeypatch.setattr(selected_tests, "LEFT_OUT", left_out)


@pytest.mark.parametrize(
    "words", ["-l -n ImbPointToPoint", "-l -n Placement -n ^Imb", "-l -n Imb -t shm", "-l -E fabric=='shm' -n ImbP"]
)
def test_tests_that_can_be_measured_nowhere_are_named_with_the_reasons(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [ImbPointToPoint("shm", places=()) for _ in range(3)]
    nowhere(monkeypatch, *mine)
    [sentence] = selected_tests.why_none(words.split(), [*mine, Placement("shm")])
    assert sentence.startswith(
        "no case of ImbPointToPoint can be measured here: here:nodes: no stack of this partition has imb; "
        "here:nodes: same placement as ppn=1 ("
    )


@pytest.mark.parametrize("words", ["-l", "-l -t shm", "-l -n Placement", "-l -n shm"])
def test_where_something_selected_can_be_measured_nothing_is_said(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [ImbPointToPoint("shm", places=()), ImbPointToPoint("eth1g", places=())]
    nowhere(monkeypatch, *mine)
    assert selected_tests.why_none(words.split(), [*mine, Placement("shm")]) == []
    assert len(selected_tests.why_none(["-l"], mine)) == 1, "without an option, all tests are meant"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("-l -v", ["ImbPair", "Placement"]),
        ("-l -n ^Imb", ["ImbPair"]),
        ("-l -n None", []),
        ("-l -n /1a", ["ImbPair", "Placement"]),
        ("-l -t imb", ["ImbPair"]),
        ("-l -T imb -n P", ["Placement"]),
        ("-l -x Imb", ["Placement"]),
        ("-l -E ppn==2", ["ImbPair", "Placement"]),
        ("-l -E ppn==1", []),
        ("-l -E num_tasks==1", ["ImbPair", "Placement"]),
    ],
)
def test_what_was_left_out_is_said_of_the_tests_that_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, words: str, named: list[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(selected_tests, "getlogger", lambda: SimpleNamespace(verbose=said.append))
    monkeypatch.setattr(selected_tests.sys, "argv", ["reframe", *words.split()])
    for test in ("ImbPair", "Placement"):
        facts = SimpleNamespace(display_name=f"{test} %ppn=2", tags={test[:3].lower()}, ppn=2)
        selected_tests.pass_over(test, 0, facts, [("here:nodes", "too few cores")])
        selected_tests.pass_over(test, 1, facts, [("here:nodes", "too few cores")])
    selected_tests.NOT_MADE.clear()
    selected_tests.PASSED_OVER.clear()
    selected_tests.say_left_out()
    assert "\n".join(said) == "\n".join(f"left out: {test} %ppn=2 and 1 more @here:nodes: too few cores" for test in named)
    selected_tests.say_left_out()
    assert len(said) == bool(named), "each is said once, with a count"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("-l -n Imb", ""),
        ("-l -n Imb -t shm -E fabric=='shm'", ""),
        ("-l -n Imb -t smoke", "-t smoke leaves none of the 2 tests that the options before it select, whose tags are eth1g, "),
        ("-l -n Placement -n Imb -x .", "-x . leaves none of the 3 tests"),
        ("-l -t shm -E fabric=='eth1g'", "-E fabric=='eth1g' leaves none of the 2 tests"),
    ],
)
def test_the_option_that_leaves_nothing_is_named(words: str, sentence: str) -> None:
    said = selected_tests.emptied_by(words.split(), TESTS)
    assert said.startswith(sentence) and bool(said) == bool(sentence)


def test_why_no_variant_was_made_is_said_by_frequency() -> None:
    """What -P asks for and no partition has: each reason once, with the first place of many."""
    cores = "ppn=8 is 8 processes and the partition has 2 cores."
    reasons = [("mini:shm", "fabric shm works inside one node"), ("mini:a", cores), ("mini:b", cores), ("mini:a", cores)]
    assert selected_tests.say_passed_over(reasons) == (
        "ppn=8 is 8 processes and the partition has 2 cores (mini:a and 1 more); fabric shm works inside one node (mini:shm)"
    )
    assert selected_tests.say_passed_over([]) == ""


# ---- options of the suites on ReFrame's command line ----


@pytest.mark.parametrize(
    "words",
    [
        "-S suite_options=multi",
        "-S suite_options=",
        "-S suite_options=multi:0,multi:1",
        "-S suite_options=multi:0 -S suite_options=off_cache:-1",
        "--setvar=ImbPointToPoint.suite_options=multi:",
        "-S suite_options=lengths:/a:b",
        r"-S env_vars=A:x\,y,B:z",
        "-S env_vars=A:1 -S env_vars=B:2",
        "-S env_vars=A",
    ],
)
def test_options_of_a_suite_are_written_once_with_a_value_each(words: str) -> None:
    with refused_as("setting-format", match=r"write all of them once, as -S .*=NAME:VALUE,NAME:VALUE; .* as JSON, -S"):
        command_line.check_settings(words.split())


@pytest.mark.parametrize(
    "words",
    [
        "-S suite_options=window:allocate,sync:flush -S repeats=3",
        "-S env_vars=A:x,B: -S suite_options=multi:0",
        '-S env_vars={"A":"x,y"}',
    ],
)
def test_options_of_a_suite_that_are_well_formed_are_taken(words: str) -> None:
    command_line.check_settings(words.split())
