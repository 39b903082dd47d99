"""What the README says, tried on a machine that has nothing."""
