"""What Spack 1.1.0 prints when it cannot go on, as recorded; paths shortened."""

NO_SUCH_VERSION = (
    "==> Error: Version requirement 9.9 on openmpi for openmpi cannot match any known version "
    "from package.py or externals\n"
)
WRONG_TYPE = "==> Error: /site/spack/packages.yaml:3: 7 is not of type 'array'\n"
NO_RECIPES = """\
fatal: unable to access 'https://github.com/spack/spack-packages.git/': Could not resolve host: github.com
==> Warning: Error constructing repository '/site/packages': Failed to clone repository builtin
==> Error: no compiler configured, and Spack cannot find working compilers in PATH
"""
LOCKED = """\
==> Error: Timed out waiting for a write lock after 120.277s.
    Made 281 attempts on file: /site/cache/providers/.builtin-specfile_v5-index.json.lock
"""
FULL = """\
==> Error: OSError: [Errno 28] No space left on device: 'build/IMB-NBC.built' -> '/site/store/imb/bin/IMB-NBC'
==> Error: Terminating after first install failure: OSError: [Errno 28] No space left on device: 'build/IMB-NBC.built' -> \
'/site/store/imb/bin/IMB-NBC'
"""
NOT_CACHED = """\
[+] /site/mpi/mpich (external mpich-4.0.2-bbdsplhsiooqaccxnj47woj3q7jtgulk)
==> Installing gcc-runtime-12.2.0-vxhc2ptvqrndb2groljvkrmn6ifsib4b [3/6]
==> Warning: Skipping build of intel-mpi-benchmarks since gcc-runtime failed
==> Error: Failed to install gcc-runtime due to InstallError: No binary found when cache-only was specified
==> Error: Terminating after first install failure: No binary found when cache-only was specified
"""
NO_SOURCE = """\
==> No binary for intel-mpi-benchmarks-2021.11-x52j5d3j3jalyj5cvpn4xufleyv3llfk found: installing from source
==> Installing intel-mpi-benchmarks-2021.11-x52j5d3j3jalyj5cvpn4xufleyv3llfk [7/8]
==> Error: FetchError: All fetchers failed for spack-stage-intel-mpi-benchmarks-2021.11-x52j5d3j3jalyj5cvpn4xufleyv3llfk
        https://github.com/intel/mpi-benchmarks/archive/refs/tags/IMB-v2021.11.tar.gz: DetailedURLError: GET \
https://github.com/intel/mpi-benchmarks/archive/refs/tags/IMB-v2021.11.tar.gz errored with: [Errno -2] Name or service not known
==> Error: Terminating after first install failure: FetchError: All fetchers failed for \
spack-stage-intel-mpi-benchmarks-2021.11-x52j5d3j3jalyj5cvpn4xufleyv3llfk
"""
BUILD_FAILED = """\
==> Error: ProcessError: Command exited with status 2:
    '/usr/bin/make' '-C' '/nowhere'

1 error found in build log:
     1    ==> badpkg: Executing phase: 'install'
     2    ==> [2026-11-21-15:36:40.735670] '/usr/bin/make' '-C' '/nowhere'
  >> 3    make: *** /nowhere: No such file or directory.  Stop.

See build log for details:
  /site/stage/spack-stage-badpkg-1/spack-build-out.txt
"""
TEST_FAILED = """\
==> Spack test ycigrz4mmgmu4zl46eiokemh2tpqrm2t
==> Testing package intel-mpi-benchmarks-2021.11-w3s3n42
==> Error: TestFailure: 1 test failed.


#----------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.11, MPI-IO part
#----------------------------------------------------------------
# #processes = 1

See test log for details:
  /site/test/intel-mpi-benchmarks-2021.11-w3s3n42-test-out.txt

============================== 1 failed of 1 spec ==============================

See osu-micro-benchmarks-7.5-bcwyxao test results at:
  /site/test/osu-micro-benchmarks-7.5-bcwyxao-test-out.txt
==> Error: 1 test(s) in the suite failed.
"""
CONFLICT = """\
==> Error: failed to concretize `mpibench-suite ^mpi=openmpi` for the following reasons:
     1. openmpi: 'amdgpu_target=none' conflicts with '+rocm'
     2. openmpi: 'amdgpu_target=none' conflicts with '+rocm'
        required because conflict constraint +rocm
          required because mpibench-suite ^mpi=openmpi requested explicitly
"""
