"""What a night is made of: the options it takes, and the programs it runs and ends."""
