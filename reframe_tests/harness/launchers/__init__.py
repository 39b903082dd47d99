"""Launchers: how each places ranks and reaches other nodes; one file each, registered by its
presence.
"""

#: Modules that hold no record: what the others share.
SHARED = ("model", "pbs", "registry", "schedulers")
