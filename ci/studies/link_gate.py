"""How well a 5 % gate distinguishes a slow link from a healthy one: ``python -m
studies.link_gate``. Prints; asserts nothing.

Brings up a mini-cluster of its own and measures on eth1g, healthy and at a quarter of its rate,
what the suite measures: Uniband of 1 MiB and PingPong of 4 MiB, three repeats a run, their median
judged by the suite's own gates - physics (the site's ``min_efficiency``) and a learned reference
(the median of healthy runs made before, -5 %). Figures are fractions of the TCP payload limit and
of what the white paper of the OpenHPC mini-cluster (2021) has on 1GbE for IMB PingPong and
osu_put_bw. Each stack runs what it has; ``MPIBENCH_STACKS`` adds stacks, which the nodes must be
able to see.
"""

from __future__ import annotations

import argparse
import fnmatch
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

from mpibench_cluster import state
from reframe_tests.harness.cases.job import condition, transports
from reframe_tests.harness.sites import references, site
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.vocabulary import BadInput

FABRIC = "eth1g"
#: Allowed loss against a learned reference.
TOLERANCE = 0.05
REPEATS = 3
#: MB/s on 1GbE (OpenHPC mini-cluster white paper, 2021): IMB-P2P
#: PingPong with Intel MPI, osu_put_bw with Open MPI.
PUBLISHED_MB_PER_S = {"PingPong": 115.62, "pingpong": 115.62, "osu_put_bw": 116.96}
_ITERATIONS = {"Uniband": 2, "Biband": 2, "PingPong": 8}
_SMALL_ITERATIONS = 500
#: Benchmark, message size, directions: what is judged, then what is only reported.
JUDGED = (("Uniband", 1 << 20), ("PingPong", 4 << 20))
REPORTED = {
    "IMB-MPI1": (*JUDGED, ("Biband", 1 << 20)),
    "mpi4py.bench": (("pingpong", 4 << 20),),
    "osu_put_bw": (("osu_put_bw", 4 << 20),),
}
#: Kinds of runs, with the fault that makes them.
KINDS = {"healthy": (), "quarter rate": ("fault", "slow-link", FABRIC)}
_OSU = ("-i", "1", "-x", "1", "-w", "create", "-s", "flush")
_MPI4PY = (
    "pingpong",
    "--array",
    "none",
    "--min-size",
    str(4 << 20),
    "--max-size",
    str(4 << 20),
    "--loop-huge",
    "8",
)


@dataclass(frozen=True)
class Run:
    """One run: median of its repeats per benchmark, in MB/s."""

    mb_per_s: Mapping[str, float]


#: Minutes that Slurm gives one launch; its slowest takes seconds.
LAUNCH_MINUTES = 5


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
        done = subprocess.run(
            [*self.command, *words], capture_output=True, text=True, env=self.environ, timeout=1200
        )
        if done.returncode:
            raise BadInput(
                "tool-failed",
                f"'mpibench cluster {shlex.join(words)[:200]}' failed: "
                f"{(done.stderr or done.stdout)[-300:]}",
            )
        return done.stdout


@contextmanager
def own_cluster() -> Iterator[Site]:
    """A mini-cluster that nobody else uses, taken down whatever happens."""
    with tempfile.TemporaryDirectory(prefix="mpibench-link-gate-") as folder:
        entry = (
            "import sys; from mpibench.cli import main; from mpibench_cluster.commands import "
            "app; sys.exit(main(run=app))"
        )
        site_of = Site(
            (sys.executable, "-c", entry),
            {**os.environ, state.RUNTIME_VARIABLE: f"{folder}/cluster"},
        )
        try:
            site_of.cluster("up")
            yield site_of
        finally:
            site_of.cluster("down")


def resolve(stack: Stack) -> condition.Condition:
    """One rank on each of two nodes over the fabric, as the suite would run it there."""
    system = site.read_system(site.ROOT / "site_configs" / "minicluster" / "system.py")
    row = next(row for row in system["partitions"] if row["name"] == FABRIC)
    asked = condition.Asked(site.fabrics_of(row["extras"])[FABRIC], 2, "1", "default")
    partition = condition.Partition(row["processor"], row["extras"], launcher="srun")
    return condition.resolve(stack, asked, partition)


def measure(
    where: Site,
    resolved: condition.Condition,
    benchmark: str,
    message_bytes: int,
    quantity: str = "bandwidth_mb_per_s",
) -> float:
    """One execution; MB/s unless another quantity is wanted.

    :raises BadInput: if it fails or prints something else.
    """
    stack = resolved.stack
    variables = {**metadata.enter(stack), **dict(_partition_variables()), **resolved.job_env}
    settings = [
        f"{name}={value}" for name, value in variables.items() if os.environ.get(name) != value
    ]
    words = resolved.launcher_words(
        ["srun", f"--partition={FABRIC}", "--exclusive", f"--time={LAUNCH_MINUTES}"], []
    )
    launch = ("exec", "--", "env", *settings, *words, *_program(stack, benchmark, message_bytes))
    printed, _ = transports.strip_debug(stack, where.cluster(*launch))
    for record in reader.parse(printed, source=benchmark):
        if record.message_bytes == message_bytes:
            return float(record.values[quantity])
    raise BadInput("nothing-measured", f"{benchmark} printed no line for {message_bytes} bytes.")


def _program(stack: Stack, benchmark: str, message_bytes: int) -> list[str]:
    if benchmark == "pingpong":
        return [*stack.commands["mpi4py.bench"], *_MPI4PY]
    if benchmark in stack.binaries:
        return [stack.binaries[benchmark], "-m", f"{message_bytes}:{message_bytes}", *_OSU]
    log = max(message_bytes.bit_length() - 1, 0)
    count = _ITERATIONS[benchmark] if message_bytes else _SMALL_ITERATIONS
    options = ["-npmin", "2", "-msglog", f"{log}:{log}", "-iter", f"{count},1024", "-time", "60"]
    return [
        stack.binaries["IMB-MPI1"],
        *options,
        *catalogue.find("IMB-MPI1", benchmark).options,
        benchmark,
    ]


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
        physics = references.judge(
            name, "physics", fraction or 0.0, references.physics_reference(resolved.fabric), "1"
        )
        reference = (learned[name], -TOLERANCE, None, "MB/s")
        history = references.judge(name, "learned", value, reference, "MB/s")
        failed += [
            f"{gate.metric} {gate.layer}" for gate in (physics, history) if gate.outcome == "fail"
        ]
    return failed


def compare(
    where: Site,
    stack: Stack,
    runs: int,
    judged: Sequence[tuple[str, int]],
    say: Callable[[str], None],
    kinds: Sequence[str] = tuple(KINDS),
) -> dict[str, int]:
    """Runs with an alarm among those of each kind.

    :param judged: benchmarks, with their message size, whose gates may raise it.
    :param runs: runs of each kind; as many as five healthy ones before make the learned reference.
    """
    resolved = resolve(stack)
    before = [one_run(where, resolved, judged) for _ in range(min(runs, 5))]
    learned = {name: statistics.median(run.mb_per_s[name] for run in before) for name, _ in judged}
    counts: dict[str, int] = {}
    for kind, fault in ((kind, KINDS[kind]) for kind in kinds):
        if fault:
            where.cluster(*fault)
        found = [one_run(where, resolved, judged) for _ in range(runs)]
        flagged = [alarms(run, resolved, learned) for run in found]
        counts[kind] = sum(map(bool, flagged))
        for name, _ in judged:
            values = sorted(run.mb_per_s[name] for run in found)
            by_physics, by_learned = (
                sum(f"{name} {layer}" in failed for failed in flagged)
                for layer in ("physics", "learned")
            )
            say(
                f"{stack.name} {kind}: {name} {values[0]:.2f} to {values[-1]:.2f} MB/s, "
                f"median {statistics.median(values):.2f}; flagged by physics {by_physics}/{runs}, "
                f"by learned {learned[name]:.2f} - 5 % {by_learned}/{runs}"
            )
        say(f"{stack.name} {kind}: {counts[kind]} of {runs} runs flagged")
        if fault:
            where.cluster("fault", "clear")
    return counts


def figures(where: Site, stack: Stack, runs: int) -> list[str]:
    """Medians of a healthy link as fractions of the payload limit and of the published figure."""
    resolved = resolve(stack)
    limit = (
        references.payload_limit(resolved.fabric)
        * (resolved.fabric.line_rate_gbit_per_s or 0.0)
        / references.GBIT_PER_MB
    )
    wanted = [
        row
        for program, rows in REPORTED.items()
        if program in {*stack.binaries, *stack.commands}
        for row in rows
    ]
    lines = []
    for name, size in wanted:
        values = [measure(where, resolved, name, size) for _ in range(runs)]
        ways = 2 if name == "Biband" else 1
        median = statistics.median(values)
        published = PUBLISHED_MB_PER_S.get(name)
        paper = f", {median / published:.4f} of the published {published}" if published else ""
        lines.append(
            f"{stack.name}: {name} {size >> 20} MiB median of {runs} {median:.2f} MB/s "
            f"({min(values):.2f} to {max(values):.2f}), "
            f"{median / limit / ways:.4f} of {'twice ' * (ways == 2)}{limit:.2f}{paper}"
        )
    if "IMB-MPI1" in stack.binaries:
        times = sorted(
            measure(where, resolved, "PingPong", 0, "latency_us") for _ in range(4 * runs)
        )
        middle = statistics.median(times)
        lines.append(
            f"{stack.name}: PingPong 0 B median of {len(times)} {middle:.2f} us ({times[0]:.2f} "
            f"to {times[-1]:.2f}), {sum(value > 2 * middle for value in times)} above twice the "
            "median"
        )
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Print what the gate did and what a healthy link gave."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="runs on a healthy and on a slow link")
    parser.add_argument("--figures", type=int, default=5, help="executions per figure; 0: none")
    parser.add_argument(
        "--stack",
        default="mpich-wheels",
        help="stack the gate is tried with; it must have IMB-MPI1",
    )
    parser.add_argument(
        "--of", default="*", metavar="PATTERN", help="stacks to give figures of (default: all)"
    )
    parser.add_argument(
        "--only", choices=[name for name, _ in JUDGED], help="judge one benchmark (default: both)"
    )
    parser.add_argument("--kind", choices=KINDS, help="runs of one kind only (default: both)")
    options = parser.parse_args(argv)
    judged = [row for row in JUDGED if options.only in (None, row[0])]
    # Ended from outside, the cluster is taken down all the same.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    stacks, _ = metadata.discover()
    by_name = {stack.name: stack for stack in stacks}
    if options.stack not in by_name:
        raise BadInput(
            "unknown-name", f"there is no stack '{options.stack}'; 'mpibench stacks' lists them."
        )
    started = time.monotonic()
    with own_cluster() as where:
        print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
        chosen = [stack for stack in stacks if fnmatch.fnmatchcase(stack.name, options.of)]
        for stack in chosen if options.figures else ():
            for line in figures(where, stack, options.figures):
                print(line, flush=True)
        if options.runs:
            kinds = [kind for kind in KINDS if options.kind in (None, kind)]
            counts = compare(
                where,
                by_name[options.stack],
                options.runs,
                judged,
                lambda line: print(line, flush=True),
                kinds,
            )
            flagged = ", ".join(
                f"{kind}: {number}/{options.runs} flagged" for kind, number in counts.items()
            )
            print(f"{flagged}, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
