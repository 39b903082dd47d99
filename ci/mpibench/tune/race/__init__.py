"""The race of algorithms: times of interleaved repeats, what is clearly slower, what is chosen, and how far it has got."""
