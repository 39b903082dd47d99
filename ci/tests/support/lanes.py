"""Lanes of the tests: a folder each, by what its tests start.
Plugin of pytest, loaded by ``conftest``.

A test is marked with its lane by the folder it lies in (``pytest -m 'not cluster'``), and the run
ends with the time of each. With several workers (``pytest -n``, as ``ci/test`` does) each takes a
file at a time, in the order of the lanes, but first the folders whose tests share a mini-cluster:
they take longest and wait more than they compute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path, PurePosixPath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from folders import LEFT_OUT, TESTS

#: Lane to what its tests start; in the order they are begun (``testpaths`` of ``pyproject.toml``):
#: the quick one, then those with the longest files, so that at the end no worker is left alone with
#: one.
LANES = {
    "unit": "nothing",
    "judge": "nothing either: verdicts, their histories and error rates",
    "cluster": "mini-clusters",
    "process": "ReFrame, the project's own scripts, the style checkers, a shell, a compiler",
    "mpi": "real MPI programs from the wheels stacks",
    "spack": "a real Spack",
    "browser": "a headless browser",
}
#: Those that must stay quick.
PURE = ("unit", "judge")
#: The one with folders whose tests share a mini-cluster, so that one worker gets all of a folder.
#: Two folders have two clusters, and a file beside them brings up its own: clusters do not see each
#: other.
SHARING = "cluster"
#: Mark of what a lane leaves out without ``--all``.
WHOLE = "whole"
#: Audit events of a process that is started (https://docs.python.org/3/library/audit_events.html).
STARTS = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "subprocess.Popen",
)


class Purity:
    """Refuses every start of a process while it is on: an audit
    hook, which sees also what a library does.
    """

    def __init__(self) -> None:
        self._on = self._hooked = False

    @contextmanager
    def on(self) -> Iterator[None]:
        """Inside, nothing can be started."""
        if not self._hooked:  # it cannot be taken away again
            sys.addaudithook(self._judge)
            self._hooked = True
        self._on = True
        try:
            yield
        finally:
            self._on = False

    def _judge(self, event: str, words: tuple[object, ...]) -> None:
        if not self._on or event not in STARTS:
            return
        # a path, or what stands for one: a shell's line, the name of the event
        first = words[0] if words else event
        raise RuntimeError(
            f"a test of {' and '.join(PURE)} starts nothing, and this one starts "
            f"{Path(str(first)).name}; move it to another lane"
        )


PURITY = Purity()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Hold the quick lanes to what they say. Not at the teardown: after the
    last test that ends what other lanes share, too.
    """
    with _held(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """As at the setup."""
    with _held(item):
        return (yield)


def _held(item: pytest.Item) -> AbstractContextManager[None]:
    return PURITY.on() if lane_of(item.path) in PURE else nullcontext()


@cache
def lane_of(path: Path) -> str | None:
    """Lane of a test file, or ``None`` for one that lies in no lane."""
    inside = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return inside[0] if len(inside) > 1 and inside[0] in LANES else None


def pytest_configure(config: pytest.Config) -> None:
    """Each lane is a marker."""
    for name, description in LANES.items():
        config.addinivalue_line("markers", f"{name}: starts {description}")
    config.addinivalue_line("markers", f"{WHOLE}: takes long, and is run with --all only")


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a lane has that is not for every change."""
    parser.addoption(
        "--all",
        action="store_true",
        help="run also what takes long (marked 'whole'; in the lanes cluster, mpi and spack)",
    )


def part_of(nodeid: str) -> str:
    """Part of the run that one worker gets whole, by a test's id: its
    file, or the folder that shares a mini-cluster.
    """
    file = PurePosixPath(nodeid.partition("::")[0])
    return str(file.parent if file.parent.parent.name == SHARING else file)


class LaneScheduling(LoadScopeScheduling):
    """Gives each worker a file at a time, in the order of the lanes,
    but first the folders that share a cluster.

    So what a file or folder sets up is set up once, and the longest
    parts have others beside them to their end.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        # otherwise the files with most tests would come first
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        """Name of the part of the run that a test belongs to (overrides pytest-xdist's)."""
        return part_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker the next part of the run (overrides
        pytest-xdist's): folders before files.
        """
        if folder := next((part for part in self.workqueue if not part.endswith(".py")), None):
            self.workqueue.move_to_end(folder, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LaneScheduling:
    """How tests are given to workers (hook of pytest-xdist)."""
    return LaneScheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # before options such as -k take tests away
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its lane, and put the lanes in their order.

    :raises pytest.UsageError: for a test that lies in none, and for a lane that has lost its tests.
    """
    # what was not asked for in part has to be whole
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        refuse_lost(TESTS, items)
    for item in items:
        lane = lane_of(item.path)
        if lane is None:
            raise pytest.UsageError(
                f"{item.path} lies in no lane: move it to a folder of {TESTS} ({', '.join(LANES)})"
            )
        item.add_marker(lane)
    if not config.getoption("--all") and (
        left_out := [item for item in items if item.get_closest_marker(WHOLE)]
    ):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    # Files named one by one, too, are run in the order of the lanes.
    items.sort(key=lambda item: list(LANES).index(lane_of(item.path) or ""))


def refuse_lost(folder: Path, items: list[pytest.Item]) -> None:
    """Refuse a lane without a test, and a file in a lane that
    pytest does not read because of its name.

    :raises pytest.UsageError: naming the lane or the file.
    """
    for lane in [name for name in LANES if name not in LEFT_OUT]:
        for path in sorted((folder / lane).rglob("*.py")):
            if not path.name.startswith("test_") and path.name != "conftest.py":
                raise pytest.UsageError(f"{path} is not read: pytest reads files called test_*.py")
        if not any(lane_of(item.path) == lane for item in items):
            raise pytest.UsageError(
                f"the lane {lane!r} has no test any more: {folder / lane} should have some"
            )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The time of each lane: that of its tests with what they set up, without collecting."""
    seconds: dict[str, float] = {}
    tests: dict[str, set[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                lane = lane_of(config.rootpath / report.nodeid.split("::")[0]) or ""
                seconds[lane] = seconds.get(lane, 0) + report.duration
                tests.setdefault(lane, set()).add(report.nodeid)
    if not seconds:
        return
    terminalreporter.section("lanes")
    for lane in LANES:
        if lane in seconds:
            terminalreporter.write_line(
                f"{lane:8} {len(tests[lane]):5d} tests {seconds[lane]:8.1f} s"
            )
