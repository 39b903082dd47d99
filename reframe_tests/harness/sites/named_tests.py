"""Tests that ReFrame's command line names as they were called before: ReFrame would find or set nothing, and pass."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence

from .. import former_names
from ..vocabulary import BadInput

#: Options that look stored sessions up, in which tests have the names of their time.
_STORED = re.compile(r"--((list|describe|delete)-stored-|performance-compare).*")
#: Options that name tests by a regular expression, and as which attribute they are parsed.
_PATTERNS = {"-n": "name", "-x": "exclude"}


def check(words: Sequence[str]) -> None:
    """Refuse a former name where today's is needed.

    That is a ``-n`` or ``-x`` that fits the former name and not today's, and a ``-S TEST.VAR=`` of a former name. The patterns
    fit anywhere in a display name (``re.search``; ReFrame 4.10, ``frontend/filters.py``): ``-n PointToPoint`` finds
    ``ImbPointToPoint`` as well, ``-n ^PointToPoint`` finds nothing.

    :param words: ReFrame's command line without the program.
    :raises BadInput: naming the option, the former name and today's.
    """
    if any(_STORED.fullmatch(word) for word in words):
        return
    known = arguments(words, {**_PATTERNS, "-S": "setvar"})
    _check_suite_options(known["setvar"])
    for former, name in former_names.TESTS.items():
        for option, attribute in _PATTERNS.items():
            for text in known[attribute]:
                if _misses(text, former, name):
                    raise BadInput(f"{option} {text} means '{former}', which is called '{name}' now: correct the pattern.")
        for text in known["setvar"]:
            if text.startswith(f"{former}."):
                raise BadInput(
                    f"-S {text} means '{former}', which is called '{name}' now: write -S {name}{text[len(former) :]}."
                )


def _check_suite_options(settings: Sequence[str]) -> None:
    """Of two values for one name ReFrame takes the last without a word; for what has no value it prints its own stack."""
    seen: set[str] = set()
    for text in settings:
        variable, _, value = text.partition("=")
        if variable.rpartition(".")[2] != "suite_options":
            continue
        pairs = [each.partition(":") for each in value.split(",")]
        names = [name for name, _, _ in pairs]
        if variable in seen or len(set(names)) < len(names) or not all(name and word for name, _, word in pairs):
            raise BadInput(f"-S {text}: write all options once, as -S {variable}=NAME:VALUE,NAME:VALUE.")
        seen.add(variable)


def arguments(words: Sequence[str], options: Mapping[str, str]) -> dict[str, list[str]]:
    """Arguments of options on ReFrame's command line, by long name; none where it cannot be read: ReFrame says why.

    :param options: short name (or the long one, where there is no other) to the long name without its dashes and with ``_``.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for flag in "rvq":  # which may stand before another option in one word
        parser.add_argument(f"-{flag}", action="count")
    for short, long in options.items():
        flags = dict.fromkeys((short, f"--{long.replace('_', '-')}"))
        parser.add_argument(*flags, action="append", dest=long, default=[])
    try:
        known = vars(parser.parse_known_args(list(words))[0])
    except argparse.ArgumentError:
        known = {}
    return {long: known.get(long, []) for long in options.values()}


def _misses(text: str, former: str, name: str) -> bool:
    """Whether a pattern names a test as it was called before and does not fit what it is called now.

    Only what stands before the parameters (``%``) or the number of a variant (``@``) is asked.
    """
    head, variant = re.split("[%@]", text)[0], text.partition("@")[2]
    if variant.isdigit():
        return head == former
    try:
        pattern = re.compile(head)
    except re.error:
        return False
    return former in head and bool(pattern.search(former)) and not pattern.search(name)
