"""What sessions before showed of a machine: which of them measured the same thing, and what they measured."""
