"""The commands of README and docs that measure on machines that are not here: ReFrame writes their
job scripts, on the bundled systems with stacks like those of the papers.
"""

import re
import shlex

import pytest

import synthetic_site
import synthetic_stack
from reframe_tests.harness.vocabulary import ROOT

#: Options of the commands on the page of the papers, and the
#: bundled system that has such a machine.
SHOWN = {
    "-n ImbCollectives -P nodes=1 -P ppn=8 -P pinning=bunch,scatter": "cambridge-westmere",
    "-n ImbCollectives -P nodes=8 -P ppn=12": "cambridge-westmere",
    "-n ImbParallelTransfer -P nodes=2 -P ppn=1,2 -P pinning=bunch,nic_local": "opa-dual-rail",
    "-n ImbParallelTransfer -P nodes=2 -P ppn=1,2,4,8": "ibm-p5-575",
    "-n ImbPointToPoint -P nodes=2 -P ppn=2,4,8 -S suite_options=multi:0": "ibm-p5-575",
    "-n NodePreflight": "openhpc-mini",
    "-n Placement -P nodes=1 -P ppn=1,2,3,4,5,6,7,8,9,10,11,12 -P pinning=default": "cambridge-westmere",
    "-n Stream -P memory=local,remote,interleaved -P page_cache=as_is,filled": "cambridge-westmere",
    "-n WireRdma": "openhpc-mini",
}


@pytest.fixture(scope="module")
def stacks_variable(tmp_path_factory):
    return synthetic_stack.write_all(tmp_path_factory.mktemp("stacks"))


def file_of(test):
    """The one file with a test, which is loaded in a quarter of the time of all."""
    [path] = [
        path
        for path in (ROOT / "reframe_tests").glob("*.py")
        if re.search(rf"^class {test}\b", path.read_text(), re.M)
    ]
    return path.name


@pytest.mark.parametrize(("shown", "system"), SHOWN.items(), ids=list(SHOWN))
def test_a_case_that_is_shown_gets_its_jobs(
    shown,
    system,
    run_reframe,
    stacks_variable,
):
    assert f"`reframe -c reframe_tests -r {shown}`" in synthetic_site.page("background/papers")
    words = shlex.split(shown)
    test = words[words.index("-n") + 1]
    done = run_reframe(
        *words,
        words=f"--dry-run --system={system}",
        environ={"MPIBENCH_STACKS": stacks_variable},
        only=file_of(test),
        ended=0,
    )
    assert re.search(r"PASSED.*Ran ([1-9]\d*)/", done.stdout), done.stdout[-2000:]
