"""MPI libraries, one file each: how each is recognised, how a
transport is selected and what it prints to prove it.
"""

#: Modules that hold no record: what the others share.
SHARED = ("ch4", "model", "registry", "shared_evidence", "transport", "tuning")
