"""Effects and their errors, over many metrics at once. Arrays in, arrays out; nothing here reads a file."""
