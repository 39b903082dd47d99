"""Writes ``stack.json``: the only way to register a stack, whoever built it.

A stack is registered only if its metadata match the schema, its name is free, all named files
exist, and its programs have started on the library they claim. Until then there is no
``stack.json``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.metadata import StackError
from reframe_tests.harness.stacks.metadata import compute_hash as compute_hash
from reframe_tests.harness.stacks.metadata import digest_of as digest_of
from reframe_tests.harness.stacks.stack import Stack

from .. import whole_file
from . import compilation, probe

METADATA = "stack.json"


class StackUnproven(StackError):
    """A stack whose files or programs contradict its metadata; the sentence says which."""


def check_word(name: str) -> None:
    """Reject an invalid stack name before doing anything else."""
    if not re.search(
        json.loads(metadata.SCHEMA.read_text())["properties"]["name"]["pattern"], name
    ):
        raise StackError(
            "bad-option",
            f"--name {name!r} is not a valid stack name: use letters, digits, _ and -, starting "
            "with a letter or _.",
        )


def check_name(
    name: str, path: Path, root: Path = metadata.ROOT, environ: Mapping[str, str] = os.environ
) -> None:
    """Refuse the name of another registered stack: their results could not be distinguished.

    :param path: the metadata file about to be written; a stack may replace itself.
    """
    for other in metadata.files(root, environ):
        try:
            taken = other.resolve() != path.resolve() and metadata.read(other).name == name
        except StackError:
            continue  # a broken file has no name; `mpibench stacks` complains about it
        if taken:
            raise StackError(
                "name-taken",
                f"{other} already describes a stack '{name}'; choose another name, or remove that "
                "stack.",
            )


def register(
    document: Mapping[str, Any],
    path: Path,
    *,
    root: Path = metadata.ROOT,
    environ: Mapping[str, str] = os.environ,
    contradict: Callable[[Stack, Callable[[str], object]], str] | None = None,
    record: Callable[[str], object] = lambda text: None,
    ask: Callable[[Stack], Mapping[str, str]] = compilation.ask,
    linked: Callable[[Stack], Sequence[str] | None] = probe.find_linked,
) -> Stack:
    """Prove a stack and write its metadata file, with how its library was compiled.

    On any error an existing file stays as it is and no new one appears.

    :param contradict: starts the stack's programs and returns the first contradiction as a
        sentence, else nothing; :func:`probe.find_contradiction` by default.
    :param ask: how the library was compiled.
    :param linked: what comes with the library.
    """
    document = metadata.seal(document, path)
    stack = metadata.parse(document, path)
    check_name(stack.name, path, root, environ)
    complaint = metadata.find_damage(stack) or (contradict or probe.find_contradiction)(
        stack, record
    )
    if complaint:
        raise StackUnproven("changed-since", complaint)
    build = {**document["build"], "compiled": ask(stack)}
    if (beside := linked(stack)) is not None:
        build["linked"] = list(beside)
    document = metadata.seal({**document, "build": build}, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file.replacing(path) as partial:
        partial.write_text(json.dumps(document, indent=2) + "\n")
        partial.chmod(0o644)  # other users of the installation read it too
    return metadata.parse(document, path)
