"""Launchers: how each places ranks and reaches the other nodes;
one file each, registered by being there.
"""

#: Modules that hold no record: what the others share.
SHARED = ("model", "pbs", "registry", "schedulers")
