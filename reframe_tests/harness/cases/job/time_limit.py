"""How long a launch usually takes, for the time that a job asks the batch system for."""

from __future__ import annotations

from ...suites import catalogue

#: Seconds in which an MPI starts and ends, and of the check of received data; times that a size is sent because programs warm
#: up (:mod:`..suites.plans`); and how much longer than in the last nights a case may take.
START_S, CHECK_S, WARMED_UP, MOST_TIMES = 15, 60, 2, 3


def usual_s(launch: catalogue.Launch | None, group: str, level: str, limit_s: int) -> float:
    """Seconds of a launch: what its sizes may take on a link at its rate, else as long as a launch may take.

    :param launch: ``None`` where nothing is known of it.
    :param limit_s: seconds after which it is ended.
    """
    if launch is None:
        return float(limit_s)
    if launch.checks_data:
        return float(min(limit_s, CHECK_S))
    planned = [plan.size_ranges.get(level) for plan in catalogue.GROUPS[group].plans]
    # Programs without sizes compute, and those with a budget of seconds take it.
    sized = bool(launch.expected) and all(None not in row.sizes for row in launch.expected)
    if not sized or any(sizes and sizes.budget_s for sizes in planned):
        return float(limit_s)
    sizes = sum(len(row.sizes) * len(row.variants) for row in launch.expected)
    return float(min(limit_s, START_S + WARMED_UP * catalogue.LEVELS[level].link_s * sizes))
