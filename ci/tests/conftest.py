"""Fixtures for tests that need the project's own stacks: which
there are, and how to run something on one.
"""

import functools
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from hypothesis import settings

import servers
from folders import LEFT_OUT
from mpibench.stacks import probe
from reframe_tests.harness.stacks import metadata
from synthetic_project import copy_checkout

#: Tests are marked with their lane; its time and what was not tested are reported at the end.
pytest_plugins = ["lanes", "untested"]
collect_ignore = LEFT_OUT

# A shell starts what it runs in the background with SIGINT ignored, and
# children inherit that; tests interrupt both.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Workers share the cores already: threads of each would only wait for one another. Polars reads it
# where it is loaded, numpy's too, and what a test starts has it from here.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A process of a user builds all commands once; one with a thousand tests did so for each.
typer.main.get_command = functools.cache(typer.main.get_command)

# No example has a deadline of its own: how long one takes says more of what else the machine does.
settings.register_profile("every change", deadline=None, max_examples=30)
settings.register_profile("all", deadline=None, max_examples=150)


def pytest_configure(config):
    """Examples of a property are drawn anew in each run: few for every change, more with --all."""
    settings.load_profile("all" if config.getoption("--all") else "every change")


def pytest_collection_finish():
    """What is loaded by then stays: no collection of garbage need look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def root():
    """Top of the repository."""
    return metadata.ROOT


@pytest.fixture(scope="session")
def stacks():
    """Usable stacks by name; empty where none has been built."""
    found, _ = metadata.discover(environ={})
    return {stack.name: stack for stack in found}


@pytest.fixture(scope="session")
def require_stack(stacks):
    """A stack by name; the test is skipped where it has not been built."""

    def get(name):
        if name not in stacks:
            pytest.skip(
                f"[stacks] stack {name} has not been built here (ci/setup builds the wheels stacks)"
            )
        return stacks[name]

    return get


@pytest.fixture(scope="session")
def run_on():
    """Run words inside a stack under its own mpirun; exit status (124:
    over ``limit_s``) and output of both streams.
    """

    def run(
        stack,
        *words,
        ranks=1,
        limit_s=60,
        environ=None,
    ):
        command = [*stack.mpirun, "-n", str(ranks), *words]
        return probe.run_inside(stack, command, {**os.environ, **(environ or {})}, limit_s)

    return run


@pytest.fixture(scope="session")
def run_reframe(root, tmp_path_factory):
    """Run ReFrame as a user would, on the project's tests; what it
    writes goes to a folder that is thrown away.
    """
    written = tmp_path_factory.mktemp("reframe")

    def run(
        *options,
        words="",
        top=None,
        config=None,
        environ=None,
        only="",
        ended=None,
    ):
        # words: options without blanks, as they are typed; only: the one test file to load; ended:
        # the exit status that it must have.
        settings = {
            "RFM_CONFIG_FILES": str(config or (top or root) / "site_configs" / "settings.py"),
            "RFM_COLORIZE": "no",
            "RFM_PREFIX": str(top / "results" if top else written),
        }
        reframe = Path(sys.executable).parent / "reframe"
        done = subprocess.run(
            [
                str(reframe),
                "-c",
                str((top or root) / "reframe_tests" / only),
                *words.split(),
                *options,
            ],
            cwd=root,
            env={**os.environ, **settings, **(environ or {})},
            text=True,
            capture_output=True,
            timeout=2400,  # four times what a dry run of everything takes beside a dozen others
            check=False,
        )
        assert ended in (None, done.returncode), done.stdout[-3000:] + done.stderr[-3000:]
        return done

    return run


@pytest.fixture
def sandbox(tmp_path, root):
    """A settings file of our own: the bundled systems, results and
    references in a folder that is thrown away.
    """
    return copy_checkout(tmp_path, metadata.discover(root, environ={})[0])


@pytest.fixture
def run_here(sandbox, run_reframe):
    """ReFrame on the copy, by default with the tests of two ranks only."""

    def run(*options, only="point_to_point.py", **how):
        return run_reframe(*options, top=sandbox, only=only, **how)

    return run


@pytest.fixture
def gateway():
    """A server on this machine that keeps the metrics it gets: its address, and what it keeps."""
    with servers.serving() as there:
        yield there
