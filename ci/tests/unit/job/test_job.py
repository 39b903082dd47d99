"""What a job is made of and how it ended: idle nodes, shared cores, a
second stack in turn, and what a test says of itself.
"""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
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
from reframe_tests.harness.sites import site
from reframe_tests.harness.vocabulary import ALL_NODES
from refusals import refused_as
from synthetic_evidence import STACK
from synthetic_session import SMALL_REPORT
from synthetic_verdicts import write_session


def declared(values: dict[str, Value], learned: dict[str, tuple[object, ...]]) -> SimpleNamespace:
    case = SimpleNamespace(
        metrics=lambda: values,
        _learned_references=lambda: learned,
        current_partition=SimpleNamespace(fullname="here:cpu"),
    )
    MeasuredTest.set_metrics(case)
    return case


def test_an_output_takes_no_more_memory_than_it_is_long(tmp_path: Path) -> None:
    """Whatever its launch might have printed."""
    (tmp_path / "map.1.out").write_text("end\n")
    assert script.beginning_of(tmp_path / "map.1.out", 1 << 60) == "end\n"
    assert script.beginning_of(tmp_path / "map.1.out", 2) == "en"


def test_a_metric_without_the_links_rate_is_held_to_what_was_learned() -> None:
    case = declared(
        {"time": Value(12.0, "us", gated=True), "more": Value(1.0, "us")},
        {"time": (10.0, None, 0.1, "us")},
    )
    assert case.reference["here:cpu"] == {
        "time": (10.0, None, 0.1, "us"),
        "more": (0.0, None, None, "us"),
    }
    assert [(gate["metric"], gate["outcome"]) for gate in case.gates] == [("time", "fail")]


def resolved(
    nodes: int = 8, ppn: str = "8", pinning: str = "none", **extras: Any
) -> condition.Condition:
    row = {"transport": "tcp", "scope": "cluster", "rails": [{"device": "eth0"}]}
    whole = {"fabrics": {"eth": row}, **extras}
    asked = condition.Asked(site.fabrics_of(whole)["eth"], nodes, ppn, pinning)
    partition = condition.Partition(topology.describe(2, 6), whole, launcher="srun")
    return condition.resolve(replace(STACK, build={"lock_hash": "0123abcd"}), asked, partition)


def with_gpus(kind: str, *bus_ids: str, ppn: str = "4", **chosen: str) -> condition.Condition:
    where = resolved(ppn=ppn)
    gpus = tuple(gpu.Gpu(bus_id) for bus_id in bus_ids)
    fabric = replace(where.fabric, memory=gpu.Memory("device", kind), gpus=gpus)
    return replace(where, fabric=fabric, chosen=chosen)


def test_each_rank_is_left_the_gpu_that_the_site_gives_it() -> None:
    where = with_gpus("cuda", "0000:c1:00.0", "0000:81:00.0", "0000:41:00.0", "0000:03:00.0")
    assert where.gpu_choice == ("CUDA_VISIBLE_DEVICES", "3 2 1 0"), (
        "numbers go by the addresses, ranks by the site"
    )
    assert (
        where.job_env["CUDA_DEVICE_ORDER"] == where.asked_env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    )
    assert with_gpus("cuda", "", "", "", "").gpu_choice[1] == "0 1 2 3"
    assert with_gpus("rocm", "", "", "", "", ppn="2").gpu_choice[:2] == (
        "ROCR_VISIBLE_DEVICES",
        "0 1",
    )


def test_a_stored_case_with_a_paired_stack_is_two_cases() -> None:
    entry = dict(SMALL_REPORT["runs"][0]["testcases"][0])
    run = {
        "condition": {**entry["condition"], "stack": "other-stack"},
        "samples": entry["samples"],
        "proof": entry["proof"],
    }
    missed = {"result": "fail", "fail_phase": "performance", "fail_reason": "missed a reference"}
    missed |= {"outputdir": "output/x", "stagedir": "stage/x"}
    report = {**SMALL_REPORT, "runs": [{"testcases": [{**entry, **missed, "rival_run": run}]}]}
    own, other = sessions._cases(report, "here", ())
    assert (own.result, own.reason) == ("fail", "missed a reference")
    assert (other.result, other.fail_phase, other.reason) == ("pass", "", "")
    assert (other.uuid, other.stack) == (own.uuid + sessions.PAIRED, "other-stack")
    assert (other.samples, other.gates, other.job_id) == (own.samples, (), own.job_id)
    assert own.directory == other.directory == "stage/x"
    report["runs"][0]["testcases"][0]["result"] = "abort"
    assert {case.result for case in sessions._cases(report, "here", ())} == {"abort"}
    report["runs"][0]["testcases"][0]["rival_run"] = ["?"]
    with refused_as("file-damaged", match="rival_run"):
        list(sessions._cases(report, "here", ()))


@pytest.mark.parametrize(("jobs", "units"), [(3, comparison.PAIRS)])
def test_pairs_see_what_the_machines_noise_hides(tmp_path: Path, jobs: int, units: str) -> None:
    """Both stacks meet the same 20 % of noise in each repeat; 3 %
    between them is seen only pair by pair.
    """
    rng = np.random.default_rng(5)
    shared: dict[tuple[str, int], float] = {}

    def interleave(pair: bool) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def edit(row: dict[str, Any]) -> dict[str, Any]:
            place = int(row["case"].rsplit(":", 1)[1])
            base = place % jobs
            theirs = place >= jobs
            noise = shared.setdefault(
                (base, row["repeat"]), float(np.exp(0.2 * rng.standard_normal()))
            )
            case = f"{row['session']}:0:{base}{':rival' if theirs else ''}" if pair else row["case"]
            return {**row, "case": case, "value": row["value"] * noise * (1.03 if theirs else 1.0)}

        return edit

    for number, pair in enumerate((True, False)):
        folder = tmp_path / str(pair)
        options = {
            "stacks": ("a-spack", "b-spack"),
            "jobs": jobs,
            "noise": 0.002,
            "benchmarks": {"PingPong": "latency_us"},
        }
        write_session(folder, number, edit=interleave(pair), **options)
        if pair:
            name_the_cases(folder, jobs)
        rows = pairing.pair(Store(folder), "latest", "stack", "a-spack", "b-spack").bands.to_dicts()
        assert {row["winner"] for row in rows} == ({"a-spack"} if pair else {pairing.TIE})
        assert ({row["units"] for row in rows} == {units}) == pair
        if pair:
            assert all(row["ratio"] == pytest.approx(1.03, abs=0.006) for row in rows)


def name_the_cases(folder: Path, jobs: int) -> None:
    """The table of cases with the ids that the samples have."""
    import polars as pl

    path = next((folder / "cases").rglob("*.parquet"))
    table = pl.read_parquet(path)
    names = [
        f"{table['session'][0]}:0:{place % jobs}{':rival' if place >= jobs else ''}"
        for place in range(2 * jobs)
    ]
    write_file(path, table.with_columns(case=pl.Series(names)))


EXTRAS = {"node_counts": [2, 16]}


def job(answer: Any, scheduler: str = "slurm", *, there: int = 64, flex: Any = "idle") -> Any:
    """A job that ReFrame finds so many nodes for, or an error, on a partition that has so many."""

    def guess() -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def filternodes(_: Any, nodes: set[int]) -> set[int]:
        return nodes - {-1}  # of another partition

    named = SimpleNamespace(
        registered_name=scheduler, allnodes=lambda: {-1, *range(there)}, filternodes=filternodes
    )
    return SimpleNamespace(guess_num_tasks=guess, scheduler=named, sched_flex_alloc_nodes=flex)


def count(answer: Any, nodes: int = ALL_NODES, *, dry_run: bool = False) -> int:
    return batch.count_nodes(nodes, "growth", job(answer), EXTRAS, dry_run=dry_run)


def test_as_many_as_are_idle_and_a_number_asked_for_is_kept() -> None:
    assert count(62) == 62
    assert count(62, nodes=4) == 4
    assert batch.count_nodes(ALL_NODES, "growth", job(4, flex=4), EXTRAS, dry_run=False) == 4
    assert count(RuntimeError("nobody is asked"), dry_run=True) == 16


@pytest.mark.parametrize(
    ("group", "largest", "measured"),
    [("collectives", False, {2, 16}), ("collectives", True, {16}), ("p2p", False, {2})],
)
def test_node_counts_that_a_group_is_measured_on(
    group: str, largest: bool, measured: set[int]
) -> None:
    def choose(counts: Sequence[int]) -> Sequence[int]:
        return counts[-1:] if largest else counts

    extras = {"node_counts": [16, 2]}
    assert {
        nodes for nodes in (2, 4, 16) if not parameters.why_not_on(nodes, group, extras, choose)
    } == measured
    assert "-P nodes=4" in parameters.why_not_on(4, group, extras, choose)


@pytest.mark.parametrize("state", sorted(batch.BAD_STATES))
def test_no_state_that_cuts_a_job_short_passes_whatever_the_exit_status(state: str) -> None:
    for text in (state, f"COMPLETED,{state}", f"{state}+"):
        for status in (0, 1, None):
            [sentence] = batch.judge(JobEnd("7", text, status))
            assert sentence.startswith(f"ended in state {state}: ")


@pytest.mark.parametrize("access", [["-p x", "--comment=a=b"], ["--comment a=b"]])
def test_a_comment_of_the_site_stays_before_the_mark_of_the_job(access: list[str]) -> None:
    own = batch.submit_options("slurm")[-1].partition("=")[2]
    comment = shlex.split(batch.submit_options("slurm", access)[-1])[0].partition("=")[2]
    assert comment == f"a=b {own}"
    assert [job.number for job in orphans.read_queue(f"7|RUNNING|{comment}|/s")] == ["7"]


def test_a_job_of_this_process_is_no_orphan_and_one_of_a_dead_process_is() -> None:
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
    ("scheduler", "count", "wanted", "chosen", "options"),
    [
        ("slurm", 2, ("c1", "c2"), [], ["--nodelist=c1,c2"]),
        ("slurm_shared", 1, ("c1",), ["--account=x"], ["--nodelist=c1"]),
        ("slurm", 4, ("c1", "c2"), [], []),
        ("slurm", 2, ("c1", "c2"), ["--nodelist=c3,c4"], []),
        ("local", 1, ("here",), [], []),
        ("pbs", 1, ("c1",), [], ["host=c1"]),
        ("pbspro", 1, ("c1",), ["--host c2"], []),
        ("pbs", 2, ("c1", "c2"), [], []),
    ],
)
def test_a_job_asks_for_nodes_by_name_unless_somebody_chose_others(
    scheduler: str, count: int, wanted: Sequence[str], chosen: list[str], options: list[str]
) -> None:
    job = SimpleNamespace(options=[], cli_options=chosen)
    partition = SimpleNamespace(scheduler=SimpleNamespace(registered_name=scheduler))
    batch.ask_for_nodes(job, partition, count, wanted)
    assert job.options == options


@pytest.mark.parametrize(
    ("scheduler", "tasks", "given", "asked"),
    [("pbs", 1, None, 64), ("pbs", 128, None, 1), ("pbs", 4, 2, 2), ("torque", 4, None, None)],
)
def test_pbs_is_asked_for_all_cores_of_a_node(
    scheduler: str, tasks: int, given: int | None, asked: int | None
) -> None:
    """Its cgroup hook confines a job to the CPUs it asks for,
    and core lists name any of the node.
    """
    test = SimpleNamespace(num_tasks_per_node=tasks, num_cpus_per_task=given)
    batch.ask_for_cores(test, scheduler, 64)
    assert test.num_cpus_per_task == asked
