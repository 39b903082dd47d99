"""Sessions of bundled systems whose bandwidths on links are known, to be asked the papers' claims."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reframe_tests.harness.sites import site
from synthetic_verdicts import write_session

KIB, MIB = 1 << 10, 1 << 20
#: Sizes that nights measure from 32 KiB on.
NIGHTLY = tuple(32 * KIB << step for step in range(6))
#: MB/s of 100 Gbit/s.
OPA = 12500.0


@dataclass(frozen=True)
class Job:
    """One case: where it ran, and each benchmark's values by message size.

    :param result: ReFrame's; ``evidence``: status of its proof.
    :param changes: of what it stored of its condition.
    """

    fabric: str
    ppn: int
    values: Mapping[str, Mapping[int, float]]
    pinning: str = "default"
    partition: str = "dual"
    group: str = "transfer"
    result: str = "pass"
    evidence: str = "proven"
    variant: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)

    def columns(self, system: str) -> dict[str, Any]:
        """Columns of its row of ``cases``."""
        return {
            **{"partition": self.partition, "fabric": self.fabric, "ppn": self.ppn, "ppn_symbol": str(self.ppn)},
            **{"pinning": self.pinning, "group": self.group, "result": self.result, "evidence": self.evidence},
            **{"fail_phase": None if self.result == "pass" else "sanity", "condition": json.dumps(self._condition(system))},
        }

    def _condition(self, system: str) -> dict[str, Any]:
        partitions = site.read_system(site.ROOT / "site_configs" / system / "system.py")["partitions"]
        (extras,) = (row["extras"] for row in partitions if row["name"] == self.partition)
        fabric = site.fabrics_of(extras)[self.fabric]
        described = {
            **{"scope": fabric.scope, "devices": list(fabric.devices), "line_rate_gbit_per_s": fabric.line_rate_gbit_per_s},
            **({"striped": True} if fabric.striped else {}),
        }
        return {**described, **self.changes}


#: Quantities of the benchmarks that jobs here have.
QUANTITIES = {"PingPong": "latency_us", "osu_multi_lat": "latency_us"}


def write(
    folder: Path,
    jobs: Sequence[Job],
    *,
    system: str = "opa-dual-rail",
    stack: str = "intelmpi-2019",
    number: int = 0,
    **options: Any,
) -> str:
    """Write one session of these jobs; returns its id. Three repeats each, of which the middle one has the value."""
    names = sorted({name for job in jobs for name in job.values})
    sizes = sorted({size for job in jobs for values in job.values.values() for size in values})
    by_case = dict(enumerate(jobs))

    def edit(row: dict[str, Any]) -> dict[str, Any] | None:
        job = by_case[int(row["case"].rpartition(":")[2])]
        value = job.values.get(row["benchmark"], {}).get(row["message_bytes"])
        if value is None:
            return None
        spread = {1: 0.5, 2: 1.0, 3: 1.5}[row["repeat"]]
        return {**row, "variant": job.variant, "ranks": 2 * job.ppn, "value": value * spread}

    return write_session(
        folder,
        number,
        system=system,
        stacks=(stack,),
        repeats=3,
        sizes=sizes,
        benchmarks={name: QUANTITIES.get(name, "bandwidth_mb_per_s") for name in names},
        edit=edit,
        where=[job.columns(system) for job in jobs],
        **options,
    )


def level(value: float, sizes: Sequence[int] = NIGHTLY) -> dict[int, float]:
    """The same value at each size."""
    return dict.fromkeys(sizes, value)


def dual_rail(**changes: Job) -> list[Job]:
    """What Intel's article says of its two adapters, as jobs; ``changes`` replace one by its name."""
    jobs = {
        "one": Job("opa100", 1, {"Uniband": level(OPA), "Biband": level(2 * OPA)}),
        "two": Job("opa200", 2, {"Uniband": level(2 * OPA), "Biband": level(4 * OPA)}),
        "striped": Job("opa200_striped", 1, {"Uniband": level(1.95 * OPA), "Biband": level(3.9 * OPA)}),
    }
    return list({**jobs, **changes}.values())
