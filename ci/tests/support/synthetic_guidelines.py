"""Sessions of guidelines with known ratios."""

from __future__ import annotations

from mpibench.store.sessions import Case, Session
from mpibench_tune import guidelines
from reframe_tests.harness.samples import Sample, read_evidence


def sample(name: str, size: int, quantity: str, values: list[float]) -> Sample:
    return Sample("guidelines", name, "guidelines", 4, 1, "", size, 100, quantity, tuple(values))


def samples(ratios: dict[tuple[str, int], list[float]]) -> tuple[Sample, ...]:
    return tuple(
        sample(
            name,
            size,
            quantity,
            [factor * value for value in values]
            if quantity != guidelines.MOCKUP
            else [factor] * len(values),
        )
        for (name, size), values in ratios.items()
        for quantity, factor in (
            (guidelines.CALL, 20.0),
            (guidelines.MOCKUP, 20.0),
            (guidelines.RATIO, 1.0),
        )
    )


def session_of(
    *cases: tuple[Sample, ...],
    stack: str = "mpich-wheels",
    status: str = "proven",
    result: str = "pass",
    ppn: int = 4,
) -> Session:
    measured_cases = []
    for number, measured in enumerate(cases):
        entry = {
            "system": "testbed",
            "partition": "node",
            "environ": stack,
            "result": result,
            "name": f"Guidelines {number}",
        }
        condition = {
            "stack": stack,
            "fabric": "shm",
            "nodes": 1,
            "ppn": ppn,
            "pinning": "bunch",
            "group": "guidelines",
        }
        proof = read_evidence({"verdict": status, "ranks": [], "devices": []}, "here")
        measured_cases.append(Case(f"s:0:{number}", 0, entry, condition, measured, proof, ()))
    return Session(
        {"uuid": "0123abcd-0000", "time_start_unix": 1.0, "time_elapsed": 60.0},
        tuple(measured_cases),
    )
