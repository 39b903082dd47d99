"""The ``mpibench`` command as its user meets it: helps worth
reading, one sentence for bad input, exit codes.
"""

import re
import shutil
import sys
from pathlib import Path

import pytest

from folders import OF_TOOLS
from programs import finished

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


#: Several commands in one process, with their exit statuses at the end.
COMMANDS = """
import sys
from mpibench.cli import main
print([main(words.split()) for words in sys.argv[1:]])
"""


def test_a_tool_that_is_not_installed_is_named(root):
    """And nothing else is missing: the command and its help are there without any."""
    hidden = f"import sys; sys.modules.update(dict.fromkeys({[*OF_TOOLS]}))\n{COMMANDS}"
    needed = {
        "cluster up --nodes=3": "mpibench_cluster",
        "site": "mpibench_site",
        "tune --help": "mpibench_tune",
        "report --guidelines": "mpibench_tune",
    }
    done = finished(sys.executable, "-c", hidden, "--help", *needed, cwd=root)
    assert done.stdout.endswith("\n[0, 2, 2, 2, 2]\n") and "doctor" in done.stdout
    assert not re.search("cluster|tune", done.stdout)
    for line, package in zip(done.stderr.splitlines(), needed.values(), strict=True):
        assert f"needs the package {package}, which is not installed" in line


def test_a_plain_install_says_that_it_lacks_the_checkout(root, tmp_path):
    """``pip install .`` copies the modules and leaves systems, stacks and schemas behind."""
    for folder in ("ci/mpibench", "reframe_tests"):
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / folder, tmp_path / "target" / Path(folder).name, ignore=without)
    environ = {"PYTHONPATH": tmp_path / "target"}
    words = ("doctor", "report", "stacks")
    done = finished(sys.executable, "-c", COMMANDS, *words, cwd=tmp_path, environ=environ)
    assert done.stdout == "[2, 2, 2]\n", done.stderr
    assert done.stderr.count("\n") == 3
    assert done.stderr.count("not the systems and stacks of a checkout: run ci/setup") == 3
