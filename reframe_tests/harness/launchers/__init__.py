"""Launchers: how each is told where ranks go, and how it reaches the other nodes; a file each, found by itself."""
