"""What stands beside verdicts: that the machine was busy; and names of cases, which are not alike
where these were not measured alike.
"""

from pathlib import Path

from mpibench.pages import outcomes, session
from mpibench.store.sessions import Case, Session
from reframe_tests.harness.samples import Sample, read_evidence


def sample(size, quantity, *values):
    return Sample("imb", "PingPong", "p2p", 2, 1, "", size, 100, quantity, values)


TIMED = (sample(8, "latency_us", 1.0),)


def case(losses_per_s, samples=TIMED):
    proof = read_evidence(
        {"verdict": "proven", "ranks": [], "devices": [], "core_losses_per_s": losses_per_s}, "here"
    )
    condition = {"nodes": 1, "ppn": 2}
    entry = {"system": "s", "partition": "p", "environ": "mpich", "result": "pass", "name": "x"}
    entry = {**entry, "condition": condition}
    return Case(f"{losses_per_s}", 0, entry, condition, samples, proof, ())


def line(*cases):
    return outcomes.verdict_line(Session({"uuid": "0"}, cases))


def test_busy_cases_are_counted_beside_the_verdict():
    said = line(case(147), case(9.9))
    assert "In 1 of 2 cases ranks often lost their core to other programs" in said
    assert "busy" not in line(case(0), case(0, ()), case(147, ()))


def test_a_key_figure_is_the_best_median_at_one_size_of_what_is_proven():
    found = outcomes.key_figures(
        Session(
            {"uuid": "0"},
            [
                case(0, (sample(0, "latency_us", 3.0, 1.0, 1.2), sample(8, "latency_us", 0.5))),
                case(1, (sample(0, "latency_us", 1.4), sample(8, "bandwidth_mb_per_s", 900.0))),
                case(2, (sample(64, "bandwidth_mb_per_s", 100.0),)),
                case(3, (sample(64, "bandwidth_mb_per_s", 200.0),)),
            ],
        )
    )
    [row] = found.values()
    assert {figure.title: best.value for figure, best in row.items()} == {
        "PingPong latency": 1.2,
        "PingPong bandwidth": 200.0,
    }


def test_the_summary_counts_each_case_once():
    cases = [case(0), case(1)]
    shown = session._summary(session.View(Session({"uuid": "0"}, cases), Path()))
    tiles = {outcome.name: number for outcome, number in shown["tiles"]}
    assert tiles == {"failed": 0, "passed": 0, "recorded": 2}
    [(place, counts)] = shown["rows"]
    assert place[0] == "mpich" and dict(counts) == {outcomes.OUTCOMES["recorded"]: 2}


def test_a_number_has_four_digits_that_mean_something():
    numbers = (None, 0.0, 9.9e-5, 1e-4, 12.3456, 9_999_999.0, 1e7)
    texts = ["", "0", "9.900e-05", "0.0001", "12.35", "9999999", "1.000e+07"]
    assert [outcomes.format_number(number) for number in numbers] == texts
