"""What ReFrame says at the end of a run."""

from __future__ import annotations

import re
import subprocess


def outcome(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Cases that ran, failed and were aborted."""
    match = re.search(r"Ran (\d+)/\d+ .*\((\d+) failure\(s\), .*?(\d+) aborted\)", done.stdout)
    assert match, done.stdout + done.stderr
    return dict(zip(("ran", "failed", "aborted"), map(int, match.groups()), strict=True))
