# SPDX-License-Identifier: BSD-3-Clause

"""plotly as its project publishes it, with the JavaScript that draws already in it."""

from spack.package import depends_on, license, test_part, version
from spack_repo.builtin.build_systems.python import PythonPackage


class PyPlotly(PythonPackage):
    """Charts that a browser draws.

    Not derived from builtin's recipe: that one builds from sources with hatch and jupyter-packaging, which bring py-uv,
    py-cryptography and some thirty other packages, two of them compiled with Rust, and nothing of that is used afterwards.
    """

    homepage = "https://github.com/plotly/plotly.py"
    pypi = "plotly/plotly-7.1.0.tar.gz"

    license("MIT")

    version(
        "7.1.0",
        sha256="dbb7fa18afce40d0a8e80d1bf162eceb3faa0ce5a77fe741ad09a74cf78f53f3",
        expand=False,
    )

    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-narwhals@1.15.1:", type=("build", "run"))
    depends_on("py-packaging", type=("build", "run"))

    def url_for_version(self, version):
        """The wheel, beside the sources that Spack knows the place of."""
        return f"{self.url.partition('/source/')[0]}/py3/p/plotly/plotly-{version}-py3-none-any.whl"

    def test_page(self):
        """a chart becomes a page that has its own JavaScript"""
        program = "import plotly.graph_objects as g; print(len(g.Figure(g.Bar(y=[1])).to_html(include_plotlyjs=True)))"
        with test_part(self, "test_page_bar", purpose="Figure.to_html of a bar"):
            printed = self.module.python("-c", program, output=str)
            assert int(printed) > 1_000_000, printed
