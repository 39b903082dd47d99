"""What a night may take: minutes, or node-hours."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reframe_tests.harness.vocabulary import BadInput

from .costs import Cost

_TEXT = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>m|min|h|nodeh)")
#: Unit as given to the unit that is counted in, and how many of these it is.
_UNITS = {"m": ("min", 1.0), "min": ("min", 1.0), "h": ("min", 60.0), "nodeh": ("node-hours", 1.0)}


@dataclass(frozen=True)
class Budget:
    """A bound.

    :param text: as given.
    :param unit: ``min`` or ``node-hours``.
    :param amount: of these units.
    """

    text: str
    unit: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read ``30m``, ``1.5h`` or ``20nodeh``.

        :raises BadInput: it is none of these, or nothing.
        """
        found = _TEXT.fullmatch(text.strip())
        if not found or not float(found["number"]):
            raise BadInput(f"a budget of {text!r} is none: write minutes (30m), hours (1.5h) or node-hours (20nodeh), above 0.")
        unit, times = _UNITS[found["unit"]]
        return cls(text.strip(), unit, float(found["number"]) * times)

    def share(self, cost: Cost, wall_per_job_second: float) -> float:
        """What a case takes of it.

        :param wall_per_job_second: seconds a session lasts for each second of its jobs.
        """
        if self.unit == "min":
            return cost.seconds * wall_per_job_second / 60
        return cost.seconds * cost.nodes / 3600

    def format(self, amount: float) -> str:
        """An amount of its unit as text."""
        return f"{amount:.1f} {self.unit}"
