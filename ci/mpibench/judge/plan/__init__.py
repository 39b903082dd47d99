"""Which cases a night measures, so that it fits a budget and nothing is forgotten."""
