"""What a session must hold, and what of it is missing."""
