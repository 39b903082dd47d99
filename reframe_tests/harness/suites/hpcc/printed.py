"""What hpcc writes into ``hpccoutf.txt``: head, a section per benchmark, a summary and an end (HPCC 1.4 and 1.5)."""

from __future__ import annotations

from collections.abc import Mapping

from ..fixed_text import FixedText

_PARAMETERS = """
<r>
HPLinpack <t>
Written by A. Petitet and R. Clint Whaley, Innovative Computing Laboratory, UTK
Modified by Piotr Luszczek, Innovative Computing Laboratory, UTK
Modified by Julien Langou, University of Colorado Denver
<r>
An explanation of the input/output parameters follows:
T/V : Wall time / encoded variant.
N : The order of the coefficient matrix A.
NB : The partitioning blocking factor.
P : The number of process rows.
Q : The number of process columns.
Time : Time in seconds to solve the linear system.
Gflops : Rate of execution for solving the linear system.
The following parameter values will be used:
N : <n{at}>
NB : <n>
PMAP : <w{map}> process mapping
P : <n>
Q : <n>
PFACT : <w>
NBMIN : <n>
NDIV : <n>
RFACT : <w>
BCAST : <w>
DEPTH : <n>
SWAP : <t>
L1 : <w> form
U : <w> form
EQUIL : <w>
ALIGN : <n> double precision words
<r>
- The matrix A is randomly generated for each test.
- The following scaled residual check will be computed:
||Ax-b||_oo / ( eps * ( || x ||_oo * || A ||_oo + || b ||_oo ) * N )
- The relative machine precision (eps) is taken to be <x>
- Computational tests pass if scaled residuals are less than <x>
"""
_TIME = "Current time (<n>) is <t>\n"
_NO_ERROR = "Node(s) with error 0\n"
#: A check passes with up to 1 % of the places wrong, since updates may be lost (RandomAccess/MPIRandomAccess.c).
_LOCATIONS = "Found <n> errors in <n> locations (passed).\n"
_UPDATES = "CPU time used = <x> seconds\nReal time used = <x> seconds\n<x> Billion(10^9) Updates per second [GUP/s]\n"
_OWN_UPDATES = f"Main table size = <w> = <n> words\nNumber of updates = <n>\n{_UPDATES}{_LOCATIONS}"
_STREAM = """
<r>
This system uses <n> bytes per DOUBLE PRECISION word.
<r>
Array size = <n>, Offset = <n>
Total memory required = <x> GiB.
Each test is run <n> times.
The *best* time for each kernel (excluding the first iteration)
will be used to compute the reported bandwidth.
The SCALAR value used for this run is <x>
? Number of Threads requested = <n>
? <r>
<r>
Your clock granularity<t>
Each test below will take on the order of <n> microseconds.
(= <n> clock ticks)
Increase the size of the arrays if this shows that
you are not getting at least 20 clock ticks per test.
<r>
WARNING -- The above is only a rough guideline.
For best results, please be sure you know the
precision of your system timer.
<r>
VERBOSE: total setup time for rank <n> = <x> seconds
<r>
Function Rate (GB/s) Avg time Min time Max time
Copy: <x> <x> <x> <x>
Scale: <x> <x> <x> <x>
Add: <x> <x> <x> <x>
Triad: <x> <x> <x> <x>
<r>
Solution Validates: avg error less than <x> on all three arrays
<r>
"""
_FFT = "Generation time: <x>\nTuning: <x>\nComputing: <x>\nInverse FFT: <x>\nmax(|x-x0|): <x>\n"
_OWN_FFT = f"Vector size: <n>\n{_FFT}"


def _star(own: str, rates: str, what: tuple[str, ...] = ("",)) -> str:
    """All ranks: what the first one printed, then the least, mean and largest rate of all."""
    return f"{own}{_NO_ERROR}" + "".join(f"{each} {rates.format(kernel)} <x>\n" for kernel in what for each in _EACH) + _TIME


def _single(own: str, rates: str, what: tuple[str, ...] = ("",)) -> str:
    """One rank, drawn by chance; where it is the first, what it printed comes first."""
    printed = "".join(f"Single {rates.format(kernel)} <x>\n" for kernel in what)
    return f"[\n{own}]\n{_NO_ERROR}Node selected <n>\n{printed}{_TIME}"


_EACH = ("Minimum", "Average", "Maximum")
_KERNELS = ("Copy ", "Scale ", "Add ", "Triad ")
_GLOBAL_UPDATES = f"""
Running on <n> <t>
Total Main table size = <w> = <n> words
PE Main table size = <t>
Default number of updates (RECOMMENDED) = <n>
? Number of updates EXECUTED = <n> (for a TIME BOUND of <x> secs)
{_UPDATES}
<x> Billion(10^9) Updates/PE per second [GUP/s]
Verification: CPU time used = <x> seconds
Verification: Real time used = <x> seconds
{_LOCATIONS}{_TIME}"""
_PTRANS = f"""
M: <n>
N: <n>
MB: <n>
NB: <n>
P: <n>
Q: <n>
TIME M N MB NB P Q TIME CHECK GB/s RESID
---- ----- ----- --- --- --- --- -------- ------ -------- -----
WALL <n> <n> <n> <n> <n> <n> <x> PASSED <x> <x>
? CPU <n> <n> <n> <n> <n> <n> <x> PASSED <x> <x>
WALL <n> <n> <n> <n> <n> <n> <x> PASSED <x> <x>
? CPU <n> <n> <n> <n> <n> <n> <x> PASSED <x> <x>
WALL <n> <n> <n> <n> <n> <n> <x> PASSED <x> <x>
? CPU <n> <n> <n> <n> <n> <n> <x> PASSED <x> <x>
WALL <n> <n> <n> <n> <n> <n> <x> PASSED <x> <x>
? CPU <n> <n> <n> <n> <n> <n> <x> PASSED <x> <x>
WALL <n> <n> <n> <n> <n> <n> <x> PASSED <x> <x>
? CPU <n> <n> <n> <n> <n> <n> <x> PASSED <x> <x>
Finished <n> tests, with the following results:
<n> tests completed and passed residual checks.
0 tests completed and failed residual checks.
0 tests skipped because of illegal input values.
END OF TESTS.
{_TIME}"""
_PAIRS = """
Message Length: <n>
Latency min / avg / max: <x> / <x> / <x> msecs
Bandwidth min / avg / max: <x> / <x> / <x> MByte/s
"""
_ESTIMATE = """
message size: <n>
max time : <x> secs
latency for msg: <x> msecs
estimation for ping pong: <x> msecs
max number of ping pong pairs = <n>
max client pings = max server pongs = <n>
stride for latency = <n>
"""
_RING = """
Message Size: <n> Byte
Natural Order Latency: <x> msec
Natural Order Bandwidth: <x> MB/s
Avg Random Order Latency: <x> msec
Avg Random Order Bandwidth: <x> MB/s
"""
_AUTHORS = """
<r>
Latency-Bandwidth-Benchmark R<w> (c) HLRS, University of Stuttgart
Written by Rolf Rabenseifner, Gerrit Schulz, and Michael Speck, Germany
"""
_GRANULARITY = "? Use MPI_Wtick for estimation of max pairs\n? MPI_Wtime granularity is ok.\n"
_RINGS = f"""
{_AUTHORS}
Details - level <n>
<r>
MPI_Wtime granularity.
Max. MPI_Wtick is <x> sec
wtick is set to <x> sec
{_PAIRS}{_GRANULARITY}{_ESTIMATE}{_PAIRS}
{_PAIRS}{_GRANULARITY}{_ESTIMATE}{_PAIRS}
{_RING}
{_RING}
Execution time (wall clock) = <x> sec on <n> processes
- for cross ping_pong latency = <x> sec
- for cross ping_pong bandwidth = <x> sec
- for ring latency = <x> sec
- for ring bandwidth = <x> sec
{_AUTHORS}
Major Benchmark results:
<r>
Max Ping Pong Latency: <x> msecs
Randomly Ordered Ring Latency: <x> msecs
Min Ping Pong Bandwidth: <x> MB/s
Naturally Ordered Ring Bandwidth: <x> MB/s
Randomly Ordered Ring Bandwidth: <x> MB/s
<r>
Detailed benchmark results:
Ping Pong:
Latency min / avg / max: <x> / <x> / <x> msecs
Bandwidth min / avg / max: <x> / <x> / <x> MByte/s
Ring:
On naturally ordered ring: latency= <x> msec, bandwidth= <x> MB/s
On randomly ordered ring: latency= <x> msec, bandwidth= <x> MB/s
<r>
Benchmark conditions:
The latency measurements were done with 8 bytes
The bandwidth measurements were done with 2000000 bytes
The ring communication was done in both directions on <n> processes
The Ping Pong measurements were done on
- <n> pairs of processes for latency benchmarking, and
- <n> pairs of processes for bandwidth benchmarking,
out of <w> = <n> possible combinations on <n> processes.
(1 MB/s = 10**6 byte/sec)
<r>
{_TIME}"""
_HPL = f"""
{_PARAMETERS.format(at="", map="")}
<r>
T/V N NB P Q Time Gflops
<r>
<w> <n> <n> <n> <n> <x> <x>
<r>
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= <x> ...... PASSED
<r>
Finished 1 tests with the following results:
1 tests completed and passed residual checks,
0 tests completed and failed residual checks,
0 tests skipped because of illegal input values.
<r>
End of Tests.
<r>
{_TIME}"""

HEAD = FixedText(f"""
<r>
This is the DARPA/DOE HPC Challenge Benchmark version <w:version> <t>
Produced by Jack Dongarra and Piotr Luszczek
Innovative Computing Laboratory
University of Tennessee Knoxville and Oak Ridge National Laboratory
See the source files for authors of specific codes.
Compiled on <t>
{_TIME}
Hostname: <t>
<r>
{_PARAMETERS.format(at=":order", map=":mapping")}
""")
END = FixedText(f"<r>\nEnd of HPC Challenge tests.\n{_TIME}<r>")
#: Section to what it holds; those of ``_LCG`` (another generator of random numbers) are new in 1.5.
SECTIONS: Mapping[str, FixedText] = {
    "MPIRandomAccess": FixedText(_GLOBAL_UPDATES),
    "StarRandomAccess": FixedText(_star(_OWN_UPDATES, "GUP/s")),
    "SingleRandomAccess": FixedText(_single(_OWN_UPDATES, "GUP/s")),
    "MPIRandomAccess_LCG": FixedText(_GLOBAL_UPDATES),
    "StarRandomAccess_LCG": FixedText(_star(_OWN_UPDATES, "GUP/s")),
    "SingleRandomAccess_LCG": FixedText(_single(_OWN_UPDATES, "GUP/s")),
    "PTRANS": FixedText(_PTRANS),
    "StarDGEMM": FixedText(_star("Scaled residual: <x>\n", "Gflop/s")),
    "SingleDGEMM": FixedText(_single("Scaled residual: <x>\n", "DGEMM Gflop/s")),
    "StarSTREAM": FixedText(_star(_STREAM, "{}GB/s", _KERNELS)),
    "SingleSTREAM": FixedText(_single(_STREAM, "STREAM {}GB/s", _KERNELS)),
    "MPIFFT": FixedText(f"Number of nodes: <n>\nVector size: <n>\n{_FFT}Gflop/s: <x>\n{_TIME}"),
    "StarFFT": FixedText(_star(_OWN_FFT, "Gflop/s")),
    "SingleFFT": FixedText(_single(_OWN_FFT, "FFT Gflop/s")),
    "LatencyBandwidth": FixedText(_RINGS),
    "HPL": FixedText(_HPL),
}
