"""Nodes: fabrics and their rails, processor topology, and the cores that ranks may use."""
