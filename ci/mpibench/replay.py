"""``mpibench replay``: run a session on a published system from the outputs its paper prints.

The papers print tables, not whole outputs: the rows are theirs to the last digit (from ``published/*.csv``), the lines around
them are those the benchmark prints in the version the paper names. Each recording becomes a stack whose launcher prints it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness import replay as mode
from reframe_tests.harness.site import ROOT
from reframe_tests.harness.vocabulary import BadInput

from . import published, sessions
from .samples import REPLAYED


@dataclass(frozen=True)
class Recording:
    """One published table that can be replayed.

    :param partition: partition it was measured on; the fabric has the same name.
    :param stack: stack as references.yaml names it.
    :param table: file of ``published/`` without its suffix.
    """

    partition: str
    stack: str
    mpi: str
    version: str
    family: str
    suite: str
    suite_version: str
    binary: str
    benchmark: str
    arguments: tuple[str, ...]
    table: str
    variants: tuple[str, ...] = ("",)


def _imb(fabric: str) -> Recording:
    name = f"imb-p2p-pingpong-{fabric}"
    intel = ("intelmpi-oneapi", "intelmpi", "2021.4", "hydra-intel")
    return Recording(fabric, *intel, "imb", "2021.3", "IMB-P2P", "PingPong", ("PingPong",), name)


RECORDINGS: dict[str, tuple[Recording, ...]] = {
    "openhpc-mini": (
        *(_imb(fabric) for fabric in ("eth1g", "eth40g", "opa100")),
        Recording(
            *("eth1g", "openmpi-ohpc", "openmpi", "4.0.5", "orterun", "osu", "5.8", "osu_put_bw", "osu_put_bw"),
            (),
            "osu-put-bw-eth1g",
            ("allocate,flush",),
        ),
        # perftest uses no MPI; the stack is that of the machine, because a stack must have one.
        Recording(
            *("edr100", "perftest-ohpc", "openmpi", "4.0.5", "orterun", "perftest", "CentOS 8.3", "ib_send_bw", "ib_send_bw"),
            ("-d", "mlx5_0", "-D", "30", "--cpu_util"),
            "ib-send-bw-edr100",
        ),
    ),
}


def text_of(system: str, recording: Recording) -> str:
    """The output: rows as the paper prints them, in the frame of the benchmark."""
    rows = [value for value in published.read(system) if Path(value.file).stem == recording.table]
    if recording.suite == "perftest":
        [average, rate] = rows
        # The paper's text lost iterations and CPU use; -D prints no peak (perftest.1, -D). All are 0 and nobody reads them.
        return _PERFTEST_FRAME.format(size=average["message_bytes"], average=average["value"], rate=rate["value"])
    if recording.suite == "osu":
        head = "# OSU MPI_Put Bandwidth Test v5.8\n# Window creation: MPI_Win_allocate\n# Synchronization: MPI_Win_flush\n"
        lines = [f"{row['message_bytes']:<10}{row['value']:>18}" for row in rows]
        return head + f"{'# Size':<10}{'Bandwidth (MB/s)':>18}\n" + "\n".join(lines) + "\n"
    sizes = sorted({int(row["message_bytes"]) for row in rows})
    cells = {(row["message_bytes"], row["quantity"]): row["value"] for row in rows}
    columns = ("repetitions", "latency_us", "bandwidth_mb_per_s", "message_rate_per_s")
    table = [" " + " ".join(f"{text:>12}" for text in (size, *(cells[str(size), name] for name in columns))) for size in sizes]
    return _IMB_FRAME.format(largest=sizes[-1], rows="\n".join(table))


_RULE = "-" * 87
_PERFTEST_FRAME = f"""{_RULE}
                    Send BW Test
 Number of qps   : 1            Transport type : IB
 Connection type : RC           Using SRQ      : OFF
 RX depth        : 512
 CQ Moderation   : 100
 Mtu             : 4096[B]
 Link type       : IB
 Max inline data : 0[B]
 Data ex. method : Ethernet
{_RULE}
 local address: LID 0x01 QPN 0x0089 PSN 0xe0a26b
 remote address: LID 0x02 QPN 0x0089 PSN 0xf9b29
{_RULE}
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]    CPU_Util[%]
 {{size:<7}}    0                0.00               {{average}}             {{rate}}          0.00
{_RULE}
"""

_IMB_FRAME = """#------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.3, IMB-P2P part
#------------------------------------------------------------
# Date                  : Mon Nov  1 00:00:00 2021
# Machine               : x86_64
# System                : Linux
# Release               : unknown
# Version               : unknown
# MPI Version           : 3.1
# MPI Thread Environment:
#
# Calling sequence was:
#
# IMB-P2P PingPong
#
# List of Benchmarks to run:
#
# PingPong
#
# Minimum message length in bytes:   0
# Maximum message length in bytes:   {largest}
#

#----------------------------------------------------------------
# Benchmarking PingPong
# #processes = 2
#----------------------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec      Msg/sec
{rows}


# All processes entering MPI_Finalize

"""


#: What a reader of the stack's metadata must know beside that it is a replay.
_REMARKS = {"perftest": "; perftest uses no MPI"}


def write_stack(system: str, recording: Recording, folder: Path) -> Path:
    """Write recording, player and metadata into ``folder``; returns the metadata file."""
    text = text_of(system, recording)
    folder.mkdir(parents=True, exist_ok=True)
    output, player = folder / "output.txt", folder / "player"
    output.write_text(text)
    player.write_text(f"#!/bin/sh\n# Prints a recorded output. Nothing is run.\nexec cat '{output}'\n")
    player.chmod(0o755)
    rows = [value for value in published.read(system) if Path(value.file).stem == recording.table]
    played = {
        "system": system,
        "partition": recording.partition,
        "stack": recording.stack,
        "source": f"site_configs/{system}/published/{recording.table}.csv: {rows[0]['table']}",
        "binary": recording.binary,
        "benchmark": recording.benchmark,
        "arguments": list(recording.arguments),
        "variants": list(recording.variants),
        "sizes": sorted({int(row["message_bytes"]) for row in rows}),
    }
    document = {
        "schema_version": 1,
        "name": f"{recording.stack}-{recording.partition}-replay",
        "origin": mode.ORIGIN,
        "mpi": {"name": recording.mpi, "version": recording.version, "device": ""},
        "abi": "openmpi" if recording.mpi == "openmpi" else "mpich",
        "launcher_family": recording.family,
        "prefix": str(folder),
        "library": str(output),
        "library_version_pattern": "replay",
        "binaries": {recording.binary: str(player)},
        "commands": {"mpirun": [str(player)]},
        "suites": {
            recording.suite: {
                "version": recording.suite_version,
                "built_with": f"replay of a published table{_REMARKS.get(recording.suite, '')}",
            }
        },
        "env_vars": {},
        "prepend_path": {},
        "build": {"lock_hash": "replay0", "replay": played},
    }
    path = folder / "stack.json"
    path.write_text(json.dumps(document, indent=1))
    return path


def run(system: str, options: Sequence[str] = (), root: Path = ROOT, results: Path | None = None) -> int:
    """Replay everything a system has; returns ReFrame's exit status (1 where the papers' own figures fail a gate).

    :raises BadInput: if nothing of the system can be replayed, or not all of it was.
    """
    if system not in RECORDINGS:
        raise BadInput(f"nothing of system '{system}' can be replayed; there are recordings for {', '.join(RECORDINGS)}.")
    results = results or root / "results" / "replay"
    folder = results / "stacks" / system
    files = [write_stack(system, recording, folder / recording.table) for recording in RECORDINGS[system]]
    environ = {
        **os.environ,
        mode.VARIABLE: system,
        "MPIBENCH_STACKS": ":".join(map(str, files)),
        "RFM_CONFIG_FILES": str(root / "site_configs" / "settings.py"),
        "RFM_PREFIX": str(results),
    }
    reframe = Path(sys.executable).parent / "reframe"
    words = [str(reframe), "-c", str(root / "reframe_tests" / "replay.py"), f"--system={system}", "-r"]
    folder.mkdir(parents=True, exist_ok=True)
    words += ["-P", "nodes=2", "-P", "ppn=1", "-P", "pinning=default", "--session-extras", "run=replay", *options]
    database = results / "results.db"
    before = len(sessions.list_sessions(database)) if database.exists() else 0
    status = subprocess.run(words, env=environ, cwd=root, check=False).returncode
    # ReFrame passes a session without tests, as when it could not load the file.
    stored = sessions.list_sessions(database) if database.exists() else []
    told = sessions.read_session(database).cases if len(stored) > before else ()
    played = sum(case.evidence == REPLAYED for case in told)
    if played != len(files):
        raise BadInput(f"{played} of {len(files)} recordings of '{system}' were replayed: see ReFrame's messages above.")
    return status
