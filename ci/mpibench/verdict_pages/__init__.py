"""Pages and tables of acceptances and comparisons."""
