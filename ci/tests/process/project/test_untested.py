"""What was not tested is reported in one table, and fails the run of
continuous integration unless allowed by name.
"""

import os
import sys

import pytest

import untested
from folders import SUPPORT
from programs import finished

MODULE = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_on_the_cluster(number):
    pytest.skip("[cluster] no mini-cluster here: this machine refuses")

def test_of_sources():
    pytest.skip("[sources] no release of OSU (MPIBENCH_SOURCES)")

def test_strange():
    pytest.skip("for a reason of its own")

@pytest.mark.xfail
def test_expected_to_fail():
    assert False

def test_that_passes(): ...
"""


def run(folder, module, **environ):
    (folder / "test_module.py").write_text(module)
    clean = {
        name: value for name, value in os.environ.items() if name not in ("CI", untested.ALLOWED)
    }
    words = ["-q", "-p", "untested", "-p", "no:cacheprovider", "--rootdir", folder, folder]
    env = {**clean, "PYTHONPATH": SUPPORT, **environ}
    done = finished(sys.executable, "-m", "pytest", *words, cwd=folder, env=env)
    return done.returncode, done.stdout + done.stderr


def test_the_table_and_the_exit_status(tmp_path):
    status, output = run(tmp_path, MODULE)
    assert status == 0
    table = output[output.index(" not tested ") :].splitlines()[1:4]
    assert table == [
        "    3  cluster  no mini-cluster here: this machine refuses",
        "    1  other    for a reason of its own",
        "    1  sources  no release of OSU (MPIBENCH_SOURCES)",
    ]
    assert "FAILED" not in output
    assert not untested.must_be_whole({"CI": "true"}, root=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="[root] only root is asked for everything")
def test_continuous_integration_fails(tmp_path):
    status, output = run(tmp_path, MODULE, CI="true", MPIBENCH_MAY_SKIP="sources")
    assert status == 1
    assert "this was skipped: cluster (the mini-cluster), other (see above)." in output
    assert run(tmp_path, MODULE, CI="true", MPIBENCH_MAY_SKIP="sources cluster other")[0] == 0
