"""Comparisons: the winner, ties, unequal conditions refused by name, and the page."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from dataset_here import HERE, ask, write_session
from mpibench.judge import pairing
from mpibench.pages import comparison
from mpibench.store.dataset_layout import write_file
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_session import gate as reference_gate

STACKS = ("openmpi-spack", "mpich-spack")
AB = ("a", "b")


def mpich_faster_when_large(benchmark, size, stack):
    return 0.8 if stack == "mpich-spack" and size >= 65536 else 1.0


def show(*words, status=0):
    """Lines the command prints."""
    said = ask("compare --out compare.html", *words)
    assert said.status == status
    return said.out.splitlines()


def of_stack(name, **condition):
    return {"stack": name, "condition": json.dumps({"transport": "tcp", **condition})}


def paired(*sides, by="stack", **options):
    """Two sides, by default stacks a and b of the newest session."""
    return pairing.pair(Store(HERE), "latest", by, *(sides or AB), **options)


def of_conditions(**conditions):
    """Stacks a and b that were measured so."""
    write_session(0, where=[of_stack(name, **how) for name, how in conditions.items()])
    return paired()


def test_winner_and_tie():
    write_session(0, stacks=STACKS, change=mpich_faster_when_large)
    result = paired(*STACKS)
    assert list(dict.fromkeys(result.bands["band"])) == ["small", "medium", "large"]
    large = {row["benchmark"]: row for row in result.bands.to_dicts() if row["band"] == "large"}
    assert large["PingPong"]["ratio"] == pytest.approx(0.8, abs=0.01)
    assert large["Uniband"]["ratio"] == pytest.approx(1.25, abs=0.02)
    assert 1 < large["Uniband"]["low"] < 1.25 < large["Uniband"]["high"]
    for row in large.values():  # one direction for time and bandwidth
        assert row["winner"] == "mpich-spack" and row["times"] == pytest.approx(1.25, abs=0.02)
    _, rows = comparison.summary(result)
    assert [row[1:3] for row in rows if row[0] == "large"] == [["0 of 2", "2 of 2"]]
    back = paired(*reversed(STACKS))
    assert back.bands["winner"].to_list() == result.bands["winner"].to_list()


GOOD = {"optimisation": "-O3", "debugging": "no", "checks": "yes"}


@pytest.mark.parametrize(
    ("compiled", "trouble", "built"),
    [
        (GOOD, "", "in nothing else"),
        ({**GOOD, "optimisation": "no -O"}, "compiled without optimisation (no -O)", "optimised"),
        ({**GOOD, "debugging": "yes"}, "built for debugging", "debugging"),
        ({**GOOD, "checks": "no"}, "", "checks"),
        ({"optimisation": "not known"}, "", "it is unknown how the MPI library of b was compiled"),
    ],
)
def test_a_library_that_is_compiled_badly_or_otherwise_is_never_compared_in_silence(
    compiled, trouble, built
):
    how = {
        name: {"stack": name, "mpi": name, "compiled": each, "built": {"MPI": name}}
        for name, each in (("a", GOOD), ("b", compiled))
    }
    result = of_conditions(**how)
    assert result.troubles == ([f"the MPI library of b is {trouble}"] if trouble else [])
    assert built in " ".join(result.built)


def test_each_pair_of_stacks_says_what_their_locks_differ_in():
    """One thing, nothing, several; what an MPI links follows from its
    netmod, and of another MPI is no difference.
    """
    compilers = {"imb compiler": "gcc@12.2.0", "osu compiler": "gcc@12.2.0"}
    library = "libraries under mpich@5.0.0"
    ofi = {"MPI": "mpich@5.0.0", "mpich netmod": "ofi", library: "libfabric", **compilers}
    stacks = {
        "again": ofi,
        "clang": {**ofi, **dict.fromkeys(compilers, "llvm@14.0.6")},
        "ofi": ofi,
        "openmpi": {"MPI": "openmpi@5.0.10", "openmpi fabrics": "ofi,ucx", **compilers},
        "ucx": {**ofi, "mpich netmod": "ucx", library: "ucx"},
    }
    built = [of_stack(name, built=facts) for name, facts in stacks.items()]
    write_session(0, where=[*built, of_stack("wheel")], sizes=(8,))
    every = pairing.every_pair(Store(HERE), "latest")
    found = {f"{one.first} {one.second}": one for one in every}
    assert len(found) == 15 and next(iter(found)) == "again ofi"
    counts = {"again ofi": 0, "ofi ucx": 1, "clang ofi": 1, "ofi openmpi": 1}
    counts |= {"clang ucx": 2, "clang openmpi": 2}
    assert {pair: len(found[pair].things) for pair in counts} == counts
    assert found["ofi ucx"].built[0].endswith("(mpich) and in nothing else that their locks record")


@pytest.mark.parametrize("changed", [True, False])
def test_a_program_of_one_lock_with_other_bytes_is_said(changed):
    """As one from an unsigned build cache, which somebody changed there with all its checksums."""
    built = {"MPI": "openmpi@4.1.4", "osu version": "7.5.2"}
    for night, digest in enumerate(("aa", "bb" if changed else "aa")):
        programs = {"osu_bw": digest, "libmpi.so.40": "cc"}
        where = [of_stack("a", stack="a", built=built, programs=programs)]
        write_session(night, where=where)
    first, *others = paired("latest~1", "latest", by="session").built
    assert first.endswith("differ in nothing that their locks record")
    said = [one for one in others if "osu_bw of latest~1 and latest are different files" in one]
    assert said == others and len(said) == changed


def test_benchmarks_of_one_name_are_distinguished():
    """IMB and OSU both have an Allgather, and it runs on any number of ranks."""
    write_session(0, stacks=STACKS, benchmarks={"Allgather": "t_avg_us"}, sizes=(8,))
    [path] = HERE.glob("samples/*/*/*.parquet")
    table = pl.read_parquet(path)
    osu = table.with_columns(suite=pl.lit("osu"))
    more = table.with_columns(ranks=pl.lit(4, pl.Int32))
    write_file(path, pl.concat([table, osu, more]))
    lines = show(*STACKS)
    assert [line.split("  ")[0] for line in lines if line.startswith("Allgather")] == [
        "Allgather (imb, 2 ranks)",
        "Allgather (imb, 4 ranks)",
        "Allgather (osu, 2 ranks)",
    ]


def test_what_is_not_compared_is_said_and_what_is_stored_forges_no_line():
    hostile = "evil\x1b[2J\r\nPASS: all is well"

    def edit(row):
        if row["stack"] == "b" and row["benchmark"] == "Uniband":
            if row["message_bytes"] == 1048576:
                return {**row, "value": 0.0}
            if row["message_bytes"] == 4096:
                return None
        return row

    write_session(0, stacks=(hostile, "b"), edit=edit)
    lines = show(hostile, "b")
    assert not [line for line in lines if "\x1b" in line or line.startswith("PASS")]
    text = "\n".join(lines)
    assert "not compared: Uniband (imb, 2 ranks) at 1 MiB, partition node, eth1g, 2 nodes" in text
    assert "5 of 5 values of b are zero" in text
    assert re.search("not compared: 1 metric that only evil.*PASS: all is well has", text)


def broken(stack):
    """A case of a stack beside others, which missed its line rate while the machine was busy."""
    return {
        **of_stack(stack, lost_cores=True),
        "pinning": "none",
        "name": "OsuBandwidth",
        "result": "fail",
        "fail_phase": "performance",
        "gates": [reference_gate("Uniband.line_rate_fraction.4194304", 0.563, 1.0, "1", "physics")],
    }


def test_no_winner_without_the_failures_and_the_load_of_its_session():
    """In text, for programs and on the page, before who wins; whatever side it is of."""
    unproven = {"stack": "a", "pinning": "scatter", "result": "fail", "evidence": "missing"}
    write_session(0, where=[{"stack": "a"}, {"stack": "b"}, unproven, broken("b")])
    lines = show(*AB)
    troubles = lines[1:6]
    for line, words in zip(
        troubles,
        (
            "1 of 2 cases of a are not proven (",
            "1 of 2 cases of b failed (OsuBandwidth [b]) and missed 1 reference",
            "missed reference of b: b on eth1g: Uniband bandwidth at 4 MiB",
            "b: in 1 of 2 cases ranks often lost their core",
            "21 metrics only of b (",
        ),
        strict=True,
    ):
        assert line.startswith(words)
    assert lines.index("Summary") > 5
    page = Path("compare.html").read_text()
    assert page.index("b failed (OsuBandwidth [b])") < page.index("geometric mean")
    answer = json.loads("\n".join(show(*AB, "--json")))
    assert answer["troubles"] == troubles
    assert answer["headline"] == "; ".join([lines[0], *troubles])
    assert show()[:5] == troubles
    lines = show(*AB, "--where", "pinning == 'bunch'")
    assert lines[1].startswith("only a part is judged, 1 of 2 cases of a and 1 of 2 cases of b")


@pytest.mark.parametrize("gone", [None, 0.0])
def test_who_is_faster_does_not_depend_on_who_is_named_first(gone):
    """Whatever only one has, or what is zero on one side, is said with either order."""

    def edit(row):
        lost = row["stack"] == "a" and row["benchmark"] == "Uniband"
        return {**row, "value": gone} if lost and gone is not None else None if lost else row

    write_session(0, stacks=AB, change=faster, edit=edit)
    one, other = (paired(*sides) for sides in ("ab", "ba"))
    assert one.finding == other.finding and sorted(one.troubles) == sorted(other.troubles)
    start, end = ("", "only of b (Uniband)") if gone is None else ("a measured zero in ", "band)")
    assert any(line.startswith(start) and line.endswith(end) for line in one.troubles)


def faster(benchmark, size, stack):
    """How many times the time of other stacks."""
    of_c = 0.5 if size < 4096 else 2.0
    of_e = 0.5 if benchmark == "PingPong" or size < 4096 else 2.0
    return {"b": 1 / 2.5, "c": of_c, "e": of_e}.get(stack, 1.0)


def test_a_comparison_opens_with_who_is_how_many_times_faster_where():
    """By fabric; where it is mixed, for which messages each is, or in how many comparisons."""
    places = [{"fabric": "eth1g"}, {"fabric": "shm"}]
    write_session(0, stacks=tuple("abcde"), where=places, change=faster)
    on_one, on_other = paired().finding.split("; ")
    assert re.fullmatch(r"b is 2\.[45](\d)?( to 2\.5)? times faster than a on eth1g", on_one)
    assert on_other.endswith(" on shm")
    by_size, mixed, tie = (paired("a", one).finding.split("; ")[0] for one in "ced")
    assert "times faster than c for medium and large messages on eth1g, c is " in by_size
    assert by_size.endswith(" for small messages")
    counts = [int(count) for count in re.findall(r"in (\d+)", mixed)]
    assert "e is " in mixed and "a is " in mixed
    assert counts == sorted(counts, reverse=True) and f"in {counts[0]} of {sum(counts)} " in mixed
    assert tie.startswith("a and d are equal within noise ")
    assert ";" not in paired("eth1g", "shm", by="fabric").finding


def test_a_mean_is_ahead_where_its_interval_clears_one():
    """One clear win among ties is none of the whole; the sides may be exchanged."""
    rows = {
        "ahead": ["a", "a", "b"],
        "times": [1.5, 1.02, 1.03],
        "times_low": [1.4, 0.9, 0.9],
        "times_high": [1.6, 1.1, 1.1],
    }
    table = pl.DataFrame(rows)
    assert comparison.mean_text(table[:1], "b", "a") == "a 1.50 times faster"
    assert comparison.mean_text(table[1:], "a", "b") == pairing.TIE
    assert comparison.mean_text(table[:2], "a", "b") == "a 1.24 times faster"
    unknown = table.with_columns(times_low=pl.lit(None, pl.Float64))
    assert comparison.mean_text(unknown, "a", "b") == ""


def test_one_repeat_a_side_wins_nothing():
    write_session(0, stacks=STACKS, change=mpich_faster_when_large, repeats=1)
    assert set(paired(*STACKS).bands["winner"]) == {pairing.UNKNOWN}
    for sides in (STACKS, ()):
        show(*sides, status=3)


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({"placement": [[0], [1]]}, {"placement": [[0], [2]]}, "placement"),
        ({"suites": {"imb": {"version": "2021.3"}}}, {}, "suites"),
    ],
)
def test_unequal_conditions_are_refused_by_name(first, second, what):
    """Of two sides and of all pairs, until they are allowed."""
    write_session(0, where=[of_stack("a", **first), of_stack("b", **second)])
    with refused_as("not-comparable", match=f"measured under different conditions: {what} of"):
        paired()
    [refused] = pairing.every_pair(Store(HERE), "latest")
    assert f"--allow {what}" in refused
    [every] = pairing.every_pair(Store(HERE), "latest", allow=(what,))
    for allowed in (every, paired(allow=[what])):
        assert allowed.unequal[0].startswith(what)


def test_stacks_on_other_nodes_are_to_be_measured_in_one_job():
    nodes = {"a": "n1,n2", "b": "n1,n3"}
    write_session(0, where=[{"stack": s, "nodelist": n} for s, n in nodes.items()])
    with refused_as("not-comparable", match=r"\(-p a -S paired_stack=b\)"):
        paired()


def test_programs_of_what_one_side_did_not_run_are_not_compared():
    """A stack without IMB and one with it share what both can measure."""
    mpi4py = {"mpi4py": {"version": "4.1.2"}}
    both = {"imb": {"version": "2021.11"}, **mpi4py}
    rows = [("a", "p2p", both), ("a", "p2p_mpi4py", both), ("b", "p2p_mpi4py", mpi4py)]
    where = [{**of_stack(stack, suites=suites), "group": group} for stack, group, suites in rows]
    write_session(0, where=where)
    assert paired().unequal == ()


@pytest.mark.parametrize("words", ["a nosuch", "a b --by colour", "a a", "a b --allow it"])
def test_bad_input(words):
    write_session(0, stacks=AB)
    show(*words.split(), status=2)


OF_A = {
    "suites": {"imb": {"compiler": "gcc@12.2.0", "flags": ""}},
    "programs": {"osu_bw": "ab", "osu_latency": "cd", "libmpi.so.12": "12"},
}
DEBIAN = "gcc (Debian 12.2.0-14+deb12u1) 12.2.0"
SAME = ["only the MPI differs"]


@pytest.mark.parametrize(
    ("of_b", "said"),
    [
        (
            {"suites": {"imb": {"compiler": "llvm@14.0.6", "flags": 'cflags="-O3"'}}},
            [
                "imb with compiler gcc 12.2.0 in a and clang 14.0.6 in b",
                'imb with flags none in a and cflags="-O3"',
            ],
        ),
        ({"suites": {"imb": {"compiler": DEBIAN, "flags": ""}}}, []),
        ({"suites": {"imb": {}}}, []),
        ({"programs": {"osu_bw": "ab", "libmpi.so.12": "34"}}, SAME),
        ({"programs": {"osu_bw": "ab", "osu_latency": "cd"}}, SAME),
        ({"programs": {"osu_bw": "ef"}}, []),
        ({"programs": {"libmpi.so.12": "12"}}, []),
        ({"programs": {}}, []),
    ],
)
def test_that_programs_were_built_otherwise_or_are_the_same_files_is_said(of_b, said):
    """One compiler has two names; the library of another MPI is another one, of course."""
    built = of_conditions(a=OF_A, b={"suites": {"imb": {}}, **of_b}).built
    for sentence, words in zip(built, said, strict=True):
        assert words in sentence


def test_the_command_writes_a_page_with_charts_and_maps():
    many = dict.fromkeys(("Allreduce", "Bcast", "Alltoall", "Reduce"), "t_avg_us")
    places = [{}, {"pinning": "scatter"}]
    three = (*STACKS, "third-spack")
    write_session(0, stacks=three, benchmarks=many, sizes=(32, 1048576), where=places)
    show(*STACKS)
    page = Path("compare.html").read_text()
    assert page.count("scatterpolar") >= 4  # two stacks at 32 B and at 1 MiB
    assert "best stack: node, eth1g, 2 nodes, 1 per node, bunch" in page
    assert "third-spack" not in page, "nobody asked for it"
    assert '"ticktext":["1"' in page, "an axis of its own ticks, not of bare digits"
