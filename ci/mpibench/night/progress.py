"""How far a night is and how long it will still take: ReFrame prints what is done; the plan or the
last night gives the cost of the rest.
"""

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

#: Seconds between two sentences.
EVERY_S = 60.0
#: ReFrame 4.10, ``frontend/executors/__init__.py``: a case begins.
_BEGUN = re.compile(r"\[ RUN  ")
#: ReFrame 4.10, ``frontend/executors/policies.py``: a case that ended, its number and that of all.
_ENDED = re.compile(
    r"\[ +(?P<status>OK|FAIL|XFAIL|XPASS|ABORT"
    r"|SKIP) *\] \( *(?P<done>\d+)/(?P<all>\d+)\) (?P<name>.+) /[0-9a-f]+ "
    r"@(?P<system>[^\s:]+):(?P<partition>[^\s+]+)\+(?P<stack>\S+)"
)


class Progress:
    """Reads the lines of a session, and says each minute what is left of it.

    What the cases that ended took, as a share of what they were expected to take, is what the
    others will. Skipped cases take nothing.

    :param seconds_of: seconds that each case of a system is expected
        to take; empty if nothing is known.
    :param say: takes a sentence.
    :param clock: seconds since any moment.
    """

    def __init__(
        self,
        seconds_of: Callable[[str], Mapping[ListedCase, float]],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds_of = seconds_of
        self._say = say
        self._clock = clock
        self._said_at = clock()
        self._began: float | None = None
        self._costs: Mapping[ListedCase, float] | None = None
        self._left: dict[ListedCase, float] = {}
        self._spent = 0.0
        #: Cases of which nothing was known: those that ended, and
        #: those of them that were not skipped.
        self._new = self._new_ran = 0
        #: Cases that ended and all, when the last one ended, and seconds that were left then.
        self._at: tuple[int, int, float, float | None] | None = None

    def read(self, line: str) -> None:
        """Take the next line."""
        if self._began is None and _BEGUN.match(line):
            self._began = self._clock()
        match = _ENDED.match(line)
        if not match or self._began is None:
            return
        if self._costs is None:
            self._costs = self._seconds_of(match["system"])
            self._left = dict(self._costs)
        # What a case takes of which nothing is known; all alike where nothing is known of any.
        usual = statistics.fmean(self._costs.values()) if self._costs else 1.0
        cost = self._left.pop(ListedCase(match["partition"], match["stack"], match["name"]), None)
        ran = match["status"] != "SKIP"
        if cost is None:
            self._new, self._new_ran = self._new + 1, self._new_ran + ran
        if ran:
            self._spent += usual if cost is None else cost
        done = int(match["done"])
        total = int(match["all"])
        now = self._clock()
        known = list(self._left.values())
        left = total - done
        new = left - len(known)
        each = usual * (self._new_ran / self._new if self._new else 1.0)
        # Below none: some of the earlier night's are not measured
        # tonight, and which these are is unknown.
        ahead = sum(known) + new * each if new >= 0 else statistics.fmean(known) * left
        self._at = (
            done,
            total,
            now,
            ahead * (now - self._began) / self._spent if self._spent else None,
        )

    def tell(self) -> None:
        """Print what is left if nothing was printed for a minute; call it about every second."""
        now = self._clock()
        at = self._at
        if now - self._said_at < EVERY_S or (at and at[0] == at[1]):
            return
        self._said_at = now
        if at is None:
            self._say("no case has begun yet" if self._began is None else "no case has ended yet")
            return
        done, total, ended, left_s = at
        basis = "" if self._costs else " (no earlier night shows their cost)"
        if left_s is None:
            rest = "time left unknown"
        elif (still := left_s - (now - ended)) >= 0:
            rest = f"about {duration(still)} left"
        else:
            rest = "running cases take longer than expected"
        self._say(f"{done} of {total} cases; {rest}{basis}")


def duration(seconds: float) -> str:
    """An approximate time: ``30 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{10 * max(round(seconds / 10), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def seconds_of_last_night(folder: Path, label: str) -> Callable[[str], Mapping[ListedCase, float]]:
    """What each case of the newest night of a label took, by system;
    nothing if there is none, or it cannot be read.

    :param folder: of the dataset.
    """

    def seconds_of(system: str) -> Mapping[ListedCase, float]:
        try:
            earlier = record.read_past(
                Store(folder), system, label, datetime.now(timezone.utc).date() + timedelta(days=1)
            )
        except BadInput:  # what is wrong with it, other steps of the night say
            return {}
        ran = earlier.ran.get(earlier.nights[0], frozenset()) if earlier.nights else frozenset()
        histories = {case: earlier.cases[case].seconds for case in ran if case in earlier.cases}
        return {
            case: making.likely_seconds(seconds) for case, seconds in histories.items() if seconds
        }

    return seconds_of
