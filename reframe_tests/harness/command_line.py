"""Options on ReFrame's command line, and those settings that ReFrame would interpret in an
unintended way.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from .vocabulary import ROOT, BadInput, meant

#: Begins a command that a sentence gives to be pasted, in whatever folder.
REFRAME = f"reframe -c {ROOT / 'reframe_tests'}"


def check_settings(words: Sequence[str]) -> None:
    """Reject suite options and variables that ReFrame would only partly accept, or fail on with an
    internal error.

    Of two values for one name it takes the last without a word, and no value may hold a comma or
    colon (4.10, ``utility/typecheck.py``).

    :param words: ReFrame's command line without the program.
    """
    seen: set[str] = set()
    for text in arguments(words, {"-S": "setvar"})["setvar"]:
        variable, _, value = text.partition("=")
        name = variable.rpartition(".")[2]
        if name not in ("suite_options", "env_vars"):
            continue
        pairs = [] if value.startswith("{") else [entry.split(":") for entry in value.split(",")]
        whole = all(
            len(pair) == 2 and pair[0] and (pair[1] or name == "env_vars") for pair in pairs
        )
        if variable in seen or len({pair[0] for pair in pairs}) < len(pairs) or not whole:
            raise BadInput(
                "bad-option",
                f"-S {text}: give all of them in one option, -S {variable}=NAME:VALUE,NAME:VALUE; "
                "write values with a comma or colon "
                f'as JSON, -S \'{variable}={{"NAME":"VALUE"}}\'.',
            )
        seen.add(variable)


def check_named(
    words: Sequence[str],
    environ: Mapping[str, str],
    systems: Mapping[str, Iterable[str]],
    modes: Iterable[str],
) -> None:
    """Refuse a system, a partition or a mode that is not there, which
    ReFrame 4.10 does without the names there are.

    :param systems: names of the partitions of each system.
    """
    known = arguments(words, {"--system": "system", "--mode": "mode"})
    given = [
        f"RFM_SYSTEM={environ.get('RFM_SYSTEM', '')}",
        *(f"--system={name}" for name in known["system"]),
    ][-1]
    system, colon, partition = given.partition("=")[2].partition(":")
    asked: list[tuple[str, str, Iterable[str]]] = []
    if system:
        asked.append((given, system, systems))
    if colon and system in systems:
        asked.append((given, partition, systems[system]))
    asked += [(f"--mode={mode}", mode, modes) for mode in known["mode"][-1:]]
    for option, name, names in asked:
        if name not in (there := list(names)):
            raise BadInput(
                "unknown-name",
                f"{option}: there is no '{name}'{meant(name, there)}; there are "
                f"{', '.join(there)}.",
            )


def arguments(
    words: Sequence[str], options: Mapping[str, str], *, shortened: bool = False
) -> dict[str, list[str]]:
    """Arguments of options on ReFrame's command line, by long name; none
    where it cannot be read: ReFrame says why.

    :param options: short name (or the long one, if there is no other) to the
        long name without its dashes and with ``_``.
    :param shortened: long names count cut short, too, as ReFrame takes them.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=shortened, exit_on_error=False)
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
