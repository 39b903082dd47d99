"""The report of a session as one HTML file."""
