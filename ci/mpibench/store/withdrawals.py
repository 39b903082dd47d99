"""Sessions that somebody withdrew: measured, stored, shown as withdrawn, and no part of any verdict.

A machine under maintenance, a wrong cable, a test of the tests: such a session is no night, however well it is proven. Its
numbers stay where they are. What says so is a record of the dataset, ``withdrawn/<session>.json``: session, why, who and when.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput

from . import records

FOLDER = "withdrawn"
#: Characters of a reason.
LONGEST_WHY = 500
#: UTC, ISO 8601.
WHEN = "%Y-%m-%dT%H:%M:%SZ"
_BEGINNING = re.compile(r"[A-Za-z0-9_.-]{4,100}")


@dataclass(frozen=True)
class Withdrawal:
    """One withdrawn session.

    :param why: in the words of who withdrew it, on one line.
    :param who: their name on that machine.
    :param when: UTC, as ISO 8601.
    """

    session: str
    why: str
    who: str
    when: str

    def __str__(self) -> str:
        return f"session {self.session[:8]} was withdrawn by {self.who} on {self.when[:10]}: {self.why}"

    @classmethod
    def of(cls, row: dict[str, Any]) -> Withdrawal:
        """From a record; :raises ValueError: it is none: of strings, with a reason and a time."""
        if not all(isinstance(row[name], str) for name in cls.__dataclass_fields__):
            raise ValueError
        one = cls(*(one_line(row[name]) for name in cls.__dataclass_fields__))
        datetime.strptime(one.when, WHEN)
        if not 0 < len(one.why) <= LONGEST_WHY:
            raise ValueError
        return one


def find(folder: Path) -> dict[str, Withdrawal]:
    """The withdrawn sessions of a dataset by their ids.

    :raises BadInput: a record that cannot be read: which session takes no part, and why, is not known then.
    """
    found = records.read(folder, FOLDER, Withdrawal.of)
    for name, one in found.items():
        if one.session != name:
            path = records.path_of(folder, FOLDER, name)
            raise BadInput(f"{path} is the record of session {one.session}: name it {one.session}.json, or remove it.")
    return found


def whole_id(folder: Path, session: str) -> str:
    """The one session of a dataset with this id or beginning of one.

    :raises BadInput: there is none, or there are several.
    """
    if not _BEGINNING.fullmatch(session):
        raise BadInput(f"{session!r} is not a session: give its id, or four characters and more of its beginning.")
    known = {path.stem for path in Path(folder).glob("cases/system=*/date=*/*.parquet")} | set(find(folder))
    chosen = [session] if session in known else sorted(one for one in known if one.startswith(session))
    if not chosen:
        raise BadInput(f"the dataset {folder} holds no session {session}: export it first (`mpibench export`).")
    if len(chosen) > 1:
        raise BadInput(f"{session} is the beginning of {len(chosen)} sessions: give more of the id.")
    return chosen[0]


def withdraw(folder: Path, session: str, why: str) -> Withdrawal:
    """Record that a session takes no part in verdicts.

    :param session: its id or a unique beginning.
    :raises BadInput: no such session, no reason, one that was withdrawn before, or a dataset that cannot be written.
    """
    reason = one_line(why).strip()
    if not reason:
        raise BadInput("--why is empty: say why the session is withdrawn, for whoever asks a year later.")
    if len(reason) > LONGEST_WHY:
        raise BadInput(f"--why has {len(reason)} characters, at most {LONGEST_WHY} are kept: say it in fewer words.")
    uuid = whole_id(folder, session)
    before = find(folder).get(uuid)
    if before:
        raise BadInput(f"{before}; it is withdrawn already. `mpibench sessions restore {uuid}` takes that back.")
    one = Withdrawal(uuid, reason, _user(), datetime.now(timezone.utc).strftime(WHEN))
    records.write(folder, FOLDER, uuid, asdict(one))
    return one


def restore(folder: Path, session: str) -> Withdrawal:
    """Take a withdrawal back.

    :raises BadInput: the session was not withdrawn, or its record cannot be removed.
    """
    uuid = whole_id(folder, session)
    one = find(folder).get(uuid)
    if one is None:
        raise BadInput(f"session {uuid} is not withdrawn.")
    records.remove(folder, FOLDER, uuid)
    return one


def refuse(withdrawn: Mapping[str, Withdrawal], session: str) -> None:
    """Refuse a session that is named and was withdrawn.

    :param session: its id or a beginning of it.
    :raises BadInput: with who withdrew it and why.
    """
    meant = [one for uuid, one in withdrawn.items() if len(session) >= 4 and uuid.startswith(session)]
    if len(meant) == 1:
        raise BadInput(
            f"{meant[0]}; it takes part in no verdict. `mpibench sessions restore {meant[0].session}` takes that back."
        )


def all_of(withdrawn: Mapping[str, Withdrawal]) -> str:
    """That no session is left because all were withdrawn, for a sentence; empty where none was."""
    if not withdrawn:
        return ""
    newest = max(withdrawn.values(), key=lambda one: one.when)
    return f"all {len(withdrawn)} sessions that could be meant were withdrawn; the newest: {newest}"


def _user() -> str:
    try:
        return one_line(getpass.getuser())
    except (KeyError, OSError):  # a user id without a name, as in containers
        return "an unnamed user"
