"""Tuned settings of a stack under a condition: a folder with the files that the library reads, and
a record of the proof that they help.

``site_configs/<system>/tuning/<stack>/<fabric>_nn_<N>_np_<N>_ppn_<N>_<pinning>/tuned.json``,
written by ``mpibench tune`` beside the library's own files. Tests load it with ``-S tuned=yes``. A
record of another MPI release is rejected, and so is one that was edited, or whose files were.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..mpis import registry as mpis
from ..mpis.tuning.model import FOLDER, AlgorithmRule, Compilation, Tuning
from ..stacks.stack import Stack
from ..vocabulary import BadInput, NotMeasured
from . import site

NAME = "tuned.json"
#: Key of the checksum of all others.
SUM = "sha256"
#: How to get, or renew, one.
REMEDY = "mpibench tune"
_DIGITS = 12


@dataclass(frozen=True)
class TunedPlace:
    """What tuned settings are for.

    :param ppn: processes per node, as a number.
    """

    system: str
    stack: str
    fabric: str
    nodes: int
    ppn: int
    pinning: str

    @property
    def ranks(self) -> int:
        """Ranks of the communicators that the rules are for."""
        return self.nodes * self.ppn

    @property
    def spread(self) -> bool:
        """Whether they are on several nodes with several on each."""
        return self.nodes > 1 and self.ppn > 1

    @property
    def name(self) -> str:
        """Name of the folder."""
        return f"{self.fabric}_nn_{self.nodes}_np_{self.ranks}_ppn_{self.ppn}_{self.pinning}"

    @property
    def folder(self) -> Path:
        """Where they are kept."""
        return site.references_file(self.system).parent / "tuning" / self.stack / self.name

    @property
    def text(self) -> str:
        """In the words of the command line."""
        return (
            f"{self.stack} on {self.system}, {self.fabric}, {self.nodes} x {self.ppn}, "
            f"{self.pinning}"
        )


@dataclass(frozen=True)
class TunedSettings:
    """One record.

    :param env: variables; ``{folder}`` in a value stands for the folder of the record.
    :param files: name to SHA-256 of each file that a variable refers
        to; ``further``: of those beside.
    :param proof: what the settings bring, as ``mpibench tune`` writes it.
    :param compiled: name to SHA-256 of the file that the library
        itself made of the settings, if it did.
    """

    place: TunedPlace
    mpi: str
    mpi_version: str
    lock_hash: str
    made: str
    env: Mapping[str, str]
    files: Mapping[str, str]
    further: Mapping[str, str]
    rules: tuple[AlgorithmRule, ...]
    proof: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    compiled: Mapping[str, str] = field(default_factory=dict)
    layout: Literal[2] = 2

    @property
    def id(self) -> str:
        """What is stored with each case measured with it: a
        checksum of what the library is given.
        """
        given = (
            [asdict(rule) for rule in self.rules],
            dict(self.env),
            dict(self.files),
            self.mpi_version,
        )
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:_DIGITS]

    @property
    def compilation(self) -> Compilation | None:
        """How the library makes a file of its own of them; ``None``: it does not."""
        tuning = mpis.find(self.mpi).tuning
        return tuning.compilation if tuning else None

    def environment(self, folder: Path) -> dict[str, str]:
        """Variables for a job that reads the files in a folder."""
        return {name: value.replace(FOLDER, str(folder)) for name, value in self.env.items()}

    def write(
        self, folder: Path, texts: Mapping[str, str], compiled: Mapping[str, bytes] | None = None
    ) -> None:
        """Write record and files, the record last; if there is no space for all, the old ones stay.

        An old compiled file without a successor is removed: it would be mistaken for one of these.

        :raises BadInput: they cannot be written.
        """
        own = asdict(self)
        record = (
            json.dumps({**own, SUM: checksum(json.dumps(own, sort_keys=True))}, indent=1) + "\n"
        )
        whole = {
            **{name: text.encode() for name, text in texts.items()},
            **(compiled or {}),
            NAME: record.encode(),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in whole.items():
                (folder / f".{name}").write_bytes(content)
            for name in whole:
                (folder / f".{name}").replace(folder / name)
            if self.compilation and self.compilation.name not in whole:
                (folder / self.compilation.name).unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(
                "cannot-write",
                f"cannot write {folder} ({error.strerror}): correct its permissions or file "
                "system.",
            ) from None


def checksum(content: str | bytes) -> str:
    """SHA-256 of a file's content."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def tuning_of(stack: Stack) -> Tuning:
    """What can be tuned of a stack's MPI.

    :raises NotMeasured: nothing is known.
    """
    tuning = mpis.find(stack.mpi).tuning
    if tuning is None:
        raise NotMeasured(
            f"{stack.mpi}'s collective algorithms cannot be set; add how to its file in "
            "harness/mpis"
        )
    return tuning


def read(folder: Path) -> TunedSettings:
    """A record, its files compared with it.

    :raises BadInput: it cannot be read, or is not of this form; it
        or a file was edited, or is gone.
    """
    path = folder / NAME
    try:
        content = json.loads(path.read_text())
        settings = msgspec.convert(content, TunedSettings)
        recorded = content.pop(SUM, "")
    except OSError as error:
        raise BadInput(
            "file-unreadable", f"{path} cannot be read ({error.strerror}): make it with {REMEDY}."
        ) from None
    except ValueError as error:
        raise BadInput(
            "file-unreadable",
            f"{path} is not a record of tuned settings ({error}): recreate it with {REMEDY}.",
        ) from None
    if recorded != checksum(json.dumps(content, sort_keys=True)):
        raise BadInput(
            "changed-since",
            f"{path} was changed after it was written: recreate it with {REMEDY}.",
        )
    for name, wanted in {**settings.files, **settings.further, **settings.compiled}.items():
        try:
            changed = checksum((folder / name).read_bytes()) != wanted
        except OSError:
            raise BadInput(
                "nothing-measured", f"{folder / name} is gone: recreate it with {REMEDY}."
            ) from None
        if changed:
            raise BadInput(
                "changed-since",
                f"{folder / name} was changed after it was written: recreate it with {REMEDY}.",
            )
    if mpis.find(settings.mpi).tuning is None:
        raise BadInput(
            "not-comparable", f"{path} is for {settings.mpi}, whose algorithms cannot be set."
        )
    return settings


def find(place: TunedPlace, stack: Stack) -> TunedSettings:
    """The settings for a condition.

    :raises NotMeasured: there are none.
    :raises BadInput: they are of another release of the MPI or
        another condition, or as :func:`read`.
    """
    if not (place.folder / NAME).exists():
        raise NotMeasured(f"there are no tuned settings of {place.text}; make them with {REMEDY}")
    settings = read_of(place)
    check_release(settings, stack)
    return settings


def read_of(place: TunedPlace) -> TunedSettings:
    """The settings in the folder of a condition.

    :raises BadInput: they are of another condition, as in a folder
        that was copied, or as :func:`read`.
    """
    settings = read(place.folder)
    if settings.place != place:
        raise BadInput(
            "not-comparable",
            f"{place.folder} has the settings of {settings.place.text}: make those of "
            f"{place.text} with {REMEDY}.",
        )
    return settings


def check_release(settings: TunedSettings, stack: Stack) -> None:
    """Make sure that settings are of a stack's release.

    :raises BadInput: they are of another.
    """
    if (settings.mpi, settings.mpi_version) != (stack.mpi, stack.mpi_version):
        raise BadInput(
            "not-comparable",
            f"the tuned settings of {settings.place.text} are for {settings.mpi} "
            f"{settings.mpi_version}, but the stack is {stack.mpi} {stack.mpi_version}: prove them "
            f"again with '{REMEDY} --check', or make new ones.",
        )
