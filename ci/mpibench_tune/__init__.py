"""From measurements of collective algorithms to settings that a
library reads, with proof that they are better.
"""
