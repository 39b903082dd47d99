"""IMB outputs: what complete ones say, and that every incomplete one is refused with a sentence."""

from __future__ import annotations

import re

import pytest

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.imb import columns as imb_columns
from reframe_tests.harness.suites.imb.output import parse
from reframe_tests.harness.suites.imb.rows import ROWS
from reframe_tests.harness.suites.records import OutputError
from studies.output_damage import GOLDEN, golden

REFUSED = {
    "imb-mpi1-2018.1-n2-time-out.txt": "ran out of time",
    "imb-mpi1-2021.11-n2-time-out.txt": "ran out of time",
    "imb-ext-2021.11-n4-time-out.txt": "ran out of time",
    "imb-mpi1-2021.11-n2-out-of-mem.txt": "want of memory",
    "imb-mpi1-2021.11-n1-invalid.txt": "refused to run a benchmark",
    "imb-p2p-2021.11-n3-invalid.txt": "refused to run a benchmark",
}
GOOD = sorted(path.name for path in GOLDEN.glob("imb-*.txt") if path.name not in REFUSED)
ALL = "imb-mpi1-2021.11-n2-all.txt"
SMALL = "imb-mpi1-2021.11-n2-mpich.txt"


def refuse(text: str, *words: str, source: str = "job.out") -> str:
    """The sentence a text is refused with; it names the source and holds the words."""
    with pytest.raises(OutputError) as error:
        reader.parse(text, source=source)
    sentence = str(error.value)
    assert sentence.startswith(source)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    for word in words:
        assert word in sentence
    return sentence


def of(records, benchmark, size, **more):
    """The one record of a benchmark and size."""
    found = [
        record
        for record in records
        if record.benchmark == benchmark
        and record.message_bytes == size
        and all(getattr(record, name) == value for name, value in more.items())
    ]
    assert len(found) == 1, (benchmark, size, more, found)
    return found[0]


@pytest.mark.parametrize("name", GOOD)
def test_recorded_outputs_are_read_whole(name):
    """Every row of every table becomes one record, with every column but the sizes as a value."""
    text = golden(name)
    records = parse(text, name)
    rows = [line for line in text.splitlines() if re.fullmatch(r"[ \t]+[0-9][0-9. ]+", line)]
    assert len(records) == len(rows) > 0
    for record, row in zip(records, rows, strict=True):
        cells = row.split()
        if "CHECK" in name and record.benchmark != "Barrier":
            assert cells.pop() == "0.00"  # defects
        assert [float(cell) for cell in cells[-len(record.values) :]] == list(record.values.values())
        assert record.suite == "imb"
        assert record.repetitions and record.repetitions > 0


@pytest.mark.parametrize(("name", "words"), REFUSED.items())
def test_outputs_that_say_they_failed_are_refused(name, words):
    refuse(golden(name), words)


def test_every_benchmark_has_a_recorded_output():
    read = {(row.binary, row.name) for row in ROWS} - {
        (header_binary(name), record.benchmark) for name in GOOD for record in parse(golden(name), name)
    }
    assert not read


def header_binary(name: str) -> str:
    """Binary of a recorded output, from its file's name."""
    return f"IMB-{name.split('-')[1].upper()}"


def test_files_are_read_by_one_rank_or_by_all():
    records = parse(golden("imb-io-2021.11-n3.txt"), "x")
    assert {(r.benchmark, r.ranks) for r in records} == {
        ("S_Read_Indv", 1),
        ("P_Write_Priv", 3),
        ("C_Write_Expl", 3),
        ("Open_Close", 3),
    }
    modes = {r.benchmark: {x.variant for x in records if x.benchmark == r.benchmark} for r in records}
    both = {"aggregate", "non-aggregate"}
    assert modes == {"S_Read_Indv": {"aggregate"}, "P_Write_Priv": both, "C_Write_Expl": both, "Open_Close": {""}}


def test_the_title_of_the_files_part_runs_into_its_rule():
    """IMB-IO prints an n for the end of its title; both forms are read, another part is not."""
    text = golden("imb-io-2021.11-n3.txt")
    assert re.search(r"MPI-IO partn#-{20,}$", text, re.MULTILINE)
    mended = re.sub(r"partn(#-{20,})$", r"part\n\1", text, flags=re.MULTILINE)
    assert parse(mended, "x") == parse(text, "x")
    refuse(text.replace("MPI-IO part", "MPI-XO part"), "this is the 'MPI-XO part' of IMB, which is not read")


def test_columns_are_mapped_by_name():
    """IMB prints minimum, maximum, average; a peer reads them as minimum, average, maximum."""
    record = of(parse(golden(ALL), ALL), "Sendrecv", 256)
    row = re.search(r"Benchmarking Sendrecv .*?^ +256 +20 +(\S+) +(\S+) +(\S+) +(\S+)$", golden(ALL), re.MULTILINE | re.DOTALL)
    assert row
    assert record.values == {
        "t_min_us": float(row[1]),
        "t_max_us": float(row[2]),
        "t_avg_us": float(row[3]),
        "bandwidth_mb_per_s": float(row[4]),
    }


def test_another_order_of_columns_moves_no_value():
    """The same table with its columns in another order gives the same records."""
    text = golden(SMALL)
    moved = re.sub(
        r"^( +#bytes #repetitions)( +t_min\[usec\])( +t_max\[usec\])( +t_avg\[usec\])( +Mbytes/sec)$"
        r"|^( +[0-9]+ +[0-9]+)( +[0-9.]+)( +[0-9.]+)( +[0-9.]+)( +[0-9.]+)$",
        lambda found: "".join(found.group(i) or "" for i in (1, 6, 5, 10, 4, 9, 3, 8, 2, 7)),
        text,
        flags=re.MULTILINE,
    )
    assert moved != text
    assert parse(moved, "moved") == parse(text, "text")


def test_decimals_are_kept():
    """A peer's pattern reads 1.95 us as 1."""
    text = golden(SMALL)
    row = re.search(r"^ +8 +20 +([0-9.]+) +([0-9.]+)$", text, re.MULTILINE)
    assert row
    text = text.replace(row[0], "            8           20         1.95         4.10")
    text = re.sub(
        r"^( +(?:16|32) +20 +)[0-9.]+ +[0-9.]+$", lambda m: f"{m[1]}1.95 {int(m[1].split()[0]) / 1.95:.2f}", text, flags=re.M
    )
    assert of(parse(text, "x"), "PingPong", 8).values == {"latency_us": 1.95, "bandwidth_mb_per_s": 4.10}


def test_a_benchmark_without_sizes():
    record = of(parse(golden(ALL), ALL), "Barrier", None)
    assert set(record.values) == {"t_min_us", "t_max_us", "t_avg_us"}
    assert record.repetitions == 20


def test_reductions_have_sizes_of_whole_elements():
    records = parse(golden(ALL), ALL)
    assert [r.message_bytes for r in records if r.benchmark == "Allreduce"] == [0, 4, 8, 16, 32, 64, 128, 256]
    assert [r.message_bytes for r in records if r.benchmark == "Bcast"][:4] == [0, 1, 2, 4]
    doubles = parse(golden("imb-mpi1-2021.11-n2-double.txt"), "double")
    assert [r.message_bytes for r in doubles if r.benchmark == "Sendrecv"] == [8, 16, 32, 64]


def test_numbers_of_ranks_are_distinguished():
    records = parse(golden("imb-mpi1-2021.11-n4-npmin2.txt"), "x")
    assert of(records, "PingPong", 8).ranks == 2
    assert of(records, "Sendrecv", 8, ranks=2) != of(records, "Sendrecv", 8, ranks=4)
    odd = parse(golden("imb-mpi1-2021.11-n3-odd.txt"), "x")
    assert {r.ranks for r in odd if r.benchmark == "Uniband"} == {2}
    assert {r.ranks for r in odd if r.benchmark == "Sendrecv"} == {2, 3}


def test_groups_are_distinguished():
    records = parse(golden("imb-mpi1-2021.11-n4-multi1.txt"), "x")
    pairs = [of(records, "PingPong", 16, variant=f"group={group}") for group in (0, 1)]
    assert {(r.ranks, r.groups) for r in pairs} == {(2, 2)}
    assert of(records, "Sendrecv", 16, ranks=4).groups == 1
    worst = of(parse(golden("imb-mpi1-2021.11-n4-multi0.txt"), "x"), "PingPong", 16)
    assert (worst.groups, worst.variant) == (2, "")
    assert set(worst.values) == {"t_min_us", "t_max_us", "t_avg_us", "bandwidth_mb_per_s"}


def test_modes_of_one_sided_benchmarks():
    records = parse(golden("imb-rma-2021.11-n2-all.txt"), "x")
    for variant in ("non-aggregate", "aggregate"):
        assert of(records, "Unidir_put", 16, variant=variant).values
    assert set(of(records, "Truly_passive_put", 16).values) == {"t_pure_us", "t_ovrl_us"}
    assert of(records, "Fetch_and_op", 4, variant="aggregate").repetitions == 20


def test_single_elements_are_left_out_by_imb_above_two_ranks():
    """IMB since 2019 announces Fetch_and_op and leaves it out when npmin is above 2; 2018 ran it."""
    new = parse(golden("imb-rma-2021.11-n4-npmin4.txt"), "x")
    old = parse(golden("imb-rma-2018.1-n4-npmin4.txt"), "x")
    assert "Fetch_and_op" not in {r.benchmark for r in new}
    assert "Fetch_and_op" in {r.benchmark for r in old}


def test_overlap_columns():
    record = of(parse(golden("imb-nbc-2021.11-n2-all.txt"), "x"), "Ibcast", 16)
    assert list(record.values) == ["t_ovrl_us", "t_pure_us", "t_cpu_us", "overlap_percent"]


def test_threads_and_grids_are_variants():
    threads = parse(golden("imb-mt-2021.11-n2-threads2.txt"), "x")
    assert {r.variant for r in threads} == {"threads=2"}
    assert [r.message_bytes for r in threads if r.benchmark == "PingPongMT"] == [8, 32, 512]
    grids = parse(golden("imb-p2p-2021.11-n8.txt"), "x")
    assert {(r.benchmark, r.variant) for r in grids if r.variant} == {("Stencil2D", "grid=2x4"), ("Stencil3D", "grid=2x2x2")}


@pytest.mark.parametrize(("name", "best"), [("1gbe", 115.62), ("40gbe", 4986.11)])
def test_tables_of_the_white_paper(name, best):
    """The paper's rows, with the head its scan lost put back, give its headline numbers."""
    rows = golden(f"white-paper-2021-{name}.rows")
    head = golden("imb-p2p-2021.11-n2.txt").split("\n#----------------------------------------------------------------\n")[0]
    head = re.sub(r"-msglog 3 .*", "", re.sub(r"(Maximum message length in bytes: +)8", r"\g<1>4194304", head))
    head = re.sub(r"^# (PingPing|Unirandom|Birandom|Corandom|SendRecv_Replace)\n", "", head, flags=re.MULTILINE)
    rule = "#" + "-" * 64
    columns = " " + " ".join(f"{name:>12}" for name in ("#bytes", "#repetitions", "t[usec]", "Mbytes/sec", "Msg/sec"))
    tail = "\n\n# All processes entering MPI_Finalize\n\n"
    text = f"{head}\n{rule}\n# Benchmarking PingPong\n# #processes = 2\n{rule}\n{columns}\n{rows}{tail}"
    records = parse(text, name)
    assert len(records) == 24
    assert max(r.values["bandwidth_mb_per_s"] for r in records) == best


# Damage, case by case; test_parser_mutations.py does the same at random.


def without(text: str, pattern: str, count: int = 1) -> str:
    """The text without the first lines that match."""
    changed, found = re.subn(rf"^{pattern}\n", "", text, count=count, flags=re.MULTILINE)
    assert found == count, pattern
    return changed


def test_an_empty_output():
    refuse("", "empty")
    refuse(" \n\n", "empty")


def test_an_output_of_something_else():
    head = "T/V                N    NB     P     Q               Time                 Gflops\n"
    refuse(head, "not output of a benchmark that is known here")
    refuse("hello\n", "not output of a benchmark that is known here")


def test_a_size_that_is_missing():
    refuse(without(golden(SMALL), r" +16 +20 .*"), "PingPong (2 processes)", "16 bytes", "line 34")


def test_the_last_size_that_is_missing():
    refuse(without(golden(SMALL), r" +32 +20 .*"), "lacks the row of 32 bytes")


def test_a_row_that_is_there_twice():
    text = golden(SMALL)
    row = re.search(r"^ +16 +20 .*\n", text, re.MULTILINE)
    assert row
    refuse(text.replace(row[0], row[0] * 2, 1), "size twice")


def test_rows_in_another_order():
    text = golden(SMALL)
    swapped = re.sub(r"^( +16 +20 .*\n)( +32 +20 .*\n)", r"\2\1", text, count=1, flags=re.MULTILINE)
    refuse(swapped, "another order")


def test_a_benchmark_that_is_missing():
    text = golden(SMALL)
    cut = re.sub(r"#-+\n# Benchmarking Exchange.*?(?=\n#-+\n# Benchmarking)", "", text, flags=re.DOTALL)
    assert cut != text
    refuse(cut, "Exchange (2 processes) should be")
    start = text.index("\n#----------------------------------------------------------------\n# Benchmarking Reduce")
    last = text[:start] + "\n\n# All processes entering MPI_Finalize\n\n"
    refuse(last, "announced and is missing")


def test_a_number_of_ranks_that_is_missing():
    text = golden("imb-mpi1-2021.11-n4-npmin2.txt")
    cut = re.sub(r"#-+\n# Benchmarking Sendrecv \n# #processes = 4.*?(?=\n#-+\n# Benchmarking)", "", text, flags=re.DOTALL)
    assert cut != text
    refuse(cut, "Sendrecv (4 processes) should be")


def test_a_mode_that_is_missing():
    text = golden("imb-rma-2021.11-n2-aggregate.txt")
    refuse(text.replace("-aggregate_mode aggregate", ""), "non-aggregate")


def test_a_table_that_is_there_twice():
    text = golden(SMALL)
    table = re.search(r"#-+\n# Benchmarking Exchange.*?\n\n", text, re.DOTALL)
    assert table
    refuse(text.replace(table[0], table[0] * 2, 1), "repeated")


def test_an_output_without_its_end():
    text = golden(SMALL)
    refuse(text[: text.index("# All processes")], "cut off")
    refuse(text[: text.index("# Benchmarking Exchange")], "cut off", "PingPong")
    refuse(text[: text.index("# Minimum")], "cut off")


def test_an_output_without_its_beginning():
    text = golden(SMALL)
    refuse(text[text.index("# Date") :], "not output of a benchmark that is known here")
    refuse(without(text, "# Minimum.*"), "minimum and maximum")
    refuse(without(text, r"# MPI_Datatype for.*"), "data types")
    refuse(without(text, "# IMB-MPI1 .*"), "calling sequence")


def test_two_complete_runs_in_one_file():
    refuse(golden(SMALL) * 2, "a second table starts", "split")
    refuse(golden(SMALL) + golden("imb-p2p-2021.11-n2.txt"), "a second table starts")


def test_two_runs_interleaved():
    one, two = golden(SMALL).splitlines(), golden("imb-mpi1-2021.11-n4-npmin4.txt").splitlines()
    mixed = "\n".join(line for pair in zip(one, two, strict=False) for line in pair)
    refuse(mixed, "second run")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("nan", "no number"),
        ("-nan", "no number"),
        ("inf", "no number"),
        ("-1.00", "negative"),
        ("1.2", "is not a row"),
        ("1,20", "is not a row"),
        ("1.20e0", "is not a row"),
        ("1_0.00", "is not a row"),
        ("\u0661.20", "is not a row"),
        ("1.20 1.20", "columns where the table has"),
        ("", "columns where the table has"),
    ],
)
def test_values_that_are_none(cell, words):
    text = re.sub(r"^( +16 +20 +)[0-9.]+", rf"\g<1>{cell}", golden(SMALL), count=1, flags=re.MULTILINE)
    refuse(text, words, "line 40")


def test_columns_run_together():
    refuse(re.sub(r"^( +16 +20 +[0-9.]+) +", r"\1", golden(SMALL), count=1, flags=re.MULTILINE), "columns where the table has")


def test_a_row_of_no_repetitions():
    refuse(re.sub(r"^( +16 +)20", r"\g<1> 0", golden(SMALL), count=1, flags=re.MULTILINE), "0 repetitions")


def test_columns_that_contradict_each_other():
    text = golden(SMALL)
    refuse(re.sub(r"^( +16 +20 +)([0-9])", r"\g<1>9\2", text, count=1, flags=re.MULTILINE), "do not fit")
    refuse(re.sub(r"^( +16 +20 +)[0-9.]+( +[0-9.]+ +[0-9.]+ +[0-9.]+)$", r"\g<1>99.00\2", text, count=1, flags=re.M), "t_min")
    window = golden("imb-mpi1-2021.11-n3-odd.txt")
    refuse(re.sub(r"^( +8 +20 +[0-9.]+ +)([0-9])", r"\g<1>9\2", window, count=1, flags=re.MULTILINE), "messages per second")
    overlap = golden("imb-nbc-2021.11-n2-all.txt")
    refuse(re.sub(r"^( +8 +20 .* )[0-9.]+$", r"\g<1>100.01", overlap, count=1, flags=re.MULTILINE), "overlap")


def test_an_unknown_column():
    refuse(golden(SMALL).replace("t_avg[usec]", "t_med[usec]", 1), "unknown column 't_med[usec]'")
    refuse(golden(SMALL).replace("t_avg[usec]", "t_max[usec]", 1), "occurs twice")


def test_columns_of_another_benchmark():
    refuse(golden(SMALL).replace("t[usec]", "t_max[usec]", 1), "another benchmark")


def test_rows_outside_a_table():
    text = golden(SMALL)
    row = "           16           20         1.95         8.21\n"
    refuse(text.replace("# Calling sequence", row + "# Calling sequence"), "not a line of IMB")
    refuse(text.replace("# Benchmarking Exchange", row + "# Benchmarking Exchange"), "head of a table")
    refuse(text + row, "is a piece of a table")


def test_lines_of_other_programs():
    text = golden(SMALL)
    for place in ("# Date", "# Benchmarking Exchange", "# #processes = 2", "       #bytes", "           16"):
        refuse(text.replace(place, "[0] MPI startup(): libfabric provider: tcp\n" + place, 1), "MPI startup")
    assert reader.parse("srun: job 7 queued\n" + text) == reader.parse(text)


def test_a_benchmark_that_nobody_knows():
    refuse(golden(SMALL).replace("PingPong", "PingPang"), "PingPang", "mpibench catalogue")
    refuse("Invalid benchmark name PingPang\n" + golden(SMALL), "line 1", "says that it failed")


def test_a_binary_that_is_not_read():
    refuse(golden(SMALL).replace("MPI-1 part", "RMA part (GPU), Technical preview"), "RMA part (GPU)", "IMB-RMA")
    refuse(golden(SMALL).replace("MPI-1 part", "MPI-2 part"), "IMB-EXT has no benchmark called 'PingPong'")


def test_wrong_data_is_refused():
    text = golden("imb-mpi1-2018.1-CHECK-n2.txt")
    refuse(re.sub(r"0\.00$", "1.00", text, count=1, flags=re.MULTILINE), "wrong data")
    refuse(text.replace("!!!!  ALL BENCHMARKS SUCCESSFUL !!!!", "!!!!  1  BENCHMARK FAILED     !!!!"), "wrong data")


def test_groups_that_are_incomplete():
    text = golden("imb-mpi1-2021.11-n4-multi1.txt")
    refuse(without(text, r" +1 +8 +20 .*"), "some group")


def test_tables_among_other_numbers_of_processes():
    text = golden("imb-mpi1-2021.11-n4-npmin2.txt")
    refuse(text.replace("( 2 additional processes", "( 1 additional processes", 1), "among 3 processes")


def test_mt_tables_must_agree_on_their_sizes():
    """IMB-MT announces nothing, but all its tables have the same sizes."""
    text = golden("imb-mt-2021.11-n2.txt")
    refuse(
        re.sub(r"^ +16 +20 .*\n(?=.*\n\n.*\n# Benchmarking SendRecvMT)", "", text, flags=re.M), "16 bytes", "unlike PingPongMT"
    )
    refuse(text + text, "a second table starts")
    refuse(text.rstrip("\n"), "cut off")


def test_line_ends_of_windows_are_accepted():
    text = golden(SMALL)
    assert parse(text.replace("\n", "\r\n"), "x") == parse(text, "x")


def test_control_characters_are_shown_harmlessly():
    sentence = refuse(golden(SMALL).replace("# Benchmarking Exchange", "\x1b[31mred\x00\n# Benchmarking Exchange"))
    assert "\x1b" not in sentence and "\x00" not in sentence


def test_row_patterns_take_whole_rows_only():
    pattern = imb_columns.row_pattern(("#bytes", "#repetitions", "t[usec]"))
    assert pattern.fullmatch("   8   100   1.95")
    assert not pattern.fullmatch("   8   100   1.9")
    assert not pattern.fullmatch("   8   100   1.95 3")
