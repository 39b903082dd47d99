"""The parts of a night: its options, and the programs that it runs and ends."""
