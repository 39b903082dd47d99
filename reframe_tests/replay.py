"""Replays of recorded outputs; there only with ``mpibench replay``, and never a measurement."""

import reframe as rfm
import yaml
from reframe.core.builtins import run_after

from reframe_tests.harness import catalogue, references, replay, site
from reframe_tests.harness.fabric_test import FabricTest

if replay.system():

    @rfm.simple_test
    class Replay(FabricTest):
        """PingPong of IMB-P2P, as printed in a paper."""

        group = "p2p_pairs"
        suite = "imb"
        subject = "PingPong of IMB-P2P"
        #: Test whose references hold for the recording.
        like = "PointToPoint"
        repeats = 1

        @run_after("init")
        def select_cases(self) -> None:
            self.descr = f"Replay of a recorded output, no measurement: {self.subject}"
            self.valid_systems = [f"+{self.fabric}"]
            self.valid_prog_environs = [f"+{replay.FEATURE} +{self.suite}"]
            self.keep_files = ["*.out"]
            self.tags = {"replay"}

        # In the body of a test `condition` is a variable of the test, so the annotation cannot name the module's class.
        def plan_launches(self, pace: catalogue.Pace, where: object = None) -> tuple[catalogue.Launch, ...]:
            return replay.launches(self._stack, self._condition.ranks)

        def _learned_references(self) -> dict[str, references.Reference]:
            node = yaml.safe_load(site.references_file(self.current_system.name).read_text())
            stack = self._stack.build["replay"]["stack"]
            keys = (self.current_partition.fullname, stack, self.fabric, self.nodes, self.ranks_per_node, self.pinning)
            for key in (self.like, *keys):
                node = node.get(key, {})
            return {metric: tuple(value) for metric, value in node.items()}

    @rfm.simple_test
    class ReplayOneSided(Replay):
        """One-sided bandwidth of OSU, as printed in a paper."""

        group = "one_sided_osu"
        suite = "osu"
        subject = "osu_put_bw"
        like = "OsuOneSided"

    @rfm.simple_test
    class ReplayVerbs(Replay):
        """Bandwidth of two adapters by perftest, without MPI, as printed in a paper."""

        group = "verbs"
        suite = "perftest"
        subject = "ib_send_bw of perftest"
        like = "Verbs"
