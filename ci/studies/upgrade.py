"""Is an upgrade that slows the link by 5 % refused, and the same machine twice accepted? ``python -m studies.upgrade``.

Brings up a mini-cluster of its own and measures sessions with ReFrame through Slurm as a site would: one on the healthy link,
then by turns one on the same link and one with every sender held to ``--fraction`` of its rate. Each is judged by
``accept`` against the healthy session before it, with the policy of the bundled system. Prints every decision with
its sentence, then the counts; exit status 1 if one of them is wrong.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from mpibench.results import session_values, sessions
from mpibench.verdicts import accept
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import BadInput

from .link_gate import FABRIC, Site, own_cluster

SYSTEM = "minicluster"
#: Session measured: 256 KiB to 1 MiB, where the link and not a core decides, five repeats.
SELECTION = f"ImbParallelTransfer%fabric={FABRIC}%nodes=2%ppn=1%pinning=default"
REPEATS = 5


def measure(where: Site, folder: Path, stack: str, label: str) -> str:
    """Measure one session; returns its id.

    :param folder: results of all sessions; every node sees it.
    :raises BadInput: ReFrame stored none.
    """
    settings = {
        "RFM_CONFIG_FILES": ROOT / "site_configs" / "settings.py",
        "RFM_PREFIX": folder,
        "RFM_SQLITE_DB_FILE": folder / "results.db",
        "RFM_SAVE_LOG_FILES": "no",
        "RFM_COLORIZE": "no",
    }
    words = [
        *("exec", "--", "env", *(f"{name}={value}" for name, value in settings.items())),
        *(str(Path(sys.executable).parent / "reframe"), "-c", str(ROOT / "reframe_tests"), "-r", f"--system={SYSTEM}:{FABRIC}"),
        *("-n", SELECTION, "-p", stack, "-S", "level=smoke", "-S", f"repeats={REPEATS}"),
        *("--session-extras", f"run=upgrade,link={label}"),
    ]
    before = set(sessions.list_sessions(folder / "results.db")) if (folder / "results.db").exists() else set()
    # A slow link misses references: ReFrame's exit status says nothing here, the stored session does.
    done = subprocess.run([*where.command, *words], capture_output=True, text=True, env=where.environ, timeout=600)
    found = [one for one in sessions.list_sessions(folder / "results.db") if one not in before]
    if len(found) != 1:
        raise BadInput(f"ReFrame stored {len(found)} sessions instead of one: {(done.stderr or done.stdout)[-400:]}")
    return found[0]


def trials(where: Site, folder: Path, stack: str, runs: int, fraction: float) -> Iterator[tuple[str, accept.Acceptance]]:
    """Decisions by turns: what was done to the link, what ``accept`` said.

    :param fraction: of the line rate that an upgrade leaves.
    """

    def judge(before: str, after: str) -> accept.Acceptance:
        session_values.bring_up_to_date(folder / "results.db", folder / "dataset")
        return accept.decide(folder / "dataset", before, after, accept.AcceptanceOptions(system=SYSTEM))

    before = measure(where, folder, stack, "healthy")
    for _ in range(runs):
        same = measure(where, folder, stack, "healthy")
        yield "healthy", judge(before, same)
        where.cluster("fault", "slow-link", "--fraction", str(fraction), FABRIC)
        try:
            slow = measure(where, folder, stack, "slow")
        finally:
            where.cluster("fault", "heal")
        yield "slow", judge(before, slow)
        before = same


def main() -> int:
    """Print the decisions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="sessions of each kind")
    parser.add_argument("--fraction", type=float, default=0.95, help="of the line rate that the upgrade leaves")
    parser.add_argument("--stack", default="intelmpi-wheels", help="stack with IMB-MPI1")
    parser.add_argument("--folder", type=Path, default=ROOT / "results" / "upgrade", help="results; all nodes must see it")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {"healthy": accept.ACCEPTED, "slow": accept.REFUSED}
    right = dict.fromkeys(wanted, 0)
    began = time.monotonic()
    with own_cluster() as where:
        for link, result in trials(where, folder, options.stack, options.runs, options.fraction):
            right[link] += result.decision == wanted[link]
            print(f"{link}: {result.headline}", flush=True)
            for line in result.sentences[:3]:
                print(f"    {line}", flush=True)
    print(
        f"same machine accepted {right['healthy']}/{options.runs}, link at {options.fraction:g} of its rate refused "
        f"{right['slow']}/{options.runs}; {time.monotonic() - began:.0f} s"
    )
    return int(any(count < options.runs for count in right.values()))


if __name__ == "__main__":
    sys.exit(main())
