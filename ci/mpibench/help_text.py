"""Help of commands at the width of the terminal.

Typer keeps the line ends of every paragraph of a docstring but the first (``rich_utils``,
``_fix_linebreaks``), so that a narrower terminal wraps each line again.
"""

from __future__ import annotations

import inspect
import re

import typer


def join_lines(app: typer.Typer) -> None:
    """Make each paragraph of the help of an app's commands one line, which the terminal wraps; the
    exit status is a paragraph.
    """
    for command in app.registered_commands:
        command.help = _joined(command.help or inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance:
            join_lines(group.typer_instance)


def _joined(text: str) -> str:
    return "\n\n".join(
        paragraph if paragraph.startswith("\b") else " ".join(paragraph.split())
        for paragraph in re.sub(r"\s+Exit status:", "\n\nExit status:", text).split("\n\n")
    )
