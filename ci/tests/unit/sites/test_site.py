"""Site files: found, merged, and refused with one sentence that names file, key and remedy."""

import copy
import json
from types import SimpleNamespace

import pytest

from reframe_tests.harness.cases.job import parameters
from reframe_tests.harness.sites import site
from refusals import refused_as
from synthetic_site import FABRICS, GOOD, edit, system_example, write_system


def the_partition(folder, **extras):
    """That of the good system as ReFrame gets it, with some extras more, or other options."""
    described = copy.deepcopy(GOOD)
    [row] = described["partitions"]
    row["sched_options"] = {"job_submit_timeout": 120, **extras.pop("sched_options", {})}
    row["extras"] |= extras
    (folder / "site_configs" / "mysystem").mkdir(parents=True, exist_ok=True)
    (folder / "site_configs" / "mysystem" / "system.py").write_text(f"system = {described!r}")
    [partition] = site.configuration(folder)[0]["systems"][0]["partitions"]
    return partition


@pytest.mark.parametrize("shared", [{}, {"share_allocations": {}}])
def test_a_job_that_slurm_would_never_start_is_not_waited_for(tmp_path, shared):
    """Without EnforcePartLimits Slurm keeps a job of more nodes, or more
    time, than its partition has in the queue for ever; but the site knows best.
    """
    reasons = "slurm_job_cancel_reasons"
    found = the_partition(tmp_path, **shared)["sched_options"]
    assert found["job_submit_timeout"] == 120
    wanted = {"ReqNodeNotAvail", "PartitionNodeLimit", "PartitionTimeLimit"}
    assert wanted <= set(found[reasons])
    stated = {reasons: ["JobHeldAdmin"]}
    found = the_partition(tmp_path, sched_options=stated, **shared)["sched_options"]
    assert found == {"job_submit_timeout": 120, **stated}


def test_a_start_may_have_all_its_cases_share_allocations(tmp_path, monkeypatch):
    monkeypatch.setenv("MPIBENCH_SHARE_ALLOCATIONS", "20")
    partition = the_partition(tmp_path)
    assert partition["scheduler"] == "slurm_shared"
    assert partition["extras"]["share_allocations"] == {"minutes": 20}
    monkeypatch.setenv("MPIBENCH_SHARE_ALLOCATIONS", "soon")
    with refused_as("bad-option", "soon"):
        the_partition(tmp_path)


@pytest.mark.parametrize(
    ("stated", "found"),
    [({}, {"minutes": 6}), (False, False), ({"minutes": 9}, {"minutes": 9})],
)
def test_cases_of_a_plan_share_allocations_unless_the_site_says_otherwise(
    tmp_path, monkeypatch, stated, found
):
    """For as long as those of one number of nodes take, and half of that."""
    own = {} if stated == {} else {"share_allocations": stated}
    plan = tmp_path / "plan.json"
    cases = [
        {"name": f"{name} %nodes={nodes} %ppn=1", "stack": "a", "planned": name != "C"}
        | {"partition": "compute", "seconds": seconds}
        for name, nodes, seconds in (("A", 2, 100), ("B", 2, 140), ("A", 4, 200), ("C", 2, 9999))
    ]
    monkeypatch.setenv("MPIBENCH_PLAN", str(plan))
    plan.write_text(json.dumps({"system": GOOD["name"], "cases": cases}))
    partition = the_partition(tmp_path, **own)
    assert partition["extras"]["share_allocations"] == found
    assert partition["scheduler"] == ("slurm" if found is False else "slurm_shared")
    plan.write_text(json.dumps({"system": "another", "cases": cases}))
    assert the_partition(tmp_path, **own)["extras"].get("share_allocations", {}) == stated


@pytest.mark.parametrize(
    ("code", "plain", "cards"),
    [
        ("name-taken", {}, [{"bus_id": "0000:03:00.0"}, {}, {"bus_id": "0000:03:00.0"}]),
        ("system-description", {}, [{"nic": "mlx5_1"}, {"nic": "mlx5_4"}]),
        ("system-description", {"transport": "gpu_ipc", "scope": "node"}, [{}]),
        ("system-description", {"expect": "hdr200_device"}, [{}]),
    ],
)
def test_bad_gpus_are_refused(tmp_path, code, plain, cards):
    """Beside the network a fabric on which nothing is forced."""
    both = ["host", "device"]
    row = {"transport": "as_shipped", "scope": "cluster", "memory": both, **plain}
    system = edit((*FABRICS, "plain"), row)
    extras = system["partitions"][0]["extras"]
    extras["fabrics"]["hdr200"]["memory"] = both
    extras["gpus"] = {"kind": "cuda", "of_node": cards}
    with refused_as(code, match=r"system\.py: .*partition compute"):
        site.read_system(write_system(tmp_path, system))


def test_what_nothing_is_forced_on_has_the_forced_fabrics_of_its_kind_as_choices():
    """It is expected to take the one of its own memory."""
    both = ["host", "device"]
    system = edit((*FABRICS, "hdr200", "memory"), both)
    extras = system["partitions"][0]["extras"]
    extras["gpus"] = {"kind": "cuda", "of_node": [{}]}
    extras["fabrics"]["plain"] = {"transport": "as_shipped", "scope": "cluster"}
    extras["fabrics"]["plain"] |= {"memory": both, "expect": "hdr200"}
    found = {
        name: ([choice.name for choice in fabric.choices], fabric.expect)
        for name, fabric in site.fabrics_of(extras).items()
    }
    assert found == {
        "shm": ([], ""),
        "hdr200": ([], ""),
        "hdr200_device": ([], ""),
        "plain": (["hdr200"], "hdr200"),
        "plain_device": (["hdr200_device"], "hdr200_device"),
    }


def test_every_bundled_system_is_good(tmp_path):
    """And the example of the tutorial, which gets every stack."""
    files = site.system_files()
    assert files[-1].parent.name == "generic", "the system that fits any host must be tried last"
    for file in files:
        assert site.read_system(file)["name"] == file.parent.name
    fabrics = site.fabrics_of(site.read_system(files[-1])["partitions"][0]["extras"])
    assert {name: row.transport for name, row in fabrics.items()} == {"shm": "shm", "lo": "tcp"}
    path = write_system(tmp_path, GOOD)
    path.write_text(system_example())
    for partition in site.read_system(path)["partitions"]:
        assert site.fitting_stacks(partition["extras"], ["a", "b-spack"]) == ["a", "b-spack"]


@pytest.mark.parametrize(
    ("patterns", "registered", "wanted"),
    [
        (["*-wheels", "a-*"], ["a-wheels"], ""),
        (["*-wheels", "x"], ["a-wheels"], "'x' in extras.stacks fits no stack, so nothing is"),
        (["*"], [], "'*' in extras.stacks fits no stack, so nothing is measured for it; none is"),
    ],
)
def test_a_pattern_that_fits_nothing_is_named(patterns, registered, wanted):
    sentence = site.unmatched_stacks({"stacks": patterns}, registered)
    assert sentence.startswith(wanted) and bool(sentence) == bool(wanted)


def test_stacks_asked_for_in_vain_are_those_of_the_site_that_was_loaded(tmp_path, monkeypatch):
    """A site beside the checkout has stacks of its own; those of the checkout are none of it."""
    asked = []
    extras = {"fabrics": {"shm": {"transport": "shm", "scope": "node"}}, "stacks": ["mine-*"]}
    partition = type("Partition", (), {"extras": extras, "fullname": "here:p"})()
    here = SimpleNamespace(name="here", partitions=[partition])
    monkeypatch.setattr(parameters.rt, "runtime", lambda: SimpleNamespace(system=here))
    monkeypatch.setattr(
        parameters.metadata, "discover", lambda root: (asked.append(root) or [], [])
    )
    for loaded in ([], [tmp_path]):
        monkeypatch.setattr(site, "LOADED", loaded)
        parameters.warn_of_unmatched_stacks()
    assert asked == [site.ROOT, tmp_path]


# ---- files of a system outside the checkout: read, written and named where they are ----
