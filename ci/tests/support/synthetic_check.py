"""A ReFrame test that replays a plan: real sessions, stored by
ReFrame itself, with contents that tests decide.

The plan is a JSON list; entry ``n`` says what case ``n`` stores and how it ends (``end``).
"""

import json
import os
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError

PLAN = json.loads(Path(os.environ["SYNTHETIC_PLAN"]).read_text(encoding="utf-8"))


@rfm.simple_test
class Replay(rfm.RunOnlyRegressionTest):
    number = parameter(range(len(PLAN)), fmt=lambda n: PLAN[n]["name"])
    group = variable(str, value="", loggable=True)
    fabric = variable(str, value="", loggable=True)
    nodes = variable(int, value=0, loggable=True)
    ppn = variable(str, value="", loggable=True)
    pinning = variable(str, value="", loggable=True)
    skip_reason = variable(str, value="", loggable=True)
    condition = variable(dict, value={}, loggable=True)
    samples = variable(list, value=[], loggable=True)
    proof = variable(dict, value={}, loggable=True)
    gates = variable(list, value=[], loggable=True)
    executable = "echo"

    @run_after("init")
    def take_plan(self) -> None:
        self.plan = PLAN[self.number]
        self.valid_systems = ["*"]
        self.tags = {"production"}
        self.keep_files = ["*.txt"]
        self.valid_prog_environs = [self.plan["stack"]]
        self.executable_opts = [self.plan["group"]]
        self.prerun_cmds = ["echo 'output of the benchmark' > benchmark.txt"]
        for key in ("group", "fabric", "nodes", "pinning"):
            setattr(self, key, self.plan[key])
        self.ppn = self.plan["ppn_symbol"]

    @run_after("setup")
    def resolve(self) -> None:
        if self.plan["end"] == "skip":
            self.skip_reason = self.plan["reason"]
            self.skip(self.plan["reason"])
        if self.plan["end"] == "setup":
            raise ValueError(self.plan["reason"])
        self.condition = self.plan["condition"]

    @sanity_function
    def believe(self) -> bool:
        self.samples, self.proof = self.plan["samples"], self.plan["proof"]
        if self.plan["end"] == "sanity":
            raise SanityError(self.plan["reason"])
        return True

    @run_before("performance")
    def judge(self) -> None:
        self.gates = self.plan["gates"]
        failed = [gate for gate in self.gates if gate["outcome"] == "fail"]
        self.perf_variables = {
            gate["metric"]: sn.make_performance_function(sn.defer(gate["value"]), gate["unit"])
            for gate in self.gates
        }
        self.reference = {
            "*": {
                g["metric"]: (g["reference"], g["lower"] / g["reference"] - 1, None, g["unit"])
                for g in failed
            }
        }
