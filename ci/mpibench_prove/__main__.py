"""``python -m mpibench_prove``: from a folder that was copied, without the project's metadata."""

import sys

from mpibench import exit_status
from mpibench_prove.commands import app

sys.exit(exit_status.run(app, sys.argv[1:]))
