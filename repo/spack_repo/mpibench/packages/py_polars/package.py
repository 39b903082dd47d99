# SPDX-License-Identifier: BSD-3-Clause

"""polars as its project publishes it for Python; what computes is py-polars-runtime-32."""

from spack.package import depends_on, license, test_part, version
from spack_repo.builtin.build_systems.python import PythonPackage


class PyPolars(PythonPackage):
    """Data frames on all cores.

    Not derived from builtin's recipe: that one ends at 1.29, where ReFrame 4.10 needs 1.39, compiles with a nightly Rust and
    brings pandas, pyarrow, matplotlib and gevent, which polars can use and does not need.
    """

    homepage = "https://pola.rs"
    pypi = "polars/polars-1.44.2.tar.gz"

    license("MIT")

    version(
        "1.44.2",
        sha256="1bb331f17a40d9d931101533dcd33637b66edc61eb377b07020dac16a0f0377b",
        expand=False,
    )

    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-polars-runtime-32@1.44.2", when="@1.44.2", type=("build", "run"))

    def url_for_version(self, version):
        """The wheel, beside the sources that Spack knows the place of."""
        return f"{self.url.partition('/source/')[0]}/py3/p/polars/polars-{version}-py3-none-any.whl"

    def test_frame(self):
        """a column is summed by the compiled part"""
        with test_part(self, "test_frame_sum", purpose="polars.Series([1, 2]).sum()"):
            printed = self.module.python("-c", "import polars; print(polars.Series([1, 2]).sum())", output=str)
            assert printed.strip() == "3", printed
