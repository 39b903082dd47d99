"""A session: its name and folders, its labels, what it was measured with."""
