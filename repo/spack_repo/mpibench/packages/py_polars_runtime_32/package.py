# SPDX-License-Identifier: BSD-3-Clause

"""The compiled part of polars, as its project publishes it."""

from platform import machine

from spack.package import depends_on, license, test_part, version
from spack_repo.builtin.build_systems.python import PythonPackage

#: Kind of machine, as uname says it, to the checksum of its wheel.
WHEELS = {
    "x86_64": "a1bafb441e99199a62c63bf1bbdc0ea09ee9776dbac2bf31452b5000fb1df2f7",
    "aarch64": "bbf9b45040291dc1c6c588c837019c33557bde25ec536562a9cca9e1f6dfcc45",
}


class PyPolarsRuntime32(PythonPackage):
    """What polars computes with, for frames of up to 4 billion rows.

    Its project's own wheel, for any CPython from 3.10 on and a C library from 2.17 on, of x86_64 and aarch64: to compile it
    takes a nightly Rust and crates from the network. ``spack mirror create`` keeps it like a source.
    """

    homepage = "https://pola.rs"
    pypi = "polars-runtime-32/polars_runtime_32-1.44.2.tar.gz"

    license("MIT")

    version(
        "1.44.2",
        sha256=WHEELS.get(machine(), WHEELS["x86_64"]),
        expand=False,
    )

    depends_on("python@3.10:", type=("build", "run"))

    def url_for_version(self, version):
        """The wheel, beside the sources that Spack knows the place of."""
        kind = f"manylinux_2_17_{machine()}.manylinux2014_{machine()}"
        folder = f"{self.url.partition('/source/')[0]}/cp310/p/polars-runtime-32"
        return f"{folder}/polars_runtime_32-{version}-cp310-abi3-{kind}.whl"

    def test_import(self):
        """the compiled module is loaded"""
        with test_part(self, "test_import_module", purpose="import _polars_runtime_32"):
            self.module.python("-c", "import _polars_runtime_32")
