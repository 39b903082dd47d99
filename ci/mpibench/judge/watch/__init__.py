"""What nightly CI calls: one session against the nights before it, and since when something is different."""
