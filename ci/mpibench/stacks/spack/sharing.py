"""What has been built, for others: build caches, modulefiles, and a folder with all that stacks are built from.

Signatures are made and checked by Spack with GnuPG. Its keyring is ``opt/spack/gpg`` of Spack's own folder, or the one
``SPACK_GNUPGHOME`` names; ``spack gpg create NAME EMAIL`` makes a key, ``spack gpg export FILE`` writes the public half.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from reframe_tests.harness import optional_file
from reframe_tests.harness.vocabulary import BadInput

from .lock import BENCHMARKS, SUITE, Lock, LockedSpec
from .project import Project, Spack

#: Variable that names the keyring Spack uses.
KEYRING = "SPACK_GNUPGHOME"


@dataclass(frozen=True)
class Push:
    """Where what has been built is put.

    :param cache: folder, which may not exist yet, or URL.
    :param key: secret key of Spack's keyring it is signed with (fingerprint or e-mail); empty: not signed.
    """

    cache: str
    key: str = ""

    @property
    def url(self) -> str:
        """The cache as Spack takes it."""
        return self.cache if "://" in self.cache else optional_file.named(self.cache).absolute().as_uri()


def parse_push(cache: str, key: str, unsigned: bool) -> Push | None:
    """What the options say; ``None`` where nothing is pushed."""
    if not cache:
        if key or unsigned:
            raise BadInput(
                "push-missing",
                f"{'--key' if key else '--unsigned'} says how --push signs; name the build cache with --push CACHE.",
            )
        return None
    if bool(key) == unsigned:
        raise BadInput(
            "push-signing",
            "--push needs either --key KEY ('spack gpg list --signing' has them, 'spack gpg create NAME EMAIL' makes one) or "
            "--unsigned; give one of them.",
        )
    if key and cache.lower().startswith("oci"):
        raise BadInput(
            "push-oci-signing",
            "Spack signs no packages of an OCI registry (it would push them unsigned); give --unsigned and let the registry "
            "say who may push, or push to a folder or another URL.",
        )
    if "://" not in cache and optional_file.named(cache).exists() and not optional_file.named(cache).is_dir():
        raise BadInput("cache-no-folder", f"--push {cache} is not a folder; name a folder, which may be new, or a URL.")
    return Push(cache, key)


def push(project: Project, name: str, wanted: Push) -> None:
    """Put the packages of an installed stack and all they need when they run into a build cache.

    What the cache has already stays as it is. The key's public half goes there, too, for those who know it by its fingerprint.
    """
    signing = ("--key", wanted.key) if wanted.key else ("--unsigned",)
    remedy = "see the log; 'spack gpg list --signing' has the keys that can sign"
    project.echo(f"{name}: pushing to {wanted.cache}, {'signed by ' + wanted.key if wanted.key else 'unsigned'}")
    project.run(name, "pushing", "buildcache", "push", *signing, "--update-index", wanted.url, remedy=remedy)
    if wanted.key:
        words = ("gpg", "publish", "--update-index", "--mirror-url", wanted.url, wanted.key)
        project.run(name, "publishing the key", *words, remedy=remedy)


def write_mirrors(mirrors: Sequence[str], folder: Path, signed: bool = False) -> str:
    """A configuration scope that names mirrors.

    :param signed: whether packages must be signed; else whoever names a mirror on the command line trusts it as it is.
    """
    rows = {}
    for number, mirror in enumerate(mirrors):
        url = mirror
        if "://" not in mirror:
            path = optional_file.named(mirror).absolute()
            if not mirror or not path.is_dir():
                raise BadInput(
                    "mirror-no-folder",
                    f"mirror {mirror or repr(mirror)} is not a folder; name a folder or URL that 'mpibench stacks build "
                    "--push', 'spack mirror create' or 'spack buildcache push' has filled.",
                )
            url = path.as_uri()
        rows[f"mpibench-{number}"] = {"url": url, "signed": signed}
    (folder / "mirrors.yaml").write_text(yaml.safe_dump({"mirrors": rows}))
    return str(folder)


def trust(keys: Sequence[str], spack: Spack, folder: Path, log: Path) -> Mapping[str, str]:
    """The environment in which Spack uses a keyring that trusts these keys and no others."""
    (ring := folder / "keyring").mkdir(mode=0o700)
    inside = {**spack.environ, KEYRING: str(ring)}
    for key in keys:
        path = optional_file.named(key).absolute()
        if not os.access(path, os.R_OK) or not path.is_file():
            raise BadInput(
                "key-unreadable", f"--trust {key} is not a file that can be read; 'spack gpg export FILE KEY' writes one."
            )
        remedy = "'spack gpg export FILE KEY' writes a key that GnuPG can import"
        replace(spack, environ=inside).run(
            ["gpg", "trust", str(path)], log=log, what=f"--trust {key}", echo=print, remedy=remedy
        )
    return inside


# ---- modulefiles ----

#: Kinds Spack writes -> where the folder is that goes on MODULEPATH, below that of the kind.
KINDS = {"tcl": "", "lmod": "Core"}


def list_packages(lock: Lock) -> list[LockedSpec]:
    """What of a stack gets a module: the bundle, its MPI, its benchmarks."""
    return [lock.suite, lock.mpi, *lock.benchmarks]


def module_of(lock: Lock) -> str:
    """Name of the module that loads a stack: two of one MPI have the names of their environments."""
    return f"{SUITE}/{lock.path.parent.name}-{lock.mpi.version}"


def module_path(root: Path, kind: str) -> Path:
    """What ``module use`` takes."""
    return root / kind / KINDS[kind]


def configure_modules(root: Path, lock: Lock) -> dict[str, Any]:
    """Spack's ``modules.yaml``: both kinds below ``root``, without folders of architectures or compilers."""
    environment = lock.path.parent.name
    other = "" if environment == lock.mpi.name else f"-{environment}"
    plain = {
        "hash_length": 0,
        "projections": {  # a benchmark is built for one MPI; an MPI is a module by itself
            SUITE: f"{{name}}/{environment}-{{^mpi.version}}",
            **dict.fromkeys(BENCHMARKS, f"{{name}}/{{version}}-{environment}-{{^mpi.version}}"),
            "all": f"{{name}}/{{version}}{other}",
        },
        # What a program needs from Spack's store it has as a run path.
        "all": {"autoload": "none"},
        # Two stacks in one shell would be the MPI of one and the benchmarks of the other.
        SUITE: {"autoload": "direct", "conflict": ["{name}"]},
    }
    return {
        "modules": {
            "default": {
                "enable:": list(KINDS),
                "roots": {kind: str(root / kind) for kind in KINDS},
                "arch_folder": False,
                "tcl:": plain,
                "lmod:": {**plain, "hierarchy": [], "core_compilers": lock.compiler_names(*list_packages(lock))},
            }
        }
    }


def write_modules(project: Project, name: str, root: Path) -> None:
    """Write the modulefiles of an installed stack, so that users load what the tests have proved, and the tests can load it.

    One module a stack, such as ``mpibench-suite/openmpi-5.0.10``, loads its MPI and its benchmarks, which have modules of their
    own; nothing else of Spack's store gets one.
    """
    lock = project.concretized[name]
    scope = project.place / "modules" / name
    scope.mkdir(parents=True, exist_ok=True)
    # A key with a colon at its end replaces what other scopes say.
    text = yaml.safe_dump(configure_modules(root, lock)).replace("'enable:':", "enable::").replace("'tcl:':", "tcl::")
    (scope / "modules.yaml").write_text(text.replace("'lmod:':", "lmod::"))
    specs = [f"{node.name}/{node.hash}" for node in list_packages(lock)]
    for kind in KINDS:
        words = ("module", kind, "refresh", "--yes-to-all", *specs)
        project.run(name, f"writing modulefiles ({kind})", *words, scopes=(str(scope),))
    tcl, lmod = (module_path(root, kind) for kind in KINDS)
    project.echo(f"{name}: modulefiles written; 'module use {tcl}' (Lmod: {lmod}), then 'module load {module_of(lock)}'")


# ---- everything that stacks are built from, for a machine without a network ----

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


def check_bundle(folder: Path) -> None:
    """Refuse a folder that has something else in it."""
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if folder.exists() and (not folder.is_dir() or set(there) - {SPACK, PACKAGES, MIRROR, WHEELS}):
        raise BadInput(
            "bundle-folder", f"--bundle {folder} is not a folder for a bundle: name one that is new, empty or holds a bundle."
        )


def write_bundle(project: Project, names: Sequence[str], folder: Path) -> None:
    """Write the bundle of some concretized environments; what is there already is completed.

    It has Spack, its recipes as pinned, the sources of all that would be built, and the solver as a wheel. Spack's own
    configuration in it names the others relative to itself, so that it works wherever the folder lies. The compilers, MPIs and
    libraries of the site are described in its scope, there as here.
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
        raise BadInput("cannot-write", f"the bundle {folder} cannot be written: {error}.") from None
    python = project.spack.environ.get("SPACK_PYTHON") or shutil.which("python3") or "python3"
    command = [python, "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--dest={folder / WHEELS}", "clingo"]
    done = subprocess.run(command, text=True, errors="replace", capture_output=True)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise BadInput(
            "clingo-missing",
            f"clingo, which Spack solves with, cannot be fetched for {platform.machine()} by {python}: {said}.",
        )
    for name in names:
        project.run(name, "fetching sources", "mirror", "create", f"--directory={folder / MIRROR}", "--all", show=True)
        project.echo(f"{name}: sources in {folder / MIRROR}")


def _copy(source: Path, target: Path) -> None:
    """A folder without what Python compiled, and without the machine's own configuration, environments and downloads."""
    own = {"etc": ("site",), "spack": ("cache", "environments")}.get(source.name, ())
    left_out = shutil.ignore_patterns("__pycache__", *own)
    shutil.copytree(source, target, symlinks=True, ignore=left_out, dirs_exist_ok=True)
