"""Runs inside ``spack python``: concretizes the specs it is given, two at a
time, and tells what came out. One start of Spack.

Reads ``{label: [spec, folder of configuration, ...]}`` from the file named first, writes ``{label:
outcome}`` to the file named second; of two folders the later one counts more. An outcome has either
``packages`` (name -> namespace and version, of the whole solution), ``variants`` (name -> text) and
``seconds``, or ``error``. Under the key ``conflicts`` are the messages of all conflicts that the
packages of our own repository declare.
"""

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

import spack.concretize
import spack.config
import spack.error
import spack.repo

OWN = "mpibench"


def solve(row: list[str]) -> dict[str, object]:
    text, *folders = row
    began = time.monotonic()
    for folder in folders:
        spack.config.CONFIG.push_scope(
            spack.config.DirectoryConfigScope(folder, folder, writable=False)
        )
    try:
        solved = spack.concretize.concretize_one(text)
    except spack.error.SpackError as error:
        return {"error": f"{error.message}\n{error.long_message or ''}"}
    finally:
        for folder in folders:
            spack.config.CONFIG.remove_scope(folder)
    nodes = list(solved.traverse())
    return {
        "packages": {node.name: [node.namespace, str(node.version)] for node in nodes},
        "variants": {node.name: node.format("{variants}").strip() for node in nodes},
        "seconds": round(time.monotonic() - began, 1),
    }


def own_conflicts() -> list[str]:
    repo = next(repo for repo in spack.repo.PATH.repos if repo.namespace == OWN)
    recipes = [repo.get_pkg_class(name) for name in repo.all_package_names()]
    return sorted(
        {
            str(message)
            for recipe in recipes
            for rows in recipe.conflicts.values()
            for _, message in rows
        }
    )


wanted, answer = map(Path, sys.argv[-2:])
rows = json.loads(wanted.read_text())
outcome: dict[str, object] = {"conflicts": own_conflicts()}
# Forked after the recipes have been loaded; each solve is one process
# of clingo, with one thread and about 1 GiB.
with multiprocessing.get_context("fork").Pool(min(2, len(os.sched_getaffinity(0)))) as solvers:
    outcome.update(zip(rows, solvers.map(solve, rows.values(), chunksize=1), strict=True))
answer.write_text(json.dumps(outcome))
