"""What is noted without being a contradiction."""

from __future__ import annotations

from reframe_tests.harness.evidence import checks
from synthetic_evidence import make_rank


def usage(switches: int) -> dict[str, int]:
    return {"involuntary_switches": switches}


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
