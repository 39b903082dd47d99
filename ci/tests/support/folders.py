"""Folders of the tests: the lanes' parent, their helpers, and the recorded files they read."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TESTS = SUPPORT.parent
DATA = TESTS / "data"
#: Of the product: the tests, the core, and the tools beside it.
PRODUCT = sorted([TESTS.parents[1] / "reframe_tests", *TESTS.parent.glob("mpibench*")])
#: Tool to its tests, and of these what is left out: the tool is not installed.
OF_TOOLS = {
    "mpibench_cluster": ("cluster", "unit/cluster", "process/cluster"),
    "mpibench_prove": ("unit/prove", "mpi/test_prove_mpi.py"),
    "mpibench_s3": ("process/bucket",),
    "mpibench_site": (
        "unit/results_site",
        "process/site",
        "browser/test_demo_browser.py",
        "browser/test_site_browser.py",
        "mpi/test_metrics_push_mpi.py",
    ),
    "mpibench_tune": (
        *(
            f"unit/{name}"
            for name in ("advice", "guidelines", "profiles", "published", "settings", "tune")
        ),
        *(f"process/{name}" for name in ("published", "settings", "tune")),
        "cluster/test_tuning_cluster.py",
        *(
            f"mpi/test_{name}_mpi.py"
            for name in ("advise", "guidelines", "tuning", "tuning_resume")
        ),
        *(f"browser/test_{name}_browser.py" for name in ("guidelines", "published_curves")),
    ),
    "mpibench_vet": ("unit/vet", "process/vet", "cluster/test_vet_cluster.py"),
}
LEFT_OUT = [
    name for tool, names in OF_TOOLS.items() if not importlib.util.find_spec(tool) for name in names
]
#: What a copy of the project leaves out (``ignore`` of ``copytree``, which keeps times): compiled
#: files that some Python writes at this moment. With the others the first program in a copy need
#: not compile the project again.
UNFINISHED = shutil.ignore_patterns("*.pyc.*")


def write(path: Path, text: str, *, executable: bool = False) -> Path:
    """A file with the folders above it; ``executable``: a program that anybody may start."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755 if executable else 0o644)
    return path
