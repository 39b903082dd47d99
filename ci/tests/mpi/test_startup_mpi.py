"""Starting ranks of a real MPI, measured and proven; and starts that
say too little, which are no measurement.
"""

import programs
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.stacks import metadata


def test_a_start_is_stored_by_the_number_of_nodes(require_stack, run_and_read, tmp_path):
    """OsuStartup with two ranks over TCP on this machine."""
    name = programs.add_to(require_stack("mpich-wheels"), tmp_path / "startup")
    words = f"-p {name} -S repeats=2 -n OsuStartup%fabric=lo%nodes=1%ppn=2%pinning=bunch"
    there = {metadata.EXTRA_STACKS: str(tmp_path / "startup")}
    done, [case] = run_and_read(words, "startup.py", there)
    assert (done.returncode, case.result, case.evidence) == (0, "pass", PROVEN), done.stdout[-3000:]
    measured = {
        (one.benchmark, one.variant, one.ranks, one.quantity): one.measured for one in case.samples
    }
    assert set(measured) == {
        *(
            ("osu_init", "nodes=1", 2, quantity)
            for quantity in ("t_min_us", "t_max_us", "t_avg_us")
        ),
        ("osu_hello", "nodes=1", 2, "time_s"),
    }
    low, mean, high = (
        measured["osu_init", "nodes=1", 2, f"t_{name}_us"] for name in ("min", "avg", "max")
    )
    assert len(low) == 2 and all(
        one <= two <= three for one, two, three in zip(low, mean, high, strict=True)
    )
    # The ranks are in MPI_Init for a part of the whole launch only.
    assert all(seconds >= 0.01 for seconds in measured["osu_hello", "nodes=1", 2, "time_s"])
    assert "generic:default:osu_hello.nodes1.time" in case.entry["perfvalues"]
