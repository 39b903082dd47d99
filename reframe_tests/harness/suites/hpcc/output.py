"""Reader of ``hpccoutf.txt`` (HPCC 1.4 and 1.5): every section is there, every check passed, and the numbers of the summary.

Formats: ``HPCC_Init`` and ``HPCC_Finalize`` in src/io.c and the benchmarks' own files, 1.5.0 as Debian builds it and outputs
of others; 1.4 lacks all that ends in ``_LCG`` or holds it (src/io.c of 1.4). A run on one rank has no rings and is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from ..records import OutputError, Record
from . import rows

_SECTION = re.compile(r"^[ \t]*Begin of (\w+) section\.[ \t\r]*\n(.*?)^[ \t]*End of \1 section\.[ \t\r]*\n", re.M | re.S)
_SUMMARY = "Summary"
#: Those before it, each once; those of ``_LCG`` (another generator of random numbers) are new in 1.5.
_SECTIONS = (
    *(f"{how}RandomAccess{which}" for which in ("", "_LCG") for how in ("MPI", "Star", "Single")),
    *("PTRANS", "StarDGEMM", "SingleDGEMM", "StarSTREAM", "SingleSTREAM", "MPIFFT", "StarFFT", "SingleFFT"),
    *("LatencyBandwidth", "HPL"),
)
#: What the head says: the version, then the order of the matrix and how processes are mapped.
_HEAD = re.compile(
    r"HPC Challenge Benchmark version (?P<version>\S+) .*?^N +: +(?P<order>[0-9]+)[ \t\r]*$.*?^PMAP +: +(?P<mapping>\S+)",
    re.M | re.S,
)
_TITLE = re.compile("HPC Challenge Benchmark version")
#: Lines that say that a check failed, or that something was left out.
_FAILED = re.compile(
    r"^.*(?:\bFAILED\b|\(failed\)|Failed |Node\(s\) with error +(?!0\b)|^Success=0|problem size too large"
    r"|[1-9][0-9]* tests completed and failed|[1-9][0-9]* tests skipped|errors were found|xerbla).*$",
    re.M,
)
_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?(?:e[-+][0-9]+)?"
_LINE = re.compile(rf"([A-Za-z]\w*)=({_NUMBER}|[A-Za-z])")
#: hpcc holds the error of a transform against this many eps log(n) (FFT/mpifft.c, ``thrsh`` of HPL).
_THRESHOLD = 16.0


def _keys(text: str) -> tuple[str, ...]:
    """``HPL_{N NB}`` stands for two keys."""
    found = []
    for word in text.split("|"):
        stem, _, ends = word.strip().partition("{")
        found += [stem + end for end in ends.rstrip("}").split()] if ends else stem.split()
    return tuple(found)


_MACHINE = "EPS SFMIN BASE PREC MLEN RND EMIN RMIN EMAX RMAX"
_UPDATES = "N time CheckTime Errors ErrorsFraction ExeUpdates GUPs TimeBound Algorithm"
#: Every key of the summary of 1.5, as ``HPCC_Finalize`` writes them.
KEYS = _keys(
    "Version{Major Minor Micro Release} | LANG Success"
    "| sizeof_{char short int long void_ptr size_t float double s64Int u64Int struct_double_double} | CommWorldProcs MPI_Wtick"
    "| HPL_{Tflops time eps RnormI Anorm1 AnormI Xnorm1 XnormI BnormI N NB nprow npcol}"
    "| HPL_{depth nbdiv nbmin cpfact crfact ctop order}"
    f"| HPL_dMACH_{{{_MACHINE}}} | HPL_sMACH_{{{_MACHINE}}} | dweps sweps HPLMaxProcs HPLMinProcs"
    "| DGEMM_N StarDGEMM_Gflops SingleDGEMM_Gflops | PTRANS_{GBs time residual n nb nprow npcol}"
    f"| MPIRandomAccess_LCG_{{{_UPDATES}}} | MPIRandomAccess_{{{_UPDATES}}}"
    "| RandomAccess_LCG_N StarRandomAccess_LCG_GUPs SingleRandomAccess_LCG_GUPs"
    "| RandomAccess_N StarRandomAccess_GUPs SingleRandomAccess_GUPs"
    "| STREAM_{VectorSize Threads} | StarSTREAM_{Copy Scale Add Triad} | SingleSTREAM_{Copy Scale Add Triad}"
    "| FFT_N StarFFT_Gflops SingleFFT_Gflops | MPIFFT_{N Gflops maxErr Procs}"
    "| MaxPingPongLatency_usec RandomlyOrderedRingLatency_usec MinPingPongBandwidth_GBytes"
    "| NaturallyOrderedRingBandwidth_GBytes RandomlyOrderedRingBandwidth_GBytes MinPingPongLatency_usec"
    "| AvgPingPongLatency_usec MaxPingPongBandwidth_GBytes AvgPingPongBandwidth_GBytes NaturallyOrderedRingLatency_usec"
    "| FFTE{nblk np l2size} | M_OPENMP | omp_get_{num_threads max_threads num_procs} | Mem{Proc Spec Val}"
    "| MPIFFT_time{0 1 2 3 4 5 6}"
    "| CPS_{HPCC_FFT_235 HPCC_FFTW_ESTIMATE HPCC_MEMALLCTR HPL_USE_GETPROCESSTIMES RA_SANDIA_NOPT RA_SANDIA_OPT2 USING_FFTW}"
)
#: Share by which a rate may miss what its time says: both are printed with six digits.
_FIT = 1e-4
#: Versions read, and what those before 1.5 have not.
_VERSIONS, _NEW_IN_1_5 = ((1, 4), (1, 5)), "_LCG"


def parse(text: str, source: str) -> list[Record]:
    """Records of one run, in the order of the rows.

    :raises OutputError: if it is damaged, mixed up or cut off, a check failed, a part was not run, or hpcc had no input file.
    """
    if failed := _FAILED.search(text):
        line = " ".join(failed[0].split())[:80]
        raise _wrong(source, text, failed.start(), f"'{line}' says that a check of hpcc failed; its numbers are not used")
    sections = list(_SECTION.finditer(text))
    if not sections:
        raise OutputError(f"{source}: the output of hpcc has no whole section; it was cut off, run it again.")
    head = _HEAD.search(text)
    if not head or len(_TITLE.findall(text)) != 1:
        raise OutputError(f"{source}: the head of hpcc's output is damaged or there twice; run the benchmark again.")
    if head["mapping"] != "Row-major":
        raise OutputError(
            f"{source}: hpcc mapped its processes {head['mapping']} and not Row-major, as without its input file hpccinf.txt; "
            "see that it is in the folder hpcc is started in."
        )
    if sections[-1][1] != _SUMMARY:
        raise OutputError(f"{source}: hpcc ended without its summary; the output was cut off, run it again.")
    values = _read_summary(source, text, sections[-1])
    version = tuple(int(values[f"Version{part}"]) for part in ("Major", "Minor"))
    _check(source, values, head)
    names = [found[1] for found in sections[:-1]]
    wanted = [name for name in _SECTIONS if version >= (1, 5) or _NEW_IN_1_5 not in name]
    if sorted(names) != sorted(wanted):
        odd = next((name for name in [*wanted, *names] if names.count(name) != 1 or name not in wanted), "")
        raise OutputError(f"{source}: section {odd} of hpcc is missing, unknown or there twice; the output is damaged.")
    return [_record(source, result, values) for result in rows.RESULTS]


def _read_summary(source: str, text: str, section: re.Match[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    offset = section.start(2)
    for line in section[2].split("\n"):
        if line.strip():
            found = _LINE.fullmatch(line.strip())
            if not found or found[1] not in KEYS or found[1] in values:
                shown = "".join(ch if ch.isprintable() else "?" for ch in line.strip()[:60])
                raise _wrong(source, text, offset, f"'{shown}' is no line of hpcc's summary, or there twice, or no number")
            values[found[1]] = found[2]
        offset += len(line) + 1
    new = any(_NEW_IN_1_5 in key for key in values)
    missing = [key for key in KEYS if key not in values and (new or _NEW_IN_1_5 not in key)]
    if missing:
        raise OutputError(f"{source}: the summary of hpcc lacks {missing[0]}; the output is damaged or cut, run it again.")
    version = tuple(int(values[f"Version{part}"]) if values[f"Version{part}"].isdigit() else -1 for part in ("Major", "Minor"))
    said = ".".join(map(str, version))
    if version not in _VERSIONS:
        known = " and ".join(".".join(map(str, each)) for each in _VERSIONS)
        raise OutputError(f"{source}: this is hpcc {said}, and {known} are read; use one of these.")
    if new != (version >= (1, 5)):
        raise OutputError(f"{source}: the summary is not that of the hpcc {said} it says it is of; the output is damaged.")
    return values


def _check(source: str, values: Mapping[str, str], head: re.Match[str]) -> None:
    """The summary agrees with itself and with the head."""
    version = ".".join(values[f"Version{part}"] for part in ("Major", "Minor", "Micro"))
    keys = ("CommWorldProcs", "HPL_nprow", "HPL_npcol", "HPL_N", "MPIFFT_N")
    counts = {key: _whole(source, key, values[key]) for key in keys}
    ranks, grid = counts["CommWorldProcs"], counts["HPL_nprow"] * counts["HPL_npcol"]
    if values["Success"] != "1":
        raise OutputError(f"{source}: the summary says Success={values['Success']}; a check of hpcc failed, run it again.")
    if version != head["version"] or str(counts["HPL_N"]) != head["order"]:
        raise OutputError(f"{source}: head and summary are of different runs; outputs are mixed up, run it again.")
    if ranks < 2 or grid != ranks:
        raise OutputError(f"{source}: HPL ran on {grid} of {ranks} ranks; hpcc is read where 2 or more all take part.")
    order, grade = counts["HPL_N"], _number(source, "HPL_Tflops", values["HPL_Tflops"])
    # HPL_pdtest.c: (2/3 N^3 + 3/2 N^2) / time; the time is printed with six digits and the rate with as many.
    operations = (2 / 3 * order + 3 / 2) * order**2 / 1e12
    if abs(grade * _number(source, "HPL_time", values["HPL_time"]) - operations) > _FIT * operations:
        raise OutputError(
            f"{source}: HPL_Tflops={values['HPL_Tflops']} and HPL_time={values['HPL_time']} do not fit order {order}; the "
            "output is damaged, run it again."
        )
    height, width, some = (_whole(source, key, values[key]) for key in ("PTRANS_nprow", "PTRANS_npcol", "MPIFFT_Procs"))
    if height * width != ranks or some > ranks:
        said = f"PTRANS ran on {height * width} ranks, MPIFFT on {some}, of {ranks}"
        raise OutputError(f"{source}: {said}; it is damaged, run it again.")
    error = _number(source, "MPIFFT_maxErr", values["MPIFFT_maxErr"])
    bound = _THRESHOLD * _number(source, "HPL_eps", values["HPL_eps"]) * math.log(max(counts["MPIFFT_N"], 2))
    if not 0 <= error < bound:
        raise OutputError(f"{source}: MPIFFT_maxErr={error:g} is not below {bound:.3g}; the transform is wrong.")


def _whole(source: str, key: str, value: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,17}", value):
        raise OutputError(f"{source}: {key}={value} in hpcc's summary is no count; that part was not run, or it is damaged.")
    return int(value)


def _number(source: str, key: str, value: str) -> float:
    if not re.fullmatch(_NUMBER, value):
        raise OutputError(f"{source}: {key}={value} in hpcc's summary is no number; the output is damaged, run it again.")
    return float(value)


def _record(source: str, result: rows.Result, values: Mapping[str, str]) -> Record:
    value = _number(source, result.key, values[result.key])
    if not 0 < value < math.inf:
        raise OutputError(f"{source}: {result.key}={values[result.key]}: {result.name} was not run, or measured nothing.")
    ranks, variant = int(values["CommWorldProcs"]), f"N={values['HPL_N']}" if result.sized else ""
    # How often a ring is gone round is not printed; it is at least once.
    repetitions = None if result.sized else 1
    quantities = {result.quantity: float(f"{value * result.scale:.12g}")}
    problem = {size: _whole(source, key, values[key]) for size, key in result.problem.items()}
    return Record(rows.NAME, result.name, ranks, 1, None, repetitions, quantities, variant, problem=problem)


def _wrong(source: str, text: str, offset: int, what: str) -> OutputError:
    return OutputError(f"{source}, line {text.count(chr(10), 0, offset) + 1}: {what}; run the benchmark again.")
