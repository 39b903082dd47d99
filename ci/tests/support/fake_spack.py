#!/usr/bin/env python3
"""Stands in for Spack in tests: answers what `mpibench stacks build`
asks, from recorded lock files, and keeps a journal.

What it does is in the JSON file FAKE_SPACK names: ``version``, ``packages`` (YAML text), ``locks``
(environment to lock file), ``prefixes`` (package to folder), ``fail`` (command to what is printed
before it fails), ``absent`` (packages an installation leaves out), ``lines`` (what `install`
prints), ``verified`` (faults and notes of what is installed).
"""

import json
import os
import sys
from pathlib import Path

state = Path(os.environ["FAKE_SPACK"])
plan = json.loads(state.read_text())
words = [word for word in sys.argv[1:] if word != "--color=never"]
if words == ["--version"]:
    print(plan.get("version", "1.1.0 (2e907202bcc8209a6a62243aab50c179b524cc3b)"))
    sys.exit(plan.get("version_status", 0))

options = {}
while words and words[0] in ("-e", "-C"):
    options[words[0]] = words[1]
    words = words[2:]
environment = Path(options.get("-e", "none"))
command = " ".join(words[:2]) if words[0] in ("config", "test", "module") else words[0]
with state.with_name("journal").open("a") as journal:
    names = ("MPIBENCH_SPACK_SCOPE", "SPACK_DISABLE_LOCAL_CONFIG")
    settings: dict[str, object] = {name: os.environ.get(name, "") for name in names}
    scope = Path(options.get("-C", "/none"))
    settings["scope"] = {path.name: path.read_text() for path in scope.glob("*.yaml")}
    row = {
        "stack": environment.name,
        "command": command,
        "words": words,
        "lock": (environment / "spack.lock").exists(),
    }
    journal.write(json.dumps({**row, **options, **settings}) + "\n")

failures = plan.get("fail", {})
if failure := failures.get(f"{environment.name} {command}") or failures.get(command):
    print(failure)
    sys.exit(1)
done = state.with_name(f"installed-{environment.name}")
if command == "config get":
    print(plan["packages"])
elif command == "concretize":
    (environment / ".spack-env").mkdir(exist_ok=True)
    (environment / "spack.lock").write_text(Path(plan["locks"][environment.name]).read_text())
elif command == "install":
    print("\n".join(plan.get("lines", ())))
    done.write_text(json.dumps(plan.get("absent", [])))
elif command == "python":
    lock = json.loads((environment / "spack.lock").read_text())
    absent = json.loads(done.read_text()) if done.exists() else None
    rows = {}
    for key, node in lock["concrete_specs"].items():
        there = "external" in node or (absent is not None and node["name"] not in absent)
        prefix = plan["prefixes"].get(node["name"], str(state.parent))
        rows[key] = {"prefix": prefix, "installed": there}
    print("==> Warning: something Spack says before")
    print("INSTALLED")
    print(json.dumps(rows))
    print("VERIFIED")
    print(json.dumps(plan.get("verified", {"faults": [], "notes": []})))
