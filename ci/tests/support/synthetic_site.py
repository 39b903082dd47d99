"""Sites: right or wrong in one place, tiny, to plan nights for, of centres, and as the docs show."""

from __future__ import annotations

import pprint
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

import folders
import programs
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue
from replacing import DELETED, replaced
from synthetic_stack import write_stack

# ---- The folder of a made-up site, right or wrong in one place.

#: Way to the fabrics in a system.
FABRICS = ("partitions", 0, "extras", "fabrics")
_KNOWN = yaml.safe_load((folders.DATA / "sites.yaml").read_text())
GOOD: dict[str, Any] = _KNOWN["good"]


def write_system(folder: Path, system: object) -> Path:
    """Write the site's ``system.py`` below ``folder`` and return it."""
    path = folder / "site_configs" / "mysystem" / "system.py"
    return folders.write(path, f"system = {pprint.pformat(system)}\n")


def edit(path: tuple, value: object) -> dict:
    """The good system with one value replaced, or (``None``) removed."""
    system: dict = replaced(GOOD, path, DELETED if value is None else value)
    return system


# ---- A project with one system, one test that writes a file, and the real configuration code:
# ReFrame runs it in two seconds.

SYSTEM = """
system = {
    "name": "tiny",
    "descr": "one node for tests",
    "hostnames": [".*"],
    "partitions": [
        {
            "name": "node", "scheduler": "local", "launcher": "local", "max_jobs": 1, "processor": {"num_cpus": 2},
            "extras": {"fabrics": {"shm": {"transport": "shm", "scope": "node"}}},
        },
    ],
}
"""
SETTINGS = f"""
import sys
from pathlib import Path
sys.path.append({str(ROOT)!r})
from reframe_tests.harness.sites import site
site_configuration = site.load(Path(__file__).resolve().parent.parent)
"""
TEST = """
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, sanity_function, variable


@rfm.simple_test
class Writer(rfm.RunOnlyRegressionTest):
    level = variable(str, value="none")
    repeats = variable(int, value=1)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "echo $PPID $RANDOM $RANDOM $RANDOM > evidence.txt; sleep ${WRITER_SLEEPS:-0}"
    keep_files = ["evidence.txt"]
    tags = {"smoke", "production"}

    @sanity_function
    def believe(self):
        return sn.assert_found("[0-9]", "evidence.txt")

    @performance_function("us")
    def latency(self):
        return 1.5
"""


def write_site(top: Path, system: Mapping[str, Any]) -> Path:
    """A project's ``site_configs`` with one system and the real
    configuration code; its settings file, for ReFrame.
    """
    folder = top / "site_configs"
    folders.write(folder / system["name"] / "system.py", f"system = {system!r}\n")
    return folders.write(folder / "settings.py", SETTINGS)


class TinySite:
    """The project in a folder of its own, and a temporary folder of
    its own for what ReFrame puts there.
    """

    def __init__(self, top: Path) -> None:
        self.top = top
        self.results = top / "results"
        self.temporary = top / "tmp"
        folders.write(top / "site_configs/tiny/system.py", SYSTEM)
        folders.write(top / "site_configs/settings.py", SETTINGS)
        folders.write(top / "reframe_tests/writer.py", TEST)
        self.temporary.mkdir()

    def begin(self, *options: str, **environ: str) -> subprocess.Popen[str]:
        """Start ReFrame on the project's tests."""
        settings = {
            "RFM_CONFIG_FILES": str(self.top / "site_configs" / "settings.py"),
            "RFM_COLORIZE": "no",
            "TMPDIR": str(self.temporary),
            **environ,
        }
        reframe = str(Path(sys.executable).with_name("reframe"))
        return programs.begin([reframe, "-c", "reframe_tests", *options], self.top, settings)

    def reframe(self, *options: str, **environ: str) -> tuple[int, str]:
        """Exit status and output of one ReFrame."""
        return programs.end_of(self.begin(*options, **environ))

    def evidence(self) -> dict[str, str]:
        """What the test of each session left in its output folder, by the name of that folder."""
        files = (self.results / "output").glob("*/tiny/node/builtin/*/evidence.txt")
        return {
            path.relative_to(self.results / "output").parts[0]: path.read_text() for path in files
        }

    def stored(self) -> list[str]:
        """Ids of the stored sessions, oldest first."""
        with closing(sqlite3.connect(self.results / "results.db")) as db:
            rows = db.execute("select uuid from sessions order by session_start_unix")
            return [name for (name,) in rows]


# ---- Sites to plan nights for: as a newcomer's, with stacks that are only files and topologies
# by data sheet.

#: Name to MPI, version, device, ABI, launcher and what the library
#: says: the four that Spack builds here.
STACKS: dict[str, list[str]] = _KNOWN["stacks"]
#: The five of a centre: modules beside those.
FIVE_STACKS = {**STACKS, **_KNOWN["modules"]}
del FIVE_STACKS["mvapich2-spack"]
#: Two sockets of 32 cores, as the tutorial's example says of its nodes.
NODE = describe(2, 32)


def newcomer() -> dict[str, Any]:
    """The tutorial's example: two nodes, two networks and shared memory."""
    names: dict[str, Any] = {}
    exec(system_example().replace("FILL_IN: ", ""), names)  # the block is Python, and ours
    system: dict[str, Any] = names["system"]
    system["partitions"][0]["processor"] = NODE
    del system["prefix"]
    return system


def large() -> dict[str, Any]:
    """Three networks and shared memory, on 2 to 64 nodes."""
    system = newcomer()
    extras = system["partitions"][0]["extras"]
    extras["node_counts"] = [2, 4, 8, 16, 32, 64]
    extras["fabrics"]["hdr100"] = {
        **extras["fabrics"]["hdr200"],
        "rails": [{"device": "mlx5_1", "line_rate_gbit_per_s": 100, "numa_node": 1}],
    }
    return system


def three_partitions() -> dict[str, Any]:
    """Nodes measured on 2 and on 16, others on 2, and these once
    more, started by each stack's own launcher.
    """
    system = newcomer()
    [partition] = system["partitions"]
    counts = {"cpu": [2, 16], "gpu": [2], "gpu-mpirun": [2]}
    system["partitions"] = [
        _named(partition, name, node_counts=numbers) for name, numbers in counts.items()
    ]
    system["partitions"][-1]["launcher"] = "mpirun"
    return system


def _named(partition: dict[str, Any], name: str, **extras: Any) -> dict[str, Any]:
    """The partition once more, with other extras."""
    return {**partition, "name": name, "extras": {**partition["extras"], **extras}}


def centre() -> dict[str, Any]:
    """A computing centre's: processors on 2, 16 and 64 nodes of three
    networks, GPUs on 2 and 8, and two old nodes.
    """
    system = large()
    [partition] = system["partitions"]
    fabrics = partition["extras"]["fabrics"]
    places = {
        "cpu": ([2, 16, 64], fabrics),
        "gpu": ([2, 8], {name: row for name, row in fabrics.items() if name != "hdr100"}),
        "old": ([2], {name: fabrics[name] for name in ("eth25g", "shm")}),
    }
    system["partitions"] = [
        _named(partition, name, node_counts=counts, fabrics=there)
        for name, (counts, there) in places.items()
    ]
    return system


def write(top: Path, system: dict[str, Any], stacks: Mapping[str, list[str]] = STACKS) -> Path:
    """A checkout with that site, four stacks and the project's own tests; its folder."""
    write_site(top, system)
    (top / "reframe_tests").symlink_to(ROOT / "reframe_tests")
    programs = {row.binary: row.suite for row in catalogue.ROWS if row.suite in ("imb", "osu")}
    for name, (mpi, version, device, abi, launcher, pattern) in stacks.items():
        folder = top / "environments" / name
        for program in programs:
            folders.write(folder / "bin" / program, "#!/bin/sh\n", executable=True)
        write_stack(
            folder,
            name=name,
            origin="spack",
            mpi={"name": mpi, "version": version, "device": device},
            abi=abi,
            launcher_family=launcher,
            library_version_pattern=pattern,
            binaries={program: str(folder / "bin" / program) for program in programs},
            commands={"mpi4py.bench": ["/bin/true", "-m", "mpi4py.bench"]},
            suites={
                suite: {"version": number, "built_with": "gcc"}
                for suite, number in (("imb", "2021.11"), ("osu", "7.5.2"))
            },
        )
    return top


# ---- Made-up ReFrame configurations in the styles in which centres write theirs, with fabrics in
# the extras of a partition.

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
                    "features": ["big"], "extras": {"mem_per_node": 1024@CENTRE_FABRICS@},
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
                    "features": ["remote", "image"], "access": ["--account=ocean"], "extras": {"cn_memory": 870000@CENTRE_FABRICS@},
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
                    "features": ["cpu", "scale_2_nodes"], "extras": {"mem_per_node": 229376@CENTRE_FABRICS@}, "max_jobs": 120,
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
  - {name: batch, scheduler: squeue, launcher: srun, access: ['-p all'], environs: [plain], extras: {"rack": 7@CENTRE_FABRICS@}}
environments:
- {name: plain, features: [stream]}
"""
#: What is added to the extras of a partition, as Python and YAML both read it.
CENTRE_FABRICS = """, "node_counts": [2], "fabrics": {
    "hdr200": {"transport": "ucx", "scope": "cluster", "min_efficiency": 0.9,
        "rails": [{"device": "mlx5_0", "line_rate_gbit_per_s": 200, "numa_node": 0}]},
    "eth1g": {"transport": "tcp", "scope": "cluster", "mtu_bytes": 1500,
        "rails": [{"device": "eth0", "line_rate_gbit_per_s": 1}]},
    "shm": {"transport": "shm", "scope": "node"}}"""


#: Style to its files, of which ReFrame is given the first, its system, the partition that is
#: measured on, and those on which nothing is measured.
STYLES: dict[str, tuple[Any, ...]] = {
    "modules": ({"settings.py": MODULES}, "lagoon", "compute", "skiffs"),
    "images": (
        {
            "centre.py": IMAGES,
            "systems/common.py": IMAGES_COMMON,
            "systems/reef.py": IMAGES_SYSTEMS,
        },
        "reef",
        "normal",
        "login",
    ),
    "features": ({"site.py": FEATURES}, "atoll", "rome"),
    "yaml": ({"site.yaml": IN_YAML}, "cove", "batch"),
}


class CentreSite:
    """A folder with a centre's configuration, and beside it a project
    with the site's folder for one of its systems.

    :param style: of :data:`STYLES`.
    :param fabrics: added to the extras of the partition.
    """

    def __init__(self, top: Path, style: str, fabrics: str = CENTRE_FABRICS) -> None:
        self.top = top
        self.root = top / "project"
        self.logs = top / "logs"
        self.logs.mkdir(parents=True)
        files, self.system, self.partition, *self.others = STYLES[style]
        for name, text in files.items():
            text = text.replace("@LOGS@", str(self.logs)).replace("@CENTRE_FABRICS@", fabrics)
            folders.write(top / "centre" / name, text)
        self.file = top / "centre" / next(iter(files))
        self.folder = self.root / "site_configs" / self.system
        self.folder.mkdir(parents=True)
        self.settings = folders.write(self.folder.parent / "settings.py", SETTINGS)

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


# ---- What README and docs show, for tests that try it.

README = metadata.ROOT / "README.md"
DOCS = metadata.ROOT / "docs"
#: Every page that a reader is shown.
PAGES = (README, *sorted(DOCS.rglob("*.md")))
#: What those read who contribute or report, beside the site.
BESIDE = (
    *(metadata.ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(metadata.ROOT.glob("ci/mpibench_*/README.md")),
)


def page(name: str) -> str:
    """A page of ``docs/``, such as ``how-to/spack``.

    :raises FileNotFoundError: if there is none.
    """
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    """``README`` or the name of a page, as :func:`page` takes it."""
    top = DOCS if path.is_relative_to(DOCS) else metadata.ROOT
    return str(path.relative_to(top).with_suffix(""))


def system_example() -> str:
    """The ``system.py`` a newcomer pastes."""
    examples = page("tutorials/your-cluster").split("```python\n")[1:]
    [block] = [part.split("```")[0] for part in examples if '"name": "mysystem"' in part]
    return block
