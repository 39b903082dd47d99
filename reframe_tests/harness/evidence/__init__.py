"""What proves a number: records of the ranks, counters of the links, and the checks on them."""
