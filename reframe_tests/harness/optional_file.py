"""Files that may be left out, and what only looks like it."""

from __future__ import annotations

from pathlib import Path


def is_there(path: Path) -> bool:
    """Whether a file that may be left out is there; ``False`` only where its folder has no such name.

    A link to nothing (a file system that is not mounted) and what lies in a folder that is one, or cannot be searched, are
    there: whoever reads them says that it cannot, instead of going on without.
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
