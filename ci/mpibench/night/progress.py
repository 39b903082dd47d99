"""How far a night is, and how long it will still take: ReFrame prints what is done, plan or last night what the rest costs."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput

from ..judge.plan import making, record
from ..judge.plan.record import ListedCase
from ..store.store import Store

#: Seconds between two sentences, at least.
EVERY_S = 60.0
#: ReFrame 4.10, ``frontend/executors/__init__.py``: a case begins.
_BEGUN = re.compile(r"\[ RUN  ")
#: ReFrame 4.10, ``frontend/executors/policies.py``: a case that ended, its number and that of all.
_ENDED = re.compile(
    r"\[ +(?:OK|FAIL|XFAIL|XPASS|ABORT|SKIP) *\] \( *(?P<done>\d+)/(?P<all>\d+)\) (?P<name>.+) /[0-9a-f]+ "
    r"@(?P<system>[^\s:]+):(?P<partition>[^\s+]+)\+(?P<stack>\S+)"
)


class Progress:
    """Reads the lines of a session and says now and then what is left of it.

    :param seconds_of: seconds that each case of a system is expected to take; empty where nothing is known.
    :param say: takes a sentence.
    :param clock: seconds since any moment.
    """

    def __init__(
        self,
        seconds_of: Callable[[str], Mapping[ListedCase, float]],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds_of, self._say, self._clock = seconds_of, say, clock
        self._began: float | None = None
        self._said_at = 0.0
        self._costs: Mapping[ListedCase, float] | None = None
        self._left: dict[ListedCase, float] = {}
        self._spent = 0.0
        self._pending = ""

    def read(self, line: str) -> None:
        """Take the next line; a sentence that was due comes before it."""
        if self._pending:
            self._say(self._pending)
            self._pending = ""
        if self._began is None and _BEGUN.match(line):
            self._began = self._said_at = self._clock()
        match = _ENDED.match(line)
        if not match or self._began is None:
            return
        if self._costs is None:
            self._costs = self._seconds_of(match["system"])
            self._left = dict(self._costs)
        # What a case takes of which nothing is known; all alike where nothing is known of any.
        usual = statistics.fmean(self._costs.values()) if self._costs else 1.0
        self._spent += self._left.pop(ListedCase(match["partition"], match["stack"], match["name"]), usual)
        done, total = int(match["done"]), int(match["all"])
        now = self._clock()
        if done == total or now - self._said_at < EVERY_S:
            return
        known, left = list(self._left.values()), total - done
        new = left - len(known)
        # Below none: some of the earlier night's are not measured tonight, and which these are is not known.
        cost = sum(known) + new * usual if new >= 0 else statistics.fmean(known) * left
        rest = duration(cost * (now - self._began) / self._spent) if self._spent else "an unknown time"
        basis = "" if self._costs else " (no earlier night says what they cost)"
        self._said_at, self._pending = now, f"{done} of {total} cases; about {rest} left{basis}"


def duration(seconds: float) -> str:
    """A time that nobody can know more exactly: ``30 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{10 * max(round(seconds / 10), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def seconds_of_last_night(folder: Path, label: str) -> Callable[[str], Mapping[ListedCase, float]]:
    """What each case of the newest night of a label took, by system; nothing where there is none, or it cannot be read.

    :param folder: of the dataset.
    """

    def seconds_of(system: str) -> Mapping[ListedCase, float]:
        try:
            earlier = record.read_past(Store(folder), system, label, datetime.now(timezone.utc).date() + timedelta(days=1))
        except BadInput:  # what is wrong with it, other steps of the night say
            return {}
        ran = earlier.ran.get(earlier.nights[0], frozenset()) if earlier.nights else frozenset()
        histories = {case: earlier.cases[case].seconds for case in ran if case in earlier.cases}
        return {case: making.likely_seconds(seconds) for case, seconds in histories.items() if seconds}

    return seconds_of
