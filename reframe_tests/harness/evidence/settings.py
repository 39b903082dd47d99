"""The check that every rank had the variables the condition set: what was asked for is compared with what arrived.

A launcher may drop a variable on the way to another node, a shell may cut its value, a user's profile may set it again. The
number would then stand for another setting than the one stored beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..launchers import registry
from .checks import RECORDER, name_ranks
from .rank_records import RankEvidence

#: Characters of a value that are shown in a sentence.
_SHOWN = 160
#: Search paths, in front of which a launcher may put its own folders (Open MPI's mpirun(1), ``--prefix``).
SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH")


def check_settings(
    ranks: Sequence[RankEvidence], asked: Mapping[str, str], by_launcher: Mapping[str, str] | None = None
) -> list[str]:
    """Sentences unless every rank had each variable with the value that was asked for.

    What a launcher sets again (``SLURM_CPU_BIND``) is not compared: the ranks' CPU masks show what came of it.

    :param asked: name to value, taken literally.
    :param by_launcher: likewise, for variables the launcher reads; a rank may be without, but not have another value.
    """
    launchers = registry.known().values()
    private = tuple(prefix for row in launchers for prefix in row.private)
    rewritten = tuple(prefix for row in launchers for prefix in row.rewritten)
    optional = {**(by_launcher or {}), **{name: value for name, value in asked.items() if name.startswith(private)}}
    sentences = []
    for name, value in {**asked, **optional}.items():
        if name.startswith(rewritten):
            continue
        wrong: dict[str | None, list[RankEvidence]] = {}
        for rank in ranks:
            had = _had(rank, name)
            if not _is(name, had, value) and not (had is None and name in optional):
                wrong.setdefault(had, []).append(rank)
        sentences += [
            f"asked for {name}={_show(value)}, but {name_ranks(there)} had {'none' if had is None else _show(had)}."
            for had, there in wrong.items()
        ]
    return sentences


def _had(rank: RankEvidence, name: str) -> str | None:
    """What a rank had of a variable; of ``LD_PRELOAD`` what stands behind the evidence library, which comes first."""
    value = rank.environment.get(name)
    if name != "LD_PRELOAD" or value is None:
        return value
    first, _, rest = value.partition(":")
    return (rest or None) if RECORDER.fullmatch(Path(first).name) else value


def _is(name: str, had: str | None, value: str) -> bool:
    """Whether a rank had the value that was asked for, behind folders of the launcher's own where these may stand."""
    return had == value or (name in SEARCH_PATHS and had is not None and had.endswith(f":{value}"))


def _show(value: str) -> str:
    """A value in quotes, cut where it is long: around the place that differs it would not fit a sentence anyway."""
    return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}... ({len(value)} characters)"
