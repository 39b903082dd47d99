"""Job scripts of the template sites, against golden files that were read
line by line: launchers and networks nobody has here.

Each template is filled in as a site would, and ReFrame writes its jobs in a dry run.
``MPIBENCH_GOLDEN=write`` writes the golden files: read the diff.
"""

import re

import pytest

import synthetic_site
import synthetic_stack
from folders import write
from programs import compare, fabric_of, listed, normalised
from reframe_tests.harness.sites import site
from synthetic_site import write_site

TEMPLATES = site.ROOT / "site_configs" / "template"
#: Template: fabrics, processes per node and policy of the scripts looked at; always two nodes.
CASES = {
    "cray_ex_pals": ("(ss200|ss200_low|ss800|plain)", "4", "nic_local"),
    "flux_infiniband": ("(hdr200|hdr200_low|plain)", "2", "scatter"),
}
#: Template: a fabric that is described again, as one of another service
#: level or traffic class.
LOW = {
    "cray_ex_pals": ("ss200", {"traffic_class": "LOW_LATENCY"}),
    "flux_infiniband": ("hdr200", {"service_level": 3, "traffic_class": 104}),
}


def filled(template, folder):
    """The system of a template, as valid as a site would make it."""
    code = (TEMPLATES / f"{template}.py").read_text().partition('"""\n\n')[2]
    code = code.replace("mlx5_0 (ibv_devices)", "mlx5_0")
    code = code.replace("folder all nodes see", str(folder / "results"))
    code = re.sub('_NUMA = ".*"', "_NUMA = 0", code).replace("FILL_IN: ", "")
    name = f"template-{template.replace('_', '-')}"
    return site.read_system(
        write(folder / name / "system.py", code.replace('"mysystem"', f'"{name}"'))
    )


@pytest.mark.parametrize("template", CASES)
def test_job_scripts_of_templates(template, run_reframe, tmp_path):
    fabrics, ppn, pinning = CASES[template]
    system = filled(template, tmp_path / "filled")
    stacks = synthetic_stack.write_all(tmp_path / "stacks", rows=synthetic_stack.TODAY)
    where = {
        "config": write_site(tmp_path / "site", system),
        "environ": {"MPIBENCH_STACKS": stacks},
    }
    listing = run_reframe("-lC", f"--system={system['name']}", **where).stdout
    described = system["partitions"][0]["extras"]["fabrics"]
    name, classes = LOW[template]
    described[f"{name}_low"] = {**described[name], **classes}
    where["config"] = write_site(tmp_path / "low", system)
    words = f"--system={system['name']} -S level=smoke --stage={tmp_path}/stage --keep-stage-files"
    words += f" -P nodes=2 -P ppn={ppn} -P pinning={pinning} -n ImbPointToPoint%fabric={fabrics}%"
    result = run_reframe("--dry-run", words=words, **where, only="point_to_point.py", ended=0)
    written = {
        f"{path.parts[-3]}-{fabric_of(path, result.stdout)}.txt": normalised(path.read_text())
        for path in sorted((tmp_path / "stage").rglob("rfm_job.sh"))
    }
    compare(system["name"], {**written, "listing.txt": listed(listing)})


def test_a_job_on_one_node_asks_slurm_for_slingshots_network(run_reframe, tmp_path):
    """And each job for the time its launches take, and not for
    that in which all of them would hang.
    """
    system = synthetic_site.newcomer()
    rail = {"device": "cxi0", "line_rate_gbit_per_s": 200, "numa_node": 0}
    system["partitions"][0]["extras"]["fabrics"] = {
        "ss200": {"transport": "cxi", "scope": "cluster", "rails": [rail]},
        "shm": {"transport": "shm", "scope": "node"},
    }
    words = f"--dry-run --system=mysystem --stage={tmp_path}/stage --keep-stage-files"
    words += " -p mpich-spack -P ppn=2 -P pinning=bunch -n ImbPointToPoint"
    config = synthetic_site.write(tmp_path / "site", system) / "site_configs" / "settings.py"
    result = run_reframe(words=words, config=config, only="point_to_point.py", ended=0)
    scripts = (tmp_path / "stage").rglob("rfm_job.sh")
    written = {fabric_of(path, result.stdout): path.read_text() for path in scripts}
    assert set(written) == {"shm", "ss200"} and "--network" not in written["ss200"]
    assert re.search(r"^#SBATCH --network=single_node_vni$", written["shm"], re.MULTILINE)
    assert re.search(r"^ +srun .*--network=single_node_vni", written["shm"], re.MULTILINE)
    # Three launches of 2 x 23 sizes, the check, and one that hangs;
    # all of them hanging would be 0:31:0.
    for text in written.values():
        assert 7 <= int(re.findall(r"#SBATCH --time=0:([0-9]+):", text)[0]) <= 12
