"""Which options on ReFrame's command line make a session smaller than a whole one of its mode, or
judge less of it.

The options are those of ReFrame 4.10, ``reframe/frontend/cli.py`` (group "Options for selecting
checks" and the others named below). Long options may be abbreviated, as ``argparse`` allows.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from reframe_tests.harness.printable import plural

from .sessions import Session

#: Folder of the tests; a search path that ends in it is all of them.
WHOLE_SUITE = "reframe_tests"
_PATH = "--checkpath"
#: Variables that say how a case is measured; with any other one, tests run elsewhere, measure
#: something else, or are judged by something else than their references.
MEASURING = ("level", "repeats", "limit_s", "paired_stack")


#: The tag that every test has (``FabricTest.select_cases``). ``production`` leaves some out: whole
#: for a night, whose mode says so itself, and for no other label.
WHOLE_TAG = "maintenance"


#: Long option to: its short form, whether it takes a value, and which
#: values make a session partial (``None``: any).
NARROWING: dict[str, tuple[str, bool, Callable[[str], bool] | None]] = {
    "--cpu-only": ("", False, None),
    # References are looked at, and proofs made, in hooks.
    "--disable-hook": ("", True, None),
    "--exclude": ("-x", True, None),
    "--exclude-tag": ("-T", True, None),
    "--failed": ("", False, None),
    "--filter-expr": ("-E", True, None),
    "--gpu-only": ("", False, None),
    "--maintainer": ("", True, None),
    "--name": ("-n", True, None),
    "--prgenv": ("-p", True, lambda value: value != ".*"),
    "--tag": ("-t", True, lambda value: value != WHOLE_TAG),
    _PATH: ("-c", True, lambda value: PurePath(value).name != WHOLE_SUITE),
    "--maxfail": ("", True, None),
    "--parameterize": ("-P", True, None),
    "--restore-session": ("", True, None),
    "--setvar": (
        "-S",
        True,
        lambda value: value.partition("=")[0].rpartition(".")[2] not in MEASURING,
    ),
    # Without these stages no reference is looked at, or no proof.
    "--skip-performance-check": ("", False, None),
    "--skip-sanity-check": ("", False, None),
    "--system": ("", True, lambda value: ":" in value),  # SYSTEM:PARTITION
}
_LONG = {short: long for long, (short, _, _) in NARROWING.items() if short}
#: Short options without a value, which may stand before another in one word (``-rn NAME``).
_FLAGS = "rRvqVlL"


def narrowing(command_line: str) -> tuple[str, ...]:
    """The options that make a session partial, each as ``--name=ImbPointToPoint``, in order.

    :param command_line: ReFrame's, quoted as for a shell.
    """
    try:
        words = shlex.split(command_line)[1:]
    except ValueError:
        return (command_line,)  # no shell would take it: nobody knows what was requested
    given = list(_options(words))
    counting = [
        (long, value)
        for long, value in given
        if (counts := NARROWING[long][2]) is None or counts(value)
    ]
    # Search paths add up: beside the whole suite another one takes nothing away.
    whole = any(option == _PATH and (option, value) not in counting for option, value in given)
    shown = [
        f"{long}={value}" if NARROWING[long][1] else long
        for long, value in counting
        if not (whole and long == _PATH)
    ]
    return tuple(shown)


def mode_of(command_line: str) -> str | None:
    """The mode (``--mode``, the last one given) a session was started in; ``None`` without one."""
    try:
        words = shlex.split(command_line)[1:]
    except ValueError:
        return None  # and its options are unknown either
    given = [word.partition("=")[2] for word in words if word.startswith("--mode=")]
    given += [value for word, value in itertools.pairwise(words) if word == "--mode"]
    return given[-1] if given else None


def asks_for(
    options: Sequence[str], partition: str | None, stack: str | None, name: str | None
) -> bool | None:
    """Whether options of :func:`narrowing` ask for a case; ``None``
    where they ask for more than is known of it.

    As ReFrame 4.10 does: ``core/systems.py`` (``valid_env_names``),
    ``frontend/filters.py`` (``have_any_name``).

    :param partition: of the case, without its system; a parameter that is ``None`` is unknown.
    """
    given: dict[str, list[str]] = {}
    for option in options:
        long, _, value = option.partition("=")
        given.setdefault(long, []).append(value)
    shown = None if name is None else name.replace(" ", "")
    places = [re.escape(value.partition(":")[2]) + "$" for value in given.pop("--system", [])[-1:]]
    answers = [
        _fits(re.match, places, partition),
        _fits(re.match, given.pop("--prgenv", []), stack),
        _fits(re.search, given.pop("--name", []), shown),
        *(
            None if (hit := _fits(re.search, [pattern], shown)) is None else not hit
            for pattern in given.pop("--exclude", [])
        ),
    ]
    if False in answers:
        return False
    return None if given or None in answers else True


def _fits(
    match: Callable[[str, str], object], patterns: Sequence[str], value: str | None
) -> bool | None:
    """Whether one of the patterns fits; without patterns anything does.
    ReFrame's ``@`` and ``/`` name what is not stored.
    """
    if not patterns:
        return True
    if value is None or any("@" in pattern or pattern.startswith("/") for pattern in patterns):
        return None
    try:
        return any(match(pattern, value) for pattern in patterns)
    except re.error:
        return None


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            known = next(
                (long for long in NARROWING if len(name) > 3 and long.startswith(name)), None
            )
        else:
            letters = word[1:].lstrip(_FLAGS) if word.startswith("-") else ""
            known = _LONG.get(f"-{letters[:1]}")
            value = letters[1:].removeprefix("=")
            equals = value
        if known is None:
            continue
        if NARROWING[known][1] and not equals:
            value = next(rest, "")
        yield known, value


def describe_part(session: Session) -> str:
    cases = [case for case in session.cases if case.result != "skip"]
    parts = [
        {case.name.split()[0] for case in cases if case.name},
        {case.stack for case in cases if case.stack},
        {case.fabric for case in cases if case.fabric},
    ]
    return f"{plural(len(cases), 'case')} measured: " + "; ".join(
        ", ".join(sorted(part)) for part in parts if part
    )
