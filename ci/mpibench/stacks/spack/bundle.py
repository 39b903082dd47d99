"""Everything that stacks are built from, in one folder, for a machine without a network.

It has Spack (``spack/``), its recipes as pinned (``packages/``), the sources of all that would be built (``mirror/``) and the
solver as a wheel (``wheels/``). Spack's own configuration in it names the others relative to itself, so that it works wherever
the folder lies. The compilers, MPIs and libraries of the site are described in its scope, there as here.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput

from .project import Project

SPACK, PACKAGES, MIRROR, WHEELS = "spack", "packages", "mirror", "wheels"
#: Parts of Spack's folder that run it; the others belong to the machine: what it built, downloaded and was configured with.
_PARTS = ("bin", "lib", "share", "etc", "var/spack")
#: That configuration, by file. A repository counts as fetched where it has a ``.git`` (Spack 1.1, ``repo.py``).
_SCOPE = {
    "repos": f"repos: {{builtin: {{destination: $spack/../{PACKAGES}}}}}\n",
    "mirrors": f"mirrors:: {{bundle: {{url: $spack/../{MIRROR}, source: true, binary: false}}}}\n",
    "bootstrap": "bootstrap: {enable: true, sources:: [], trusted:: {}}\n",
}
_QUERY = (
    "import spack.paths, spack.repo; print('PLACES', spack.paths.prefix, spack.repo.PATH.get_repo('builtin').root, sep='\\n')"
)


def check(folder: Path) -> None:
    """Refuse a folder that has something else in it.

    :raises BadInput: naming it.
    """
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if folder.exists() and (not folder.is_dir() or set(there) - {SPACK, PACKAGES, MIRROR, WHEELS}):
        raise BadInput(f"--bundle {folder} is not a folder for a bundle: name one that is new, empty or holds a bundle.")


def write(project: Project, names: Sequence[str], folder: Path) -> None:
    """Write the bundle of some concretized environments; what is there already is completed.

    :raises BadInput: what cannot be fetched or written, in one sentence.
    """
    output = project.run(names[0], "asking where Spack and its recipes are", "python", "-c", _QUERY)
    prefix, builtin = (Path(line) for line in output.split("PLACES\n")[-1].splitlines()[:2])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in _PARTS:
            _copy(prefix / part, folder / SPACK / part)
        for file, text in _SCOPE.items():
            (folder / SPACK / "etc" / "spack" / "site").mkdir(parents=True, exist_ok=True)
            (folder / SPACK / "etc" / "spack" / "site" / f"{file}.yaml").write_text(text)
        _copy(builtin, folder / PACKAGES / "repos" / "spack_repo" / builtin.name)
        (folder / PACKAGES / "spack-repo-index.yaml").write_text(f"repo_index: {{paths: [repos/spack_repo/{builtin.name}]}}\n")
        (folder / PACKAGES / ".git").mkdir(exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise BadInput(f"the bundle {folder} cannot be written: {error}.") from None
    python = project.spack.environ.get("SPACK_PYTHON") or shutil.which("python3") or "python3"
    command = [python, "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--dest={folder / WHEELS}", "clingo"]
    done = subprocess.run(command, text=True, errors="replace", capture_output=True)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise BadInput(f"clingo, which Spack solves with, cannot be fetched for {platform.machine()} by {python}: {said}.")
    for name in names:
        project.run(name, "fetching sources", "mirror", "create", f"--directory={folder / MIRROR}", "--all", show=True)
        project.echo(f"{name}: sources in {folder / MIRROR}")


def _copy(source: Path, target: Path) -> None:
    """A folder without what Python compiled, and without the machine's own configuration, environments and downloads."""
    own = {"etc": ("site",), "spack": ("cache", "environments")}.get(source.name, ())
    left_out = shutil.ignore_patterns("__pycache__", *own)
    shutil.copytree(source, target, symlinks=True, ignore=left_out, dirs_exist_ok=True)
