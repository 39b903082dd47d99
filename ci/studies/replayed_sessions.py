"""What ``accept --confirm`` would have said of stored sessions: ``python -m studies.replayed_sessions --folder FOLDER``.

Of a folder of ``studies.upgrade``: each session of a kind (``link=healthy``, ``link=slow``) is judged against the nights, and
what is to be measured again is taken from the sessions of its kind that follow it, the first after the last. Nothing is
measured. Sessions are used several times and share the nights: the counts are of one machine's day and no independent trials.
Prints per kind how many were accepted, refused and inconclusive, and with how many fresh sessions.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mpibench.judge import accept
from mpibench.judge.plan.record import ListedCase
from mpibench.night import confirmed_acceptance as confirmed
from mpibench.night.remeasuring import CalledCase, Remeasured
from mpibench.store import sessions
from mpibench.store.sessions import CONFIRMS, Session
from mpibench.store.store import Store
from reframe_tests.harness.sites.site import ROOT

from .upgrade import BASELINE, SYSTEM

KINDS = ("healthy", "slow")


def stand_in(cases: Sequence[CalledCase], session: Session) -> Remeasured:
    """A session as if it had measured these cases again."""
    found = Remeasured(tuple(cases), 0.0, [session])
    own = {ListedCase.of(case): case.uuid for case in session.cases}
    found.measured.update({case: own[case.place] for case in cases})
    return found


def replay(dataset: Path, own: Sequence[Session], number: int) -> tuple[str, int]:
    """The decision on one session, and how many of the ones after it were used.

    :param own: sessions of its kind, in order.
    """
    first = accept.decide(Store(dataset), BASELINE, own[number].uuid, accept.AcceptanceOptions(SYSTEM))
    cases = confirmed.cases_to_measure(first)
    if not cases:
        return first.decision, 0
    later = [own[(number + step) % len(own)] for step in range(1, len(own))]
    rounds = [stand_in(cases, later[0])]
    while wanting := [one for one in confirmed.inconclusive_after(first, Store(dataset), rounds) if one.wants_more]:
        if len(rounds) == len(later):
            break
        rounds.append(stand_in(confirmed.inconclusive_cases(first, wanting), later[len(rounds)]))
    return confirmed.confirm(first, Store(dataset), rounds).decision, len(rounds)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "results" / "upgrade", help="of studies.upgrade")
    folder = parser.parse_args().folder
    stored = [sessions.read_session(folder / "results.db", uuid) for uuid in sessions.list_sessions(folder / "results.db")]
    for kind in KINDS:
        own = [one for one in stored if one.labels.get("link") == kind and CONFIRMS not in one.labels]
        counts = Counter(replay(folder / "dataset", own, number) for number in range(len(own)))
        said = (f"{count} {decision} with {fresh} fresh" for (decision, fresh), count in sorted(counts.items()))
        print(f"{kind}: {', '.join(said) or 'no session'}", flush=True)


if __name__ == "__main__":
    main()
