"""The files beside a ``system.py``: all are checked before anything is measured, including those
that are needed only later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mpibench.judge import expected, policy
from reframe_tests.harness import tools
from reframe_tests.harness.cases.preflight import rules
from reframe_tests.harness.sites import site, systems, tuned_settings
from reframe_tests.harness.vocabulary import BadInput, meant

#: Takes a system and the root; raises :class:`BadInput` for what cannot be used.
Read = Callable[[Mapping[str, Any], Path], object]


def _read_rules(system: Mapping[str, Any], root: Path) -> None:
    for rdma in (False, True):
        rules.load(system["name"], root, [row["name"] for row in system["partitions"]], rdma=rdma)


def _read_tuned(system: Mapping[str, Any], root: Path) -> None:
    for record in sorted(
        systems.folder_of(system["name"], root).glob(f"tuning/*/*/{tuned_settings.NAME}")
    ):
        tuned_settings.read(record.parent)


#: Name in a system's folder to what reads it.
FILES: dict[str, Read] = {
    # An entry that cannot be used concerns its own cases: these fail, and doctor names it.
    "references.yaml": lambda system, root: site.reference_faults(system["name"], root),
    "policy.yaml": lambda system, root: policy.load(system["name"], root),
    "expected.yaml": lambda system, root: expected.load_file(system["name"], root),
    rules.FILE: _read_rules,
    "tuning": _read_tuned,
    **{name: tool.check for name, tool in tools.load(tools.FILES).items()},
}
#: Read where the system itself is, by Spack, and by tools.
OTHERS = ("system.py", "spack", "published")


def faults(system: Mapping[str, Any], root: Path = site.ROOT) -> Iterator[tuple[str, str]]:
    """The files of a system that cannot be used, each with the sentence on it."""
    for name, read in FILES.items():
        try:
            read(system, root)
        except BadInput as error:
            yield name, str(error)


def unread(system: Mapping[str, Any], root: Path = site.ROOT) -> Iterator[tuple[str, str]]:
    """Files of a system that look like one of :data:`FILES` and that nothing reads."""
    folder = systems.folder_of(system["name"], root)
    for path in sorted(
        {*folder.glob("*.yaml"), *folder.glob("*.yml")} - {folder / name for name in FILES}
    ):
        yield (
            path.name,
            f"nothing reads {path}{meant(path.name, FILES)}: rename it, or move it elsewhere",
        )
