"""Runs programs: short ones for their output, long ones with a log while the user sees progress."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HEARTBEAT_S = 15.0
LOOK_S = 0.2

Echo = Callable[[str], object]


def run(
    words: Sequence[str],
    log: Path,
    what: str,
    echo: Echo,
    environ: Mapping[str, str],
    *,
    shown: Callable[[str], str] = lambda line: "",
    end: Callable[[subprocess.Popen[bytes]], object] = subprocess.Popen.terminate,
    **further: Any,
) -> tuple[int, str]:
    """Run a command to its end. Returns its exit status and its output on both streams, which is
    also appended to the log.

    :param what: what it is doing, for signs of life (``openmpi: concretizing``).
    :param shown: a line for the user for a line of its output, or nothing.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    began = said = time.monotonic()
    with log.open("ab") as stream, log.open("rb") as reader:
        stream.write(f"$ {shlex.join(words)}\n".encode())
        stream.flush()
        start = reader.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            words,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            **further,
        )
        try:
            ended = False
            while not ended:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(LOOK_S, HEARTBEAT_S))
                ended = process.poll() is not None
                while (line := reader.readline()).endswith(b"\n"):
                    if text := shown(line.decode(errors="replace").rstrip("\n")):
                        echo(text)
                        said = time.monotonic()
                reader.seek(-len(line), os.SEEK_CUR)
                if not ended and time.monotonic() - said >= HEARTBEAT_S:
                    said = time.monotonic()
                    echo(f"{what}: still running after {said - began:.0f} s")
        except BaseException:
            end(process)
            process.wait()
            raise
        reader.seek(start)
        return process.wait(), reader.read().decode(errors="replace")


def ask(
    words: Sequence[str | Path], environ: Mapping[str, str], limit_s: float, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a short command with ``given`` on its standard input; the caller handles an ``OSError``
    or a timeout.
    """
    return subprocess.run(
        words,
        env=dict(environ),
        input=given,
        text=True,
        errors="replace",
        capture_output=True,
        timeout=limit_s,
    )
