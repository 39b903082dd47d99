"""A folder in a bucket: copied to this machine before a command reads it, and from here after one
wrote.

Each file is an object, which appears whole or not at all, and replaces only the version of it that
the writer had seen, so that writers need no lock. A session is there once its object of the table
``cases`` is. A mark takes its place before anything of the session is written; the table, which
replaces nothing but this mark, is written last.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import mimetypes
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import typer

from mpibench.commands.options import say
from mpibench.store.dataset_layout import OLD_SCHEMAS
from mpibench.store.records import UnreadableSession
from reframe_tests.harness.printable import one_line, plural
from reframe_tests.harness.vocabulary import BadInput

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
    from obstore.store import S3Store
except ImportError:
    raise BadInput(
        "tool-missing",
        "s3:// needs the Python package obstore, which is not installed here: in the checkout run "
        "`.venv/bin/python -m pip install --require-hashes -r requirements-s3.lock`.",
    ) from None

#: Bytes of the mark of a session that is being written, different ones of each writer. No table is
#: as short.
MARK_BYTES = 32
#: Statuses of a command that are answers (:mod:`mpibench.exit_status`).
ANSWERS = (0, 1, 3)
#: How often a bucket is read that changes meanwhile.
ATTEMPTS = 5
#: What an object has of a name that no file can have, or not beside the others.
NO_NAMES = (errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
#: Requests at the same time; each mostly waits.
AT_ONCE = 16
#: With 30 s for a request, which is the client's default, this much longer than a minute passes
#: before a store is said not to answer.
RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(minutes=1)}
#: What a dataset is made of.
SUFFIXES = (".parquet", ".json")
#: An object of a session: table, what its objects have in common, system, day, id.
_OF_SESSION = re.compile(r"(\w+)/(system=([^/]+)/date=(\d{4}-\d\d-\d\d)/([^/]+)\.parquet)")


class _Changed(Exception):
    """An object is not the one that was listed."""


class Bucket:
    """Place of the scheme ``s3`` (group ``mpibench.places``).

    Endpoint, region and credentials are what the environment says (``AWS_ENDPOINT_URL``,
    ``AWS_ACCESS_KEY_ID``, ...), as :class:`obstore.store.S3Store` reads it.

    :param place: bucket and, in most cases, a folder in it.
    """

    def __init__(self, place: str) -> None:
        self.place = place.strip("/")
        self.address = f"s3://{self.place}"
        bucket, _, folder = self.place.partition("/")
        if not place.isprintable() or any(
            part != part.strip() or part in (".", "..") for part in place.split("/")
        ):
            raise BadInput(
                "bad-option",
                f"{self.address!r} is no address: write s3://BUCKET/FOLDER without '..', and "
                "without blanks around a name.",
            )
        with self._refusals():
            # Not every store knows the request that removes many objects.
            self._store = S3Store(
                bucket,
                prefix=folder or None,
                retry_config=RETRIES,
                disable_bulk_delete=True,
            )

    @contextlib.contextmanager
    def fetched(self) -> Iterator[Path]:
        """A copy of the dataset that is there, in a folder until it is no longer needed; then what
        was changed in it is written back, unless the command gave no answer.

        :raises BadInput: there is none, or the store gives or takes nothing.
        """
        with self._refusals():
            scratch = tempfile.TemporaryDirectory(prefix="mpibench-")
        with scratch as name:
            folder = Path(name) / self.place
            there = self._fetch(folder)
            before = _digests(folder)
            try:
                yield folder
            except typer.Exit as end:
                if end.exit_code in ANSWERS:
                    self._write_back(folder, before, there)
                raise
            else:
                self._write_back(folder, before, there)

    def send(self, folder: Path) -> str:
        """Copy what is not there, or differs, of a folder; nothing is removed. A record that is
        newer there stays. What was done, as a sentence.

        :raises BadInput: there is nothing to copy, or the store does not take it.
        """
        with self._refusals():
            there = {meta["path"]: meta["e_tag"] for meta in self._list()}
            here = _digests(folder)
            if not here:
                raise BadInput(
                    "file-missing", f"there is no file in {folder}, so nothing was copied."
                )
            # The ETag of an object is its MD5, unless a key of the store's encrypts it.
            lacking = [name for name in here if there.get(name) != here[name]]
            older = [name for name in lacking if name in there and self._is_newer(name, folder)]
            self._write(folder, set(lacking).difference(older), there)
        kept = f"; {plural(len(older), 'newer record')} there kept" if older else ""
        return (
            f"{self.address}: {plural(len(lacking) - len(older), 'file')} of {len(here)} "
            f"copied{kept}"
        )

    def _is_newer(self, name: str, folder: Path) -> bool:
        """Whether a record there was made later than the one here."""
        return name.endswith(".json") and _made(
            obstore.get(self._store, name).bytes().to_bytes()
        ) > _made((folder / name).read_bytes())

    def _fetch(self, folder: Path) -> dict[str, str | None]:
        """Copy the dataset as it was at one moment; its objects with their versions."""
        for _ in range(ATTEMPTS):
            with self._refusals(), contextlib.suppress(_Changed):
                return self._copy(folder)
            shutil.rmtree(folder, ignore_errors=True)
        raise BadInput(
            "changed-since", f"{self.address} changed {ATTEMPTS} times while it was read: repeat."
        )

    def _copy(self, folder: Path) -> dict[str, str | None]:
        listed = {
            meta["path"]: meta
            for meta in self._list()
            if _is_plain(meta["path"]) and meta["path"].endswith(SUFFIXES)
        }
        versions = {name: meta["e_tag"] for name, meta in listed.items()}
        cases = set(filter(None, map(_cases_of, listed)))
        if not cases:
            raise BadInput(
                "session-missing",
                f"there is no dataset in {self.address}: copy one there with `mpibench export "
                f"--out {self.address}`.",
            )
        unfinished = {
            name for name in cases if name not in listed or listed[name]["size"] == MARK_BYTES
        }
        lost = {Path(name).stem for name in unfinished}
        whole = [name for name in listed if not _cases_of(name) or Path(name).stem not in lost]
        if not any(name.startswith("cases/") for name in whole):
            raise BadInput(
                "session-missing",
                f"no session in {self.address} is whole, as while the first one is being written: "
                "repeat, or export it there again.",
            )
        for names in _cases_last(whole):
            _at_once(lambda name: self._get(name, versions[name], folder), names)
        for session in sorted(lost):
            self._leave_out(session, filter(None, map(_OF_SESSION.fullmatch, listed)), folder)
        return versions

    def _leave_out(self, session: str, names: Iterable[re.Match[str]], folder: Path) -> None:
        """Let the copy know a session that is not whole, as one that could not be exported: no
        older one is the newest. Of its start the day is known, so it may be the last of that.
        """
        own = [name for name in names if name[5] == session]
        why = (
            f"session {session} is left out: {self.address} has not all of it, as while it is "
            "being written: repeat, or export it there again."
        )
        day = max(date.fromisoformat(name[4]) for name in own)
        UnreadableSession(
            session,
            datetime.combine(day, time.max, timezone.utc),
            tuple(sorted({name[3] for name in own})),
            why,
        ).keep(folder)
        say([why], err=True)

    def _get(self, name: str, version: str | None, folder: Path) -> None:
        try:
            content = obstore.get(self._store, name, options={"if_match": version}).bytes()
        except (FileNotFoundError, PreconditionError):
            raise _Changed from None
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            if error.errno not in NO_NAMES:
                raise
            raise BadInput(
                "file-unreadable",
                f"the object {name} in {self.address} cannot be a file here ({error.strerror}): "
                "remove it there, or rename it.",
            ) from None

    def _list(self) -> Iterator[Any]:
        return (meta for some in obstore.list(self._store) for meta in some)

    def _write_back(
        self, folder: Path, before: Mapping[str, str], there: Mapping[str, str | None]
    ) -> None:
        after = _digests(folder)
        with self._refusals():
            self._write(folder, [name for name in after if before.get(name) != after[name]], there)
            gone = [name for name in before.keys() - after.keys() if name in there]
            for name in gone:  # no condition can be set for a removal
                if self._version(name) not in (None, there[name]):
                    raise self._replaced(name)
            obstore.delete(self._store, gone)

    def _write(self, folder: Path, names: Collection[str], there: Mapping[str, str | None]) -> None:
        """Write files of a folder.

        :param there: objects that may be replaced, with their versions.
        """
        sessions: dict[str, list[str]] = {}
        for name in sorted(names):
            sessions.setdefault(_cases_of(name), []).append(name)

        def put(name: str, version: str | None = None) -> None:
            self._put(name, (folder / name).read_bytes(), version or there.get(name))

        def put_session(cases: str) -> None:
            mark = self._put(cases, secrets.token_hex(MARK_BYTES // 2).encode(), there.get(cases))
            for name in sessions[cases]:
                if name != cases:
                    put(name)
            if (folder / cases).is_file():  # else it is not whole here, and stays marked there
                put(cases, mark)

        alone = sessions.pop("", [])
        first_page = "index.html"
        _at_once(put, [name for name in alone if name != first_page])
        _at_once(put_session, sessions)
        if first_page in alone:
            put(first_page)

    def _put(self, name: str, content: bytes, version: str | None) -> str | None:
        """Write an object; its version.

        :param version: the one that it replaces; ``None``: there is none.
        """
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        try:
            # In one piece, which has its MD5 as ETag.
            return obstore.put(
                self._store,
                name,
                content,
                attributes={"Content-Type": kind},
                mode={"e_tag": version} if version else "create",
                use_multipart=False,
            )["e_tag"]
        except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
            if isinstance(error, FileNotFoundError) and "NoSuchKey" not in str(error):
                raise
            # Where an answer was lost the client has repeated what had succeeded.
            if self._version(name) != _digest(content):
                raise self._replaced(name) from None
            return _digest(content)

    def _version(self, name: str) -> str | None:
        """The version of an object; ``None`` where there is none."""
        try:
            return obstore.head(self._store, name)["e_tag"]
        except FileNotFoundError:
            return None

    def _replaced(self, name: str) -> BadInput:
        return BadInput(
            "changed-since",
            f"another writer has changed {self.address}/{name} meanwhile, which stays as it is: "
            "repeat.",
        )

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        """What the store says becomes one sentence."""
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno:  # of this machine
                raise BadInput(
                    "cannot-write",
                    f"nothing can be copied between {self.address} and this machine ({error}): "
                    "correct that, free some space, or set TMPDIR to a folder that has it.",
                ) from None
            raise BadInput(
                "not-reached",
                f"{self.address} cannot be used ({_reason(str(error))}): correct the address, or "
                "what AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and the like say.",
            ) from None


def _reason(error: str) -> str:
    """What matters in an error of the client: the code and message of S3, or its own last words."""
    said = re.search(r"<Code>(.*?)</Code>(?:.*?<Message>(.*?)</Message>)?", error, re.DOTALL)
    if said:
        return one_line(": ".join(filter(None, said.groups()))).rstrip(".")
    return one_line(error.partition("\n\nDebug")[0].rpartition(" - ")[2].strip()[-200:])


def _is_plain(name: str) -> bool:
    """Whether a name is that of a file that is neither hidden nor outside its folder."""
    return all(part and not part.startswith(".") for part in name.split("/"))


def _cases_of(name: str) -> str:
    """The object that makes the session of this one visible; empty if it is of no session."""
    said = _OF_SESSION.fullmatch(name)
    return f"cases/{said[2]}" if said and said[1] in OLD_SCHEMAS else ""


def _cases_last(names: Collection[str]) -> tuple[list[str], list[str]]:
    """Names in the order in which they are read."""
    late = {name for name in names if name.startswith("cases/")}
    return sorted(set(names) - late), sorted(late)


def _at_once(copy: Callable[[str], object], names: Collection[str]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(copy, names):
            pass


def _digests(folder: Path) -> dict[str, str]:
    """Files of a folder by their names in it, each with the ETag of an object like it.

    :raises OSError: one of its folders cannot be read, whose files would be missing silently.
    """

    def refuse(error: OSError) -> None:
        raise error

    paths = {
        path.relative_to(folder).as_posix(): path
        for parent, _, files in os.walk(folder, onerror=refuse, followlinks=True)
        for path in (Path(parent, file) for file in files)
    }
    return {
        name: _digest(path.read_bytes())
        for name, path in paths.items()
        if _is_plain(name) and path.is_file()
    }


def _digest(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _made(record: bytes) -> str:
    """When a record was made, as text in the order of time; empty where it does not say so."""
    try:
        said = json.loads(record)
    except ValueError:
        return ""
    times = (said.get(name) for name in ("when", "written")) if isinstance(said, dict) else ()
    return next((when for when in times if isinstance(when, str)), "")
