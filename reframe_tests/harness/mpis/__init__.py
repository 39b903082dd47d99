"""MPI libraries, one file each: how to recognise one, how to select a transport, and what it prints
to prove it.
"""

#: Modules that hold no record: what the others share.
SHARED = ("ch4", "model", "registry", "shared_evidence", "transport", "tuning")
