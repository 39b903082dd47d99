"""Verdicts on measurements: accept, drift, gate, references; they decide and write no pages."""
