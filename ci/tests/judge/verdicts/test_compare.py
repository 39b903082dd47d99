"""Comparisons: the winner, ties, unequal conditions refused by name, and the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mpibench import cli
from mpibench.judge import pairing
from mpibench.pages import comparison
from mpibench.store.dataset_layout import write_file
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_session import gate as reference_gate
from synthetic_verdicts import write_session

STACKS = ("openmpi-spack", "mpich-spack")


def mpich_faster_when_large(benchmark: str, size: int, stack: str) -> float:
    return 0.8 if stack == "mpich-spack" and size >= 65536 else 1.0


def show(folder: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines the command prints."""
    options = ["--dataset-only", "--dataset", str(folder), "--out", str(folder / "compare.html")]
    assert cli.main(["compare", *words, *options]) == 0
    return capsys.readouterr().out.splitlines()


def of_stack(name: str, **condition: Any) -> dict[str, Any]:
    return {"stack": name, "condition": json.dumps({"transport": "tcp", **condition})}


def test_winner_and_tie(tmp_path: Path) -> None:
    write_session(tmp_path, 0, stacks=STACKS, change=mpich_faster_when_large)
    result = pairing.pair(Store(tmp_path), "latest", "stack", *STACKS)
    assert list(dict.fromkeys(result.bands["band"])) == ["small", "medium", "large"]
    large = {row["benchmark"]: row for row in result.bands.to_dicts() if row["band"] == "large"}
    assert large["PingPong"]["ratio"] == pytest.approx(0.8, abs=0.01)
    assert large["Uniband"]["ratio"] == pytest.approx(1.25, abs=0.02)
    for row in large.values():  # one direction for time and bandwidth
        assert row["winner"] == "mpich-spack" and row["times"] == pytest.approx(1.25, abs=0.02)
    head, rows = comparison.summary(result)
    (summary,) = [dict(zip(head, row, strict=True)) for row in rows if row[0] == "large"]
    assert (summary["mpich-spack wins"], summary["openmpi-spack wins"]) == ("2 of 2", "0 of 2")
    assert summary["geometric mean"].startswith("mpich-spack 1.2")
    back = pairing.pair(Store(tmp_path), "latest", "stack", *reversed(STACKS))
    assert back.bands["winner"].to_list() == result.bands["winner"].to_list()


GOOD = {"optimisation": "-O3", "debugging": "no", "checks": "yes"}


@pytest.mark.parametrize(
    ("changed", "trouble", "built"),
    [
        ({}, "", "in nothing else"),
        ({"optimisation": "no -O"}, "compiled without optimisation (no -O)", "optimised"),
        ({"debugging": "yes"}, "built for debugging", "debugging"),
        ({"checks": "no"}, "", "checks"),
        (None, "", "it is unknown how the MPI library of b was compiled"),
    ],
)
def test_a_library_that_is_compiled_badly_or_otherwise_is_never_compared_in_silence(
    tmp_path: Path, changed: dict[str, str] | None, trouble: str, built: str
) -> None:
    unknown = {"optimisation": "not known"}
    compiled = {"a": GOOD, "b": unknown if changed is None else {**GOOD, **changed}}
    where = [
        of_stack(name, stack=name, mpi=name, compiled=how, built={"MPI": name})
        for name, how in compiled.items()
    ]
    write_session(tmp_path, 0, where=where)
    result = pairing.pair(Store(tmp_path), "latest", "stack", "a", "b")
    assert result.troubles == ([f"the MPI library of b is {trouble}"] if trouble else [])
    assert built in " ".join(result.built)


def test_each_pair_of_stacks_says_what_their_locks_differ_in(tmp_path: Path) -> None:
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
    write_session(tmp_path, 0, where=[*built, of_stack("wheel")])
    found = {
        f"{one.first} {one.second}": one
        for one in pairing.every_pair(Store(tmp_path), "latest")
        if not isinstance(one, str)
    }
    assert len(found) == 15 and next(iter(found)) == "again ofi"
    things = {pair: len(one.things or {}) for pair, one in found.items()}
    assert (things["again ofi"], things["ofi ucx"], things["clang ofi"]) == (0, 1, 1)
    assert (things["clang ucx"], things["clang openmpi"], things["ofi openmpi"]) == (2, 2, 1)
    assert found["ofi ucx"].built[0].endswith("(mpich) and in nothing else that their locks record")
    assert " differ in 2 things; each may contribute to the" in found["clang openmpi"].built[0]


@pytest.mark.parametrize("changed", [True, False])
def test_a_program_of_one_lock_with_other_bytes_is_said(tmp_path: Path, changed: bool) -> None:
    """As one from an unsigned build cache, which somebody changed there with all its checksums."""
    built = {"MPI": "openmpi@4.1.4", "osu version": "7.5.2"}
    for night, digest in enumerate(("a" * 64, "b" * 64 if changed else "a" * 64)):
        condition = {
            "stack": "a",
            "built": built,
            "programs": {"osu_bw": digest, "libmpi.so.40": "c" * 64},
        }
        write_session(tmp_path, night, where=[{"stack": "a", "condition": json.dumps(condition)}])
    result = pairing.pair(Store(tmp_path), "latest", "session", "latest~1", "latest")
    assert result.built[0].endswith("differ in nothing that their locks record")
    assert list(result.built[1:]) == (
        [
            "but osu_bw of latest~1 and latest are different files: one was changed, or belongs to "
            "another Spack store"
        ]
        if changed
        else []
    )


def test_benchmarks_of_one_name_are_distinguished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """IMB and OSU both have an Allgather, and it runs on any number of ranks."""
    write_session(tmp_path, 0, stacks=STACKS, benchmarks={"Allgather": "t_avg_us"}, sizes=(8,))
    for path in tmp_path.glob("samples/*/*/*.parquet"):
        table = pl.read_parquet(path)
        osu = table.with_columns(suite=pl.lit("osu"))
        more = table.with_columns(ranks=pl.lit(4, pl.Int32))
        write_file(path, pl.concat([table, osu, more]))
    lines = show(tmp_path, *STACKS, capsys=capsys)
    assert [line.split("  ")[0] for line in lines if line.startswith("Allgather")] == [
        "Allgather (imb, 2 ranks)",
        "Allgather (imb, 4 ranks)",
        "Allgather (osu, 2 ranks)",
    ]


def test_what_is_not_compared_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def edit(row: dict[str, Any]) -> dict[str, Any] | None:
        if row["stack"] == "mpich-spack" and row["benchmark"] == "Uniband":
            if row["message_bytes"] == 1048576:
                return {**row, "value": 0.0}
            if row["message_bytes"] == 4096:
                return None
        return row

    write_session(tmp_path, 0, stacks=STACKS, edit=edit)
    text = "\n".join(show(tmp_path, *STACKS, capsys=capsys))
    assert "not compared: Uniband (imb, 2 ranks) at 1 MiB, partition node, eth1g, 2 nodes" in text
    assert "5 of 5 values of mpich-spack are zero" in text
    assert "not compared: 1 metric that only openmpi-spack has" in text


def broken(stack: str) -> dict[str, object]:
    """A case of a stack beside others, which missed its line rate while the machine was busy."""
    return {
        "stack": stack,
        "pinning": "none",
        "name": "OsuBandwidth",
        "result": "fail",
        "fail_phase": "performance",
        "gates": [reference_gate("Uniband.line_rate_fraction.4194304", 0.563, 1.0, "1", "physics")],
        "condition": json.dumps({"transport": "tcp", "lost_cores": True}),
    }


def test_no_winner_without_the_failures_and_the_load_of_its_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In text, for programs and on the page, before who wins; whatever side it is of."""
    unproven = {"stack": "a", "pinning": "scatter", "result": "fail", "evidence": "missing"}
    write_session(tmp_path, 0, where=[{"stack": "a"}, {"stack": "b"}, unproven, broken("b")])
    lines = show(tmp_path, "a", "b", capsys=capsys)
    troubles = lines[1:6]
    assert troubles[0].startswith("1 of 2 cases of a are not proven (")
    assert troubles[1] == "1 of 2 cases of b failed (OsuBandwidth [b]) and missed 1 reference"
    assert troubles[2].startswith("missed reference of b: b on eth1g: Uniband bandwidth at 4 MiB")
    assert troubles[3].startswith("b: in 1 of 2 cases ranks often lost their core")
    assert troubles[4].startswith("21 metrics only of b (")
    assert lines.index("Summary") > 5
    page = (tmp_path / "compare.html").read_text()
    assert page.index("b failed (OsuBandwidth [b])") < page.index("geometric mean")
    answer = json.loads("\n".join(show(tmp_path, "a", "b", "--json", capsys=capsys)))
    assert answer["troubles"] == troubles
    assert answer["headline"] == "; ".join([lines[0], *troubles])
    assert show(tmp_path, capsys=capsys)[:5] == troubles
    lines = show(tmp_path, "a", "b", "--where", "pinning == 'bunch'", capsys=capsys)
    assert lines[1].startswith("only a part is judged, 1 of 2 cases of a and 1 of 2 cases of b")


@pytest.mark.parametrize("gone", [None, 0.0])
def test_who_is_faster_does_not_depend_on_who_is_named_first(
    tmp_path: Path, gone: float | None
) -> None:
    """Whatever only one has, or what is zero on one side, is said with either order."""

    def edit(row: dict[str, Any]) -> dict[str, Any] | None:
        lost = row["stack"] == "a" and row["benchmark"] == "Uniband"
        return {**row, "value": gone} if lost and gone is not None else None if lost else row

    write_session(tmp_path, 0, stacks=("a", "b"), where=[{}], change=faster, edit=edit)
    store = Store(tmp_path)
    one, other = (pairing.pair(store, "latest", "stack", *pair) for pair in ("ab", "ba"))
    assert one.finding == other.finding and sorted(one.troubles) == sorted(other.troubles)
    start, end = ("", "only of b (Uniband)") if gone is None else ("a measured zero in ", "band)")
    assert any(line.startswith(start) and line.endswith(end) for line in one.troubles)


def faster(benchmark: str, size: int, stack: str) -> float:
    """How many times the time of other stacks."""
    of_c = 0.5 if size < 4096 else 2.0
    of_e = 0.5 if benchmark == "PingPong" or size < 4096 else 2.0
    return {"b": 1 / 2.5, "c": of_c, "e": of_e}.get(stack, 1.0)


def test_a_comparison_opens_with_who_is_how_many_times_faster_where(tmp_path: Path) -> None:
    """By fabric; where it is mixed, for which messages each is, or in how many comparisons."""
    places = [{"fabric": "eth1g"}, {"fabric": "shm"}]
    write_session(tmp_path, 0, stacks=tuple("abcde"), where=places, change=faster)
    store = Store(tmp_path)

    def finding(first: str, second: str, by: str = "stack") -> str:
        return pairing.pair(store, "latest", by, first, second).finding

    on_one, on_other = finding("a", "b").split("; ")
    assert re.fullmatch(r"b is 2\.[45](\d)?( to 2\.5)? times faster than a on eth1g", on_one)
    assert on_other.endswith(" on shm")
    by_size = finding("a", "c").split("; ")[0]
    assert "times faster than c for medium and large messages on eth1g, c is " in by_size
    assert by_size.endswith(" for small messages")
    mixed = finding("a", "e").split("; ")[0]
    counts = [int(count) for count in re.findall(r"in (\d+)", mixed)]
    assert "e is " in mixed and "a is " in mixed
    assert counts == sorted(counts, reverse=True) and f"in {counts[0]} of {sum(counts)} " in mixed
    assert finding("a", "d").startswith("a and d are equal within noise ")
    assert ";" not in finding("eth1g", "shm", "fabric")


def test_a_mean_is_ahead_where_its_interval_clears_one() -> None:
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


def test_one_repeat_a_side_wins_nothing(tmp_path: Path) -> None:
    write_session(tmp_path, 0, stacks=STACKS, change=mpich_faster_when_large, repeats=1)
    result = pairing.pair(Store(tmp_path), "latest", "stack", *STACKS)
    assert set(result.bands["winner"]) == {pairing.UNKNOWN}
    options = ("--dataset-only", "--dataset", str(tmp_path), "--out", str(tmp_path / "page.html"))
    assert [cli.main(["compare", *sides, *options]) for sides in (STACKS, ())] == [3, 3]


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({"placement": [[0], [1]]}, {"placement": [[0], [2]]}, "placement"),
        ({"suites": {"imb": {"version": "2021.3"}}}, None, "suites"),
    ],
)
def test_unequal_conditions_are_refused_by_name(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any] | None, what: str
) -> None:
    write_session(tmp_path, 0, condition=first)
    write_session(tmp_path, 1, condition=second)
    sides = ("", "session", "latest~1", "latest")
    with refused_as("not-comparable", match=f"measured under different conditions: {what} of"):
        pairing.pair(Store(tmp_path), *sides)
    allowed = pairing.pair(Store(tmp_path), *sides, allow=[what])
    assert allowed.unequal and allowed.unequal[0].startswith(what)


def test_all_pairs_are_allowed_what_one_pair_is(tmp_path: Path) -> None:
    where = [of_stack(name, suites={"imb": {"version": name}}) for name in ("a", "b")]
    write_session(tmp_path, 0, where=where)
    [refused] = pairing.every_pair(Store(tmp_path), "latest")
    assert isinstance(refused, str) and "--allow suites" in refused
    [allowed] = pairing.every_pair(Store(tmp_path), "latest", allow=("suites",))
    assert not isinstance(allowed, str)


def test_stacks_on_other_nodes_are_to_be_measured_in_one_job(tmp_path: Path) -> None:
    nodes = {"a": "n1,n2", "b": "n1,n3"}
    write_session(tmp_path, 0, where=[{"stack": s, "nodelist": n} for s, n in nodes.items()])
    with refused_as("not-comparable", match=r"\(-p a -S paired_stack=b\)"):
        pairing.pair(Store(tmp_path), "latest", "stack", "a", "b")


def test_programs_of_what_one_side_did_not_run_are_not_compared(tmp_path: Path) -> None:
    """A stack without IMB and one with it share what both can measure."""
    mpi4py = {"mpi4py": {"version": "4.1.2"}}
    both = {"imb": {"version": "2021.11"}, **mpi4py}
    rows = [("a", "p2p", both), ("a", "p2p_mpi4py", both), ("b", "p2p_mpi4py", mpi4py)]
    where = [{**of_stack(stack, suites=suites), "group": group} for stack, group, suites in rows]
    write_session(tmp_path, 0, where=where)
    assert pairing.pair(Store(tmp_path), "latest", "stack", "a", "b").unequal == ()


@pytest.mark.parametrize(
    "words",
    [("a", "nosuch"), ("a", "b", "--by", "colour"), ("a", "a"), ("a", "b", "--allow", "it")],
)
def test_bad_input(tmp_path: Path, words: tuple[str, ...]) -> None:
    write_session(tmp_path, 0, stacks=("a", "b"))
    assert cli.main(["compare", *words, "--dataset-only", "--dataset", str(tmp_path)]) == 2


def test_what_is_stored_forges_no_line_of_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "evil\x1b[2J\r\nPASS: all is well"
    write_session(tmp_path, 0, stacks=(hostile, "mpich-spack"))
    lines = show(tmp_path, hostile, "mpich-spack", capsys=capsys)
    assert not [line for line in lines if "\x1b" in line or line.startswith("PASS")]
    assert "PASS: all is well" in "\n".join(lines)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            {"compiler": "llvm@14.0.6", "flags": 'cflags="-O3"'},
            ["compiler gcc 12.2.0 in a and clang 14.0.6 in b", 'flags none in a and cflags="-O3"'],
        ),
        ({"compiler": "gcc (Debian 12.2.0-14+deb12u1) 12.2.0", "flags": ""}, []),
        ({}, []),
    ],
    ids=("compiler and flags", "one compiler by two names", "not known"),
)
def test_how_programs_were_built_otherwise_is_said(
    tmp_path: Path, second: dict[str, str], said: list[str]
) -> None:
    gcc = {"compiler": "gcc@12.2.0", "flags": ""}
    where = [of_stack(name, suites={"imb": built}) for name, built in (("a", gcc), ("b", second))]
    write_session(tmp_path, 0, where=where)
    built = pairing.pair(Store(tmp_path), "latest", "stack", "a", "b").built
    assert len(built) == len(said)
    for sentence, words in zip(built, said, strict=True):
        assert sentence.startswith(f"built differently: imb with {words}")


@pytest.mark.parametrize(
    ("programs", "same"),
    [
        ({"osu_bw": "ab", "libmpi.so.12": "34"}, True),  # whose library is another one, of course
        ({"osu_bw": "ab", "osu_latency": "cd"}, True),
        ({"osu_bw": "ef"}, False),
        ({"libmpi.so.12": "12"}, False),
        ({}, False),
    ],
)
def test_stacks_that_ran_the_same_files_say_so(
    tmp_path: Path, programs: dict[str, str], same: bool
) -> None:
    first = {"osu_bw": "ab", "osu_latency": "cd", "libmpi.so.12": "12"}
    where = [of_stack(name, programs=ran) for name, ran in (("a", first), ("b", programs))]
    write_session(tmp_path, 0, where=where)
    built = pairing.pair(Store(tmp_path), "latest", "stack", "a", "b").built
    assert [text for text in built if "only the MPI differs" in text] == list(built)
    assert len(built) == same


def test_the_command_writes_a_page_with_charts_and_maps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = dict.fromkeys(("Allreduce", "Bcast", "Alltoall", "Reduce"), "t_avg_us")
    places = [{}, {"pinning": "scatter"}]
    three = (*STACKS, "third-spack")
    write_session(tmp_path, 0, stacks=three, benchmarks=many, sizes=(32, 1048576), where=places)
    show(tmp_path, *STACKS, capsys=capsys)
    page = (tmp_path / "compare.html").read_text()
    assert page.count("scatterpolar") >= 4  # two stacks at 32 B and at 1 MiB
    assert "1 MiB: speed relative to the best" in page
    assert "best stack: node, eth1g, 2 nodes, 1 per node, bunch" in page
    assert "third-spack" not in page, "nobody asked for it"
    assert '"ticktext":["1"' in page, "an axis of its own ticks, not of bare digits"
