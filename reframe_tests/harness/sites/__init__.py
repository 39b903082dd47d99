"""What a site writes down: systems, references, labels, and where results go."""
