"""Made-up ReFrame configurations in the styles in which centres write
theirs, with fabrics in the extras of a partition.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from tiny_site import SETTINGS

#: Environments by module, processors by count, a launcher of its own,
#: performance logs, a system for any other machine.
MODULES = """
import reframe.core.launchers.mpi as mpi


@mpi.register_launcher("skiff_mpirun")
class SkiffLauncher(mpi.MpirunLauncher):
    def command(self, job):
        return ["mpirun", "$SKIFF_ARGS"]


COUNTS = {"num_cpus": 8, "num_cpus_per_core": 1, "num_sockets": 2, "num_cpus_per_socket": 4}
MASKS = {
    "numa_nodes": ["0x0f", "0xf0"], "sockets": ["0x0f", "0xf0"], "caches": [],
    "cores": ["0x01", "0x02", "0x04", "0x08", "0x10", "0x20", "0x40", "0x80"],
}
site_configuration = {
    "systems": [
        {
            "name": "lagoon", "descr": "by module", "hostnames": [r"lagoon-login\\d"], "modules_system": "nomod",
            "partitions": [
                {
                    "name": "compute", "descr": "all nodes", "scheduler": "slurm", "launcher": "srun",
                    "access": ["--partition=standard", "--account=ocean"], "environs": ["gnu", "intel"],
                    "env_vars": [["HARBOUR_FEES", "none"]], "max_jobs": 7, "time_limit": "1h",
                    "processor": {**COUNTS, "topology": MASKS}, "sched_options": {"job_submit_timeout": 120},
                    "container_platforms": [{"type": "Singularity"}],
                    "resources": [{"name": "mem", "options": ["--mem={size}"]}],
                    "features": ["big"], "extras": {"mem_per_node": 1024@FABRICS@},
                    "prepare_cmds": ["echo prepared by the centre"],
                },
                {
                    "name": "skiffs", "scheduler": "slurm", "launcher": "skiff_mpirun", "environs": ["gnu"],
                    "processor": COUNTS,
                },
            ],
        },
        {
            "name": "default", "descr": "any other", "hostnames": [".*"],
            "partitions": [{"name": "default", "scheduler": "local", "launcher": "mpirun", "environs": ["gnu"]}],
        },
    ],
    "environments": [
        {"name": "gnu", "modules": ["gcc/13", {"name": "openmpi/5", "collection": False}], "cc": "mpicc"},
        {"name": "intel", "modules": ["intel/2026"], "cc": "mpiicx", "target_systems": ["lagoon"]},
    ],
    "logging": [
        {
            "level": "debug",
            "handlers": [
                {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"},
                {"type": "file", "name": "@LOGS@/reframe.log", "level": "debug", "format": "%(message)s", "append": False},
            ],
            "handlers_perflog": [
                {
                    "type": "filelog", "prefix": "%(check_system)s/%(check_partition)s", "level": "info",
                    "basedir": "@LOGS@/perflogs", "format": "%(check_job_completion_time)s|%(check_info)s|%(check_perfvalues)s",
                    "format_perfvars": "%(check_perf_value)s|%(check_perf_unit)s|", "append": True,
                },
            ],
        },
    ],
}
"""
#: Modes, features, images in place of modules, a file for each system, performance values sent
#: away, detection on the nodes.
IMAGES = """
import glob
import os
from reframe.utility import import_module_from_file

here = os.path.dirname(os.path.abspath(__file__))
parts = [import_module_from_file(path).site_configuration for path in sorted(glob.glob(os.path.join(here, "systems", "*.py")))]
site_configuration = {}
for part in parts:
    for key, rows in part.items():
        site_configuration.setdefault(key, []).extend(rows)
for system in site_configuration["systems"]:
    for partition in system["partitions"]:
        if "image" in partition.get("features", []):
            partition["environs"] += [f"{name}-image" for name in os.environ.get("IMAGES", "").split(",") if name]
            partition["resources"] = [{"name": "image", "options": ["--image={image}"]}]
"""
IMAGES_COMMON = """
import os


def as_json(record, extras, ignore_keys):
    return None


site_configuration = {
    "environments": [
        {"name": "builtin", "cc": "cc", "features": ["builtin"]},
        *({"name": f"{name}-image", "resources": {"image": {"image": name}}, "features": ["mpi"]}
          for name in os.environ.get("IMAGES", "").split(",") if name),
    ],
    "modes": [{"name": "production", "options": ["--tag=production", "-p '(?!PrgEnv)'"]}, {"name": "nightly", "options": []}],
    "general": [{"remote_detect": True, "resolve_module_conflicts": False, "check_search_path": ["checks/"]}],
    "logging": [
        {
            "perflog_multiline": True,
            "handlers_perflog": [
                {"type": "filelog", "prefix": "%(check_system)s", "level": "info", "basedir": "@LOGS@/perflogs",
                 "format": "%(check_perf_var)s=%(check_perf_value)s", "append": True},
                {"type": "httpjson", "url": "http://127.0.0.1:9/nobody", "level": "info", "json_formatter": as_json},
            ],
        },
        {
            "target_systems": ["reef"],
            "handlers": [{"type": "file", "name": "@LOGS@/reef.log", "level": "debug2", "format": "%(message)s"}],
        },
    ],
}
"""
IMAGES_SYSTEMS = """
site_configuration = {
    "systems": [
        {
            "name": "reef", "descr": "by image", "hostnames": ["reef-ln", "alps-reef"], "prefix": "@LOGS@/reef",
            "partitions": [
                {"name": "login", "scheduler": "local", "launcher": "local", "environs": ["builtin"]},
                {
                    "name": "normal", "scheduler": "slurm", "launcher": "srun", "environs": ["builtin"],
                    "features": ["remote", "image"], "access": ["--account=ocean"], "extras": {"cn_memory": 870000@FABRICS@},
                    "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 4}],
                },
            ],
        },
    ],
}
"""
#: Features and extras by name, one environment set for all by a function, mpirun, a clean
#: environment in jobs, any host.
FEATURES = """
import os

prefix = "@LOGS@/runs"
os.makedirs(prefix, exist_ok=True)
print("a centre's file that prints")


def set_common(configuration):
    configuration["environments"] = [{"name": "default"}]
    for system in configuration["systems"]:
        for partition in system["partitions"]:
            partition["environs"] = ["default"]
            partition.setdefault("sched_options", {})["use_nodes_option"] = True


site_configuration = {
    "systems": [
        {
            "name": "atoll", "hostnames": [".*"], "prefix": prefix, "stagedir": f"{prefix}/staging",
            "partitions": [
                {
                    "name": "rome", "scheduler": "slurm", "launcher": "mpirun", "access": ["-p rome", "--export=None"],
                    "features": ["cpu", "scale_2_nodes"], "extras": {"mem_per_node": 229376@FABRICS@}, "max_jobs": 120,
                    "prepare_cmds": ["source /cvmfs/init"],
                },
            ],
        },
    ],
    "general": [{"remote_detect": True, "check_search_recursive": True, "report_file": f"{prefix}/run.json"}],
    "logging": [
        {"level": "debug", "handlers_perflog": [{"type": "filelog", "prefix": "%(check_system)s", "format": "%(check_info)s"}]},
    ],
}
set_common(site_configuration)
"""
#: In YAML, with a name from the environment.
IN_YAML = """
systems:
- name: cove
  descr: {{ getenv("COVE", "in YAML") }}
  hostnames: ['cove']
  partitions:
  - {name: batch, scheduler: squeue, launcher: srun, access: ['-p all'], environs: [plain], extras: {"rack": 7@FABRICS@}}
environments:
- {name: plain, features: [stream]}
"""
#: What is added to the extras of a partition, as Python and YAML both read it.
FABRICS = """, "node_counts": [2], "fabrics": {
    "hdr200": {"transport": "ucx", "scope": "cluster", "min_efficiency": 0.9,
        "rails": [{"device": "mlx5_0", "line_rate_gbit_per_s": 200, "numa_node": 0}]},
    "eth1g": {"transport": "tcp", "scope": "cluster", "mtu_bytes": 1500,
        "rails": [{"device": "eth0", "line_rate_gbit_per_s": 1}]},
    "shm": {"transport": "shm", "scope": "node"}}"""


class CentreSite:
    """A folder with a centre's configuration, and beside it a project
    with the site's folder for one of its systems.

    :param style: what writes the configuration: its file, system, partition,
        and the partitions on which nothing is measured.
    :param fabrics: added to the extras of the partition.
    """

    def __init__(self, top: Path, style: str, fabrics: str = FABRICS) -> None:
        self.top = top
        self.root = top / "project"
        self.logs = top / "logs"
        self.logs.mkdir(parents=True)
        self.file, self.system, self.partition, *self.others = STYLES[style](
            top / "centre", self.logs
        )
        self.folder = self.root / "site_configs" / self.system
        self.folder.mkdir(parents=True)
        self.settings = self.folder.parent / "settings.py"
        self.settings.write_text(SETTINGS)
        for path in self.file.parent.rglob("*.*"):
            path.write_text(path.read_text().replace("@FABRICS@", fabrics))

    def change(self, old: str, new: str) -> None:
        """Change the configuration before it is read for the first time:
        ReFrame keeps a module that it has loaded.
        """
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    @property
    def variable(self) -> str:
        """``RFM_CONFIG_FILES`` for both."""
        return f"{self.file}:{self.settings}"

    @property
    def options(self) -> list[str]:
        """The same as options of ReFrame."""
        return shlex.split(f"-C {self.file} -C {self.settings}")


def _written(folder: Path, name: str, text: str, logs: Path) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("@LOGS@", str(logs)))
    return path


def _modules(folder: Path, logs: Path) -> tuple[Path, str, str, str]:
    return _written(folder, "settings.py", MODULES, logs), "lagoon", "compute", "skiffs"


def _images(folder: Path, logs: Path) -> tuple[Path, str, str, str]:
    _written(folder, "systems/common.py", IMAGES_COMMON, logs)
    _written(folder, "systems/reef.py", IMAGES_SYSTEMS, logs)
    return _written(folder, "centre.py", IMAGES, logs), "reef", "normal", "login"


def _features(folder: Path, logs: Path) -> tuple[Path, str, str]:
    return _written(folder, "site.py", FEATURES, logs), "atoll", "rome"


def _in_yaml(folder: Path, logs: Path) -> tuple[Path, str, str]:
    return _written(folder, "site.yaml", IN_YAML, logs), "cove", "batch"


STYLES: dict[str, Callable[[Path, Path], tuple]] = {
    "modules": _modules,
    "images": _images,
    "features": _features,
    "yaml": _in_yaml,
}
