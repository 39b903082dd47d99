"""Every sentence of the evidence checks, on rank records made by hand; nothing is run here."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reframe_tests.harness.evidence import checks, rank_records
from reframe_tests.harness.evidence.checks import check_clocks, check_settings
from reframe_tests.harness.launchers import open_mpi, registry
from reframe_tests.harness.stacks.modules import Module
from refusals import refused_as
from synthetic_conditions import ODD, resolved
from synthetic_evidence import DOCUMENT, STACK, make_rank, pair

# ---- reading ----


def test_reads_every_rank_by_number(tmp_path: Path):
    for number, pid in ((1, 5), (0, 6)):
        document = {**DOCUMENT, "pid": pid, "world": {"rank": number, "size": 2}}
        (tmp_path / f"c1.{pid}.json").write_text(json.dumps(document))
    (tmp_path / ".c1.7.part").write_text("{")
    assert [(rank.rank, rank.pid) for rank in rank_records.read(tmp_path)] == [(0, 6), (1, 5)]


def test_no_folder_is_no_evidence(tmp_path: Path):
    assert rank_records.read(tmp_path / "none") == []


def test_launcher_variables_serve_where_mpi_was_not_asked():
    rank = make_rank(world=None)
    assert (rank.rank, rank.size, rank.world_known) == (0, 2, False)
    assert (lost := make_rank(world=None, rank=None, size=None)).rank is None and lost.size is None


@given(st.integers(0, len(json.dumps(DOCUMENT)) - 1))
def test_file_cut_short_is_an_error(length: int):
    with refused_as("evidence-cut", match=r"^The evidence x\.json is cut short or damaged .*run the case again\.$"):
        rank_records.parse_rank(json.dumps(DOCUMENT)[:length], "x.json")


def paths(value: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    return [at, *(p for key in value for p in paths(value[key], (*at, key)))] if isinstance(value, dict) else [at]


#: What a file may lack: values the kernel or the launcher does not always have, free-form maps, and facts for the reader.
OPTIONAL = {"cpu", "numa_node", "rx_bytes", "tx_bytes", "dev_port", "slot"}
FREE = {"environment", "interfaces", "ports", "release", "value", "source", "received_bytes"}


@pytest.mark.parametrize(
    "path", [p for p in paths(DOCUMENT) if p and not {p[-1]} & OPTIONAL and not set(p[:-1]) & FREE and p[-1] not in FREE]
)
@pytest.mark.parametrize("damage", ["missing", "replaced"])
def test_damaged_part_is_an_error(path: tuple[str, ...], damage: str):
    document = copy.deepcopy(DOCUMENT)
    at = document
    for key in path[:-1]:
        at = at[key]
    if damage == "missing":
        del at[path[-1]]
    else:
        at[path[-1]] = 5 if isinstance(at[path[-1]], str) else [{}]
    with pytest.raises(rank_records.EvidenceError, match=r"^The evidence x\.json (is damaged|has layout)"):
        rank_records.parse_rank(json.dumps(document), "x.json")


def test_bytes_of_names_come_back():
    assert make_rank(environment={"UCX_X": "caf\u00c3\u00a9"}).environment["UCX_X"] == "café"


def test_nameless_ranks_come_last(tmp_path: Path):
    for name, rank in (("a", None), ("b", None), ("c", {"value": "1", "source": "PMI_RANK"})):
        (tmp_path / f"{name}.json").write_text(json.dumps({**DOCUMENT, "world": None, "rank": rank}))
    assert [rank.rank for rank in rank_records.read(tmp_path)] == [1, None, None]


def test_thread_that_ended_while_looked_at_is_left_out():
    threads = [{"name": None, "cpus": None}, {"name": "a", "cpus": None}, {"name": "b", "cpus": "1"}]
    assert make_rank(init__threads=threads).init.threads == (("b", frozenset({1})),)


@given(st.frozensets(st.integers(0, 300)))
def test_cpu_lists_round_trip(cpus: frozenset[int]):
    assert rank_records.parse_cpus("" if not cpus else checks.format_cpus(cpus)) == cpus


# ---- presence ----


def test_all_there():
    assert checks.check_presence(pair(), nodes=1, ppn=2) == []


def test_nothing_at_all():
    (sentence,) = checks.check_presence([], nodes=2, ppn=4)
    assert sentence.startswith("none of the 8 ranks left evidence: ") and "LD_PRELOAD" in sentence


def test_missing_rank():
    (sentence,) = checks.check_presence([make_rank(0)], nodes=1, ppn=2)
    assert sentence.startswith("rank 1 of 2 left no evidence:")
    many = [make_rank(0, world={"rank": 0, "size": 6})]
    assert checks.check_presence(many, nodes=1, ppn=6)[0].startswith("ranks 1-5 of 6 left no evidence:")


def test_rank_that_never_finalised():
    killed = {**DOCUMENT, "finalized": False, "world": {"rank": 1, "size": 2}, "pid": 8}
    del killed["finalize"]
    ranks = [make_rank(0), rank_records.parse_rank(json.dumps(killed), "x")]
    (sentence,) = checks.check_presence(ranks, nodes=1, ppn=2)
    assert sentence == "rank 1 on c1 never called MPI_Finalize: killed, hung or ended early."


def test_singletons_are_named_as_such():
    """What srun --mpi=none gives: exit status 0, SLURM_PROCID of 0 and 1, and two worlds of one rank each."""
    ranks = pair(world={"rank": 0, "size": 1}, rank={"value": "0", "source": "SLURM_PROCID"})
    (sentence,) = checks.check_presence(ranks, nodes=1, ppn=2)
    assert sentence == (
        "2 processes started as MPI worlds of one rank each, 2 ranks in one world were asked for: launcher and MPI "
        "library do not speak the same process management interface (PMI)."
    )


def test_single_rank_is_no_singleton():
    assert checks.check_presence([make_rank(world={"rank": 0, "size": 1})], nodes=1, ppn=1) == []


def test_duplicated_rank():
    sentences = checks.check_presence([make_rank(0), make_rank(0, pid=101)], nodes=1, ppn=2)
    assert sentences[0] == "rank 0 left evidence 2 times (c1 pid 100, c1 pid 101); each rank is one process."
    assert sentences[1].startswith("rank 1 of 2 left no evidence:")


def test_world_of_another_size():
    sentences = checks.check_presence([make_rank(n, world={"rank": n, "size": 3}) for n in range(3)], nodes=1, ppn=2)
    assert sentences == [
        "3 ranks are in a world of 3, 2 ranks in one world were asked for.",
        "ranks 2 left evidence, 2 ranks were asked for.",
    ]


def test_ranks_without_a_number():
    nameless = [make_rank(world=None, rank=None, pid=pid) for pid in (9, 8)]
    assert checks.check_presence([*nameless, make_rank(0)], nodes=1, ppn=3)[-2:] == [
        "process 9 on c1 does not know its rank; no launcher announced it.",
        "process 8 on c1 does not know its rank; no launcher announced it.",
    ]


def test_a_number_that_is_none_is_named():
    odd = make_rank(world=None, rank={"value": "two", "source": "TORUS_RANK"})
    sentences = checks.check_presence([odd], nodes=1, ppn=1)
    assert "process 100 on c1 does not know its rank; TORUS_RANK of its launcher is no number." in sentences


def test_why_mpi_was_not_asked_is_a_note():
    lost = make_rank(0, world=None, world_unknown="no handle")
    assert lost.world_unknown == "no handle" and make_rank(1).world_unknown == ""
    [note] = checks.notes([lost, make_rank(1)])
    assert note == "rank and size of rank 0 on c1 are the launcher's, not MPI's: no handle"


def test_ranks_unevenly_spread():
    ranks = [make_rank(n, host, world={"rank": n, "size": 4}) for n, host in enumerate(("c1", "c1", "c1", "c2"))]
    (sentence,) = checks.check_presence(ranks, nodes=2, ppn=2)
    assert sentence == "asked for 2 per node on 2 nodes, the ranks ran on c1 (3), c2 (1)."


def test_all_ranks_on_one_of_two_nodes():
    (sentence,) = checks.check_presence(pair(), nodes=2, ppn=1)
    assert sentence == "asked for 1 per node on 2 nodes, the ranks ran on c1 (2)."


def test_evidence_of_two_jobs():
    ranks = [make_rank(0), make_rank(1, job={"value": "8", "source": "SLURM_JOB_ID"})]
    assert checks.check_presence(ranks, nodes=1, ppn=2) == ["evidence of several jobs is mixed up (7, 8)."]


# ---- library ----


def test_library_asked_for():
    assert checks.check_library(pair(), STACK) == []


@pytest.mark.parametrize("name", ["libmpi.so", "libmpi.so.40.40.7", "libmpi_abi.so.1"])
def test_copies_in_the_same_folder_are_the_same_library(name: str):
    path = f"/opt/ompi/lib/{name}"
    assert checks.check_library(pair(library__path=path, library__mapped=[path]), STACK) == []


def test_other_library():
    other = {"version": "MPICH Version:      5.0.2\nMPICH ABI: 18:2:6", "path": "/opt/mpich/lib/libmpi.so.12"}
    ranks = [make_rank(0), make_rank(1, "c2", library={**other, "mapped": [other["path"]]})]
    assert checks.check_library(ranks, STACK) == [
        "asked for Open MPI 5.0.11 at /opt/ompi/lib/libmpi.so.40, rank 1 on c2 ran MPICH Version:      5.0.2 from "
        "/opt/mpich/lib/libmpi.so.12."
    ]


def test_of_a_stack_of_modules_the_library_is_the_modules_own():
    stack = replace(STACK, modules=(Module("gcc/12"), Module("openmpi/5.0.11")))
    path = "/usr/lib/libmpi.so.40"
    (sentence,) = checks.check_library(pair(library__path=path, library__mapped=[path]), stack)
    assert sentence.startswith("asked for Open MPI 5.0.11 of modules gcc/12 and openmpi/5.0.11 at /opt/ompi/lib/libmpi.so.40, ")


def test_other_version_at_the_right_place():
    (sentence,) = checks.check_library(pair(library__version="Open MPI v5.0.3"), STACK)
    assert sentence.endswith("ranks 0 and 1 on c1 ran Open MPI v5.0.3 from /opt/ompi/lib/libmpi.so.40.")


def test_right_version_from_another_place():
    path = "/usr/lib/libmpi.so.40"
    (sentence,) = checks.check_library(pair(library__path=path, library__mapped=[path]), STACK)
    assert sentence.endswith(f"ran Open MPI v5.0.11 from {path}.")


@pytest.mark.parametrize(
    ("claimed", "banner", "good"),
    [
        ("5.0.2", "Open MPI v5.0.2, package: Open MPI, ident: 5.0.2", True),
        ("5.0.1", "Open MPI v5.0.2, package: Open MPI, ident: 5.0.2", False),
        ("5.0.20", "Open MPI v5.0.2, package: Open MPI, ident: 5.0.2", False),
        ("2021.18.1", "Intel(R) MPI Library 2021.18 for Linux* OS", True),
        ("2021.17.1", "Intel(R) MPI Library 2021.18 for Linux* OS", False),
        ("2.3.7-1", "MVAPICH2 Version      :\t2.3.7", True),
        ("4.1", "MPICH Version:      4.1.2", True),
        ("4.1.2", "MPICH, of no version", False),
    ],
)
def test_the_version_a_stack_claims_is_the_one_the_library_tells(claimed: str, banner: str, good: bool):
    """A metadata file edited by hand may claim anything, and a number is stored under that claim."""
    stack = replace(STACK, mpi_version=claimed, library_version_pattern=".")
    sentences = checks.check_library(pair(library__version=banner), stack)
    assert [claimed in sentence and "asked for" in sentence for sentence in sentences] == ([] if good else [True])


def test_library_that_tells_nothing():
    (sentence,) = checks.check_library(pair(library__version=None, library__path=None, library__mapped=[]), STACK)
    assert sentence.endswith("ran an MPI that does not say its version from an unknown file.")


def test_second_library_in_the_process():
    mapped = ["/opt/ompi/lib/libmpi.so.40", "/opt/ompi/lib/libmpi_mpifh.so.40", "/usr/lib/libmpi.so.12"]
    (first, _) = checks.check_library(pair(library__mapped=mapped), STACK)
    assert first == ("rank 0 on c1 has a second MPI library mapped beside /opt/ompi/lib/libmpi.so.40: /usr/lib/libmpi.so.12.")


# ---- placement ----


def test_explicit_placement_kept():
    assert checks.check_placement(pair(), "bunch", [[0], [1]]) == []


def test_mask_differs_from_the_placement():
    ranks = [make_rank(0), make_rank(1, init__cpus="0-3", finalize__cpus="0-3")]
    assert checks.check_placement(ranks, "scatter", [[0], [2]]) == [
        "asked for rank 1 on c1 on core 2 (scatter), the kernel lets it run on cores 0-3."
    ]


def test_placement_goes_by_rank_order_within_each_node():
    ranks = [make_rank(n, host, world={"rank": n, "size": 4}) for n, host in ((3, "c2"), (0, "c1"), (1, "c2"), (2, "c1"))]
    masks = {0: "0", 2: "1", 1: "0", 3: "1"}
    ranks = [replace(r, init=replace(r.init, cpus=rank_records.parse_cpus(masks[r.rank])), finalize=None) for r in ranks]
    assert checks.check_placement(ranks, "bunch", [[0], [1]]) == []
    assert len(checks.check_placement(ranks, "bunch", [[1], [0]])) == 4


def test_placement_for_another_number_of_ranks():
    assert checks.check_placement(pair(), "bunch", [[0], [1], [2]]) == ["the placement is for 3 ranks per node, c1 ran 2."]


@pytest.mark.parametrize("policy", ["default", "none"])
def test_no_pinning_at_all(policy: str):
    assert checks.check_placement(pair(init__cpus="0-3", finalize__cpus="0-3"), policy) == []


def test_pinned_although_none_was_asked_for():
    assert checks.check_placement([make_rank(0)], "none") == [
        "asked for no pinning, but rank 0 on c1 may only run on core 0 of 0-3."
    ]
    assert checks.check_placement([make_rank(0)], "default") == []


def test_none_is_what_cgroup_or_launcher_left():
    confined = make_rank(0, load={**DOCUMENT["load"], "parent_cpus": "0", "cpuset": "0-3"})
    assert checks.check_placement([confined], "none") == []
    offline = make_rank(0, load={**DOCUMENT["load"], "parent_cpus": None, "cpuset": "0,9"})
    assert checks.check_placement([offline], "none") == []
    nothing_known = make_rank(0, load={**DOCUMENT["load"], "parent_cpus": None, "cpuset": None, "online": "0"})
    assert checks.check_placement([nothing_known], "none") == []


@pytest.mark.parametrize("policy", ["default", "none"])
def test_two_ranks_on_one_core(policy: str):
    ranks = pair(init__cpus="0", finalize__cpus="0", load={**DOCUMENT["load"], "cpuset": "0"})
    assert checks.check_placement(ranks, policy) == ["ranks 0 and 1 on c1 may both run on core 0 only: 2 ranks for 1 core."]


def test_crowd_is_found_behind_wider_masks():
    """Ranks 0-2 share cores 0 and 1; rank 3 could run anywhere and is not to blame."""
    masks = ["0-1", "0-1", "0-1", "0-3"]
    ranks = [make_rank(n, world={"rank": n, "size": 4}, init__cpus=mask, finalize__cpus=mask) for n, mask in enumerate(masks)]
    assert checks.check_placement(ranks, "default") == ["ranks 0-2 on c1 may all run on cores 0-1 only: 3 ranks for 2 cores."]


def test_matching_moves_earlier_ranks_aside():
    masks = ["0-1", "0", "0-2", "1-2,3"]
    ranks = [make_rank(n, world={"rank": n, "size": 4}, init__cpus=mask, finalize__cpus=mask) for n, mask in enumerate(masks)]
    assert checks.check_placement(ranks, "default") == []


@given(st.lists(st.frozensets(st.integers(0, 4), min_size=1), min_size=1, max_size=6))
def test_sharing_is_found_exactly_when_no_seating_exists(masks: list[frozenset[int]]):
    def seatable(left: Sequence[frozenset[int]], taken: frozenset[int] = frozenset()) -> bool:
        return not left or any(seatable(left[1:], taken | {core}) for core in left[0] - taken)

    blank = make_rank(0)
    ranks = [replace(blank, rank=n, init=replace(blank.init, cpus=mask), finalize=None) for n, mask in enumerate(masks)]
    assert (checks.check_placement(ranks, "default") == []) == seatable(masks)


def test_same_core_on_two_nodes_is_no_sharing():
    ranks = [make_rank(0, "c1"), make_rank(1, "c2", init__cpus="0", finalize__cpus="0")]
    assert checks.check_placement(ranks, "default") == []


def test_two_threads_of_one_core_are_one_core():
    assert checks.check_placement(pair(), "default", core_of=lambda cpu: cpu // 2) == [
        "ranks 0 and 1 on c1 may both run on core 0 only: 2 ranks for 1 core."
    ]


def test_rank_moved_during_the_run():
    assert checks.check_placement([make_rank(0, finalize__cpus="0-3")], "bunch", [[0]]) == [
        "rank 0 on c1 was moved during the run: core 0 after MPI_Init, cores 0-3 at the end."
    ]


# ---- what is noted without being a contradiction ----


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


# ---- clocks of the nodes, as the ranks saw them ----

BASE_NS = 1_795_000_000_000_000_000
RUN_NS = 2_000_000_000


def rank(number: int, at_init_s: float = 0, at_end_s: float = 0):
    return make_rank(
        number,
        f"c{number + 1}",
        init__realtime_ns=BASE_NS + int(at_init_s * 1e9),
        finalize__realtime_ns=BASE_NS + RUN_NS + int(at_end_s * 1e9),
    )


@pytest.mark.parametrize("late", [0, 5, 29])
def test_clocks_that_agree_say_nothing_even_if_ranks_are_late(late: float) -> None:
    assert check_clocks([rank(0), rank(1, late, late)]) == []
    assert check_clocks([rank(0), rank(1, 100, 0)][:1]) == []
    assert check_clocks([]) == []


@pytest.mark.parametrize(
    ("offset", "wanted"), [(100, "c2 and c1 disagree by 100 s (c2"), (-3600, "c1 and c2 disagree by 3600 s (c1")]
)
def test_clocks_that_disagree_are_named(offset: float, wanted: str) -> None:
    [sentence] = check_clocks([rank(0), rank(1, offset, offset)])
    assert wanted in sentence


def test_ranks_that_wait_for_each_other_at_one_end_only_are_no_wrong_clocks() -> None:
    assert check_clocks([rank(0), rank(1, 28, 0)]) == []


@pytest.mark.parametrize("jump", [3600, -3600])
def test_a_jump_during_the_run_names_its_node(jump: float) -> None:
    [sentence] = check_clocks([rank(0), rank(1, 0, jump)])
    assert f"the clock of c2 jumped by {jump:+d} s during the run" in sentence


def test_a_rank_that_never_finalised_is_not_asked() -> None:
    lost = replace(rank(1, 1000, 1000), finalize=None)
    assert check_clocks([rank(0), lost]) == []


# ---- variables reach every rank as they were written, and evidence compares what was asked with what each rank had ----

# ---- what a rank had ----


def test_equal_values_are_proven() -> None:
    assert check_settings(pair(), {"I_MPI_FABRICS": "shm:ofi"}) == []


def test_another_value_names_variable_asked_had_and_rank() -> None:
    ranks = [make_rank(0), make_rank(1, environment={"I_MPI_FABRICS": "shm"})]
    [sentence] = check_settings(ranks, {"I_MPI_FABRICS": "shm:ofi"})
    assert sentence == "asked for I_MPI_FABRICS='shm:ofi', but rank 1 on c1 had 'shm'."


def test_a_variable_that_did_not_arrive_is_named() -> None:
    ranks = [make_rank(0), make_rank(1, host="c2", environment={})]
    assert check_settings(ranks, {"I_MPI_FABRICS": "shm:ofi"}) == [
        "asked for I_MPI_FABRICS='shm:ofi', but rank 1 on c2 had none."
    ]


def test_ranks_that_had_the_same_are_named_together() -> None:
    [sentence] = check_settings(pair(), {"X": "1"})
    assert sentence == "asked for X='1', but ranks 0 and 1 on c1 had none."


def test_what_a_launcher_keeps_may_be_absent_but_not_other() -> None:
    asked = {"HYDRA_TOPO_DEBUG": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    assert check_settings(pair(environment={}), asked, {"I_MPI_PIN": "on"}) == []
    [sentence] = check_settings(pair(environment={"I_MPI_PIN": "off"}), asked, {"I_MPI_PIN": "on"})
    assert sentence == "asked for I_MPI_PIN='on', but ranks 0 and 1 on c1 had 'off'."


def test_what_srun_sets_again_is_no_contradiction() -> None:
    had = {"SLURM_CPU_BIND": "quiet,mask_cpu:0x1"}
    assert check_settings(pair(environment=had), {"SLURM_CPU_BIND": "cores"}) == []
    assert check_settings(pair(environment=had), {}, {"SLURM_CPU_BIND": "cores"}) == []


@pytest.mark.parametrize("name", ("PATH", "LD_LIBRARY_PATH"))
def test_a_launcher_may_put_its_folders_before_a_search_path(name: str) -> None:
    asked = {name: "/site/a:/site/b"}
    assert check_settings(pair(environment={name: "/opt/mpi/lib:/site/a:/site/b"}), asked) == []
    for other in ("/opt/mpi/lib", "/site/a:/site/b:/opt/mpi/lib", "/opt/site/a:/site/b"):
        assert len(check_settings(pair(environment={name: other}), asked)) == 1, other
    assert len(check_settings(pair(environment={"X": "a:b"}), {"X": "b"})) == 1, "no search path"


def test_a_long_value_is_cut_in_the_sentence_only() -> None:
    value = "x" * 5000
    assert check_settings(pair(environment={"A": value}), {"A": value}) == []
    [sentence] = check_settings(pair(environment={"A": value + "y"}), {"A": value})
    assert len(sentence) < 500 and "(5001 characters)" in sentence


def test_the_evidence_library_in_front_is_no_other_preload() -> None:
    ours = "/site/results/recorder/recorder-x86_64-0123456789ab.so"
    asked = {"LD_PRELOAD": "libxalt.so:libm.so.6"}
    assert check_settings(pair(environment={"LD_PRELOAD": f"{ours}:libxalt.so:libm.so.6"}), asked) == []
    [sentence] = check_settings(pair(environment={"LD_PRELOAD": ours}), asked)
    assert sentence == "asked for LD_PRELOAD='libxalt.so:libm.so.6', but ranks 0 and 1 on c1 had none."
    [sentence] = check_settings(pair(environment={"LD_PRELOAD": f"{ours}:libm.so.6"}), asked)
    assert sentence == "asked for LD_PRELOAD='libxalt.so:libm.so.6', but ranks 0 and 1 on c1 had 'libm.so.6'."


# ---- what a condition asks for ----


def test_all_that_is_set_is_asked_of_the_ranks() -> None:
    where = resolved(replace(STACK, env_vars={"STACKS_OWN": "1"}))
    asked = where.asked_env
    assert {"STACKS_OWN", "SITES_OWN", "USERS_OWN", "OMPI_MCA_coll_tuned_x", "OMPI_MCA_btl_tcp_if_include"} <= asked.keys()
    assert asked["OMPI_MCA_pml"] == "cm", "the user wins"
    assert set(where.recorded) >= set(asked)
    assert where.job_env["SITES_OWN"] == ODD


@pytest.mark.parametrize("family", ["prrte", "orterun"])
def test_mpirun_of_open_mpi_is_reported_to_take_all_variables_along(family: str) -> None:
    version = {"prrte": "5.0.11", "orterun": "4.1.4"}[family]
    where = resolved(replace(STACK, launcher_family=family, mpi_version=version, env_vars={"STACKS_OWN": "1"}), nodes=2)
    words = where.launcher_words([], [])
    taken = {words[at + 1] for at, word in enumerate(words) if word == "-x"}
    assert {"SITES_OWN", "USERS_OWN", "STACKS_OWN"} <= taken
    assert not any(name.startswith(open_mpi.OWN_VARIABLES) for name in taken), "those go by themselves"


def test_mpirun_rsh_without_export_names_all_variables() -> None:
    old = replace(
        STACK, mpi="mvapich2", mpi_version="1.5", launcher_family="mpirun_rsh", device="ch3:mrail", env_vars={"STACKS_OWN": "1"}
    )
    words = replace(resolved(), stack=old, launcher=registry.families()["mpirun_rsh"]).launcher_words([], [])
    assert {f"SITES_OWN={ODD}", f"USERS_OWN={ODD}", "STACKS_OWN=1"} <= set(words)
