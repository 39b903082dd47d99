"""Measuring again, in a fresh job, just what was called slower: refused is only what is seen twice."""
