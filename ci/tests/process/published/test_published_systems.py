"""Job scripts of the papers' systems, against golden files that were read line by line.

A golden file is the script as ReFrame wrote it in a dry run, without what every job has (the shell
function that runs a launch) and with paths, hashes, times and the benchmark's arguments replaced.
``MPIBENCH_GOLDEN=write`` writes them: read the diff.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import synthetic_stack
from mpibench_tune import published
from programs import compare, fabric_of, kept, listed, normalised
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
def stacks_variable(tmp_path_factory: pytest.TempPathFactory) -> str:
    return synthetic_stack.write_all(tmp_path_factory.mktemp("stacks"))


def dry_run(run_reframe, stacks: str, stage: Path, words: str, only: str) -> str:
    options = f"--dry-run -S level=smoke --stage={stage} --keep-stage-files {words}".split()
    done = run_reframe(*options, environ={"MPIBENCH_STACKS": stacks}, only=only)
    assert done.returncode == 0 and "WARNING" not in done.stdout, done.stdout[-3000:]
    return done.stdout


@pytest.mark.parametrize("system", CASES)
def test_job_scripts(system: str, run_reframe, stacks_variable: str, tmp_path: Path) -> None:
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


def lines_of(name: str) -> list[str]:
    system, _, script = name.partition("/")
    return kept(system)[f"{script}.txt"].splitlines()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        # Appendix B.2 and A of the Cambridge paper: DAPL over one port, never
        # another network, ranks started through TM; eight ranks scattered: socket 0 has the odd
        # cores, socket 1 the even ones (section 3.3), in turn.
        (
            "cambridge-westmere/connectx2-intelmpi-401-qdr",
            [
                "export I_MPI_FABRICS=shm:dapl",
                "export I_MPI_DAPL_PROVIDER=ofa-v2-mlx4_0-1",
                "export I_MPI_FALLBACK=0",
                'export I_MPI_MPD_RSH="$PWD"/pbsdsh_rsh',
                "export I_MPI_ADJUST_ALLTOALLV=2",
                "export I_MPI_PIN_PROCESSOR_LIST=1,0,3,2,7,6,9,8",
                "#PBS -l nodes=2:ppn=8",
            ],
        ),
        (
            "cambridge-westmere/mixed-openmpi-142-qdr_mixed",
            ["rank 8=+n1 slot=1", "export OMPI_MCA_plm=tm", "export OMPI_MCA_btl=self,sm,openib"],
        ),
        (
            "cambridge-westmere/mixed-mvapich2-15-qdr_mixed",
            ["export MV2_CPU_MAPPING=1:0:3:2:7:6:9:8", 'cp "$PBS_NODEFILE" hostfile'],
        ),
        # Omni-Path: TMI until 2018, libfabric's psm2 provider from 2019 on.
        ("openhpc-mini/opa100-intelmpi-2018-opa100", ["export I_MPI_TMI_PROVIDER=psm2"]),
        ("openhpc-mini/opa100-intelmpi-2019-opa100", ["export FI_PROVIDER=psm2"]),
        ("openhpc-mini/eth1g-openmpi-ohpc-eth1g", ["export OMPI_MCA_btl_tcp_if_include=eth0"]),
        ("openhpc-mini/edr100-openmpi-ohpc-edr100", ["export UCX_NET_DEVICES=mlx5_0:1"]),
        # One rank per NUMA node and adapter needs no PSM2_MULTIRAIL ("How to Use Dual Rail?", 1).
        (
            "opa-dual-rail/dual-intelmpi-2019-opa200",
            ["export PSM2_MULTIRAIL=0", "export I_MPI_PIN_DOMAIN='[0x1,0x1000000]'"],
        ),
        ("opa-dual-rail/dual-intelmpi-2019-opa200_striped", ["export PSM2_MULTIRAIL=1"]),
        # "Environments that use only one link (port) are described as sn_single" (appendix A).
        ("ibm-p5-575/links1-pempi-43-ib4x", ["export MP_EUIDEVICE=sn_single"]),
        (
            "ibm-p5-575/links4-pempi-43-ib4x",
            ["export MP_EUIDEVICE=sn_all", "export MP_TASKS_PER_NODE=8"],
        ),
    ],
)
def test_scripts_say_what_the_papers_say(name: str, wanted: list[str]) -> None:
    assert set(wanted) <= set(lines_of(name))


@pytest.mark.parametrize(
    ("name", "unwanted"),
    [
        ("cambridge-westmere/mixed-intelmpi-401-qdr_mixed", "I_MPI_PIN_DOMAIN"),
        ("opa-dual-rail/dual-intelmpi-2019-opa200", "HFI_UNIT"),
        ("ibm-js21/cores2-pempi-43-ib4x", " -np "),  # POE counts by variables
    ],
)
def test_what_must_not_be_said(name: str, unwanted: str) -> None:
    assert unwanted not in "\n".join(lines_of(name))


#: Units of a paper in MB/s, where it prints others: (system, benchmark) to MB/s in one of them.
#: Both ways at once count twice.
IN_MB_PER_S = {
    ("cambridge-westmere", "PingPong"): 1e3,
    ("opa-dual-rail", "Uniband"): 125.0,
    ("opa-dual-rail", "Biband"): 250.0,
}


def learned(system: str) -> list[tuple[tuple, list]]:
    """Entries of a system's references.yaml: (test, partition, stack,
    fabric, nodes, ppn, pinning, metric) and value.
    """
    content = site.read_references(system)
    return _leaves({key: node for key, node in content.items() if key != "provenance"})


@pytest.mark.parametrize("system", CASES)
def test_references_of_a_paper_are_its_numbers(system: str) -> None:
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


@pytest.mark.parametrize("system", CASES)
def test_every_number_of_a_paper_that_can_be_a_reference_is_one(system: str) -> None:
    """Latencies and bandwidths under a condition the tests can ask for, of what a test measures:
    IMB-P2P's rates are its latencies once more; ib_send_bw is no MPI's. osu_put_bw is that of the
    window the paper shows.
    """
    known: dict[tuple, list[float]] = {}
    for keys, value in learned(system):
        known.setdefault((*keys[4:6], keys[-1]), []).append(value[0])
    short = {"latency_us": "latency", "bandwidth_mb_per_s": "bandwidth"}
    measured = {"PingPong", "PingPing", "Uniband", "Biband", "Exchange", "osu_put_bw"}
    for row in published.read(system):
        if row["quantity"] in short and row["nodes"] and row["benchmark"] != "ib_send_bw":
            assert row["benchmark"] in measured
            window = ".allocate_flush" if row["benchmark"] == "osu_put_bw" else ""
            metric = f"{row['benchmark']}{window}.{short[row['quantity']]}"
            keys = (int(row["nodes"]), int(row["ppn"]), f"{metric}.{row.message_bytes or 0:010}")
            assert pytest.approx(row.number, rel=1e-9) in known[keys]


def _leaves(node: object, keys: tuple = ()) -> list[tuple[tuple, list]]:
    if not isinstance(node, dict):
        return [] if keys[-1:] == ("$index",) else [(keys, node)]
    return [leaf for key, child in node.items() for leaf in _leaves(child, (*keys, key))]
