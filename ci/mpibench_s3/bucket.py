"""A folder in a bucket: copied to this machine before a command reads it, and from here after one
wrote.

Each file is an object, which appears whole or not at all, so that writers need no lock: those of
different sessions share no object. A session is there once its object of the table ``cases`` is.
That one is written last, is taken away before another version of the session is written, and is
read last, in the version that was listed.
"""

from __future__ import annotations

import contextlib
import hashlib
import mimetypes
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from mpibench.commands.options import say
from mpibench.store.dataset_layout import OLD_SCHEMAS
from reframe_tests.harness.printable import one_line, plural
from reframe_tests.harness.vocabulary import BadInput

try:
    import obstore
    from obstore.exceptions import BaseError, PreconditionError
    from obstore.store import S3Store
except ImportError:
    raise BadInput(
        "tool-missing",
        "s3:// needs the Python package obstore, which is not installed here: in the checkout run "
        "`.venv/bin/python -m pip install --require-hashes -r requirements-s3.lock`.",
    ) from None

#: A session without its table ``cases`` is being written; after this time its writer was killed.
UNFINISHED = timedelta(hours=1)
#: How often a bucket is read that changes meanwhile.
ATTEMPTS = 5
#: Requests at the same time; each mostly waits.
AT_ONCE = 16
#: With 30 s for a request, which is the client's default, this much longer than a minute passes
#: before a store is said not to answer.
RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(minutes=1)}
#: What a dataset is made of.
SUFFIXES = (".parquet", ".json")


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
        with self._refusals():
            self._store = S3Store(bucket, prefix=folder or None, retry_config=RETRIES)

    @contextlib.contextmanager
    def fetched(self) -> Iterator[Path]:
        """A copy of the dataset that is there, in a folder until it is no longer needed; then what
        was changed in it is written back.

        :raises BadInput: there is none, or the store gives or takes nothing.
        """
        with self._refusals():
            scratch = tempfile.TemporaryDirectory(prefix="mpibench-")
        with scratch as name:
            folder = self._fetch(Path(name))
            before = _times(folder)
            try:
                yield folder
            finally:
                after = _times(folder)
                changed = [name for name, time in after.items() if before.get(name) != time]
                gone = [*before.keys() - after.keys()]
                with self._refusals():
                    self._write(folder, changed, before)
                    obstore.delete(self._store, gone)

    def send(self, folder: Path) -> str:
        """Copy what is not there, or differs, of a folder; nothing is removed. What was done, as a
        sentence.

        :raises BadInput: the store does not take it.
        """
        with self._refusals():
            there = {meta["path"]: meta["e_tag"] for meta in self._list()}
            here = _times(folder)
            # The ETag of an object is its MD5, unless a key of the store's encrypts it.
            lacking = [name for name in here if there.get(name) != f'"{_md5(folder / name)}"']
            self._write(folder, lacking, there)
        return f"{self.address}: {plural(len(lacking), 'file')} of {len(here)} copied"

    def _fetch(self, scratch: Path) -> Path:
        """Copy the dataset as it was at one moment."""
        for attempt in range(ATTEMPTS):
            folder = scratch / str(attempt) / self.place
            with self._refusals(), contextlib.suppress(_Changed):
                self._copy(folder)
                return folder
        raise BadInput(
            "changed-since", f"{self.address} changed {ATTEMPTS} times while it was read: repeat."
        )

    def _copy(self, folder: Path) -> None:
        versions = self._readable()
        for names in _cases_last(versions):
            _at_once(lambda name: self._get(name, versions[name], folder), names)

    def _get(self, name: str, version: str | None, folder: Path) -> None:
        try:
            content = obstore.get(self._store, name, options={"if_match": version}).bytes()
        except (FileNotFoundError, PreconditionError):
            raise _Changed from None
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def _readable(self) -> dict[str, str | None]:
        """Objects of the dataset with their versions, without those of sessions that are being
        written.
        """
        listed = {
            meta["path"]: meta
            for meta in self._list()
            if _is_plain(meta["path"]) and meta["path"].endswith(SUFFIXES)
        }
        newest: dict[str, datetime] = {}
        for name, meta in listed.items():
            if (cases := _cases_of(name)) and cases not in listed:
                newest[cases] = max(newest.get(cases, meta["last_modified"]), meta["last_modified"])
        since = datetime.now(timezone.utc) - UNFINISHED
        unfinished = {cases for cases, written in newest.items() if written > since}
        say(
            (
                f"session {Path(cases).stem} is left out: {self.address} lacks {cases}, as while "
                "it is being written"
                for cases in sorted(unfinished)
            ),
            err=True,
        )
        found = {
            name: meta["e_tag"]
            for name, meta in listed.items()
            if _cases_of(name) not in unfinished
        }
        if not any(name.startswith("cases/") for name in found.keys() | newest.keys() - unfinished):
            raise BadInput(
                "session-missing",
                f"there is no dataset in {self.address}: copy one there with `mpibench export "
                f"--out {self.address}`.",
            )
        return found

    def _list(self) -> Iterator[Any]:
        return (meta for some in obstore.list(self._store) for meta in some)

    def _write(self, folder: Path, names: Collection[str], there: Collection[str]) -> None:
        """Write files of a folder.

        :param there: objects before.
        """
        replaced = {cases for name in names if (cases := _cases_of(name)) in there}
        obstore.delete(self._store, sorted(replaced))
        for some in _cases_last({*names, *replaced}):
            _at_once(lambda name: self._put(folder / name, name), some)

    def _put(self, path: Path, name: str) -> None:
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        # In one piece, which has its MD5 as ETag.
        obstore.put(
            self._store,
            name,
            path.read_bytes(),
            attributes={"Content-Type": kind},
            use_multipart=False,
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
                    f"the copy of {self.address} cannot be made ({error}): free some space, or set "
                    "TMPDIR to a folder that has it.",
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
    """The object that makes the session of another one visible; empty if it is of no session, or
    that object itself.
    """
    table, _, rest = name.partition("/")
    return f"cases/{rest}" if table in OLD_SCHEMAS and table != "cases" else ""


def _cases_last(names: Collection[str]) -> tuple[list[str], list[str]]:
    """Names in the order in which they are copied; the first page of a site is late, too."""
    late = {name for name in names if name.startswith("cases/") or name == "index.html"}
    return sorted(set(names) - late), sorted(late)


def _at_once(copy: Callable[[str], None], names: Collection[str]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(copy, names):
            pass


def _times(folder: Path) -> Mapping[str, int]:
    """Files of a folder by their names in it, with the times of their last changes in ns."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return {
        name: path.stat().st_mtime_ns
        for name, path in paths.items()
        if _is_plain(name) and path.is_file()
    }


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
