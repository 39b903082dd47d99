"""The check that a job loaded its stack's modules as they were when the stack was registered, read from the job's own log."""

from __future__ import annotations

from pathlib import Path

from ..samples import CONTRADICTED, MISSING
from ..stacks import modules
from ..stacks.stack import Stack

#: Shell pattern of the logs, one for each stack of a job.
LOGS = "modules-*.txt"
#: Last part of a log that is whole.
END = "end"


def log_of(stack: Stack) -> str:
    """Name of the file, in the job's directory, in which the job says what it loaded."""
    return LOGS.replace("*", stack.name)


def parse(text: str, record: modules.LoadedModules) -> modules.ModuleState:
    """A log: parts that end with NUL, ``loaded=``, ``files=``, ``value=NAME=`` and ``sha256=SUM=FILE``, and :data:`END`.

    A log without ``loaded=`` is that of a job which only looked at the files: of a paired stack.
    """
    loaded = {each.name: each.file for each in record.loaded}
    names: list[str] = []
    sums: dict[str, str] = {}
    values: dict[str, str] = {}
    for part in text.split("\0")[:-1]:
        key, _, value = part.partition("=")
        first, _, rest = value.partition("=")
        if key == "loaded":
            names, loaded = [name for name in value.split(":") if name], {}
        elif key == "files":
            # As many as there are modules; of fewer or more nothing says which is whose.
            files = [file for file in value.split(":") if file]
            loaded = dict(zip(names, files if len(files) == len(names) else [""] * len(names), strict=True))
        elif key == "value":
            values[first] = rest
        elif key == "sha256":
            sums[rest] = first
    return modules.ModuleState(loaded, sums, values)


def judge(stack: Stack, directory: Path) -> tuple[str, list[str]]:
    """Status and sentences unless a job loaded what its stack was registered with; none for a stack without modules."""
    if not stack.modules:
        return MISSING, []
    path = directory / log_of(stack)
    text = path.read_text(errors="replace") if path.exists() else ""
    if not text.endswith(f"{END}\0"):
        names = modules.list_names(stack.modules)
        return MISSING, [f"the job left no whole {path.name}, so nothing shows that it loaded {names}."]
    sentences = modules.find_changes(stack.loaded, parse(text, stack.loaded), own=tuple(stack.env_vars))
    remedy = f"; if that is meant, 'mpibench stacks remove {stack.name}' and add it again."
    return CONTRADICTED, [f"{sentence.rstrip('.')}{remedy}" for sentence in sentences]
