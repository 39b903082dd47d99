"""Launchers: how each places ranks and reaches the other nodes; one file each, registered by being there."""
