"""Job scripts of the template sites, against golden files that were read line by line: launchers and networks nobody has here.

Each template is filled in as a site would, and ReFrame writes its jobs in a dry run. ``MPIBENCH_GOLDEN=write`` writes the
golden files: read the diff.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import planned_sites
import published_stacks
from job_scripts import compare, fabric_of, listed, normalised
from mpibench.commands.listings import doctor
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.sites import site
from tiny_site import write_site

TEMPLATES = site.ROOT / "site_configs" / "template"
#: Template: fabrics, processes per node and policy of the scripts looked at; always two nodes.
CASES = {"cray_ex_pals": ("(ss200|ss800|plain)", "4", "nic_local"), "flux_infiniband": ("(hdr200|plain)", "2", "scatter")}


def filled(template: str, folder: Path) -> dict[str, Any]:
    """The system of a template, as valid as a site would make it."""
    code = (TEMPLATES / f"{template}.py").read_text().partition('"""\n\n')[2]
    for word, ours in (("mlx5_0 (ibv_devices)", "mlx5_0"), ("folder all nodes see", str(folder / "results"))):
        code = code.replace(f"FILL_IN: {word}", ours)
    code = re.sub('_NUMA = ".*"', "_NUMA = 0", code)
    path = folder / f"template-{template.replace('_', '-')}" / "system.py"
    path.parent.mkdir(parents=True)
    path.write_text(code.replace("FILL_IN: ", "").replace('"mysystem"', f'"{path.parent.name}"'))
    return site.read_system(path)


@pytest.mark.parametrize("template", CASES)
def test_job_scripts_of_templates(template: str, run_reframe: Any, tmp_path: Path) -> None:
    fabrics, ppn, pinning = CASES[template]
    system = filled(template, tmp_path / "filled")
    stage = tmp_path / "stage"
    where: dict[str, Any] = {
        "config": write_site(tmp_path, system),
        "environ": {"MPIBENCH_STACKS": published_stacks.write_all(tmp_path / "stacks", rows=published_stacks.TODAY)},
    }
    result = run_reframe(
        *("--dry-run", f"--system={system['name']}", "-S", "level=smoke", f"--stage={stage}", "--keep-stage-files"),
        *("-P", "nodes=2", "-P", f"ppn={ppn}", "-P", f"pinning={pinning}", "-n", f"ImbPointToPoint%fabric={fabrics}%"),
        **where,
        only="point_to_point.py",
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr
    written = {
        f"{path.parts[-3]}-{fabric_of(path, result.stdout)}.txt": normalised(path.read_text())
        for path in sorted(stage.rglob("rfm_job.sh"))
    }
    written["listing.txt"] = listed(run_reframe("-lC", f"--system={system['name']}", **where).stdout)
    compare(system["name"], written)


@pytest.mark.parametrize("template", CASES)
def test_a_template_says_that_it_is_one_and_the_doctor_what_nobody_ran(template: str, tmp_path: Path) -> None:
    text = (TEMPLATES / f"{template}.py").read_text()
    assert text.startswith('"""A TEMPLATE, to copy, ') and "Nothing was ever measured on it." in text.partition("\n\n")[0]
    assert not list(TEMPLATES.glob("references.yaml")) and "template" not in {each.parent.name for each in site.system_files()}
    for partition in filled(template, tmp_path)["partitions"]:
        launcher = registry.find(partition["launcher"], "")
        assert launcher and launcher.untested
        [note] = list(doctor.check_launcher("here:p", partition["launcher"]))
        assert note.state == doctor.NOTE and f"launcher {launcher.title} was never run by this project" in note.detail
    assert list(doctor.check_launcher("here:p", "srun")) == list(doctor.check_launcher("here:p", "mpirun")) == []
    [unknown] = list(doctor.check_launcher("here:p", "ibrun"))
    assert unknown.state == doctor.MISSING and "nothing is known about pinning under launcher ibrun" in unknown.detail


def test_a_job_on_one_node_asks_slurm_for_slingshots_network(run_reframe: Any, tmp_path: Path) -> None:
    """And each job for the time its launches take, and not for that in which all of them would hang."""
    system = planned_sites.newcomer()
    [partition] = system["partitions"]
    rail = {"device": "cxi0", "line_rate_gbit_per_s": 200, "numa_node": 0}
    partition["extras"]["fabrics"] = {
        "ss200": {"transport": "cxi", "scope": "cluster", "rails": [rail]},
        "shm": {"transport": "shm", "scope": "node"},
    }
    stage = tmp_path / "stage"
    result = run_reframe(
        *("--dry-run", "--system=mysystem", f"--stage={stage}", "--keep-stage-files", "-p", "mpich-spack"),
        *("-P", "ppn=2", "-P", "pinning=bunch", "-n", "ImbPointToPoint"),
        config=planned_sites.write(tmp_path / "site", system) / "site_configs" / "settings.py",
        only="point_to_point.py",
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr
    written = {fabric_of(path, result.stdout): path.read_text() for path in stage.rglob("rfm_job.sh")}
    assert set(written) == {"shm", "ss200"} and "--network" not in written["ss200"]
    assert re.search(r"^#SBATCH --network=single_node_vni$", written["shm"], re.MULTILINE)
    assert re.search(r"^ +srun .*--network=single_node_vni", written["shm"], re.MULTILINE)
    # Three launches of 2 x 23 sizes, the check, and one that hangs; all of them hanging would be 0:31:0.
    minutes = [int(re.findall(r"^#SBATCH --time=0:([0-9]+):", text, re.MULTILINE)[0]) for text in written.values()]
    assert all(7 <= number <= 12 for number in minutes), minutes
