"""The program ``mpibench``: runs :mod:`.cli`, or a command that does not need the others loaded."""

from __future__ import annotations

import sys
from functools import partial

from mpibench import exit_status, help_text
from reframe_tests.harness import tools


def main() -> int:
    """Entry point; exit status, as :mod:`.exit_status` says."""
    name, *words = sys.argv[1:] or [""]
    if alone := tools.load(tools.ALONE, name).get(name):
        help_text.join_lines(alone)
        return exit_status.command(partial(alone, prog_name=f"mpibench {name}"), words)
    from mpibench import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
