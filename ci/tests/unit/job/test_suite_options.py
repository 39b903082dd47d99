"""Options of the suites: what they make of launches, that outputs
are held against them, and what is refused.
"""

import re
from collections import defaultdict
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from reframe_tests.harness.suites import catalogue, options, reader
from reframe_tests.harness.vocabulary import BadInput, NotMeasured
from refusals import refused_as
from studies.output_damage import GOLDEN, golden
from synthetic_stack import launches, stack_of

OSU = "osu/osu-7.5-mpich-n2-{}.txt"
IMB = "imb-mpi1-2021.11-{}.txt"


def launch_of(group, chosen, binary="", ranks=2, **more):
    """The first launch of a binary under options."""
    under = options.of_group(catalogue.OPTIONS, group, chosen)
    return next(
        each for each in launches(group, ranks, chosen=under, **more) if binary in ("", each.binary)
    )


def as_asked(launch, name):
    """Records of a recorded output, judged as that of a launch; those of
    7.5 were recorded without ``-T mpi_float``.
    """
    text = golden(name).replace("# Datatype: MPI_INT.", "# Datatype: MPI_FLOAT.")
    reader.check_arguments(text, launch, source=name)
    return reader.complete(reader.parse(text, source=name), launch.expected, source=name)


def one_size(launch, *sizes):
    """The launch as if it measured these sizes only, as many repetitions as were recorded."""
    return replace(
        launch,
        expected=tuple(item._replace(sizes=sizes, repetitions=None) for item in launch.expected),
    )


def test_a_program_that_validates_another_buffer_than_it_fills_is_run_without_validation():
    assert (
        "-c"
        not in launch_of("persistent_osu", {"validation": "on"}, "osu_allreduce_persistent").args
    )
    assert "-c" in launch_of("persistent_osu", {"validation": "on"}, "osu_reduce_persistent").args


def test_validation_must_be_printed_and_is_another_variant():
    launch = launch_of("p2p_osu", {"validation": "on"}, "osu_bw")
    sizes = [record.message_bytes for record in reader.parse(golden(OSU.format("bw")))]
    with refused_as("output-damaged", match="does not report whether its data was right"):
        as_asked(one_size(launch, *sizes), OSU.format("bw"))


# IMB.


def test_imb_shows_its_arguments_and_they_must_be_those_asked_for():
    cold = launch_of("p2p", {"off_cache": "8"}, level="smoke")
    assert {record.variant for record in as_asked(cold, IMB.format("n2-off-cache"))} == {
        "off_cache=8"
    }
    with refused_as("output-mixed", match="IMB-MPI1 says it was started with '8' instead of '16'"):
        as_asked(launch_of("p2p", {"off_cache": "16"}, level="smoke"), IMB.format("n2-off-cache"))
    with refused_as("output-mixed", match="started with '-off_cache' instead of 'PingPong'"):
        as_asked(launch_of("p2p", {}, level="smoke"), IMB.format("n2-off-cache"))


@pytest.mark.parametrize(
    "name",
    ["imb-io-2021.11-n2-parallel.txt", "imb-mpi1-2018.1-n2.txt", "imb-rma-2021.11-n2-all.txt"],
)
def test_a_calling_sequence_is_read_whole_and_cut_at_commas_as_some_print_it(name):
    (line,) = (
        line for line in (GOLDEN / "README.md").read_text().split("\n") if f"`{name}`" in line
    )
    asked = tuple(re.search(r"`mpirun -n [0-9]+ \S+ ([^`]*)`", line)[1].split())
    launch = replace(launches("p2p")[0], args=asked)
    reader.check_arguments(golden(name), launch)
    for unlike in (asked[:-1], (*asked, "Bcast"), (*asked[:-1], "Bcast")):
        with refused_as("output-mixed", match="says it was started with"):
            reader.check_arguments(golden(name), replace(launch, args=unlike))


def test_imb_mt_shows_no_arguments():
    reader.check_arguments(golden("imb-mt-2021.11-n2.txt"), launches("threads")[0])


def test_pairs_side_by_side():
    together = launch_of("p2p", {"multi": "0"}, ranks=4, level="smoke")
    records = as_asked(together, IMB.format("n4-multi0-pairs"))
    assert {record.variant for record in records} == {"multi=0"}
    assert {(record.ranks, record.groups) for record in records} == {(2, 2)}
    assert set(records[0].values) == {"t_min_us", "t_max_us", "t_avg_us", "bandwidth_mb_per_s"}
    each = launch_of("p2p", {"multi": "1"}, ranks=4, level="smoke")
    assert {record.variant for record in as_asked(each, IMB.format("n4-multi1-pairs"))} == {
        "group=0,multi=1",
        "group=1,multi=1",
    }
    assert not any(metric.directions for metric in catalogue.metrics([together, each])), (
        "a pair of several is no whole link"
    )
    with pytest.raises(NotMeasured, match="needs at least 4 ranks"):
        launch_of("p2p", {"multi": "0"}, ranks=2)


@pytest.mark.parametrize(
    "group, name, value", [("threads", "off_cache", "-1"), ("p2p_pairs", "off_cache", "2")]
)
def test_what_the_program_of_a_group_does_not_take_is_not_measured(group, name, value):
    with pytest.raises(NotMeasured, match=f"^{name} is not an option of group {group}, but of "):
        options.of_group(catalogue.OPTIONS, group, {name: value})


@pytest.mark.parametrize("value", ["on; rm -rf x", "$(id)", "--", "/etc/passwd"])
def test_a_value_is_one_word_that_no_shell_reads(value):
    with refused_as("bad-option", match="is not a value of msg_pause"):
        options.check(catalogue.OPTIONS, {"msg_pause": value})


def test_a_window_of_messages_is_what_must_be_sent():
    launch = launch_of(
        "one_sided_osu", {"window_size": "16", "window": "allocate", "sync": "lock"}, "osu_put_bw"
    )
    assert launch.args[-6:] == ("-w", "allocate", "-s", "lock", "-W", "16")
    assert launch.rows()[0].traffic(8, 2) == 16 * 8
    assert launch_of("one_sided_osu", {"window_size": "16"}, "osu_put_latency").options == {}


# What is refused.


@pytest.mark.parametrize(
    "asked, said",
    [
        (
            {"windows": "create"},
            r"^suite_options: there is no option 'windows'; there are .*, window, sync, .*\.$",
        ),
        ({"window": "shared"}, r"'shared' is not a value of window; give create, allocate, dyn"),
    ],
)
def test_what_is_no_option_or_no_value_is_refused_in_one_sentence(asked, said):
    with pytest.raises(BadInput, match=said):
        options.check(catalogue.OPTIONS, asked)


def test_a_version_that_lacks_the_option_is_not_measured():
    with pytest.raises(
        NotMeasured, match=r"^validation is an option of osu since 7\.0; this stack has 5\.9$"
    ):
        launch_of("p2p_osu", {"validation": "on"}, stack=stack_of(osu="5.9"))


def test_a_value_that_no_program_of_the_group_knows_is_not_measured():
    with pytest.raises(NotMeasured):
        launch_of("atomics_osu", {"sync": "lock"}, stack=stack_of(binaries=("osu_put_bibw",)))


#: Values of options that list none; of the others that list none "8".
SHAPED = {
    "off_cache": ("32",),
    "hpcc_mib_per_rank": ("1", "3000"),
    "bursts": ("10ms_on_90ms_off",),
    "seed": ("7",),
}


@pytest.mark.parametrize("option", catalogue.OPTIONS.values(), ids=lambda option: option.name)
def test_every_option_changes_what_is_started_and_is_kept_apart(option):
    """A default changes nothing; any other value is in the arguments or in a file, and in the
    metrics. The messages of HPCC's rings are always the same.
    """
    values = {*(option.values or SHAPED.get(option.name, ("on", "8")))} - {option.default}
    for group in option.groups:
        ranks = 2 if any(row.ranks == "only_pair" for row in catalogue.rows(group)) else 8
        plain = launches(group, ranks)
        may = defaultdict(list)  # metrics that references may name, by their first word
        for pattern in catalogue.planned_metrics(group):
            may[pattern.partition(".")[0]].append(pattern)
        if option.default:
            assert options.of_group(catalogue.OPTIONS, group, {option.name: option.default}) == {}
        for value in values:
            chosen = options.of_group(catalogue.OPTIONS, group, {option.name: value})
            changed = 0
            for before, after in zip(plain, launches(group, ranks, chosen=chosen), strict=True):
                if not after.options:
                    assert before == after
                    continue
                changed += 1
                assert (before.args, before.files) != (after.args, after.files)
                was, now = (
                    {metric.name for metric in catalogue.metrics([each])}
                    for each in (before, after)
                )
                assert all("OrderedRing" in name for name in was & now), (group, value)
                for name in {re.sub(r"\.[0-9]{10}$", "", name) for name in now}:
                    assert any(
                        fnmatchcase(name, pattern) for pattern in may[name.partition(".")[0]]
                    ), "may have references"
            assert changed, (group, value)
