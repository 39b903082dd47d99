"""Stacks that ReFrame is asked for by name: a missing one is an error, because ReFrame would pass
with 0 of 0 cases.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from .. import command_line
from ..vocabulary import BadInput


def patterns(words: Sequence[str]) -> list[str]:
    """Arguments of every ``-p`` (``--prgenv``) on ReFrame's command line."""
    return command_line.arguments(words, {"-p": "prgenv"})["prgenv"]


def mode_options(words: Sequence[str]) -> list[str]:
    """What a mode needs so that a ``-p`` beside ``--mode`` counts.

    ReFrame 4.10 parses a mode's options first and the command line again with the outcome as its
    defaults (``frontend/cli.py``, "Update options from the selected execution mode"); ``-p`` is
    then appended to ``.*``, unless the mode has one of its own. An abbreviated ``--prg`` is not
    seen here.
    """
    return [f"-p {shlex.quote(text)}" for text in patterns(words)]


def check(words: Sequence[str], names: Iterable[str], problems: Iterable[str]) -> None:
    """Refuse a ``-p`` (``--prgenv``) that fits no stack.

    ReFrame takes its argument for a regular expression that fits from the beginning of a name
    (``re.match``), and several for alternatives: one that fits nothing goes unnoticed.

    :param words: ReFrame's command line.
    :param names: environments there are.
    :param problems: a sentence for each stack that cannot be used.
    :raises BadInput: with the sentence about the stack where there is one.
    """
    known = sorted(names)
    try:
        asked = [(text, re.compile(text)) for text in patterns(words)]
    except re.error:
        return  # ReFrame says what is wrong with it
    for text, pattern in asked:
        # ReFrame's own, which no test asks for
        if any(pattern.match(name) for name in (*known, "builtin")):
            continue
        about = [
            sentence
            for sentence in problems
            if any(pattern.match(word) for word in re.findall(r"'([\w-]+)'", sentence))
        ]
        there = f"there are {', '.join(known)}" if known else "there is none"
        reason = about[0] if about else f"{there}; 'mpibench stacks' lists them."
        raise BadInput("unknown-name", f"-p {text} matches no usable stack: {reason}")
