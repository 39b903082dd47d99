"""Assignments of a condition and of a stack are literal in a shell."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from reframe_tests.harness.cases.job import interleaved
from reframe_tests.harness.stacks import metadata
from synthetic_conditions import ODD, resolved
from synthetic_evidence import STACK


def test_every_assignment_is_literal(tmp_path: Path) -> None:
    lines = [f"export {name}={word}" for name, word in resolved().assignments.items()]
    script = "\n".join([*lines, 'printf "%s" "$SITES_OWN"'])
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == ODD
    assert not list(tmp_path.iterdir())


def test_a_paired_stack_gets_its_own_variables_literally(tmp_path: Path) -> None:
    own, theirs = resolved(), replace(resolved(), stack=replace(STACK, name="other", env_vars={"STACKS_OWN": ODD}))
    enter = interleaved._enter("rival_p", own, theirs)
    script = f'repeat=1; {enter} sh -c \'printf "%s|%s" "$STACKS_OWN" "$SITES_OWN"\''
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{ODD}|{ODD}"
    assert not list(tmp_path.iterdir())


def test_the_stacks_own_variables_are_literal_in_the_environment(tmp_path: Path) -> None:
    environment = metadata.environment_of(replace(STACK, env_vars={"V": "a b;c"}))
    [[name, text]] = environment["env_vars"]
    done = subprocess.run(["bash", "-c", f"export {name}={text}; printenv V"], capture_output=True, text=True, check=True)
    assert done.stdout == "a b;c\n"
