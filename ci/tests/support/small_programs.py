"""Programs made on the spot for tests, shell lines in a mount namespace
of their own, and a machine with small caches.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from reframe_tests.harness.evidence import recorder


def compile_c(target: Path, text: str, *options: str) -> Path:
    """Compile C with the first compiler of this machine."""
    source = target.with_suffix(target.suffix + ".c")
    source.write_text(text)
    command = [
        *recorder.compilers()[0],
        "-o",
        str(target),
        str(source),
        *options,
        "-ldl",
        "-lpthread",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return target


def inside_namespace(folder: Path, *lines: str) -> None:
    """Run shell lines where they may mount what they like, unseen by
    the machine; skip where a user may not.
    """
    _need_namespaces()
    script = folder / "script"
    script.write_text("\n".join(("set -e", *lines)))
    subprocess.run(["unshare", "-Urm", "sh", str(script)], check=True)


def with_small_caches(folder: Path, program: Path) -> Path:
    """A script that runs a program as if each cache of this machine had 4
    MiB, so that what must be larger is small.
    """
    _need_namespaces()
    size = folder / "size"
    script = folder / "with-small-caches"
    size.write_text("4096K\n")
    mounts = (
        "for each in /sys/devices/system/cpu/cpu*/cache/index*/size; do mount --bind {} $each "
        "|| exit; done; exec {} {}"
    )
    inside = mounts.format(shlex.quote(str(size)), shlex.quote(str(program)), '"$@"')
    script.write_text(f'#!/bin/sh\nexec unshare -Urm sh -c {shlex.quote(inside)} sh "$@"\n')
    script.chmod(0o755)
    return script


def _need_namespaces() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("[namespaces] no unshare (util-linux) to mount in a namespace of its own")
    trial = ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("[namespaces] this machine does not let a user mount in a namespace of his own")
