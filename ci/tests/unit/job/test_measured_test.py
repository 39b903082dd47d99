"""What tests declare to ReFrame: a link's own rate is no less binding for having been learned."""

from __future__ import annotations

from types import SimpleNamespace

from reframe_tests.harness.cases.measured_test import MeasuredTest, Value


def declared(values: dict[str, Value], learned: dict[str, tuple[object, ...]]) -> SimpleNamespace:
    case = SimpleNamespace(
        metrics=lambda: values,
        _learned_references=lambda: learned,
        current_partition=SimpleNamespace(fullname="here:cpu"),
    )
    MeasuredTest.set_metrics(case)
    return case


def test_what_a_link_must_reach_holds_whatever_was_learned() -> None:
    lax, rate = (0.5, -0.5, None, "1"), (1.0, -0.11, None, "1")
    case = declared({"share": Value(0.6, "1", physics=rate)}, {"share": lax})
    assert case.reference["here:cpu"]["share"] == rate
    assert [(gate["layer"], gate["outcome"]) for gate in case.gates] == [("physics", "fail")]


def test_a_metric_without_the_links_rate_is_held_to_what_was_learned() -> None:
    case = declared({"time": Value(12.0, "us", gated=True), "more": Value(1.0, "us")}, {"time": (10.0, None, 0.1, "us")})
    assert case.reference["here:cpu"] == {"time": (10.0, None, 0.1, "us"), "more": (0.0, None, None, "us")}
    assert [(gate["metric"], gate["outcome"]) for gate in case.gates] == [("time", "fail")]
