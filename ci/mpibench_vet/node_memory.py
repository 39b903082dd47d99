"""The memory of each node of a job, by STREAM: a file of tests for ReFrame, which ``mpibench vet``
gives it beside those of the core.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, variable

from reframe_tests.harness.cases.measured_test import Reading, Value
from reframe_tests.harness.cases.memory import stream
from reframe_tests.harness.cases.memory.memory_test import MemoryTest
from reframe_tests.harness.printable import one_line
from reframe_tests.harness.samples import MISSING, PROVEN, Evidence
from reframe_tests.harness.suites import node_memory
from reframe_tests.harness.vocabulary import BadInput

#: Kernel whose rate stands for the memory of a node.
KERNEL = "Triad"
#: Output of a run on a node.
OUTPUT = "stream_{repeat}.{node}.out"


@rfm.simple_test
class MemoryOfNodes(MemoryTest):
    """STREAM on all nodes of a job at the same time, some runs one after the other."""

    group = "memory"
    memory = parameter(["local"], inherit_params=False, loggable=True)
    page_cache = parameter([node_memory.AS_IS], inherit_params=False, loggable=True)
    level = "smoke"

    #: Nodes of the job.
    node_count = variable(int, value=1, loggable=True)
    #: Node to the rates of its whole runs (:data:`KERNEL`, MB/s), and why others are missing, as
    #: stored with the session.
    memory_of_nodes = variable(dict, value={}, loggable=True)
    memory_problems = variable(dict, value={}, loggable=True)

    def conditions(self) -> None:
        super().conditions()
        self.keep_files = ["stream_*.out"]
        self.num_tasks = self.node_count

    def commands(self) -> None:
        """Each run on all nodes at once; one that fails on a node keeps no other from running."""
        super().commands()
        program = self.condition["arguments"][node_memory.NAME]
        words = f"timeout -k 10 {self.limit_s} {shlex.quote(str(self._program))} {program}"
        step = f"srun --mpi=none --kill-on-bad-exit=0 --cpu-bind=none -N {self.node_count} -n "
        step += f"{self.node_count} --ntasks-per-node=1"
        output = OUTPUT.format(repeat="$1", node="$SLURMD_NODENAME")
        inner = shlex.quote(f"{words} > {output}")
        numbers = " ".join(str(number + 1) for number in range(self.repeats))
        self.executable = f"for repeat in {numbers}; do {step} sh -c {inner} - $repeat; done"
        self.condition |= {"nodes": self.node_count, "stack": "builtin"}

    def read(self) -> Reading:
        rates: dict[str, list[float]] = {}
        problems: dict[str, str] = {}
        for path in sorted(Path(self.stagedir).glob(OUTPUT.format(repeat="*", node="*"))):
            node = one_line(path.name.split(".", 1)[1].removesuffix(".out"))
            try:
                text = path.read_text(errors="replace")
                result = stream.read(text, self.memory, self.page_cache, self._repetitions)
                odd = stream.judge(result, self.ranks_per_node)
            except BadInput as error:
                problems.setdefault(node, one_line(str(error)))
                continue
            if odd:
                problems.setdefault(node, one_line(odd[0]))
            else:
                rates.setdefault(node, []).append(result.mb_per_s[KERNEL])
        self.memory_of_nodes = rates
        self.memory_problems = problems
        whole = len(rates) >= self.node_count and not problems
        sentences = [f"{node}: {why}" for node, why in sorted(problems.items())]
        if len(rates) < self.node_count:
            sentences.append(f"STREAM ran on {len(rates)} of {self.node_count} nodes")
        proof = Evidence(status=PROVEN if whole else MISSING, sentences=tuple(sentences))
        return Reading([], proof, sentences)

    def metrics(self) -> dict[str, Value]:
        return {}
