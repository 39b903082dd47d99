"""Runs inside ``spack python``: names the packages that solutions
could build and no solution here needs.

Reads ``{"specs": [...], "kept": [...]}`` from the file named first, writes a list of names to the
file named second: what the specs can reach through any variant of any dependency, without our own
packages, those that are kept, and the externals.

One of our recipes reaches more than 600 packages, through documentation tools, desktops and other
compilers. Where a scope says that these are not built, one solution takes 6 s of processor time in
place of 38 s.
"""

import json
import sys
from pathlib import Path

import spack.config
import spack.repo
import spack.spec
from spack.solver.input_analysis import create_counter, create_graph_analyzer

OWN = "mpibench"
#: What Spack adds to every solution by itself.
ADDED = ("compiler-wrapper", "gcc-runtime")

asked, answer = map(Path, sys.argv[-2:])
document = json.loads(asked.read_text())
specs = [spack.spec.Spec(text) for text in document["specs"]]
reached = create_counter(
    specs, tests=False, possible_graph=create_graph_analyzer()
).possible_dependencies()
own = next(repo for repo in spack.repo.PATH.repos if repo.namespace == OWN).all_package_names()
externals = [
    name for name, settings in spack.config.get("packages").items() if settings.get("externals")
]
answer.write_text(json.dumps(sorted(set(reached) - {*own, *ADDED, *externals, *document["kept"]})))
