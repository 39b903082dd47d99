"""Optional files, and paths that only look as if one were missing."""

from __future__ import annotations

from pathlib import Path


def is_there(path: Path) -> bool:
    """Whether a file that may be left out is there; ``False``
    only where its folder has no such name.

    A link to nothing (a file system that is not mounted) and what lies in a folder that is one, or
    cannot be searched, are there: whoever reads them says that it cannot, instead of going on
    without.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        return path.parent.is_symlink() and not path.parent.exists()
    except NotADirectoryError:
        return False
    except OSError:
        return True
    return True


def named(text: str) -> Path:
    """A path from the user, with ``~`` expanded; for an unknown user it is an ordinary name."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)
