"""The site of results: nights, metrics over time and cases of each system as static pages that need no network."""
