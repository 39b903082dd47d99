"""Checks that ReFrame loads, selects and runs what was requested, and reports what is left out on
the way.

ReFrame 4.10 (``frontend/loader.py``, ``frontend/cli.py``) passes with 0 of 0 cases if an option
matches no test, if a test file fails, hangs or ends the program, or if every case is skipped. So
three of its steps go through :func:`load`, :func:`run` and :func:`show` (:mod:`..upstream`), where
each of these is an error, and so is what could not be stored.

``words`` are ReFrame's command line without the program; ``tests`` are the loaded instances; for a
variant that does not exist yet, ``test`` is its class.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import reframe.core.runtime as rt
from reframe.core.exceptions import CommandLineError, ReframeError, RunSessionTimeout
from reframe.core.logging import getlogger
from reframe.frontend import filters

from .. import command_line, upstream
from ..printable import clause, few
from ..samples import NUM_SELECTED
from ..suites import catalogue, options
from ..vocabulary import ALL_NODES_WORD, PINNING_POLICIES, SYMBOLIC_PPN, BadInput, meant
from . import planned_cases


class LeftOutPlace(NamedTuple):
    """Where a test is not measured, and why.

    :param place: a partition, or a stack of it.
    :param everywhere: no stack there has the programs, however a case is placed.
    """

    place: str
    why: str
    everywhere: bool = False


#: What the tests share: no tests, and not searched for any.
SHARED = Path(__file__).resolve().parents[1]
#: Variable that says how many seconds loading all tests may take.
LIMIT = "MPIBENCH_LOAD_LIMIT_S"
#: Unless it says otherwise: loading takes some seconds, and some
#: minutes on a machine that does much else.
LIMIT_S = 900.0
#: Seconds after which a file that goes on all the same is interrupted again.
_AGAIN_S = 60.0
#: Names that a parameter or variable may have besides those that
#: are tests of their own on this system.
_WORDS = {
    "pinning": PINNING_POLICIES,
    "ppn": SYMBOLIC_PPN,
    "nodes": (ALL_NODES_WORD,),
    **dict.fromkeys(("level", "depth"), tuple(catalogue.LEVELS)),
}
#: Tests and reasons at most that a sentence names.
FEW = 3
#: Options with which every variant is made, as short as ReFrame takes them: it runs tests on
#: partitions and with stacks that they were not made for.
_ANYWHERE = ("--skip-sy", "--skip-pr")
#: Parameters for which the user may give any number.
_NUMBERS = ("nodes", "ppn", "programs")
#: The smallest of these that means something, and why.
_FEWEST = {"programs": (2, "does not share a node: give 2 or more; each is also measured alone")}
#: Options that select, by short name: the long one.
_OPTIONS = {
    "-n": "name",
    "-t": "tag",
    "-E": "filter_expr",
    "-x": "exclude",
    "-T": "exclude_tag",
    "-P": "parameterize",
    "-S": "setvar",
    "--param-values-delim": "param_values_delim",
}


def is_selected(facts: Any) -> bool:
    """Whether the options of selection leave a variant, as far as
    they can be asked before it is made.

    :param facts: its ``display_name``, ``tags`` and parameters.
    """
    return all(fits(facts) for fits in _conditions(*sys.argv[1:]))


@lru_cache(maxsize=1)
def _conditions(*words: str) -> list[Callable[[Any], bool]]:
    return [fits for option, fits in _selectors(words) if not _of_made_tests(option)]


def _of_made_tests(option: str) -> bool:
    """Whether an option selects by a number, a hash or an expression, which
    only a test that was made has.
    """
    return option.startswith("-E") or (
        option.startswith(("-n", "-x"))
        and any("@" in word or word.startswith("/") for word in option.split()[1:])
    )


def _selectors(words: Sequence[str]) -> list[tuple[str, Callable[[Any], bool]]]:
    """Options of selection, those of the mode last, each as it was
    written and with what it asks of a test.

    As ReFrame 4.10 takes them (``frontend/cli.py``): any of the names,
    all of the others, the last expression.
    """
    mode, texts = _of_mode(words)
    found: list[tuple[str, Callable[[Any], bool]]] = []
    for given, origin in ((words, ""), (texts, f" of --mode={mode}")):
        known = command_line.arguments(given, _OPTIONS)
        names = known["name"]
        hidden = known["exclude"]
        filtered = (
            [(" ".join(f"-n {name}" for name in names), filters.have_any_name(names))]
            if names
            else []
        )
        filtered += [(f"-x {name}", filters.have_not_name(name)) for name in hidden]
        filtered += [(f"-T {tag}", filters.have_not_tag(tag)) for tag in known["exclude_tag"]]
        filtered += [(f"-t {tag}", filters.have_tag(tag)) for tag in known["tag"]]
        expressions = known["filter_expr"][-1:]
        filtered += [(f"-E {text}", filters.validates(text)) for text in expressions]
        found += [(option + origin, partial(_asks, fits)) for option, fits in filtered]
    return found


def _of_mode(words: Sequence[str]) -> tuple[str, list[str]]:
    """The mode that a command line names, and its words; empty without one."""
    mode = "".join(command_line.arguments(words, {"--mode": "mode"})["mode"][-1:])
    named = (
        {row["name"]: row["options"] for row in rt.runtime().site_config.get("modes") or ()}
        if mode
        else {}
    )
    return mode, [word for text in named.get(mode, ()) for word in shlex.split(text)]


def _asks(fits: Callable[[Any], Any], test: Any) -> bool:
    return bool(fits(SimpleNamespace(check=test)))


def find_fault(words: Sequence[str], tests: Sequence[Any]) -> str:
    """Which option of selection leaves none of the tests, and what these have; empty where
    none does.
    """
    left = tests
    names = command_line.arguments(words, _OPTIONS)["name"]
    # ReFrame takes any of several names, so that a wrong one beside a right one goes unnoticed.
    each: list[tuple[str, Callable[[Any], bool]]] = [
        (f"-n {name}", partial(_asks, filters.have_any_name([name]))) for name in names
    ]
    with upstream.quiet_filters():
        for option, fits in (*each, *_selectors(words)):
            if kept := [test for test in left if fits(test)]:
                left = tests if (option, fits) in each else kept
            elif left:
                before = "" if len(left) == len(tests) else " that the options before it leave"
                verb = "leaves" if option.startswith(("-x", "-T")) else "fits"
                return f"{option} {verb} no test{before}{_there(option, left)}"
    return ""


def _there(option: str, tests: Iterable[Any]) -> str:
    """What tests have that an option could name, as the end of a sentence."""
    kinds = {type(test) for test in tests}
    if option.startswith("-n"):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        return (
            f": there are {names}; a name is a regular expression for any part of a line of "
            f"'{command_line.REFRAME} -l' without its blanks; '-l -v' shows what is left out"
        )
    if option.startswith("-t"):
        return f": the tags are {', '.join(sorted({tag for test in tests for tag in test.tags}))}"
    return f": parameters are {', '.join(_parameters(kinds))}" * option.startswith("-E")


def _chosen(words: Sequence[str], tests: Sequence[Any]) -> list[list[Any]]:
    """The tests of each ``-n`` (without one: of the session) that fit
    the other options of selection as well.
    """
    selectors = _selectors(words)
    with upstream.quiet_filters():
        left = [test for test in tests if all(fits(test) for _, fits in selectors)]
    names = command_line.arguments(words, _OPTIONS)["name"]
    return [
        [test for test in left if _asks(filters.have_any_name([name]), test)] for name in names
    ] or [left]


class Loading:
    """The tests that this process loads, and what it makes of them.

    :param tests: tests of the harness; each adds itself.
    :param common: classes whose variables a mode, or what measures a night again, sets for any part
        of the tests.
    :param left_out: each test with a place that it is left out on.
    :param not_made: variants that are not selected, or can be measured nowhere, and were therefore
        not made, and those made all the same: class and number.
    :param passed_over: where and why, of those that were not made since the tests were loaded.
    :param selected: number of cases that ReFrame set out to run, of which its own ``num_cases``
        counts those that it ran.
    """

    def __init__(self) -> None:
        self.tests: list[Any] = []
        self.common: list[type] = []
        self.left_out: list[tuple[Any, LeftOutPlace]] = []
        self.not_made: list[tuple[Any, int]] = []
        self.passed_over: list[LeftOutPlace] = []
        self.selected = 0
        #: Variants that are made although they can be measured nowhere.
        self._wanted: set[tuple[Any, int]] = set()
        #: Test (or what selectors ask of one that was not made), where it was left out and why, of
        #: those not said yet.
        self._unsaid: list[tuple[Any, str]] = []
        #: Whether it was said why nothing can be measured.
        self.said_why = False

    def leave_out(self, test: Any, left: LeftOutPlace) -> None:
        """Say, with ``-v`` and in the log, that a test is not measured somewhere."""
        self.left_out.append((test, left))
        if (type(test), test.variant_num) not in self._wanted:  # otherwise it was said before
            self._unsaid.append((test, f"@{left.place}: {left.why}"))

    def pass_over(
        self, test: Any, variant: int, facts: Any, left_out: Iterable[LeftOutPlace]
    ) -> None:
        """The same of a variant that is not made, because it can be measured nowhere.

        :param facts: its ``display_name``, ``tags`` and parameters.
        """
        self.not_made.append((test, variant))
        for left in left_out:
            self.passed_over.append(left)
            self._unsaid.append((facts, f"@{left.place}: {left.why}"))

    def say_left_out(self) -> None:
        """Say what was left out since of the tests that are requested: one line
        a test, fabric and reason, with the first case.

        All as one message: thousands took a third of ``-l``.
        """
        cases: dict[tuple[str, str], list[str]] = {}
        for test, why in self._unsaid:
            if is_selected(test):
                kind = re.sub(r" %(?!fabric=)\S+", "", test.display_name)
                cases.setdefault((kind, why), []).append(test.display_name)
        self._unsaid.clear()
        if cases:
            counted = (
                (names[0] + f" and {len(names) - 1} more" * (len(names) > 1), why)
                for (_, why), names in cases.items()
            )
            getlogger().verbose("\n".join(f"left out: {subject} {why}" for subject, why in counted))

    def is_wanted(self, test: Any, variant: int) -> bool:
        """Whether to create a variant that cannot be measured anywhere: the user selects it anyway,
        or an answer needs it.
        """
        return (test, variant) in self._wanted or any(
            word.startswith(_ANYWHERE) for word in sys.argv[1:]
        )

    @contextmanager
    def described(self, test: Any, variant: int) -> Iterator[None]:
        """While a variant is only described, it need not be measured anywhere."""
        new = {(test, variant)} - self._wanted
        self._wanted.update(new)
        try:
            yield
        finally:
            self._wanted.difference_update(new)

    def make_the_rest(self) -> None:
        """Make the variants that were not: an option is asked of instances whether it fits."""
        self._wanted.update(self.not_made)
        while self.not_made:
            test, variant = self.not_made.pop()
            test(variant_num=variant)

    def hold(self, words: Sequence[str]) -> list[str]:
        """Check the command line against the loaded tests; variants that were not created are
        created if an answer needs them.

        :returns: see :func:`why_none`.
        :raises BadInput: see :func:`check`.
        """
        if not all(
            any(test.valid_systems for test in chosen) for chosen in _chosen(words, self.tests)
        ):
            self.make_the_rest()
        check(words, self.tests, {*map(type, self.tests), *(kind for kind, _ in self.not_made)})
        return self.why_none(words)

    def why_none(self, words: Sequence[str]) -> list[str]:
        """A sentence for each ``-n`` (without one: for the session) whose
        tests all can be measured nowhere on this system.

        ReFrame 4.10 lists ``Found 0 check(s)`` and no reason.
        """
        sentences = []
        for chosen in _chosen(words, self.tests):
            if not chosen or any(test.valid_systems for test in chosen):
                continue
            mine = {id(test) for test in chosen}
            reasons = _frequent(left for test, left in self.left_out if id(test) in mine)
            names = sorted({type(test).__name__ for test in chosen})
            subject = (
                f"no case of {' and '.join(names)}"
                if len(names) <= FEW
                else f"no case of any of {len(names)} tests"
            )
            why = reasons or "no partition of the system has this fabric"
            sentences.append(f"{subject} can be measured here: {why}")
        return sentences


def _frequent(left_out: Iterable[LeftOutPlace]) -> str:
    """The most frequent reasons, each with the first place that it holds at, as the end of a
    sentence; what no stack has stands first, since it holds however a case is placed.
    """
    places: dict[tuple[bool, str], list[str]] = {}
    for place, why, everywhere in left_out:
        places.setdefault((not everywhere, clause(why)), []).append(place)
    ordered = sorted(places, key=lambda reason: (reason[0], -len(places[reason])))[:FEW]
    return "; ".join(
        f"{reason[1]} ({few([*dict.fromkeys(places[reason])], 1)})" for reason in ordered
    )


#: That of this process: each test adds itself when it is made.
LOADING = Loading()


def check(words: Sequence[str], tests: Sequence[Any], kinds: Iterable[Any]) -> None:
    """Refuse an option of selection that fits no test, and a value that no test can have.

    :param kinds: classes of the tests, also of those that were not made.
    :raises BadInput: naming the option, and what there is.
    """
    if fault := find_fault(words, tests):
        raise BadInput("unknown-name", f"{fault}.")
    known = command_line.arguments(words, _OPTIONS)
    delimiter = [",", *known["param_values_delim"]][-1]
    for text in known["parameterize"]:
        variable, equals, values = text.partition("=")
        if equals:  # ReFrame says what is wrong otherwise
            of, dot, name = variable.rpartition(".")
            asked = {kind for kind in kinds if not dot or kind.__name__ == of}
            if not asked:
                raise _no_test(f"-P {text}", of, kinds)
            _check_values(text, name, values.split(delimiter), asked)
    for test in tests:
        if test.level not in catalogue.LEVELS:
            raise BadInput(
                "unknown-name",
                f"{type(test).__name__}: {test.level!r} is not a level; choose one of "
                f"{', '.join(catalogue.LEVELS)}.",
            )
        if getattr(test, "repeats", 1) < 1:
            raise BadInput(
                "bad-option",
                f"{type(test).__name__}: -S repeats={test.repeats} would measure nothing; give 1 "
                "or more.",
            )
        # some run no program of a suite
        options.check(catalogue.OPTIONS, getattr(test, "suite_options", {}))


def check_settings(words: Sequence[str], kinds: Iterable[Any]) -> None:
    """Reject a ``-S``, also of the mode, that has no effect: ReFrame 4.10 only warns and measures
    anyway (``core/decorators.py``, ``_setvars``; ``core/meta.py``, ``setvar``).

    :param kinds: classes of all tests that were loaded, also of fixtures
        and of tests that are somebody else's.
    :raises BadInput: naming the option, and the name most like it.
    """
    kinds = list(kinds)
    for text in command_line.arguments([*_of_mode(words)[1], *words], _OPTIONS)["setvar"]:
        target, equals, _ = text.partition("=")
        first, dot, rest = target.partition(".")
        asked, path = (
            ([kind for kind in kinds if kind.__name__ == first], rest) if dot else (kinds, target)
        )
        if not equals:
            raise BadInput("bad-option", f"-S {text} sets nothing: write -S {text}=VALUE.")
        if any(_has(kind, path) for kind in asked):
            continue
        if not asked:
            raise _no_test(f"-S {text}", first, kinds)
        name = path.rpartition(".")[2]
        if any(name in kind.param_space.params for kind in asked):
            raise BadInput(
                "bad-option",
                f"-S {text} has no effect, because {name} is a parameter: use -P {text}.",
            )
        there = {variable for kind in asked for variable in kind.var_space}
        raise BadInput(
            "unknown-name",
            f"-S {text} has no effect: {first if dot else 'no test'} has {'no' if dot else 'a'} "
            f"variable '{path}'{meant(name, there)}; '{command_line.REFRAME} --describe -n NAME' "
            "lists those of a test.",
        )


def _has(kind: Any, path: str) -> bool:
    """Whether a class of tests has a variable: its own, or
    ``fixture.variable`` of one of its fixtures.
    """
    first, dot, rest = path.partition(".")
    if not dot:
        return first in kind.var_space
    fixture = kind.fixture_space.fixtures.get(first)
    return fixture is not None and _has(fixture.cls, rest)


def _no_test(option: str, name: str, kinds: Iterable[Any]) -> BadInput:
    there = sorted({kind.__name__ for kind in kinds})
    return BadInput(
        "unknown-name", f"{option} matches no test: there is no test '{name}'{meant(name, there)}."
    )


def _parameters(kinds: Iterable[Any]) -> list[str]:
    """Parameters of the tests, each with its values on the selected system."""
    return sorted(f"{name} ({', '.join(_values(name, kinds))})" for name in _named(kinds))


def _named(kinds: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(name for kind in kinds for name in kind.param_space.params))


def _values(name: str, kinds: Iterable[Any]) -> list[str]:
    spaces = [kind.param_space.params for kind in kinds]
    return list(
        dict.fromkeys(
            str(value) for space in spaces if name in space for value in space[name].values
        )
    )


def _check_values(text: str, name: str, values: Sequence[str], kinds: Iterable[Any]) -> None:
    if not any(name in kind.param_space.params or name in kind.var_space for kind in kinds):
        raise BadInput(
            "unknown-name",
            f"-P {text}: {name} is not a parameter{meant(name, _named(kinds))}; parameters are "
            f"{', '.join(_parameters(kinds))}.",
        )
    known = list(dict.fromkeys([*_values(name, kinds), *_WORDS.get(name, ())]))
    for value in values:
        if known and value not in known and not (name in _NUMBERS and value.isdecimal()):
            number = " or a number" if name in _NUMBERS else ""
            raise BadInput(
                "bad-option",
                f"-P {text}: {value!r} is not a value of {name}; give {', '.join(known)}{number}.",
            )
        fewest, why = _FEWEST.get(name, (0, ""))
        if value.isdecimal() and int(value) < fewest:
            raise BadInput("bad-option", f"-P {text}: {name}={value} {why}.")


def limit_of(environ: Mapping[str, str]) -> float:
    """Seconds that loading the tests may take.

    :raises BadInput: the variable holds no such number.
    """
    text = environ.get(LIMIT, "")
    with suppress(ValueError):
        if 0 < (limit := float(text or LIMIT_S)) < float("inf"):
            return limit
    raise BadInput("bad-option", f"{LIMIT} is {text!r}; give a number of seconds above 0.")


def overlooked(paths: Iterable[str], recursive: bool = False) -> Iterator[str]:
    """One sentence for each thing below ReFrame's search path that looks like a test and that
    ReFrame passes over in silence.

    :param paths: files, and folders in which it looks for files
        itself only (``-R``: below them, too).
    """
    for path in map(Path, paths):
        files = (
            sorted(path.rglob("*.py") if recursive else path.glob("*.py"))
            if path.is_dir()
            else [path]
        )
        files = [file for file in files if not file.resolve().is_relative_to(SHARED)]
        for file in files:
            if file.is_symlink() and not file.exists():
                yield f"{file} is a dangling link"
        below = (
            sorted({file.parent for file in path.glob("*/*.py")})
            if path.is_dir() and not files
            else []
        )
        if below:
            yield (
                f"{path} has no tests itself, and ReFrame does not search below it: give -c "
                f"{below[0]}"
            )


class NoSuccess(ReframeError):  # type: ignore[misc]
    """A session that did not do what was requested, where ReFrame would end with status 0."""


def _where(ending: SystemExit) -> str:
    """File and line that ended the program; ``exit()`` of the module
    ``site`` is not the one that is meant.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(ending.__traceback__)
        if "_sitebuiltins" not in frame.filename
    ]
    return f"{frames[-1].filename}, line {frames[-1].lineno}," if frames else "a file"


@contextmanager
def _limited(limit_s: float) -> Iterator[None]:
    """Interrupt a file of tests that never ends: ReFrame takes it for a
    mistake in it, names the file, and goes on.
    """

    def interrupt(*_: object) -> None:
        raise TimeoutError(
            f"the tests were not loaded within {limit_s:g} s; raise the limit with {LIMIT}"
        )

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def load(load_all: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Load all tests, and check the command line against them; a plan restricts them."""

    def load_whole(loader: Any, *words: Any, **named: Any) -> list[Any]:
        with upstream.warnings_of_loading() as left_out, _limited(limit_of(os.environ)):
            try:
                tests = load_all(loader, *words, **named)
            except SystemExit as ending:
                if ending.code:
                    raise
                where = _where(ending)
                raise CommandLineError(
                    f"{where} ended ReFrame while tests were loaded: remove the exit from it"
                ) from None
            except (TypeError, ValueError) as error:  # those of files of tests are warnings
                given = [
                    f"-S {text}"
                    for text in command_line.arguments(sys.argv[1:], _OPTIONS)["setvar"]
                ]
                message = (
                    f"{' '.join(given)}: a value has the wrong type for its variable ({error}): "
                    "correct it"
                )
                raise (CommandLineError(message) if given else error) from None
        LOADING.say_left_out()
        reasons = [
            text.splitlines()[0].partition(" (rerun with")[0].rstrip(".: ") for text in left_out
        ]
        if reasons := list(
            dict.fromkeys([*reasons, *overlooked(loader.load_path, loader.recurse)])
        ):
            raise CommandLineError(
                "nothing is measured, because not every test could be loaded: "
                f"{'; '.join(reasons)}; correct or remove the file."
            )
        try:
            # somebody else's tests alone need not have what a mode sets
            if LOADING.tests or LOADING.not_made:
                kinds = {kind for kind, _ in LOADING.not_made}
                check_settings(sys.argv[1:], {*LOADING.common, *map(type, tests), *kinds})
            planned_cases.narrow(LOADING.tests, rt.runtime().system.name)
            # Beside tests of somebody else's ours are no measure of an option.
            known = {id(test) for test in LOADING.tests}
            ours = all(id(test) in known for test in tests)
            sentences = LOADING.hold(sys.argv[1:]) if ours else []
        except BadInput as error:
            raise CommandLineError(str(error)) from None
        for sentence in sentences:
            getlogger().warning(sentence)
        LOADING.said_why = bool(sentences)
        LOADING.passed_over.clear()
        return tests

    return load_whole


def show(list_checks: Callable[..., None]) -> Callable[..., None]:
    """List tests, and say why there are none."""

    def show_whole(testcases: Sequence[Any], *words: Any, **named: Any) -> None:
        LOADING.say_left_out()
        # Those that -P requested were made after all tests had been loaded.
        why = "" if testcases else _frequent(LOADING.passed_over)
        list_checks(testcases, *words, **named)
        if not testcases and not LOADING.said_why:
            getlogger().warning(
                f"no test matches all options together{f': {why}' if why else ''}; a mode (--mode) "
                "also sets options such as '-t production': leave one out, "
                f"'{command_line.REFRAME} -l' lists the tests."
            )

    return show_whole


def run(runall: Callable[..., None]) -> Callable[..., None]:
    """Run cases; running none, or fewer than all, is a failure. ReFrame still stores what was
    measured.
    """

    def run_whole(runner: Any, testcases: Sequence[Any], *words: Any, **named: Any) -> None:
        LOADING.say_left_out()
        if not testcases:
            why = _frequent(LOADING.passed_over)
            raise CommandLineError(
                "nothing is measured, because no test case matches all options and has a stack "
                f"that can run it: {f'{why}; ' if why else ''}'{command_line.REFRAME} -l' with the "
                "same options lists what matches; -v adds what is left out and why."
            )
        LOADING.selected = len(testcases)
        ended: RunSessionTimeout | None = None
        try:
            runall(runner, testcases, *words, **named)
        except RunSessionTimeout as error:
            ended = error
        if lost := lost_cases(
            runner.stats, len(testcases), dry=any(word.startswith("--dry") for word in sys.argv[1:])
        ):
            raise NoSuccess(lost)
        if ended:
            raise ended

    return run_whole


def lost_cases(stats: Any, selected: int, *, dry: bool = False) -> str:
    """Why a session is incomplete, as ReFrame counts its cases; empty if it is complete, or fails
    anyway.

    :param stats: ReFrame's ``TestStats``.
    """
    ran = stats.num_cases(0)
    skipped = len(stats.skipped(0))
    aborted = len(stats.aborted(None))
    if stats.failed(None):
        return ""
    if aborted or ran < selected:
        return f"interrupted: {max(aborted, selected - ran)} of {selected} cases did not run"
    return (
        f"nothing {'would be' if dry else 'was'} measured: all {selected} cases were skipped"
        if skipped == selected
        else ""
    )


def keep(store: Callable[..., Any]) -> Callable[..., Any]:
    """Store a session, or write a report of it: ReFrame only warns where it cannot."""

    def keep_or_fail(report: Any, *words: Any, **named: Any) -> Any:
        try:
            report.update_session_info({NUM_SELECTED: LOADING.selected})
            return store(report, *words, **named)
        except Exception as error:
            getlogger().error(
                f"FAILED: the session was not stored, or a report was not written: {error}"
            )
            raise SystemExit(1) from None

    return keep_or_fail


def watch() -> None:
    """Have ReFrame's steps go through these.

    :raises BadInput: see :func:`limit_of`.
    """
    limit_of(os.environ)
    upstream.watch(load, run, show, keep)
