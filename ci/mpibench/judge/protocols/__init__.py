"""Where an MPI switches from one protocol to another, as its curves show it."""
