"""The tuned collectives that ``mpibench tune`` has proven and installed for the fabric and the pinning that are recommended.

Their rules hold for communicators of exactly as many ranks as were measured, so that nothing changes for others. Of several
conditions the one with most ranks is taken, and the others are named: libraries read one file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reframe_tests.harness.mpis.tuning.model import DEFAULT
from reframe_tests.harness.sites import site, tuned_settings
from reframe_tests.harness.sites.tuned_settings import TunedSettings
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

from ...store.quantity_text import size_text

#: Folder beside the modulefiles that the library's files are copied to.
FOLDER = "tuning"
#: As a proof's rows have it (:data:`mpibench.tune.race.BETTER`), and the size that stands for all.
_BETTER, _ALL_SIZES = "better", 0


@dataclass(frozen=True)
class TunedCollectives:
    """What was installed for one condition.

    :param folder: where it is installed.
    """

    settings: TunedSettings
    folder: Path

    def variables(self, folder: Path) -> dict[str, str]:
        """What to set where the files are in a folder, as an absolute path."""
        return self.settings.environment(folder)

    def texts(self) -> dict[str, str]:
        """Name to text of each file that the library reads."""
        try:
            return {name: (self.folder / name).read_text() for name in self.settings.files}
        except OSError as error:
            raise BadInput(f"{error.filename} cannot be read ({error.strerror}): tune again.") from None

    @property
    def facts(self) -> list[str]:
        """What it is for and what it brings, a sentence each."""
        place, proof = self.settings.place, self.settings.proof
        said = [
            f"tuning: collectives of communicators of {place.ranks} ranks, {place.ppn} a node, on {place.fabric}; proven "
            f"{self.settings.made[:10]}, session {str(proof.get('session', ''))[:8]}"
        ]
        shown = proof.get("evidence", {})
        for collective in dict.fromkeys(rule.collective for rule in self.settings.rules):
            # All sizes together have no algorithm of their own where sizes have several.
            rows = [
                row
                for row in proof.get("rows", ())
                if row["collective"] == collective and row["outcome"] == _BETTER and row["word"] != DEFAULT
            ]
            best = min(rows, key=lambda row: float(row["ratio"]), default=None)
            if best:
                size = "all sizes" if best["message_bytes"] == _ALL_SIZES else size_text(best["message_bytes"])
                times, low, high = (1 / float(best[name]) for name in ("ratio", "high", "low"))
                said.append(
                    f"tuning: MPI_{collective} is up to {times:.2f} ({low:.2f} to {high:.2f}) times as fast as by the "
                    f"library's own choice ({size}, algorithm {best['word']}); shown by {shown.get(collective)}"
                )
        if how := self.settings.compilation:
            said += [
                f"tuning: {self.folder / name} is the same as one file, for {how.read} in place of these variables"
                for name in self.settings.compiled
            ]
        if shared := proof.get("oversubscribed"):
            said.append(f"tuning: measured with {shared}")
        return [*said, *([f"tuning: {self.settings.note}"] if self.settings.note else [])]

    def as_data(self) -> Mapping[str, Any]:
        """For programs."""
        rules = [
            {"collective": rule.collective, "first": rule.first, "last": rule.last, "algorithm": rule.word}
            for rule in self.settings.rules
        ]
        return {"id": self.settings.id, "ranks": self.settings.place.ranks, "rules": rules, "folder": str(self.folder)}


def find(system: str, stack: Stack, fabrics: set[str], pinning: str, reasons: list[str]) -> TunedCollectives | None:
    """The tuned collectives for a recommendation; why there are none, or not all, is added to the reasons.

    :param fabrics: the recommended one; those that were measured where none is.
    """
    top = site.references_file(system).parent / "tuning" / stack.name
    usable: list[TunedCollectives] = []
    for path in sorted(top.glob(f"*/{tuned_settings.NAME}")):
        try:
            found = tuned_settings.read(path.parent)
            if found.place.fabric not in fabrics or found.place.pinning != pinning:
                continue
            tuned_settings.check_release(found, stack)
        except BadInput as error:
            reasons.append(f"tuning: {str(error).rstrip('.')}")
            continue
        usable.append(TunedCollectives(found, path.parent))
    if not usable:
        where = f"{', '.join(sorted(fabrics))} with pinning {pinning}"
        reasons.append(f"tuning: no tuned collectives are installed for {where}; see {tuned_settings.REMEDY}")
        return None
    best = max(usable, key=lambda one: (one.settings.place.ranks, one.settings.place.name))
    reasons += [
        f"tuning: that of {one.settings.place.name} is not used, as a library reads one file"
        for one in usable
        if one is not best
    ]
    return best
