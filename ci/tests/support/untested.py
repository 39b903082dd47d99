"""At the end of a test run: what was not tested, and why. Plugin of pytest, loaded by ``conftest``.

A test that is skipped says nothing, and hundreds of them look like success. So they are counted by
what was missing, each a *need*; and where continuous integration runs as root, which can have
everything, a need that was not met fails the run unless ``MPIBENCH_MAY_SKIP`` allows it by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

#: Variable with the names of needs that may go without, separated by blanks.
ALLOWED = "MPIBENCH_MAY_SKIP"
#: Need of a skip that no other need knows.
OTHER = "other"
#: No need of these tests: ``.ci/run`` asks it of what it calls after them.
BARE_MACHINE = "bare-machine"
#: Need to what is missing; a remedy is in each test's own reason, which begins with the need:
#: ``[browser] no Chromium here``.
NEEDS: dict[str, str] = {
    "cluster": "the mini-cluster",
    "spack": "a Spack, or what is built with it",
    "spack-mpi": "an MPI, a compiler or a suite that Spack need not build",
    "stacks": "the wheels stacks",
    "host-mpi": "Debian's Open MPI and MPICH",
    "modules": "Lmod or Environment Modules",
    "browser": "a browser",
    "compiler": "a C compiler",
    "sources": "release tarballs of OSU, IMB and axe-core, and wheels installed on request",
    "cores": "enough cores",
    "numa": "another number of NUMA nodes",
    "pushgateway": "Prometheus, its Pushgateway and InfluxDB",
    "python": "a Python for every user",
    "git": "git",
    "debian": "a Debian-like machine",
    "namespaces": "namespaces",
    "root": "root, or a user who is not",
}
_NEED = re.compile(r"\[(?P<name>[a-z-]+)\] (?P<reason>.*)", re.DOTALL)


@dataclass(frozen=True)
class Skip:
    """Skipped tests of one need that gave the same reason."""

    need: str
    reason: str
    tests: int


def need_of(reason: str) -> tuple[str, str]:
    """Name of what a skipped test needed, and its reason without it."""
    match = _NEED.fullmatch(reason)
    return (match["name"], match["reason"]) if match and match["name"] in NEEDS else (OTHER, reason)


def group(reasons: Iterable[str]) -> list[Skip]:
    """Skipped tests by need and reason, the largest groups first."""
    counts: dict[tuple[str, str], int] = {}
    for reason in reasons:
        key = need_of(reason.removeprefix("Skipped: "))
        counts[key] = counts.get(key, 0) + 1
    return sorted(
        (Skip(need, reason, tests) for (need, reason), tests in counts.items()),
        key=lambda row: (-row.tests, row.reason),
    )


def allowed(environ: Mapping[str, str]) -> set[str]:
    """Needs that may go without.

    :raises pytest.UsageError: for a name that is not a need.
    """
    names = set(environ.get(ALLOWED, "").split())
    if unknown := names - {*NEEDS, OTHER, BARE_MACHINE}:
        raise pytest.UsageError(
            f"{ALLOWED} names {min(unknown)!r}; there are "
            f"{', '.join([*NEEDS, OTHER, BARE_MACHINE])}"
        )
    return names


def must_be_whole(environ: Mapping[str, str], root: bool) -> bool:
    """Whether a need that was not met fails the run: in continuous integration, as root."""
    return environ.get("CI") == "true" and root


def refused(skips: Iterable[Skip], environ: Mapping[str, str], root: bool) -> list[str]:
    """Needs that were not met and had to be."""
    if not must_be_whole(environ, root):
        return []
    return sorted({skip.need for skip in skips} - allowed(environ))


def _skips(config: pytest.Config) -> list[Skip]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    # Of a skipped test, longrepr is (path, line, reason); of one
    # expected to fail (xfail), something else.
    return group(report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple))


def pytest_configure(config: pytest.Config) -> None:
    """A misspelt name is reported before an hour of tests."""
    allowed(os.environ)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A need that had to be met and was not makes the run fail."""
    if (
        refused(_skips(session.config), os.environ, os.geteuid() == 0)
        and session.exitstatus == pytest.ExitCode.OK
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The table."""
    skips = _skips(config)
    if not skips:
        return
    terminalreporter.section("not tested")
    width = max(len(skip.need) for skip in skips)
    for skip in skips:
        terminalreporter.write_line(f"{skip.tests:5d}  {skip.need:{width}}  {skip.reason}")
    if names := refused(skips, os.environ, os.geteuid() == 0):
        missing = ", ".join(f"{name} ({NEEDS.get(name, 'see above')})" for name in names)
        terminalreporter.write_line(
            "FAILED: continuous integration as root must test everything, and this was skipped: "
            f"{missing}. Provide it, or allow it by name: {ALLOWED}='{' '.join(sorted(names))}'.",
            red=True,
        )
