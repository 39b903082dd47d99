"""ReFrame tests that measure MPI fabrics, each number with proof of its conditions."""
