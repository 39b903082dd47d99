"""Answers for the maps of stored sessions: asked for, or beside a curve that misses."""
