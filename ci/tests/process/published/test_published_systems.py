"""Job scripts of the papers' systems, against golden files that were read line by line.

A golden file is the script as ReFrame wrote it in a dry run, without what every job has (the shell
function that runs a launch) and with paths, hashes, times and the benchmark's arguments replaced.
``MPIBENCH_GOLDEN=write`` writes them: read the diff.
"""

import re

import pytest

import synthetic_stack
from mpibench_tune import published
from programs import compare, fabric_of, listed, normalised
from reframe_tests.harness.sites import site

#: System: fabrics, processes per node and policy of the scripts looked at; always two nodes.
CASES = {
    "cambridge-westmere": ("(qdr|qdr_mixed)", "8", "scatter"),
    "openhpc-mini": ("(eth1g|eth40g|opa100|edr100)", "1", "default"),
    "opa-dual-rail": ("(opa100|opa200|opa200_striped)", "2", "scatter"),
    "ibm-p5-575": ("ib4x", "8", "default"),
    "ibm-js21": ("ib4x", "1", "default"),
}


@pytest.fixture(scope="module")
def stacks_variable(tmp_path_factory):
    return synthetic_stack.write_all(tmp_path_factory.mktemp("stacks"))


def dry_run(run_reframe, stacks, stage, words, only):
    words = f"--dry-run -S level=smoke --stage={stage} --keep-stage-files {words}"
    done = run_reframe(words=words, environ={"MPIBENCH_STACKS": stacks}, only=only, ended=0)
    assert "WARNING" not in done.stdout, done.stdout[-3000:]
    return done.stdout


@pytest.mark.parametrize("system", CASES)
def test_job_scripts(system, run_reframe, stacks_variable, tmp_path):
    fabrics, ppn, pinning = CASES[system]
    words = f"--system={system} -P nodes=2 -P ppn={ppn} -P pinning={pinning}"
    words = f"{words} -n ImbPointToPoint%fabric={fabrics}%"
    said = dry_run(run_reframe, stacks_variable, tmp_path, words, "point_to_point.py")
    written = {
        f"{path.parts[-4]}-{path.parts[-3]}-{fabric_of(path, said)}.txt": normalised(
            path.read_text()
        )
        for path in sorted(tmp_path.rglob("rfm_job.sh"))
    }
    listing = run_reframe("-lC", f"--system={system}", environ={"MPIBENCH_STACKS": stacks_variable})
    compare(system, {**written, "listing.txt": listed(listing.stdout)})


#: Units of a paper in MB/s, where it prints others: (system, benchmark) to MB/s in one of them.
#: Both ways at once count twice.
IN_MB_PER_S = {
    ("cambridge-westmere", "PingPong"): 1e3,
    ("opa-dual-rail", "Uniband"): 125.0,
    ("opa-dual-rail", "Biband"): 250.0,
}


def learned(system):
    """Entries of a system's references.yaml: (test, partition, stack,
    fabric, nodes, ppn, pinning, metric) and value.
    """
    content = site.read_references(system)
    return _leaves({key: node for key, node in content.items() if key != "provenance"})


@pytest.mark.parametrize("system", CASES)
def test_references_of_a_paper_are_its_numbers(system):
    """Every learned reference of these systems is a published value,
    with unit, origin and whose bounds they are.
    """
    printed = {
        (row["benchmark"], row["message_bytes"], row.number)
        for row in published.read(system)
        if re.fullmatch(r"[0-9.,]+", row["value"])
    }
    entries = learned(system)
    assert entries
    for keys, value in entries:
        benchmark, *_, size = keys[-1].split(".")
        wanted = round(value[0] / IN_MB_PER_S.get((system, benchmark), 1.0), 6)
        found = {(benchmark, each, wanted) for each in (str(int(size)), "")} & printed
        assert found, (keys, value)


def _leaves(node, keys=()):
    if not isinstance(node, dict):
        return [] if keys[-1:] == ("$index",) else [(keys, node)]
    return [leaf for key, child in node.items() for leaf in _leaves(child, (*keys, key))]
