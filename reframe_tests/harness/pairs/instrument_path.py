"""Where the instrument is: a program that a stack's own Python runs, and no module of the harness."""

from pathlib import Path

PATH = Path(__file__).with_name("instrument.py")
