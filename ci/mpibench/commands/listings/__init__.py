"""What commands list: the machine, jobs that nobody reads,
stacks, benchmarks, records of an output.
"""
