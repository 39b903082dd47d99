"""What tools receive about a night that has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..store.store import Store


@dataclass(frozen=True)
class EndedNight:
    """Argument of the entry points of the group ``mpibench.nights``.

    :param label: of the night.
    :param system: as ReFrame names it; empty where no session was ever stored.
    :param session: id; ``None`` if tonight's was not stored.
    :param cases: number of cases by ReFrame's result.
    :param unjudged: something was slow on a busy machine alone, so that the night is not green.
    :param problems: why it is not green, a sentence each; ``notes``: what its answer says besides.
        A tool may add to both.
    :param step: does what may fail: what to say then, the command that does the same, the work.
    """

    store: Store
    label: str
    system: str
    session: str | None
    cases: Mapping[str, int]
    unjudged: bool
    problems: list[str]
    notes: list[str]
    step: Callable[[str, str, Callable[[], None]], None]
