"""One ReFrame, one job: the cases that vet nodes, on exactly these nodes, and their session."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mpibench import own_reframe
from mpibench.judge.plan import record
from mpibench.night import remeasuring, supervision
from mpibench.store.sessions import Session, read_report
from mpibench.store.store import Store
from reframe_tests.harness import batch_systems
from reframe_tests.harness.launchers.schedulers import spool
from reframe_tests.harness.machine.fabric import Fabric
from reframe_tests.harness.printable import first_line
from reframe_tests.harness.sites import systems
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import ROOT, BadInput, meant

from .reasons import FACTS, MEMORY, PAIRS, WIRE
from .slurm import SlurmNode

#: Labels of the session: it is no night of any series.
KIND = "vet"
#: Minutes that all of it may take, the queue's time included, and that its job may last.
LIMIT_MINUTES = 20
#: Rounds of a sample of pairs, from so many nodes on: all pairs of fewer are measured.
ROUNDS = 16
ALL_PAIRS_TO = 64
WIRE_ROUNDS = 3
#: Fewest nodes that can be looked at.
FEWEST = {FACTS: 1, WIRE: 3, PAIRS: 2, MEMORY: 1}
#: Tests that measure something, by what is looked at.
MEMORY_FILE = Path(__file__).with_name("node_memory.py")
_ERROR = re.compile(r"^(?:ERROR: |reframe: )(.*)", re.MULTILINE)
#: Slurm's partition in ReFrame's ``access``.
_PARTITION = re.compile(r"(?:--partition[= ]|-p ?)(\S+)")


@dataclass(frozen=True)
class VetPlace:
    """Where nodes are vetted: a partition of the site's description, and a fabric of it.

    :param queue: Slurm's partition; empty: Slurm's default one.
    """

    system: str
    partition: str
    queue: str
    fabric: Fabric
    scheduler: str


def find_place(
    nodes: Sequence[SlurmNode], system: str | None, partition: str | None, fabric: str | None
) -> VetPlace:
    """The partition that has all the nodes; of several the first of the site's description.

    :raises BadInput: none has, or it has no such fabric.
    """
    described = systems.select(system)
    rows = [
        row
        for row in described["partitions"]
        if row.get("scheduler") in batch_systems.SLURM.schedulers
    ]
    if not rows:
        raise BadInput(
            "scheduler-unusable",
            f"no partition of system '{described['name']}' has Slurm as its scheduler: without "
            "Slurm, only mpibench vet --local works.",
        )
    if partition and partition not in [row["name"] for row in rows]:
        known = [row["name"] for row in rows]
        raise BadInput(
            "unknown-name",
            f"--partition {partition} is not one of {', '.join(known)}{meant(partition, known)}.",
        )
    places = []
    for row in rows:
        words = " ".join(map(str, row.get("access", ())))
        queue = match[1] if (match := _PARTITION.search(words)) else ""
        between = [
            one
            for one in systems.fabrics_of(row["extras"]).values()
            if not one.within_node and not one.memory.on_gpu and not one.choices
        ]
        if partition not in (None, row["name"]) or not between:
            continue
        if fabric and fabric not in [one.name for one in between]:
            continue
        chosen = next((one for one in between if one.name == fabric), between[0])
        scheduler = row["scheduler"]
        places.append(VetPlace(described["name"], row["name"], queue, chosen, scheduler))
    if not places:
        raise BadInput(
            "unknown-name",
            f"no partition of system '{described['name']}' has "
            f"{f'the fabric {fabric}' if fabric else 'a fabric between nodes'} as requested.",
        )
    for place in places:
        if all(not place.queue or place.queue in node.partitions for node in nodes):
            return place
    kinds = {", ".join(node.partitions) or "none": node.name for node in nodes}
    where = "; ".join(f"{name} is in {queues}" for queues, name in kinds.items())
    raise BadInput(
        "not-comparable",
        f"no described partition has all of these nodes ({where}): vet the nodes of each partition "
        "separately.",
    )


def find_stack(place: VetPlace) -> str:
    """The first stack by which pairs can be measured there.

    :raises BadInput: none is.
    """
    words = [
        "-n",
        pattern_of("PairMap", place.fabric),
        f"--system={place.system}:{place.partition}",
    ]
    cases = record.ask(words).cases
    if not cases:
        raise BadInput(
            "stack-unusable",
            f"no stack can measure pairs over {place.fabric.name} on {place.partition}: see "
            "mpibench doctor, or remove pairs from --check.",
        )
    return str(cases[0].stack)


def pattern_of(test: str, fabric: Fabric) -> str:
    return rf"{test}%fabric={re.escape(fabric.name)}(?:%|$)"


def words(
    place: VetPlace, nodes: Sequence[str], checks: Sequence[str], stack: str, options: Sequence[str]
) -> list[str]:
    """ReFrame's command line.

    :param options: of the job, for ``-J``.
    """
    count = len(nodes)
    names = {
        FACTS: "NodePreflight$",
        PAIRS: rf"PairMap%fabric={re.escape(place.fabric.name)}%.*pinning=default",
        WIRE: "|".join(pattern_of(f"{test}Map", place.fabric) for test in catalogue.WIRES.values()),
        MEMORY: "MemoryOfNodes",
    }
    wanted = [names[check] for check in checks]
    wire = 0 if count <= WIRE_ROUNDS else WIRE_ROUNDS
    settings = {
        FACTS: [f"NodePreflight.node_count={count}"],
        PAIRS: [f"PairMap.rounds={0 if count <= ALL_PAIRS_TO else ROUNDS}"],
        WIRE: [
            f"{test}Map.{setting}"
            for test in catalogue.WIRES.values()
            for setting in (f"nodes={count}", "orders=1", f"rounds={wire}")
        ],
        MEMORY: [f"MemoryOfNodes.node_count={count}"],
    }
    given = [f"nodelist={','.join(nodes)}", *options]
    return [
        own_reframe.locate(),
        "--nocolor",
        "-c",
        "reframe_tests",
        *(["-c", str(MEMORY_FILE)] if MEMORY in checks else []),
        "-r",
        "-n",
        f"^(?:{'|'.join(wanted)})",
        f"--system={place.system}:{place.partition}",
        "-p",
        rf"^(?:builtin{'|' if stack else ''}{re.escape(stack)})$",
        *(word for option in given for word in ("-J", option)),
        *(["-P", f"nodes={count}"] if PAIRS in checks else []),
        *(word for check in checks for setting in settings[check] for word in ("-S", setting)),
        "--session-extras",
        f"run={KIND},kind={KIND}",
    ]


def measure(
    command: Sequence[str],
    folder: Path,
    database: Path,
    store: Store,
    own_nodes: Sequence[str] = (),
) -> Session:
    """Run it, and export its session.

    :param folder: for log and run report; made anew.
    :param own_nodes: of the job that this command runs in, to measure there; none: in a job of its
        own.
    :raises BadInput: ReFrame ended before it could store a session.
    :raises Interrupted: by a signal, after its job was cancelled.
    """
    # ReFrame starts in the checkout.
    folder = folder.absolute()
    database = database.absolute()
    database.parent.mkdir(parents=True, exist_ok=True)
    remeasuring.check_database(database)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise BadInput(
            "cannot-write",
            f"cannot write {folder} ({error.strerror}): free space or correct permissions.",
        ) from None
    report = folder / "run-report.json"
    log = folder / "reframe.log"
    environ = {
        **os.environ,
        "RFM_GENERATE_FILE_REPORTS": "yes",
        spool.VARIABLE: str(LIMIT_MINUTES),
        "RFM_SQLITE_DB_FILE": str(database),
        spool.OWN_NODES: ",".join(own_nodes),
    }
    environ.pop(session_folder.VARIABLE, None)
    late = ""
    try:
        supervision.run(
            [*command, f"--report-file={report}"],
            log,
            lambda line: False,
            environ,
            cwd=ROOT,
            limit_s=60 * LIMIT_MINUTES,
        )
    except supervision.OutOfTime:
        late = f"not finished after {LIMIT_MINUTES} min, including queue time"
    try:
        session = read_report(report)
        store.export(database, [session.uuid])
        return session
    except BadInput as error:
        text = log.read_text(errors="replace") if log.exists() else ""
        errors = _ERROR.findall(text)
        reason = late or (first_line(errors[0]) if errors else str(error))
        raise BadInput("nothing-measured", f"nothing was measured ({reason}); see {log}.") from None
