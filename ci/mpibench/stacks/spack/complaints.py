"""What Spack says when it cannot go on, and what to do about it: one row per complaint, first that fits.

Patterns were taken from Spack 1.1.0's own output (ci/tests/support/spack_output.py holds it).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: How to write the compilers of this machine into the site's scope.
FIND_COMPILERS = "'mpibench build --find'"
#: Where what is asked for may stand, when no file has a word of the complaint.
ANYWHERE = "the environment's spack.yaml, environments/common or the site's scope"


@dataclass(frozen=True)
class Row:
    """One complaint.

    :param pattern: regular expression for its line; groups may be used in ``meaning`` as ``{1}``.
    :param meaning: what it means, ending without a full stop.
    :param remedy: what to do; groups may be used in it too, and ``{place}``: the file and line that ask for what cannot be.
    """

    pattern: str
    meaning: str
    remedy: str


ROWS = (
    Row(
        r"Timed out waiting for a (?:read|write) lock",
        "another Spack holds its lock",
        "wait for it to end, then run this again",
    ),
    Row(
        r"(?:Failed to (?:clone|fetch|update) package repositor|Could not resolve host|unable to access 'https?:)",
        "the package recipes cannot be fetched (no network?)",
        "clone spack-packages where there is a network and name it as repos:builtin:destination in the site's scope",
    ),
    Row(
        r"(?:no compiler configured|cannot find working compilers|No compilers? (?:available|found))",
        "Spack knows no compiler",
        f"install one and run {FIND_COMPILERS}",
    ),
    Row(
        r"(?:cannot bootstrap|failed to bootstrap|Cannot find (?:clingo|version))",
        "Spack's own solver cannot be fetched (no network?)",
        "run 'spack bootstrap mirror' where there is a network, as 'spack bootstrap --help' says",
    ),
    Row(
        r"Error: (.*\.yaml:\d+: .*)$",
        "a configuration file is wrong ({1})",
        "correct it",
    ),
    # Spack begins with the line where the damaged part starts, and ends with the one where it shows.
    Row(
        r"(?s)near \S+\.yaml, \d+, \d+: ([^\n]*)\n.*in \"([^\"]+\.yaml)\", line (\d+)",
        "a configuration file is not YAML ({2}, line {3}: {1})",
        "correct it",
    ),
    Row(
        r"near (\S+\.yaml), (\d+), \d+: (.*)$",
        "a configuration file is not YAML ({1}, line {2}: {3})",
        "correct it",
    ),
    Row(
        r"Failed to install (\S+) due to InstallError: No binary found when cache-only",
        "no build cache has {1} as it is asked for, or it is signed by no key that --trust names",
        "name one that has it with --mirror, the file of its key with --trust, or leave out --cache-only",
    ),
    Row(
        r"(?:No default key available for signing|Multiple keys available for signing|No secret key|signing failed)",
        "no key of Spack's keyring can sign",
        "name one of 'spack gpg list --signing' with --key, or make one with 'spack gpg create NAME EMAIL'",
    ),
    Row(
        r"(?:verif|signature|gpg).*(?:fail|not|no )",
        "a build cache holds packages whose signature cannot be checked",
        "name the file of the key that signed them with --trust",
    ),
    Row(
        r"All fetchers failed for spack-stage-(\S+?)(?:-\w{32})?$",
        "the source of {1} cannot be fetched (no network?)",
        "name a mirror or build cache that has it with --mirror",
    ),
    Row(
        r"since '(\S+)' does not exist$",
        "no repository has a package {1}",
        "correct {place}",
    ),
    Row(
        r"(requirement .* cannot match .*|.*[Rr]equire.*cannot be satisfied.*|[Cc]annot satisfy .*|"
        r"concretiz\w* failed.*|.*unsatisfiable.*)$",
        "requirements of the environment and the site's scope conflict ({1})",
        "correct {place}",
    ),
    Row(
        r"failed to concretize `[^`\n]*` for the following reasons:\n +1\. ([^\n]*)$",
        "requirements of the environment and the site's scope conflict ({1})",
        "correct {place}",
    ),
    Row(
        r"(?s)Testing package (\S+)\n[^\n]*TestFailure.*?See test log for details:\s+(\S+)",
        "the install-time test of {1} failed",
        "see {2}",
    ),
    Row(
        r"No space left on device",
        "a disk is full, Spack's store, stage or cache of sources",
        "make room where the log says; the same command goes on from here",
    ),
    Row(
        r"(?s)Error: (ProcessError: Command exited[^\n:]*).*?\n +>> \d+ +([^\n]*).*?See build log for details:\s+(\S+)",
        "a build failed ({1}: {2})",
        "see {3}; when the cause is corrected, the same command goes on from here",
    ),
    Row(
        r"Error: (ProcessError: .*)$",
        "a build failed ({1})",
        "see the log; when the cause is corrected, the same command goes on from here",
    ),
)


def explain(what: str, output: str, status: int, log: Path, remedy: str = "", files: Sequence[Path] = ()) -> str:
    """One sentence for an end of Spack with an error: what it was doing, what it means, what to do, where its log is.

    :param remedy: what to do where no row fits.
    :param files: Spack files the cause may stand in, the one that counts most first.
    """
    for row in ROWS:
        found = re.search(row.pattern, output, re.M)
        if found:
            words = [(word or "a package").strip().rstrip(".") for word in found.groups()]
            place = find_place(found[0], files)
            return f"{what}: {row.meaning.format('', *words)}; {row.remedy.format('', *words, place=place)} (log: {log})."
    reason = first_error(output) or f"Spack ended with status {status}"
    return f"{what}: {reason.rstrip('.')}; {remedy or 'see the log'} (log: {log})."


def find_place(message: str, files: Sequence[Path]) -> str:
    """File and line that have the rarest words of a complaint, as ``FILE, line N``; a general answer where none has any."""
    words = {word.rstrip(".") for word in re.findall(r"[A-Za-z0-9][\w.-]+", message)}
    patterns = [re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\d)") for word in words]
    lines = [
        (path, number, line.split("#")[0])
        for path in files
        if path.is_file()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
    ]
    scores = [0.0] * len(lines)
    for pattern in patterns:
        having = [index for index, (_, _, line) in enumerate(lines) if pattern.search(line)]
        for index in having:
            # A bare key only says which package a value below it is for.
            scores[index] += (0.1 if lines[index][2].rstrip().endswith(":") else 1) / len(having)
    if not any(scores):
        return ANYWHERE
    path, number, _ = lines[scores.index(max(scores))]
    return f"{path}, line {number}"


def first_error(output: str) -> str:
    """The first line Spack marks as an error, else the last that says something; empty for no output."""
    found = re.search(r"Error: (.*\S)", output)
    if found:
        return found[1]
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""
