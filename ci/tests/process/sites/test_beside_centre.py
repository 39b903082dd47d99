"""ReFrame and the doctor beside a centre's own configuration: the centre's
systems, scripts and handlers, measured as ours.
"""

import os
import sys
from pathlib import Path

import pytest

from folders import write
from programs import finished
from synthetic_site import TEST, CentreSite
from synthetic_stack import write_stack

ONE = "point_to_point.py"


@pytest.fixture
def beside(tmp_path):
    """A project with a stack that is only files, beside a
    configuration with environments by module.
    """
    made = CentreSite(tmp_path, "modules")
    write_stack(made.root / "environments" / "mpich")
    return made


@pytest.fixture
def reframe(beside, run_reframe):
    """ReFrame with both configurations, as the variable or as options name them."""

    def run(*options, files=None, only=ONE, **environ):
        settings = {
            "RFM_CONFIG_FILES": beside.variable if files is None else files,
            "RFM_PREFIX": beside.top / "prefix",
        }
        return run_reframe(*options, environ={**settings, **environ}, only=only)

    return run


def said(result):
    return result.stdout + result.stderr


def is_fine(result):
    """Ended well and without a warning."""
    assert result.returncode == 0 and "WARNING" not in said(result), said(result)


def test_both_ways_to_name_both_files_list_the_same_tests(beside, reframe, root):
    """From where ReFrame is started: it is in our folder while it loads our
    settings.py, and the shell says where it was.
    """
    near = os.path.relpath(beside.file, root)
    ours = beside.settings
    by_variable = reframe("-l", "--system=lagoon", files=f"{near}:{ours}", PWD=root)
    options = ("-C", near, "-C", os.path.relpath(ours, root))
    by_options = reframe("-l", "--system=lagoon", *options, files=ours, PWD=root)
    lists = []
    for result in (by_variable, by_options):
        is_fine(result)
        assert "%fabric=hdr200 %nodes=2" in result.stdout
        lists.append(result.stdout.partition("[List of")[2])
    assert lists[0] == lists[1]


def test_the_script_is_the_centres(beside, reframe):
    case = "ImbPointToPoint.*fabric=hdr200.*nodes=2.*ppn=2.*pinning=bunch"
    result = reframe("--dry-run", "--system=lagoon", "-n", case, "-p", "mpich-system")
    assert result.returncode == 0, said(result)
    [script] = [path.read_text() for path in (beside.top / "prefix").rglob("rfm_*.sh")]
    options = ("--partition=standard", "--account=ocean", "--exclusive")
    wanted = {*(f"#SBATCH {option}" for option in options), "export HARBOUR_FEES=none"}
    assert wanted <= set(script.splitlines()), script
    assert script.index("\necho prepared by the centre") < script.index("srun --mpi=")
    assert "--cpu-bind=" in script and "UCX_NET_DEVICES=mlx5_0:1" in script
    assert "mpirun" not in script


def test_a_centre_that_searches_below_folders_gets_no_test_twice(beside, reframe):
    """What tests share lies below their folder and is no test, also
    where another folder is searched as well.
    """
    general = '"general": [{"check_search_recursive": True}], "logging": ['
    beside.change('"logging": [', general)
    write(beside.top / "more" / "below" / "writer.py", TEST)
    words = ("-c", beside.top / "more", "--system=lagoon", "-n", "ImbPointToPoint|Writer")
    listed = reframe("-l", *words, only="")
    is_fine(listed)
    assert "- ImbPointToPoint %" in listed.stdout and "- Writer" in listed.stdout


def alone(beside, *options, **environ):
    """ReFrame from another folder with the centre's configuration alone,
    as a Python finds it that knows nothing of us.
    """
    folder = beside.top / "elsewhere"
    folder.mkdir(exist_ok=True)
    own = {
        "RFM_COLORIZE": "no",
        "RFM_PREFIX": beside.top / "prefix",
        "RFM_CONFIG_FILES": "",
        "MPIBENCH_STACKS": beside.root / "environments" / "mpich",
    }
    known = {**os.environ, **own, **environ}
    for name in ("PYTHONPATH", "RFM_SYSTEM"):
        known.pop(name, None)
    reframe = Path(sys.executable).parent / "reframe"
    return finished(reframe, *options, "--system=lagoon", cwd=folder, env=known, timeout=2400)


def test_fabrics_in_the_centres_extras_are_enough(beside, root):
    """Named by an option or by the variable, from any folder, relative or not."""
    tests = os.path.relpath(root / "reframe_tests" / ONE, beside.top / "elsewhere")
    file = os.path.relpath(beside.file, beside.top / "elsewhere")
    again = beside.file.read_text().replace("lagoon", "reef")
    twice = write(beside.top / "path" / "settings.py", again)
    path = {"RFM_CONFIG_FILES": f":{beside.file}", "RFM_CONFIG_PATH": f":{twice.parent}"}
    for listed in (
        alone(beside, "-C", file, "-c", tests, "-l"),
        alone(beside, "-c", tests, "-l", **path),
    ):
        is_fine(listed)
        assert "%fabric=hdr200 %nodes=2" in listed.stdout


def test_with_nothing_to_measure_it_says_what_to_add(tmp_path, reframe, root):
    """With the centre's configuration alone, and with both."""
    nothing = CentreSite(tmp_path / "nothing", "modules", "")
    tests = root / "reframe_tests" / "preflight.py"
    for ended in (
        alone(nothing, "-C", nothing.file, "-c", tests, "-r"),
        reframe("-r", "--system=lagoon", files=nothing.variable),
    ):
        assert ended.returncode == 1 and "Traceback" not in said(ended), said(ended)
        [line] = [line for line in said(ended).splitlines() if "ERROR" in line]
        assert f"no partition has fabrics in {nothing.file}" in line


def test_our_settings_that_do_not_come_into_force_are_no_loop(beside, root):
    """As where an option of later takes them back (``-C :FILE``)."""
    settings = root / "site_configs" / "settings.py"
    options = ("-C", settings, "-C", f":{beside.file}", "-c", root / "reframe_tests" / ONE)
    nothing = alone(beside, *options, "-l")
    assert nothing.returncode == 1
    assert f"need its settings: name them last, -C {settings}" in said(nothing)
