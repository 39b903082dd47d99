"""What is noted without being a contradiction, and what is kept for database and report."""

from __future__ import annotations

import dataclasses
import json

from reframe_tests.harness.evidence import checks
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_evidence import exchange, make_rank

GB = 1_000_000_000
LO = Fabric("lo", "tcp", "node", (Rail("lo"),))
HOME = "127.0.0.1"


def usage(switches: int) -> dict[str, int]:
    return {"user_us": 0, "system_us": 0, "voluntary_switches": 0, "involuntary_switches": switches}


def test_ranks_that_lose_their_core_are_noted():
    calm, busy = make_rank(0, finalize__usage=usage(19)), make_rank(1, finalize__usage=usage(501))
    assert checks.contention_per_s(calm) == 9.0
    assert checks.notes([calm]) == []
    assert checks.notes([calm, busy]) == [
        "1 rank lost the core to others often, rank 1 on c1 250 times a second (noted from 10 on)"
    ]
    worse = make_rank(2, finalize__usage=usage(1001))
    assert checks.notes([busy, worse, calm]) == [
        "2 ranks lost the core to others often, rank 2 on c1 500 times a second (noted from 10 on)"
    ]


OURS = "/site/results/recorder/recorder-x86_64-0123456789ab.so"


def test_what_else_was_preloaded_is_noted():
    alone = make_rank(0, environment={"LD_PRELOAD": OURS})
    beside = make_rank(1, environment={"LD_PRELOAD": f"{OURS}:/opt/xalt/libxalt_init.so libm.so.6"})
    assert checks.notes([alone]) == checks.notes([make_rank(0, environment={})]) == []
    said = "preloaded /opt/xalt/libxalt_init.so, libm.so.6 beside the evidence library (LD_PRELOAD of the job or its nodes)"
    assert checks.notes([beside, beside]) == [f"all ranks {said}"]
    assert checks.notes([alone, beside]) == [f"rank 1 on c1 {said}"]


def test_summary_is_plain_data_with_the_facts():
    ranks = exchange({"lo": 2 * GB}, ((HOME, HOME, 2 * GB),))
    finding = checks.check_traffic(ranks, LO, 2 * GB)
    summary = checks.summarise(ranks, finding, ["a sentence."])
    assert json.loads(json.dumps(summary)) == summary
    assert summary["seconds"] == 2.0
    assert summary["library"] == [{"version": "Open MPI v5.0.11", "path": "/opt/ompi/lib/libmpi.so.40", "ranks": 2}]
    assert [(row["rank"], row["host"], row["cpus"], row["finalized"]) for row in summary["ranks"]] == [
        (0, "c1", "0", True),
        (1, "c1", "1", True),
    ]
    assert summary["carried"]["lo"] == 2 * GB
    (node,) = summary["nodes"]
    assert node["tcp_sent_by_ranks"] == {"lo": 2 * GB} and node["tcp_known"] and node["kernel"] == {"release": "6.1"}
    assert checks.summarise(exchange({"lo": 0}))["nodes"][0]["tcp_known"] is False
    assert summary["environment"] == {"I_MPI_FABRICS": "shm:ofi"}
    assert summary["sentences"] == ["a sentence."]


def test_summary_of_a_run_that_broke_off():
    hung = dataclasses.replace(make_rank(1), finalize=None)
    summary = checks.summarise([make_rank(0, finalize__usage=usage(19)), hung])
    assert [(row["finalized"], row["seconds"], row["involuntary_switches_per_s"]) for row in summary["ranks"]] == [
        (True, 2.0, 9.0),
        (False, None, None),
    ]
    (node,) = checks.summarise([hung])["nodes"]
    assert (node["counted"], node["tcp_known"]) == ({}, False)


def test_summary_takes_the_slowest_rank():
    ranks = [make_rank(0, finalize__monotonic_ns=9_000_000_000), make_rank(1)]
    assert checks.summarise(ranks)["seconds"] == 8.0


def test_summary_of_nothing():
    assert checks.summarise([])["seconds"] is None
