"""What a job printed and recorded, judged: one result of one case."""
