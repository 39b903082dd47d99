"""Is an upgrade that slows the link by 5 % refused, and the same
machine accepted? ``python -m studies.upgrade``.

Brings up a mini-cluster of its own and measures sessions with ReFrame through Slurm as a site
would: first ``--nights`` nights on the healthy link; then by turns ``--sessions`` on the same link
and as many with every sender held to ``--fraction`` of its rate. ``mpibench accept`` judges them
together against those nights, with the policy of the bundled system. Prints every decision with its
sentences, then the counts; exit status 1 if one of them is wrong. The folder keeps database and
dataset, so that ``python -m studies.error_rates --dataset`` can be asked about the nights.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mpibench.judge import accept
from mpibench.pages import acceptance as acceptance_record
from mpibench.store import sessions
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import BadInput

from .link_gate import FABRIC, Site, own_cluster

SYSTEM = "minicluster"
#: Session measured: 256 KiB to 1 MiB, where the link and not a core decides, five repeats.
SELECTION = f"ImbParallelTransfer%fabric={FABRIC}%nodes=2%ppn=1%pinning=default"
REPEATS = 5
#: Labels of the nights before, and the selector that finds them.
NIGHTS = {"run": "nightly"}
BASELINE = "?'run == \"nightly\"'"
#: Sentences that are printed of each decision.
SHOWN = 3


@dataclass(frozen=True)
class Decision:
    """What ``accept`` said of a candidate."""

    decision: str
    headline: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """Where it is measured and judged.

    :param folder: results of all sessions; every node sees it.
    """

    where: Site
    folder: Path
    stack: str

    @property
    def database(self) -> Path:
        """ReFrame's."""
        return self.folder / "results.db"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the project on the cluster, with ReFrame's settings of this study."""
        settings = {
            "RFM_CONFIG_FILES": ROOT / "site_configs" / "settings.py",
            "RFM_PREFIX": self.folder,
            "RFM_SQLITE_DB_FILE": self.database,
            "RFM_SAVE_LOG_FILES": "no",
            "RFM_COLORIZE": "no",
        }
        program = str(Path(sys.executable).parent / words[0])
        command = (
            "exec",
            "--",
            "env",
            *(f"{name}={value}" for name, value in settings.items()),
            program,
            *words[1:],
        )
        where = self.where
        return subprocess.run(
            [*where.command, *command],
            capture_output=True,
            text=True,
            env=where.environ,
            timeout=3600,
        )

    def measure(self, **labels: str) -> str:
        """Measure one session; returns its id.

        :raises BadInput: ReFrame stored none.
        """
        before = set(sessions.list_sessions(self.database)) if self.database.exists() else set()
        # A slow link misses references: ReFrame's exit status says
        # nothing here, the stored session does.
        done = self.run(
            "reframe",
            "-c",
            str(ROOT / "reframe_tests"),
            "-r",
            f"--system={SYSTEM}:{FABRIC}",
            "-n",
            SELECTION,
            "-p",
            self.stack,
            "-S",
            "level=smoke",
            "-S",
            f"repeats={REPEATS}",
            "--session-extras",
            ",".join(f"{name}={value}" for name, value in labels.items()),
        )
        found = [one for one in sessions.list_sessions(self.database) if one not in before]
        if len(found) != 1:
            raise BadInput(
                "tool-failed",
                f"ReFrame stored {len(found)} sessions instead of one: "
                f"{(done.stderr or done.stdout)[-400:]}",
            )
        return found[0]

    def judge(self, sessions: int, **labels: str) -> Decision:
        """Measure a candidate; what ``mpibench accept`` says of it.

        :raises BadInput: it gave no decision.
        """
        candidate = [self.measure(**labels) for _ in range(sessions)]
        out = self.folder / "accept" / candidate[0]
        done = self.run(
            "mpibench",
            "accept",
            f"--baseline={BASELINE}",
            f"--candidate={','.join(candidate)}",
            f"--db={self.database}",
            f"--dataset={self.folder / 'dataset'}",
            f"--system={SYSTEM}",
            f"--out={out}",
        )
        try:
            record = json.loads((out / acceptance_record.JSON).read_text(encoding="utf-8"))
        except OSError:
            said = (done.stderr or done.stdout)[-400:]
            raise BadInput(
                "tool-failed", f"accept ended with {done.returncode} and no record: {said}"
            ) from None
        return Decision(record["decision"], record["headline"], tuple(record["sentences"]))


def trials(
    study: Study, runs: int, nights: int, sessions: int, fraction: float
) -> Iterator[tuple[str, Decision]]:
    """Decisions by turns: what was done to the link, what ``accept`` said.

    :param nights: measured first, and the baseline of all.
    :param sessions: of a candidate.
    :param fraction: of the line rate that an upgrade leaves.
    """
    for _ in range(nights):
        study.measure(**NIGHTS)
    for _ in range(runs):
        yield "healthy", study.judge(sessions, run="acceptance", link="healthy")
        study.where.cluster("fault", "slow-link", "--fraction", str(fraction), FABRIC)
        try:
            yield "slow", study.judge(sessions, run="acceptance", link="slow")
        finally:
            study.where.cluster("fault", "clear")


def main() -> int:
    """Print the decisions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10, help="candidates of each kind")
    parser.add_argument("--nights", type=int, default=8, help="nights before, on the healthy link")
    parser.add_argument("--sessions", type=int, default=3, help="of each candidate")
    parser.add_argument(
        "--fraction", type=float, default=0.95, help="of the line rate that the upgrade leaves"
    )
    parser.add_argument("--stack", default="intelmpi-wheels", help="stack with IMB-MPI1")
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "results" / "upgrade",
        help="results; all nodes must see it",
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {"healthy": accept.ACCEPTED, "slow": accept.REFUSED}
    right = dict.fromkeys(wanted, 0)
    began = time.monotonic()
    with own_cluster() as where:
        study = Study(where, folder, options.stack)
        for link, one in trials(
            study, options.runs, options.nights, options.sessions, options.fraction
        ):
            right[link] += one.decision == wanted[link]
            print(f"{link}: {one.headline}", flush=True)
            for line in one.sentences[:SHOWN]:
                print(f"    {line}", flush=True)
    print(
        f"same machine accepted {right['healthy']}/{options.runs}, link at {options.fraction:g} "
        f"of its rate refused {right['slow']}/{options.runs}; {time.monotonic() - began:.0f} s"
    )
    return int(any(count < options.runs for count in right.values()))


if __name__ == "__main__":
    sys.exit(main())
