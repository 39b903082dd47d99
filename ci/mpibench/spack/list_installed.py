"""Run by Spack's own Python (``spack -e ENV python list_installed.py``): where each package of the environment is, as JSON.

``{hash: {"prefix": path, "installed": true}}``, after a line ``INSTALLED`` that sets it off from anything Spack says before.
"""

import json

import spack.environment

environment = spack.environment.active_environment()
rows = {
    spec.dag_hash(): {"prefix": str(spec.prefix), "installed": bool(spec.installed or spec.external)}
    for spec in environment.all_specs()
}
print("INSTALLED")
print(json.dumps(rows))
