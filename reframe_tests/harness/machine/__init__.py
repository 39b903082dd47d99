"""Nodes: fabrics and their rails, processor topology, and which cores ranks may have."""
