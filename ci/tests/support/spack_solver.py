"""Runs inside ``spack python``: solves the specs it is given and tells what came out. One start of Spack for all.

Reads a JSON list of specs from the file named first, writes ``{spec: outcome}`` to the file named second. An outcome has
either ``packages`` (name -> namespace and version, of the whole solution) or ``error``. Under the key ``conflicts`` are
the messages of all conflicts that the packages of our own repository declare.
"""

import json
import sys
from pathlib import Path

import spack.concretize
import spack.error
import spack.repo

OWN = "mpibench"


def solve(text: str) -> dict[str, object]:
    try:
        solved = spack.concretize.concretize_one(text)
    except spack.error.SpackError as error:
        return {"error": f"{error.message}\n{error.long_message or ''}"}
    return {"packages": {node.name: [node.namespace, str(node.version)] for node in solved.traverse()}}


def own_conflicts() -> list[str]:
    repo = next(repo for repo in spack.repo.PATH.repos if repo.namespace == OWN)
    recipes = [repo.get_pkg_class(name) for name in repo.all_package_names()]
    return sorted({str(message) for recipe in recipes for rows in recipe.conflicts.values() for _, message in rows})


wanted, answer = map(Path, sys.argv[-2:])
outcome: dict[str, object] = {text: solve(text) for text in json.loads(wanted.read_text())}
outcome["conflicts"] = own_conflicts()
answer.write_text(json.dumps(outcome))
