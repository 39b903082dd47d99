"""Which node, cable or switch is slow: suspects of a map of pairs, with a stated error rate."""
