"""What the NAS Parallel Benchmarks for MPI print: a head, what the program says of its work, and a block all have alike."""

from __future__ import annotations

from collections.abc import Mapping

from ..fixed_text import FixedText

_TITLE = "NAS Parallel Benchmarks <w:release> -- {name} Benchmark\n"
#: 3.3 says how many ranks it was built for, 3.4 how many took part.
_END = """
{name} Benchmark Completed{dot}
Class = <w:problem>
Size = <t>
Iterations = <n:iterations>
Time in seconds = <d:seconds>
Total processes = <n:total>
? Compiled procs = <n:compiled>
? Active procs = <n:active>
Mop/s total = <d:mops>
Mop/s/process = <d:each>
Operation type = <t>
Verification = <w:verification>
Version = <w:version>
Compile date = <t>
Compile options:
* <w> =<e>
Please send <t>
NPB Development Team
{address}
"""
#: IS is the one in C.
_FORTRAN = {"dot": ".", "address": "Internet: npb@nas.nasa.gov"}
_WORDS = {"IS": {"dot": "", "address": "npb@nas.nasa.gov"}}
_NORMS = "<n> <x> <x> <x>\n" * 5
#: BT, SP and LU: five norms, twice, against those known; LU a surface integral, too.
_VERIFIED = f"""
Verification being performed for class <w:verified>
<w> setting for epsilon = <x>
Comparison of RMS-norms of residual
{_NORMS}
Comparison of RMS-norms of solution error
{_NORMS}
"""
_STEPS = "Time step <n>\n* Time step <n>\n"
_BODIES: Mapping[str, str] = {
    "BT": f"""
? No input file <w> Using compiled defaults
Size: <t:size>
Iterations: <n> dt: <x>
? Number of active processes: <n>
? WARNING: Number of active processes: <n>
? Total number of processes: <n>
{_STEPS}{_VERIFIED}
Verification Successful
""",
    "CG": """
Size: <t:size>
Iterations: <n>
? Number of active processes: <n>
? Number of processes: <n>
Number of nonzeroes per row: <n>
Eigenvalue shift: <x>
iteration ||r|| zeta
<n> <x> <x>
* <n> <x> <x>
Benchmark completed
VERIFICATION SUCCESSFUL
Zeta is <x>
Error is <x>
""",
    "EP": """
Number of random numbers generated: <t:size>
? Number of active processes: <n>
? Total number of processes: <n>
EP Benchmark Results:
CPU Time = <x>
N = 2^ <n>
No. Gaussian Pairs = <x>
Sums = <x> <x>
Counts:
<n> <x>
* <n> <x>
""",
    "FT": """
? No input file <w> Using compiled defaults
Size : <t:size>
Iterations : <n>
Number of processes : <n>
? WARNING: <t>
Processor array : <t>
Layout type : <w>
? Initialization time = <x>
T = <n> Checksum = <x> <x>
* T = <n> Checksum = <x> <x>
Result verification successful
? class = <w>
""",
    "IS": """
Size: <t:size>
Iterations: <n>
Number of processes: <n>
? iteration
* <n>
""",
    "LU": f"""
Size: <t:size>
Iterations: <n>
? Number of processes: <n>
? Total number of processes: <n>
? Proc_grid for nprocs = <t>
{_STEPS}{_VERIFIED}
Comparison of surface integral
<x> <x> <x>
Verification Successful
""",
    "MG": """
? No input file. Using compiled defaults
Size: <t:size>
Iterations: <n>
? WARNING: <t>
? Number of processes: <n>
? Number of active processes: <n>
? Total number of processes: <n>
? Initialization time: <x> seconds
iter <n>
* iter <n>
Benchmark completed
VERIFICATION SUCCESSFUL
L2 Norm is <x>
Error is <x>
""",
}
TEXTS: Mapping[str, FixedText] = {
    name: FixedText(f"{_TITLE.format(name=name)}{body}{_END.format(name=name, **_WORDS.get(name, _FORTRAN))}")
    for name, body in {**_BODIES, "SP": _BODIES["BT"]}.items()
}
