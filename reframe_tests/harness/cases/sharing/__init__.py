"""Several programs side by side on one node: whose cores are
whose, the job, and the proof that they were.
"""
