"""The session in which the nodes of a night were looked at before: the one that was stored right before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput

from ..night.preflight import LIMIT_MINUTES, RUN
from ..results.sessions import Session, read_session, session_starts

#: A night starts to measure so much after its preflight has started, at most: its time, and what loading all tests takes.
WITHIN = timedelta(minutes=LIMIT_MINUTES + 5)


@dataclass(frozen=True)
class Preflight:
    """Of one session.

    :param session: the one in which its nodes were looked at; ``None`` where it cannot be read.
    :param fault: why not, one sentence.
    """

    session: Session | None
    fault: str = ""


def find(session: Session, database: Path) -> Preflight | None:
    """The preflight of a session; ``None`` where it had none.

    One that other sessions followed, or another system's, is not its own. One that cannot be read may have been.
    """
    before = [(uuid, started) for uuid, started in session_starts(database).items() if started < session.started]
    if not before or session.started - before[-1][1] > WITHIN:
        return None
    uuid = before[-1][0]
    try:
        found = read_session(database, uuid)
    except BadInput as error:
        return Preflight(
            None, f"session {uuid[:8]}, which may be that in which the nodes were looked at, cannot be read: {error}"
        )
    return Preflight(found) if found.labels.get("run") == RUN and found.systems == session.systems else None
