"""Tests that ReFrame loads and its command line selects: what is not loaded, an option that fits none, a session of none.

Each is an error.

ReFrame 4.10 passes with 0 of 0 cases. It loads the tests after it has read its settings and has no hook between loading and
selecting, but says in its log where it is, and passes on what a handler of the log raises: ``run session stopped``. So ours
listens for a few of its messages (``frontend/loader.py`` and ``core/decorators.py``: warnings about what is not loaded;
``frontend/cli.py``, ``main``; ``frontend/executors/__init__.py``, ``Runner.runall``).
"""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from ..suites import catalogue, options
from ..vocabulary import ALL_NODES_WORD, PINNING_POLICIES, SYMBOLIC_PPN, BadInput
from . import named_tests, planned_cases

#: Tests of the harness that have been loaded; each adds itself.
LOADED: list[Any] = []
#: Each test with a partition (or one's stack) that it is left out on, and why.
LEFT_OUT: list[tuple[Any, str, str]] = []
#: Variants of tests that can be measured nowhere and were therefore not made, and those made all the same: class and number.
NOT_MADE: list[tuple[Any, int]] = []
#: Place and reason of each variant that was not made.
PASSED_OVER: list[tuple[str, str]] = []
_WANTED: set[tuple[Any, int]] = set()
#: Lines on what was left out that were not said yet.
_UNSAID: list[str] = []
#: Type of our handler in ReFrame's settings.
HANDLER = "selected_tests"
#: Names that a parameter or variable may have besides those that are tests of their own on this system.
_WORDS = {
    **{"pinning": PINNING_POLICIES, "ppn": SYMBOLIC_PPN, "nodes": (ALL_NODES_WORD,)},
    **dict.fromkeys(("level", "depth"), tuple(catalogue.LEVELS)),
}
#: Tests and reasons at most that a sentence names.
FEW = 3
#: Begins the reason of what no stack of a partition has the programs for.
WITHOUT = "no stack of this partition has"
#: Options with which every variant is made, as short as ReFrame takes them: it runs tests on partitions and with stacks that
#: they were not made for.
_ANYWHERE = ("--skip-sy", "--skip-pr")
#: Parameters for which the user may give any number.
_NUMBERS = ("nodes", "ppn", "programs")
#: The smallest of these that means something, and why.
_FEWEST = {"programs": (2, "shares a node with nobody: ask for 2 or more; each is measured alone as well")}
#: Options that select, by short name: the long one.
_OPTIONS = {
    "-n": "name",
    "-t": "tag",
    "-E": "filter_expr",
    "-P": "parameterize",
    "-S": "setvar",
    "--param-values-delim": "param_values_delim",
}
#: ReFrame's warnings about tests, and files of tests, that it goes on without.
_NOT_LOADED = re.compile(r"WARNING: (skipping (?:incompatible )?test .*|.* is not copyable;.*|check path .* does not exist)")
#: ReFrame's messages: all tests are loaded, and then made cases of; the selected ones are about to run; they were listed.
_NO_CASES_YET = re.compile(r"Loaded \d+ test\(s\)")
_ALL_LOADED, _NONE_RUNS = re.compile(r"Generated \d+ test case\(s\)"), re.compile(r"\[=+\] Running 0 check\(s\)")
_SELECTED = re.compile(r"Final number of test cases: \d+")
_NONE_LISTED = re.compile(r"Found 0 check\(s\)\n?")


def leave_out(test: Any, place: str, reason: str) -> None:
    """Say, to who asks for it (``-v``) and in the log, that a test is not measured somewhere."""
    LEFT_OUT.append((test, place, reason))
    if (type(test), test.variant_num) not in _WANTED:  # otherwise it was said before
        _UNSAID.append(f"left out: {test.display_name} @{place}: {reason}")


def pass_over(test: Any, variant: int, name: str, reasons: Iterable[tuple[str, str]]) -> None:
    """The same of a variant that is not made, because it can be measured nowhere.

    :param test: its class.
    :param variant: its number.
    :param name: as ReFrame shows it.
    :param reasons: place and reason.
    """
    NOT_MADE.append((test, variant))
    for place, reason in reasons:
        PASSED_OVER.append((place, reason))
        _UNSAID.append(f"left out: {name} @{place}: {reason}")


def say_left_out() -> None:
    """Say what was left out since, as one message: thousands of them were a third of the time of ``reframe -l``."""
    from reframe.core.logging import getlogger

    if lines := "\n".join(_UNSAID):
        _UNSAID.clear()
        getlogger().verbose(lines)


def is_wanted(test: Any, variant: int) -> bool:
    """Whether a variant is made also if it can be measured nowhere: the user runs it all the same, or an answer needs it.

    :param test: its class.
    :param variant: its number.
    """
    return (test, variant) in _WANTED or any(word.startswith(_ANYWHERE) for word in sys.argv[1:])


@contextmanager
def described(test: Any, variant: int) -> Iterator[None]:
    """While a variant is only described, it need not be measured anywhere."""
    new = {(test, variant)} - _WANTED
    _WANTED.update(new)
    try:
        yield
    finally:
        _WANTED.difference_update(new)


def make_the_rest() -> None:
    """Make the variants that were not: whether an option fits one of them is asked of instances."""
    _WANTED.update(NOT_MADE)
    while NOT_MADE:
        test, variant = NOT_MADE.pop()
        test(variant_num=variant)


def hold(words: Sequence[str]) -> list[str]:
    """Hold the command line against the tests that were loaded; those that were not made are made where an answer needs them.

    :param words: ReFrame's command line without the program.
    :returns: see :func:`why_none`.
    :raises BadInput: see :func:`check`.
    """
    if not all(any(test.valid_systems for test in chosen) for chosen in _chosen(words, LOADED)):
        make_the_rest()
    try:
        check(words, LOADED)
    except BadInput:
        if not NOT_MADE:
            raise
        make_the_rest()
        check(words, LOADED)
    return why_none(words, LOADED)


def _chosen(words: Sequence[str], tests: Sequence[Any]) -> list[list[Any]]:
    """The tests of each ``-n`` (without one: of the session) that fit the other options of selection as well."""
    from reframe.frontend import filters

    known = named_tests.arguments(words, _OPTIONS)
    others = [*map(filters.have_tag, known["tag"]), *map(filters.validates, known["filter_expr"][-1:])]
    fits = [[filters.have_any_name([text]), *others] if text else others for text in known["name"] or [""]]
    return [[test for test in tests if all(fit(SimpleNamespace(check=test)) for fit in each)] for each in fits]


def why_none(words: Sequence[str], tests: Sequence[Any]) -> list[str]:
    """A sentence for each ``-n`` (without one: for the session) whose tests all can be measured nowhere on this system.

    ReFrame 4.10 lists ``Found 0 check(s)`` and no reason. What no stack has stands first, since it
    holds however a case is placed, then the most frequent reasons; more than three are for ``-v``.

    :param words: ReFrame's command line without the program.
    :param tests: all that were loaded, as instances.
    """
    sentences = []
    for chosen in _chosen(words, tests):
        if not chosen or any(test.valid_systems for test in chosen):
            continue
        mine = {id(test) for test in chosen}
        reasons = Counter(f"{place}: {reason}" for test, place, reason in LEFT_OUT if id(test) in mine)
        names = sorted({type(test).__name__ for test in chosen})
        what = f"no case of {' and '.join(names)}" if len(names) <= FEW else f"no case of any of {len(names)} tests"
        ordered = sorted(reasons, key=lambda reason: (WITHOUT not in reason, -reasons[reason]))
        why = "; ".join(ordered[:FEW]) or "no partition of the system has the fabric"
        sentences.append(f"{what} can be measured here: {why} ('mpibench doctor' lists the suites that no stack has)")
    return sentences


def say_passed_over(reasons: Sequence[tuple[str, str]]) -> str:
    """The most frequent of them, each with the first place it holds at, as the end of a sentence; empty where there are none.

    :param reasons: of :data:`PASSED_OVER`.
    """
    places: dict[str, dict[str, None]] = {}
    for place, reason in reasons:
        places.setdefault(reason.rstrip("."), {})[place] = None
    frequent = sorted(places, key=lambda reason: -len(places[reason]))[:FEW]
    others = {reason: len(places[reason]) - 1 for reason in frequent}
    return "; ".join(
        f"{reason} ({next(iter(places[reason]))}{f' and {others[reason]} more' if others[reason] else ''})"
        for reason in frequent
    )


def check(words: Sequence[str], tests: Sequence[Any]) -> None:
    """Refuse an option of selection that fits no test, and a value that no test can have.

    :param words: ReFrame's command line without the program.
    :param tests: all that were loaded, as instances; with none of them there is nothing to hold an option against.
    :raises BadInput: naming the option, and what there is.
    """
    from reframe.frontend import filters

    if not tests:
        return
    known = named_tests.arguments(words, _OPTIONS)
    for text in known["name"]:
        _require(filters.have_any_name([text]), tests, f"-n {text}", "there are", {type(test).__name__ for test in tests})
    for text in known["tag"]:
        _require(filters.have_tag(text), tests, f"-t {text}", "the tags are", {tag for test in tests for tag in test.tags})
    for text in known["filter_expr"][-1:]:  # ReFrame takes the last
        _require(filters.validates(text), tests, f"-E {text}", "parameters are", _parameters(tests))
    delimiter = [",", *known["param_values_delim"]][-1]
    for text in known["parameterize"]:
        variable, equals, values = text.partition("=")
        if equals:  # ReFrame says what is wrong otherwise
            _check_values(text, variable.rpartition(".")[2], values.split(delimiter), tests)
    for text in known["setvar"]:
        name = text.partition("=")[0].rpartition(".")[2]
        if any(name in type(test).param_space.params for test in tests):
            raise BadInput(f"-S {text} sets nothing, because {name} is a parameter: use -P {text}.")
    for test in tests:
        if test.level not in catalogue.LEVELS:
            raise BadInput(f"{type(test).__name__}: {test.level!r} is not a level; there are {', '.join(catalogue.LEVELS)}.")
        if getattr(test, "repeats", 1) < 1:
            raise BadInput(f"{type(test).__name__}: -S repeats={test.repeats} would measure nothing; give 1 or more.")
        options.check(catalogue.OPTIONS, getattr(test, "suite_options", {}))  # some run no program of a suite


def _require(fits: Callable[[Any], object], tests: Iterable[Any], option: str, there: str, names: Iterable[str]) -> None:
    if not any(fits(SimpleNamespace(check=test)) for test in tests):
        raise BadInput(f"{option} fits no test: {there} {', '.join(sorted(names))}; 'reframe -l' lists the tests.")


def _parameters(tests: Iterable[Any]) -> list[str]:
    """Parameters of the tests, each with its values on the selected system."""
    classes = {type(test) for test in tests}
    names = dict.fromkeys(name for each in classes for name in each.param_space.params)
    return [f"{name} ({', '.join(_values(name, tests))})" for name in names]


def _values(name: str, tests: Iterable[Any]) -> list[str]:
    spaces = [type(test).param_space.params for test in tests]
    return list(dict.fromkeys(str(value) for space in spaces if name in space for value in space[name].values))


def _check_values(text: str, name: str, values: Sequence[str], tests: Sequence[Any]) -> None:
    classes = {type(test) for test in tests}
    if not any(name in each.param_space.params or name in each.var_space for each in classes):
        raise BadInput(f"-P {text}: {name} is not a parameter; parameters are {', '.join(sorted(_parameters(tests)))}.")
    known = list(dict.fromkeys([*_values(name, tests), *_WORDS.get(name, ())]))
    for value in values:
        if known and value not in known and not (name in _NUMBERS and value.isdecimal()):
            number = " or a number" if name in _NUMBERS else ""
            raise BadInput(f"-P {text}: {value!r} is not a value of {name}; there are {', '.join(known)}{number}.")
        fewest, why = _FEWEST.get(name, (0, ""))
        if value.isdecimal() and int(value) < fewest:
            raise BadInput(f"-P {text}: {name}={value} {why}.")


class _Listener(logging.Handler):
    """Stops ReFrame where it has not loaded every test, has loaded tests that an option does not fit, or runs none."""

    def __init__(self) -> None:
        super().__init__()
        self._left_out: list[str] = []
        self._said_why = False
        # What of PASSED_OVER is not of the values given with -P, of which ReFrame makes variants later.
        self._before = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Hold the command line against the tests.

        :raises CommandLineError: ReFrame prints its sentence and ends with status 1.
        """
        import reframe.core.runtime as rt
        from reframe.core.exceptions import CommandLineError
        from reframe.core.logging import getlogger

        message = re.sub(r"\x1b\[[0-9;]*m", "", record.getMessage())  # colours
        if left_out := _NOT_LOADED.search(message):
            self._left_out.append(left_out[1].partition(" (rerun with")[0].rstrip(".:"))
        elif _NO_CASES_YET.fullmatch(message):
            say_left_out()
            try:
                planned_cases.narrow(LOADED, rt.runtime().system.name)
            except BadInput as error:
                raise CommandLineError(str(error)) from None
        elif _ALL_LOADED.fullmatch(message) and self._left_out:
            raise CommandLineError(
                f"not every test was loaded, and nothing is measured without it: {'; '.join(dict.fromkeys(self._left_out))}; "
                "correct it, or take the file away."
            )
        elif _ALL_LOADED.fullmatch(message) and not others_loaded():
            try:
                sentences = hold(sys.argv[1:])
            except BadInput as error:
                raise CommandLineError(str(error)) from None
            for sentence in sentences:
                self._said_why = True
                getlogger().warning(sentence)
            self._before = len(PASSED_OVER)
        elif _SELECTED.fullmatch(message):  # by then, too, variants with the values of -P have been made
            say_left_out()
        elif _NONE_LISTED.fullmatch(message) and not self._said_why:
            say_left_out()
            why = say_passed_over(PASSED_OVER[self._before :])
            getlogger().warning(
                f"no test fits all options together{f': {why}' if why else ''}; a mode (--mode) is options, too, such as "
                "'-t production': leave one out, 'reframe -l' lists the tests."
            )
        elif _NONE_RUNS.fullmatch(message):
            say_left_out()
            why = say_passed_over(PASSED_OVER[self._before :])
            raise CommandLineError(
                "nothing is measured, because no test case fits all options together and has a stack that can run it here: "
                f"{f'{why}; ' if why else ''}'reframe -l' with the same options lists what does, with -v also what is left out "
                "and why."
            )


def others_loaded() -> bool:
    """Whether tests that are not of the harness were loaded as well, which an option may mean."""
    # What a centre's configuration imports may be no plain module: the ``__dict__`` of one that loads itself later may be None.
    spaces = [getattr(module, "__dict__", None) or {} for module in list(sys.modules.values())]
    registries = [space.get("_rfm_test_registry", ()) for space in spaces]
    return any("group" not in test.var_space for registry in registries for test in registry)


def handlers() -> list[dict[str, str]]:
    """The handler for ReFrame's ``logging.handlers``, registered with it."""
    from reframe.core.logging import register_log_handler

    register_log_handler(HANDLER)(lambda site_config, config_prefix: _Listener())
    return [{"type": HANDLER, "level": "verbose"}]
