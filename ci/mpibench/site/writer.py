"""Writes the files of a site: whole, only where something changed, and never anything that is not its own."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file

#: Lies in the folder of a site; a folder with other things in it is never taken for one.
MARKER = "mpibench-site.json"


class SiteWriter:
    """One build of a site.

    :param folder: of the site.
    :param kept: folder beside it, with what the next build wants to know; not published.
    :param program: changes when a program or template does, and then everything is written again.
    """

    def __init__(self, folder: Path, kept: Path, program: str) -> None:
        self.folder, self._kept = folder, kept
        self.written = self.unchanged = 0
        try:
            if folder.exists() and not (folder / MARKER).is_file() and any(folder.iterdir()):
                raise BadInput(f"{folder} holds other things than a site of mpibench: name a folder of its own with --out.")
            folder.mkdir(parents=True, exist_ok=True)
            kept.mkdir(parents=True, exist_ok=True)
            self._lock = (kept / "lock").open("a")
            (folder / MARKER).write_text(json.dumps({"site": "mpibench"}), encoding="utf-8")
            self._secret = self._read_secret()
        except OSError as error:
            raise BadInput(f"cannot write {error.filename or folder}: {error.strerror}.") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(f"another `mpibench site` writes {folder}: wait for it.") from None
        self._before = self._read_manifest(program)
        self._now: dict[str, str] = {}
        self._folders: set[Path] = set()
        # After a build that ends half way the next one writes everything again, and removes what that one would have.
        self._program = program
        self._keep("", self._before)

    def _read_secret(self) -> bytes:
        path = self._kept / "nonces.key"
        if not path.is_file() or len(path.read_bytes()) < 32:
            with whole_file.replacing(path) as partial:
                partial.write_bytes(secrets.token_bytes(32))
                partial.chmod(0o600)
        return path.read_bytes()

    def _read_manifest(self, program: str) -> dict[str, str]:
        try:
            stored = json.loads((self._kept / "manifest.json").read_text(encoding="utf-8"))
            files = {str(name): str(digest) for name, digest in stored["files"].items()}
            return files if stored["program"] == program else dict.fromkeys(files, "")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def nonce(self, name: str, content: str) -> str:
        """What the scripts of a page carry: nobody can guess it who does not have the key, and the same page has the same."""
        return hmac.new(self._secret, f"{name}\0{content}".encode(), hashlib.sha256).hexdigest()[:32]

    def put(self, name: str, content: str, make: Callable[[], str | bytes]) -> None:
        """Write a file unless the same was written before.

        :param name: path below the site.
        :param content: changes when what ``make`` returns does.
        :raises BadInput: it cannot be written.
        """
        path = self.folder / name
        self._now[name] = content
        if self._before.get(name) == content and path.is_file():
            self.unchanged += 1
            return
        made = make()
        try:
            if path.parent not in self._folders:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._folders.add(path.parent)
            with whole_file.replacing(path) as partial:
                partial.write_bytes(made.encode("utf-8", "replace") if isinstance(made, str) else made)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}.") from None
        self.written += 1

    def finish(self) -> None:
        """Remove files of earlier builds that this one did not make, and keep what the next one wants to know."""
        try:
            for name in self._before.keys() - self._now.keys():
                path = self.folder / name
                if ".." not in Path(name).parts:
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"cannot write {error.filename}: {error.strerror}.") from None
        self._keep(self._program, self._now)
        self._lock.close()

    def _keep(self, program: str, files: Mapping[str, str]) -> None:
        """Keep what the next build wants to know.

        :raises BadInput: it cannot be written.
        """
        try:
            with whole_file.replacing(self._kept / "manifest.json") as partial:
                partial.write_text(json.dumps({"program": program, "files": dict(files)}), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"cannot write {error.filename}: {error.strerror}.") from None
