"""STREAM is built with this machine's compilers, runs, and
proves where its threads and pages were.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from programs import with_small_caches
from reframe_tests.harness.cases.memory import stream as stream_program
from reframe_tests.harness.evidence import recorder


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stream_program.build(tmp_path_factory.mktemp("stream"))


def run(stream: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([stream, *words], capture_output=True, text=True, timeout=300)


def test_every_compiler_builds_it_and_it_is_found_again(tmp_path: Path) -> None:
    assert recorder.compilers()
    for at, compiler in enumerate(recorder.compilers()):
        built = stream_program.build(tmp_path / str(at), [compiler])
        assert os.access(built, os.X_OK) and list(built.parent.iterdir()) == [built]
        assert stream_program.build(tmp_path / str(at), [["/bin/false"]]) == built


@pytest.fixture
def small(stream: Path, tmp_path: Path) -> Path:
    """The program where arrays are small, since the caches are:
    a machine may have 500 MB of them.
    """
    return with_small_caches(tmp_path, stream)


def test_a_real_run_is_proven(small: Path) -> None:
    done = run(small, "local", "2", "0", "as_is")
    assert (done.returncode, done.stderr) == (0, "")
    result = stream_program.read(done.stdout, "local", "as_is", 2)
    assert stream_program.judge(result, len(result.threads)) == []
    assert result.array_bytes == stream_program.CACHES * result.last_level_cache_bytes
    assert {one.core for one in result.threads} <= os.sched_getaffinity(0)
