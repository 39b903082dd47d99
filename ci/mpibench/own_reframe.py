"""The ReFrame that belongs to this program."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def locate() -> str:
    """The ``reframe`` beside our own Python; the one on PATH where it is
    installed elsewhere, as a package of Spack's is.
    """
    neighbour = Path(sys.executable).with_name("reframe")
    return str(neighbour) if neighbour.exists() else shutil.which("reframe") or str(neighbour)
