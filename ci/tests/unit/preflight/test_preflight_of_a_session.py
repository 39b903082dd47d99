"""The session in which the nodes of a night were looked at before is found."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from mpibench.night import preflight
from mpibench.store.sessions import Session
from reframe_tests.harness.vocabulary import BadInput
from synthetic_report import changed, session_of
from synthetic_session import case

NIGHT = session_of(case(), uuid="night", time_start_unix=1_795_000_000.0)


def looked(minutes: float = 2, label: str = "preflight", **entry: Any) -> Session:
    """A session of preflight some minutes before the night."""
    started = NIGHT.info["time_start_unix"] - 60 * minutes
    whole = session_of(case(), uuid="before", time_start_unix=started, run=label)
    return Session(whole.info, tuple(changed(one, **entry) for one in whole.cases))


class Sessions(list[Session | str]):
    """Sessions before the night, oldest first, as a store has them; a text:
    one that cannot be read, a minute before it.
    """

    @property
    def starts(self) -> dict[str, datetime]:
        rows = {one.uuid: one.started for one in self if isinstance(one, Session)}
        lost = {one: NIGHT.started - preflight.WITHIN / 20 for one in self if isinstance(one, str)}
        return {**rows, **lost, NIGHT.uuid: NIGHT.started}

    def session(self, uuid: str) -> Session:
        for one in self:
            if isinstance(one, Session) and one.uuid == uuid:
                return one
        raise BadInput("file-damaged", f"session {uuid} is cut off.")


@pytest.fixture
def stored() -> Any:
    return Sessions()


def test_a_session_has_the_preflight_right_before_it(stored: Any) -> None:
    assert preflight.find(NIGHT, stored) is None
    for other in (looked(label="nightly"), looked(minutes=60), looked(system="other")):
        stored[:] = [other]
        assert preflight.find(NIGHT, stored) is None
    between = session_of(case(), uuid="between", time_start_unix=NIGHT.info["time_start_unix"] - 1)
    stored[:] = [looked(), between]
    assert preflight.find(NIGHT, stored) is None
    stored[:] = [looked()]
    assert preflight.find(NIGHT, stored) == stored[0]
    stored[:] = ["lost"]
    assert preflight.find(NIGHT, stored) is None
