"""``mpibench doctor``: what this machine and the selected system offer, what is missing, and how to
get it.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from mpibench import own_reframe
from mpibench.commands.listings import fabrics_draft, site_files
from mpibench.commands.listings.catalogue import test_folders, tests_by_group
from mpibench.stacks import modules, suite_builds
from reframe_tests.harness import batch_systems, records, tools
from reframe_tests.harness.cases.cascade import below_mpi
from reframe_tests.harness.cases.job import batch
from reframe_tests.harness.cases.job.transports import resolve_transport
from reframe_tests.harness.evidence import recorder
from reframe_tests.harness.evidence.rank_records import parse_cpus
from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.machine.fabric import Fabric
from reframe_tests.harness.machine.gpu import KINDS
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.printable import plural, printable
from reframe_tests.harness.sites import centre, references, site, systems
from reframe_tests.harness.stacks import metadata as stack_metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import BadInput, NotMeasured

#: Seconds that ReFrame may take to list the tests, beside those for loading them.
LISTING_S = 300.0
#: Seconds that Slurm may take to say what its nodes are.
SCONTROL_S = 20.0
#: Begins what a copy of site_configs/template must replace.
FILL_IN = "FILL_IN:"
OK = "ok"
NOTE = "note"
MISSING = "missing"
STYLE = {OK: "green", NOTE: "yellow", MISSING: "bold red"}
#: Characters at most that the second column is filled up to: a
#: longer subject moves its own text only.
SUBJECT_WIDTH = 26

#: Programs that widen what can be done here, and what for.
OPTIONAL_PROGRAMS = {
    "spack": "building stacks with Spack (or set SPACK_ROOT)",
    "chromium": "testing the report in a browser",
}


@dataclass(frozen=True)
class DoctorLine:
    """One line of the examination.

    :param state: ``ok``, ``note`` (works without) or ``missing`` (the tests need it).
    """

    subject: str
    state: str
    detail: str


def report(
    system: str | None,
    console: Console | None = None,
    *,
    stacks_only: bool = False,
    draft_only: bool = False,
    as_json: bool = False,
) -> int:
    """Print all findings, and a draft of what a centre's own ReFrame configuration lacks; 1 if
    something the tests need is missing, else 0.

    :param as_json: print ``system``, ``ready``, ``findings`` (subject,
        state, detail) and what tools add as JSON.
    """
    if draft_only:
        print(fabrics_draft.require_draft(_name(system), site.ROOT), end="")
        return 0
    selected = _select_from(system, site.ROOT)
    findings = list(fitting(selected, site.ROOT) if stacks_only else examine(system))
    ready = not any(finding.state == MISSING for finding in findings)
    of_tools = {} if stacks_only else tools.load(tools.FILES)
    added = [(name, *tool.shown(selected["name"])) for name, tool in of_tools.items()]
    if as_json:
        said = {
            "system": selected["name"],
            "ready": ready,
            "findings": [asdict(finding) for finding in findings],
        }
        said |= {name: rows for name, rows, _ in added if rows}
        print(json.dumps(said, indent=2))
        return int(not ready)
    console = console or Console()
    width = min(max((len(finding.subject) for finding in findings), default=0), SUBJECT_WIDTH)
    for finding in findings:
        line = Text.assemble(
            (f"{finding.state:<{len(MISSING)}}", STYLE[finding.state]),
            f"  {finding.subject:<{width}}  {finding.detail}",
        )
        console.print(line, soft_wrap=True)
    for lines in (lines for *_, lines in added if lines):
        console.print(Text("\n".join(["", *lines])), soft_wrap=True)
    if not stacks_only and (text := fabrics_draft.draft(selected, site.ROOT)):
        console.print(
            Text(f"\ndraft for your configuration (--draft prints it alone):\n\n{text}"),
            soft_wrap=True,
            end="",
        )
    return int(not ready)


def examine(system: str | None = None, root: Path = site.ROOT) -> Iterator[DoctorLine]:
    """All findings, from the outside in: software, stacks, then the system and its fabrics.

    While a template is to be filled in, just what is left of it:
    whatever else is missing may be an example's.
    """
    described = _select_from(system, root)
    left = [*unfilled(described)]
    for key, text in left:
        yield DoctorLine(f"{described['name']} {key}", MISSING, f"still to be filled in: {text}")
    if left:
        yield DoctorLine("system", NOTE, "fill these in first; nothing else was checked")
        return
    yield from _software()
    yield from _stacks(root)
    yield from check_modules(stack_metadata.discover(root)[0], system)
    yield from _system(described, root)
    yield from check_loading(test_folders(root), described["name"], root)


def _software() -> Iterator[DoctorLine]:
    yield DoctorLine("python", OK, f"{platform.python_version()} ({sys.executable})")
    yield DoctorLine("reframe", OK, importlib.metadata.version("reframe-hpc"))
    configured = os.environ.get("RFM_CONFIG_FILES", "")
    if fault := centre.find_order_fault((), site.ROOT):
        yield DoctorLine("configuration", MISSING, fault)
    elif str(site.ROOT / "site_configs" / "settings.py") in configured:
        yield DoctorLine("configuration", OK, configured)
    else:
        both = ":".join(
            map(str, (*centre.files(site.ROOT), site.ROOT / "site_configs" / "settings.py"))
        )
        yield DoctorLine(
            "configuration", MISSING, f"run: export RFM_CONFIG_FILES={shlex.quote(both)}"
        )
    try:
        yield DoctorLine("evidence library", OK, str(recorder.locate()))
    except BadInput as error:
        yield DoctorLine("evidence library", MISSING, str(error))
    for file in records.extension_files():  # which has been read, or this would not run
        yield DoctorLine("extension", OK, str(file))
    for program, purpose in OPTIONAL_PROGRAMS.items():
        path = shutil.which(program)
        if program == "spack" and not path and os.environ.get("SPACK_ROOT"):
            path = f"{os.environ['SPACK_ROOT']}/bin/spack"
        yield DoctorLine(
            program, OK if path else NOTE, path or f"not here; only needed for {purpose}"
        )


def _stacks(root: Path) -> Iterator[DoctorLine]:
    stacks, problems = stack_metadata.discover(root)
    for stack in stacks:
        suites = ", ".join(
            f"{name} {row.get('version', '')}".strip() for name, row in stack.suites.items()
        )
        yield DoctorLine(
            f"stack {stack.name}", OK, f"{stack.mpi} {stack.mpi_version}, {stack.origin}; {suites}"
        )
        mpi = mpis.find(stack.mpi)
        family = launchers.families()[stack.launcher_family]
        if not stack.suites.keys() & suite_builds.CHECKSUMS.keys():
            lacks = " and ".join(catalogue.SUITES[name].title for name in suite_builds.CHECKSUMS)
            what = (
                f"has no {lacks}, so its tests leave that out; build it with 'mpibench stacks add "
                "--build'"
            )
            yield DoctorLine(f"stack {stack.name}", NOTE, what)
        for row in (mpi, family):
            yield from check_untested(f"stack {stack.name}", row.title, row.untested)
    for problem in problems:
        yield DoctorLine("stack", MISSING, problem)
    if not stacks:
        yield DoctorLine("stacks", MISSING, "none built; run ci/setup for the wheels stacks")
    else:
        yield from check_suites(stacks)
    yield from check_groups(test_folders(root))


def check_modules(stacks: Sequence[Stack], system: str | None) -> Iterator[DoctorLine]:
    """Whether the modules of each stack are what they were when it was
    registered, loaded as the system's jobs would.
    """
    entered = [stack for stack in stacks if stack.modules]
    if not entered:
        return
    try:
        kind = modules.find_system(system)
    except BadInput as error:
        yield DoctorLine(
            "modules", MISSING, f"{', '.join(stack.name for stack in entered)} need them: {error}"
        )
        return
    for stack in entered:
        changes = modules.compare(stack, kind)
        names = ", ".join(module.name for module in stack.loaded.loaded)
        yield from (DoctorLine(f"modules of {stack.name}", MISSING, change) for change in changes)
        if not changes:
            yield DoctorLine(
                f"modules of {stack.name}",
                OK,
                f"{names}, as registered ({kind} {stack.loaded.version})",
            )


def check_suites(stacks: Sequence[Stack]) -> Iterator[DoctorLine]:
    """Suites without a program in any stack, so none of their groups is run."""
    for suite in catalogue.SUITES.values():
        if suite.groups and not any(suite.feature in stack.suites for stack in stacks):
            how = (
                "'mpibench stacks add --binaries'"
                if suite.programs
                else "the stack.json of a stack that has it"
            )
            how = f"'mpibench stacks build' or {how}" if suite.spack else how
            if suite.name in suite_builds.CHECKSUMS:
                how = f"'mpibench stacks add --build {suite.name}=VERSION', {how}"
            what = (
                f"no stack has a program of {suite.title}, so nothing is measured for "
                f"{', '.join(suite.groups)}; see {how}"
            )
            yield DoctorLine(f"suite {suite.name}", NOTE, what)


def check_groups(folders: Sequence[Path]) -> Iterator[DoctorLine]:
    """Groups of the catalogue that no test class names, so that they are never run.

    :param folders: where test files lie; one that is not there has none.
    """
    named = tests_by_group(folders)
    for group in catalogue.GROUPS:
        if group not in named:
            what = (
                f"no test class in {' or '.join(map(str, folders))} has group = '{group}', so no "
                "test in these folders runs it"
            )
            yield DoctorLine(
                f"group {group}",
                NOTE,
                f"{what}; site_configs/template/extensions/tests has one to copy",
            )


def check_loading(folders: Sequence[Path], system: str, root: Path) -> Iterator[DoctorLine]:
    """Whether ReFrame itself loads all tests for a system: it, and not
    only this program, must get to their end.

    :param folders: where test files lie; those that are not there are left out.
    """
    paths = [str(folder) for folder in folders if folder.is_dir()]
    if not paths:
        return
    words = [own_reframe.locate(), "--nocolor", f"--system={system}", "-l"]
    words += [word for path in paths for word in ("-c", path)]
    ours = root / "site_configs" / "settings.py"
    environ = {**os.environ, "RFM_CONFIG_FILES": ":".join(map(str, (*centre.files(root), ours)))}
    from reframe_tests.harness.sites import selected_tests  # which imports most of ReFrame

    try:
        limit = selected_tests.limit_of(os.environ) + LISTING_S
        done = subprocess.run(
            words, cwd=root, env=environ, text=True, capture_output=True, timeout=limit, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield DoctorLine(
            "tests", MISSING, f"`{shlex.join(words)}` does not end, or cannot start: {error}"
        )
        return
    said = printable(done.stdout + done.stderr)
    found = re.search(r"^Found (\d+) check\(s\)", said, re.MULTILINE)
    if done.returncode == 0 and found:
        yield DoctorLine("tests", OK, f"ReFrame loads {found[1]} from {' and '.join(paths)}")
        return
    errors = [line.partition("ERROR: ")[2] for line in said.splitlines() if "ERROR: " in line]
    why = "; ".join(dict.fromkeys(errors)) or "it lists no tests: a test file ends the program"
    yield DoctorLine(
        "tests", MISSING, f"`{shlex.join(words)}` ended with exit status {done.returncode}: {why}"
    )


def _system(system: dict[str, Any], root: Path) -> Iterator[DoctorLine]:
    yield DoctorLine("system", OK, f"{system['name']}: {system.get('descr') or 'no description'}")
    here = systems.is_here(system, root)
    known = fabrics_draft.describe(system, root)
    for place, note, sentence in known:
        yield DoctorLine(place, {None: OK, True: NOTE, False: MISSING}[note], sentence)
    yield from check_files(system, root)
    yield from check_references(system["name"], here, root)
    yield from fitting(system, root)
    yield from check_below_mpi(system, test_folders(root), here)
    for partition in system["partitions"]:
        if not partition["extras"].get("fabrics"):
            continue
        label = f"{system['name']}:{partition['name']}"
        yield from check_submission(label, partition["scheduler"], here)
        yield from check_reserved(label, partition) if here else ()
        registered = stack_metadata.discover(root)[0]
        entered = site.fitting_stacks(partition["extras"], [stack.name for stack in registered])
        yield from check_gpus(
            label, partition, [stack for stack in registered if stack.name in entered]
        )
        unknown = MISSING if known else ""  # said of a centre's system already
        yield from (
            row for row in check_launcher(label, partition["launcher"]) if row.state != unknown
        )
        if not known and "processor" not in partition and partition["scheduler"] != "local":
            yield DoctorLine(
                label,
                NOTE,
                "has no 'processor': let ReFrame detect the topology (general.remote_detect)",
            )
        for fabric in site.fabrics_of(partition["extras"]).values():
            yield from _fabric(
                f"{label} {fabric.name}", fabric, here and partition["scheduler"] == "local"
            )


def check_launcher(label: str, name: str) -> Iterator[DoctorLine]:
    """Whether a partition's launcher is one that its words are known
    of, and has ever been run by the project.
    """
    if name in launchers.STACKS_OWN:
        return
    launcher = launchers.find(name, "")
    if launcher is None:
        yield DoctorLine(
            label,
            MISSING,
            f"{launchers.unknown(name)}; correct 'launcher', or add a file for it to launchers/",
        )
    else:
        yield from check_untested(label, f"launcher {launcher.title}", launcher.untested)


def check_untested(label: str, what: str, why: str) -> Iterator[DoctorLine]:
    """A note for what is written from documents alone.

    :param why: as ``untested`` of its record has it.
    """
    if why:
        advice = (
            "its settings come from its documentation: check the evidence of a first smoke session "
            "before you trust a number"
        )
        yield DoctorLine(label, NOTE, f"{what} has not been run by this project ({why}): {advice}")


def check_gpus(
    label: str, partition: Mapping[str, Any], stacks: Sequence[Stack]
) -> Iterator[DoctorLine]:
    """What keeps memory of a partition's GPUs from being measured,
    and that the project itself never did.

    :param stacks: those that the partition can enter.
    """
    row = partition["extras"].get("gpus")
    if not row:
        return
    kind = KINDS[row["kind"]]
    never = (
        f"memory of {kind.title} GPUs has not been measured by this project (no GPU was available)"
    )
    yield DoctorLine(
        label,
        NOTE,
        f"{never}: check the evidence of a first smoke session before you trust a number",
    )
    if partition["scheduler"] in batch_systems.SLURM.schedulers and not batch.gpu_resource(
        {each["name"]: each.get("options", ()) for each in partition.get("resources", ())}
    ):
        option = '{"name": "_rfm_gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}'
        yield DoctorLine(
            label,
            NOTE,
            "its jobs do not request GPUs from Slurm; unless nodes grant all by default, add to "
            f"resources: {option}",
        )
    fabrics = [
        fabric for fabric in site.fabrics_of(partition["extras"]).values() if fabric.memory.on_gpu
    ]
    if not fabrics:
        yield DoctorLine(
            label, NOTE, "no fabric has 'memory' of its GPUs, so its GPUs are not measured"
        )
        return
    aware = [stack for stack in stacks if stack.gpu == kind.name]
    if not aware:
        what = (
            f"no stack here sends {kind.title} memory by MPI ('gpu' in stack.json): no MPI test "
            "runs on"
        )
        remedy = (
            f"'mpibench stacks build openmpi-{kind.name}', or 'mpibench stacks add --gpu "
            f"{kind.name}'"
        )
        yield DoctorLine(
            label, NOTE, f"{what} {', '.join(fabric.name for fabric in fabrics)}; see {remedy}"
        )
    for suite in catalogue.SUITES.values():
        able = stacks if suite.library else aware
        built = any(stack.suites.get(suite.feature, {}).get("gpu") == kind.name for stack in able)
        if suite.programs and suite.programs.gpu and able and not built:
            what = (
                f"no stack here has {suite.title} built for {kind.title} ('gpu' of suites in "
                "stack.json)"
            )
            yield DoctorLine(label, NOTE, what)
    for fabric in fabrics:
        reasons = [_unable(stack, fabric) for stack in aware]
        if reasons and all(reasons):
            yield DoctorLine(
                f"{label} {fabric.name}",
                NOTE,
                f"no MPI measures it: {' '.join(dict.fromkeys(reasons))}",
            )


def _unable(stack: Stack, fabric: Fabric) -> str:
    """Why a stack cannot use a fabric; empty if it can."""
    try:
        resolve_transport(stack, fabric)
    except (NotMeasured, BadInput) as error:
        return str(error)
    return ""


def check_submission(label: str, scheduler: str, here: bool) -> Iterator[DoctorLine]:
    """What keeps the partition's jobs from being submitted on this machine.

    :param here: this machine is one of the system's, so that ReFrame would submit from it.
    """
    system = batch_systems.find(scheduler)
    if system and system.submit and not shutil.which(system.submit):
        what = (
            f"scheduler {scheduler}: {system.submit} is not on PATH: run reframe where jobs can be "
            "submitted"
        )
        yield DoctorLine(label, MISSING if here else NOTE, what)


def check_reserved(label: str, partition: Mapping[str, Any]) -> Iterator[DoctorLine]:
    """Whether a partition says which CPUs Slurm keeps for itself on its
    nodes (``scontrol show node``: CPUSpecList).
    """
    if partition["scheduler"] not in batch_systems.SLURM.schedulers or not shutil.which("scontrol"):
        return
    queue = next(
        (
            word.partition("=")[2]
            for word in partition.get("access", ())
            if word.startswith("--partition=")
        ),
        "",
    )
    try:
        words = ["scontrol", "--oneliner", "show", "node"]
        done = subprocess.run(
            words, text=True, capture_output=True, timeout=SCONTROL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # what jobs need of Slurm, submission says
    kept: dict[str, list[str]] = {}
    for line in printable(done.stdout).splitlines():
        said = dict(word.partition("=")[::2] for word in line.split())
        if not queue or queue in said.get("Partitions", "").split(","):
            kept.setdefault(said.get("CPUSpecList", ""), []).append(said.get("NodeName", "?"))
    described = parse_cpus(partition["extras"].get("reserved_cpus", ""))
    for text, nodes in kept.items():
        if re.fullmatch(r"[0-9,-]+", text) and not parse_cpus(text) <= described:
            some = f"{', '.join(nodes[:3])}{', ...' if nodes[3:] else ''}"
            what = f"Slurm keeps CPUs {text} of {some} for itself, and srun places no ranks on them"
            remedy = (
                f'add "reserved_cpus": "{text}" to its extras, numbered as by the kernel '
                "(slurm.conf(5), CpuSpecList)"
            )
            yield DoctorLine(label, MISSING, f"{what}: {remedy}")


def check_files(system: Mapping[str, Any], root: Path) -> Iterator[DoctorLine]:
    """Whether the files beside a system's description can be used, and are read at all."""
    for name, sentence in site_files.faults(system, root):
        if name != "references.yaml":  # which check_references says
            yield DoctorLine(name, MISSING, sentence)
    for name, sentence in site_files.unread(system, root):
        yield DoctorLine(name, NOTE, sentence)


def check_references(system: str, here: bool, root: Path) -> Iterator[DoctorLine]:
    """Whether the system's learned references can be used, and are ever used."""
    path = site.references_file(system, root)
    if not path.exists():
        yield DoctorLine(
            "references",
            NOTE,
            f"{path} does not exist: no learned references are checked",
        )
        return
    try:
        named = references.stacks_of(site.read_references(system, root))
    except BadInput as error:
        yield DoctorLine("references", MISSING, str(error))
        return
    registered = {stack.name for stack in stack_metadata.discover(root)[0]}
    for stack, count in named.items():
        if stack not in registered:
            what = (
                f"{path}: no stack '{stack}' is registered, so {plural(count, 'reference')} for it "
                "cannot be used"
            )
            yield DoctorLine(
                "references",
                MISSING if here else NOTE,
                f"{what}; build it, correct the name or remove them",
            )
    if named and registered >= named.keys():
        yield DoctorLine("references", OK, f"{sum(named.values())} for {', '.join(named)}")


def fitting(system: dict[str, Any], root: Path = site.ROOT) -> Iterator[DoctorLine]:
    """For each partition the stacks it can enter, and what it asks for in vain."""
    registered = [stack.name for stack in stack_metadata.discover(root)[0]]
    for partition in system["partitions"]:
        label = f"{system['name']}:{partition['name']} stacks"
        extras = partition["extras"]
        if not extras.get("fabrics"):
            continue
        names = site.fitting_stacks(extras, registered)
        if names:
            yield DoctorLine(label, OK, f"{len(names)} of {len(registered)}: {', '.join(names)}")
        if sentence := site.unmatched_stacks(extras, registered):
            yield DoctorLine(label, MISSING, sentence)


def check_below_mpi(
    system: dict[str, Any], folders: Sequence[Path], here: bool
) -> Iterator[DoctorLine]:
    """Tests between two nodes without MPI: those without a case on a system, and missing programs.

    :param here: this machine is one of the system's, so that its nodes may lack what it lacks.
    """
    named = tests_by_group(folders)
    groups = [group for group in catalogue.PAIRS.values() if group.name in named]
    described = (
        (row["scheduler"], fabric)
        for row in system["partitions"]
        for fabric in site.fabrics_of(row["extras"]).values()
    )
    between = [(scheduler, fabric) for scheduler, fabric in described if not fabric.within_node]
    if groups and not between:
        subject = "tests without MPI"
        names = ", ".join(named[group.name] for group in groups)
        yield DoctorLine(
            subject,
            NOTE,
            f"{names} have no case here: they need two nodes, and no fabric of the system connects "
            "nodes",
        )
        return
    for group in groups:
        subject = f"test {named[group.name]}"
        reasons = list(
            dict.fromkeys(
                below_mpi.find_obstacle(fabric, group, scheduler) for scheduler, fabric in between
            )
        )
        absent = [
            name
            for name in sorted({row.binary for row in catalogue.rows(group.name)})
            if not shutil.which(name)
        ]
        if "" not in reasons:
            yield DoctorLine(subject, NOTE, f"has no case here: {'; '.join(reasons)}")
        elif absent and here:
            what = (
                f"not on PATH here: {', '.join(absent)}; the case is skipped if the nodes lack it, "
                "too"
            )
            yield DoctorLine(
                subject, NOTE, f"{what} (Debian's {group.debian}, Spack's {group.spack})"
            )


def _select_from(name: str | None, root: Path) -> dict[str, Any]:
    """The system of that name, of ``RFM_SYSTEM``, or else the one
    whose host names fit, as ReFrame selects it.
    """
    return systems.select(_name(name), root)


def _name(given: str | None) -> str | None:
    return (given or os.environ.get("RFM_SYSTEM", "")).partition(":")[0] or None


def unfilled(node: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Entries of a copied template that are still :data:`FILL_IN`: dotted key, and what belongs
    there.
    """
    if isinstance(node, dict):
        for name, value in node.items():
            yield from unfilled(value, f"{key}.{name}" if key else str(name))
    elif isinstance(node, (list, tuple)):
        for index, value in enumerate(node):
            yield from unfilled(value, f"{key}.{index}")
    elif isinstance(node, str) and FILL_IN in node:
        yield key, node.partition(FILL_IN)[2].strip()


def _fabric(label: str, fabric: Fabric, look: bool) -> Iterator[DoctorLine]:
    rails = ", ".join(
        rail.device
        + (f" {rail.line_rate_gbit_per_s:g} Gbit/s" if rail.line_rate_gbit_per_s else "")
        for rail in fabric.rails
    )
    described = f"{fabric.transport}, {fabric.scope}" + (f", {rails}" if rails else "")
    classes = [Path("/sys/class", kind) for kind in ("net", "infiniband", "cxi")]
    absent = [
        device
        for device in fabric.devices
        if look and not any((kind / device).exists() for kind in classes)
    ]
    if absent:
        yield DoctorLine(
            label,
            MISSING,
            f"{described}; not on this machine: {', '.join(absent)} (ip link, ibv_devices)",
        )
    else:
        yield DoctorLine(
            label,
            OK,
            described + ("" if look else "; devices are checked on its nodes by the tests"),
        )
    if fabric.line_rate_gbit_per_s is None and (
        fabric.memory.on_gpu if fabric.within_node else fabric.rails
    ):
        lacks = (
            "a rail has no line_rate_gbit_per_s"
            if fabric.rails
            else "extras.gpus has no peer_gbit_per_s"
        )
        yield DoctorLine(label, NOTE, f"{lacks}: bandwidths are not checked against the line rate")
