"""Tuned settings of a stack under a condition: a folder with what the library reads, and a record of what shows that it helps.

``site_configs/<system>/tuning/<stack>/<fabric>_nn_<N>_np_<N>_ppn_<N>_<pinning>/tuned.json``, written by ``mpibench tune``
beside the library's own files. Tests load it with ``-S tuned=yes``. A record of another release of the MPI, of a file that was
edited since, or whose files say something else than its rules is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..mpis import registry as mpis
from ..mpis.tuning.model import FOLDER, AlgorithmRule, Compilation, Tuning
from ..stacks.stack import Stack
from ..vocabulary import BadInput, NotMeasured
from . import site

NAME = "tuned.json"
LAYOUT = 2
#: How to get, or renew, one.
REMEDY = "mpibench tune"
_DIGITS = 12


@dataclass(frozen=True)
class Place:
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
        return f"{self.stack} on {self.system}, {self.fabric}, {self.nodes} x {self.ppn}, {self.pinning}"


@dataclass(frozen=True)
class TunedSettings:
    """One record.

    :param env: variables; ``{folder}`` in a value stands for the folder of the record.
    :param files: name to SHA-256 of each file that a variable refers to; ``further``: of those beside.
    :param proof: what the settings bring, as ``mpibench tune`` writes it.
    :param compiled: name to SHA-256 of the file that the library itself made of the settings, if it did.
    """

    place: Place
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

    @property
    def id(self) -> str:
        """What is stored with each case measured with it: a checksum of what the library is given."""
        given = [asdict(rule) for rule in self.rules], dict(self.env), dict(self.files), self.mpi_version
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:_DIGITS]

    @property
    def checksum(self) -> str:
        """SHA-256 of the whole record."""
        return checksum(json.dumps(asdict(self), sort_keys=True))

    @property
    def compilation(self) -> Compilation | None:
        """How the library makes a file of its own of them; ``None``: it does not."""
        tuning = mpis.find(self.mpi).tuning
        return tuning.compilation if tuning else None

    def environment(self, folder: Path) -> dict[str, str]:
        """Variables for a job that reads the files in a folder."""
        return {name: value.replace(FOLDER, str(folder)) for name, value in self.env.items()}

    def write(self, folder: Path, texts: Mapping[str, str], compiled: Mapping[str, bytes] | None = None) -> None:
        """Write record and files, the record last; where there is no room for all of them, those of before stay.

        A compiled file of settings of before, of which these have none, goes: it would be taken for one of these.

        :raises BadInput: they cannot be written.
        """
        record = json.dumps({"layout": LAYOUT, "sha256": self.checksum, **asdict(self)}, indent=1) + "\n"
        whole = {**{name: text.encode() for name, text in texts.items()}, **(compiled or {}), NAME: record.encode()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in whole.items():
                (folder / f".{name}").write_bytes(content)
            for name in whole:
                (folder / f".{name}").replace(folder / name)
            if self.compilation and self.compilation.name not in whole:
                (folder / self.compilation.name).unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"cannot write {folder} ({error.strerror}): correct its rights or its file system.") from None


def checksum(content: str | bytes) -> str:
    """SHA-256 of a file's content."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def tuning_of(stack: Stack) -> Tuning:
    """What can be tuned of a stack's MPI.

    :raises NotMeasured: nothing is known.
    """
    tuning = mpis.find(stack.mpi).tuning
    if tuning is None:
        raise NotMeasured(f"no control of {stack.mpi}'s collective algorithms is known; add it to its file in harness/mpis")
    return tuning


def read(folder: Path) -> TunedSettings:
    """A record, its files compared with it.

    :raises BadInput: it cannot be read, or is not of this form; a file is gone, was edited or says something else.
    """
    path = folder / NAME
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}): make it with {REMEDY}.") from None
    except ValueError as error:
        raise BadInput(f"{path} is not JSON ({error}): make it again with {REMEDY}.") from None
    try:
        layout, known = content.pop("layout"), content.pop("sha256", "")
        if layout != LAYOUT:
            raise BadInput(f"{path} has another layout than {LAYOUT}: make it again with {REMEDY}.")
        found = msgspec.convert(content, TunedSettings)
    except (AttributeError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise BadInput(f"{path} is not a record of tuned settings ({error}): make it again with {REMEDY}.") from None
    if found.checksum != known:
        raise BadInput(f"{path} was changed after it was written: make it again with {REMEDY}.")
    if fault := _find_foreign(found):
        raise BadInput(f"{path}: {fault}; make it again with {REMEDY}.")
    _check_files(found, folder)
    return found


def _find_foreign(found: TunedSettings) -> str:
    """What settings of the library cannot be: a variable of something else, a file elsewhere; empty where there is none."""
    own, files = mpis.find(found.mpi).settings, {*found.files, *found.further, *found.compiled}
    for name, value in found.env.items():
        if own and not name.startswith(own):
            return f"{name} is no variable of {found.mpi}"
        if "/" in value and value.removeprefix(f"{FOLDER}/") not in found.files:
            return f"{name} names another file than those beside it"
    elsewhere = [name for name in files if Path(name).name != name]
    return f"{elsewhere[0]!r} is no name of a file beside it" if elsewhere else ""


def _check_files(found: TunedSettings, folder: Path) -> None:
    for name, wanted in found.compiled.items():
        try:
            changed = checksum((folder / name).read_bytes()) != wanted
        except OSError:
            raise BadInput(f"{folder / name} is gone: make it again with {REMEDY}.") from None
        if changed:
            raise BadInput(f"{folder / name} was changed after it was written: make it again with {REMEDY}.")
    for name, wanted in {**found.files, **found.further}.items():
        try:
            text = (folder / name).read_text()
        except (OSError, ValueError):
            raise BadInput(f"{folder / name} is gone or no text: make it again with {REMEDY}.") from None
        if checksum(text) != wanted:
            raise BadInput(f"{folder / name} was changed after it was proven: make it again with {REMEDY}.")


def find(place: Place, stack: Stack) -> TunedSettings:
    """The settings for a condition.

    :raises NotMeasured: there are none.
    :raises BadInput: they are of another release of the MPI or another condition, or as :func:`read`.
    """
    if not (place.folder / NAME).exists():
        raise NotMeasured(f"there are no tuned settings of {place.text}; make them with {REMEDY}")
    found = read_of(place)
    check_release(found, stack)
    return found


def read_of(place: Place) -> TunedSettings:
    """The settings in the folder of a condition.

    :raises BadInput: they are of another condition, as in a folder that was copied, or as :func:`read`.
    """
    found = read(place.folder)
    if found.place != place:
        raise BadInput(f"{place.folder} holds the settings of {found.place.text}: make those of {place.text} with {REMEDY}.")
    return found


def check_release(found: TunedSettings, stack: Stack) -> None:
    """Make sure that settings are of a stack's release.

    :raises BadInput: they are of another.
    """
    if (found.mpi, found.mpi_version) != (stack.mpi, stack.mpi_version):
        raise BadInput(
            f"the tuned settings of {found.place.text} are for {found.mpi} {found.mpi_version}, and the stack is {stack.mpi} "
            f"{stack.mpi_version}: prove them again with '{REMEDY} --check', or make new ones."
        )
