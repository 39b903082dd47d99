"""What commands list: the machine, orphaned jobs, stacks, benchmarks, parsed outputs."""
