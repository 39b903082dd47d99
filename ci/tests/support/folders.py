"""Folders of the tests: the lanes' parent, their helpers, and the recorded files they read."""

from __future__ import annotations

import shutil
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TESTS = SUPPORT.parent
DATA = TESTS / "data"
#: What a copy of the project leaves out (``ignore`` of ``copytree``, which keeps times): compiled files that some Python writes
#: at this moment. With the others the first program in a copy need not compile the project again.
UNFINISHED = shutil.ignore_patterns("*.pyc.*")
