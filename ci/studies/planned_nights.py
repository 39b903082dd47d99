"""What planned nights hold: ``PYTHONPATH=ci python -m
studies.planned_nights --budget 30m [-- REFRAME OPTION...]``. Prints.

Of all cases of a mode and of one planned night: jobs, launches, node-hours, hours. Costs are those
of stored sessions, where there are any, else those of the model; a partition of which no night is
stored takes its jobs one after the other.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path

from mpibench.judge.plan import making
from mpibench.judge.plan.making import NightPlan
from mpibench.night import settings
from reframe_tests.harness.sites.site import ROOT


def totals(plan: NightPlan, cases: Iterable[int]) -> str:
    """Jobs, launches, node-hours and hours of some cases, one after the other."""
    found = [plan.cost[one] for one in cases]
    hours = sum(one.seconds for one in found) / 3600
    node_hours = sum(one.seconds * one.nodes for one in found) / 3600
    return (
        f"{len(found)} jobs, {sum(one.launches for one in found)} launches, {node_hours:.1f} "
        f"node-hours, {hours:.2f} h"
    )


def describe(plan: NightPlan) -> list[str]:
    """All cases, and a night."""
    return [
        f"all: {totals(plan, range(len(plan.candidates.cases)))}",
        f"tonight: {totals(plan, plan.tonight)}",
        *making.lines(plan),
    ]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", required=True)
    parser.add_argument("--mode", default="nightly")
    parser.add_argument(
        "--root", type=Path, default=ROOT, help="checkout with site_configs and environments"
    )
    parser.add_argument("options", nargs="*", help="for ReFrame, after --")
    given = parser.parse_args()
    if given.root != ROOT:
        os.environ["RFM_CONFIG_FILES"] = str(given.root / "site_configs" / "settings.py")
    asked = settings.request(
        given.budget,
        given.mode,
        given.mode,
        given.options,
        given.root / "results" / "dataset",
        day=datetime.now(timezone.utc).date(),
        root=given.root,
    )
    began = time.perf_counter()
    plan = making.make(asked)
    print("\n".join(describe(plan)))
    print(f"planned in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
