"""Who an MPI library is, from what ``MPI_Get_library_version`` says."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from reframe_tests.harness.mpis import registry
from reframe_tests.harness.vocabulary import BadInput


@dataclass(frozen=True)
class Identity:
    """An MPI library, in the words of ``stack.json``.

    :param device: ``ch4:ucx``, ``ch4:ucx,ofi``; empty where the implementation names none.
    :param pattern: value of ``library_version_pattern``.
    :param families: process managers that come with it.
    """

    mpi: str
    version: str
    device: str
    abi: str
    pattern: str
    families: tuple[str, ...]


def identify(answer: str, who: str) -> Identity:
    """The identity behind an answer of ``MPI_Get_library_version``.

    An MPI made of another may name that one, too, further down: the first name counts.

    :param who: file that gave the answer, for the sentence, and for the device where only its folder says it.
    :raises BadInput: when no MPI introduces itself so.
    """
    banners = [(mpi, mpi.banner) for mpi in registry.known().values() if mpi.banner]
    fitting = [(match, mpi, banner) for mpi, banner in banners if (match := re.search(banner.version, answer, re.M))]
    if not fitting:
        first = next((line.strip() for line in answer.splitlines() if line.strip()), "nothing")
        known = ", ".join(mpi.name for mpi, _ in banners)
        raise BadInput(f"{who} says it is {first!r}, an MPI not known here ({known}); {registry.remedy()}.")
    match, mpi, banner = min(fitting, key=lambda row: row[0].start())
    device = re.search(banner.device, answer, re.M) if banner.device else None
    place = os.path.realpath(who)
    by_path = next((name for pattern, name in banner.device_by_path.items() if re.search(pattern, place)), "")
    # "ch4:ucx ofi" is a build with --with-device=ch4:ucx,ofi.
    words = re.split(r"[ ,]+", device[1].strip()) if device else [by_path] * bool(by_path)
    pattern = banner.pattern.replace("{version}", re.escape(match[1]))
    return Identity(mpi.name, match[1], ",".join(words), mpi.abi, pattern, mpi.launchers)
