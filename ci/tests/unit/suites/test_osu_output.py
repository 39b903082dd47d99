"""Outputs of the OSU micro-benchmarks: values and units of complete ones, refusal of the others with file and line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from reframe_tests.harness.machine.gpu import UNSAID
from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError, Record
from reframe_tests.harness.suites.catalogue import Expected
from reframe_tests.harness.suites.osu import OVERLAP, ROWS, facts_of_output
from refusals import refused_as
from studies.output_damage import GOLDEN, expectation, golden

#: Recorded outputs that must be refused, and what the sentence says.
REFUSED = {
    "osu-7.5-mpich-n2-latency_mt-two-senders.txt": "line 7: a second table starts",
    "osu-7.5-mpich-n2-multi_lat-tail.txt": "line 5: this line does not belong here",
    "osu-7.5-mpich-n2-latency-all-types.txt": "line 10: a second table starts",
    "osu-7.5-mpich-n2-mbw_mr-varied.txt": "window size: varied",
}
GOOD = sorted(path.name for path in GOLDEN.glob("osu/*.txt") if path.name not in REFUSED)
#: Benchmarks of 7.5 whose output is that of another but for its title: the other's file, and the titles as printed. Collectives
#: with a persistent form print it as ``Persistent`` before ``Latency``.
LIKE = {
    "n2-allreduce": {"reduce": "Reduce", "reduce_scatter": "Reduce_scatter"},
    "n2-alltoallw": {
        **{
            "allgather": "Allgather",
            "allgatherv": "Allgatherv",
            "bcast": "Broadcast",
            "gather": "Gather",
            "gatherv": "Gatherv",
        },
        **{"scatter": "Scatter", "scatterv": "Scatterv", "alltoall": "All-to-All Personalized Exchange"},
        **{"alltoallv": "All-to-Allv Personalized Exchange", "alltoallw": "All-to-Allw Personalized Exchange"},
    },
    "n2-barrier": {"barrier": "Barrier"},
    "n2-iallgather": {
        **{"iallgatherv": "Non-blocking Allgatherv", "ibcast": "Non-Blocking Broadcast", "igather": "Non-blocking Gather"},
        **{"igatherv": "Non-blocking Gatherv", "iscatter": "Non-blocking Scatter", "iscatterv": "Non-blocking Scatterv"},
        **{"ialltoall": "Non-blocking All-to-All", "ialltoallv": "Non-blocking All-to-Allv Personalized Exchange"},
    },
    "n2-iallreduce": {
        **{"ireduce": "Non-blocking Reduce", "ireduce_scatter": "Non-blocking Reduce_scatter"},
        "ireduce_scatter_block": "Non-blocking Reduce_scatter_block",
    },
    "n4-neighbor_alltoallw": {
        **{"neighbor_allgatherv": "Neighborhood Allgatherv", "neighbor_alltoall": "Neighborhood Alltoall"},
        "neighbor_alltoallv": "Neighborhood All-to-Allv",
    },
    "n4-ineighbor_allgather": {
        **{"ineighbor_allgatherv": "Non-blocking Neighborhood Allgatherv"},
        **{"ineighbor_alltoall": "Non-blocking Neighborhood Alltoall"},
        **{"ineighbor_alltoallv": "Non-blocking Neighborhood Alltoallv"},
    },
}
TITLES = {
    **{name: (like, f"OSU MPI {title} Latency Test") for like, titles in LIKE.items() for name, title in titles.items()},
    "reduce_scatter_block": ("n2-allreduce", "OSU MPI Reduce_scatter_block Latency Test"),
    "allreduce_persistent": ("n2-allreduce", "OSU MPI Allreduce Persistent Latency Test"),
    **{
        f"{name}_persistent": (like, f"OSU MPI {title} Persistent Latency Test")
        for like in ("n2-allreduce", "n2-alltoallw", "n2-barrier")
        for name, title in LIKE[like].items()
    },
    "cas_latency": ("n2-acc_latency", "OSU MPI_Compare_and_swap latency Test"),
    "fop_latency": ("n2-acc_latency", "OSU MPI_Fetch_and_op latency Test"),
    "get_acc_latency": ("n2-acc_latency", "OSU MPI_Get_accumulate latency Test"),
    "multi_lat": ("n2-latency", "OSU MPI Multi Latency Test"),
    "bibw": ("n2-bw", "OSU MPI Bi-Directional Bandwidth Test"),
    "bw_persistent": ("n2-bw", "OSU MPI Bandwidth Persistent Test"),
    "bw_fan_out": ("n2-bw_fan_in", "OSU MPI Bandwidth Test"),
    "get_bw": ("n2-put_bw-allocate-flush", "OSU MPI_Get Bandwidth Test"),
}
LATENCY, BANDWIDTH = "osu/osu-7.5-mpich-n2-latency.txt", "osu/osu-7.5-mpich-n2-bw.txt"
RATE, PUT = "osu/osu-7.5-mpich-n2-mbw_mr.txt", "osu/osu-7.5-mpich-n2-put_bw.txt"
REDUCTION, CHECKED = "osu/osu-7.5-mpich-n2-allreduce.txt", "osu/osu-7.5-mpich-n2-allreduce-validated.txt"


def parse(text: str) -> list[Record]:
    return reader.parse(text, source="job.out")


def refuse(text: str, *words: str) -> None:
    with pytest.raises(OutputError) as error:
        parse(text)
    sentence = str(error.value)
    assert sentence.startswith("job.out")
    assert sentence.endswith(".")
    assert "\n" not in sentence
    for word in words:
        assert word in sentence


def change(name: str, pattern: str, by: str | Callable[[re.Match[str]], str]) -> str:
    text, count = re.subn(pattern, by, golden(name), count=1, flags=re.MULTILINE)
    assert count == 1
    return text


def as_started(name: str, text: str = "") -> list[Record]:
    """Records of a recorded output, completed by what was started, which the name of the file says."""
    records = parse(text or golden(f"osu/{name}"))
    ranks, binary = re.search(r"-n([0-9]+)-([a-z_]+)", name).groups()
    (expected,) = expectation(records)
    active = records[0].ranks or int(ranks) if name.endswith("-pairs.txt") else int(ranks)  # the other ranks are idle
    return reader.complete(records, [expected._replace(benchmark=f"osu_{binary}", ranks=active)])


@pytest.mark.parametrize("name", GOOD)
def test_recorded_outputs_of_every_version(name):
    """The binary is part of the file's name; values are all those printed, in printed order."""
    records = as_started(name)
    binary = re.search(r"-n[0-9]+-([a-z_]+)", name)[1]
    rows = {row.name: row for row in ROWS}
    assert {record.benchmark for record in records} == {f"osu_{binary}"}
    quantities = rows[f"osu_{binary}"].quantities
    for record in records:
        own = tuple(name for name in record.values if not re.search(r"_p[0-9]{2}_", name))
        assert own == quantities[: len(own)] or (quantities == OVERLAP and set(quantities) < set(own))
        assert record.suite == "osu"
    text = golden(f"osu/{name}")
    if binary in ("init", "hello"):
        return
    printed = [line for line in text.splitlines() if re.match(r"[0-9]| +[0-9]+\.", line)]
    assert len(records) == len(printed)
    shown = [re.findall(r"[0-9]+\.[0-9]{2}", line) for line in printed]
    if "Min Comm.(us)" in text and name < "osu-7.1":  # there these two columns are no minimum and maximum
        assert not {"t_min_us", "t_max_us"} & set(records[0].values)
        shown = [[*cells[:6], cells[8]] for cells in shown]
    assert [[f"{value:.2f}" for value in record.values.values()] for record in records] == shown


def test_every_benchmark_has_a_recorded_output():
    """All rows in the newest version, by an output or by its title; a layout of each of the older ones."""
    read = {(name.split("-")[1], record.benchmark) for name in GOOD for record in as_started(name)}
    newest = {benchmark for version, benchmark in read if version == "7.5"}
    assert newest | {f"osu_{name}" for name in TITLES} == {row.name for row in ROWS}
    older = "5.6 5.6.3 5.7 5.7.1 5.8 5.9 6.0 6.2 7.0 7.1 7.2 7.4".split()  # noqa: SIM905
    assert {version for version, _ in read} == {*older, "7.5"}


@pytest.mark.parametrize("name", TITLES)
def test_a_title_as_printed_is_that_of_the_benchmark(name: str) -> None:
    like, title = TITLES[name]
    text = change(f"osu/osu-7.5-mpich-{like}.txt", r"^# OSU .* v7\.5$", f"# {title} v7.5")
    records = as_started(f"osu-7.5-mpich-{like[:2]}-{name}.txt", text)
    assert {record.benchmark for record in records} == {f"osu_{name}"}
    assert [record.values for record in records] == [record.values for record in parse(golden(f"osu/osu-7.5-mpich-{like}.txt"))]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_outputs_that_are_not_read_say_why(name):
    refuse(golden(f"osu/{name}"), REFUSED[name])


def test_barriers_of_7_1_print_no_head():
    """Their columns are told by their number and by where they end (``print_stats`` and ``print_stats_nbc`` of 7.1)."""
    title = "\n# OSU MPI {}Barrier Latency Test v7.1\n"
    parts = "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n"
    full = [7498.54, 4187.25, 3.24, 0.0, 3307.91, 3886.68, 2.9, 9812.1, 14.8]
    (record,) = parse(title.format("Non-blocking ") + parts + "".join(f"{value:18.2f}" for value in full) + "\n")
    assert (record.benchmark, tuple(record.values.values())) == ("osu_ibarrier", tuple(full))
    assert list(record.values)[-3:] == ["t_min_us", "t_max_us", "overlap_percent"]
    short = [*full[:2], full[5], full[8]]
    (record,) = parse(title.format("Non-blocking ") + parts + "".join(f"{value:18.2f}" for value in short) + "\n")
    assert tuple(record.values) == OVERLAP
    row = f"{17.65:17.2f}{3.5:18.2f}{40.25:18.2f}{1000:12}\n"
    (record,) = parse(title.format("") + row)
    assert (record.values, record.repetitions) == ({"t_avg_us": 17.65, "t_min_us": 3.5, "t_max_us": 40.25}, 1000)
    for odd in (" " + row, row[1:], row.replace(f"{1000:12}", ""), title.format("") + row.replace("v7.1", "v7.2")):
        refuse(title.format("") + odd)


# What is in the records.


def test_latency_is_in_microseconds_and_bandwidth_in_1e6_bytes_per_second():
    head = "# OSU MPI {} Test v7.5\n# Datatype: MPI_CHAR.\n# Size      {}\n"
    (record,) = parse(head.format("Latency", " Avg Latency(us)") + f"8{'1.23':>27}\n")
    assert record == Record("osu", "osu_latency", 2, 1, 8, None, {"latency_us": 1.23})
    (record,) = parse(head.format("Bandwidth", "Bandwidth (MB/s)") + f"1048576{'116.96':>21}\n")
    assert record == Record("osu", "osu_bw", 2, 1, 1 << 20, None, {"bandwidth_mb_per_s": 116.96})


def test_old_and_new_column_titles_mean_the_same():
    old, new = (parse(golden(f"osu/osu-{version}-mpich-n2-latency.txt")) for version in ("7.0", "7.5"))
    assert [(r.message_bytes, tuple(r.values)) for r in old] == [(r.message_bytes, tuple(r.values)) for r in new]


def test_the_full_form_of_a_collective():
    record = parse(golden(REDUCTION))[-1]
    assert (record.message_bytes, record.repetitions, record.ranks) == (256, 20, None)
    assert tuple(record.values) == ("t_avg_us", "t_min_us", "t_max_us")
    (barrier,) = parse(golden("osu/osu-7.5-mpich-n2-barrier.txt"))
    assert (barrier.message_bytes, barrier.repetitions) == (None, 20)


def test_pairs_tell_the_ranks():
    assert {record.ranks for record in parse(golden("osu/osu-7.5-mpich-n4-mbw_mr.txt"))} == {4}


def test_the_window_and_the_type_are_part_of_what_was_measured():
    def variants(name):
        return {record.variant for record in parse(golden(f"osu/osu-7.5-mpich-n2-{name}.txt"))}

    assert variants("put_bw") == {"allocate,flush"}
    assert variants("put_bw-create-fence") == {"create,fence"}
    assert variants("put_bw-dynamic-pscw") == {"dynamic,pscw"}
    assert variants("mbw_mr") == {"window=64"}
    assert variants("latency") == {""}
    assert variants("allreduce") == {"type=MPI_INT"}  # its own choice in 7.5
    assert {r.variant for r in parse(change(REDUCTION, "MPI_INT", "MPI_FLOAT"))} == {""}
    assert {r.variant for r in parse(change(LATENCY, "MPI_CHAR", "MPI_FLOAT"))} == {"type=MPI_FLOAT"}


def test_a_head_that_says_latency_above_a_bandwidth():
    """Fan-in and fan-out of 7.5 name their column wrongly; who started which is known only to the launch."""
    text = golden("osu/osu-7.5-mpich-n2-bw_fan_in.txt")
    assert "Avg Latency(us)" in text
    for way in ("in", "out"):
        records = as_started(f"osu-7.5-mpich-n2-bw_fan_{way}.txt", text)
        assert {(r.benchmark, *r.values) for r in records} == {(f"osu_bw_fan_{way}", "bandwidth_mb_per_s")}
    # The title alone is that of osu_bw, whose head is another.
    assert {r.benchmark for r in parse(golden(BANDWIDTH))} == {"osu_bw"}
    asked = Expected("osu_bw", 2, (4, 8, 16))
    with refused_as("output-damaged", match="osu_bw was asked for and is missing"):
        reader.complete(parse(golden("osu/osu-7.5-mpich-n2-latency.txt")), [asked])


def test_a_neighbourhood_is_told_by_the_lines_above_its_title():
    names = ("osu-7.5-mpich-n4-neighbor_alltoallw.txt", "osu-7.5-mpich-n2-alltoallw.txt")
    ring, all_of_them = (golden(f"osu/{name}") for name in names)
    assert {(r.benchmark, r.ranks) for r in parse(ring)} == {("osu_neighbor_alltoallw", 4)}
    assert {(r.benchmark, r.ranks) for r in parse(all_of_them)} == {("osu_alltoallw", None)}
    refuse(ring.replace("Time took to create topology graph", "Time"), "line 1", "is a piece of a table")
    refuse(re.sub("Time took.*\n", "", ring), "a line above is not of osu_alltoallw")


def test_columns_of_overlap():
    name = "osu/osu-7.5-mpich-n2-iallreduce-short.txt"
    record = parse(golden(name))[0]
    assert record.values == {"t_ovrl_us": 15712.03, "t_cpu_us": 12607.92, "t_pure_us": 9032.29, "overlap_percent": 65.63}
    full = parse(golden("osu/osu-7.5-mpich-n2-iallreduce.txt"))[0].values
    assert {"t_init_us", "t_test_us", "t_wait_us", "t_min_us", "t_max_us"} < set(full)


def test_percentiles_are_over_repetitions():
    values = parse(golden("osu/osu-7.5-mpich-n2-latency-tail.txt"))[0].values
    assert values == {"latency_us": 825.91, "latency_p50_us": 0.18, "latency_p90_us": 654.29, "latency_p99_us": 6201.81}
    assert "bandwidth_p99_mb_per_s" in parse(golden("osu/osu-7.5-mpich-n2-mbw_mr-tail.txt"))[0].values
    refuse(change("osu/osu-7.5-mpich-n2-latency-tail.txt", "P90 Tail", "P95 Tail"), "percentile P95 is not read")
    refuse(change("osu/osu-7.5-mpich-n2-latency-tail.txt", "6201.81", "  54.29"), "a percentile is below a smaller one")


def test_threads_and_processes_are_part_of_what_was_measured():
    for kind, what in (("mt", "threads"), ("mp", "processes")):
        records = parse(golden(f"osu/osu-5.7-mpich-n2-latency_{kind}.txt"))
        assert {r.variant for r in records} == {f"sender_{what}=2,receiver_{what}=2"}
    name = "osu/osu-7.5-mpich-n2-latency_mt.txt"
    assert {r.variant for r in parse(golden(name))} == {"sender_threads=1,receiver_threads=2"}
    refuse(change(name, "# Number of Receiver.*\n", ""), "receiver_threads is missing")


def test_the_time_in_mpi_init_is_in_whole_milliseconds():
    name = "osu/osu-7.5-mpich-n2-init.txt"
    (record,) = parse(golden(name))
    assert record.values == {"t_min_us": 194e3, "t_max_us": 198e3, "t_avg_us": 196e3}
    assert (record.ranks, record.message_bytes, record.repetitions) == (2, None, 1)
    refuse(change(name, "avg: 196", "avg: 199"), "not between minimum and maximum")
    refuse(golden(name) + "nprocs: 2, min: 1 ms, max: 3 ms, avg: 2 ms\n", "is not the line of osu_init")
    (hello,) = parse(golden("osu/osu-7.5-mpich-n2-hello.txt"))
    assert (hello.ranks, hello.values) == (2, {})


STARTS = [f"osu/osu-7.5-mpich-n2-{what}.txt" for what in ("init", "hello")]


@pytest.mark.parametrize("name", STARTS)
def test_a_start_whose_output_lacks_anything_is_refused(name: str) -> None:
    """Without a line, with one twice, cut after any character, or with one character more or less."""
    text = golden(name)
    lines = text.splitlines(keepends=True)
    assert len(lines) == 2
    damaged = {"".join([*lines[:at], *lines[at + 1 :]]) for at in range(2)} | {"".join([*lines, line]) for line in lines}
    damaged |= {text[:at] for at in range(len(text))} | {f"{text[:at]}x{text[at:]}" for at in range(len(text))}
    # Whatever is taken out of the title or between numbers; of the numbers themselves only their order can be known.
    damaged |= {text[:at] + text[at + 1 :] for at, sign in enumerate(text) if not sign.isdigit()}
    for each in damaged:
        with pytest.raises(OutputError):
            reader.complete(parse(each), [Expected(parse(text)[0].benchmark, 2, (None,), ("",), 1, (), "nodes=2")])


def test_a_start_on_another_number_of_ranks_or_of_another_program_is_refused() -> None:
    init, hello = (golden(f"osu/osu-7.5-mpich-n2-{what}.txt") for what in ("init", "hello"))
    asked = Expected("osu_init", 2, (None,), ("",), 1, (), "nodes=2")
    (record,) = reader.complete(parse(init), [asked])
    assert (record.variant, record.ranks) == ("nodes=2", 2)
    with refused_as("output-damaged", match="ran on 2 ranks, asked for were 4"):
        reader.complete(parse(init), [asked._replace(ranks=4)])
    with refused_as("output-damaged", match="osu_init was asked for and is missing"):
        reader.complete(parse(hello), [asked])
    refuse(init.splitlines()[0] + "\n" + hello.splitlines()[1] + "\n", "is not the line of osu_init")
    refuse(hello.splitlines()[0] + "\n" + init.splitlines()[1] + "\n", "is not the line of osu_hello")


def test_zero_bytes_come_first_in_old_versions():
    sizes = [record.message_bytes for record in parse(golden("osu/osu-5.6-mpich-n2-latency-from-zero.txt"))]
    assert sizes == [0, 1, 2, 4, 8, 16, 32, 64]


# What was asked for: OSU prints neither ranks nor an end.


def test_what_is_not_printed_is_filled_in():
    sizes = tuple(4 << log for log in range(7))
    full = reader.complete(parse(golden(REDUCTION)), [Expected("osu_allreduce", 2, sizes, ("type=MPI_INT",), 20)])
    assert {(record.ranks, record.repetitions) for record in full} == {(2, 20)}
    sizes = tuple(1 << log for log in range(9))
    full = reader.complete(parse(golden(LATENCY)), [Expected("osu_latency", 2, sizes, ("",), 20)])
    assert {record.repetitions for record in full} == {20}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sizes": tuple(4 << log for log in range(8))}, "lacks the size of 512 bytes"),
        ({"repetitions": 30}, "made 20 repetitions, asked for were 30"),
        ({"variants": ("allocate,flush",)}, "variants"),
        ({"benchmark": "osu_reduce"}, "benchmark osu_reduce was asked for and is missing"),
    ],
)
def test_another_output_than_asked_for(change, words):
    asked = Expected("osu_allreduce", 2, tuple(4 << log for log in range(7)), ("type=MPI_INT",), 20)
    reader.complete(parse(golden(REDUCTION)), [asked])
    with refused_as("output-damaged", match=words):
        reader.complete(parse(golden(REDUCTION)), [asked._replace(**change)])


def test_ranks_that_are_printed_must_be_those_asked_for():
    sizes = tuple(1 << log for log in range(4))
    records = parse(golden("osu/osu-7.5-mpich-n4-mbw_mr.txt"))
    with refused_as("output-damaged", match="ran on 4 ranks, asked for were 2"):
        reader.complete(records, [Expected("osu_mbw_mr", 2, sizes, ("window=64",), 5)])
    assert reader.complete(records, [Expected("osu_mbw_mr", 4, sizes, ("window=64",), 5)]) == [
        replace(record, repetitions=5) for record in records
    ]


# Damage.


def swap_first(found: re.Match[str]) -> str:
    """The mean far above the maximum, as wide as before."""
    return f"{found[1]}{'9' * (len(found[2]) - 3)}.99{found[3]}" if len(found[2]) > 4 else f"{found[1]}9.99{found[3]}"


#: What was done to an output -> the text, and words of the refusal.
DAMAGED = {
    "a last row that is cut": (golden(LATENCY)[:-3], "no end"),
    "no rows": ("".join(golden(LATENCY).splitlines(keepends=True)[:4]), "no rows"),
    "a size is missing": (change(LATENCY, r"^64 .*\n", ""), "line 11: 128 bytes follow 32 bytes"),
    "a size twice": (change(LATENCY, r"^(64 .*\n)", r"\1\1"), "line 12: 64 bytes follow 64 bytes"),
    "wrong data": (change(CHECKED, r"^(16 .*)Pass$", r"\1Fail"), "line 7", "received wrong data at 16 bytes"),
    "wrong data said below": (
        golden(CHECKED) + "DATA VALIDATION ERROR: osu_allreduce exited with status 1 on message size 64.\n",
        *("line 10", "validation failed"),
    ),
    "nan": (change(LATENCY, r"^(64 .*).{6}$", r"\g<1>   nan"), "line 11", "no number"),
    "negative": (change(LATENCY, r"^(64 .*).{6}$", r"\g<1> -1.00"), "line 11", "negative"),
    "three decimals": (change(LATENCY, r"^(64 .*).{6}$", r"\g<1> 1.234"), "line 11", "not belong"),
    "a comma": (change(LATENCY, r"^(64 .*).{6}$", r"\g<1>  1,23"), "line 11", "not belong"),
    # A digit lost or gained moves a cell: the number would be wrong by a factor of ten.
    "a digit lost": (change(LATENCY, r"^(64 .*)[0-9](\.[0-9]{2})$", r"\1\2"), "line 11", "not belong"),
    "a blank more": (change(BANDWIDTH, r"^(64 .*\.[0-9]{2})$", r" \1"), "line 11", "not belong"),
    "another column": (change(LATENCY, r"Avg Latency\(us\)$", "Bandwidth (MB/s)"), "line 4", "not those of osu_latency"),
    "a column is missing": (change(REDUCTION, r" +Iterations$", ""), "line 4", "columns are not those of osu_allreduce"),
    "a column twice": (change(REDUCTION, "Min Latency", "Max Latency"), "line 4", "columns are not those"),
    "no column of sizes": (change(REDUCTION, r"^# Size +Avg", "# Avg"), "line 4", "columns are not those"),
    "another mean": (change(REDUCTION, r"^(32 +)([0-9]+\.[0-9]{2})( +)", swap_first), "between minimum and maximum"),
    "more iterations": (change(REDUCTION, r"^(64 .*)20$", r"\g<1>30"), "iterations grows"),
    "the same twice": (golden(LATENCY) * 2, "a second table starts"),
    "two outputs": (golden(LATENCY) + golden(BANDWIDTH), "a second table starts"),
    "two outputs, one of pairs": (golden(RATE) + golden(LATENCY), "a second table starts"),
    "no window": (change(PUT, r"^# Window creation.*\n", ""), "window is missing"),
    "no synchronisation": (change(PUT, r"^# Synchronization.*\n", ""), "sync is missing"),
    "no pairs": (change(RATE, r"^# \[ pairs.*\n", ""), "pairs is missing"),
    "an unknown synchronisation": (change(PUT, "MPI_Win_flush", "MPI_Win_flash"), "line 3"),
    **{
        title: (change(LATENCY, r"OSU MPI Latency Test v7\.5", title), "line 2", words)
        for title, words in {
            "OSU MPI Latency Test v5.3.2": "OSU 5.3.2 is not known; read are 5.6 to 7.5",
            "OSU MPI Latency Test v8.0": "OSU 8.0 is not known",
            "OSU MPI Latency Test": "is no title of OSU 5.6 to 7.5",
            "OSU MPI Lateness Test v7.5": "is none of the OSU benchmarks",
        }.items()
    },
}


@pytest.mark.parametrize(("text", "words"), [(text, words) for text, *words in DAMAGED.values()], ids=DAMAGED)
def test_what_is_damaged_is_refused(text: str, words: list[str]) -> None:
    refuse(text, *words)


def test_warnings_in_the_output():
    warning = "[1627] node1:4711 :0 parser.c:2036 UCX WARN unused environment variable: UCX_TLZ\n"
    refuse(change(LATENCY, r"^(64 )", re.escape(warning).replace("\\", "") + r"\1"), "line 11: a warning stands in the output")
    before = "--------\nWARNING: There was an error initializing an OpenFabrics device.\n"
    assert parse(before + golden(LATENCY)) == parse(golden(LATENCY))


# Memory of GPUs.

#: Recorded outputs by what they say of the memory (empty: of the host), with the rows counted in the file.
IN_MEMORY = {
    "memory=device": {
        **{"5.6.3-mvapich2-n2-latency-device": 24, "5.6.3-mvapich2-n2-bibw-device": 23, "5.7-craympich-n2-latency-p100": 24},
        **{"5.9-other-n2-bw-mi250x-near": 6, "5.9-other-n2-bw-mi250x-far": 6, "7.2-openmpi-n2-bw-a100": 26},
        **{f"7.0-other-n2-bw-mi250x-{pair}": 1 for pair in ("0-1", "0-2", "0-1-sdma")},
        **{"7.5-openmpi-n8-alltoall-gh200": 21},
        **{f"5.9-mpich_stand_in-n2-{name}-device": 3 for name in ("latency", "multi_lat", "allreduce")},
        **{"7.2-mpich_stand_in-n2-latency-device": 3, "7.0-openmpi-n4-allreduce-a100": 1},
        **{f"7.5-mpich_stand_in-n2-{name}-device": 3 for name in ("allreduce-validated", "allreduce_persistent")},
        "7.5-mpich_stand_in-n4-neighbor_alltoallw-device": 3,
    },
    "window=64,memory=device": {f"{release}-mpich_stand_in-n2-mbw_mr-device": 3 for release in ("5.9", "7.2")},
    "create,flush,memory=device": {
        "7.5-mpich_stand_in-n2-put_latency-device": 3,
        "7.5-mpich_stand_in-n2-cas_latency-validated-device": 1,
    },
    "create,fence,memory=device": {"7.2-mpich_stand_in-n2-put_bibw-device": 3},
    "memory=managed": {
        "5.9-mpich_stand_in-n2-bibw-managed": 3,
        "5.9-mpich_stand_in-n2-ibcast-managed": 3,
        "7.5-mpich_stand_in-n2-iallreduce-full-managed": 3,
        "7.5-mpich_stand_in-n4-ineighbor_allgather-managed": 3,
    },
    "create,flush,memory=managed": {"5.9-mpich_stand_in-n2-put_bw-managed": 3},
    "memory=host_to_device": {"5.9-mpich_stand_in-n2-bw-host_to_device": 3},
    "memory=device_to_host": {"7.2-mpich_stand_in-n2-multi_lat-device_to_host": 3},
    "create,flush,memory=host_to_device": {"5.9-mpich_stand_in-n2-get_bw-host_to_device": 3},
    "create,flush,memory=device_to_host": {
        "5.9-mpich_stand_in-n2-put_latency-device_to_host": 3,
        "7.5-mpich_stand_in-n2-get_latency-device_to_host": 3,
    },
    UNSAID: {
        **{f"7.5-openmpi-n2-bw-gh200-{place}": 23 for place in ("inter", "inter-nocxi", "intra")},
        **{f"7.5-mpich-n2-bw-gh200-{place}": 23 for place in ("inter", "intra")},
        "7.5-mpich_stand_in-n2-latency-device": 3,
        "7.5-mpich_stand_in-n2-bw-validated-host_to_device": 3,
        "7.5-mpich_stand_in-n2-latency_persistent-managed": 3,
    },
    "": {
        "7.5-mpich-n2-bw-gh200-host": 23,
        "5.8-openmpi-n2-bw-v100-host": 23,
        "5.9-mpich_stand_in-n2-bw-host": 3,
        "7.5-openmpi-n2-latency-places-ignored": 23,
    },
}
OF_MEMORY = {name: (variant, rows) for variant, names in IN_MEMORY.items() for name, rows in names.items()}


@pytest.mark.parametrize("name", OF_MEMORY)
def test_the_memory_is_part_of_what_was_measured(name: str) -> None:
    records = parse(golden(f"osu/osu-{name}.txt"))
    assert ({record.variant for record in records}, len(records)) == ({OF_MEMORY[name][0]}, OF_MEMORY[name][1])


def test_every_recorded_output_of_a_gpu_is_counted() -> None:
    """Two say nothing of GPUs: a build for CUDA without words, and one without CUDA that ignored them."""
    silent = {"7.5-mpich-n2-bw-gh200-host", "7.5-openmpi-n2-latency-places-ignored"}
    said = {name for name in GOOD if "stand_in" in name or re.search(r"^# OSU MPI\w*-[A-Z]+ ", golden(f"osu/{name}"), re.M)}
    assert said == {f"osu-{name}.txt" for name in OF_MEMORY.keys() - silent}


DEVICE_5_9 = "osu/osu-5.9-mpich_stand_in-n2-latency-device.txt"


def test_the_platform_of_an_output_is_that_of_its_title() -> None:
    title = golden("osu/osu-7.5-mpich_stand_in-n2-latency-device.txt")
    platforms = {"": "", "-CUDA": "cuda", "-ROCM": "rocm", "-OPENACC": "openacc", "-MANAGED": "cuda"}
    assert [facts_of_output(title.replace("-CUDA", word)).platform for word in platforms] == [*platforms.values()]
    assert {record.variant for record in parse(title.replace("-CUDA", "-MANAGED"))} == {"memory=managed"}


@pytest.mark.parametrize(
    ("printed", "variant"),
    [
        ("HOST (H) and Receive Buffer on DEVICE (D)", "memory=host_to_device"),
        ("DEVICE (D) and Receive Buffer on HOST (H)", "memory=device_to_host"),
        ("HOST (H) and Receive Buffer on HOST (H)", ""),
        ("MANAGED (M) and Receive Buffer on MANAGED (M)", "memory=managed"),
        ("MANAGED (MD) and Receive Buffer on MANAGED (MD)", "memory=managed"),
        ("MANAGED (MH) and Receive Buffer on MANAGED (MH)", "memory=managed,pages=host"),
    ],
)
def test_two_places_are_a_memory(printed: str, variant: str) -> None:
    text = change(DEVICE_5_9, r"DEVICE \(D\) and Receive Buffer on DEVICE \(D\)", printed)
    for platform in ("CUDA", "ROCM", "OPENACC", "SYCL"):
        assert {record.variant for record in parse(text.replace("-CUDA", f"-{platform}"))} == {variant}


@pytest.mark.parametrize(
    "pair", ["MANAGED (MD)|HOST (H)", "MANAGED (MD)|MANAGED (MH)", "DEVICE (D)|MANAGED (M)", "LOST (L)|HOST (H)"]
)
def test_places_that_are_no_memory_are_refused(pair: str) -> None:
    one, two = pair.split("|")
    text = change(DEVICE_5_9, r"DEVICE \(D\) and Receive Buffer on DEVICE \(D\)", f"{one} and Receive Buffer on {two}")
    refuse(text, f"buffers on {one} and {two} are none of the memories that are told apart")


def test_a_title_and_a_line_on_buffers_that_contradict_each_other() -> None:
    line = "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n"
    refuse(change(DEVICE_5_9, "-CUDA", ""), "title and line on buffers contradict")
    refuse(golden(DEVICE_5_9).replace(line, ""), "line on its buffers is missing")
    refuse(golden(DEVICE_5_9).replace(line, line * 2), "a second table starts")
    allreduce = "osu/osu-5.9-mpich_stand_in-n2-allreduce-device.txt"
    refuse(change(allreduce, "^# Size", line + "# Size"), "title and line on buffers contradict")
    put = "osu/osu-5.9-mpich_stand_in-n2-put_bw-managed.txt"
    refuse(change(put, "^# Rank 0.*\n", ""), "line on its buffers is missing")
    refuse(change(put, "^# Rank 0.*\n", line), "title and line on buffers contradict")
    refuse(
        change(DEVICE_5_9, "^# Send.*$", "# Rank 0 Memory on DEVICE (D) and Rank 1 Memory on DEVICE (D)"),
        "contradict each other",
    )
    for plain in ("mbw_mr", "multi_lat"):
        name = f"osu/osu-5.9-mpich_stand_in-n2-{plain}-device.txt"
        refuse(change(name, "OSU MPI ", "OSU MPI-CUDA "), "title and line on buffers contradict")


def test_a_barrier_has_no_buffers() -> None:
    text = golden("osu/osu-7.5-mpich-n2-barrier.txt")
    assert parse(text.replace("OSU MPI Barrier", "OSU MPI-CUDA Barrier")) == parse(text)


def test_memory_of_the_host_never_passes_for_that_of_gpus_nor_the_other_way_round() -> None:
    host, device = golden(LATENCY), golden("osu/osu-7.5-mpich_stand_in-n2-latency-device.txt")
    told = golden(DEVICE_5_9)

    def complete(text: str, variant: str) -> set[str]:
        records = parse(text)
        sizes = tuple(record.message_bytes for record in records)
        return {record.variant for record in reader.complete(records, [Expected("osu_latency", 2, sizes, (variant,))])}

    for memory in ("memory=device", "memory=host_to_device", "memory=managed"):
        assert complete(device, memory) == {memory}  # 7.5 does not say which
        with refused_as("output-damaged", match=f"has the variants 'none', asked for were '{memory}'"):
            complete(host, memory)
    for text in (told, device):
        with refused_as("output-damaged", match="asked for were 'none'"):
            complete(text, "")
    with refused_as("output-damaged", match="has the variants 'memory=device', asked for were 'memory=host_to_device'"):
        complete(told, "memory=host_to_device")


def test_what_an_output_says_of_its_memory_is_a_note() -> None:
    notes = {
        "5.9-mpich_stand_in-n2-bw-host": ("built for CUDA; its buffers were in host memory",),
        "7.5-mpich_stand_in-n2-latency-device": (
            "memory of GPUs was asked for (CUDA); of which buffers, the output does not say",
        ),
        "5.9-mpich_stand_in-n2-latency-device": (),
        "7.5-openmpi-n8-alltoall-gh200": (),
    }
    for name, expected in notes.items():
        assert reader.read(golden(f"osu/osu-{name}.txt")).notes == expected


def test_newer_releases_of_the_same_form_are_read():
    assert parse(change(LATENCY, r"v7\.5", "v7.5.2")) == parse(golden(LATENCY))
