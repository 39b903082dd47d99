"""Outputs of the OSU micro-benchmarks: values and units of complete
ones, refusal of the others.
"""

import re

import pytest
import yaml

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.suites.catalogue import Expected
from reframe_tests.harness.suites.osu import OVERLAP, ROWS
from refusals import refused_as
from studies.output_damage import GOLDEN, expectation, golden

#: Recorded outputs that must be refused.
REFUSED = (
    "osu-7.5-mpich-n2-latency_mt-two-senders.txt",
    "osu-7.5-mpich-n2-multi_lat-tail.txt",
    "osu-7.5-mpich-n2-latency-all-types.txt",
    "osu-7.5-mpich-n2-mbw_mr-varied.txt",
)
GOOD = sorted(path.name for path in GOLDEN.glob("osu/*.txt") if path.name not in REFUSED)
#: Benchmarks of 7.5 whose output is that of another but for its title.
TITLES = [
    f"osu_{name}"
    for titles in yaml.safe_load((GOLDEN / "osu" / "titles.yaml").read_text()).values()
    for name in titles
]


def osu(name):
    return golden(f"osu/osu-{name}.txt")


LATENCY = osu("7.5-mpich-n2-latency")
BANDWIDTH = osu("7.5-mpich-n2-bw")
RATE = osu("7.5-mpich-n4-mbw_mr")
PUT = osu("7.5-mpich-n2-put_bw")
REDUCTION = osu("7.5-mpich-n2-allreduce")
CHECKED = osu("7.5-mpich-n2-allreduce-validated")


def parse(text):
    return reader.parse(text, source="job.out")


def refuse(*texts, words=None):
    for text in texts:
        with pytest.raises(OutputError, match=words):
            parse(text)


def change(text, pattern, by):
    changed, count = re.subn(pattern, by, text, count=1, flags=re.MULTILINE)
    assert count == 1
    return changed


def as_started(name, text):
    """Records completed by what was started, which the name of the file says."""
    records = parse(text)
    ranks, binary = re.search(r"-n([0-9]+)-([a-z_]+)", name).groups()
    (expected,) = expectation(records)
    # the other ranks are idle
    active = records[0].ranks or int(ranks) if name.endswith("-pairs.txt") else int(ranks)
    return reader.complete(records, [expected._replace(benchmark=f"osu_{binary}", ranks=active)])


@pytest.mark.parametrize("name", GOOD)
def test_recorded_outputs_of_every_version(name):
    """The binary is part of the file's name; values are all those printed, in printed order."""
    text = golden(f"osu/{name}")
    records = as_started(name, text)
    binary = "osu_" + re.search(r"-n[0-9]+-([a-z_]+)", name)[1]
    (quantities,) = (row.quantities for row in ROWS if row.name == binary)
    for record in records:
        own = tuple(name for name in record.values if not re.search(r"_p[0-9]{2}_", name))
        full = quantities == OVERLAP and set(quantities) < set(own)
        assert own == quantities[: len(own)] or full
        assert (record.suite, record.benchmark) == ("osu", binary)
    if binary in ("osu_init", "osu_hello"):
        return
    printed = [line for line in text.splitlines() if re.match(r"[0-9]| +[0-9]+\.", line)]
    shown = [re.findall(r"[0-9]+\.[0-9]{2}", line) for line in printed]
    # there these two columns are no minimum and maximum
    if "Min Comm.(us)" in text and name < "osu-7.1":
        assert not {"t_min_us", "t_max_us"} & set(records[0].values)
        shown = [[*cells[:6], cells[8]] for cells in shown]
    assert [[f"{value:.2f}" for value in record.values.values()] for record in records] == shown


def test_every_benchmark_has_a_recorded_output():
    """By an output of the newest release or by its title."""
    newest = {
        record.benchmark
        for name in GOOD
        if name.startswith("osu-7.5-")
        for record in as_started(name, golden(f"osu/{name}"))
    }
    assert newest | {*TITLES} == {row.name for row in ROWS}


def test_barriers_of_7_1_print_no_head():
    """Their columns are told by their number and by where they end
    (``print_stats`` and ``print_stats_nbc`` of 7.1).
    """
    title = "\n# OSU MPI Non-blocking Barrier Latency Test v7.1\n"
    title += "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n"
    full = [7498.54, 4187.25, 3.24, 0.0, 3307.91, 3886.68, 2.9, 9812.1, 14.8]
    for values, last in ((full, ["t_min_us", "t_max_us", "overlap_percent"]), (full[:4], OVERLAP)):
        (record,) = parse(title + "".join(f"{value:18.2f}" for value in values) + "\n")
        assert (record.benchmark, [*record.values.values()]) == ("osu_ibarrier", values)
        assert [*record.values][-len(last) :] == [*last]
    bare = osu("7.1-mpich-n2-barrier")
    row = bare.splitlines()[-1]
    refuse(*(bare.replace(row, odd) for odd in (f" {row}", row[1:], row[:-13])))
    refuse(bare.replace("v7.1", "v7.2"))


# What is in the records.


def test_a_head_that_says_latency_above_a_bandwidth():
    """Fan-in and fan-out of 7.5 name their column wrongly; who
    started which is known only to the launch.
    """
    text = osu("7.5-mpich-n2-bw_fan_in")
    assert "Avg Latency(us)" in text
    for way in ("in", "out"):
        records = as_started(f"osu-7.5-mpich-n2-bw_fan_{way}.txt", text)
        assert {(r.benchmark, *r.values) for r in records} == {
            (f"osu_bw_fan_{way}", "bandwidth_mb_per_s")
        }
    # The title alone is that of osu_bw, whose head is another.
    assert {r.benchmark for r in parse(BANDWIDTH)} == {"osu_bw"}


# Damage; test_parser_mutations.py does more of it at random.

CELL = r"^(64 .*).{6}$"
DAMAGED = {
    "a last row that is cut": LATENCY[:-3],
    "no rows": "".join(LATENCY.splitlines(keepends=True)[:4]),
    "wrong data": change(CHECKED, r"^(16 .*)Pass$", r"\1Fail"),
    "wrong data said below": CHECKED
    + "DATA VALIDATION ERROR: osu_allreduce exited with status 1 on message size 64.\n",
    "nan": change(LATENCY, CELL, r"\g<1>   nan"),
    "negative": change(LATENCY, CELL, r"\g<1> -1.00"),
    "three decimals": change(LATENCY, CELL, r"\g<1> 1.234"),
    # A digit lost or gained moves a cell: the number would be wrong by a factor of ten.
    "a digit lost": change(LATENCY, r"^(64 .*)[0-9](\.[0-9]{2})$", r"\1\2"),
    "a blank more": change(BANDWIDTH, r"^(64 .*\.[0-9]{2})$", r" \1"),
    "another column": change(LATENCY, r"Avg Latency\(us\)$", "Bandwidth (MB/s)"),
    "a column is missing": change(REDUCTION, r" +Iterations$", ""),
    "a column twice": change(REDUCTION, "Min Latency", "Max Latency"),
    # as wide as before
    "a mean above the maximum": re.sub(
        r"(?m)^(32 +)([0-9]+)(?=\.)", lambda found: found[1] + "9" * len(found[2]), REDUCTION
    ),
    "more iterations": change(REDUCTION, r"^(64 .*)20$", r"\g<1>30"),
    "two outputs": LATENCY + BANDWIDTH,
    "two outputs, one of pairs": RATE + LATENCY,
    "no window": change(PUT, r"^# Window creation.*\n", ""),
    "no pairs": change(RATE, r"^# \[ pairs.*\n", ""),
    "an unknown synchronisation": change(PUT, "MPI_Win_flush", "MPI_Win_flash"),
    "a warning": change(LATENCY, "^(64 )", r"[1] n1:1 :0 parser.c:2 UCX WARN unused\n\1"),
    **{
        title: change(LATENCY, r"OSU MPI Latency Test v7\.5", title)
        for title in (
            "OSU MPI Latency Test v5.3.2",
            "OSU MPI Latency Test v8.0",
            "OSU MPI Latency Test",
            "OSU MPI Lateness Test v7.5",
        )
    },
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_is_refused(text):
    refuse(text, words="^job.out")


# Memory of GPUs.

#: Does not say of which buffers.
DEVICE = osu("7.5-mpich_stand_in-n2-latency-device")
DEVICE_5_9 = osu("5.9-mpich_stand_in-n2-latency-device")


MEMORIES = ("memory=device", "memory=host_to_device", "memory=managed")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (LATENCY, {""}),
        (DEVICE, {*MEMORIES}),  # 7.5 does not say which
        (DEVICE_5_9, {MEMORIES[0]}),
    ],
)
def test_memory_of_the_host_never_passes_for_that_of_gpus_nor_the_other_way_round(text, right):
    records = parse(text)
    for memory in ("", *MEMORIES[:2]):
        sizes = tuple(record.message_bytes for record in records)
        asked = [Expected("osu_latency", 2, sizes, (memory,))]
        if memory in right:
            assert {record.variant for record in reader.complete(records, asked)} == {memory}
        else:
            with refused_as("output-damaged", match="has the variants"):
                reader.complete(records, asked)


def test_a_table_that_may_be_cut_at_the_end_of_a_row_says_so():
    """Nothing ends a table: what tells one that was cut from one that was
    asked to end there is its command line alone.
    """
    said = "the table ends with 4 bytes, and osu_allreduce by default continues to 1048576"
    cut = "# OSU MPI Allreduce Latency Test v5.8\n# Size       Avg Latency(us)\n"
    cut += f"4{257460.91:>27.2f}\n"
    rows = "".join(f"{1 << power:<10}{257460.91 + power:>18.2f}\n" for power in range(3, 21))
    command = "time mpirun -np 64 /opt/collective/osu_allreduce"
    for text, noted in (
        (f"{command}\n{cut}", True),
        (f"{command} -m 4:1048576\n{cut}", True),
        (f"{command} -f -m 4:4\n{cut}", False),
        (f"{command}\n{cut}{rows}", False),
    ):
        (output,) = reader.read_log(text)
        assert [said in note for note in output.notes] == [True] * noted, text
