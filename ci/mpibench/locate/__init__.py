"""Which node, cable or switch is slow: suspects of a map of
pairs, tested with a stated error rate.
"""
