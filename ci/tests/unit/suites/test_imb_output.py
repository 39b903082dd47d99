"""IMB outputs: what complete ones say, and that every incomplete one is refused with a sentence."""

from __future__ import annotations

import re
from itertools import groupby

import pytest
import yaml

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.suites.imb import ROWS, parse
from refusals import refused_as
from studies.output_damage import GOLDEN, golden, read

REFUSED = {
    "imb-mpi1-2021.11-n2-time-out.txt": "ran out of time",
    "imb-mpi1-2021.11-n2-out-of-mem.txt": "want of memory",
    "imb-mpi1-2021.11-n1-invalid.txt": "refused to run a benchmark",
    "imb-p2p-2021.11-n3-invalid.txt": "refused to run a benchmark",
}
GOOD = sorted(path.name for path in GOLDEN.glob("imb-*.txt") if path.name not in REFUSED)
#: Columns and modes of each benchmark's table.
TABLES = yaml.safe_load((GOLDEN / "imb-tables.yaml").read_text())
ALL = "imb-mpi1-2021.11-n2-all.txt"
SMALL = "imb-mpi1-2021.11-n2-mpich.txt"


def refuse(text: str, *words: str, name: str = SMALL) -> str:
    """The sentence a text is refused with, where the tables of a recorded output were asked for; it holds the words."""
    with pytest.raises(OutputError) as error:
        read(name, text, reader.parse(golden(name)))
    sentence = str(error.value)
    assert sentence.startswith(name)
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


GPU = "imb-mpi1-2021.10-mpich_stand_in-n2-device.txt"


def test_the_memory_of_imb_mpi1_gpu_is_the_one_its_arguments_name() -> None:
    """Rows counted: 3 of PingPong and of Allreduce or Exchange, and a barrier, which has no buffers."""

    def variants(text: str) -> list[tuple[str, str]]:
        return [(record.benchmark, record.variant) for record in reader.parse(text)]

    device, managed = golden(GPU), golden("imb-mpi1-2021.10-mpich_stand_in-n2-managed.txt")
    pairs = [("PingPong", "memory=device")] * 3
    assert variants(device) == [*pairs, *[("Allreduce", "memory=device")] * 3, ("Barrier", "")]
    assert variants(managed) == [("PingPong", "memory=managed")] * 3 + [("Exchange", "memory=managed")] * 3
    assert variants(device.replace("2021.10,", "2021.2 Technical Preview,"))[0] == ("PingPong", "")
    assert variants(managed.replace("-mem_alloc_type shared", "-mem_alloc_type cpu"))[0] == ("PingPong", "")
    for other in ("host", "bogus"):
        with refused_as("output-device-memory", match=f"buffers of {other} are none of the memories that are told apart"):
            reader.parse(managed.replace("-mem_alloc_type shared", f"-mem_alloc_type {other}"))
    with refused_as("output-device-memory", match="which its calling sequence does not show"):
        reader.parse(re.sub(r"# \./IMB-MPI1-GPU.*\n", "", device))


@pytest.mark.parametrize(("name", "words"), REFUSED.items())
def test_outputs_that_say_they_failed_are_refused(name, words):
    with refused_as("output-damaged", match=words):
        reader.parse(golden(name))


def header_binary(name: str) -> str:
    """Binary of a recorded output, from its file's name."""
    return f"IMB-{name.split('-')[1].upper()}"


def layout_of(tables: str) -> tuple[str, str]:
    """Columns and modes of a benchmark's tables."""
    columns = re.search(r"^ +((?:Group +)?#(?:bytes|repetitions) .*)$", tables, re.MULTILINE)
    assert columns
    return " ".join(columns[1].split()), " ".join(dict.fromkeys(re.findall(r"MODE: (\S+)", tables)))


@pytest.mark.parametrize("binary", TABLES)
def test_every_benchmark_prints_what_it_printed(binary):
    """Each name in the recorded table of another that has the same columns and modes."""
    kept: dict[tuple[str, str], tuple[str, str, str]] = {}
    for name in (name for name in GOOD if header_binary(name) == binary and "-2021.11-" in name):
        head, *tables = re.split(r"(?m)^(?=#-+\n# Benchmarking )", golden(name).partition("\n# All processes")[0])
        for benchmark, own in groupby(tables, lambda table: table.partition("# Benchmarking ")[2].split()[0]):
            text = "".join(own)
            kept.setdefault(layout_of(text), (head, benchmark, text))
    for row in TABLES[binary]:
        head, other, table = kept[row["columns"], row.get("modes", "")]
        for name in row["benchmarks"].split():
            text = head + re.sub(rf"Benchmarking {other}\b", f"Benchmarking {name}", table)
            records = parse(text if binary == "IMB-MT" else f"{text}# All processes entering MPI_Finalize\n", "x")
            assert {record.benchmark for record in records} == {name}
            [known] = [each for each in ROWS if (each.binary, each.name) == (binary, name)]
            assert {tuple(record.values) for record in records} == {known.quantities}


def test_every_benchmark_was_recorded():
    read = {(header_binary(name), record.benchmark) for name in GOOD for record in parse(golden(name), name)}
    read |= {(binary, name) for binary, rows in TABLES.items() for row in rows for name in row["benchmarks"].split()}
    assert read == {(row.binary, row.name) for row in ROWS}


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


def test_numbers_of_ranks_are_distinguished():
    records = parse(golden("imb-mpi1-2021.11-n4-npmin2.txt"), "x")
    assert of(records, "PingPong", 8).ranks == 2
    assert of(records, "Sendrecv", 8, ranks=2) != of(records, "Sendrecv", 8, ranks=4)
    odd = parse(golden("imb-mpi1-2021.11-n3-odd.txt"), "x")
    assert {r.ranks for r in odd if r.benchmark == "Uniband"} == {2}
    assert {r.ranks for r in odd if r.benchmark == "Sendrecv"} == {2, 3}


def test_groups_are_distinguished():
    records = parse(golden("imb-mpi1-2018.1-n4-multi1.txt"), "x")
    pairs = [of(records, "PingPong", 8, variant=f"group={group}") for group in (0, 1)]
    assert {(r.ranks, r.groups) for r in pairs} == {(2, 2)}
    assert of(records, "Allreduce", 8, ranks=4).groups == 1
    worst = of(parse(golden("imb-mpi1-2021.11-n4-multi0-pairs.txt"), "x"), "PingPong", 1 << 18)
    assert (worst.groups, worst.variant) == (2, "")
    assert set(worst.values) == {"t_min_us", "t_max_us", "t_avg_us", "bandwidth_mb_per_s"}


def test_modes_of_one_sided_benchmarks():
    records = parse(golden("imb-rma-2021.11-n2-all.txt"), "x")
    for variant in ("non-aggregate", "aggregate"):
        assert of(records, "Unidir_put", 16, variant=variant).values
    assert set(of(records, "Truly_passive_put", 16).values) == {"t_pure_us", "t_ovrl_us"}
    assert of(records, "Fetch_and_op", 4, variant="aggregate").repetitions == 20


def test_single_elements_are_left_out_by_imb_above_two_ranks():
    """IMB since 2019 announces Fetch_and_op and leaves it out when npmin is above 2."""
    new = parse(golden("imb-rma-2021.11-n4-npmin4.txt"), "x")
    assert "Fetch_and_op" not in {r.benchmark for r in new}


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


def sub(pattern: str, new: str, text: str, count: int = 1) -> str:
    """The text with the first places that match replaced."""
    changed, found = re.subn(pattern, new, text, count=count, flags=re.MULTILINE)
    assert found == count, pattern
    return changed


TABLE = r"#-+\n# Benchmarking Exchange(?:.*\n)+?\n(?=#-+\n# Benchmarking)"
ROW = "           16           20         1.95         8.21\n"
DAMAGE = {
    "empty": (lambda text: " \n\n", "empty"),
    "nothing known": (lambda text: "hello\n", "not output of a benchmark that is known here"),
    "a size is missing": (lambda text: sub(r"^ +16 +20 .*\n", "", text), "PingPong lacks the size of 16 bytes"),
    "the last size is missing": (lambda text: sub(r"^ +32 +20 .*\n", "", text), "lacks the size of 32 bytes"),
    "a row twice": (lambda text: sub(r"^( +16 +20 .*\n)", r"\1\1", text), "PingPong at 16 bytes is there twice"),
    "rows in another order": (lambda text: sub(r"^( +16 +20 .*\n)( +32 +20 .*\n)", r"\2\1", text), "out of order"),
    "a benchmark is missing": (lambda text: sub(TABLE, "", text), "Exchange was asked for and is missing"),
    "the last benchmark is missing": (
        lambda text: sub(r"#-+\n# Benchmarking Reduce (?:.*\n)+(?=# All)", "", text),
        "Reduce was asked for and is missing",
    ),
    "a table twice": (lambda text: sub(f"({TABLE})", r"\1\1", text), "Exchange at 0 bytes is there twice"),
    "no end": (lambda text: text[: text.index("# All processes")], "cut off"),
    "no end in a table": (lambda text: text[: text.index("# Benchmarking Exchange")], "cut off"),
    "no table": (lambda text: text[: text.index("# Minimum")], "cut off"),
    "no beginning": (lambda text: text[text.index("# Date") :], "not output of a benchmark that is known here"),
    "two runs": (lambda text: text * 2, "a second table starts, that of another run; split"),
    "another run behind": (lambda text: text + golden("imb-p2p-2021.11-n2.txt"), "a second table starts"),
    "nan": (lambda text: sub(r"^( +16 +20 +)[0-9.]+", r"\1 nan", text), "line 40: '16 20 nan"),
    "no repetitions": (lambda text: sub(r"^( +16 +)20", r"\1 0", text), "no row of the table of PingPong as IMB prints it"),
    "no row": (
        lambda text: sub(r"(^ +#bytes #repetitions +t\[usec\] .*\n)(?: +[0-9].*\n)+", r"\1", text),
        "does not belong there",
    ),
    "an unknown column": (lambda text: text.replace("t_avg[usec]", "t_med[usec]", 1), "other columns than it prints"),
    "a column twice": (lambda text: text.replace("t_avg[usec]", "t_max[usec]", 1), "other columns than it prints"),
    "columns of another benchmark": (lambda text: text.replace("t[usec]", "t_max[usec]", 1), "other columns than it prints"),
    "a row above": (lambda text: text.replace("# Calling", f"{ROW}# Calling"), "not a line of IMB"),
    "a row between": (lambda text: text.replace("# Benchmarking Ex", f"{ROW}# Benchmarking Ex"), "does not belong there"),
    "a row below": (lambda text: text + ROW, "is a piece of a table"),
    "an unknown benchmark": (lambda text: text.replace("PingPong", "PingPang"), "PingPang"),
    "a wrong name": (lambda text: f"Invalid benchmark name PingPang\n{text}", "line 1"),
    "an unknown part": (lambda text: text.replace("MPI-1 part", "RMA part (GPU)"), "this is the 'RMA part (GPU)' of IMB"),
    "another part": (lambda text: text.replace("MPI-1 part", "MPI-2 part"), "IMB-EXT has no benchmark called 'PingPong'"),
    "other ranks": (lambda text: text.replace("#processes = 2", "#processes = 4"), "ran on 4 ranks, asked for were 2"),
}


@pytest.mark.parametrize(("damage", "words"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_output_is_refused_in_one_sentence(damage, words):
    refuse(damage(golden(SMALL)), words)


@pytest.mark.parametrize("cell", ["-1.00", "1.2", "1,20", "1.20e0", "1_0.00", "\u0661.20", "1.20 1.20", "", "inf"])
def test_values_that_are_none(cell):
    refuse(sub(r"^( +16 +20 +)[0-9.]+", rf"\g<1>{cell}", golden(SMALL)), "line 40")


def test_columns_run_together():
    refuse(sub(r"^( +16 +20 +[0-9.]+) +", r"\1", golden(SMALL)), "no row of the table")


def test_numbers_of_ranks_modes_groups_and_threads_that_are_missing():
    several, modes = "imb-mpi1-2021.11-n4-npmin2.txt", "imb-rma-2021.11-n2-all.txt"
    four = r"#-+\n# Benchmarking Sendrecv \n# #processes = 4(?:.*\n)+?(?=#-+\n# Benchmarking)"
    refuse(sub(four, "", golden(several)), "Sendrecv", name=several)
    aggregate = r"#-+\n# Benchmarking Unidir_put \n# #proc.*\n(?:#.*\n)+?# +MODE: AGG(?:.*\n)+?(?=#-+\n# Benchmarking)"
    refuse(sub(aggregate, "", golden(modes)), "Unidir_put has the variants 'non-aggregate'", name=modes)
    groups = "imb-mpi1-2018.1-n4-multi1.txt"
    refuse(sub(r"^ +1 +4 +20 .*\n", "", golden(groups)), "lacks rows of some group", name=groups)
    threads = "imb-mt-2021.11-n2-threads2.txt"
    refuse(golden(threads).replace("(threads: 2)", "(threads: 3)"), "has the variants 'threads=3'", name=threads)


def test_two_runs_interleaved():
    one, two = golden(SMALL).splitlines(), golden("imb-mpi1-2021.11-n4-npmin4.txt").splitlines()
    refuse("\n".join(line for pair in zip(one, two, strict=False) for line in pair), "cut off or mixed up")


def test_lines_of_other_programs():
    text = golden(SMALL)
    for place in ("# Date", "# Benchmarking Exchange", "# #processes = 2", "       #bytes", "           16"):
        refuse(text.replace(place, "[0] MPI startup(): libfabric provider: tcp\n" + place, 1))
    assert reader.parse("srun: job 7 queued\n" + text) == reader.parse(text)


def test_wrong_data_is_refused():
    name = "imb-mpi1-2018.1-CHECK-n2.txt"
    refuse(sub(r"0\.00$", "1.00", golden(name)), "wrong data", name=name)
    failed = golden(name).replace("!!!!  ALL BENCHMARKS SUCCESSFUL !!!!", "!!!!  1  BENCHMARK FAILED     !!!!")
    refuse(failed, "wrong data", name=name)


def test_mt_says_no_end_but_its_tables_agree_on_their_sizes():
    text = golden("imb-mt-2021.11-n2.txt")
    cut = text.rstrip().rpartition("\n")[0] + "\n"
    for damaged, words in ((cut, "different sizes"), (text.rstrip("\n"), "cut off"), (text + text, "a second table starts")):
        with pytest.raises(OutputError, match=words):
            reader.parse(damaged)


def test_line_ends_of_windows_are_accepted():
    text = golden(SMALL)
    assert parse(text.replace("\n", "\r\n"), "x") == parse(text, "x")


def test_control_characters_are_shown_harmlessly():
    sentence = refuse(golden(SMALL).replace("# Benchmarking Exchange", "\x1b[31mred\x00\n# Benchmarking Exchange"))
    assert "\x1b" not in sentence and "\x00" not in sentence


def test_times_of_a_row_are_in_their_order() -> None:
    text = golden("imb-mpi1-2021.11-n2-all.txt")
    row = next(line for line in text.split("# Benchmarking Sendrecv")[1].splitlines() if line.split()[:1] == ["8"])
    least = row.split()[2]
    with refused_as("output-damaged", match="minimum, average and maximum in another order"):
        reader.parse(text.replace(row, row.replace(f" {least} ", f" 9{least} ", 1)))


def test_a_log_alone_shows_that_rows_of_a_group_are_missing() -> None:
    text = golden("imb-mpi1-2021.11-n4-multi1-pairs.txt")
    with refused_as("output-damaged", match="lacks rows of some group"):
        reader.parse(sub(r"^ +1 +524288 .*\n", "", text))
