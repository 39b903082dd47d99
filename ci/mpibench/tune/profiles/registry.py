"""Which reader a file is for: the first that recognises it; a profiler is a file in this folder and a row here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput

from . import aps, darshan, intel_stats, ipm, mpip, open_mpi_spc, plain_csv
from .record import Given, Profile, check

READERS = (mpip, ipm, intel_stats, aps, open_mpi_spc, darshan, plain_csv)
#: Time in MPI over that of the run, at most: clocks and printed digits differ a little.
MOST_IN_MPI = 1.02
#: Largest file that is read, in bytes: profiles of thousands of ranks are a few MB.
LARGEST = 512 << 20


def read(path: Path, given: Given | None = None, *, exact: bool = True) -> Profile:
    """Read a profile of any known form.

    :param given: what the user says where the profile does not.
    :param exact: a profile that says other ranks than the ones given is refused.
    :raises BadInput: no such file, no known form, or a damaged one; ranks other than the ones given.
    """
    given = given or Given()
    try:
        if path.stat().st_size > LARGEST:
            raise BadInput(f"{path} has more than {LARGEST >> 20} MiB: a profile of calls is smaller; is it a trace?")
        text = path.read_bytes().decode("utf-8", errors="replace").replace("\r\n", "\n")
    except OSError as error:
        raise BadInput(f"cannot read the profile {path}: {error.strerror}.") from None
    reader = next((one for one in READERS if one.recognise(text)), None)
    if reader is None:
        forms = ", ".join(one.FORM for one in READERS)
        raise BadInput(f"{path} is a profile of no known form; known are {forms}.")
    if "\0" in text or "\ufffd" in text:
        raise BadInput(f"{path} ({reader.FORM}) holds bytes that are no text: it is damaged; get the profile again.")
    profile = check(reader.read(text, str(path), given), str(path))
    if exact and given.ranks is not None and given.ranks != profile.ranks:
        raise BadInput(f"{path} is a profile of {profile.ranks} ranks, and --ranks says {given.ranks}.")
    if given.wall_s is not None and profile.wall_s is None:
        profile = replace(profile, wall_s=given.wall_s * profile.ranks)
    if profile.mpi_s is not None and profile.wall_s is not None and profile.mpi_s > MOST_IN_MPI * profile.wall_s:
        raise BadInput(
            f"{path} ({profile.form}) has {profile.mpi_s:.4g} s in MPI and a run of {profile.wall_s:.4g} s, all ranks "
            "together: one of them is not of this run."
        )
    return profile
