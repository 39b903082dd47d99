"""What the layers below MPI reach between two nodes of a job: a server, a client, and the evidence
of both ends.
"""
