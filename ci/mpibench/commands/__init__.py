"""Sub-commands of ``mpibench``, one file each."""
