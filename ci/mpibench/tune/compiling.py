"""The tuning file that a library itself makes of proven settings, for those who load one file rather than set variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from reframe_tests.harness.cases.sweep.variants import TUNED
from reframe_tests.harness.mpis.tuning.model import DEFAULT, Compilation
from reframe_tests.harness.sites.tuned_settings import TunedSettings, checksum
from reframe_tests.harness.vocabulary import BadInput

from ..night import supervision
from . import measuring, proof

#: Seconds that it may take at least, whatever is left of a budget: a start of the library and two more, and a session.
LEAST_S = 120.0


@dataclass(frozen=True)
class Compiled:
    """What became of a tuning file.

    :param name: of the file; ``content``: empty where there is none.
    :param why: there is none.
    """

    name: str
    content: bytes = b""
    why: str = ""

    @property
    def files(self) -> Mapping[str, bytes]:
        """Name to content."""
        return {self.name: self.content} if self.content else {}


def compile_settings(
    how: Compilation, base: measuring.Order, found: TunedSettings, candidate: Path, folder: Path, limit_s: float
) -> Compiled:
    """Have the library make its file of settings that were written to a folder, in a job under their condition.

    The library starts three times: with the variables it writes the file; with the file alone, which it must say that it has
    read, it must write the same bytes again; and without either, others (``sweep.outcomes``).

    :param candidate: the settings' folder; ``folder``: for report and log.
    """
    collective = next(rule.collective for rule in found.rules)
    order = replace(
        base,
        algorithms={collective: f"{DEFAULT}+{TUNED}"},
        repeats=1,
        seconds=proof.LEAST_LAUNCH_S,
        tuned_files=str(candidate),
        show=False,
        compiles=True,
    )
    try:
        session = measuring.run(order, folder, "compiled", max(limit_s, LEAST_S)).session
    except supervision.OutOfTime:
        return Compiled(how.name, why="its job was not done in time")
    except BadInput as error:
        return Compiled(how.name, why=str(error).rstrip("."))
    case = measuring.cases_of(session, (collective,)).get(collective)
    if (why := measuring.why_unusable(case)) or case is None:
        return Compiled(how.name, why=why.rstrip("."))
    row = case.condition.get("algorithms", {}).get(TUNED, {})
    made = row.get("compiled")
    if not isinstance(made, Mapping):
        return Compiled(how.name, why=str(row.get("not_compiled") or "nothing was asked of the library").rstrip("."))
    path = Path(str(session.info.get("workdir") or ".")) / case.directory / made["file"]
    try:
        content = path.read_bytes()
    except OSError as error:
        return Compiled(how.name, why=f"{path} cannot be read ({error.strerror})")
    if checksum(content) != made["sha256"]:
        return Compiled(how.name, why=f"{path} is no longer what the job wrote")
    return Compiled(how.name, content)
