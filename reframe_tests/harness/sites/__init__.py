"""What a site writes down: systems, references, and which tests are selected there."""
