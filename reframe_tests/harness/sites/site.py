"""Sites: finds ``site_configs/*/system.py``, checks each and merges them into one ReFrame configuration.

A site adds itself with one folder; nothing here or in a test names a system. The folder's ``system.py`` holds
one dictionary called ``system``: ReFrame's own system dictionary, whose partitions carry ``extras.fabrics``.
The stacks a partition can enter come from the stacks' metadata files, never from ``system.py``.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import re
import runpy
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .. import former_names, optional_file, schema, yaml_file
from ..machine.fabric import Fabric, Rail
from ..machine.transport import AS_SHIPPED
from ..schedulers import spool
from ..vocabulary import PINNING_POLICIES, BadInput
from ..vocabulary import ROOT as ROOT
from . import references

#: The system that fits any machine; it must stay last, because ReFrame takes the first whose host names match.
FALLBACK_SYSTEM = "generic"
SYSTEM_SCHEMA = ROOT / "site_configs" / "system.schema.json"
DEFAULT_NODE_COUNTS = (2,)

#: Named option sets (``--mode``). ``level`` selects sizes and repetitions in the catalogue.
MODES: tuple[Mapping[str, Any], ...] = (
    # Is everything there and honest? Two placements, few sizes.
    {"name": "smoke", "options": ["-t smoke", "-S level=smoke", "-S repeats=3"]},
    # What a night has time for, with whole curves; references are used where there are any.
    {"name": "nightly", "options": ["-t production", "-S level=nightly", "-S repeats=3"]},
    # The whole matrix, to accept or refuse a system: more repeats, and a gated metric without a reference is a failure.
    {"name": "acceptance", "options": ["-S level=acceptance", "-S repeats=5", "-S require_reference=yes"]},
)


class SiteError(BadInput):
    """A site file that cannot be used."""


def system_files(root: Path = ROOT) -> list[Path]:
    """``system.py`` of every bundled or added system, the fallback last."""
    named = [folder / "system.py" for folder in sorted((root / "site_configs").glob("*"))]
    files = [path for path in named if optional_file.is_there(path)]
    return sorted(files, key=lambda path: path.parent.name == FALLBACK_SYSTEM)


def read_system(path: Path, schema_file: Path = SYSTEM_SCHEMA) -> dict[str, Any]:
    """The checked dictionary ``system`` of one ``system.py``.

    :raises SiteError: naming the file, the key and the remedy.
    """
    try:
        path.read_bytes()
    except OSError as error:
        raise SiteError(f"{path} cannot be read ({error.strerror}); correct the link or the rights, or remove it.") from error
    try:
        system = runpy.run_path(str(path)).get("system")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() among them, which would end whatever reads it, perhaps with status 0
        reason = " ".join(str(error).split())
        raise SiteError(f"{path} cannot be read ({type(error).__name__}: {reason}); correct the Python in it.") from error
    if not isinstance(system, dict):
        raise SiteError(f"{path} defines no dictionary called 'system'; copy site_configs/generic/system.py and edit it.")
    if fault := schema.find_fault(schema_file, system):
        remedy = f"expected {fault.expected}" if fault.expected else f"see {schema_file.name}"
        raise SiteError(f"{path}: key '{fault.key}': {fault.message}; {remedy}.")
    if system["name"] != path.parent.name:
        raise SiteError(
            f"{path}: key 'name' is {system['name']!r} but the folder is called {path.parent.name!r}; make them equal."
        )
    for partition in system["partitions"]:
        if spool.EXTRA in partition["extras"] and partition["scheduler"] not in spool.SHARED:
            raise SiteError(
                f"{path}: partition {partition['name']} has {spool.EXTRA}, and its scheduler is {partition['scheduler']!r}; "
                f"only those of {', '.join(spool.SHARED)} share allocations: remove it."
            )
        for fabric in fabrics_of(partition["extras"]).values():
            if fabric.expect and fabric.expect not in (names := [each.name for each in fabric.choices]):
                raise SiteError(
                    f"{path}: fabric {fabric.name} of partition {partition['name']} expects {fabric.expect!r}, which is not "
                    f"one of its other fabrics of scope {fabric.scope} "
                    f"({', '.join(names) or 'there is none'}); correct 'expect'."
                )
    return system


def fabrics_of(extras: Mapping[str, Any]) -> dict[str, Fabric]:
    """Fabrics a partition describes in its ``extras``, by name."""
    described = {
        name: Fabric(
            name=name,
            transport=row["transport"],
            scope=row["scope"],
            rails=tuple(Rail(**rail) for rail in row.get("rails", ())),
            mtu_bytes=row.get("mtu_bytes"),
            min_efficiency=row.get("min_efficiency"),
            tcp_interfaces=tuple(row.get("tcp_interfaces", ())),
            striped=row.get("striped", False),
            expect=row.get("expect", ""),
        )
        for name, row in extras.get("fabrics", {}).items()
    }
    forced = [fabric for fabric in described.values() if fabric.transport != AS_SHIPPED]
    return {
        name: fabric if fabric in forced else replace(fabric, choices=tuple(f for f in forced if f.scope == fabric.scope))
        for name, fabric in described.items()
    }


def node_counts_of(extras: Mapping[str, Any]) -> tuple[int, ...]:
    """Node counts a partition measures its cluster-wide fabrics on."""
    return tuple(extras.get("node_counts", DEFAULT_NODE_COUNTS))


def policies_of(extras: Mapping[str, Any]) -> tuple[str, ...]:
    """Pinning policies that mean something on a partition: ``nic_*`` only where a rail has a NUMA node."""
    placed = any(rail.numa_node is not None for fabric in fabrics_of(extras).values() for rail in fabric.rails)
    wanted = extras.get("pinning", PINNING_POLICIES)
    return tuple(policy for policy in PINNING_POLICIES if policy in wanted and (placed or not policy.startswith("nic_")))


def stack_patterns_of(extras: Mapping[str, Any]) -> tuple[str, ...]:
    """Shell patterns of the stacks a partition can enter."""
    return tuple(extras.get("stacks", ["*"]))


def fitting_stacks(extras: Mapping[str, Any], registered: Iterable[str]) -> list[str]:
    """Registered stacks a partition can enter, by name."""
    return [name for name in registered if any(fnmatch.fnmatchcase(name, each) for each in stack_patterns_of(extras))]


#: Roots whose systems and stacks ReFrame was given in this process; the last one counts.
LOADED: list[Path] = []


def unmatched_stacks(extras: Mapping[str, Any], registered: Iterable[str]) -> str:
    """Sentence on the patterns of a partition's ``extras.stacks`` that fit no registered stack; empty where all fit one."""
    names = list(registered)
    unmatched = [each for each in stack_patterns_of(extras) if not any(fnmatch.fnmatchcase(name, each) for name in names)]
    if not unmatched:
        return ""
    known = f"registered are {', '.join(names)}" if names else "none is registered ('ci/setup' builds the wheels stacks)"
    fit, what = ("fits", "it") if len(unmatched) == 1 else ("fit", "them")
    return (
        f"{', '.join(map(repr, unmatched))} in extras.stacks {fit} no stack, so nothing is measured for {what}; {known}; "
        "correct the pattern or build the stack."
    )


def references_file(system_name: str, root: Path = ROOT) -> Path:
    """Where a system keeps its learned references."""
    return root / "site_configs" / system_name / "references.yaml"


def read_references(system_name: str, root: Path = ROOT) -> Mapping[str, Any]:
    """A system's learned references, checked against its description; empty where it keeps none.

    Tests are there under the names they have today, whatever the file calls them.

    :raises ReferenceError: if it cannot be read, or an entry would never be looked up or can hold nothing.
    """
    learned = _learned(system_name, root)
    for fault in learned.faults:
        raise references.ReferenceError(fault.sentence)
    return learned.content


def reference_faults(system_name: str, root: Path = ROOT) -> tuple[references.ReferenceFault, ...]:
    """What is wrong with a system's learned references, each with the cases it concerns.

    :raises ReferenceError: if they cannot be read.
    """
    return _learned(system_name, root).faults


def former_names_in_references(system_name: str, root: Path = ROOT) -> tuple[str, ...]:
    """Names that tests had before and a system's learned references still use.

    :raises ReferenceError: if they cannot be read.
    """
    return _learned(system_name, root).former


def references_for_reframe(system_name: str, folder: Path, root: Path = ROOT) -> Path | None:
    """File in which ReFrame, which looks for the name of a test's class, finds a system's learned references.

    :param folder: for a copy, where the system's own file uses former names.
    :returns: ``None`` where the system keeps none.
    :raises ReferenceError: if they cannot be read.
    """
    learned = _learned(system_name, root)
    if not learned.content:
        return None
    path = references_file(system_name, root)
    if not learned.former:
        return path
    copy = folder / path.name
    copy.write_text(yaml.safe_dump(learned.content, sort_keys=False), encoding="utf-8")
    return copy


class _Learned(NamedTuple):
    """Learned references under today's names, the former names in their file, and what is wrong with it."""

    content: Mapping[str, Any]
    former: tuple[str, ...]
    faults: tuple[references.ReferenceFault, ...]


def _learned(system_name: str, root: Path) -> _Learned:
    """Read again only when a file has changed, because every case of a session asks."""
    path = references_file(system_name, root)
    described = path.with_name("system.py")
    stamps = tuple((file.stat().st_mtime_ns, file.stat().st_size) if file.exists() else None for file in (path, described))
    return _read_references(path, described, stamps) if optional_file.is_there(path) else _Learned({}, (), ())


@lru_cache(maxsize=16)
def _read_references(path: Path, described: Path, stamps: tuple[object, ...]) -> _Learned:
    try:
        content = yaml_file.read_mapping(path)
    except BadInput as error:
        raise references.ReferenceError(str(error)) from None
    system = read_system(described) if optional_file.is_there(described) else None
    faults = tuple(references.find_faults(str(path), content, system))
    former = tuple(test for test in content if test in former_names.TESTS)
    return _Learned(references.with_present_names(str(path), content), former, faults)


def _completed(system: dict[str, Any], environment_names: Iterable[str], root: Path) -> dict[str, Any]:
    """The system with what is generated: fabric names as features, stacks as environments."""
    names = list(environment_names)
    partitions = []
    for row in system["partitions"]:
        extras = row["extras"]
        if spool.EXTRA in extras:
            row = {**row, "scheduler": spool.SHARED[row["scheduler"]]}
        entered = fitting_stacks(extras, names)
        # In `builtin`, which has no feature that a test of stacks asks for, tests of nodes run.
        partitions.append(
            {
                **row,
                "features": sorted({*row.get("features", ()), *extras["fabrics"]}),
                "environs": list(dict.fromkeys([*row.get("environs", ()), *entered, "builtin"])),
            }
        )
    return {"prefix": str(root / "results"), **system, "partitions": partitions}


def configuration(root: Path = ROOT) -> tuple[dict[str, Any], list[str]]:
    """The whole ReFrame configuration, and a sentence for each stack that could not be registered.

    All systems, stacks as environments, modes, storage, logging.

    :raises SiteError: for a bad ``system.py``; the sentence names file, key and remedy.
    """
    from ..stacks import metadata

    stacks, problems = metadata.discover(root)
    environments = [metadata.environment_of(stack) for stack in stacks]
    names = [environment["name"] for environment in environments]
    systems = [_completed(read_system(path), names, root) for path in system_files(root)]
    results = root / "results"
    site_configuration = {
        "systems": systems,
        "environments": environments,
        "modes": [{**mode, "options": list(mode["options"])} for mode in MODES],
        "storage": [{"backend": "sqlite", "enable": True, "sqlite_db_file": str(results / "results.db")}],
        "general": [
            {
                # One number per line and thousands of lines: they go to the log file and the report.
                "perf_info_level": "debug2",
                # A finished local job is noticed within 0.2 s; the default backs off to 10 s.
                "poll_rate_max": 20,
                "poll_rate_min": 5,
                "topology_prefix": str(results / "topology" / socket.gethostname()),
                "report_file": str(results / "reports" / "run-{sessionid}.json"),
                "generate_file_reports": False,
            }
        ],
        "logging": [_logging()],
    }
    return site_configuration, problems


def log_level(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """The finest level of ReFrame's messages that are made: what ``-v`` asks for, and ``debug`` where anything is started.

    ReFrame 4.10 completes each message with every loggable attribute of its test before a handler refuses it or writes it: a
    third of the time of a dry run, which starts nothing that a message would be needed for. (``logging.level`` in its
    configuration reference; "undefined" lets all through.)

    :param words: command line of ``reframe``, whose ``-v`` make the terminal's level finer, one step each.
    """
    from ..session import session_folder

    steps = sum(word.count("v") for word in words if re.fullmatch(r"-[A-Za-z]+|--verb[a-z]*", word))
    if steps > 2 or environ.get("RFM_VERBOSE"):
        return "undefined"
    starts_nothing = session_folder.looks_up(words) or "--dry-run" in words
    return "verbose" if starts_nothing and steps < 2 else "debug"


def _logging() -> dict[str, Any]:
    """ReFrame's built-in handlers without its performance logs: their one file per test holds one size, ours all.

    The site's own monitoring gets the values if :mod:`.metrics_push` is given its address.
    """
    from ..session import metrics_push

    return {
        "level": log_level(sys.argv[1:], os.environ),
        "handlers$": [{"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}],
        "handlers": [
            {
                "type": "file",
                "name": os.devnull,  # load() names the file of this start
                "level": "debug",
                "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                "append": True,
            }
        ],
        "handlers_perflog": metrics_push.handlers(),
    }


def load(root: Path = ROOT) -> dict[str, Any]:
    """The configuration for ReFrame's ``site_configuration``; what is wrong is said in ReFrame's own way.

    From here on this start of ReFrame has folders and a log of its own (:mod:`.session_folder`).

    :raises reframe.core.exceptions.ConfigError: ReFrame prints its one sentence and stops.
    """
    from reframe.core.exceptions import ConfigError
    from reframe.core.logging import getlogger

    from ..launchers import backends
    from ..schedulers import slurm_shared
    from ..session import session_folder, session_labels
    from ..stacks import selection
    from . import named_tests, selected_tests, whole_run

    LOADED.append(root)
    # ReFrame opens its database there before it would make the folder.
    (root / "results").mkdir(exist_ok=True)
    name = session_folder.new_name()
    session_folder.separate(name)
    log = session_folder.log_file(root / "results", name, sys.argv[1:])
    session_folder.redirect_first_log(log, getlogger().logger.handlers)
    try:
        backends.register()
        slurm_shared.register()
        session_labels.check(sys.argv[1:])
        named_tests.check(sys.argv[1:])
        site_configuration, problems = configuration(root)
        selection.check(sys.argv[1:], [row["name"] for row in site_configuration["environments"]], problems)
        listeners = [*selected_tests.handlers(), *whole_run.handlers()]
    except BadInput as error:
        raise ConfigError(str(error)) from None  # ReFrame would say the sentence of a cause once more
    for mode in site_configuration["modes"]:
        mode["options"] += selection.mode_options(sys.argv[1:])
    site_configuration["logging"][0]["handlers"][0]["name"] = str(log)
    site_configuration["logging"][0]["handlers"] += listeners
    Path(site_configuration["storage"][0]["sqlite_db_file"]).parent.mkdir(exist_ok=True)
    for problem in problems:
        getlogger().warning(problem)
    _expect_fallback_redefined()
    return site_configuration


def _expect_fallback_redefined() -> None:
    """Keep ReFrame from warning, at each start, that ``generic`` replaces its built-in example: it does so on purpose."""

    from reframe.core.logging import getlogger

    def wanted(record: logging.LogRecord) -> bool:
        return not re.search(rf"redefinition of (system|partition) '{FALLBACK_SYSTEM}\b.*'<builtin>'", record.getMessage())

    for handler in getlogger().logger.handlers:
        handler.addFilter(wanted)
