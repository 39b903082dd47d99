# SPDX-License-Identifier: BSD-3-Clause

"""ReFrame as builtin has it, and the release this project needs."""

from pathlib import Path

from spack.package import Executable, depends_on, extends, test_part, variant, ver, version, which
from spack_repo.builtin.build_systems.python import PythonExtension, PythonPipBuilder
from spack_repo.builtin.packages.py_semver.package import PySemver
from spack_repo.builtin.packages.reframe.package import Reframe as BuiltinReframe

#: What 4.10.4 declares in its pyproject.toml, as ranges of Spack.
NEEDED = (
    "py-archspec@0.2.4:",
    "py-argcomplete@3.6:3",
    "py-clustershell@1.9:1",
    "py-fasteners@0.20:0",
    "py-jinja2@3.1:3",
    "py-jsonschema@4.26:4",
    "py-lxml@6",
    "py-pyyaml@6",
    "py-requests@2.33:2",
    "py-semver@3",
    "py-tabulate@0.10:0",
)


class Reframe(PythonExtension, BuiltinReframe):
    """Framework for tests of HPC systems: builds, submits, checks and records them.

    Beyond builtin: 4.10.4, with what it needs since 4.10, installed by pip, so that Python knows the distribution and its
    version, and a view of an environment has the command for its own Python; builtin copies the source tree.
    """

    version(
        "4.10.4",
        sha256="0d3b0246664fa5b98dc50deed239282300fd74684c607f6b23b5484b924e988b",
    )

    variant("analytics", default=True, when="@4.10:", description="Stores and compares performance with polars")

    extends("python", when="@4.10:")
    depends_on("python@3.10:", when="@4.10:", type=("build", "run"))
    depends_on("py-pip", when="@4.10:", type="build")
    depends_on("py-hatchling@1.29:", when="@4.10:", type="build")
    for _needed in NEEDED:
        depends_on(_needed, when="@4.10:", type="run")
    depends_on("py-polars@1.39:1", when="+analytics", type="run")

    def url_for_version(self, version):
        """From 4.10 on its source distribution, which lies where those of what it needs do; before as builtin has it."""
        if version < ver("4.10"):
            return super().url_for_version(version)
        return f"{PySemver.url.partition('/source/')[0]}/source/r/reframe-hpc/reframe_hpc-{version}.tar.gz"

    @property
    def sanity_check_is_dir(self) -> list[str]:
        return ["bin"] if self.spec.satisfies("@4.10:") else BuiltinReframe.sanity_check_is_dir

    def install(self, spec, prefix):
        if spec.satisfies("@:4.9"):
            super().install(spec, prefix)
            return
        python = Executable(spec["python"].command.path)
        python("-m", "pip", *PythonPipBuilder.std_args(self), f"--prefix={prefix}", ".")

    def setup_run_environment(self, env):
        if self.spec.satisfies("@:4.9"):
            super().setup_run_environment(env)

    def test_version(self):
        """the installed command says the version it was built as"""
        reframe = which("reframe", path=[str(self.prefix.bin)], required=True)
        with test_part(self, "test_version_reframe", purpose="reframe --version"):
            printed = reframe("--version", output=str, error=str)
            assert str(self.version) in printed, printed
            assert Path(reframe.path).is_relative_to(self.prefix)
