"""Comparisons: the winner, ties, unequal conditions refused by name, and the page."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from mpibench import cli
from mpibench.judge import pairing
from mpibench.pages import comparison, figures
from mpibench.store.dataset_layout import write_file
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_session import gate as reference_gate
from synthetic_verdicts import write_session

STACKS = ("openmpi-spack", "mpich-spack")
MANY = dict.fromkeys(("Allreduce", "Bcast", "Alltoall", "Reduce"), "t_avg_us")


def mpich_faster_when_large(benchmark: str, size: int, stack: str) -> float:
    return 0.8 if stack == "mpich-spack" and size >= 65536 else 1.0


def show(folder: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines the command prints."""
    options = ["--dataset-only", "--dataset", str(folder), "--out", str(folder / "compare.html")]
    assert cli.main(["compare", *words, *options]) == 0
    return capsys.readouterr().out.splitlines()


def test_winner_and_tie(tmp_path: Path) -> None:
    write_session(tmp_path, 0, stacks=STACKS, change=mpich_faster_when_large)
    result = pairing.pair(Store(tmp_path), "latest", "stack", "openmpi-spack", "mpich-spack")
    winners = {(row["benchmark"], row["band"]): row["winner"] for row in result.bands.to_dicts()}
    assert winners[("PingPong", "large")] == winners[("Uniband", "large")] == "mpich-spack"
    large = {row["benchmark"]: row["ratio"] for row in result.bands.to_dicts() if row["band"] == "large"}
    assert large["PingPong"] == pytest.approx(0.8, abs=0.01)
    assert large["Uniband"] == pytest.approx(1.25, abs=0.02)
    times = {row["benchmark"]: row["times"] for row in result.bands.to_dicts() if row["band"] == "large"}
    assert times == pytest.approx({"PingPong": 1.25, "Uniband": 1.25}, abs=0.02)  # one direction for time and bandwidth
    head, rows = comparison.summary(result)
    (large,) = [dict(zip(head, row, strict=True)) for row in rows if row[0] == "large"]
    assert (large["mpich-spack wins"], large["openmpi-spack wins"], large["tie"]) == ("2 of 2", "0 of 2", "0")
    assert large["geometric mean"] in ("mpich-spack 1.24 times faster", "mpich-spack 1.25 times faster")
    back = pairing.pair(Store(tmp_path), "latest", "stack", "mpich-spack", "openmpi-spack")
    assert {row["winner"] for row in back.bands.to_dicts() if row["band"] == "large"} == {"mpich-spack"}
    for row, other in zip(result.bands.to_dicts(), back.bands.to_dicts(), strict=True):
        assert (row["winner"], row["ahead"]) == (other["winner"], other["ahead"])
        for name in ("times", "times_low", "times_high"):
            assert row[name] == pytest.approx(other[name])


def test_the_terminal_says_who_wins_first_and_nothing_without_its_condition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conditions = [{}, {"fabric": "opa100"}, {"pinning": "scatter"}]
    session = write_session(tmp_path, 0, stacks=STACKS, change=mpich_faster_when_large, where=conditions)
    lines = show(tmp_path, *STACKS, capsys=capsys)
    assert lines[0].startswith(
        "openmpi-spack and mpich-spack by stack: 18 comparisons (a curve in a band of message sizes) under 3"
    )
    places = [number for number, line in enumerate(lines) if line.strip() in ("Summary", "Where")]
    assert places[0] < 4 and len(places) == 2
    headings = [line for line in lines if "who is how many times faster" in line]
    assert [line.split(":")[0] for line in headings] == [
        "partition node, eth1g, 2 nodes, 1 per node, pinning bunch",
        "partition node, eth1g, 2 nodes, 1 per node, pinning scatter",
        "partition node, opa100, 2 nodes, 1 per node, pinning bunch",
    ]
    assert sum("PingPong (imb, 2 ranks)  latency" in line for line in lines) == 3  # one line a curve and condition
    assert any("Uniband (imb, 2 ranks)" in line and "bandwidth" in line and "mpich-spack 1.2" in line for line in lines)
    assert any(session in line and "latest" in line for line in lines)
    assert max(map(len, lines[:-1])) <= comparison.WIDTH


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            {"compiler": "gcc@12.2.0", "target": "x86_64_v3", "flags": 'cflags="-O2"'},
            {"compiler": "llvm@14.0.6", "target": "x86_64_v3", "flags": 'cflags="-O2"'},
            ["imb with compiler gcc 12.2.0 in a and clang 14.0.6 in b: part of the difference may be the compiler's"],
        ),
        (
            {"compiler": "gcc@12.2.0", "target": "x86_64_v3", "flags": ""},
            {"compiler": "gcc@12.2.0", "target": "x86_64_v4", "flags": 'cflags="-O3"'},
            [
                'imb with flags none in a and cflags="-O3" in b: part of the difference may be the flags\'',
                "imb with target x86_64_v3 in a and x86_64_v4 in b: part of the difference may be the target's",
            ],
        ),
        ({"compiler": "gcc@12.2.0"}, {"compiler": "gcc (Debian 12.2.0-14+deb12u1) 12.2.0"}, []),
        (
            {"compiler": "gcc@12.2.0"},
            {"compiler": "Debian clang version 14.0.6"},
            ["imb with compiler gcc 12.2.0 in a and clang"],
        ),
        ({"compiler": "gcc@12.2.0"}, {}, []),
    ],
    ids=("compilers", "flags-and-target", "one-compiler-by-two-names", "two-by-other-names", "not-known"),
)
def test_how_programs_were_built_otherwise_is_said_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: dict[str, str], second: dict[str, str], said: list[str]
) -> None:
    conditions = [
        {"stack": stack, "condition": json.dumps({"suites": {"imb": {"version": "2021.11", **built}}, "transport": "tcp"})}
        for stack, built in (("a", first), ("b", second))
    ]
    write_session(tmp_path, 0, where=conditions)
    result = pairing.pair(Store(tmp_path), "latest", "stack", "a", "b")
    assert len(result.built) == len(said)
    for sentence, words in zip(result.built, said, strict=True):
        assert sentence.startswith(f"built otherwise: {words}")
    text = " ".join(" ".join(show(tmp_path, "a", "b", capsys=capsys)).split())
    assert all(words in text for words in said)


def test_each_pair_of_stacks_says_what_their_locks_differ_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One thing, nothing, several; what an MPI links follows from its netmod, and of another MPI is no difference."""
    common = {"imb compiler": "gcc@12.2.0", "osu compiler": "gcc@12.2.0", "osu flags": "cflags=-O2"}
    ofi = {"MPI": "mpich@5.0.0", "mpich netmod": "netmod=ofi", "libraries under mpich@5.0.0": "libfabric", **common}
    stacks = {
        "ofi": ofi,
        "ucx": {**ofi, "mpich netmod": "netmod=ucx", "libraries under mpich@5.0.0": "ucx"},
        "clang": {**ofi, "imb compiler": "llvm@14.0.6", "osu compiler": "llvm@14.0.6"},
        "openmpi": {"MPI": "openmpi@5.0.10", "openmpi fabrics": "fabrics=ofi,ucx", **common, "osu flags": "cflags=-O0"},
        "again": ofi,
        "wheel": None,
    }
    built = [
        {"stack": name, "condition": json.dumps({"built": facts, "transport": "tcp"} if facts else {"transport": "tcp"})}
        for name, facts in stacks.items()
    ]
    write_session(tmp_path, 0, where=built)
    lines = show(tmp_path, capsys=capsys)
    assert "Pairs of stacks, those that differ in one thing first" in " ".join(lines)
    found = {
        one.first + " " + one.second: one for one in pairing.every_pair(Store(tmp_path), "latest") if not isinstance(one, str)
    }
    assert len(found) == 15 and next(iter(found)) == "again ofi" and list(found)[-1].endswith("wheel")
    assert {pair: len(one.things or {}) for pair, one in found.items() if "wheel" not in pair} == {
        **{"again ofi": 0, "again clang": 1, "again ucx": 1, "clang ofi": 1, "ofi ucx": 1},
        **{"again openmpi": 2, "clang ucx": 2, "ofi openmpi": 2, "openmpi ucx": 2, "clang openmpi": 3},
    }
    assert found["ofi ucx"].built == (
        "ofi and ucx differ in netmod netmod=ofi and netmod=ucx (mpich) and in nothing else that their locks record",
    )
    assert "compiler llvm@14.0.6 and gcc@12.2.0 (imb, osu)" in found["clang ofi"].built[0]
    assert found["openmpi ucx"].built[0].startswith("openmpi and ucx differ in 2 things, each may be part of the difference")


def test_benchmarks_of_one_name_are_distinguished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """IMB and OSU both have an Allgather, and it runs on any number of ranks."""
    write_session(tmp_path, 0, stacks=STACKS, benchmarks={"Allgather": "t_avg_us"}, sizes=(8, 64, 512))
    for path in tmp_path.glob("samples/*/*/*.parquet"):
        table = pl.read_parquet(path)
        kinds = [("osu", 2), ("imb", 4)]
        more = [table.with_columns(suite=pl.lit(suite), ranks=pl.lit(ranks, pl.Int32)) for suite, ranks in kinds]
        write_file(path, pl.concat([table, *more]))
    lines = show(tmp_path, *STACKS, capsys=capsys)
    names = [line.split("  ")[0] for line in lines if line.startswith("Allgather")]
    assert names == ["Allgather (imb, 2 ranks)", "Allgather (imb, 4 ranks)", "Allgather (osu, 2 ranks)"]
    page = (tmp_path / "compare.html").read_text()
    assert page.count("<td>Allgather (osu, 2 ranks)</td><td>mean time of ranks</td>") == 1 + 3 + 3
    assert "<h3>partition node, eth1g, 2 nodes, 1 per node, pinning bunch</h3>" in page


def test_what_is_not_compared_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def edit(row: dict) -> dict | None:
        if row["stack"] == "mpich-spack" and row["message_bytes"] == 1048576 and row["benchmark"] == "Uniband":
            return {**row, "value": 0.0}
        return None if row["stack"] == "mpich-spack" and row["message_bytes"] == 4096 else row

    contradicted = {"evidence": "contradicted", "result": "fail", "fail_phase": "sanity", "pinning": "none"}
    write_session(tmp_path, 0, stacks=STACKS, edit=edit, where=[{}, contradicted])
    text = "\n".join(show(tmp_path, *STACKS, capsys=capsys))
    assert (
        "not compared: Uniband (imb, 2 ranks) at 1 MiB, partition node, eth1g, 2 nodes, 1 per node, pinning bunch: "
        "5 of 5 values of mpich-spack are zero"
    ) in text
    assert "not compared: 2 metrics only openmpi-spack has" in text
    assert "1 of 2 cases of mpich-spack are not proven (ImbPointToPoint %stack=mpich-spack [mpich-spack])" in text


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


def test_no_winner_without_the_failures_and_the_load_of_its_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In text, for programs and on the page, before who wins; whatever side it is of."""
    unproven = {"stack": "a", "pinning": "scatter", "name": "ImbLost", "result": "fail", "evidence": "missing"}
    write_session(tmp_path, 0, where=[{"stack": "a"}, {"stack": "b"}, unproven, broken("b")])
    expected = [
        "1 of 2 cases of a are not proven (ImbLost [a])",
        "1 of 2 cases of b failed (OsuBandwidth [b]) and missed 1 reference",
        "reference missed by b: b on eth1g: Uniband.line_rate_fraction.4194304 is 56.3 % of the line rate, "
        "must be at least 90 % (physics)",
        "b: in 1 of 2 cases ranks often lost their core to other programs: the machine was busy",
    ]
    lines = show(tmp_path, "a", "b", capsys=capsys)
    assert lines[1:5] == expected and lines.index("Summary") > 4
    page = (tmp_path / "compare.html").read_text()
    assert page.index("b failed (OsuBandwidth [b])") < page.index("geometric mean")
    answer = json.loads("\n".join(show(tmp_path, "a", "b", "--json", capsys=capsys)))
    assert answer["troubles"] == expected and answer["headline"] == "; ".join(["b against a", *expected])
    every = show(tmp_path, capsys=capsys)
    assert every[:4] == expected


def test_a_comparison_of_a_part_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(tmp_path, 0, where=[{"stack": "a"}, {"stack": "b"}, broken("b")])
    lines = show(tmp_path, "a", "b", "--where", "pinning == 'bunch'", capsys=capsys)
    assert lines[1] == "judged is only a part, 1 of 1 cases of a and 1 of 2 cases of b (--where pinning == 'bunch')"


def test_where_nothing_clears_one_the_summary_says_tie(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(tmp_path, 1, stacks=STACKS, noise=0.05)
    result = pairing.pair(Store(tmp_path), "latest", "stack", *STACKS)
    assert set(result.bands["winner"]) == {pairing.TIE}
    head, rows = comparison.summary(result)
    assert {row[head.index("geometric mean")] for row in rows} == {pairing.TIE}
    assert " times faster" not in "".join(show(tmp_path, capsys=capsys)).replace("who is how many times faster", "")


def test_a_mean_is_ahead_where_its_interval_clears_one() -> None:
    """One clear win among ties is none of the whole; the sides may be exchanged."""
    rows = {"ahead": ["a", "a", "b"], "times": [1.5, 1.02, 1.03], "times_low": [1.4, 0.9, 0.9], "times_high": [1.6, 1.1, 1.1]}
    table = pl.DataFrame(rows)
    assert comparison.mean_text(table[:1], "a", "b") == comparison.mean_text(table[:1], "b", "a") == "a 1.50 times faster"
    assert comparison.mean_text(table[1:], "a", "b") == pairing.TIE
    assert comparison.mean_text(table[:2], "a", "b") == "a 1.24 times faster"
    assert comparison.mean_text(table.with_columns(times_low=pl.lit(None, pl.Float64)), "a", "b") == ""


def test_one_repeat_a_side_wins_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(tmp_path, 0, stacks=STACKS, change=mpich_faster_when_large, repeats=1)
    result = pairing.pair(Store(tmp_path), "latest", "stack", *STACKS)
    assert set(result.bands["winner"]) == {pairing.UNKNOWN}
    assert "nan" not in "\n".join(show(tmp_path, *STACKS, capsys=capsys))


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({"condition": {"placement": [[0], [1]]}}, {"condition": {"placement": [[0], [2]]}}, "placement of"),
        ({"condition": {"suites": {"imb": {"version": "2021.3"}}}}, {}, "suites of"),
    ],
)
def test_unequal_conditions_are_refused_by_name(tmp_path: Path, first: dict, second: dict, what: str) -> None:
    write_session(tmp_path, 0, **first)
    write_session(tmp_path, 1, **second)
    with refused_as("conditions-differ", match=f"not measured under equal conditions: {what}"):
        pairing.pair(Store(tmp_path), "", "session", "latest~1", "latest")
    allowed = pairing.pair(Store(tmp_path), "", "session", "latest~1", "latest", allow=[what.split()[0]])
    assert allowed.unequal and allowed.unequal[0].startswith(what)


def test_all_pairs_are_allowed_what_one_pair_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    versions = {"a": {"imb": {"version": "2021.3"}}, "b": {"imb": {"version": "2021.11"}}}
    where = [{"stack": name, "condition": json.dumps({"suites": suites})} for name, suites in versions.items()]
    write_session(tmp_path, 0, where=where)
    refused = "a and b are not compared: a and b were not measured under equal conditions: suites of"
    text = " ".join(" ".join(show(tmp_path, capsys=capsys)).split())
    assert refused in text and "if that may be, --allow suites." in text
    assert "not compared:" not in " ".join(show(tmp_path, "--allow", "suites", capsys=capsys))
    assert cli.main(["compare", "--allow", "it", "--dataset-only", "--dataset", str(tmp_path)]) == 2


def test_programs_of_what_one_side_did_not_run_are_not_compared(tmp_path: Path) -> None:
    """A stack without IMB and one with it share what both can measure."""
    with_imb = {"imb": {"version": "2021.11"}, "mpi4py": {"version": "4.1.2"}}
    rows = [("a", "p2p", with_imb), ("a", "p2p_mpi4py", with_imb), ("b", "p2p_mpi4py", {"mpi4py": {"version": "4.1.2"}})]
    where = [{"stack": stack, "group": group, "condition": json.dumps({"suites": suites})} for stack, group, suites in rows]
    write_session(tmp_path, 0, where=where)
    assert pairing.pair(Store(tmp_path), "latest", "stack", "a", "b").unequal == ()


def test_the_command_writes_a_page_with_charts_and_the_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(tmp_path, 0, stacks=STACKS, change=mpich_faster_when_large, benchmarks=MANY, sizes=(32, 1024, 65536, 1048576))
    out = tmp_path / "compare.html"
    words = ["compare", "openmpi-spack", "mpich-spack", "--dataset-only", "--dataset", str(tmp_path)]
    assert cli.main([*words, "--out", str(out)]) == 0
    assert "mpich-spack" in capsys.readouterr().out
    page = out.read_text()
    assert page.count("scatterpolar") >= 4  # two stacks at 32 B and at 1 MiB
    for text in (
        "32 B: speed relative to the best",
        "1 MiB: speed relative to the best",
        "Which stack for which call and size",
    ):
        assert text in page
    assert " times faster than openmpi-spack</td>" in page
    assert "best stack: node, eth1g, 2, 1, bunch" in page


def test_pinning_and_ppn_are_mapped(tmp_path: Path) -> None:
    """Conditions of which there are several are a map; those compared here are made of one session's cases."""
    write_session(tmp_path, 0)
    values = Store(tmp_path).select("testbed", "latest").values
    assert list(figures.pinning_maps(values, 1048576)) == []
    more = [values.with_columns(pinning=pl.lit("scatter"), value=2 * pl.col("value")), values]
    found = list(figures.pinning_maps(pl.concat(more), 1048576))
    assert [figure.layout.title.text.split(",")[0] for figure in found] == ["PingPong", "Uniband"]
    (trace,) = found[0].data
    assert list(trace.y) == ["bunch", "scatter"]
    assert trace.z[1][0] == pytest.approx(2 * trace.z[0][0])
    assert (found[0].data[0].reversescale, found[1].data[0].reversescale) == (True, False)  # of both, yellow is better


def test_sessions_have_lines_of_their_own(tmp_path: Path) -> None:
    for number in range(2):
        write_session(tmp_path, number)
    values = Store(tmp_path).select("testbed", "latest,latest~1").values
    assert [len(figure.data) for figure in figures.curves(values, "session")] == [2, 2]


def test_the_heat_map_of_best_stacks(tmp_path: Path) -> None:
    write_session(tmp_path, 0, stacks=STACKS, change=mpich_faster_when_large, noise=0.0001)
    values = Store(tmp_path).select("testbed", "latest").values
    table = figures.best_of_all(values, "stack")
    row = next(row for row in table.to_dicts() if row["message_bytes"] == 1048576 and row["stack"] == "openmpi-spack")
    assert row["behind"] == pytest.approx(0.25, abs=0.005)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("openmpi-spack", "nosuch"), "no case with stack 'nosuch'"),
        (("a", "b", "--by", "colour"), "--by 'colour' is none of"),
        (("openmpi-spack", "openmpi-spack"), "both sides are stack openmpi-spack"),
        (("a", "b", "--allow", "it"), "--allow 'it' is none of nodelist, placement, suites"),
        (("latest", "latest~9", "--by", "session"), "selects none"),
    ],
)
def test_bad_input(tmp_path: Path, words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(tmp_path, 0)
    assert cli.main(["compare", *words, "--dataset-only", "--dataset", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err


def test_what_is_stored_forges_no_line_of_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "evil\x1b[2J\r\nPASS: all is well"
    write_session(tmp_path, 0, stacks=(hostile, "mpich-spack"))
    lines = show(tmp_path, hostile, "mpich-spack", capsys=capsys)
    assert not [line for line in lines if "\x1b" in line or line.startswith("PASS")]
    assert "PASS: all is well" in "\n".join(lines)
