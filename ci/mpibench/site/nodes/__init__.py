"""Pages of nodes: what the maps of pairs measured of each, night by night."""
