# SPDX-License-Identifier: BSD-3-Clause

"""tabulate as builtin has it, and the release ReFrame needs."""

from spack.package import depends_on, test_part, version
from spack_repo.builtin.packages.py_tabulate.package import PyTabulate as BuiltinPyTabulate


class PyTabulate(BuiltinPyTabulate):
    """Pretty-print tabular data. Beyond builtin: 0.10.0, which ReFrame 4.10 asks for."""

    version("0.10.0", sha256="e2cfde8f79420f6deeffdeda9aaec3b6bc5abce947655d17ac662b126e48a60d")

    depends_on("py-setuptools@77.0.3:", when="@0.10:", type="build")
    depends_on("py-setuptools-scm@3.4.3:", when="@0.10:", type="build")
    depends_on("python@3.10:", when="@0.10:", type=("build", "run"))

    def test_table(self):
        """a table of two columns is laid out"""
        with test_part(self, "test_table_plain", purpose="tabulate([[1, 2]])"):
            printed = self.module.python("-c", "import tabulate; print(tabulate.tabulate([[1, 2]]))", output=str)
            assert "-  -" in printed, printed
