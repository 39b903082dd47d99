"""Launchers of today's machines, word by word as their manuals
have them: nobody here could start them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reframe_tests.harness import records
from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.sites import site
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import ROOT, NotMeasured
from synthetic_evidence import STACK
from synthetic_extensions import GALLEY_SYSTEM as SYSTEM

#: Launchers whose whole command line is looked at, for two nodes.
SITES = ("flux", "pals", "alps", "jsrun", "lrun")
[PARTITION] = SYSTEM["partitions"]


@pytest.fixture(autouse=True)
def extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of retired machines are examples of extensions."""
    monkeypatch.setenv(records.EXTENSIONS, str(ROOT / "site_configs" / "template" / "extensions"))


# ---- which ranks they start ----


def resolved(launcher: str, stack: Stack, **extras: Any) -> condition.Condition:
    """A condition on two nodes of the made-up site, without pinning."""
    given = {**PARTITION["extras"], **extras}
    asked = condition.Asked(site.fabrics_of(given)["eth"], 2, "2", "none")
    partition = condition.Partition(describe(1, 4), given, launcher=launcher, scheduler="pbs")
    return condition.resolve(stack, asked, partition)


MPICH = replace(STACK, mpi="mpich", mpi_version="5.0.2", device="ch4:ofi", launcher_family="hydra")
CRAY = replace(
    STACK, mpi="craympich", mpi_version="8.1.28", device="ch4:ofi", launcher_family="pals"
)


@pytest.mark.parametrize("launcher", SITES)
def test_ranks_that_speak_what_a_launcher_does_not_offer_are_not_started(launcher: str) -> None:
    """They would be as many worlds of one rank."""
    row = registry.known()[launcher]
    known = {mpi.pmi for mpi in mpis.known().values() if mpi.pmi}
    assert row.pmi_words and set(row.pmi_words) <= known | {"pmix"}
    for stack in (MPICH, CRAY, replace(STACK, mpi_version="5.0.7")):
        pmi = mpis.find(stack.mpi).pmi
        if pmi in row.pmi_words:
            assert resolved(launcher, stack).pmi == pmi
            continue
        with pytest.raises(
            NotMeasured,
            match=rf"^{launcher} does not start ranks of {stack.mpi} \(they speak {pmi}, it"
            r" offers ",
        ):
            resolved(launcher, stack)


# ---- with ReFrame, and by what they print ----
