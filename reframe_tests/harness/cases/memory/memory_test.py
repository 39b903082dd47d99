"""The base class of tests of a node's memory: one job runs STREAM on all cores of one node; no MPI
is started.

Its cases use ReFrame's own environment ``builtin``, because they are the same for all stacks.
``reframe --distribute`` makes one case per node.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reframe.core.builtins import parameter, variable

from ...evidence import recorder
from ...printable import clause
from ...samples import CONTRADICTED, MISSING, PROVEN, Evidence, Sample
from ...sites import references
from ...suites import catalogue, node_memory
from ...vocabulary import QUANTITIES, ROOT, BadInput, NotMeasured
from ..job import batch, condition, parameters, script
from ..job.parameters import GroupPlaces
from ..measured_test import Reading, Value, WithoutMpiTest
from . import stream

#: Where the harness keeps the program; on a cluster the checkout
#: is on a file system the nodes share.
DIRECTORY = ROOT / "results" / "stream"
#: Level to repetitions of each kernel in one run; the best of all but
#: the first counts. 10 are STREAM's own default.
REPETITIONS: Mapping[str, int] = {"smoke": 5, "nightly": 10, "acceptance": 20}
ONE_NODE = "its nodes have one NUMA node, so no memory is"
NO_COMPILER = f"no C compiler to build STREAM with; {recorder.REMEDY}"
_ALONE = references.WITHOUT_MPI[catalogue.MEMORY]

parameters.warn_once()


class MemoryTest(WithoutMpiTest):
    """Measures the memory of one node and proves where threads and pages
    were; each level has :data:`REPETITIONS`.
    """

    #: Bytes of each of the three arrays. Text is read as a number, since ReFrame answers other text
    #: with a traceback. Default: ``0``: four times the last-level caches of all cores, the least
    #: that STREAM's rule 1(a) allows.
    array_bytes = variable(str, int, value=0, loggable=True)

    #: Where the memory of a thread is: first touched by it, bound to the NUMA node farthest from
    #: it, or dealt out to all. Values: ``local``, ``remote``, ``interleaved``.
    memory = parameter(node_memory.PLACEMENTS, type=str, loggable=True)

    #: Page cache of the node before: as it is, or filled until no memory is free (Cambridge 2011,
    #: figure 7). Values: ``as_is``, ``filled``.
    page_cache = parameter(node_memory.PAGE_CACHES, type=str, loggable=True)

    #: What indexes the learned references (``references.INDEX``);
    #: fixed but for the threads, one a core.
    fabric = variable(str, value=_ALONE["fabric"], loggable=True)
    nodes = _ALONE["nodes"]
    pinning = _ALONE["pinning"]

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> GroupPlaces:
        reasons = {}
        for partition in parameters.measured_partitions():
            masks = (partition.processor.info or {}).get("topology", {}).get("numa_nodes") or ()
            lacks = point["memory"] != "local" and len(masks) == 1
            reasons[partition.fullname] = f"{ONE_NODE} {point['memory']}" if lacks else ""
        return parameters.places_without(reasons)

    def conditions(self) -> None:
        partition = self.current_partition
        self.keep_files = ["stream_*.out"]
        parameters.require_topology(partition)
        if not str(self.array_bytes).isdecimal():
            raise BadInput(
                "bad-option",
                f"-S array_bytes={self.array_bytes} is not a number of bytes; give one, or 0 for 4 "
                "x the caches.",
            )
        self.array_bytes = int(self.array_bytes)
        if not stream.path_in(DIRECTORY).exists() and not recorder.compilers():
            raise NotMeasured(NO_COMPILER)
        topology = condition.Partition.of(partition).topology
        self._program = stream.build(DIRECTORY)
        self.ranks_per_node = len(topology.cores)
        self._repetitions = REPETITIONS[self.level]
        self.num_tasks = self.num_tasks_per_node = 1

    def commands(self) -> None:
        """Run the program some times, each output in a file of its
        own; a run that fails ends the job.
        """
        self.limit_s = self.limit_s or catalogue.LEVELS[self.level].limit_s
        self.time_limit = f"{self.repeats * self.limit_s + 60}s"
        words = [
            str(self._program),
            self.memory,
            str(self._repetitions),
            str(self.array_bytes),
            self.page_cache,
        ]
        numbers = " ".join(str(number + 1) for number in range(self.repeats))
        run = f"timeout -k 10 {self.limit_s} {shlex.join(words)} > stream_$repeat.out"
        self.executable = f"for repeat in {numbers}; do {run} || exit; done"
        options: dict[str, object] = {"memory": self.memory, "page_cache": self.page_cache}
        options |= {"array_bytes": self.array_bytes} if self.array_bytes else {}
        self.condition = {
            **{name: _ALONE[name] for name in ("stack", "fabric", "nodes", "pinning")},
            "group": self.group,
            "ppn": self.ranks_per_node,
            "ppn_symbol": "full",
            "ranks": self.ranks_per_node,
            # In the form of other suites' options, by which histories,
            # confirmations and verdicts are kept apart.
            "suite_options": ",".join(f"{name}={value}" for name, value in options.items()),
            "arguments": {node_memory.NAME: shlex.join(words[1:])},
        }

    def read(self) -> Reading:
        """Every run, where threads and pages were, and why a run is missing."""
        results: list[stream.StreamResult | None] = []
        missing: dict[str, None] = {}
        end = self.job_end()
        for number in range(1, self.repeats + 1):
            results.append(None)
            try:
                text = (Path(self.stagedir) / f"stream_{number}.out").read_text(errors="replace")
                results[-1] = stream.read(text, self.memory, self.page_cache, self._repetitions)
            except FileNotFoundError:
                missing[f"run {number} of STREAM left no output"] = None
            except BadInput as error:
                missing[f"run {number}: {clause(error)}"] = None
        if end.exit_status == script.TIMED_OUT and None in results:
            # No other run is started.
            missing = {
                f"run {results.index(None) + 1} of STREAM timed out after {self.limit_s} s, the "
                "test's limit_s: its arrays are at least 4 x the last-level caches; check what "
                "else runs there, or raise the limit with -S limit_s=...": None
            }
        errors = self.error_sentences() if missing else []
        wrong = [*missing, *(clause(sentence) for sentence in batch.judge(end)), *errors]
        whole = [result for result in results if result]
        odd = list(
            dict.fromkeys(
                sentence
                for result in whole
                for sentence in stream.judge(result, self.ranks_per_node)
            )
        )
        samples = [
            Sample(
                suite=node_memory.NAME,
                benchmark=kernel,
                group=self.group,
                ranks=len(whole[0].threads),
                groups=1,
                variant=node_memory.variant(self.memory, self.page_cache),
                message_bytes=None,
                repetitions=self._repetitions,
                quantity=node_memory.QUANTITY,
                values=tuple(result.mb_per_s[kernel] if result else None for result in results),
            )
            for kernel in (node_memory.KERNELS if whole else ())
        ]
        evidence = Evidence(
            status=MISSING if wrong else CONTRADICTED if odd else PROVEN,
            sentences=(*wrong, *odd),
            # The threads of the first run, the facts of their nodes, and
            # what was free and cached in each.
            ranks=tuple(
                {
                    "rank": number,
                    "host": result.host,
                    "cpus_allowed": thread.allowed,
                    "cpu": thread.ran_on,
                    "numa_node": thread.numa_node,
                    "pages": dict(thread.pages),
                }
                for result in whole[:1]
                for number, thread in enumerate(result.threads)
            ),
            notes=tuple(
                dict.fromkeys(note for result in whole for note in stream.describe_memory(result))
            ),
            kernel=tuple({result.host: stream.facts(result) for result in whole}.values()),
        )
        return Reading(samples, evidence, [*wrong, *odd])

    def metrics(self) -> dict[str, Value]:
        quantity = QUANTITIES[node_memory.QUANTITY]
        variant = node_memory.variant(self.memory, self.page_cache)
        samples = [] if self.is_dry_run() else self._samples
        measured = {
            sample.benchmark: statistics.median(sample.measured)
            for sample in samples
            if sample.measured
        }
        names = {
            kernel: catalogue.metric_name(kernel, quantity.short, None, variant)
            for kernel in node_memory.KERNELS
        }
        return {name: Value(measured.get(kernel), quantity.unit) for kernel, name in names.items()}
