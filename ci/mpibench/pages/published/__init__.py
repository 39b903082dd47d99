"""Figures that papers print about the bundled systems."""
