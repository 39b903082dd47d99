"""The same variables as a fragment of Spack's modules.yaml, for the module files that Spack writes of the package.

Source: Spack documentation, 'Modules (modules.yaml)', "Customize environment modifications": ``environment: set:`` below a
spec. Spack fills ``{...}`` in values, so that braces of a value are written with a backslash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.stacks.stack import Stack

from ...stacks.spack import lock as lock_file


def spec_of(stack: Stack) -> str:
    """The package of a stack's MPI in its version, as Spack has it where Spack built the stack; empty where it has none.

    MVAPICH2 2.3.7 is the package's 2.3.7-1.
    """
    kept = Path(stack.source).parent / lock_file.LOCK
    if stack.origin == "spack" and kept.is_file():
        mpi = lock_file.read(kept).mpi
        return f"{mpi.name}@={mpi.version}"
    packages = mpis.find(stack.mpi).spack
    return f"{packages[0].name}@={stack.mpi_version}" if packages else ""


def fragment(stack: Stack, lines: Sequence[str], variables: Mapping[str, str]) -> str:
    """The text of the fragment, with what it is as comments; only comments where nothing is to be set."""
    head = "".join(f"# {' '.join(line.split())}\n" for line in lines)
    spec = spec_of(stack)
    if not spec or not variables:
        return f"{head}# {'Spack has no package of ' + stack.mpi if not spec else 'nothing is to be set'}.\n"
    values = {name: value.replace("{", "\\{").replace("}", "\\}") for name, value in variables.items()}
    kinds = {kind: {spec: {"environment": {"set": dict(values)}}} for kind in ("tcl", "lmod")}
    return head + yaml.safe_dump({"modules": {"default": kinds}}, sort_keys=False, default_flow_style=False)
