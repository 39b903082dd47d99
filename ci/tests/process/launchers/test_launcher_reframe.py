"""Launchers and a system from files in a folder of the site's own: no file of the project is
changed for ReFrame, or to recognise one by what its program prints.
"""

import pytest

from folders import write
from mpibench.stacks import probe
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_extensions import GALLEY_SYSTEM as SYSTEM
from synthetic_extensions import write_launchers
from synthetic_site import write_site
from synthetic_stack import write_stack


def test_reframe_writes_its_jobs(tmp_path, monkeypatch, run_reframe):
    write_launchers(tmp_path / "own", monkeypatch)
    config = write_site(tmp_path, SYSTEM)
    write_stack(tmp_path / "environments" / "mpich")
    run_reframe(
        words="--dry-run --system=harbour -n fabric=eth.*nodes=2.*ppn=2.*pinning=scatter",
        config=config,
        only="point_to_point.py",
        environ={"RFM_PREFIX": tmp_path / "results"},
        ended=0,
    )
    [script] = [path.read_text() for path in (tmp_path / "results").rglob("rfm_*.sh")]
    assert "galley row --oars=4 --ships=2 --pmi=pmi2 --per-node=2 --seats=0/" in script
    assert "export GALLEY_SEATS=strict" in script.splitlines()


def test_an_mpis_own_launcher_is_recognised_and_accepted_in_metadata(tmp_path, monkeypatch):
    write_launchers(tmp_path / "own", monkeypatch)
    program = write(tmp_path / "mpirun", "#!/bin/sh\necho trireme 3\n", executable=True)
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
