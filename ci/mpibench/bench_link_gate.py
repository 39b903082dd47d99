"""How well a 5 % gate tells a slow link from a healthy one: ``python -m mpibench.bench_link_gate``. Prints; asserts nothing.

Brings up a mini-cluster of its own and measures on eth1g, healthy and at a quarter of its rate, what the suite measures:
Uniband of 1 MiB and PingPong of 4 MiB, three repeats a run, their median judged by the suite's own gates - physics (the
site's ``min_efficiency``) and a learned reference (the median of healthy runs made before, -5 %). Stacks without IMB run
mpi4py.bench's ping-pong. Figures are fractions of the TCP payload limit and of what the white paper of the OpenHPC
mini-cluster (2021) has for IMB PingPong on 1GbE.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from mpibench.cluster import state
from reframe_tests.harness import catalogue, condition, parsers, references, site, stack_metadata, transports
from reframe_tests.harness.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

FABRIC = "eth1g"
#: Allowed loss against a learned reference.
TOLERANCE = 0.05
REPEATS = 3
#: MB/s, IMB-P2P PingPong on 1GbE (OpenHPC mini-cluster white paper, 2021).
PUBLISHED_MB_PER_S = 115.62
_ITERATIONS = {"Uniband": 2, "Biband": 2, "PingPong": 8}
_SMALL_ITERATIONS = 500
#: Benchmark, message size, directions: what is judged, then what is only reported.
JUDGED = (("Uniband", 1 << 20), ("PingPong", 4 << 20))
REPORTED = (("Biband", 1 << 20),)
_MPI4PY = ("pingpong", "--array", "none", "--min-size", str(4 << 20), "--max-size", str(4 << 20), "--loop-huge", "8")


@dataclass(frozen=True)
class Run:
    """One run: median of its repeats per benchmark, in MB/s."""

    mb_per_s: Mapping[str, float]


@dataclass
class Site:
    """The cluster and the conditions measured on it.

    :param command: the ``mpibench cluster`` command line.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    conditions: dict[str, condition.Condition] = field(default_factory=dict)

    def cluster(self, *words: str) -> str:
        """Output of a sub-command.

        :raises BadInput: if it fails.
        """
        done = subprocess.run([*self.command, *words], capture_output=True, text=True, env=self.environ, timeout=600)
        if done.returncode:
            raise BadInput(f"'mpibench cluster {shlex.join(words)[:200]}' failed: {(done.stderr or done.stdout)[-300:]}")
        return done.stdout


@contextmanager
def own_cluster() -> Iterator[Site]:
    """A mini-cluster that nobody else uses, taken down whatever happens."""
    with tempfile.TemporaryDirectory(prefix="mpibench-link-gate-") as folder:
        entry = "import sys; from mpibench.cli import main; from mpibench.cluster_cli import app; sys.exit(main(run=app))"
        site_of = Site((sys.executable, "-c", entry), {**os.environ, state.RUNTIME_VARIABLE: f"{folder}/cluster"})
        try:
            site_of.cluster("up")
            yield site_of
        finally:
            site_of.cluster("down")


def resolve(stack: Stack) -> condition.Condition:
    """One rank on each of two nodes over the fabric, as the suite would run it there."""
    system = site.read_system(site.ROOT / "site_configs" / "minicluster" / "system.py")
    partition = next(row for row in system["partitions"] if row["name"] == FABRIC)
    return condition.resolve(
        stack=stack,
        fabric=site.fabrics_of(partition["extras"])[FABRIC],
        nodes=2,
        ppn="1",
        pinning="default",
        processor=partition["processor"],
        launcher="srun",
        extras=partition["extras"],
        ppn_order=["1"],
        pinning_order=["default"],
    )


def measure(
    where: Site, resolved: condition.Condition, benchmark: str, message_bytes: int, quantity: str = "bandwidth_mb_per_s"
) -> float:
    """One execution; MB/s unless another quantity is wanted.

    :raises BadInput: if it fails or prints something else.
    """
    stack = resolved.stack
    if benchmark == "pingpong":
        program = [*stack.commands["mpi4py.bench"], *_MPI4PY]
    else:
        log = max(message_bytes.bit_length() - 1, 0)
        row = catalogue.find("IMB-MPI1", benchmark)
        count = _ITERATIONS[benchmark] if message_bytes else _SMALL_ITERATIONS
        options = ["-npmin", "2", "-msglog", f"{log}:{log}", "-iter", f"{count},1024", "-time", "60"]
        program = [stack.binaries["IMB-MPI1"], *options, *row.options, benchmark]
    variables = {**stack_metadata.enter(stack), **dict(_partition_variables()), **resolved.job_env}
    settings = [f"{name}={value}" for name, value in variables.items() if os.environ.get(name) != value]
    words = resolved.launcher_words(["srun", f"--partition={FABRIC}", "--exclusive"], [])
    said = where.cluster("exec", "--", "env", *settings, *words, *program)
    printed, _ = transports.strip_debug(stack, said)
    for record in parsers.parse(printed, source=benchmark):
        if record.message_bytes == message_bytes:
            return float(record.values[quantity])
    raise BadInput(f"{benchmark} printed no line for {message_bytes} bytes.")


def _partition_variables() -> list[list[str]]:
    system = site.read_system(site.ROOT / "site_configs" / "minicluster" / "system.py")
    return next(row for row in system["partitions"] if row["name"] == FABRIC)["env_vars"]


def one_run(where: Site, resolved: condition.Condition, wanted: Sequence[tuple[str, int]]) -> Run:
    """Repeats interleaved, their median taken, as in a job of the suite."""
    values: dict[str, list[float]] = {}
    for _ in range(REPEATS):
        for benchmark, size in wanted:
            values.setdefault(benchmark, []).append(measure(where, resolved, benchmark, size))
    return Run({name: statistics.median(found) for name, found in values.items()})


def alarms(run: Run, resolved: condition.Condition, learned: Mapping[str, float]) -> list[str]:
    """Gates of both layers that a run fails, as ``benchmark layer``."""
    failed = []
    for name, value in run.mb_per_s.items():
        fraction = references.line_rate_fraction(value, resolved.fabric, 1)
        physics = references.judge(name, "physics", fraction or 0.0, references.physics_reference(resolved.fabric), "1")
        reference = (learned[name], -TOLERANCE, None, "MB/s")
        history = references.judge(name, "learned", value, reference, "MB/s")
        failed += [f"{gate.metric} {gate.layer}" for gate in (physics, history) if gate.outcome == "fail"]
    return failed


def compare(
    where: Site, stack: Stack, runs: int, judged: Sequence[tuple[str, int]], say: Callable[[str], None]
) -> tuple[int, int]:
    """Runs with an alarm among healthy and among slow ones.

    :param judged: benchmarks, with their message size, whose gates may raise it.
    :param runs: runs of each kind; as many as five healthy ones before make the learned reference.
    """
    resolved = resolve(stack)
    before = [one_run(where, resolved, judged) for _ in range(min(runs, 5))]
    learned = {name: statistics.median(run.mb_per_s[name] for run in before) for name, _ in judged}
    counts: list[int] = []
    for kind, fault in (("healthy", ()), ("quarter rate", ("fault", "slow-link", FABRIC))):
        if fault:
            where.cluster(*fault)
        found = [one_run(where, resolved, judged) for _ in range(runs)]
        flagged = [alarms(run, resolved, learned) for run in found]
        counts.append(sum(map(bool, flagged)))
        for name, _ in judged:
            values = sorted(run.mb_per_s[name] for run in found)
            by_physics, by_learned = (
                sum(f"{name} {layer}" in failed for failed in flagged) for layer in ("physics", "learned")
            )
            say(
                f"{stack.name} {kind}: {name} {values[0]:.2f} to {values[-1]:.2f} MB/s, "
                f"median {statistics.median(values):.2f}; flagged by physics {by_physics}/{runs}, "
                f"by learned {learned[name]:.2f} - 5 % {by_learned}/{runs}"
            )
        say(f"{stack.name} {kind}: {counts[-1]} of {runs} runs flagged")
        if fault:
            where.cluster("fault", "heal")
    return counts[0], counts[1]


def figures(where: Site, stack: Stack, runs: int) -> list[str]:
    """Medians of a healthy link as fractions of the payload limit and of the published figure."""
    resolved = resolve(stack)
    limit = references.payload_limit(resolved.fabric) * (resolved.fabric.line_rate_gbit_per_s or 0.0) / references.GBIT_PER_MB
    wanted = [*JUDGED, *REPORTED] if "IMB-MPI1" in stack.binaries else [("pingpong", 4 << 20)]
    lines = []
    for name, size in wanted:
        values = [measure(where, resolved, name, size) for _ in range(runs)]
        ways = 2 if name == "Biband" else 1
        median = statistics.median(values)
        paper = f", {median / PUBLISHED_MB_PER_S:.4f} of the published {PUBLISHED_MB_PER_S}" if "ing" in name else ""
        lines.append(
            f"{stack.name}: {name} {size >> 20} MiB median of {runs} {median:.2f} MB/s "
            f"({min(values):.2f} to {max(values):.2f}), "
            f"{median / limit / ways:.4f} of {'twice ' * (ways == 2)}{limit:.2f}{paper}"
        )
    if "IMB-MPI1" in stack.binaries:
        times = sorted(measure(where, resolved, "PingPong", 0, "latency_us") for _ in range(runs))
        lines.append(
            f"{stack.name}: PingPong 0 B median of {runs} {statistics.median(times):.2f} us ({times[0]:.2f} to {times[-1]:.2f})"
        )
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Print what the gate did and what a healthy link gave."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="runs on a healthy and on a slow link")
    parser.add_argument("--figures", type=int, default=5, help="executions per figure; 0: none")
    parser.add_argument("--stack", default="mpich-wheels", help="stack the gate is tried with; it must have IMB-MPI1")
    parser.add_argument("--only", choices=[name for name, _ in JUDGED], help="judge one benchmark (default: both)")
    options = parser.parse_args(argv)
    judged = [row for row in JUDGED if options.only in (None, row[0])]
    # Ended from outside, the cluster is taken down all the same.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    stacks, _ = stack_metadata.discover()
    by_name = {stack.name: stack for stack in stacks}
    if options.stack not in by_name:
        raise BadInput(f"there is no stack '{options.stack}'; 'mpibench stacks' lists them.")
    started = time.monotonic()
    with own_cluster() as where:
        print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
        for stack in stacks if options.figures else ():
            for line in figures(where, stack, options.figures):
                print(line, flush=True)
        if options.runs:
            healthy, slow = compare(where, by_name[options.stack], options.runs, judged, lambda line: print(line, flush=True))
            print(f"false alarms {healthy}/{options.runs}, detected {slow}/{options.runs}, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
