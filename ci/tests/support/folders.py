"""Folders of the tests: the lanes' parent, their helpers, and the recorded files they read."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TESTS = SUPPORT.parent
DATA = TESTS / "data"
