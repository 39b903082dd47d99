"""What a tuning has measured so far, in a folder of its own, so that it can be resumed: run reports, and what was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reframe_tests.harness.field_types import find_fault
from reframe_tests.harness.sites.tuned_settings import Place
from reframe_tests.harness.vocabulary import BadInput

from ... import whole_file

NAME = "state.json"
LAYOUT = 2


@dataclass
class Round:
    """One session of a tuning.

    :param report: file of ReFrame's run report, in the folder.
    :param asked: collective to its algorithms, in the words of the test.
    :param seconds: that it took.
    :param launch_s: that a launch of all sizes was to time its calls for.
    """

    report: str
    asked: Mapping[str, str]
    seconds: float
    launch_s: float


@dataclass
class TuneState:
    """A tuning.

    :param library: MPI and release; a tuning of another one begins again.
    :param algorithms: collective to the algorithms it began with.
    :param refused: collective to algorithm to why it cannot be measured.
    :param finished: when nothing was left to measure and what came of it was installed; empty before.
    :param level: of the message sizes; empty in older states.
    """

    place: Place
    library: str
    algorithms: Mapping[str, tuple[str, ...]]
    rounds: list[Round] = field(default_factory=list)
    refused: dict[str, dict[str, str]] = field(default_factory=dict)
    finished: str = ""
    level: str = ""

    @property
    def measured_s(self) -> float:
        """Seconds of all rounds."""
        return sum(each.seconds for each in self.rounds)

    def write(self, folder: Path) -> None:
        """Write it.

        :raises BadInput: it cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            whole_file.write_text(folder / NAME, json.dumps({"layout": LAYOUT, **asdict(self)}, indent=1) + "\n")
        except OSError as error:
            raise BadInput(f"cannot write {folder} ({error.strerror}): correct its rights or its file system.") from None


def read(folder: Path) -> TuneState | None:
    """The tuning of a folder; ``None`` where there is none.

    :raises BadInput: it cannot be read.
    """
    path = folder / NAME
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        if content.pop("layout") != LAYOUT:
            raise BadInput(f"{path} has another layout than {LAYOUT}; begin again with --restart.")
        place = Place(**content.pop("place"))
        rounds = [Round(**row) for row in content.pop("rounds")]
        words = {name: tuple(each) for name, each in content.pop("algorithms").items()}
        found = TuneState(place=place, rounds=rounds, algorithms=words, **content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} cannot be read ({error}); begin again with --restart.") from None
    if fault := next(filter(None, (find_fault(each) for each in (found, *rounds))), ""):
        raise BadInput(f"{path}: {fault}; begin again with --restart.")
    return found
