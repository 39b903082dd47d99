"""A session as its report shows it: what its templates ask about cases and stacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reframe_tests.harness.stacks.stack import Stack

from ..confirmation.references import StoredAnswers
from ..pages.palette import SYMBOLS
from ..published.curves import Curve
from ..results.sessions import Case, Session
from .cases import Place, place_of
from .charts import stack_names
from .planned import ReportPlan
from .preflight import Preflight
from .summary import OUTCOMES, Outcome, outcome_of

#: Nothing was measured again.
NOT_AGAIN = StoredAnswers()


@dataclass(frozen=True)
class View:
    """One session with what stands beside it.

    :param places: where the files of each case are.
    :param stacks: names in the order that gives each its colour and marker.
    :param built: stacks on this machine, by name.
    :param published: curves of papers to put beside the measured ones.
    :param again: what measuring again gave for cases that missed a reference.
    :param preflight: the session in which the nodes were looked at before; ``None`` without one.
    :param plan: by which the session was measured; ``None`` without one.
    """

    session: Session
    places: Sequence[Place]
    stacks: Sequence[str]
    built: dict[str, Stack]
    published: Sequence[Curve] = ()
    again: StoredAnswers = NOT_AGAIN
    preflight: Preflight | None = None
    plan: ReportPlan | None = None
    _numbers: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        session: Session,
        base: Path,
        stacks: Iterable[Stack] = (),
        published: Sequence[Curve] = (),
        again: StoredAnswers = NOT_AGAIN,
        preflight: Preflight | None = None,
        plan: ReportPlan | None = None,
    ) -> View:
        """A session as seen from a page in the folder ``base``."""
        places = [place_of(session, case, base) for case in session.cases]
        numbers = {case.uuid: number for number, case in enumerate(session.cases)}
        built = {stack.name: stack for stack in stacks}
        return cls(session, places, stack_names(session), built, published, again, preflight, plan, numbers)

    def number(self, case: Case) -> int:
        """Number by which the page's script finds a case."""
        return self._numbers[case.uuid]

    def place(self, case: Case) -> Place:
        """Where the files of a case are."""
        return self.places[self.number(case)]

    def outcome(self, case: Case) -> Outcome:
        """What became of a case."""
        return OUTCOMES[outcome_of(self.session, case)]

    def style(self, stack: str) -> int:
        """Number of a stack's marker and colour; the last one for a stack that measured nothing."""
        return self.stacks.index(stack) % len(SYMBOLS) if stack in self.stacks else len(SYMBOLS) - 1
