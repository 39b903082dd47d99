# SPDX-License-Identifier: BSD-3-Clause

"""perftest: what an InfiniBand or RoCE adapter does without an MPI in between."""

from spack.package import (
    SkipTest,
    conflicts,
    depends_on,
    license,
    test_part,
    variant,
    version,
    which,
)
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

#: Programs that are always built; each runs as a server and as a client.
PROGRAMS = tuple(
    f"ib_{verb}_{kind}" for verb in ("send", "write", "read", "atomic") for kind in ("bw", "lat")
)


class Perftest(AutotoolsPackage):
    """Bandwidth and latency of InfiniBand verbs: send, RDMA
    write, RDMA read and atomic operations.
    """

    homepage = "https://github.com/linux-rdma/perftest"
    git = "https://github.com/linux-rdma/perftest.git"

    license("GPL-2.0-only OR BSD-2-Clause")

    # Taken by commit: upstream's release files carry a date of their own, tags do not move.
    version("25.10.0-0.128", tag="25.10.0-0.128", commit="8a1d3d7234add23fe006b2ff51d650ff022077a8")
    version("25.07.0-0.104", tag="25.07.0-0.104", commit="c543c8491294266a0061161abf9a6c3406486e21")
    version("25.04.0-0.84", tag="25.04.0-0.84", commit="446dea7da4a02501256706b3ed10e17591c7a723")

    variant("cuda", default=False, description="Buffers in the memory of NVIDIA GPUs")
    variant("rocm", default=False, description="Buffers in the memory of AMD GPUs")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("gmake", type="build")
    depends_on("rdma-core")
    depends_on("pciutils")
    depends_on("cuda", when="+cuda")
    depends_on("hip", when="+rocm")

    conflicts(
        "+cuda", when="+rocm", msg="perftest takes one kind of device memory: choose cuda or rocm"
    )

    @property
    def sanity_check_is_file(self) -> list[str]:
        return [f"bin/{name}" for name in PROGRAMS]

    def configure_args(self) -> list[str]:
        spec = self.spec
        arguments = ["--disable-silent-rules"]
        if spec.satisfies("+cuda"):
            arguments += ["--enable-cudart", f"CUDA_H_PATH={spec['cuda'].prefix.include}/cuda.h"]
        if spec.satisfies("+rocm"):
            arguments += ["--enable-rocm", f"--with-rocm={spec['hip'].prefix}"]
        return arguments

    def test_version(self):
        """each program starts and prints its version"""
        for name in PROGRAMS:
            with test_part(self, f"test_version_{name}", purpose=f"{name} --version"):
                program = which(name, path=[str(self.prefix.bin)], required=True)
                assert "Version: " in program(
                    "--version", output=str, error=str, fail_on_error=False
                )

    def test_loopback(self):
        """send bandwidth of an adapter to itself, where the machine has one"""
        devices = which("ibv_devinfo", path=[str(self.spec["rdma-core"].prefix.bin)])
        if devices is None or "hca_id" not in devices(
            "-l", output=str, error=str, fail_on_error=False
        ):
            raise SkipTest("no RDMA device on this machine")
        script = which("run_perftest_loopback", path=[str(self.prefix.bin)], required=True)
        printed = script(
            "0",
            "1",
            str(self.prefix.bin.ib_send_bw),
            "--size=65536",
            "--iters=100",
            output=str,
            error=str,
        )
        assert "BW average" in printed, printed
