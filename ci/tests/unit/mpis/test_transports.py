"""The transport table as a whole, and what it sets."""

import itertools
import re

import pytest

from reframe_tests.harness.evidence.traffic import CHOOSERS
from reframe_tests.harness.mpis import openmpi, registry
from reframe_tests.harness.mpis.transport import Range, rows_as_of
from reframe_tests.harness.vocabulary import NotMeasured
from synthetic_stack import FORCED, attempt, every_stack, fabric_of

ROWS = [row for mpi in registry.known().values() for row in mpi.rows]


# --- the table as a whole
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["node", "cluster"])
def test_settings_are_filled_and_name_the_device(scope):
    resolved = 0
    for stack, transport in itertools.product(every_stack(), FORCED):
        if transport == "shm" and scope == "cluster":
            continue
        fabric = fabric_of(transport, scope)
        setting = attempt(stack, fabric)
        if isinstance(setting, NotMeasured):
            assert "add a row to the file of" not in str(setting), str(setting)
            continue
        resolved += 1
        text = " ".join(
            [
                *setting.env.values(),
                *(v for proof in setting.proofs for v in (*proof.expect, *proof.allow)),
            ]
        )
        assert not re.search(r"\{[a-z_]+\}", text), text
        assert all(value for value in setting.env.values()), setting.env
        if fabric.rails and stack.mpi != "pempi":  # LoadLeveler gives links out, POE names none
            number = re.search(r"\d+$", fabric.devices[0])
            chosen = setting.env.values()
            assert any(fabric.devices[0] in value for value in chosen) or (
                number and number[0] in chosen
            ), setting.env
    assert resolved > 60


def test_every_row_has_a_proof_and_whole_patterns():
    choosing = re.compile(r"FABRICS|PROVIDER|TLS|DEVICES|IFACE|NETMOD|_(pml|btl|mtl)$")
    for row in ROWS:
        proofs = [*row.proofs, *itertools.chain(*row.proofs_by_scope.values())]
        assert any(proof.required for proof in proofs), row
        for scope in ("node",) if row.transport == "shm" else ("node", "cluster"):
            assert row.proofs or row.proofs_by_scope[scope], row
        for proof in proofs:
            assert re.compile(proof.pattern).groups == 1, proof
            assert re.compile(proof.line) and (proof.absent or proof.expect), proof
        assert not row.context or re.compile(row.context).groups == 1
        assert not any(map(choosing.search, row.debug_env)), "debug settings choose nothing"


def test_no_two_rows_overlap_and_no_gap_covers_a_row():
    for mpi in registry.known().values():
        for one, other in itertools.combinations(mpi.rows, 2):
            if (one.transport, one.device) == (other.transport, other.device):
                assert not one.versions.overlaps(other.versions), (one, other)
            if one.transport == other.transport:
                assert bool(one.device) == bool(other.device), (one, other)
        for row, gap in itertools.product(mpi.rows, mpi.gaps):
            if row.transport == gap.transport and (
                not gap.kinds or set(gap.kinds) & set(row.memory)
            ):
                assert not row.versions.overlaps(gap.versions), (row, gap)


def test_the_settings_of_rails_are_quoted_where_the_wrong_ones_were_used():
    assert {"UCX_MAX_EAGER_RAILS", "UCX_MAX_RNDV_RAILS", "UCX_MAX_RMA_RAILS"} <= set(CHOOSERS)


@pytest.mark.parametrize("release", [(4, 1), (5, 0, 9)])
def test_a_fork_has_and_must_show_what_the_release_it_comes_from_must(
    release,
):
    def demanded(rows, version):
        parts = [(row, *row.memory.values(), *row.classes.values()) for row in rows]
        proofs = [
            proof
            for part in itertools.chain(*parts)
            if getattr(part, "since", ()) <= version
            for proof in (
                *part.proofs,
                *itertools.chain(*getattr(part, "proofs_by_scope", {}).values()),
            )
        ]
        return [(proof.subject, proof.required and proof.since <= version) for proof in proofs]

    own = [row for row in openmpi.MPI.rows if release in row.versions]
    fork = rows_as_of(openmpi.MPI.rows, release, Range((2,)))
    assert [row.transport for row in fork] == [row.transport for row in own]
    assert all((2, 3) in row.versions and (1, 9) not in row.versions for row in fork)
    assert demanded(fork, (2,)) == demanded(own, release)
