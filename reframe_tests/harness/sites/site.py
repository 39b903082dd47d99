"""Sites: how their systems (:mod:`.systems`) are measured, and all of them as one ReFrame
configuration.

The stacks of a partition come from the stacks' metadata files, never from a system's description.
"""

from __future__ import annotations

import fnmatch
import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from .. import batch_systems, command_line, optional_file, tools, yaml_file
from ..launchers.schedulers import spool
from ..vocabulary import PINNING_POLICIES, BadInput
from ..vocabulary import ROOT as ROOT
from . import centre as centres
from . import planned_cases, references, systems
from .centre import Centre
from .session import session_folder
from .systems import FALLBACK_SYSTEM as FALLBACK_SYSTEM
from .systems import SiteError as SiteError
from .systems import fabrics_of as fabrics_of
from .systems import read_system as read_system
from .systems import system_files as system_files

DEFAULT_NODE_COUNTS = (2,)

#: Tag of the core list (:data:`CORE`).
CORE_TAG = "core"
_CURVES = ("-S level=nightly", "-S repeats=3")
#: Named option sets (``--mode``). ``level`` selects sizes and repetitions in the catalogue.
#: ``on_batch``: those where a batch system runs the jobs, if they are others; ``budget``: of a
#: night there, unless somebody says otherwise.
MODES: tuple[Mapping[str, Any], ...] = (
    # Is everything there and honest? Two placements, few sizes.
    {"name": "smoke", "options": ("-t smoke", "-S level=smoke", "-S repeats=3")},
    # What a night has time for, with whole curves; references are used where there are any.
    {
        "name": "nightly",
        "options": ("-t production", *_CURVES),
        "on_batch": (f"-t ^{CORE_TAG}$", *_CURVES),
        "budget": "10m",
    },
    # The matrix at the depth of a night, say after maintenance.
    {"name": "wide", "options": ("-t production", *_CURVES), "budget": "8h"},
    # The whole matrix, to accept or refuse a system: more repeats, and a
    # gated metric without a reference is a failure.
    {
        "name": "acceptance",
        "options": ("-S level=acceptance", "-S repeats=5", "-S require_reference=yes"),
    },
)


class CoreRow(NamedTuple):
    """One question of the core list.

    :param tests: of which each stack measures the first that it can,
        on each fabric and number of nodes.
    :param ppn: ranks on a node; inside one ``1`` is the fewest there can be, 2,
        and in GPU memory ``full`` one for each.
    :param fewest: on the smallest of a partition's node counts only.
    :param once: one stack is enough: it is about the network.
    """

    tests: tuple[str, ...]
    ppn: tuple[str, ...]
    fewest: bool = False
    once: bool = False


#: What a night on a batch system measures, each under the one usual pinning.
CORE = (
    CoreRow(("ImbPointToPoint", "OsuPointToPoint", "Mpi4pyPingPong"), ("1",)),
    CoreRow(("ImbParallelTransfer", "OsuParallelTransfer"), ("full",), fewest=True),
    CoreRow(("ImbAllreduceAlltoall", "OsuAllreduceAlltoall"), ("full",)),
    CoreRow(("PairTurn",), ("1", "gpu"), once=True),
)


def on_batch(system: Mapping[str, Any]) -> bool:
    """Whether a batch system runs any job of a system that measures something."""
    return any(
        row["scheduler"] != "local" for row in system["partitions"] if row["extras"].get("fabrics")
    )


def options_of_mode(mode: Mapping[str, Any], batch: bool) -> list[str]:
    return list((batch and mode.get("on_batch")) or mode["options"])


#: Variable with the addresses of a site's own monitoring; a tool sends values there.
METRICS = "MPIBENCH_METRICS"
#: Variable that bounds how many jobs of each partition are queued or run at once (ReFrame's
#: ``max_jobs``, if that is larger).
MOST_JOBS = "MPIBENCH_MAX_JOBS"


def node_counts_of(extras: Mapping[str, Any]) -> tuple[int, ...]:
    """Node counts a partition measures its cluster-wide fabrics on."""
    return tuple(extras.get("node_counts", DEFAULT_NODE_COUNTS))


def policies_of(extras: Mapping[str, Any]) -> tuple[str, ...]:
    """Pinning policies that apply to a partition: ``nic_*`` only if a rail has a NUMA node,
    ``gpu_*`` only if a GPU has one.
    """
    rails = [rail.numa_node for fabric in fabrics_of(extras).values() for rail in fabric.rails]
    known = {"nic": rails, "gpu": [gpu.numa_node for gpu in systems.gpus_of(extras)]}
    idle = tuple(f"{word}_" for word, homes in known.items() if all(home is None for home in homes))
    wanted = extras.get("pinning", PINNING_POLICIES)
    return tuple(
        policy for policy in PINNING_POLICIES if policy in wanted and not policy.startswith(idle)
    )


def fitting_stacks(extras: Mapping[str, Any], registered: Iterable[str]) -> list[str]:
    """Registered stacks a partition can enter, by name; its
    ``extras.stacks`` are shell patterns.
    """
    return [
        name
        for name in registered
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in extras.get("stacks", ["*"]))
    ]


#: Roots whose systems and stacks ReFrame was given in this process; the last one counts.
LOADED: list[Path] = []


def unmatched_stacks(extras: Mapping[str, Any], registered: Iterable[str]) -> str:
    """Sentence on the patterns of a partition's ``extras.stacks`` that fit
    no registered stack; empty if all fit one.
    """
    names = list(registered)
    unmatched = [
        repr(pattern)
        for pattern in extras.get("stacks", ["*"])
        if not fnmatch.filter(names, pattern)
    ]
    if not unmatched:
        return ""
    known = (
        f"registered are {', '.join(names)}"
        if names
        else "none is registered (run ci/setup for the wheels stacks)"
    )
    fit, pronoun = ("fits", "it") if len(unmatched) == 1 else ("fit", "them")
    return (
        f"{', '.join(unmatched)} in extras.stacks {fit} no stack, so nothing is measured for "
        f"{pronoun}; {known}; correct the pattern, or build the stack."
    )


def left_unmeasured(system_name: str, root: Path = ROOT) -> list[str]:
    """A sentence for each partition on which something is never measured: it names stacks that are
    not registered, or it comes from a centre's own ReFrame configuration and lacks something. None
    for an undescribed system.

    :raises SiteError: for a bad file.
    """
    from ..stacks import metadata

    registered = [stack.name for stack in metadata.discover(root)[0]]
    partitions = (systems.find(system_name, root) or {}).get("partitions", ())
    sentences = [
        f"{system_name}:{row['name']}: {sentence}"
        for row in partitions
        if row["extras"].get("fabrics")
        and (sentence := unmatched_stacks(row["extras"], registered))
    ]
    lacking = [
        shortcoming
        for shortcoming in systems.shortcomings(system_name, root)
        if not shortcoming.note
    ]
    return sentences + [f"{shortcoming.place}: {shortcoming.sentence}" for shortcoming in lacking]


def references_file(system_name: str, root: Path = ROOT) -> Path:
    """Where a system keeps its learned references."""
    return systems.folder_of(system_name, root) / "references.yaml"


def read_references(system_name: str, root: Path = ROOT) -> Mapping[str, Any]:
    """A system's learned references, checked against its description; empty if it keeps none.

    :raises ReferenceError: if it cannot be read, or an entry would
        never be looked up or can hold nothing.
    """
    content, faults = _learned(system_name, root)
    for fault in faults:
        raise references.ReferenceError("system-description", fault.sentence)
    return content


def reference_faults(system_name: str, root: Path = ROOT) -> tuple[references.ReferenceFault, ...]:
    """What is wrong with a system's learned references, each with the cases it concerns.

    :raises ReferenceError: if they cannot be read.
    """
    return _learned(system_name, root)[1]


def references_for_reframe(system_name: str, root: Path = ROOT) -> Path | None:
    """File in which ReFrame finds a system's learned references;
    ``None`` if the system keeps none.

    :raises ReferenceError: if they cannot be read.
    """
    return references_file(system_name, root) if _learned(system_name, root)[0] else None


#: Learned references, and what is wrong with them.
_Learned = tuple[Mapping[str, Any], tuple[references.ReferenceFault, ...]]


def _learned(system_name: str, root: Path) -> _Learned:
    """Read again only when a file has changed, because every case of a session asks."""
    path = references_file(system_name, root)
    describing = (path, path.with_name("system.py"), *centres.files(root))
    stamps = tuple(
        (file.stat().st_mtime_ns, file.stat().st_size) if file.exists() else None
        for file in describing
    )
    return (
        _read_references(path, system_name, root, stamps)
        if optional_file.is_there(path)
        else ({}, ())
    )


@lru_cache(maxsize=16)
def _read_references(
    path: Path, system_name: str, root: Path, stamps: tuple[object, ...]
) -> _Learned:
    try:
        content = yaml_file.read_mapping(path)
    except BadInput as error:
        raise references.ReferenceError("system-description", str(error)) from None
    return content, tuple(
        references.find_faults(str(path), content, systems.find(system_name, root))
    )


def most_jobs(environ: Mapping[str, str] = os.environ) -> int | None:
    """What :data:`MOST_JOBS` asks for; ``None`` if it is not set.

    :raises BadInput: no number of jobs.
    """
    return _number_in(MOST_JOBS, environ, "jobs")


def _number_in(variable: str, environ: Mapping[str, str], what: str) -> int | None:
    text = environ.get(variable, "")
    if text and not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise BadInput(
            "bad-option", f"{variable}={text} is not a number of {what}: give 1 or more."
        )
    return int(text) if text else None


def _completed(
    system: dict[str, Any], environment_names: Iterable[str], root: Path
) -> dict[str, Any]:
    """The system with what is generated: fabric names as features, stacks as environments.

    A partition of the centre's without fabrics stays as it is, and
    so does a system of such partitions.
    """
    names = list(environment_names)
    partitions = []
    most = most_jobs()
    shared = _number_in(spool.VARIABLE, os.environ, "minutes")
    for row in system["partitions"]:
        extras = row["extras"]
        if not extras.get("fabrics"):
            partitions.append(row)
            continue
        if row["scheduler"] in spool.SHARED:
            planned = planned_cases.minutes_of(system["name"], row["name"])
            if minutes := shared or (planned if spool.EXTRA not in extras else 0):
                extras = {**extras, spool.EXTRA: {"minutes": minutes}}
                row = {**row, "extras": extras}
        # In `builtin`, which has no feature that a test of stacks asks for, tests of nodes run.
        environs = [*row.get("environs", ()), *fitting_stacks(extras, names), "builtin"]
        row = {
            **row,
            "features": sorted({*row.get("features", ()), *fabrics_of(extras)}),
            "environs": list(dict.fromkeys(environs)),
        }
        if most:
            row["max_jobs"] = min(most, row.get("max_jobs", most))
        if row["scheduler"] in batch_systems.SLURM.schedulers:
            reasons = {"slurm_job_cancel_reasons": list(batch_systems.SLURM_NEVER_STARTS)}
            row["sched_options"] = {**reasons, **row.get("sched_options", {})}
        if extras.get(spool.EXTRA, False) is not False:
            row["scheduler"] = spool.SHARED[row["scheduler"]]
        partitions.append(row)
    prefix = (
        {"prefix": str(root / "results")}
        if any(row["extras"].get("fabrics") for row in partitions)
        else {}
    )
    return {**prefix, **system, "partitions": partitions}


# ---- ReFrame's own settings: `general` and `logging`, with the centre's where it has some ----


def general_settings(
    results: Path, own_systems: Iterable[str], centre: Centre | None
) -> list[dict[str, Any]]:
    """Entries of ``general``.

    :param results: folder of the results.
    :param own_systems: names of the systems that the project describes by itself.
    :param centre: its settings stay, and where it keeps detected topologies is
        where ReFrame looks for them on its systems.
    """
    ours = {
        # One number per line and thousands of lines: they go to the log file and the report.
        "perf_info_level": "debug2",
        # A finished local job is noticed within 0.2 s; the default backs off to 10 s.
        "poll_rate_max": 20,
        "poll_rate_min": 5,
        "report_file": str(results / "reports" / "run-{sessionid}.json"),
        "generate_file_reports": False,
    }
    topologies = {"topology_prefix": str(results / "topology" / socket.gethostname())}
    if centre is None:
        return [{**ours, **topologies}]
    if "report_file" in centre.general:
        del ours["generate_file_reports"]
    kept = {key: value for key, value in ours.items() if key not in centre.general}
    return [kept, {"target_systems": list(own_systems), **topologies}]


def log_level(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """The finest level of ReFrame's messages that are made: what ``-v`` asks
    for, and ``debug`` where anything is started.

    ReFrame 4.10 completes each message with every loggable attribute of its test before a handler
    refuses it or writes it: a third of the time of a dry run, which starts nothing that a message
    would be needed for. (``logging.level`` in its configuration reference; "undefined" lets all
    through.)

    :param words: command line of ``reframe``, whose ``-v`` make the
        terminal's level finer, one step each.
    """
    steps = sum(word.count("v") for word in words if re.fullmatch(r"-[A-Za-z]+|--verb[a-z]*", word))
    if steps > 2 or environ.get("RFM_VERBOSE"):
        return "undefined"
    starts_nothing = session_folder.looks_up(words) or "--dry-run" in words
    return "verbose" if starts_nothing and steps < 2 else "debug"


def logging_settings(log: str, centre: Centre | None) -> list[dict[str, Any]]:
    """Entries of ``logging``: ReFrame's built-in handlers without its performance logs, whose one
    file per test holds one size, ours all; and what the centre has instead of the built-in ones.

    :param log: file of this start's log.
    :raises BadInput: the site's own monitoring is to get the values, and no tool sends them there.
    """
    ours: dict[str, Any] = {
        "level": log_level(sys.argv[1:], os.environ),
        "handlers$": [
            {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}
        ],
        "handlers": [
            {
                "type": "file",
                "name": log,
                "level": "debug",
                "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                "append": True,
            }
        ],
        "handlers_perflog": (
            tools.find(tools.HANDLERS, METRICS, METRICS)() if os.environ.get(METRICS) else []
        ),
    }
    entries = [dict(entry) for entry in centre.logging] if centre else []
    everywhere = [entry for entry in entries if "*" in entry.get("target_systems", ["*"])]
    rows = [_joined(ours, entry) for entry in entries if entry not in everywhere]
    whole = dict(ours)
    for entry in everywhere:
        whole |= _joined(ours, entry)
    whole.pop("target_systems", None)
    return [whole, *rows]


def _joined(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the centre's, with our handlers beside its own, and
    at a level that all of them can live with.

    For what was measured ours come first: ReFrame's own raise where a server refuses, and no
    handler behind gets the record.
    """
    from reframe.core.logging import level_from_str

    joined = dict(theirs)
    if "handlers" in theirs:
        joined["handlers"] = [*theirs["handlers"], *ours["handlers"]]
    if "handlers_perflog" in theirs:
        joined["handlers_perflog"] = [*ours["handlers_perflog"], *theirs["handlers_perflog"]]
    if "handlers" in theirs or "level" in theirs:
        # Unless it says otherwise, ReFrame makes all messages.
        joined["level"] = min(theirs.get("level", "undefined"), ours["level"], key=level_from_str)
    return joined


def configuration(root: Path = ROOT, log: str = os.devnull) -> tuple[dict[str, Any], list[str]]:
    """The whole ReFrame configuration, and a sentence for each stack that could not be registered.

    All systems, stacks as environments, modes, storage, logging.

    :param log: file of this start's log.
    :raises SiteError: for a bad ``system.py``; the sentence names file, key and remedy.
    """
    from ..stacks import metadata

    stacks, problems = metadata.discover(root)
    environments = [metadata.environment_of(stack) for stack in stacks]
    stack_names = [environment["name"] for environment in environments]
    centre = centres.read(root)
    described = systems.read_all(root)
    results = root / "results"
    places: dict[bool, list[str]] = {}
    for row in described:
        places.setdefault(on_batch(row), []).append(row["name"])
    own = [
        row["name"]
        for row in described
        if not centre or row["name"] not in {system["name"] for system in centre.systems}
    ]
    site_configuration = {
        "systems": [_completed(system, stack_names, root) for system in described],
        "environments": environments,
        "modes": [
            {"name": mode["name"], "options": options_of_mode(mode, batch), "target_systems": names}
            for batch, names in places.items()
            for mode in MODES
        ],
        "storage": [
            {"backend": "sqlite", "enable": True, "sqlite_db_file": str(results / "results.db")}
        ],
        "general": general_settings(results, own, centre),
        "logging": logging_settings(log, centre),
    }
    return site_configuration, problems


def load(root: Path = ROOT) -> dict[str, Any]:
    """The configuration for ReFrame's ``site_configuration``; what
    is wrong is said in ReFrame's own way.

    From here on this ReFrame has its own folders and log (:mod:`.session_folder`).

    :raises reframe.core.exceptions.ConfigError: ReFrame prints its one sentence and stops.
    """
    from reframe.core.exceptions import ConfigError
    from reframe.core.logging import getlogger

    from .. import upstream
    from ..launchers import registry as launchers
    from ..launchers.schedulers import slurm_shared
    from ..stacks import selection
    from . import selected_tests

    LOADED.append(root)
    # ReFrame opens its database there before it would make the folder.
    (root / "results").mkdir(exist_ok=True)
    name = session_folder.new_name()
    session_folder.separate(name)
    log = session_folder.log_file(root / "results", name, sys.argv[1:])
    session_folder.redirect_first_log(log, getlogger().logger.handlers)
    try:
        launchers.register()
        slurm_shared.register()
        upstream.search_not(selected_tests.SHARED)
        selected_tests.watch()
        session_folder.check_labels(sys.argv[1:])
        command_line.check_settings(sys.argv[1:])
        centres.take(sys.argv[1:], root)
        site_configuration, problems = configuration(root, str(log))
        centre, named = (
            centres.read(root),
            command_line.arguments(sys.argv[1:], {"--system": "system"})["system"],
        )
        if centre and not named and not os.environ.get("RFM_SYSTEM"):
            systems.select(None, root)  # refuses what ReFrame would choose by the order of files
        partitions = {
            row["name"]: [part["name"] for part in row["partitions"]]
            for row in site_configuration["systems"]
        }
        modes = dict.fromkeys(row["name"] for row in site_configuration["modes"])
        command_line.check_named(
            sys.argv[1:], os.environ, partitions, [*modes, *(centre.modes if centre else ())]
        )
        environments = {row["name"] for row in site_configuration["environments"]} | (
            centre.environments if centre else set()
        )
        selection.check(sys.argv[1:], environments, problems)
    except BadInput as error:
        # ReFrame would say the sentence of a cause once more
        raise ConfigError(str(error)) from None
    for mode in site_configuration["modes"]:
        mode["options"] += selection.mode_options(sys.argv[1:])
    Path(site_configuration["storage"][0]["sqlite_db_file"]).parent.mkdir(exist_ok=True)
    for problem in problems:
        getlogger().warning(problem)
    # ReFrame would warn, at each start, of what is done on purpose: ``generic`` replaces its
    # built-in example, and the centre's systems are given again, completed.
    names = (FALLBACK_SYSTEM, *(system["name"] for system in (centre.systems if centre else ())))
    again = re.compile(
        rf"redefinition of (system|partition) '({'|'.join(map(re.escape, names))})\b.*'"
    )
    for handler in getlogger().logger.handlers:
        handler.addFilter(lambda record: not again.search(record.getMessage()))
    return site_configuration
