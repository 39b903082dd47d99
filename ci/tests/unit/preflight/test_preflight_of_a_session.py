"""The session in which the nodes of a night were looked at before is found."""

from mpibench.night import preflight
from mpibench.store.sessions import Session
from reframe_tests.harness.vocabulary import BadInput
from synthetic_session import case, changed, session_of

NIGHT = session_of(case(), uuid="night", time_start_unix=1_795_000_000.0)


def looked(minutes=2, label="preflight", **entry):
    """A session of preflight some minutes before the night."""
    started = NIGHT.info["time_start_unix"] - 60 * minutes
    whole = session_of(case(), uuid="before", time_start_unix=started, run=label)
    return Session(whole.info, tuple(changed(one, **entry) for one in whole.cases))


class Sessions(list[Session | str]):
    """Sessions before the night, oldest first, as a store has them; a text:
    one that cannot be read, a minute before it.
    """

    @property
    def starts(self):
        lost = NIGHT.started - preflight.WITHIN / 20
        rows = {getattr(one, "uuid", one): getattr(one, "started", lost) for one in self}
        return {**rows, NIGHT.uuid: NIGHT.started}

    def session(self, uuid):
        for one in self:
            if isinstance(one, Session) and one.uuid == uuid:
                return one
        raise BadInput("file-damaged", f"session {uuid} is cut off.")


def test_a_session_has_the_preflight_right_before_it():
    between = session_of(case(), uuid="between", time_start_unix=NIGHT.info["time_start_unix"] - 1)
    for sessions in (
        [],
        [looked(label="nightly")],
        [looked(minutes=60)],
        [looked(system="other")],
        [looked(), between],
        ["lost"],
    ):
        assert preflight.find(NIGHT, Sessions(sessions)) is None
    before = looked()
    assert preflight.find(NIGHT, Sessions([before])) == before
