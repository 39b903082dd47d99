# SPDX-License-Identifier: BSD-3-Clause

"""This project's own commands and all that they need, for the checkout that this recipe lies in."""

from pathlib import Path

from spack.package import EnvironmentModifications, Executable, InstallError, depends_on, extends, license, test_part, version
from spack_repo.builtin.build_systems.generic import Package
from spack_repo.builtin.build_systems.python import PythonExtension, PythonPipBuilder

#: Top of the checkout.
CHECKOUT = Path(__file__).resolve().parents[5]
#: What pyproject.toml declares, as ranges of Spack.
NEEDED = (
    "reframe@4.10.4:4 +analytics",
    "py-jsonschema@4.17:",
    "py-pyyaml@6:",
    "py-polars@1.39:",
    "py-plotly@6:",
    "py-jinja2@3.1:",
    "py-typer@0.15:0.28",
    "py-rich@13:",
    "py-scipy@1.15:",
    "py-prometheus-client@0.20:",
    "py-msgspec@0.19:",
)


class Mpibench(PythonExtension, Package):
    """The commands ``mpibench`` and ``reframe`` for a checkout of this project, in place of ``ci/setup``.

    The checkout is used where it is, as ``ci/setup`` does: it holds the tests, the site's files, and the results. After an
    update of its files nothing has to be installed again unless what it needs has changed. Use it through the view of an
    environment: what refers to the checkout is a file that Python reads in its own folders only.
    """

    homepage = "https://reframe-hpc.readthedocs.io"
    has_code = False

    license("BSD-3-Clause")

    version("0.1.0")

    extends("python")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-pip", type="build")
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-setuptools-scm@8:", type="build")
    for _needed in NEEDED:
        depends_on(_needed, type=("build", "run"))

    def install(self, spec, prefix):
        if not (CHECKOUT / "pyproject.toml").is_file():
            raise InstallError(f"mpibench is installed from its checkout, and {CHECKOUT} is none; add the repository of one")
        python = Executable(spec["python"].command.path)
        python("-m", "pip", *PythonPipBuilder.std_args(self), f"--prefix={prefix}", "--editable", str(CHECKOUT))

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        # Behind a centre's own, where its users have one.
        env.append_path("RFM_CONFIG_FILES", str(CHECKOUT / "site_configs" / "settings.py"))
        # ci/nightly then sets nothing up.
        env.set("MPIBENCH_SET_UP", "spack")

    def test_checkout(self):
        """the commands are those of the checkout"""
        folder = self.prefix.join(self.spec["python"].package.purelib)
        program = f"import site; site.addsitedir({str(folder)!r}); import mpibench.cli; print(mpibench.cli.__file__)"
        with test_part(self, "test_checkout_import", purpose="import mpibench.cli"):
            printed = Executable(self.spec["python"].command.path)("-c", program, output=str, error=str)
            assert Path(printed.split()[-1]).is_relative_to(CHECKOUT), printed
