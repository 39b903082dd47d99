"""The commands: options, exit status, and what does the work, imported
when it is asked for; ``register`` adds them.
"""
