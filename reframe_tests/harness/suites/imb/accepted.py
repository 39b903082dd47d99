"""Arguments that each program of IMB 2021.11 accepts, and so which groups an option is for.

``-help`` and ``-list`` themselves, ``-input``, ``-include`` and ``-exclude``, which say what is run and not how, are left out.
By what ``-help`` of the program lists; IMB-EXT, IMB-IO and IMB-MPI4 by their sources (src_cpp/EXT, src_cpp/IO, src_cpp/MPI4).
"""

from __future__ import annotations

from collections.abc import Mapping

from .rows import ROWS

_ALL = (
    "-thread_level -npmin -multi -off_cache -iter -iter_policy -time -mem -msglen -map -msglog -imb_barrier -warm_up -msg_pause"
)
_TEXT: Mapping[str, str] = {
    "IMB-MPI1": f"{_ALL} -root_shift -sync -zero_size -window_size -msgsize -data_type -red_data_type -contig_type",
    "IMB-NBC": f"{_ALL} -root_shift -sync -zero_size",
    "IMB-MPI4": f"{_ALL} -root_shift -sync -zero_size",
    "IMB-RMA": f"{_ALL} -root_shift -sync -aggregate_mode",
    "IMB-EXT": f"{_ALL} -aggregate_mode",
    "IMB-IO": f"{_ALL} -aggregate_mode",
    "IMB-MT": (
        "-thread_level -stride -warmup -repeat -window_size -barrier -count -malloc_align -malloc_algo -check "
        "-noheader -datatype"
    ),
    "IMB-P2P": "-iter -msglen -msglog -msgsz -msgrd -msgwr -pause",
}
#: Program to the arguments it accepts.
ACCEPTED: Mapping[str, frozenset[str]] = {program: frozenset(text.split()) for program, text in _TEXT.items()}
#: Groups to the programs that run them.
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    group: tuple(dict.fromkeys(row.binary for row in ROWS if row.group == group))
    for group in dict.fromkeys(row.group for row in ROWS)
}


def groups(argument: str) -> tuple[str, ...]:
    """Groups all of whose programs accept an argument, in the order of the rows."""
    return tuple(name for name, programs in PROGRAMS.items() if all(argument in ACCEPTED[each] for each in programs))


def refusals(argument: str) -> dict[str, str]:
    """Groups whose program does not accept an argument, each with the words that say so."""
    return {
        name: f"{program} does not accept {argument}"
        for name, programs in PROGRAMS.items()
        for program in programs
        if argument not in ACCEPTED[program]
    }
