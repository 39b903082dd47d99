"""The site's Spack scope: where it is, what is written into it, and whether what it says of compilers is so."""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from reframe_tests.harness import site, stack_metadata
from reframe_tests.harness.vocabulary import BadInput

from . import complaints, tool
from .project import Project
from .tool import Echo

#: Variable the environments include the site's scope by.
SCOPE = "MPIBENCH_SPACK_SCOPE"
FILE = "packages.yaml"
#: Tools of builds that every distribution has, so that no stack builds them first. MPIs are left out: two of them below one
#: prefix (Debian's /usr) are told apart by a person; and Python, whose first on PATH is often a shim for several.
BUILD_TOOLS = (
    "autoconf", "automake", "bison", "cmake", "diffutils", "findutils", "flex", "gettext", "gmake", "libtool", "m4",
    "ninja", "perl", "pkgconf", "tar", "texinfo",
)  # fmt: skip


def choose(system: str | None, root: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Folder of the site's scope, which may not exist yet: ``MPIBENCH_SPACK_SCOPE``, else ``site_configs/<system>/spack``.

    :param system: name of the system; the one whose host names fit this machine by default.
    :raises BadInput: for an unknown system.
    """
    named = environ.get(SCOPE, "")
    if named and not system:
        return Path(named).expanduser().absolute()
    host = socket.gethostname()
    for path in site.system_files(root):
        name = path.parent.name
        if name == system or (not system and any(re.match(p, host) for p in site.read_system(path)["hostnames"])):
            return path.parent / "spack"
    known = ", ".join(path.parent.name for path in site.system_files(root))
    raise BadInput(f"there is no system '{system or host}' under site_configs/; known are {known}.")


def find_scope(system: str | None, root: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The site's scope where there is one; see :func:`choose`.

    :raises BadInput: for an unknown system, or a variable that names no folder.
    """
    path = choose(system, root, environ)
    if path.is_dir():
        return path
    if environ.get(SCOPE, "") and not system:
        raise BadInput(
            f"{SCOPE} is {path}, which is no folder; name the folder of the site's Spack scope, unset it, or let "
            f"{complaints.FIND_COMPILERS} make it."
        )
    return None


def write_found(
    *,
    system: str | None = None,
    root: Path = stack_metadata.ROOT,
    environ: Mapping[str, str] = os.environ,
    echo: Echo = print,
) -> Path:
    """Have Spack look for compilers and build tools and write what it finds into the site's scope; the file.

    Entries that are there stay as they are. A scope named with Spack's ``-C`` is never written to, whatever the command; the
    user's own is, wherever ``SPACK_USER_CONFIG_PATH`` says it is.

    :raises BadInput: when Spack fails, or finds no compiler.
    """
    place = choose(system, root, environ)
    spack = tool.find(environ)
    path = place / FILE
    before = read_externals(path)
    log = root / "results" / "spack" / "find.log"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mpibench-no-configuration-") as nothing:
        inside = {key: value for key, value in spack.environ.items() if key not in tool.ISOLATED}
        inside |= {"SPACK_USER_CONFIG_PATH": str(place), "SPACK_SYSTEM_CONFIG_PATH": nothing}
        writing = replace(spack, environ=inside)
        for what, words in (("compilers", ("compiler",)), ("build tools", ("external",))):
            command = [*words, "find", "--scope", "user", *(BUILD_TOOLS if what == "build tools" else ())]
            writing.run(command, log=log, what=f"looking for {what}", echo=echo)
    after = read_externals(path)
    for name in sorted(after):
        for spec in [spec for spec in after[name] if spec not in before.get(name, ())]:
            echo(f"found {spec}")
    echo(f"{path} names {', '.join(sorted(after))}" if after else f"nothing was found that Spack did not know; see {log}")
    return path


def read_externals(path: Path) -> dict[str, list[str]]:
    """Specs of the externals a ``packages.yaml`` names, by package; empty where there is no file.

    :raises BadInput: when it is no YAML.
    """
    if not path.exists():
        return {}
    try:
        rows = (yaml.safe_load(path.read_text()) or {}).get("packages") or {}
        found = {name: [str(row["spec"]) for row in (settings.get("externals") or ())] for name, settings in rows.items()}
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise BadInput(f"{path} is no packages.yaml ({' '.join(str(error).split())}); correct or remove it.") from error
    return {name: specs for name, specs in found.items() if specs}


def check_compiler(project: Project, name: str) -> str:
    """All package settings in effect in an environment, as text, once they are known to name a compiler.

    Without one Spack would look for compilers itself and write what it finds into the environment's ``spack.yaml``.

    :raises BadInput: when none is named, or one that is not there.
    """
    text = project.run(name, "reading its configuration", "config", "get", "packages", remedy="correct the configuration")
    settings = yaml.safe_load(text[text.index("packages:") :] if "packages:" in text else "") or {}
    packages = settings.get("packages", {})
    wanted = compiler_of(packages)
    rows = [row.get("extra_attributes", {}) for row in (packages.get(wanted) or {}).get("externals") or []]
    missing = [path for row in rows for path in row.get("compilers", {}).values() if not os.access(path, os.X_OK)]
    if missing:
        place = complaints.find_place(missing[0], project.files(name))
        where = "Spack's own packages.yaml" if place == complaints.ANYWHERE else place
        raise BadInput(f"compiler {missing[0]} is named in {where} and is not there; correct or remove its entry.")
    if not any(row.get("compilers") for row in rows):
        system = f" --system {project.system}" if project.system else ""
        raise BadInput(
            f"Spack knows no {wanted}; install it, then run 'mpibench build --find{system}', which writes it into the "
            "site's Spack scope."
        )
    return text


def compiler_of(packages: Mapping[str, Any]) -> str:
    """Package of the C compiler that ``packages`` settings require; gcc where they require none."""
    named = (packages.get("c") or {}).get("require") or ["gcc"]
    found = re.match(r"[\w-]+", named[0] if isinstance(named, list) else named)
    return found[0] if found else "gcc"
