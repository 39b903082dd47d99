"""Which switches the nodes hang on, as Slurm, a subnet manager's files, a fabric manager's or the site says."""
