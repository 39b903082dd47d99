"""What ``mpibench prove`` says of records: the network, the cores, the library, and what is missing."""

import errno
import io
import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from mpibench import exit_status
from mpibench_prove import answer, commands, launch
from mpibench_prove.launch import RecordedRun
from reframe_tests.harness.evidence.rank_records import Bytes, parse_cpus
from refusals import refused_as
from synthetic_evidence import exchange, make_rank

GB = 1e9
#: Bytes over InfiniBand and not Ethernet, the other way round, and beside somebody else's.
RIGHT = {"mlx5_0/1": GB, "eth1": 2e4}
WRONG = {"mlx5_0/1": 2e4, "eth1": GB}
BESIDE = {"eth2": 9 * GB, "eth1": GB}


def run_of(*launches, status=0):
    return RecordedRun(("mpirun",), status, tuple(map(tuple, launches)), (), Path("records"))


def on_two_nodes(sent, own=0.0, **changes):
    """A rank on each of two nodes that sent so many bytes, some of them by the first's sockets."""
    sockets = [("10.0.0.1", "10.0.0.2", own)] if own else []
    first = exchange(sent, sockets, **changes)[0]
    last = exchange(sent, [], host="c2", **changes)[1]
    return [first, last]


def said(ranks, *expected):
    return "\n".join(answer.prove(run_of(ranks), expected).lines())


def holds(word, *launches):
    """Whether it is as expected; if it is not, or not known, the command fails."""
    found = answer.prove(run_of(*launches), [word])
    [one] = found.expectations
    assert found.status == (0 if one.holds else answer.CONTRADICTED)
    return one.holds


@pytest.mark.parametrize(
    ("sent", "own", "word", "right"),
    [
        (RIGHT, 0, "fabric=mlx5_0", True),
        (RIGHT, 0, "fabric=mlx5_0/1", True),
        (RIGHT, 0, "no-ethernet", True),
        (WRONG, GB, "fabric=mlx5_0", False),
        (WRONG, GB, "no-ethernet", False),
        (WRONG, 2 * GB, "fabric=tcp", True),
        (RIGHT, 2e4, "fabric=tcp", False),
        ({"mlx5_0/1": GB, "mlx5_1/1": GB}, 0, "fabric=mlx5_0", False),
        ({"mlx5_0/1": 0, "eth1": 2e4}, 0, "fabric=mlx5_0", None),
        ({}, 0, "no-ethernet", None),
        ({"eth1": 0}, 0, "no-ethernet", True),
        ({"mlx5_0/1": GB}, 0, "fabric=shm", False),
        # Green when blind: a backup over the right network, and the program on the wrong one.
        (BESIDE, GB, "fabric=eth1", True),
        (BESIDE, GB, "fabric=eth2", False),
        (BESIDE, GB, "fabric=tcp", True),
    ],
)
def test_the_network_is_the_one_that_carried_the_ranks_bytes(sent, own, word, right):
    assert holds(word, on_two_nodes(sent, own)) is right


@pytest.mark.parametrize("upper", ["vlan1", "ib0"])
def test_one_wire_under_two_names(upper):
    """A VLAN over an interface, IP over an InfiniBand port: both count, and TCP is the upper's."""
    lower = {"vlan1": "eth1", "ib0": "mlx5_0/1"}[upper]
    slot, there = "0000:01:00.0", {"dev_port": 0, "lower": []}
    facts = {
        upper: {**there, "slot": slot, "addresses": ["10.0.0.1"]},
        "eth1": {**there, "slot": None, "addresses": []},
    }
    facts[upper]["lower"] = [lower] * (upper == "vlan1")
    port = {"slot": slot, "link_layer": "InfiniBand"}
    ranks = on_two_nodes(
        {upper: GB, lower: GB + 100},
        2 * GB,
        node__interfaces=facts,
        node__ports={"mlx5_0/1": port} if upper == "ib0" else {},
    )
    for word in (f"fabric={upper}", f"fabric={lower}", "fabric=tcp"):
        assert holds(word, ranks), word
    assert holds("no-ethernet", ranks) is False
    assert said(ranks).count("2.0 GB by") == 1


def test_on_one_node_only_tcp_can_be_seen():
    inside = exchange({"lo": GB}, [("127.0.0.1", "127.0.0.1", GB)])
    quiet = exchange({"lo": 100}, [])
    assert "1.0 GB over TCP" in said(inside)
    for ranks, word, right in (
        (inside, "fabric=shm", False),
        (quiet, "fabric=shm", True),
        (exchange({"lo": 0, "mlx5_0/1": GB}, []), "fabric=shm", False),
        (inside, "fabric=eth1", None),  # nothing had to leave the node
        (inside, "fabric=tcp", True),
        (quiet, "fabric=tcp", None),
        (inside[:1], "fabric=tcp", None),
    ):
        assert holds(word, ranks) is right, word


def placed(*cpus, smt="0", siblings=""):
    """Ranks of one node on these CPUs; the threads of each one's cores, in order, by semicolons."""
    cores = siblings.split(";") if siblings else [None] * len(cpus)
    ranks = [
        make_rank(number, size={"value": str(len(cpus)), "source": "PMI_SIZE"}, world=None)
        for number in range(len(cpus))
    ]
    return [
        replace(
            rank,
            rank=number,
            size=len(cpus),
            kernel={**rank.kernel, "smt_active": smt},
            init=replace(rank.init, cpus=parse_cpus(where), siblings=core and parse_cpus(core)),
            finalize=replace(rank.last, cpus=parse_cpus(where)),
        )
        for number, (rank, where, core) in enumerate(zip(ranks, cpus, cores, strict=True))
    ]


@pytest.mark.parametrize(
    ("cpus", "smt", "siblings", "own", "words"),
    [
        (("0", "1"), "0", "", True, "each of 2 ranks on 1 CPU of its own (0-1)"),
        (("0", "1"), "1", "", None, "maybe threads of one core"),
        (("0", "1"), "1", "0,64;1,65", True, "of its own"),
        (("0", "1"), "1", "0,1;0,1", False, "whose cores others use, too (0-1)"),
        (("0", "0"), "0", "", False, "may both run on core 0 only"),
        (("0-1", "1-2"), "0", "", False, "whose cores others use, too"),
        (("0-3", "0-3"), "0", "", False, "not bound: 2 ranks on CPUs 0-3"),
        (("0-3",), "1", "", True, "not bound: 1 rank on CPUs 0-3"),
        (("0-11",) * 11, "0", "", False, "each of 11 ranks on 12 CPUs whose cores others use, too"),
    ],
)
def test_cores(cpus, smt, siblings, own, words):
    ranks = placed(*cpus, smt=smt, siblings=siblings)
    assert words in said(ranks, "cores=own")
    assert holds("cores=own", ranks) is own


def test_of_several_nodes_the_worst_decides():
    ranks = placed("0", "1", "0-1", "0-1")
    there = [replace(rank, host="c2") for rank in ranks[2:]]
    assert holds("cores=own", [*ranks[:2], *there]) is False


def test_a_launch_beside_it_may_have_the_same_cores():
    """Green when blind: two launchers each bound their ranks from core 0 on."""
    ranks = placed("0", "1")
    for apart, right in ((0, False), (10**12, True)):
        later = [
            replace(
                rank,
                init=replace(rank.init, monotonic_ns=rank.init.monotonic_ns + apart),
                finalize=replace(rank.last, monotonic_ns=rank.last.monotonic_ns + apart),
            )
            for rank in ranks
        ]
        assert holds("cores=own", ranks, later) is right


def test_what_cannot_be_counted_is_not_known():
    """Green when blind: RDMA without counters, sockets that nobody could ask."""
    port = {"mlx5_0/1": Bytes(None, None)}
    over_tcp = on_two_nodes({"eth1": GB}, GB)
    hidden = [
        replace(rank, init=replace(rank.init, ports=port), finalize=replace(rank.last, ports=port))
        for rank in over_tcp
    ]
    assert "not countable here: mlx5_0/1" in said(hidden)
    assert holds("fabric=eth1", hidden) is holds("fabric=tcp", hidden) is None
    assert holds("fabric=shm", exchange({"lo": 100}, None)) is None
    unasked = exchange({"eth1": 0}, None, host="c2")[1]
    assert holds("fabric=tcp", [over_tcp[0], unasked]), "what is not known could only be more"


def test_ranks_that_nobody_numbered_may_be_half_of_them():
    alone = [make_rank(0, world=None, rank=None, size=None)]
    assert holds("no-ethernet", alone) is None
    assert "no launcher told the ranks" in said(alone)


def test_the_library_and_two_of_them():
    ranks = exchange({"lo": 0}, [], library__version="Open MPI v5.0.11, package: Open MPI")
    other = make_rank(
        1, library__version="MPICH Version:      4.3.2", library__path="/opt/libmpi.so.12"
    )
    mixed = [ranks[0], other]
    assert "do not all run the same MPI library" in said(mixed)
    for word, of, right in (
        ("mpi=openmpi", ranks, True),
        ("mpi=mpich", ranks, False),
        ("mpi=openmpi", mixed, False),
        ("no-ethernet", mixed, True),  # it is known whatever MPI it is
    ):
        assert holds(word, of) is right, word
    assert not holds("mpi=openmpi", [make_rank(0, library__version="Some MPI 1.0")])


def test_nothing_holds_of_ranks_that_are_missing():
    """Green when blind: half of the records never came, or a rank was killed."""
    first, last = on_two_nodes({"mlx5_0/1": GB})
    killed = replace(last, finalize=None)
    for left, words in (([first], "1 of 2 ranks"), ([first, killed], "never called")):
        assert holds("cores=own", left) is None
        assert words in said(left)


def test_without_a_record_everything_expected_is_unknown(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    run = RecordedRun((str(program),), 0, (), (), tmp_path)
    found = answer.prove(run, ["cores=own"])
    assert found.status == answer.CONTRADICTED
    assert "No rank left a record" in "\n".join(found.lines())


def test_the_command_keeps_its_exit_status():
    ranks = on_two_nodes({"mlx5_0/1": GB})
    for status, expected in ((137, []), (1, ["no-ethernet"]), (0, [])):
        assert answer.prove(run_of(ranks, status=status), expected).status == status


def test_what_fails_is_said_with_the_launch_that_it_is_of():
    good = on_two_nodes({"mlx5_0/1": GB})
    bad = on_two_nodes({"eth1": GB}, GB)
    found = answer.prove(run_of(good, bad, good), ["fabric=mlx5_0", "no-ethernet", "cores=own"])
    assert [(one.holds, one.launch) for one in found.expectations[:2]] == [(False, 2), (False, 2)]
    assert sum(line.startswith("launch 2: ") for line in found.lines()) == 1
    assert answer.prove(run_of(bad), ["no-ethernet"]).expectations[0].launch is None


def sizes(ranks):
    """Ranks of each launch."""
    return [len(one) for one in launch.split(ranks)]


def test_a_command_of_several_programs_has_a_launch_of_each():
    """A script that starts MPI twice: equal numbers are of different launches."""
    first, second = exchange({"lo": 0}, [])
    later = [
        make_rank(
            number,
            init__realtime_ns=1_795_000_100_000_000_000,
            init__monotonic_ns=100_000_000_000,
            loaded_ns=99_000_000_000,
            finalize__monotonic_ns=101_000_000_000,
            pid=300 + number,
        )
        for number in (0, 1)
    ]
    # One of the first was killed: another one's rank does not stand in for it.
    assert sizes([first, *later]) == [1, 2]
    # A run of no time at all: one had ended before the other could look at its clock.
    soon = replace(second, init=replace(second.init, monotonic_ns=first.last.monotonic_ns + 1))
    assert sizes([first, soon]) == [2]
    # Another program or library in one world is no other launch.
    other = replace(second, executable="/opt/other", library="/opt/other/libmpi.so")
    assert sizes([first, other]) == [2]
    shuffled = [first, second, *later]
    assert sizes(shuffled) == [2, 2]
    for order in itertools.permutations(shuffled):
        assert [one[0].pid for one in launch.split(order)] == [100, 300]


def test_one_program_twice_at_once_is_told_apart_by_its_steps():
    """On the second node the other step's rank begins first."""
    order = [("c1", "3", 0, 1), ("c1", "4", 0, 2), ("c2", "4", 1, 3), ("c2", "3", 1, 4)]
    ranks = [
        make_rank(
            number,
            host=host,
            pid=100 * int(step) + number,
            environment={"SLURM_STEP_ID": step},
            loaded_ns=second,
            init__monotonic_ns=10**9 * second,
            init__realtime_ns=1_795_000_000_000_000_000 + 10**9 * second,
            finalize__monotonic_ns=10**10,
        )
        for host, step, number, second in order
    ]
    assert [[rank.pid for rank in one] for one in launch.split(ranks)] == [[300, 301], [400, 401]]


def alone(number, size, second):
    """A process whose world is its own, and which its launcher called one of several."""
    return make_rank(
        number,
        library__version="Open MPI v5.0.11, package: Open MPI",
        world={"rank": 0, "size": 1},
        rank={"value": str(number), "source": "SLURM_PROCID"},
        size={"value": size, "source": "SLURM_NTASKS"},
        pid=100 + number,
        init__monotonic_ns=second * 10**9,
        finalize__monotonic_ns=second * 10**9 + 1,
    )


def test_worlds_of_one_rank_are_said_to_be_that():
    """Green when blind: every rank did its own sum, and nobody waited for another."""
    ranks = [alone(number, "3", 10 * number) for number in range(3)]
    [launched] = launch.split(ranks)
    assert [one.announced[0] for one in launched] == [0, 1, 2]
    assert not holds("cores=own", launched)
    lines = said(launched)
    assert "3 processes are MPI worlds of one rank each" in lines and "--mpi=pmix" in lines
    # One program without a launcher in a job of several tasks misses nobody.
    assert holds("fabric=shm", ranks[:1])
    assert sizes([alone(0, "1", 1), alone(0, "1", 9)]) == [1, 1]


@pytest.mark.parametrize(("second", "right"), [(0, None), (5, True)])
def test_worlds_of_one_rank_beside_one_another_are_not_known(second, right):
    """MPICH's mpirun starts a program of Open MPI: no number of the launcher's is read."""
    launches = launch.split(
        [
            replace(alone(number, "1", number * second), loaded_ns=number * second * 10**9)
            for number in range(2)
        ]
    )
    assert [len(one) for one in launches] == [1, 1]
    assert holds("fabric=shm", *launches) is right


def test_launches_are_told_apart_though_clocks_of_nodes_differ():
    """Two nodes, then one of them, then both again; the other's clock is 100 s behind."""

    def at(number, host, second, pid):
        behind = 100 * (host == "c2")
        return make_rank(
            number,
            host=host,
            pid=pid,
            loaded_ns=second * 10**9,
            init__monotonic_ns=second * 10**9 + 1,
            finalize__monotonic_ns=second * 10**9 + 2,
            init__realtime_ns=(1_795_000_000 + second - behind) * 10**9,
            finalize__realtime_ns=(1_795_000_000 + second - behind) * 10**9 + 1,
        )

    ranks = [
        *(at(0, "c1", 10, 1), at(1, "c2", 10, 1)),
        *(at(0, "c1", 20, 2), at(1, "c1", 20, 2)),
        *(at(0, "c1", 30, 3), at(1, "c2", 30, 3)),
    ]
    found = launch.split(ranks)
    assert sorted([rank.pid for rank in one] for one in found) == [[1, 1], [2, 2], [3, 3]]
    assert "clocks of c1 and c2 disagree by 100 s" in said(found[0])


def test_an_expectation_that_is_none_is_refused():
    for word in ("fabric", "cores=all", "no-ethernet=1", "x"):
        with refused_as("bad-option", match="expected one|cores=own"):
            answer.check_words([word])
    with refused_as("unknown-name", match="MPIs"):
        answer.check_words(["mpi=foo"])


def test_a_file_that_cannot_be_written_takes_no_answer_away(tmp_path, monkeypatch):
    def ask(path, status=0, *, in_the_way=False):
        def run(words, place, *, keep):
            if in_the_way:
                path.mkdir()
            return RecordedRun(tuple(words), status, (), (), place)

        monkeypatch.setattr(launch, "run", run)
        return exit_status.run(commands.app, ["--json", str(path), "--", "true"])

    assert [ask(path, 7) for path in (tmp_path, tmp_path / "none" / "answer.json")] == [2, 2]
    for status in (0, 7):
        path = tmp_path / f"answer{status}.json"
        assert ask(path, status, in_the_way=True) == (status or 2)
    # A device stays one.
    (tmp_path / "link").symlink_to("/dev/null")
    assert ask(tmp_path / "link") == 0 and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(("own", "status"), [(0, exit_status.BAD_INPUT), (7, 7)])
def test_where_standard_error_is_full_the_command_keeps_its_status(
    own, status, tmp_path, monkeypatch
):

    def refuse(text):
        raise OSError(errno.ENOSPC, "No space left on device")

    words = ["--json", str(tmp_path / "answer"), "--", "true"]
    monkeypatch.setattr(
        launch, "run", lambda *_, keep: RecordedRun(("true",), own, (), (), tmp_path)
    )
    full = io.StringIO()
    monkeypatch.setattr(full, "write", refuse)
    monkeypatch.setattr("sys.stderr", full)
    assert exit_status.run(commands.app, words) == status
    # A sentence that nobody hears is no answer either.
    assert exit_status.run(commands.app, ["--expect", "x", "--", "true"]) == exit_status.BAD_INPUT
    assert (tmp_path / "answer").exists()


def test_of_many_damaged_records_a_few_are_named():
    damaged = tuple(f"record {number} is damaged." for number in range(100))
    found = answer.prove(RecordedRun(("a",), 0, (), damaged, Path()), [])
    assert len(found.problems) == 101 and len(list(found.lines())) <= 2 * answer.FEW


def test_a_folder_that_the_loader_would_cut_is_refused(tmp_path):
    for name in ("My project", "a:b", "$LIB"):
        (tmp_path / name).mkdir()
        with refused_as("bad-option", match="LD_PRELOAD"):
            launch.run(["true"], tmp_path / name)


def test_variables_of_the_batch_system_come_last(tmp_path):
    """In a job, ranks that mpirun started have SLURM_PROCID of the script around them."""
    environ = {"LD_PRELOAD": "other.so", "OMPI_MCA_mca_base_env_list": "MINE"}
    given = launch.variables(tmp_path / "recorder.so", tmp_path, "nonce", environ)
    names = given["MPIBENCH_RANK_VARIABLES"].split(":")
    assert names.index("PMI_RANK") < names.index("SLURM_PROCID")
    assert given["LD_PRELOAD"] == f"{tmp_path / 'recorder.so'}:other.so"
    listed = given["OMPI_MCA_mca_base_env_list"].split(";")
    assert listed[0] == "MINE" and {"LD_PRELOAD", "MPIBENCH_NONCE"} <= set(listed)


def test_a_static_program_is_told_from_a_dynamic_one(tmp_path):
    head = bytearray(64 + 56)
    head[:5] = b"\x7fELF\x02"
    head[32:40] = (64).to_bytes(8, "little")
    head[54:58] = (56).to_bytes(2, "little") + (1).to_bytes(2, "little")
    for kind, static in ((1, True), (3, False)):
        head[64:68] = kind.to_bytes(4, "little")
        (tmp_path / "program").write_bytes(head)
        assert launch.is_static(tmp_path / "program") is static
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert not launch.is_static(tmp_path / "script")
    assert not launch.is_static(tmp_path / "none")
