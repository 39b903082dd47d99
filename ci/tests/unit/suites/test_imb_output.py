"""IMB outputs: what complete ones say, and that every incomplete one is refused with a sentence."""

from __future__ import annotations

import itertools
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
        assert [float(cell) for cell in cells[-len(record.values) :]] == list(
            record.values.values()
        )
        assert record.suite == "imb"
        assert record.repetitions and record.repetitions > 0


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
        head, *tables = re.split(
            r"(?m)^(?=#-+\n# Benchmarking )", golden(name).partition("\n# All processes")[0]
        )
        for benchmark, own in groupby(
            tables, lambda table: table.partition("# Benchmarking ")[2].split()[0]
        ):
            text = "".join(own)
            kept.setdefault(layout_of(text), (head, benchmark, text))
    for row in TABLES[binary]:
        head, other, table = kept[row["columns"], row.get("modes", "")]
        for name in row["benchmarks"].split():
            text = head + re.sub(rf"Benchmarking {other}\b", f"Benchmarking {name}", table)
            records = parse(
                text if binary == "IMB-MT" else f"{text}# All processes entering MPI_Finalize\n",
                "x",
            )
            assert {record.benchmark for record in records} == {name}
            [known] = [each for each in ROWS if (each.binary, each.name) == (binary, name)]
            assert {tuple(record.values) for record in records} == {known.quantities}


def test_every_benchmark_was_recorded():
    read = {
        (header_binary(name), record.benchmark)
        for name in GOOD
        for record in parse(golden(name), name)
    }
    read |= {
        (binary, name)
        for binary, rows in TABLES.items()
        for row in rows
        for name in row["benchmarks"].split()
    }
    assert read == {(row.binary, row.name) for row in ROWS}


def test_another_order_of_columns_moves_no_value():
    """The same table with its columns in another order gives the same records."""
    text = golden(SMALL)
    moved = re.sub(
        r"^( +#bytes #repetitions)( +t_min\[usec\])( +t_max\[usec\])( +t_avg\[usec\])("
        r" +Mbytes/sec)$"
        r"|^( +[0-9]+ +[0-9]+)( +[0-9.]+)( +[0-9.]+)( +[0-9.]+)( +[0-9.]+)$",
        lambda found: "".join(found.group(i) or "" for i in (1, 6, 5, 10, 4, 9, 3, 8, 2, 7)),
        text,
        flags=re.MULTILINE,
    )
    assert moved != text
    assert parse(moved, "moved") == parse(text, "text")


# Damage, case by case; test_parser_mutations.py does the same at random.


def test_the_memory_of_imb_mpi1_gpu_is_the_one_its_arguments_name() -> None:
    device = golden("imb-mpi1-2021.10-mpich_stand_in-n2-device.txt")
    managed = golden("imb-mpi1-2021.10-mpich_stand_in-n2-managed.txt")
    asked = "-mem_alloc_type shared"
    for text, variant in (
        (device, "memory=device"),
        (managed, "memory=managed"),
        (device.replace("2021.10,", "2021.2 Technical Preview,"), ""),
        (managed.replace(asked, "-mem_alloc_type cpu"), ""),
    ):
        first, *_, last = reader.parse(text)
        assert (first.benchmark, first.variant) == ("PingPong", variant)
        assert last.variant == ("" if last.benchmark == "Barrier" else variant)
    for text in (
        managed.replace(asked, "-mem_alloc_type bogus"),
        re.sub(r"# \./IMB-MPI1-GPU.*\n", "", device),
    ):
        with refused_as("output-trouble"):
            reader.parse(text)


@pytest.mark.parametrize("name", REFUSED)
def test_outputs_that_say_they_failed_are_refused(name):
    with refused_as("output-damaged", match=REFUSED[name]):
        reader.parse(golden(name))


def test_columns_are_mapped_by_name():
    """IMB prints minimum, maximum, average; a peer reads them as minimum, average, maximum."""
    text = golden(ALL)
    row = re.search(r"(?s)Benchmarking Sendrecv .*?\n +256 +20 +(.*?)\n", text)
    names = ("t_min_us", "t_max_us", "t_avg_us", "bandwidth_mb_per_s")
    (found,) = (
        record.values
        for record in parse(text, ALL)
        if (record.benchmark, record.message_bytes) == ("Sendrecv", 256)
    )
    assert found == dict(zip(names, map(float, row[1].split()), strict=True))


def told_apart(name: str, what: str) -> set[tuple]:
    """Of a recorded output each benchmark with something of its records."""
    return {(record.benchmark, getattr(record, what)) for record in parse(golden(name), name)}


@pytest.mark.parametrize(
    ("name", "what", "some", "other"),
    [
        ("mpi1-2021.11-n4-npmin2", "ranks", {("PingPong", 2), ("Sendrecv", 4)}, set()),
        ("mpi1-2021.11-n3-odd", "ranks", {("Uniband", 2), ("Sendrecv", 3)}, {("Uniband", 3)}),
        ("mpi1-2018.1-n4-multi1", "groups", {("PingPong", 2), ("Allreduce", 1)}, set()),
        ("mpi1-2018.1-n4-multi1", "variant", {("PingPong", f"group={n}") for n in (0, 1)}, set()),
        ("mpi1-2021.11-n4-multi0-pairs", "groups", {("PingPong", 2)}, {("PingPong", 1)}),
        ("mpi1-2021.11-n4-multi0-pairs", "variant", {("PingPong", "")}, set()),
        ("rma-2021.11-n2-all", "variant", {("Unidir_put", "aggregate")}, {("Unidir_put", "")}),
        ("mt-2021.11-n2-threads2", "variant", {("PingPongMT", "threads=2")}, {("PingPongMT", "")}),
        ("p2p-2021.11-n8", "variant", {("Stencil3D", "grid=2x2x2")}, {("Stencil3D", "")}),
        ("io-2021.11-n3", "ranks", {("S_Read_Indv", 1), ("P_Write_Priv", 3)}, set()),
        ("io-2021.11-n3", "variant", {("Open_Close", ""), ("C_Write_Expl", "aggregate")}, set()),
    ],
)
def test_ranks_groups_modes_threads_and_grids_are_told_apart(name, what, some, other):
    found = told_apart(f"imb-{name}.txt", what)
    assert some <= found and not other & found


# Damage, case by case; test_parser_mutations.py does the same at random.


def refuse(text: str, name: str = SMALL) -> str:
    """The sentence a text is refused with, where the tables of a recorded output were asked for."""
    assert text != golden(name)
    with pytest.raises(OutputError, match=f"^{name}") as error:
        read(name, text, reader.parse(golden(name)))
    return str(error.value)


def sub(pattern: str, new: str = "") -> str:
    """The small output with the first place that matches replaced."""
    return re.sub(pattern, new, TEXT, count=1, flags=re.MULTILINE)


TEXT = golden(SMALL)
ROW = "           16           20         1.95         8.21\n"
DAMAGE = {
    "empty": " \n\n",
    "the last benchmark is missing": sub(r"#-+\n# Benchmarking Reduce (?:.*\n)+(?=# All)"),
    "no end": TEXT[: TEXT.index("# All processes")],
    "two runs": TEXT * 2,
    "another run behind": TEXT + golden("imb-p2p-2021.11-n2.txt"),
    "no repetitions": sub(r"^( +16 +)20", r"\1 0"),
    "no row": sub(r"(^ +#bytes #repetitions +t\[usec\] .*\n)(?: +[0-9].*\n)+", r"\1"),
    "an unknown column": TEXT.replace("t_avg[usec]", "t_med[usec]", 1),
    "a column twice": TEXT.replace("t_avg[usec]", "t_max[usec]", 1),
    "columns of another benchmark": TEXT.replace("t[usec]", "t_max[usec]", 1),
    "columns run together": sub(r"^( +16 +20 +[0-9.]+) +", r"\1"),
    "an unknown benchmark": TEXT.replace("PingPong", "PingPang"),
    "a wrong name": f"Invalid benchmark name PingPang\n{TEXT}",
    "an unknown part": TEXT.replace("MPI-1 part", "RMA part (GPU)"),
    "another part": TEXT.replace("MPI-1 part", "MPI-2 part"),
    "other ranks": TEXT.replace("#processes = 2", "#processes = 4"),
    "times in another order": sub(r"(t_avg\[usec\].*\n +0 +20 +)(?=[0-9])", r"\g<1>9"),
    **{
        f"the value {cell}": sub(r"^( +16 +20 +)[0-9.]+", rf"\g<1>{cell}")
        for cell in ("nan", "-1.00", "1,20", "1_0.00", "\u0661.20", "1.20 1.20")
    },
}


def test_no_line_is_lost_repeated_or_put_between_in_silence():
    """Nor anything behind a line, nor a table: what is not refused is the same."""
    lines = TEXT.splitlines(keepends=True)
    tables = [at for at, line in enumerate(lines) if line.startswith("# Benchmarking")]
    asked = reader.parse(TEXT)
    whole = read(SMALL, TEXT, asked)
    damaged = [lines[:start] + lines[end:] for start, end in itertools.pairwise(tables)]
    damaged += [lines[:end] + lines[start:] for start, end in itertools.pairwise(tables)]
    for at, line in enumerate(lines):
        above, below = lines[:at], lines[at + 1 :]
        damaged += [above, below, above + below, [*above, line, line, *below]]
        damaged += [[*above, other, line, *below] for other in (ROW, "[0] MPI startup(): tcp\n")]
        damaged.append([*above, *below[:1], line, *below[1:]])
    refused = 0
    for each in damaged:
        try:
            assert read(SMALL, "".join(each), asked) == whole
        except OutputError:
            refused += 1
    assert refused > len(damaged) / 2


@pytest.mark.parametrize("text", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_output_is_refused(text):
    refuse(text)


@pytest.mark.parametrize(
    ("name", "pattern", "by"),
    [
        (
            "mpi1-2021.11-n4-npmin2",
            r"#-+\n# Benchmarking Sendrecv \n# #processes = 4(?:.*\n)+?(?=#-+\n# Benchmarking)",
            "",
        ),
        (
            "rma-2021.11-n2-all",
            r"#-+\n# Benchmarking Unidir_put \n# #proc.*\n(?:#.*\n)+?# +MODE: AGG(?:.*\n)+?"
            r"(?=#-+\n# Benchmarking)",
            "",
        ),
        ("mpi1-2018.1-n4-multi1", r"^ +1 +4 +20 .*\n", ""),
        ("mt-2021.11-n2-threads2", r"\(threads: 2\)", "(threads: 3)"),
        ("mpi1-2018.1-CHECK-n2", r"0\.00$", "1.00"),
        ("mpi1-2018.1-CHECK-n2", "ALL BENCHMARKS SUCCESSFUL ", "1  BENCHMARK FAILED     "),
    ],
)
def test_ranks_modes_groups_threads_and_right_data_are_missed(name, pattern, by):
    name = f"imb-{name}.txt"
    refuse(re.sub(pattern, by, golden(name), flags=re.MULTILINE), name)


def test_a_log_alone_shows_that_rows_of_a_group_are_missing() -> None:
    text = golden("imb-mpi1-2021.11-n4-multi1-pairs.txt")
    with refused_as("output-damaged", match="lacks rows of some group"):
        reader.parse(re.sub(r"\n +1 +524288 .*", "", text, count=1))


def test_two_runs_interleaved():
    other = golden("imb-mpi1-2021.11-n4-npmin4.txt").splitlines()
    pairs = zip(TEXT.splitlines(), other, strict=False)
    refuse("\n".join(line for pair in pairs for line in pair))


def test_mt_says_no_end_but_its_tables_agree_on_their_sizes():
    text = golden("imb-mt-2021.11-n2.txt")
    cut = text.rstrip().rpartition("\n")[0] + "\n"
    for damaged in (cut, text.rstrip("\n"), text + text):
        with pytest.raises(OutputError):
            reader.parse(damaged)


def test_line_ends_of_windows_and_lines_before_the_title_are_accepted():
    lines = "srun: job 7 queued\n" + TEXT
    assert parse(TEXT.replace("\n", "\r\n"), "x") == parse(TEXT, "x") == reader.parse(lines)


def test_control_characters_are_shown_harmlessly():
    red = "\x1b[31mred\x00\n# Benchmarking Exchange"
    assert not {"\x1b", "\x00"} & set(refuse(TEXT.replace("# Benchmarking Exchange", red)))
