"""Advice: known answers are found, noise is no choice, and what is not covered is named."""

import json

import pytest

from mpibench import cli
from mpibench_tune.advice import NOISE, UNCOVERED
from mpibench_tune.profiles import ProfiledCalls
from synthetic_tuning import STACKS, ask, dataset, mixed, profile_of, slower, true_us

SLOW = STACKS[1]


def test_one_repeat_proves_no_difference(tmp_path):
    found = ask(dataset(tmp_path, change=slower(SLOW, 3.0), repeats=1), mixed())
    assert found.outcome == NOISE and "no interval" in "\n".join(found.lines())
    assert all(one.low is None for one in found.ranking)


@pytest.mark.parametrize(
    ("times", "receives"),
    [
        (2, [ProfiledCalls("Recv", 999999999, 1000, 0.5)]),
        (1, [ProfiledCalls("Irecv", None, 1000, 0.1), ProfiledCalls("Waitall", None, 500, 0.4)]),
    ],
)
def test_a_blocking_receive_waits_as_long_as_its_send(times, receives, tmp_path):
    calls = profile_of(ProfiledCalls("Send", 1024, 1000, 0.4), *receives)
    found = ask(dataset(tmp_path, noise=1e-6), calls)
    assert found.ranking[0].seconds == pytest.approx(times * 1e-3 * true_us(1024) / 2, rel=1e-3)
    assert found.covered == pytest.approx(1.0)


@pytest.mark.parametrize(("count", "sentences"), [(1000, 0), (30_000_000, 1)])
def test_a_prediction_far_from_what_the_profile_recorded_is_said_before_its_ranking(
    count, sentences, tmp_path
):
    """As of a CSV with two columns exchanged."""
    found = ask(dataset(tmp_path), profile_of(ProfiledCalls("Alltoall", 64, count, 0.1, 2)))
    said = [line for line in found.limits if "times more than the profile recorded" in line]
    assert found.ranking and len(said) == sentences, found.lines()


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        (ProfiledCalls("Allreduce", 8 << 20, 10, 1.0, 2), "sizes above 4 MiB"),
        (ProfiledCalls("Put", 8, 10, 1.0), "no benchmark times this call"),
        (ProfiledCalls("Bcast", 8, 10, 1.0, 2), "not measured (imb Bcast)"),
        (ProfiledCalls("Allreduce", None, 10, 1.0, 2), "the profile has no sizes for it"),
        (ProfiledCalls("Allreduce", 8, 10, 1.0, 1), "communicators of 1 rank, measured with 2"),
    ],
)
def test_what_is_not_covered_is_named_and_below_a_share_nothing_is_ranked(calls, why, tmp_path):
    found = ask(dataset(tmp_path), profile_of(ProfiledCalls("Alltoall", 64, 1000, 1.0, 2), calls))
    assert (found.outcome, found.ranking) == (UNCOVERED, [])
    [gap] = found.not_covered
    assert why in gap.why and calls.call in gap.call and found.covered == pytest.approx(0.5)


def test_cases_with_shared_cores_or_options_do_not_count(tmp_path):
    dataset(tmp_path, change=slower(SLOW, 1.5))
    for number, condition in enumerate(
        ({"oversubscribed": "4 ranks on 2 cores"}, {"suite_options": "window:allocate"}), 2
    ):
        dataset(tmp_path, number, change=slower(STACKS[0], 9.0), condition=condition)
    found = ask(tmp_path, mixed())
    assert found.ranking[0].stack == STACKS[0]
    assert found.ranking[1].times_the_fastest == pytest.approx(1.5, rel=0.03)


CSV = (
    "# ranks: 2\n# wall_s: "
    "2.0\ncall,bytes,count,time_s,comm_size\nMPI_Alltoall,64,10000,1.0,2\n# rows: 1\n"
)


def test_the_command_answers_with_its_status(tmp_path, capsys):
    dataset(tmp_path / "data", change=slower(SLOW, 1.5))
    profile = tmp_path / "profile.csv"
    words = f"advise {profile} --dataset {tmp_path / 'data'} --dataset-only"
    words += " --sessions 20250101:20300101"
    for old, new, status in (
        ("wall_s: 2.0", "wall_s: 200", 0),
        (",64,", ",64000000,", 3),
        ("# rows: 1", "# rows: 2", 2),
        ("", "", 0),
    ):
        profile.write_text(CSV.replace(old, new))
        assert cli.main(words.split()) == status
    assert "use mpich-wheels" in capsys.readouterr().out
    assert cli.main([*words.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "choice"
