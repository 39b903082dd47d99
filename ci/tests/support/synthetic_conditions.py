"""Conditions resolved from a made-up site and stack, with values that no shell may touch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.machine import topology
from reframe_tests.harness.sites import site
from synthetic_evidence import STACK

ODD = "1:0-4096;2:4097-  $(touch made)`touch made`$HOME ${HOME} \"x\" 'y' \\ & | * #"


def resolved(
    stack=STACK, nodes: int = 1, launcher: str = "local", **more: object
) -> condition.Condition:
    """A condition on ``eth0``; site and user set a variable each to
    ``ODD``; ``more`` goes to ``condition.resolve``.
    """
    row = {
        "transport": "tcp",
        "scope": "cluster" if nodes > 1 else "node",
        "rails": [{"device": "eth0"}],
    }
    recommended = [
        {
            "section": "manual",
            "stacks": ["*"],
            "env_vars": {"SITES_OWN": ODD, "OMPI_MCA_coll_tuned_x": ODD},
        }
    ]
    asked = condition.Asked(site.fabrics_of({"fabrics": {"eth": row}})["eth"], nodes, "1", "none")
    partition = condition.Partition(
        topology.describe(1, 2),
        {"recommended": recommended, "fabrics": {"eth": row}},
        launcher=launcher,
        **more,
    )
    return condition.resolve(stack, asked, partition, {"USERS_OWN": ODD, "OMPI_MCA_pml": "cm"})


def simple_condition(
    env: dict[str, str], paths: dict[str, tuple[str, ...]], debug: dict[str, str], **more: Any
) -> SimpleNamespace:
    """What a job of two stacks reads of a condition; ``more`` replaces attributes."""
    empty = SimpleNamespace(files={}, scripts={})
    stack = SimpleNamespace(
        name="theirs", env_vars=env, prepend_path=paths, variables=env, search_paths=paths
    )
    return SimpleNamespace(
        **{
            "stack": stack,
            "job_env": {},
            "assignments": {},
            "debug_env": debug,
            "binding": empty,
            "bootstrap": empty,
            "core_list": None,
            **more,
        }
    )
