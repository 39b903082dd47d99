"""`mpibench stacks build --find`: the compilers of a machine get into
the site's scope, and the next build knows them.

With the real Spack, skipped by name where there is none: what it writes to
and what it refuses to write to, no stand-in knows.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from mpibench.stacks.spack import build, scope
from mpibench.stacks.spack.project import locate_spack
from reframe_tests.harness.vocabulary import BadInput
from synthetic_spack import ask, copy_environments


@dataclass
class Newcomer:
    """A checkout whose site has no scope, a Spack that knows no compiler, and what was said."""

    root: Path
    environ: dict[str, str]
    echoed: list[str]

    def build(self, name):
        options = build.BuildOptions(concretize_only=True)
        return build.build(
            [name], options, root=self.root, environ=self.environ, echo=self.echoed.append
        )

    def find(self):
        return scope.write_found(root=self.root, environ=self.environ, echo=self.echoed.append)


def last_line(spack, *words):
    return ask(spack, *words).strip().splitlines()[-1]


@pytest.fixture
def newcomer(spack, root, tmp_path):
    """The machine's Spack under another root: same program, recipes and
    solver, but no packages.yaml of its own.
    """
    real = Path(last_line(spack, "location", "-r"))
    own = tmp_path / "spack"
    (own / "bin").mkdir(parents=True)
    shutil.copy(real / "bin" / "spack", own / "bin" / "spack")
    for name in ("lib", "share", "var"):
        (own / name).symlink_to(real / name)
    shutil.copytree(
        real / "etc",
        own / "etc",
        ignore=lambda folder, names: [] if "defaults" in folder else ["packages.yaml"],
    )
    top = tmp_path / "checkout"
    copy_environments(root, top)
    (top / "repo").symlink_to(root / "repo")
    shutil.copytree(
        root / "site_configs" / "generic",
        top / "site_configs" / "generic",
        ignore=shutil.ignore_patterns("spack"),
    )
    # With the index of the recipes, which are the same: it takes a minute of processor time.
    index = last_line(
        spack, "python", "-c", "import spack.caches; print(spack.caches.misc_cache_location())"
    )
    shutil.copytree(index, tmp_path / "cache" / "cache", ignore=shutil.ignore_patterns("*.lock"))
    environ = {key: value for key, value in os.environ.items() if key != scope.SCOPE}
    environ |= {
        "SPACK_ROOT": str(own),
        "SPACK_PYTHON": last_line(spack, "python", "-c", "import sys; print(sys.executable)"),
        "SPACK_USER_CACHE_PATH": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }
    return Newcomer(top, environ, [])


def test_the_first_advice_of_a_new_user_works(newcomer):
    if not shutil.which("gcc") or not shutil.which("gfortran"):
        pytest.skip("[spack] no gcc and gfortran here for Spack to find")
    committed = {path: path.read_text() for path in newcomer.root.glob("environments/*/*.yaml")}
    [sentence] = newcomer.build("openmpi")
    assert sentence.startswith(
        "Spack has no gcc; install it, then run 'mpibench stacks build --find', which"
    )

    path = newcomer.find()
    assert path == newcomer.root / "site_configs" / "generic" / "spack" / "packages.yaml"
    *_, gcc = yaml.safe_load(path.read_text())["packages"]["gcc"]["externals"]
    assert {"c", "cxx", "fortran"} <= set(gcc["extra_attributes"]["compilers"])
    found = scope.read(path)
    assert {"gmake", "perl"} & set(found), "no stack has to build make and perl"
    entries = [
        (name, row)
        for name, settings in scope.read(path).items()
        for row in settings.get("externals") or ()
    ]
    for name, row in entries:
        assert scope.curate({name: {"externals": [row]}}, newcomer.root, ())[1] == [], row
    assert "mpi" not in scope.read(path), "no virtual package is closed"
    if shutil.which("mpirun.openmpi") and shutil.which("mpirun.mpich"):
        assert not {"openmpi", "mpich"} & set(found), "Debian's two share a prefix"
        assert any(
            "folder of links" in line
            for line in newcomer.echoed
            if line.startswith("left out openmpi@")
        )

    project = build.Project(
        newcomer.root,
        locate_spack({**newcomer.environ, scope.SCOPE: str(path.parent)}),
        path.parent,
        print,
    )
    assert scope.check_compiler(project, "openmpi"), "the sentence does not come again"
    # A second look adds nothing twice, keeps what a person wrote, and
    # leaves the user's own configuration alone.
    path.write_text("# by hand\n" + path.read_text())
    before = scope.read(path)
    newcomer.find()
    assert scope.read(path) == before and "# by hand" in path.read_text()
    assert not (Path(newcomer.environ["HOME"]) / ".spack").exists()
    assert {
        path: path.read_text() for path in newcomer.root.glob("environments/*/*.yaml")
    } == committed
    assert {path.name for path in newcomer.root.glob("environments/*/*")} == {
        path.name for path in committed
    }


def test_the_scope_the_variable_names_is_made(root, tmp_path):
    environ = {scope.SCOPE: str(tmp_path / "a" / "scope")}
    with pytest.raises(
        BadInput,
        match=r"which is not a folder; name the folder .* or let 'mpibench stacks build --find'"
        r" make it",
    ):
        scope.find_scope(None, root, environ)
    assert scope.choose(None, root, environ) == tmp_path / "a" / "scope"
    assert scope.choose("generic", root, environ) == root / "site_configs" / "generic" / "spack"
    scope.add(tmp_path / "a" / "scope" / "packages.yaml", FOUND)
    assert scope.find_scope(None, root, environ) == tmp_path / "a" / "scope"


FOUND = {"gmake": {"externals": [{"spec": "gmake@4.3", "prefix": "/usr"}]}}


@pytest.mark.parametrize(
    "text",
    [
        "# by hand\npackages:\n  openmpi:   # ours\n    externals:\n    - {spec: openmpi@4.1.4, "
        "prefix: /opt/mpi}\n",
        "packages:\n    # four blanks\n\n    openmpi:\n        buildable: false",
        "packages:: # replaces\n  openmpi: {buildable: false}\n",
        "packages: {}\n",
        "packages:\n",
    ],
)
def test_what_a_person_wrote_stays_to_the_letter(tmp_path, text):
    path = tmp_path / "packages.yaml"
    path.write_text(text)
    if "packages::" in text:
        with pytest.raises(BadInput, match="by hand"):
            scope.add(path, FOUND)
        assert path.read_text() == text
        return
    before = scope.read(path)
    scope.add(path, FOUND)
    assert scope.read(path) == {**before, **FOUND}
    assert not before or path.read_text().startswith(text)


@pytest.mark.whole
@pytest.mark.parametrize("name", ["debian12", "el9", "cray_ex"])
def test_an_example_is_one_that_spack_takes(newcomer, root, name):
    """Without what the machine's Spack knows itself, of which
    an example may have a second entry.
    """
    folder = root / "site_configs" / "template" / "spack" / name
    [external] = yaml.safe_load((folder / scope.PACKAGES).read_text())["packages"]["slurm"][
        "externals"
    ]
    spack = locate_spack(newcomer.environ)
    assert external["spec"] in ask(spack, "-C", folder, "config", "get", "packages")
    assert "CFG-PACKAGES: passed" in ask(spack, "-C", folder, "audit", "configs")
