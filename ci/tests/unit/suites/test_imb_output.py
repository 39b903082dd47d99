"""IMB outputs: what complete ones say, and that every incomplete one is refused with a sentence."""

import re

import pytest
import yaml

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.suites.imb import ROWS, parse
from studies.output_damage import GOLDEN, golden, read

REFUSED = {
    "imb-mpi1-2021.11-n2-time-out.txt": "ran out of time",
    "imb-mpi1-2021.11-n2-out-of-mem.txt": "lack of memory",
    "imb-mpi1-2021.11-n1-invalid.txt": "refused to run a benchmark",
    "imb-p2p-2021.11-n3-invalid.txt": "refused to run a benchmark",
}
GOOD = sorted(path.name for path in GOLDEN.glob("imb-*.txt") if path.name not in REFUSED)
#: Columns and modes of each benchmark's table.
TABLES = yaml.safe_load((GOLDEN / "imb-tables.yaml").read_text())
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


def test_every_benchmark_was_recorded():
    read = {
        (f"IMB-{name.split('-')[1].upper()}", record.benchmark)
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


# Damage, case by case; test_parser_mutations.py does the same at random and to each line.


def sub(pattern, new=""):
    """The small output with the first place that matches replaced."""
    return re.sub(pattern, new, TEXT, count=1, flags=re.MULTILINE)


TEXT = golden(SMALL)
DAMAGE = {
    "empty": " \n\n",
    "the last benchmark is missing": sub(r"#-+\n# Benchmarking Reduce (?:.*\n)+(?=# All)"),
    "no table": TEXT[: TEXT.index("# Benchmarking")] + TEXT[TEXT.index("# All processes") :],
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


@pytest.mark.parametrize("text", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_output_is_refused(text):
    """Where the tables of the recorded output were asked for."""
    assert text != TEXT
    with pytest.raises(OutputError, match=f"^{SMALL}"):
        read(SMALL, text, reader.parse(TEXT))
