"""A launcher from a folder of the site's own, recognised by what its program prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.stacks import probe
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_extensions import write_launchers
from synthetic_stack import write_stack


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a site's own files, with both launchers in it."""
    return write_launchers(tmp_path / "own", monkeypatch)


def test_an_mpis_own_launcher_is_recognised_and_accepted_in_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "mpirun"
    program.write_text("#!/bin/sh\necho trireme 3\n")
    program.chmod(0o755)
    with pytest.raises(BadInput, match=r"no libmpi below .*, the prefix of \S+/mpirun"):
        probe.examine(str(program))
    path = write_stack(tmp_path / "stack", launcher_family="trireme")
    assert metadata.read(path).launcher_family == "trireme"
    monkeypatch.delenv("MPIBENCH_EXTENSIONS")
    with pytest.raises(BadInput, match=r"says 'trireme 3', so it is not the mpirun of a known MPI"):
        probe.examine(str(program))
    with pytest.raises(
        metadata.StackError, match="key 'launcher_family': 'trireme' is not one of "
    ):
        metadata.read(path)
