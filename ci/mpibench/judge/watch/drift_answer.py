"""What ``mpibench drift`` answers: lines for people, and plain data for programs (:class:`..answers.Drift`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from reframe_tests.harness.printable import plain_data

from ...store.session_values import CONDITION
from .drift import Event, History

#: Exit status where no change could have been found.
TOO_FEW_NIGHTS = 3
_SHOWN = (*CONDITION, "suite", "benchmark", "variant", "ranks", "groups", "quantity", "message_bytes")


@dataclass(frozen=True)
class DriftAnswer:
    """Changes of the last nights.

    :param absent: a sentence for each group of metrics that the last night lacks.
    """

    history: History
    events: Sequence[Event]
    absent: Sequence[str]

    @property
    def status(self) -> int:
        """Exit status: 0 no change, or only better or accepted ones; 1 something is worse or missing; or too few nights."""
        if self.absent or any(event.worse for event in self.events):
            return 1
        return TOO_FEW_NIGHTS if self.history.too_few else 0

    @property
    def notes(self) -> list[str]:
        """What could not be looked for."""
        options = " ".join(self.history.partial)
        partial = options and f"the last session is partial (started with {options}): what it lacks is not looked for"
        return [*filter(None, [partial, self.history.too_few, self.history.young])]

    @property
    def lines(self) -> list[str]:
        """The answer for a terminal; empty if nothing changed."""
        return [*map(str, self.events), *self.absent, *self.notes]

    def as_data(self) -> dict[str, Any]:
        """The answer as plain data, as :class:`..answers.Drift` lists it."""
        nights = self.history.nights
        data: dict[str, Any] = plain_data(
            {
                "decision": {0: "unchanged", 1: "worse", TOO_FEW_NIGHTS: "too few nights"}[self.status],
                "system": self.history.system,
                "session": nights["session"][-1],
                "started": nights["started"][-1].isoformat(),
                "first_night": nights["started"][0].date().isoformat(),
                "nights": nights.height,
                "metrics": self.history.metrics.height,
                "options": self.history.partial,
                "events": [event_data(event) for event in self.events],
                "absent": self.absent,
                "notes": [*self.notes, *self.history.notes],
            }
        )
        return data


def event_data(event: Event) -> dict[str, Any]:
    """One change as plain data."""
    metrics = event.metrics.select(*_SHOWN, slower=pl.Series(np.expm1(event.metrics["slower"].to_numpy())))
    return {
        "text": str(event),
        "since": event.since.isoformat(),
        "session": event.session,
        "stack": event.stack,
        "fabric": event.fabric,
        "slower": event.slower,
        "worse": event.worse,
        "accepted": None if event.accepted is None else str(event.accepted),
        "changed": [{"what": name, "before": before, "after": after} for name, before, after in event.changed],
        "metrics": metrics.to_dicts(),
    }
