"""The ``mpibench`` command as its user meets it: helps worth
reading, one sentence for bad input, exit codes.
"""

import re
import shutil
import sys
from pathlib import Path

import pytest

from folders import OF_TOOLS
from programs import MPIBENCH, finished

HEAVY = {
    "numpy",
    "polars",
    "scipy",
    "plotly",
    "reframe",
    "jinja2",
    "jsonschema",
    "rich.console",
    "rich.table",
}
#: Distributions take longer to load than all else; a night without nights before it asks for none.
OF_NIGHTS = {"scipy.stats", "scipy.special", "scipy.sparse", "scipy.optimize", "plotly", "reframe"}


@pytest.mark.parametrize(
    ("module", "not_loaded"),
    [
        ("mpibench.cli", HEAVY),
        ("reframe_tests.harness.suites.reader", HEAVY | {"yaml"}),
        ("mpibench.commands.nightly, mpibench.judge.accept, mpibench.judge.gate", OF_NIGHTS),
    ],
)
def test_nothing_waits_for_what_only_some_need(root, module, not_loaded):
    """`reframe -l` and each command start with it, a night with several."""
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = set(finished(sys.executable, "-c", code, cwd=root).stdout.split())
    assert set(module.split(", ")) <= loaded and not not_loaded & loaded


def test_a_tool_that_is_not_installed_is_named(root):
    """And nothing else is missing: the command and its help are there without any."""
    *python, code = MPIBENCH
    hidden = f"import sys; sys.modules.update(dict.fromkeys({[*OF_TOOLS]})); {code}"
    shown = finished(*python, hidden, "--help", cwd=root)
    assert shown.returncode == 0 and "doctor" in shown.stdout
    assert not re.search("cluster|tune", shown.stdout)
    for words, package in (
        ("cluster up --nodes=3", "mpibench_cluster"),
        ("site", "mpibench_site"),
        ("tune --help", "mpibench_tune"),
        ("report --guidelines", "mpibench_tune"),
    ):
        done = finished(*python, hidden, *words.split(), cwd=root)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert f"needs the package {package}, which is not installed" in done.stderr


def test_a_plain_install_says_that_it_lacks_the_checkout(root, tmp_path):
    """``pip install .`` copies the modules and leaves systems, stacks and schemas behind."""
    for folder in ("ci/mpibench", "reframe_tests"):
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / folder, tmp_path / "target" / Path(folder).name, ignore=without)
    environ = {"PYTHONPATH": str(tmp_path / "target")}
    for command in ("doctor", "report", "stacks"):
        done = finished(*MPIBENCH, command, cwd=tmp_path, environ=environ)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        assert "not the systems and stacks of a checkout: run ci/setup" in done.stderr
