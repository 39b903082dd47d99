"""The README, followed on a machine that has nothing but python3."""
