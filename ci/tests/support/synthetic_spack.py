"""A copy of the project with a stand-in for Spack: what `mpibench
stacks build` asks it, registers and says.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from folders import DATA, SUPPORT
from mpibench.stacks.spack import build, description
from mpibench.stacks.spack.lock import described
from reframe_tests.harness.vocabulary import BadInput

PROGRAM = SUPPORT / "fake_spack.py"
COMPILERS = {"c": "/bin/true", "cxx": "/bin/true", "fortran": "/bin/true"}


def packages(**compilers: str) -> str:
    """What ``spack config get packages`` prints where a compiler is known (or none is)."""
    externals = (
        [{"spec": "gcc@12.2.0", "prefix": "/usr", "extra_attributes": {"compilers": compilers}}]
        if compilers
        else []
    )
    return yaml.safe_dump(
        {
            "packages": {
                "c": {"require": ["gcc"]},
                "gcc": {"externals": externals, "buildable": False},
            }
        }
    )


class Site:
    """A copy of the project with a stand-in for Spack, and what was said and asked there."""

    def __init__(self, top: Path, root: Path) -> None:
        self.top = top
        self.plan_file = top / "fake" / "plan.json"
        (top / "repo").mkdir()
        (top / "repo" / "recipe.py").write_text("version = 1\n")
        shutil.copytree(root / "site_configs" / "generic", top / "site_configs" / "generic")
        (top / "fake").mkdir()
        self.plan: dict[str, Any] = {"packages": packages(**COMPILERS), "locks": {}, "prefixes": {}}
        for name in ("openmpi", "mpich", "common"):
            self.add(name, root)
        self.echoed: list[str] = []
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "SPACK_ROOT": str(top / "spack"),
            "FAKE_SPACK": str(self.plan_file),
        }
        (top / "spack" / "bin").mkdir(parents=True)
        (top / "spack" / "bin" / "spack").symlink_to(PROGRAM)

    def add(self, name: str, root: Path) -> None:
        """An environment of the project, with the solution recorded for it."""
        folder = self.top / "environments" / name
        shutil.copytree(
            root / "environments" / name, folder, ignore=shutil.ignore_patterns("*.lock", ".*")
        )
        (folder / "stack.json").unlink(missing_ok=True)
        self.plan["locks"][name] = str(DATA / "golden" / "spack" / f"{name}.lock.json")

    def build(self, *names: str, system: str | None = None, **options: Any) -> list[str]:
        self.plan_file.write_text(json.dumps(self.plan))
        return build.build(
            names,
            build.BuildOptions(**options),
            system=system,
            root=self.top,
            environ=self.environ,
            echo=self.echoed.append,
        )

    def refusal(self, *names: str, **options: Any) -> str:
        """The sentence with which everything is refused."""
        with pytest.raises(BadInput) as refused:
            self.build(*names, **options)
        return one_sentence(str(refused.value))

    def journal(self) -> list[dict[str, Any]]:
        path = self.plan_file.with_name("journal")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def asked(self, stack: str = "openmpi") -> list[str]:
        return [row["command"] for row in self.journal() if row["stack"] == stack]

    def forget(self) -> None:
        self.plan_file.with_name("journal").unlink(missing_ok=True)

    def registered(self) -> list[str]:
        return sorted(path.parent.name for path in (self.top / "environments").glob("*/stack.json"))

    def fake_mpi(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leave out what needs a real MPI: that the library answers and programs start
        (test_spack_stacks.py has it).
        """

        def describe(lock: Any, *rest: Any) -> dict[str, Any]:
            return {
                "schema_version": 1, "name": description.name_of(lock), "origin": "spack", "abi": "openmpi",
                "mpi": {"name": "openmpi", "version": "4.1.4", "device": ""}, "launcher_family": "orterun",
                "prefix": str(self.top), "library": str(PROGRAM), "library_version_pattern": "x",
                "binaries": {"osu_latency": str(PROGRAM)}, "commands": {}, "suites": {}, "env_vars": {"A": "1"},
                "prepend_path": {},
                "build": {"lock_hash": lock.suite.hash, "lock_digest": lock.digest, "facts": described(lock)},
            }  # fmt: skip

        monkeypatch.setattr(description, "describe", describe)
        monkeypatch.setattr(description, "contradict", lambda stack, record: "")
        monkeypatch.setattr(description, "check_external", lambda lock, prefix: None)


def one_sentence(text: str) -> str:
    assert "\n" not in text and text.endswith(".") and "Traceback" not in text, text
    return text
