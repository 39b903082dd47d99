"""Options of the suites: what they make of launches, that outputs
are held against them, and what is refused.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from catalogue_launches import launches, stack_of
from reframe_tests.harness.suites import catalogue, options, reader
from reframe_tests.harness.vocabulary import BadInput, NotMeasured
from refusals import refused_as
from studies.output_damage import golden

OSU = "osu/osu-7.5-mpich-n2-{}.txt"
PAIRS_OF_70 = "osu/osu-7.0-openmpi-n4-mbw_mr-pairs.txt"
PAIRS_OF_75 = "osu/osu-7.5-openmpi-n4-mbw_mr-pairs-ignored.txt"
IMB = "imb-mpi1-2021.11-{}.txt"


def launch_of(
    group: str, chosen: dict[str, str], binary: str = "", ranks: int = 2, **more
) -> catalogue.Launch:
    """The first launch of a binary under options."""
    under = options.of_group(catalogue.OPTIONS, group, chosen)
    return next(
        each for each in launches(group, ranks, chosen=under, **more) if binary in ("", each.binary)
    )


def as_asked(launch: catalogue.Launch, name: str, *, benchmarks: slice = slice(None)) -> list:
    """Records of a recorded output, judged as that of a launch; those of
    7.5 were recorded without ``-T mpi_float``.
    """
    text = golden(name).replace("# Datatype: MPI_INT.", "# Datatype: MPI_FLOAT.")
    reader.check_arguments(text, launch, source=name)
    return reader.complete(
        reader.parse(text, source=name), launch.expected[benchmarks], source=name
    )


def one_size(launch: catalogue.Launch, *sizes: int) -> catalogue.Launch:
    """The launch as if it measured these sizes only, as many repetitions as were recorded."""
    return replace(
        launch,
        expected=tuple(item._replace(sizes=sizes, repetitions=None) for item in launch.expected),
    )


# OSU: windows and synchronisation.


def test_the_published_put_bw_can_be_asked_for_by_name():
    """OpenHPC white paper: MPI_Win_allocate and MPI_Win_flush."""
    launch = launch_of("one_sided_osu", {"window": "allocate", "sync": "flush"}, "osu_put_bw")
    assert launch.args[-4:] == ("-w", "allocate", "-s", "flush")
    assert launch.options == {"window": "allocate"}, "flush is what it is without the option"
    records = as_asked(launch, OSU.format("put_bw-allocate-flush"))
    assert {record.variant for record in records} == {"allocate,flush"}


@pytest.mark.parametrize(
    "binary, asked, name",
    [
        ("osu_put_bw", {"window": "allocate"}, "put_bw-create-flush"),
        ("osu_put_bw", {}, "put_bw-allocate-flush"),
        ("osu_get_latency", {"window": "dynamic"}, "get_latency-dynamic-lock"),
    ],
)
def test_an_output_of_another_window_or_synchronisation_is_refused(
    binary: str, asked: dict[str, str], name: str
):
    launch = launch_of("one_sided_osu", asked, binary)
    sizes = [record.message_bytes for record in reader.parse(golden(OSU.format(name)))]
    with refused_as("output-damaged", match="has the variants"):
        as_asked(one_size(launch, *sizes), OSU.format(name))


def test_puts_both_ways_keep_their_fence_where_the_target_would_be_passive():
    def both_ways(**asked: str) -> catalogue.Launch:
        return launch_of("atomics_osu", asked, "osu_put_bibw")

    assert both_ways(sync="lock").args[-4:] == ("-w", "create", "-s", "fence")
    assert both_ways(sync="lock", window="allocate").args[-4:] == ("-w", "allocate", "-s", "fence")
    launch = one_size(both_ways(sync="pscw", window="allocate"), 8)
    assert as_asked(launch, OSU.format("put_bibw-allocate-pscw"))[0].variant == "allocate,pscw"


# OSU: columns.


def test_percentiles_are_metrics_and_must_be_printed():
    launch = launch_of("p2p_osu", {"percentiles": "on", "validation": "on"}, "osu_bw")
    assert {"-z50,90,99", "-c"} <= {*launch.args}
    (record,) = as_asked(one_size(launch, 8), OSU.format("bw-validated-tail"))
    assert record.variant == "validation=on"
    kinds = {"bandwidth_mb_per_s", *(f"bandwidth_p{percent}_mb_per_s" for percent in (50, 90, 99))}
    assert set(record.values) == kinds
    latency = launch_of("p2p_osu", {"percentiles": "on"}, "osu_latency")
    with refused_as(
        "output-damaged", match="osu_latency has no column of latency_p50_us, which was asked for"
    ):
        as_asked(one_size(latency, *[1 << log for log in range(9)]), OSU.format("latency"))


def test_a_program_that_validates_another_buffer_than_it_fills_is_run_without_validation() -> None:
    assert (
        "-c"
        not in launch_of("persistent_osu", {"validation": "on"}, "osu_allreduce_persistent").args
    )
    assert "-c" in launch_of("persistent_osu", {"validation": "on"}, "osu_reduce_persistent").args


def test_validation_must_be_printed_and_is_another_variant():
    launch = launch_of("p2p_osu", {"validation": "on"}, "osu_bw")
    sizes = [record.message_bytes for record in reader.parse(golden(OSU.format("bw")))]
    with refused_as("output-damaged", match="does not say whether its data was right"):
        as_asked(one_size(launch, *sizes), OSU.format("bw"))


def test_all_columns_of_a_nonblocking_collective():
    launch = launch_of("nonblocking_osu", {"full": "on", "percentiles": "on"}, "osu_iallreduce")
    (first, *_) = as_asked(one_size(launch, 4, 8, 16), OSU.format("iallreduce-full-tail"))
    assert set(launch.expected[0].quantities) == set(first.values)
    assert {"t_init_us", "t_min_us", "t_max_us", "latency_p99_us"} <= set(first.values)
    with refused_as("output-damaged", match="no column of"):
        as_asked(one_size(launch, 4, 8, 16, 32, 64, 128, 256), OSU.format("iallreduce-short"))


# IMB.


def test_imb_shows_its_arguments_and_they_must_be_those_asked_for():
    cold = launch_of("p2p", {"off_cache": "8"}, level="smoke")
    assert {record.variant for record in as_asked(cold, IMB.format("n2-off-cache"))} == {
        "off_cache=8"
    }
    with refused_as(
        "output-mixed", match="IMB-MPI1 says it was started with '8' where '16' was asked for"
    ):
        as_asked(launch_of("p2p", {"off_cache": "16"}, level="smoke"), IMB.format("n2-off-cache"))
    with refused_as(
        "output-mixed", match="started with '-off_cache' where 'PingPong' was asked for"
    ):
        as_asked(launch_of("p2p", {}, level="smoke"), IMB.format("n2-off-cache"))


@pytest.mark.parametrize(
    "name",
    ["imb-io-2021.11-n2-parallel.txt", "imb-mpi1-2018.1-n2.txt", "imb-rma-2021.11-n2-all.txt"],
)
def test_a_calling_sequence_is_read_whole_and_cut_at_commas_as_some_print_it(name: str):
    (line,) = (line for line in golden_readme().read_text().split("\n") if f"`{name}`" in line)
    asked = tuple(re.search(r"`mpirun -n [0-9]+ \S+ ([^`]*)`", line)[1].split())
    launch = replace(launches("p2p")[0], args=asked)
    reader.check_arguments(golden(name), launch)
    for unlike in (asked[:-1], (*asked, "Bcast"), (*asked[:-1], "Bcast")):
        with refused_as("output-mixed", match="says it was started with"):
            reader.check_arguments(golden(name), replace(launch, args=unlike))


def test_imb_mt_shows_no_arguments():
    reader.check_arguments(golden("imb-mt-2021.11-n2.txt"), launches("threads")[0])


def golden_readme() -> Path:
    return Path(__file__).parents[2] / "data" / "golden" / "README.md"


def test_a_map_of_ranks():
    launch = launch_of("p2p", {"map": "2x2"}, ranks=4, level="smoke")
    assert launch.args[launch.args.index("-map") + 1] == "2x2" and {
        row.variant for row in launch.expected
    } == {"map=2x2"}
    default = launches("p2p", 4, level="smoke", nodes=2)[0]
    assert (
        default.args.count("-map")
        == launch_of("p2p", {"map": "4x1"}, ranks=4, nodes=2).args.count("-map")
        == 1
    )
    with pytest.raises(NotMeasured, match="map=2x3 lays out 6 ranks; there are 4"):
        launch_of("p2p", {"map": "2x3"}, ranks=4)


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


def test_lengths_of_a_file(tmp_path: Path):
    file = tmp_path / "lengths.txt"
    file.write_text("0\n7\n1000\n4096\n")
    launch = launch_of("collectives", {"lengths": str(file)})
    assert ("-msglen", str(file)) == launch.args[launch.args.index("-msglen") :][:2]
    sizes = {item.benchmark: item.sizes for item in launch.expected}
    assert sizes["Bcast"] == (0, 7, 1000, 4096)
    assert sizes["Allreduce"] == (0, 8, 1000, 4096), "whole elements"
    assert sizes["Barrier"] == (None,)
    assert options.describe(catalogue.OPTIONS, {"lengths": str(file)}) == "lengths=0+7+1000+4096"
    file.write_text("8388608\n")
    with pytest.raises(
        NotMeasured, match="lengths asks for 8388608 bytes; Bcast is measured up to 4194304 here"
    ):
        launch_of("collectives", {"lengths": str(file)})
    file.write_text("5\n6\n")
    with pytest.raises(NotMeasured, match="are one size of Reduce"):
        launch_of("collectives", {"lengths": str(file)})


def test_imb_prints_a_table_for_each_number_of_ranks():
    """What was measured on a part of the ranks is named, and counts on
    the fabric only where they fill two nodes.
    """
    launch = launch_of("transfer", {"npmin": "2"}, ranks=6, nodes=3)
    assert launch.args[:2] == ("-npmin", "2")
    ring = launch_of("transfer", {"npmin": "2"}, ranks=8, nodes=4).rows()[0]
    pairs = launch.rows()[0]
    assert pairs.variants == ("ranks=2", "ranks=4", "ranks=6")
    assert [launch.expected[0].active(name) for name in pairs.variants] == [2, 4, 6]
    sent = [ring.traffic_between(1024, ranks, 4, 8) for ranks in (2, 3, 4, 8)]
    assert sent == [0, 0, ring.traffic_between(1024, 4, 2), ring.traffic_between(1024, 8, 4)]
    assert not any(metric.directions for metric in catalogue.metrics([launch]))
    with pytest.raises(
        NotMeasured, match=r"^npmin=4 leaves Sendrecv one number of ranks, all 4; ask for fewer$"
    ):
        launch_of("transfer", {"npmin": "4"}, ranks=4)


@pytest.mark.parametrize(
    "group, name, value",
    [("threads", "off_cache", "-1"), ("p2p_pairs", "npmin", "2")],
)
def test_what_the_program_of_a_group_does_not_take_is_not_measured(
    group: str, name: str, value: str
):
    with pytest.raises(NotMeasured, match=f"^{name} is no option of group {group}, but of "):
        options.of_group(catalogue.OPTIONS, group, {name: value})


@pytest.mark.parametrize(
    "value",
    ["on; rm -rf x", "$(id)", "a b", "--", "/etc/passwd"],
)
def test_a_value_is_one_word_that_no_shell_reads(value: str):
    with refused_as("bad-option", match="is not a value of msg_pause"):
        options.check(catalogue.OPTIONS, {"msg_pause": value})


def test_a_window_of_messages_is_what_must_be_sent():
    launch = launch_of(
        "one_sided_osu", {"window_size": "16", "window": "allocate", "sync": "lock"}, "osu_put_bw"
    )
    assert launch.args[-6:] == ("-w", "allocate", "-s", "lock", "-W", "16")
    assert launch.rows()[0].traffic(8, 2) == 16 * 8
    assert launch_of("one_sided_osu", {"window_size": "16"}, "osu_put_latency").options == {}
    (bands,) = (
        each for each in launches("transfer", 2, chosen={"imb_window": "16"}) if each.options
    )
    assert [row.traffic(8, 2) for row in bands.rows()] == [16 * 8, 2 * 16 * 8]
    assert bands.args.count("-window_size") == 1 and bands.args[-4:-2] == ("-window_size", "16")


def test_pairs_fewer_than_half_of_the_ranks():
    """osu_mbw_mr of 7.5 says '[ pairs: 2 ]' to -p 1 on four ranks."""
    old = stack_of(osu="7.0")
    launch = launch_of("transfer_osu", {"pairs": "1"}, "osu_mbw_mr", ranks=4, stack=old)
    assert launch.args[-2:] == ("-p", "1")
    assert launch.expected[0].ranks == 2
    assert {record.ranks for record in as_asked(one_size(launch, 8, 16, 32), PAIRS_OF_70)} == {2}
    with refused_as("output-damaged", match="ran on 4 ranks, asked for were 2"):
        as_asked(one_size(launch, 8, 16), PAIRS_OF_75)
    with pytest.raises(
        NotMeasured, match=r"^pairs is not heeded by osu from 7\.1 on; this stack has 7\.5$"
    ):
        launch_of("transfer_osu", {"pairs": "1"}, "osu_mbw_mr", ranks=4)
    with pytest.raises(NotMeasured, match=r"^1 pairs stay on one node; ask for 2 or more$"):
        launch_of("transfer_osu", {"pairs": "1"}, "osu_mbw_mr", ranks=4, nodes=2, stack=old)
    with pytest.raises(NotMeasured, match="takes 4 ranks of 4"):
        launch_of("transfer_osu", {"pairs": "2"}, "osu_mbw_mr", ranks=4, stack=old)


@pytest.mark.parametrize(
    "group, asked, name",
    [
        ("transfer", {"npmin": "2"}, "mpi1-2021.11-n4-npmin2-rings"),
        ("file_io", {"npmin": "2"}, "io-2021.11-n4-npmin2"),
    ],
)
def test_what_a_launch_under_options_printed_is_what_it_asks_for(
    group: str, asked: dict[str, str], name: str
):
    """Recorded from these very launches: the arguments are those shown, and
    tables, ranks, modes and sizes are complete.
    """
    under = options.of_group(catalogue.OPTIONS, group, asked)
    said = catalogue.SUITES["imb"].shown_arguments(golden(f"imb-{name}.txt"))
    (launch,) = (
        each
        for each in launches(group, 4, level="smoke", chosen=under)
        if said and each.args[-1] == said[-1]
    )
    records = as_asked(launch, f"imb-{name}.txt")
    by_ranks = any("ranks=" in record.variant for record in records)
    assert {record.ranks for record in records} == (
        {2, 4} if by_ranks else {launch.expected[0].ranks}
    )
    (without,) = (each for each in launches(group, 4, level="smoke") if each.name == launch.name)
    with refused_as("output-mixed"):
        as_asked(without, f"imb-{name}.txt")


# What is refused.


@pytest.mark.parametrize(
    "asked, said",
    [
        (
            {"windows": "create"},
            r"^suite_options: there is no option 'windows'; there are .*, window, sync, .*\.$",
        ),
        (
            {"window": "shared"},
            r"^suite_options: 'shared' is not a value of window; there are create, allocate,"
            r" dynamic\.$",
        ),
        ({"map": "2x"}, r"'2x' is not a value of map"),
        (
            {"lengths": "/nowhere/lengths.txt"},
            r"the file of lengths /nowhere/lengths.txt cannot be read \(No such file",
        ),
        (
            {"lengths": "/a b"},
            r"'/a b' is not a value of lengths; there are the absolute path, without a blank",
        ),
    ],
)
def test_what_is_no_option_or_no_value_is_refused_in_one_sentence(asked: dict[str, str], said: str):
    with pytest.raises(BadInput, match=said):
        options.check(catalogue.OPTIONS, asked)


@pytest.mark.parametrize(
    "text, said",
    [("", "no length"), ("8\n8\n", "a length twice"), ("8\n1k\n", "line 2: '1k' is not")],
)
def test_a_file_of_lengths_that_says_nothing_is_refused(text: str, said: str, tmp_path: Path):
    (tmp_path / "lengths").write_text(text)
    with refused_as("bad-option", match=said):
        options.check(catalogue.OPTIONS, {"lengths": str(tmp_path / "lengths")})


def test_a_version_that_lacks_the_option_is_not_measured():
    with pytest.raises(
        NotMeasured, match=r"^percentiles is an option of osu from 7\.4 on; this stack has 7\.3$"
    ):
        launch_of("p2p_osu", {"percentiles": "on"}, stack=stack_of(osu="7.3"))


def test_a_value_that_no_program_of_the_group_knows_is_not_measured():
    with pytest.raises(NotMeasured):
        launch_of("atomics_osu", {"sync": "lock"}, stack=stack_of(binaries=("osu_put_bibw",)))


@pytest.mark.parametrize("option", catalogue.OPTIONS.values(), ids=lambda option: option.name)
def test_every_option_changes_what_is_started_and_is_kept_apart(
    option: options.SuiteOption, tmp_path: Path
):
    """A default changes nothing; any other value is in the arguments or in a file, and in the
    metrics unless it is measured alike. The messages of HPCC's rings are always the same.
    """
    (tmp_path / "lengths").write_text("262144\n1048576\n")
    shaped = {
        "off_cache": ("-1", "32"),
        "map": ("2x4", "8x1"),
        "lengths": (str(tmp_path / "lengths"),),
    }
    shaped |= {
        "hpcc_mib_per_rank": ("1", "3000"),
        "npmin": ("1", "2", "6"),
        "imb_window": ("1", "100"),
        "pairs": ("1", "3"),
    }
    handed_on = ("on", "8")
    stack = stack_of(osu="7.0") if option.name == "pairs" else stack_of()
    for group in option.groups:
        ranks = 2 if any(row.ranks == "only_pair" for row in catalogue.rows(group)) else 8
        plain = launches(group, ranks, stack=stack)
        planned = catalogue.planned_metrics(group)
        if option.default:
            assert options.of_group(catalogue.OPTIONS, group, {option.name: option.default}) == {}
        for value in (
            each
            for each in option.values or shaped.get(option.name, handed_on)
            if each != option.default
        ):
            chosen = options.of_group(catalogue.OPTIONS, group, {option.name: value})
            under = launches(group, ranks, stack=stack, chosen=chosen)
            changed = [(a, b) for a, b in zip(plain, under, strict=True) if b.options]
            assert changed, (group, value)
            for before, after in changed:
                assert (before.args, before.files) != (after.args, after.files)
                common = {m.name for m in catalogue.metrics([before])} & {
                    m.name for m in catalogue.metrics([after])
                }
                common = {name for name in common if "OrderedRing" not in name}
                names = {
                    re.sub(r"\.[0-9]{10}$", "", metric.name)
                    for metric in catalogue.metrics([after])
                }
                may = {
                    name: [
                        each for each in planned if each.startswith(f"{name.partition('.')[0]}.")
                    ]
                    for name in names
                }
                assert all(
                    any(fnmatchcase(name, pattern) for pattern in may[name]) for name in names
                ), "may have references"
                assert bool(common) == (option.apart == options.ALIKE), (group, value, after.binary)
            assert all(a == b for a, b in zip(plain, under, strict=True) if not b.options)


def test_a_path_that_no_file_can_have_is_refused() -> None:
    with refused_as("configuration-unusable", match="cannot be read"):
        options.read_lengths("/a\0b")
