"""ReFrame and the doctor beside a centre's own configuration: the centre's systems, scripts and handlers, measured as ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from centre_styles import FABRICS, CentreSite
from mpibench.commands.listings import doctor
from reframe_tests.harness.sites import centre, site
from synthetic_stack import write_stack
from tiny_site import TEST

Run = Callable[..., subprocess.CompletedProcess[str]]
ONE = "point_to_point.py"


@pytest.fixture
def beside(tmp_path: Path) -> CentreSite:
    """A project with a stack that is only files, beside a configuration with environments by module."""
    made = CentreSite(tmp_path, "modules")
    write_stack(made.root / "environments" / "mpich")
    return made


@pytest.fixture
def nothing(tmp_path: Path) -> CentreSite:
    """The same without fabrics."""
    return CentreSite(tmp_path / "nothing", "modules", "")


@pytest.fixture
def reframe(beside: CentreSite, run_reframe: Run) -> Run:
    """ReFrame with both configurations, as the variable or as options name them."""

    def run(*options: str, files: str | None = None, only: str = ONE, **environ: str) -> subprocess.CompletedProcess[str]:
        settings = {"RFM_CONFIG_FILES": beside.variable if files is None else files, "RFM_PREFIX": str(beside.top / "prefix")}
        return run_reframe(*options, environ={**settings, **environ}, only=only)

    return run


def said(result: subprocess.CompletedProcess[str]) -> str:
    return result.stdout + result.stderr


def test_both_ways_to_name_both_files_list_the_same_tests(beside: CentreSite, reframe: Run) -> None:
    by_variable = reframe("-l", "--system=lagoon")
    by_options = reframe("-l", "--system=lagoon", *beside.options, files=str(beside.settings))
    for result in (by_variable, by_options):
        assert result.returncode == 0, said(result)
        assert "WARNING" not in said(result), said(result)
        assert "%fabric=hdr200 %nodes=2" in result.stdout
    assert by_options.stdout.partition("[List of")[2] == by_variable.stdout.partition("[List of")[2] != ""


def test_files_may_be_named_from_where_reframe_is_started(beside: CentreSite, reframe: Run, root: Path) -> None:
    """It is in our folder while it loads our settings.py; the shell says where it was started."""
    near = {path: os.path.relpath(path, root) for path in (beside.file, beside.settings)}
    for files, options in (
        (f"{near[beside.file]}:{beside.settings}", []),
        ("", ["-C", near[beside.file], "-C", near[beside.settings]]),
    ):
        listed = reframe("-l", "--system=lagoon", *options, files=files, PWD=str(root))
        assert listed.returncode == 0 and "%fabric=hdr200 %nodes=2" in listed.stdout, said(listed)


def test_the_other_order_is_refused_with_the_right_one(beside: CentreSite, reframe: Run) -> None:
    late = f"{beside.settings}:{beside.file}"
    for result in (
        reframe("-l", "--system=lagoon", files=late),
        reframe("-l", "--system=lagoon", "-C", str(beside.settings), "-C", str(beside.file), files=""),
    ):
        assert result.returncode == 1
        [line] = [line for line in said(result).splitlines() if "ERROR" in line]
        assert f"{beside.file} is read after {beside.settings}, " in line
        assert f"RFM_CONFIG_FILES={beside.variable} or -C {beside.file} -C {beside.settings}." in line
        assert "Traceback" not in said(result)


def test_a_machine_of_the_centre_is_found_by_its_name(beside: CentreSite, reframe: Run) -> None:
    """Not taken for ``generic``, whose ``.*`` would come first, were it not for the order of systems."""
    shown = reframe("--show-config=systems/0/name")
    assert '"default"' in shown.stdout, said(shown)
    beside.file.write_text(beside.file.read_text().replace("lagoon-login\\d", ".*"))
    assert "lagoon" in reframe("--show-config=systems/0/name").stdout


def test_the_script_is_the_centres(beside: CentreSite, reframe: Run) -> None:
    case = "ImbPointToPoint.*fabric=hdr200.*nodes=2.*ppn=2.*pinning=bunch"
    result = reframe("--dry-run", "--system=lagoon", "-n", case, "-p", "mpich-system")
    assert result.returncode == 0, said(result)
    [script] = [path.read_text() for path in (beside.top / "prefix").rglob("rfm_*.sh")]
    lines = script.splitlines()
    assert {"#SBATCH --partition=standard", "#SBATCH --account=ocean", "#SBATCH --exclusive"} <= set(lines), script
    assert "export HARBOUR_FEES=none" in lines and "echo prepared by the centre" in lines
    assert lines.index("echo prepared by the centre") < next(at for at, line in enumerate(lines) if "srun " in line)
    assert "srun --mpi=" in script and "--cpu-bind=" in script and "UCX_NET_DEVICES=mlx5_0:1" in script
    assert "mpirun" not in script


def test_a_centre_that_searches_below_folders_gets_no_test_twice(beside: CentreSite, reframe: Run) -> None:
    """What tests share lies below their folder and is no test, also where another folder is searched as well."""
    text = beside.file.read_text()
    beside.file.write_text(text.replace('"logging": [', '"general": [{"check_search_recursive": True}], "logging": [', 1))
    (beside.top / "more" / "below").mkdir(parents=True)
    (beside.top / "more" / "below" / "writer.py").write_text(TEST)
    for option, further in ((), ()), (("-R",), ()), ((), ("-c", str(beside.top / "more"))):
        listed = reframe("-l", *option, *further, "--system=lagoon", "-n", "ImbPointToPoint|Writer", only="")
        assert listed.returncode == 0 and "WARNING" not in said(listed), said(listed)
        assert "- ImbPointToPoint %" in listed.stdout and ("- Writer" in listed.stdout) == bool(further)


def alone(beside: CentreSite, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """ReFrame from another folder with the centre's configuration alone, as a Python finds it that knows nothing of us."""
    folder = beside.top / "elsewhere"
    folder.mkdir(exist_ok=True)
    known = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RFM_SYSTEM")}
    stacks = {"MPIBENCH_STACKS": str(beside.root / "environments" / "mpich")}
    return subprocess.run(
        [str(Path(sys.executable).parent / "reframe"), *options, "--system=lagoon"],
        cwd=folder,
        env={
            **known,
            "RFM_COLORIZE": "no",
            "RFM_PREFIX": str(beside.top / "prefix"),
            "RFM_CONFIG_FILES": "",
            **stacks,
            **environ,
        },
        text=True,
        capture_output=True,
        timeout=2400,
        check=False,
    )


def test_fabrics_in_the_centres_extras_are_enough(beside: CentreSite, root: Path) -> None:
    """Named by an option or by the variable, from any folder, relative or not."""
    tests = os.path.relpath(root / "reframe_tests" / ONE, beside.top / "elsewhere")
    file = os.path.relpath(beside.file, beside.top / "elsewhere")
    twice = beside.top / "path" / "settings.py"
    twice.parent.mkdir()
    twice.write_text(beside.file.read_text().replace("lagoon", "reef"))
    for listed in (
        alone(beside, "-C", file, "-c", tests, "-l"),
        alone(beside, "-c", tests, "-l", RFM_CONFIG_FILES=str(beside.file)),
        alone(beside, "-c", tests, "-l", RFM_CONFIG_FILES=f":{beside.file}", RFM_CONFIG_PATH=f":{twice.parent}"),
    ):
        assert listed.returncode == 0 and "WARNING" not in said(listed), said(listed)
        assert "%fabric=hdr200 %nodes=2" in listed.stdout and "Found 0" not in listed.stdout


def test_with_nothing_to_measure_it_says_what_to_add(nothing: CentreSite, reframe: Run, root: Path) -> None:
    """With the centre's configuration alone, and with both."""
    for tests in ("", "cascade.py", "node.py", "preflight.py"):
        ended = alone(nothing, "-C", str(nothing.file), "-c", str(root / "reframe_tests" / tests), "-r")
        assert ended.returncode == 1 and "Traceback" not in said(ended), said(ended)
        [line] = [line for line in said(ended).splitlines() if "ERROR" in line]
        assert f"no partition has fabrics in {nothing.file}, so nothing is measured on it" in line
        assert '"extras": {"fabrics": {' in line
    for action in ("-l", "-r"):
        ended = reframe(action, "--system=lagoon", files=nothing.variable)
        assert ended.returncode == 1 and "Traceback" not in said(ended), said(ended)
        [line] = [line for line in said(ended).splitlines() if "ERROR" in line]
        assert f"lagoon: no partition has fabrics in {nothing.file}" in line


def test_a_file_of_ones_own_adds_fabrics_to_the_centres(nothing: CentreSite, root: Path) -> None:
    """As docs/how-to/own-reframe.md shows it."""
    page = (root / "docs" / "how-to" / "own-reframe.md").read_text()
    shown = next(text for text in page.split("```python\n") if text.startswith("import runpy")).partition("```")[0]
    mine = nothing.top / "mine.py"
    mine.write_text(shown.replace("/site/reframe/site.py", str(nothing.file)))
    listed = alone(nothing, "-C", str(mine), "-c", str(root / "reframe_tests" / ONE), "-l")
    assert listed.returncode == 0 and "%fabric=shm" in listed.stdout, said(listed)


def test_our_settings_that_do_not_come_into_force_are_no_loop(beside: CentreSite, root: Path) -> None:
    """As where an option of later takes them back (``-C :FILE``)."""
    settings = str(root / "site_configs" / "settings.py")
    nothing = alone(beside, "-C", settings, "-C", f":{beside.file}", "-c", str(root / "reframe_tests" / ONE), "-l")
    assert nothing.returncode == 1
    assert f"need its settings: name them last, -C {settings}" in said(nothing)


def test_what_a_partition_lacks_is_a_warning(beside: CentreSite, reframe: Run) -> None:
    beside.change('"launcher": "skiff_mpirun",', f'"launcher": "skiff_mpirun", "extras": {{"rack": 7{FABRICS}}},')
    assert "lagoon:skiffs: launcher skiff_mpirun" in said(reframe("-l", "--system=lagoon"))


def test_a_wrong_configuration_is_one_sentence(beside: CentreSite, reframe: Run) -> None:
    text = beside.file.read_text()
    beside.file.write_text(text.replace('"launcher": "srun",', "", 1))
    result = reframe("-l", "--system=lagoon")
    assert result.returncode == 1 and "Traceback" not in said(result)
    [line] = [line for line in said(result).splitlines() if "ERROR" in line]
    assert "'systems.lagoon.partitions.compute': 'launcher' is a required property" in line and str(beside.file) in line


def test_the_centres_performance_log_gets_its_lines(beside: CentreSite, reframe: Run) -> None:
    """And its log file its messages, while what is measured is stored with us."""
    file = beside.root / "reframe_tests" / "writer.py"
    file.parent.mkdir()
    file.write_text(TEST)
    extras = f'"extras": {{"rack": 7{FABRICS}}}'
    beside.change('"launcher": "mpirun", "environs"', f'"launcher": "local", {extras}, "environs"')
    result = reframe("-r", "--system=default", "-p", "gnu", "-c", str(file), "-n", "Writer", only="preflight.py")
    assert "PASSED" in said(result), said(result)
    [log] = (beside.logs / "perflogs").rglob("Writer.log")
    header, line = log.read_text().splitlines()
    assert line.endswith("|1.5|us") and "@default:default+gnu|" in line, header
    assert "Writer" in (beside.logs / "reframe.log").read_text()
    assert (beside.root / "results" / "results.db").is_file()
    [ours] = [path for path in (beside.root / "results" / "logs").iterdir() if path.name != "look-up.log"]
    assert "Writer" in ours.read_text()


def test_no_success_without_a_measurement_beside_the_centres_handlers(reframe: Run) -> None:
    """What listens for it is still there."""
    result = reframe("-l", "--system=lagoon", "-n", "NoSuchTest")
    assert result.returncode == 1 and "-n NoSuchTest fits no test" in said(result)


def test_the_doctor_says_what_is_missing_and_of_both_configurations(
    beside: CentreSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(centre, "GIVEN", [])
    monkeypatch.setenv("RFM_CONFIG_FILES", beside.variable)
    beside.file.write_text(beside.file.read_text().replace('"logging": [', '"modes": [{"name": "nightly"}], "logging": [', 1))
    (beside.root / "reframe_tests").mkdir()
    findings = {(row.subject, row.state): row.detail for row in doctor.examine("lagoon", beside.root)}
    assert findings["lagoon", doctor.OK] == f"is in {beside.file}, with what is measured on it"
    assert findings["mode nightly", doctor.NOTE].startswith("stands in place of that of ")
    assert findings["lagoon:compute stacks", doctor.OK] == "1 of 1: mpich-system"
    assert not [place for place, state in findings if place.startswith("lagoon") and state == doctor.MISSING]
    assert ("lagoon:compute hdr200", doctor.OK) in findings and "lagoon:skiffs" not in {place for place, _ in findings}
    tests = next(detail for (place, _), detail in findings.items() if place == "tests")
    assert "ReFrame loads" in tests or "it lists nothing" in tests, "with both files, in the right order"
    monkeypatch.setattr(site, "ROOT", beside.root)
    assert doctor.report("lagoon", Console(width=400), draft_only=True) == 0
    text = capsys.readouterr().out
    assert "# skiffs: its nodes may have others" in text and '"extras": {' in text and "compute" not in text
    assert "put what 'reframe --detect-host-topology' prints" in text
