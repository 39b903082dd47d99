"""How often verdicts are wrong, and what they find: measured on recorded noise or on a system's own history."""
