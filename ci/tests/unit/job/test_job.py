"""What a job is made of and how it ended: idle nodes, shared cores, a
second stack in turn, and what a test says of itself.
"""

import os
import shlex
import socket
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from mpibench.commands.listings import orphans
from mpibench.judge import comparison, pairing
from mpibench.store import sessions
from mpibench.store.dataset_layout import write_file
from mpibench.store.store import Store
from reframe_tests.harness.cases.job import batch, condition, parameters, script
from reframe_tests.harness.cases.job.batch import JobEnd
from reframe_tests.harness.cases.measured_test import MeasuredTest, Value
from reframe_tests.harness.machine import gpu, topology
from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.vocabulary import ALL_NODES
from refusals import refused_as
from synthetic_evidence import STACK
from synthetic_session import SMALL_REPORT
from synthetic_stack import ETH
from synthetic_verdicts import write_session


def test_an_output_takes_no_more_memory_than_it_is_long(tmp_path):
    """Whatever its launch might have printed."""
    (tmp_path / "map.1.out").write_text("end\n")
    assert script.beginning_of(tmp_path / "map.1.out", 1 << 60) == "end\n"
    assert script.beginning_of(tmp_path / "map.1.out", 2) == "en"


def test_a_metric_without_the_links_rate_is_held_to_what_was_learned():
    bound = (10.0, None, 0.1, "us")
    values = {"time": Value(12.0, "us", gated=True), "more": Value(1.0, "us")}
    case = SimpleNamespace(
        metrics=lambda: values,
        _learned_references=lambda: {"time": bound},
        current_partition=SimpleNamespace(fullname="here:cpu"),
    )
    MeasuredTest.set_metrics(case)
    assert case.reference["here:cpu"] == {"time": bound, "more": (0.0, None, None, "us")}
    assert [(gate["metric"], gate["outcome"]) for gate in case.gates] == [("time", "fail")]


def with_gpus(kind, *bus_ids, ppn="4"):
    """A condition on the memory of a site's GPUs."""
    partition = condition.Partition(topology.describe(2, 6), {}, launcher="srun")
    where = condition.resolve(STACK, condition.Asked(ETH, 8, ppn, "none"), partition)
    gpus = tuple(map(gpu.Gpu, bus_ids))
    return replace(where, fabric=replace(ETH, memory=gpu.Memory("device", kind), gpus=gpus))


def test_each_rank_is_left_the_gpu_that_the_site_gives_it():
    where = with_gpus("cuda", "0000:c1:00.0", "0000:81:00.0", "0000:41:00.0", "0000:03:00.0")
    assert where.gpu_choice == ("CUDA_VISIBLE_DEVICES", "3 2 1 0"), (
        "numbers go by the addresses, ranks by the site"
    )
    assert (
        where.job_env["CUDA_DEVICE_ORDER"] == where.asked_env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    )
    numbered = with_gpus("rocm", *[""] * 4, ppn="2")
    assert numbered.gpu_choice[:2] == ("ROCR_VISIBLE_DEVICES", "0 1")


def test_a_stored_case_with_a_paired_stack_is_two_cases():
    row = dict(SMALL_REPORT["runs"][0]["testcases"][0])
    run = {name: row[name] for name in ("samples", "proof")}
    run["condition"] = {**row["condition"], "stack": "other-stack"}
    missed = {"result": "fail", "fail_phase": "performance", "fail_reason": "missed a reference"}

    def cases(**changes):
        rows = [{**row, **missed, "rival_run": run, "stagedir": "stage/x", **changes}]
        return list(sessions._cases({**SMALL_REPORT, "runs": [{"testcases": rows}]}, "here", ()))

    own, other = cases()
    assert (own.result, own.reason) == ("fail", "missed a reference")
    assert (other.result, other.fail_phase, other.reason) == ("pass", "", "")
    assert (other.uuid, other.stack) == (own.uuid + sessions.PAIRED, "other-stack")
    assert (other.samples, other.gates, other.job_id) == (own.samples, (), own.job_id)
    assert own.directory == other.directory == "stage/x"
    assert {case.result for case in cases(result="abort")} == {"abort"}
    with refused_as("file-damaged", match="rival_run"):
        cases(rival_run=["?"])


def test_pairs_see_what_the_machines_noise_hides(tmp_path):
    """Both stacks meet the same 20 % of noise in each repeat; 3 %
    between them is seen only pair by pair.
    """
    jobs = 3
    rng = np.random.default_rng(5)
    noise = defaultdict(lambda: np.exp(0.2 * rng.standard_normal()))

    def edit(row):
        place = int(row["case"].rsplit(":", 1)[1])
        change = noise[place % jobs, row["repeat"]] * (1.03 if place >= jobs else 1.0)
        return {**row, "value": float(row["value"] * change)}

    session = write_session(
        tmp_path,
        0,
        edit=edit,
        stacks=("a-spack", "b-spack"),
        jobs=jobs,
        noise=0.002,
        benchmarks={"PingPong": "latency_us"},
    )
    for paired in (False, True):
        bands = pairing.pair(Store(tmp_path), "latest", "stack", "a-spack", "b-spack").bands
        assert set(bands["winner"]) == {"a-spack" if paired else pairing.TIE}
        assert (set(bands["units"]) == {comparison.PAIRS}) == paired
        in_turn = {
            f"{session}:0:{place + jobs}": f"{session}:0:{place}:rival" for place in range(jobs)
        }
        for table in ("samples", "cases"):
            path = next((tmp_path / table).rglob("*.parquet"))
            write_file(path, pl.read_parquet(path).with_columns(pl.col("case").replace(in_turn)))
    assert list(bands["ratio"]) == pytest.approx([1.03] * len(bands), abs=0.006)


@pytest.mark.parametrize(
    ("asked", "flex", "dry_run", "given"),
    [
        (ALL_NODES, "idle", False, 62),
        (ALL_NODES, 4, False, 4),
        (4, "idle", False, 4),
        (ALL_NODES, "idle", True, 16),
    ],
)
def test_as_many_as_are_idle_and_a_number_asked_for_is_kept(asked, flex, dry_run, given):
    scheduler = SimpleNamespace(
        registered_name="slurm",
        allnodes=lambda: range(65),
        filternodes=lambda job, nodes: nodes[1:],  # one is of another partition
    )
    job = SimpleNamespace(
        guess_num_tasks=lambda: 62 if flex == "idle" else flex,
        scheduler=scheduler,
        sched_flex_alloc_nodes=flex,
    )
    extras = {"node_counts": [2, 16]}
    assert batch.count_nodes(asked, "growth", job, extras, dry_run=dry_run) == given


@pytest.mark.parametrize(
    ("group", "first", "measured"),
    [("collectives", 0, {2, 16}), ("collectives", 1, {16}), ("p2p", 0, {2})],
)
def test_node_counts_that_a_group_is_measured_on(group, first, measured):
    why = {
        nodes: parameters.why_not_on(
            nodes, group, {"node_counts": [16, 2]}, lambda counts: counts[first:]
        )
        for nodes in (2, 4, 16)
    }
    assert {nodes for nodes, reason in why.items() if not reason} == measured
    assert "-P nodes=4" in why[4]
    assert ("at most two ranks" in why[16]) == (group == "p2p")


@pytest.mark.parametrize("state", sorted(batch.BAD_STATES))
def test_no_state_that_cuts_a_job_short_passes_whatever_the_exit_status(state):
    for text in (state, f"COMPLETED,{state}", f"{state}+"):
        for status in (0, 1, None):
            [sentence] = batch.judge(JobEnd("7", text, status))
            assert sentence.startswith(f"ended in state {state}: ")


@pytest.mark.parametrize("access", [["-p x", "--comment=a=b"], ["--comment a=b"]])
def test_a_comment_of_the_site_stays_before_the_mark_of_the_job(access):
    own = batch.submit_options("slurm")[-1].partition("=")[2]
    comment = shlex.split(batch.submit_options("slurm", access)[-1])[0].partition("=")[2]
    assert comment == f"a=b {own}"
    assert [job.number for job in orphans.read_queue(f"7|RUNNING|{comment}|/s")] == ["7"]


def test_a_job_of_this_process_is_no_orphan_and_one_of_a_dead_process_is():
    [comment] = [word.partition("=")[2] for word in batch.submit_options("slurm") if "=" in word]
    recycled = f"{batch.OWNER}:{script.Owner(socket.gethostname(), os.getpid(), 1).text}"
    elsewhere = f"{batch.OWNER}:{script.Owner('login9', os.getpid(), 1).text}"
    queue = f"11|RUNNING|{comment}|/s/a\n12|PENDING|{recycled}|/s/b|c\n13|RUNNING|{elsewhere}|/s\n14|RUNNING|(null)|/s\n15|RUNNING"
    jobs = orphans.read_queue(queue)
    assert [job.number for job in jobs] == ["11", "12", "13"]
    assert jobs[0].owner == Process.observe(os.getpid())
    [found] = orphans.orphaned(jobs, socket.gethostname())
    assert (found.number, found.state, found.directory) == ("12", "PENDING", "/s/b|c")


@pytest.mark.parametrize(
    ("scheduler", "count", "wanted", "chosen", "asked"),
    [
        ("slurm", 2, "c1 c2", "", "--nodelist=c1,c2"),
        ("slurm_shared", 1, "c1", "--account=x", "--nodelist=c1"),
        ("slurm", 4, "c1 c2", "", ""),
        ("slurm", 2, "c1 c2", "--nodelist=c3,c4", ""),
        ("local", 1, "here", "", ""),
        ("pbs", 1, "c1", "", "host=c1"),
        ("pbspro", 1, "c1", "--host c2", ""),
        ("pbs", 2, "c1 c2", "", ""),
    ],
)
def test_a_job_asks_for_nodes_by_name_unless_somebody_chose_others(
    scheduler, count, wanted, chosen, asked
):
    job = SimpleNamespace(options=[], cli_options=[chosen])
    partition = SimpleNamespace(scheduler=SimpleNamespace(registered_name=scheduler))
    batch.ask_for_nodes(job, partition, count, wanted.split())
    assert " ".join(job.options) == asked


@pytest.mark.parametrize(
    ("scheduler", "tasks", "given", "asked"),
    [("pbs", 1, None, 64), ("pbs", 128, None, 1), ("pbs", 4, 2, 2), ("torque", 4, None, None)],
)
def test_pbs_is_asked_for_all_cores_of_a_node(scheduler, tasks, given, asked):
    """Its cgroup hook confines a job to the CPUs it asks for,
    and core lists name any of the node.
    """
    test = SimpleNamespace(num_tasks_per_node=tasks, num_cpus_per_task=given)
    batch.ask_for_cores(test, scheduler, 64)
    assert test.num_cpus_per_task == asked
