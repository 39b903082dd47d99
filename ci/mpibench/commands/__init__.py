"""The commands: options, exit status, and the work, which is imported only when a command runs.
``register`` adds them.
"""
