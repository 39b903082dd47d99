"""Advice: known answers are found, noise is no choice, and what is not covered is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from mpibench import cli
from mpibench.tune import advice
from mpibench.tune.advice import ALONE, CHOICE, LITTLE, NOISE, UNCOVERED, Terms
from mpibench.tune.profiles import Calls
from refusals import refused_as
from synthetic_profiles import BENCHMARKS, STACKS, ask, dataset, mixed, profile_of, slower, true_seconds, true_us

SLOW = STACKS[1]


def test_the_faster_stack_is_chosen_with_intervals_that_hold(tmp_path: Path) -> None:
    found = ask(dataset(tmp_path, change=slower(SLOW, 1.5)), mixed())
    assert found.outcome == CHOICE and found.covered == pytest.approx(1.0)
    first, second = found.ranking
    assert (first.stack, second.stack) == STACKS
    assert first.low < true_seconds(mixed()) < first.high
    assert second.low < true_seconds(mixed(), 1.5) < second.high
    assert second.times_the_fastest == pytest.approx(1.5, rel=0.02) and second.differs_from_the_fastest
    assert found.answer.startswith("use mpich-wheels, eth1g, bunch (2 x 1 on node): the next takes 1.5")
    assert sum(first.by_call.values()) == pytest.approx(first.seconds, rel=0.02)


def test_within_noise_there_is_no_choice(tmp_path: Path) -> None:
    found = ask(dataset(tmp_path, change=slower(SLOW, 1.005), noise=0.02), mixed())
    assert found.outcome == NOISE and len([row for row in found.ranking if not row.differs_from_the_fastest]) == 2
    assert found.answer.startswith("no choice: 2 are the fastest within noise")


def test_equal_stacks_are_seldom_told_apart(tmp_path: Path) -> None:
    called = [ask(dataset(tmp_path / str(number), number, noise=0.03), mixed()).outcome == CHOICE for number in range(40)]
    assert sum(called) <= 4, "5 % are aimed at"


def test_one_repeat_proves_no_difference(tmp_path: Path) -> None:
    found = ask(dataset(tmp_path, change=slower(SLOW, 3.0), repeats=1), mixed())
    assert found.outcome == NOISE
    assert all(one.low is None for one in found.ranking)
    assert "no interval: too few repeats" in "\n".join(found.lines())
    assert json.loads(msgspec.json.encode(found))["ranking"][0]["low"] is None


def test_several_jobs_show_how_much_jobs_differ(tmp_path: Path) -> None:
    few, many = (ask(dataset(tmp_path / f"{jobs}", change=slower(SLOW, 1.1), jobs=jobs), mixed()) for jobs in (2, 4))
    assert many.outcome == CHOICE
    wide, narrow = ((found.ranking[0].high or 0) / (found.ranking[0].low or 1) - 1 for found in (few, many))
    assert narrow < wide / 2, "of two jobs the policy says how much they may differ"


def test_what_matters_is_what_the_application_calls(tmp_path: Path) -> None:
    """One stack is faster at one call, the other at another one: profiles decide."""
    change = lambda name, size, stack: 2.0 if (name == "Allreduce") == (stack == SLOW) else 1.0  # noqa: E731
    folder = dataset(tmp_path, change=change)
    for call, best in (("Allreduce", STACKS[0]), ("Alltoall", STACKS[1])):
        found = ask(folder, profile_of(Calls(call, 8, 1000, 1.0, 2)))
        assert found.outcome == CHOICE and found.ranking[0].stack == best


def test_times_between_sizes_lie_on_the_line(tmp_path: Path) -> None:
    found = ask(dataset(tmp_path, noise=1e-6), profile_of(Calls("Alltoall", 2500, 1000, 1.0, 2)))
    assert found.ranking[0].seconds == pytest.approx(1e-3 * true_us(2500) / 2, rel=1e-3)


def test_a_blocking_receive_waits_as_long_as_its_send(tmp_path: Path) -> None:
    folder = dataset(tmp_path, noise=1e-6)
    sends = Calls("Send", 1024, 1000, 0.4)
    both = ask(folder, profile_of(sends, Calls("Recv", 999999999, 1000, 0.5)))
    posted = ask(folder, profile_of(sends, Calls("Irecv", None, 1000, 0.1), Calls("Waitall", None, 500, 0.4)))
    one = 1e-3 * true_us(1024) / 2
    assert both.ranking[0].seconds == pytest.approx(2 * one, rel=1e-3) and both.covered == pytest.approx(1.0)
    assert posted.ranking[0].seconds == pytest.approx(one, rel=1e-3) and posted.covered == pytest.approx(1.0)


def gap_texts(found: advice.Advice) -> str:
    return "\n".join(f"{gap.call}: {gap.why}" for gap in found.not_covered)


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        (Calls("Allreduce", 8 << 20, 10, 1.0, 2), "MPI_Allreduce: sizes above 4 MiB, the largest measured"),
        (Calls("Put", 8, 10, 1.0), "MPI_Put: no benchmark times this call"),
        (Calls("Bcast", 8, 10, 1.0, 2), "MPI_Bcast: not measured (imb Bcast)"),
        (Calls("Allreduce", None, 10, 1.0, 2), "MPI_Allreduce: the profile has no sizes of it"),
        (Calls("Waitall", None, 10, 1.0), "MPI_Waitall: no sends of these messages are in the profile or covered"),
        (Calls("Allreduce", 8, 10, 1.0, 1), "MPI_Allreduce: communicators of 1 rank, measured with 2"),
    ],
)
def test_what_is_not_covered_is_named_and_below_a_share_nothing_is_ranked(calls: Calls, why: str, tmp_path: Path) -> None:
    folder = dataset(tmp_path)
    found = ask(folder, profile_of(Calls("Alltoall", 64, 1000, 1.0, 2), calls))
    assert (found.outcome, found.ranking) == (UNCOVERED, [])
    assert why in gap_texts(found)
    assert found.covered == pytest.approx(0.5)
    assert "covers 50 % of the time in MPI, and 80 % are needed" in found.answer
    assert advice.STATUS[found.outcome] == 3
    little = ask(folder, profile_of(Calls("Alltoall", 64, 1000, 9.0, 2), calls))
    assert little.outcome in (CHOICE, NOISE) and little.covered == pytest.approx(0.9)
    assert why in gap_texts(little)


def test_sizes_far_apart_are_not_bridged(tmp_path: Path) -> None:
    found = ask(dataset(tmp_path, sizes=(0, 8, 65536)), profile_of(Calls("Alltoall", 1000, 10, 1.0, 2)))
    assert found.outcome == UNCOVERED and "far apart" in gap_texts(found)


def test_other_numbers_of_ranks_are_no_measurement(tmp_path: Path) -> None:
    found = ask(dataset(tmp_path), profile_of(Calls("Alltoall", 64, 10, 1.0), ranks=64))
    assert found.outcome == UNCOVERED and found.covered == 0
    assert "measured with 2 ranks, the profile has 64" in gap_texts(found)
    assert len(found.not_ranked) == 2


def test_a_stack_without_the_benchmark_is_left_out_by_name(tmp_path: Path) -> None:
    drop = lambda row: None if row["stack"] == SLOW and row["benchmark"] == "Alltoall" else row  # noqa: E731
    found = ask(dataset(tmp_path, edit=drop), mixed())
    assert found.outcome == ALONE and advice.STATUS[found.outcome] == 3
    (row,) = found.not_ranked
    assert row.stack == SLOW and "cover 50 %" in row.why and "MPI_Alltoall: not measured" in row.why


def test_a_share_without_times_is_one_of_calls(tmp_path: Path) -> None:
    found = ask(dataset(tmp_path), profile_of(Calls("Alltoall", 64, 90), Calls("Put", 8, 10, 5.0)))
    assert found.covered == pytest.approx(0.9) and found.basis == "MPI calls"


def test_little_time_in_mpi_ends_it(tmp_path: Path) -> None:
    profile = replace(mixed(), wall_s=100.0)
    found = ask(dataset(tmp_path), profile)
    assert found.outcome == LITTLE and found.ranking == []
    assert list(found.lines())[-1].startswith("stop here: only 2 % of the run is in MPI (less than 10 %)")
    assert ask(tmp_path, profile, Terms(little_time=0.01)).outcome != LITTLE


def test_start_and_end_are_in_no_share(tmp_path: Path) -> None:
    found = ask(dataset(tmp_path), profile_of(Calls("Init", None, 2, 50.0), Calls("Alltoall", 64, 10, 1.0, 2)))
    assert found.covered == pytest.approx(1.0)
    assert "MPI_Init and MPI_Finalize are left out" in "\n".join(found.limits)


def test_the_best_size_is_where_throughput_peaks(tmp_path: Path) -> None:
    """A sweet spot at 4 KiB, as the paper's at 2 KiB: sizes above are four times slower than a byte there."""
    change = lambda name, size, stack: 4.0 if size > 4096 else 1.0  # noqa: E731
    found = ask(dataset(tmp_path, change=change), profile_of(Calls("Alltoall", 100, 1000, 1.0, 2)))
    (best,) = found.message_sizes
    assert (best.call, best.peak_bytes, best.as_good_from_bytes) == ("MPI_Alltoall", 4096, 4096)
    assert not best.at_the_largest_measured
    assert best.reached == pytest.approx(100 / true_us(100) / (4096 / true_us(4096)), rel=0.05)
    assert best.text.startswith("MPI_Alltoall moves most at 4 KiB, ")
    plain = ask(dataset(tmp_path / "plain", noise=1e-4), profile_of(Calls("Alltoall", 100, 1000, 1.0, 2)))
    assert plain.message_sizes[0].at_the_largest_measured and "larger ones may be better" in plain.message_sizes[0].text


def test_limits_are_those_of_the_profile(tmp_path: Path) -> None:
    calls = (Calls("Isend", 64, 1000, 0.5, None, 1, 1000), Calls("Waitall", None, 500, 0.5), Calls("Alltoall", 64, 10, 1.0))
    found = ask(dataset(tmp_path), profile_of(*calls, rank_mpi_s=(0.2, 1.8)), Terms(profiled_on=STACKS[0]))
    said = "\n".join(found.limits)
    for words in ("all 2 ranks are assumed", "overlap:", "share the link", "imbalance: ", "differ by more than 4 times"):
        assert words in said
    assert "times what is predicted for mpich-wheels" in said and "something else than communication decides" in said


@pytest.mark.parametrize(("factor", "said"), [(1.0, ""), (5.0, ""), (3e4, "times less than"), (1 / 3e4, "times more than")])
def test_a_time_that_no_choice_comes_near_is_said(factor: float, said: str, tmp_path: Path) -> None:
    """Of the same calls: as where the columns of bytes, counts and times were swapped, or times are in another unit."""
    calls = Calls("Alltoall", 64, 1000, None, 2)
    predicted = ask(dataset(tmp_path), profile_of(calls)).ranking[0].seconds
    found = ask(dataset(tmp_path), profile_of(replace(calls, seconds=2 * predicted * factor)))
    limits = [text for text in found.limits if text.startswith("even the nearest prediction")]
    assert [said in text for text in limits] == ([True] if said else [])


def test_a_communicator_that_is_known_is_no_limit(tmp_path: Path) -> None:
    calls = (Calls("Isend", 64, 1000, 0.5), Calls("Waitall", None, 500, 0.5), Calls("Alltoall", 64, 10, 1.0, 2))
    assert "are assumed" not in "\n".join(ask(dataset(tmp_path), profile_of(*calls)).limits)


def test_cases_with_shared_cores_or_options_do_not_count(tmp_path: Path) -> None:
    folder = dataset(tmp_path, change=slower(SLOW, 1.5))
    dataset(tmp_path, 2, change=slower(STACKS[0], 9.0), condition={"oversubscribed": "4 ranks on 2 cores"})
    dataset(tmp_path, 3, change=slower(STACKS[0], 9.0), condition={"suite_options": "window:allocate"})
    found = ask(folder, mixed())
    assert found.ranking[0].stack == STACKS[0] and found.ranking[1].times_the_fastest == pytest.approx(1.5, rel=0.03)
    assert any("4 cases not used" in note for note in found.notes)


def test_tuned_measurements_are_a_choice_of_their_own(tmp_path: Path) -> None:
    folder = dataset(tmp_path, stacks=STACKS[:1])
    dataset(tmp_path, 2, stacks=STACKS[:1], change=slower(STACKS[0], 0.7), condition={"tuned": "0123"})
    found = ask(folder, mixed())
    assert [one.tuned for one in found.ranking] == ["0123", ""] and found.outcome == CHOICE


def test_two_versions_by_one_name_are_not_pooled(tmp_path: Path) -> None:
    dataset(tmp_path)
    dataset(tmp_path, 2, mpi_version="6.0.0")
    with refused_as("several-releases", match=r"was measured as openmpi 5\.0\.10 .* and as openmpi 6\.0\.0"):
        ask(tmp_path, mixed())


def test_unproven_cases_are_no_ground(tmp_path: Path) -> None:
    with refused_as("selector-unusable", match="has no proof"):
        ask(dataset(tmp_path, evidence="contradicted"), mixed())


CSV = "# ranks: 2\n# wall_s: 2.0\ncall,bytes,count,time_s,comm_size\nMPI_Alltoall,64,10000,1.0,2\n# rows: 1\n"


def run(tmp_path: Path, text: str, *words: str) -> int:
    profile = tmp_path / "profile.csv"
    profile.write_text(text)
    dataset_words = ("--dataset", str(tmp_path / "data"), "--dataset-only", "--sessions", "20250101:20300101")
    return cli.main(["advise", str(profile), *dataset_words, *words])


def test_the_command_answers_with_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset(tmp_path / "data", change=slower(SLOW, 1.5))
    assert run(tmp_path, CSV) == 0
    said = capsys.readouterr().out
    assert "they cover 100 % of the time in MPI" in said and "use mpich-wheels" in said
    assert run(tmp_path, CSV, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["outcome"] == "choice" and data["ranking"][1]["differs_from_the_fastest"] is True
    assert run(tmp_path, CSV.replace(",64,", ",64000000,")) == 3
    assert "sizes above 4 MiB" in capsys.readouterr().out
    assert run(tmp_path, CSV.replace("# rows: 1", "# rows: 2")) == 2
    assert "damaged or cut" in capsys.readouterr().err
    assert run(tmp_path, CSV.replace(",64,", ",,")) == 3
    assert "the profile has no sizes of it" in capsys.readouterr().out


def test_the_command_stops_without_looking_at_measurements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, CSV.replace("wall_s: 2.0", "wall_s: 200")) == 0
    assert "stop here" in capsys.readouterr().out
    assert run(tmp_path, CSV.replace("wall_s: 2.0", "wall_s: 200"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "little"


def test_all_benchmarks_of_the_table_exist() -> None:
    from reframe_tests.harness.suites import catalogue

    for call, rows in advice.SOURCES.items():
        for row in rows:
            known = {one.name.partition("-vs-")[0]: one for one in catalogue.rows(row.group) if one.suite == row.suite}
            assert row.benchmark in known, f"{call}: {row.text}"
            assert row.quantity in known[row.benchmark].quantities, f"{call}: {row.text}"
    assert set(BENCHMARKS) <= {row.benchmark for rows in advice.SOURCES.values() for row in rows}
