# SPDX-License-Identifier: BSD-3-Clause

"""msgspec, which builtin does not have."""

from spack.package import depends_on, license, test_part, version
from spack_repo.builtin.build_systems.python import PythonPackage


class PyMsgspec(PythonPackage):
    """Records that are checked against their types, and JSON Schemas made of them."""

    homepage = "https://github.com/jcrist/msgspec"
    pypi = "msgspec/msgspec-0.22.0.tar.gz"

    license("BSD-3-Clause")

    version("0.22.0", sha256="0a13624a4969159fe35d8c2a3d377b2b61bbd8585e327440d5e52725affcce38")

    depends_on("c", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-setuptools@80:", type="build")
    depends_on("py-setuptools-scm@8:", type="build")

    def test_record(self):
        """a number is read as what its type says"""
        with test_part(self, "test_record_int", purpose="msgspec.json.decode(b'[1]', type=list[int])"):
            printed = self.module.python("-c", "import msgspec; print(msgspec.json.decode(b'[1]', type=list[int]))", output=str)
            assert printed.strip() == "[1]", printed
