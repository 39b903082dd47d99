"""Which cases a night measures so that it fits its budget and no case is forgotten."""
