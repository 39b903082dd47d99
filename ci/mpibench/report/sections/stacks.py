"""Section of the report: stacks."""

from __future__ import annotations

from itertools import combinations

from ...spack import consistency
from ..section import Content, Section
from ..view import View


def show(view: View) -> Content:
    """What each stack is made of, as its cases and its metadata file say."""
    rows = []
    facts = {}
    for name in sorted({case.stack for case in view.session.cases if case.condition.get("stack")}):
        cases = [case for case in view.session.cases if case.stack == name and case.condition]
        condition = cases[0].condition
        if built_as := condition.get("built"):
            facts[name] = built_as
        hashes = sorted({str(case.condition.get("lock_hash", "")) for case in cases})
        built = view.built.get(name)
        rows.append(
            {
                "name": name,
                "mpi": " ".join(str(condition.get(key) or "") for key in ("mpi", "mpi_version")),
                "origin": str(condition.get("origin") or ""),
                "abi": str(condition.get("abi") or ""),
                "device": str(condition.get("stack_device") or (built.device if built else "")),
                "proof": next((case.proof for case in cases if case.proof and case.proof.library), None),
                "hashes": hashes,
                "built": built,
                "same": built is not None and hashes == [built.lock_hash],
            }
        )
    pairs = [
        {"first": first, "second": second, "things": list(consistency.things(facts[first], facts[second]).values())}
        for first, second in combinations(facts, 2)
    ]
    return {"rows": rows, "pairs": sorted(pairs, key=lambda pair: len(pair["things"]))}


SECTION = Section("stacks", 90, show, "Stacks", "Stacks")
