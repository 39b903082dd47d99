"""Every sentence of the evidence checks, on rank records made by hand; nothing is run here."""

import copy
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reframe_tests.harness.evidence import checks, rank_records
from reframe_tests.harness.evidence.rank_records import parse_rank
from reframe_tests.harness.launchers import open_mpi, registry
from refusals import refused_as
from synthetic_evidence import DOCUMENT, ODD, STACK, make_rank, pair, resolved

# ---- reading ----


def test_reads_every_rank_by_number_and_nameless_ones_last(tmp_path):
    for pid, number in ((7, None), (5, 1), (6, 0)):
        known = None if number is None else {"rank": number, "size": 2}
        document = {**DOCUMENT, "pid": pid, "world": known, "rank": None}
        with (tmp_path / "c1.0.jsonl").open("a") as file:
            file.write(f"\n{json.dumps(document)}\n")
    read = [(rank.rank, rank.pid) for rank in rank_records.read(tmp_path)]
    assert read == [(0, 6), (1, 5), (None, 7)]
    assert rank_records.read(tmp_path / "none") == []


def test_the_end_of_a_rank_stands_behind_its_begin(tmp_path):
    """And what a full disk cut damages no other rank's lines."""
    end = {
        name: DOCUMENT[name] for name in ("format", "host", "pid", "loaded_ns", "init", "finalize")
    }
    begin = {key: value for key, value in DOCUMENT.items() if key != "finalize"}
    begun, other = ({**begin, "finalized": False, "pid": pid} for pid in (100, 101))
    lines = [json.dumps(one) for one in (begun, other, {**end, "finalized": True})]
    (tmp_path / "c1.0.jsonl").write_text("".join(f"\n{line}\n" for line in lines))
    ended = {rank.pid: rank.finalize is not None for rank in rank_records.read(tmp_path)}
    assert ended == {100: True, 101: False}
    (tmp_path / "c1.0.jsonl").write_text(f"\n{lines[0][:200]}\n{lines[1]}\n")
    ranks, damaged = rank_records.read_all(tmp_path)
    assert ([rank.pid for rank in ranks], len(damaged)) == ([101], 1)
    with refused_as("output-cut", match=r"c1\.0\.jsonl:2 is truncated"):
        rank_records.read(tmp_path)


@given(st.integers(0, len(json.dumps(DOCUMENT)) - 1))
def test_file_cut_short_is_an_error(length):
    with refused_as(
        "output-cut", match=r"^The evidence x\.json is truncated or damaged .*run the case again\.$"
    ):
        parse_rank(json.dumps(DOCUMENT)[:length], "x.json")


def paths(value, at=()):
    return (
        [at, *(p for key in value for p in paths(value[key], (*at, key)))]
        if isinstance(value, dict)
        else [at]
    )


#: What a file may lack: values the kernel or the launcher does not always
#: have, free-form maps, and facts for the reader.
OPTIONAL = {"cpu", "numa_node", "rx_bytes", "tx_bytes", "dev_port", "slot"}
FREE = {"environment", "interfaces", "ports", "release", "value", "source", "received_bytes"}


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in paths(DOCUMENT)
        if p and not {p[-1]} & OPTIONAL and not set(p[:-1]) & FREE and p[-1] not in FREE
    ],
)
@pytest.mark.parametrize("damage", ["missing", "replaced"])
def test_damaged_part_is_an_error(path, damage):
    document = copy.deepcopy(DOCUMENT)
    at = document
    for key in path[:-1]:
        at = at[key]
    if damage == "missing":
        del at[path[-1]]
    else:
        at[path[-1]] = 5 if isinstance(at[path[-1]], str) else [{}]
    with pytest.raises(
        rank_records.EvidenceError, match=r"^The evidence x\.json (is damaged|has layout)"
    ):
        parse_rank(json.dumps(document), "x.json")


def test_bytes_of_names_come_back():
    assert make_rank(environment={"UCX_X": "caf\u00c3\u00a9"}).environment["UCX_X"] == "café"


def test_thread_that_ended_while_looked_at_is_left_out():
    threads = [
        {"name": None, "cpus": None},
        {"name": "a", "cpus": None},
        {"name": "b", "cpus": "1"},
    ]
    assert make_rank(init__threads=threads).init.threads == (("b", frozenset({1})),)


@given(st.frozensets(st.integers(0, 300)))
def test_cpu_lists_round_trip(cpus):
    assert rank_records.parse_cpus("" if not cpus else checks.format_cpus(cpus)) == cpus


def sayings(sentences, words):
    """Whether each sentence has its words, and there is no other."""
    return len(sentences) == len(words) and all(map(str.__contains__, sentences, words))


# ---- presence ----

KILLED = {**DOCUMENT, "finalized": False, "world": {"rank": 1, "size": 2}}
del KILLED["finalize"]


def world(size, *hosts):
    return [make_rank(n, host, world={"rank": n, "size": size}) for n, host in enumerate(hosts)]


@pytest.mark.parametrize(
    ("ranks", "nodes", "ppn", "said"),
    [
        (pair(), 1, 2, []),
        (world(1, "c1"), 1, 1, []),
        ([], 2, 4, ["none of the 8 ranks left evidence"]),
        ([make_rank(0)], 1, 2, ["rank 1 of 2 left no evidence"]),
        ([make_rank(0), parse_rank(json.dumps(KILLED), "x")], 1, 2, ["rank 1 on c1 never called"]),
        # What srun --mpi=none gives, with exit status 0.
        (world(1, "c1") * 2, 1, 2, ["2 processes started as MPI worlds of one rank"]),
        ([make_rank(0), make_rank(0, pid=101)], 1, 2, ["rank 0 left evidence 2", "rank 1 of 2"]),
        (world(3, "c1", "c1", "c1"), 1, 2, ["in a world of 3", "ranks 2 left evidence"]),
        ([make_rank(world=None, rank=None), make_rank(0)], 1, 2, ["does not know its rank"]),
        (world(4, "c1", "c1", "c1", "c2"), 2, 2, ["the ranks ran on c1 (3), c2 (1)"]),
        (
            [make_rank(0), make_rank(1, job={"value": "8", "source": "SLURM_JOB_ID"})],
            1,
            2,
            ["several jobs is mixed up (7, 8)"],
        ),
    ],
)
def test_every_rank_must_have_been_there(ranks, nodes, ppn, said):
    assert sayings(checks.check_presence(ranks, nodes, ppn), said)


def test_why_mpi_was_not_asked_is_a_note():
    [note] = checks.notes([make_rank(0, world=None, world_unknown="no handle"), make_rank(1)])
    assert note == "rank and size of rank 0 on c1 are the launcher's, not MPI's: no handle"


# ---- one launch ----


@pytest.mark.parametrize(
    ("changes", "other", "wanted"),
    [
        ({}, {}, ""),
        ({"nonce": None}, {}, "its nonce is none, the launch's k.1"),
        ({"nonce": ""}, {}, "its nonce is "),
        ({"nonce": "k.2"}, {}, "its nonce is k.2, the launch's k.1"),
        ({"init__uptime": "0.40 9"}, {}, "it is from 0.40 to 3.00 s after boot"),
        ({"finalize__uptime": "3.60 9"}, {}, "the launch ran from 0.50 to 3.50 s"),
        # hundredths are cut off
        ({"init__uptime": "0.49 9", "finalize__uptime": "3.51 9"}, {}, ""),
        # Another kernel has another uptime.
        ({"finalize__uptime": "99.0 9", "node__boot_id": "b"}, {}, ""),
        ({}, {"pid": 100}, "is that of the same process in pair, repeat 1: it was copied"),
        # numbers of processes come again
        ({}, {"pid": 100, "init__monotonic_ns": 1_000_000_001}, ""),
    ],
)
def test_evidence_is_of_one_launch(changes, other, wanted):
    ranks = pair(**{"node__boot_id": "a", **changes})
    others = {"pair, repeat 1": [make_rank(0, **{"pid": 7, **other})]}
    sentences = checks.check_launch(ranks, "k.1", "a", (0.5, 3.5), others)
    assert sayings(sentences, [wanted] if wanted else [])
    assert len(checks.check_launch(ranks, "")) == 1 and not checks.check_launch([], "")


# ---- library ----


@pytest.mark.parametrize(
    ("abi", "name", "mapped", "faults"),
    [
        (1, "libmpi_abi.so.1", "/opt/ompi/lib/libmpi.so.40", 0),
        (1, "libmpi_abi.so.1", "/usr/lib/libmpi_abi.so.1", 2),  # of both ranks
        (1, "libmpi.so.40", "", 1),  # the MPI's own ABI, its library
        (-1, "libmpi_abi.so.1", "", 1),  # its library under the other name
    ],
)
def test_a_stack_of_the_forums_abi_ran_its_own_libmpi_abi(abi, name, mapped, faults):
    stack = replace(STACK, abi="forum", library="/opt/ompi/lib/libmpi_abi.so.1")
    path = f"/opt/ompi/lib/{name}"
    library = {**DOCUMENT["library"], "path": path, "abi": abi, "mapped": [path, mapped]}
    assert len(checks.check_library(pair(library=library), stack)) == faults


@pytest.mark.parametrize(
    ("version", "path", "mapped", "said"),
    [
        ("Open MPI v5.0.11", "/opt/ompi/lib/libmpi.so.40", [], []),
        (
            "Open MPI v5.0.11",
            "/opt/ompi/lib/libmpi_abi.so.1",
            [],
            ["from /opt/ompi/lib/libmpi_abi.so.1."],
        ),
        ("Open MPI v5.0.11", "/usr/lib/libmpi.so.40", [], ["from /usr/lib/libmpi.so.40."]),
        ("Open MPI v5.0.3", "/opt/ompi/lib/libmpi.so.40", [], ["ranks 0 and 1 on c1 ran Open MPI"]),
        (None, None, [], ["ran an MPI of unknown version from an unknown file."]),
        (
            "Open MPI v5.0.11",
            "/opt/ompi/lib/libmpi.so.40",
            ["/opt/ompi/lib/libmpi_mpifh.so.40", "/usr/lib/libmpi.so.12"],
            ["rank 0 on c1 has a second MPI library mapped", "/libmpi.so.40: /usr/lib/libmpi.so.1"],
        ),
    ],
)
def test_ranks_ran_the_library_asked_for_and_no_other(version, path, mapped, said):
    library = {"version": version, "path": path, "size_bytes": 2000, "mapped": mapped}
    assert sayings(checks.check_library(pair(library=library), STACK), said)


@pytest.mark.parametrize(
    ("claimed", "banner", "good"),
    [
        ("5.0.2", "Open MPI v5.0.2, package: Open MPI, ident: 5.0.2", True),
        ("5.0.20", "Open MPI v5.0.2, package: Open MPI, ident: 5.0.2", False),
        ("2021.18.1", "Intel(R) MPI Library 2021.18 for Linux* OS", True),
        ("2.3.7-1", "MVAPICH2 Version      :\t2.3.7", True),
        ("4.1.2", "MPICH, of no version", False),
    ],
)
def test_the_version_a_stack_claims_is_the_one_the_library_tells(claimed, banner, good):
    """A metadata file edited by hand may claim anything, and a number is stored under it."""
    stack = replace(STACK, mpi_version=claimed, library_version_pattern=".")
    assert (checks.check_library(pair(library__version=banner), stack) == []) == good


# ---- placement ----


def masked(*masks):
    return [make_rank(n, init__cpus=mask, finalize__cpus=mask) for n, mask in enumerate(masks)]


def left(**load):
    """One rank on core 0, and what cgroup and launcher left it."""
    return [make_rank(0, load={**DOCUMENT["load"], **load})]


@pytest.mark.parametrize(
    ("ranks", "policy", "cores", "said"),
    [
        (pair(), "bunch", [[0], [1]], []),
        (
            masked("0", "0-3"),
            "scatter",
            [[0], [2]],
            ["core 2 (scatter), but the kernel lets it run"],
        ),
        (
            pair(),
            "bunch",
            [[0], [1], [2]],
            ["the placement is for 3 ranks per node, but c1 ran 2."],
        ),
        (masked("0-3", "0-3"), "none", None, []),
        (pair()[:1], "default", None, []),
        (pair()[:1], "none", None, ["rank 0 on c1 may only run on core 0 of 0-3"]),
        (left(parent_cpus="0"), "none", None, []),
        (left(parent_cpus=None, cpuset="0,9"), "none", None, []),
        (left(parent_cpus=None, cpuset=None, online="0"), "none", None, []),
        (masked("0", "0"), "default", None, ["ranks 0 and 1 on c1 may both run on core 0 only"]),
        # Rank 3 could run anywhere and is not to blame.
        (masked("0-1", "0-1", "0-1", "0-3"), "default", None, ["0-2 on c1 may all run on cores"]),
        ([make_rank(0), make_rank(0, "c2")], "default", None, []),
        ([make_rank(0, finalize__cpus="0-3")], "bunch", [[0]], ["was moved during the run"]),
    ],
)
def test_where_the_kernel_let_ranks_run(ranks, policy, cores, said):
    assert sayings(checks.check_placement(ranks, policy, cores), said)


def test_placement_goes_by_rank_order_within_each_node():
    rows = ((3, "c2", "1"), (0, "c1", "0"), (1, "c2", "0"), (2, "c1", "1"))
    ranks = [make_rank(n, host, init__cpus=cpu, finalize__cpus=cpu) for n, host, cpu in rows]
    assert checks.check_placement(ranks, "bunch", [[0], [1]]) == []
    assert len(checks.check_placement(ranks, "bunch", [[1], [0]])) == 4
    threads_of_one = checks.check_placement(pair(), "default", core_of=lambda cpu: cpu // 2)
    assert len(threads_of_one) == 1


@given(st.lists(st.frozensets(st.integers(0, 4), min_size=1), min_size=1, max_size=6))
def test_sharing_is_found_exactly_when_no_seating_exists(masks):
    def seatable(left, taken=frozenset()):
        return not left or any(seatable(left[1:], taken | {core}) for core in left[0] - taken)

    blank = make_rank(0)
    ranks = [
        replace(blank, rank=n, init=replace(blank.init, cpus=mask), finalize=None)
        for n, mask in enumerate(masks)
    ]
    assert (checks.check_placement(ranks, "default") == []) == seatable(masks)


# ---- what is noted without being a contradiction ----


def test_ranks_that_lose_their_core_are_noted():
    calm, busy = (
        make_rank(
            n, finalize__usage={"involuntary_switches": switches, "schedstat": f"1000 {waited} 9"}
        )
        for n, (switches, waited) in enumerate([(19, 0), (501, 1_500_000_000)])
    )
    assert checks.contention_per_s(calm) == 9.0 and checks.notes([calm]) == []
    assert checks.longest_wait([[calm, busy], [calm]]) == 0.375
    assert checks.core_losses_per_s([[calm, busy], [calm]]) == (250 + 9) / 2
    assert checks.notes([calm, busy]) == [
        "1 rank often lost the core to others, rank 1 on c1 250 times a second (noted from 10)"
    ]


OURS = "/site/results/recorder/recorder-x86_64-0123456789ab.so"


def test_what_else_was_preloaded_is_noted():
    alone = make_rank(0, environment={"LD_PRELOAD": OURS})
    beside = make_rank(1, environment={"LD_PRELOAD": f"{OURS}:/opt/xalt/libxalt_init.so libm.so.6"})
    assert checks.notes([alone]) == []
    said = "preloaded /opt/xalt/libxalt_init.so, libm.so.6 beside the evidence library"
    for ranks, who in (([beside, beside], "all ranks"), ([alone, beside], "rank 1 on c1")):
        assert sayings(checks.notes(ranks), [f"{who} {said}"])


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/opt/imb/IMB-MPI1", True),
        ("/opt/ompi/lib/libmpi.so.40", True),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", True),
        ("/lib/libc-2.28.so", True),
        ("/lib/ld-musl-x86_64.so.1", True),
        ("linux-vdso.so.1", True),
        ("/usr/lib/faketime/libfaketime.so.1", False),
        ("/opt/other/libmpi.so.40", False),
        ("/tmp/libclock.so", False),
    ],
)
def test_whoever_else_says_the_time_is_named(path, known):
    ranks = pair(library={**DOCUMENT["library"], "clocks": {"clock_gettime": path}})
    said = f"ranks 0 and 1 on c1 took the time from clock_gettime of {path}, which"
    assert sayings(checks.check_library(ranks, STACK), [] if known else [said])


# ---- clocks of the nodes, as the ranks saw them ----


def clocked(number, at_init_s=0, at_end_s=0):
    begun, ended = (1_795_000_000 + at_init_s, 1_795_000_002 + at_end_s)
    times = {"init__realtime_ns": int(begun * 1e9), "finalize__realtime_ns": int(ended * 1e9)}
    return make_rank(number, f"c{number + 1}", **times)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([], []),
        ([clocked(0), clocked(1, 29, 29)], []),
        # Ranks wait for each other at one end only.
        ([clocked(0), clocked(1, 28, 0)], []),
        ([clocked(0), replace(clocked(1, 1000, 1000), finalize=None)], []),
        ([clocked(0), clocked(1, 100, 100)], ["c2 and c1 disagree by 100 s (c2"]),
        ([clocked(0), clocked(1, -3600, -3600)], ["c1 and c2 disagree by 3600 s (c1"]),
        ([clocked(0), clocked(1, 0, -3600)], ["the clock of c2 jumped by -3600 s during the run"]),
    ],
)
def test_clocks_that_disagree_or_jump_are_named(ranks, said):
    assert sayings(checks.check_clocks(ranks), said)


# ---- variables reach every rank as they were written ----

LIBRARIES = {"LD_PRELOAD": "libxalt.so:libm.so.6"}
PIN = {"I_MPI_PIN": "on"}
BOUND = {"SLURM_CPU_BIND": "cores"}


@pytest.mark.parametrize(
    ("had", "asked", "by_launcher", "said"),
    [
        ({"X": "a:b"}, {"X": "a:b"}, {}, []),
        ({"X": "a:b"}, {"X": "b"}, {}, ["asked for X='b', but ranks 0 and 1 on c1 had 'a:b'."]),
        ({}, {"X": "1"}, {}, ["asked for X='1', but ranks 0 and 1 on c1 had none."]),
        # What a launcher keeps may be absent, but not another.
        ({}, {"HYDRA_TOPO_DEBUG": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1"}, PIN, []),
        ({"I_MPI_PIN": "off"}, {}, PIN, ["had 'off'"]),
        # What srun sets again.
        ({"SLURM_CPU_BIND": "quiet,mask_cpu:0x1"}, BOUND, BOUND, []),
        # A launcher may put its folders before a search path.
        ({"PATH": "/opt/mpi/bin:/a:/b"}, {"PATH": "/a:/b"}, {}, []),
        ({"PATH": "/a:/b:/opt/mpi/bin"}, {"PATH": "/a:/b"}, {}, ["PATH"]),
        ({"PATH": "/opt/a:/b"}, {"PATH": "/a:/b"}, {}, ["PATH"]),
        # The evidence library in front is no other preload.
        ({"LD_PRELOAD": f"{OURS}:libxalt.so:libm.so.6"}, LIBRARIES, {}, []),
        ({"LD_PRELOAD": OURS}, LIBRARIES, {}, ["had none"]),
        ({"LD_PRELOAD": f"{OURS}:libm.so.6"}, LIBRARIES, {}, ["had 'libm.so.6'"]),
        ({"X": "x" * 5001}, {"X": "x" * 5000}, {}, ["... (5001 characters)."]),
    ],
)
def test_each_rank_must_have_had_what_was_set(had, asked, by_launcher, said):
    assert sayings(checks.check_settings(pair(environment=had), asked, by_launcher), said)


# ---- what a condition asks for ----


def test_all_that_is_set_is_asked_of_the_ranks():
    where = resolved(replace(STACK, env_vars={"STACKS_OWN": "1"}))
    asked = where.asked_env
    assert {
        "STACKS_OWN",
        "SITES_OWN",
        "USERS_OWN",
        "OMPI_MCA_coll_tuned_x",
        "OMPI_MCA_btl_tcp_if_include",
    } <= asked.keys()
    assert asked["OMPI_MCA_pml"] == "cm", "the user wins"
    assert set(where.recorded) >= set(asked)
    assert where.job_env["SITES_OWN"] == ODD


@pytest.mark.parametrize(("family", "version"), [("prrte", "5.0.11"), ("orterun", "4.1.4")])
def test_mpirun_of_open_mpi_is_reported_to_take_all_variables_along(family, version):
    where = resolved(
        replace(STACK, launcher_family=family, mpi_version=version, env_vars={"STACKS_OWN": "1"}),
        nodes=2,
    )
    words = where.launcher_words([], [])
    taken = {words[at + 1] for at, word in enumerate(words) if word == "-x"}
    assert {"SITES_OWN", "USERS_OWN", "STACKS_OWN"} <= taken
    assert not any(name.startswith(open_mpi.OWN_VARIABLES) for name in taken), (
        "those go by themselves"
    )


def test_mpirun_rsh_without_export_names_all_variables():
    old = replace(
        STACK,
        mpi="mvapich2",
        mpi_version="1.5",
        launcher_family="mpirun_rsh",
        device="ch3:mrail",
        env_vars={"STACKS_OWN": "1"},
    )
    words = replace(
        resolved(), stack=old, launcher=registry.families()["mpirun_rsh"]
    ).launcher_words([], [])
    assert {f"SITES_OWN={ODD}", f"USERS_OWN={ODD}", "STACKS_OWN=1"} <= set(words)
