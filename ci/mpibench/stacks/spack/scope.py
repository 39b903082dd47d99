"""The site's configuration scope: where it is, what is written into it, and whether its compilers
exist.
"""

from __future__ import annotations

import os
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from reframe_tests.harness import optional_file, yaml_file
from reframe_tests.harness.printable import clause
from reframe_tests.harness.sites import systems
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput

from ... import whole_file
from ..logged import Echo
from . import description
from .lock import Lock, LockedSpec, of_entry
from .project import (
    COMMON,
    ISOLATED,
    PACKAGES,
    Project,
    Spack,
    list_of_site,
    list_shared,
    locate_spack,
    split,
)

#: Variable the environments include the site's scope by.
SCOPE = "MPIBENCH_SPACK_SCOPE"
#: How to write the compilers of this machine into the site's scope.
FIND_COMPILERS = "'mpibench stacks build --find'"
HEAD = "# What this site has, for Spack; begun by 'mpibench stacks build --find'.\npackages:\n"

#: Tools of builds that every distribution has, so that no stack builds them first.
BUILD_TOOLS = (
    "autoconf",
    "automake",
    "bison",
    "cmake",
    "diffutils",
    "findutils",
    "flex",
    "gettext",
    "gmake",
    "libtool",
    "m4",
    "ninja",
    "perl",
    "pkgconf",
    "tar",
    "texinfo",
)
#: What a site has and runs itself, with a header without which nothing can be built against it
#: (empty: none is needed). A build of its own would be another one than the daemons, drivers or
#: certificates of the machine belong to.
SITE_SOFTWARE: Mapping[str, str] = {
    "cuda": "cuda.h",
    "curl": "curl/curl.h",
    "git": "",
    "hip": "hip/hip_runtime.h",
    "krb5": "krb5.h",
    "numactl": "numa.h",
    "openssh": "",
    "openssl": "openssl/ssl.h",
    "python": "Python.h",
    "rdma-core": "infiniband/verbs.h",
    "slurm": "",
}
#: Why a prefix is none that a stack can be built on, by what is in it.
MARKS: Mapping[str, str] = {
    "pyvenv.cfg": "it is a Python environment, which may disappear at any time",
    "conda-meta": "it is a Conda environment, whose libraries do not belong to the machine",
}
#: What Spack's ``external find`` says of a package whose recipe fails to detect it
#: (lib/spack/spack/detection/path.py).
_FAILED = re.compile(r'error detecting "([\w-]+)" from prefix (\S+): \[(.{1,300}?)\](?= ==> |$)')


def choose(system: str | None, root: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Folder of the site's scope, which may not exist yet: ``MPIBENCH_SPACK_SCOPE``, else
    ``site_configs/<system>/spack``.
    """
    named = environ.get(SCOPE, "")
    if named and not system:
        return optional_file.named(named).absolute()
    return systems.folder_of(str(systems.select(system or None, root)["name"]), root) / "spack"


def find_scope(
    system: str | None, root: Path, environ: Mapping[str, str] = os.environ
) -> Path | None:
    """The site's scope where there is one; see :func:`choose`."""
    path = choose(system, root, environ)
    if path.is_dir():
        return path
    if environ.get(SCOPE, "") and not system:
        raise BadInput(
            "file-missing",
            f"{SCOPE} is {path}, which is not a folder; name the folder of the site's "
            f"configuration scope, unset it, or let {FIND_COMPILERS} make it.",
        )
    return None


def write_found(
    *,
    system: str | None = None,
    root: Path = metadata.ROOT,
    environ: Mapping[str, str] = os.environ,
    echo: Echo = print,
) -> Path:
    """Let Spack find compilers, build tools, MPIs and libraries, and add the usable ones to the
    site's scope. Returns the file.

    Spack writes into a temporary scope, because it never writes to one named with ``-C`` and drops
    the comments of a file. The site's own entries stay unchanged; unusable findings are left out,
    with the reason.
    """
    place = choose(system, root, environ)
    spack = locate_spack(environ)
    path = place / PACKAGES
    log = root / "results" / "spack" / "find.log"
    there = read(path)  # refuses a damaged file before the search
    mpis = tuple(description.providers())
    kept, dropped = curate(_search(spack, place, mpis, log, echo), root, mpis, _contradict)
    for row, reason in dropped:
        echo(f"left out {row}: {reason}")
    for settings in kept.values():
        for entry in settings["externals"]:
            echo(f"found {entry['spec']} ({entry.get('prefix', 'a module')})")
    # The site has had its say on a package that is in its file; but without
    # a compiler there is nothing to build with.
    searched = {*BUILD_TOOLS, *SITE_SOFTWARE, *mpis}
    said = {
        name
        for name, settings in there.items()
        if name in kept and (name in searched or settings.get("externals"))
    }
    if said:
        echo(f"{path} already has entries for {', '.join(sorted(said))}; they stay unchanged")
    added = {name: settings for name, settings in kept.items() if name not in said}
    if added:
        add(path, added)
    for name in sorted(added.keys() & set(mpis)):
        echo(f"{name}: its stack uses this one; without the entry, Spack builds its own")
    echo(
        f"{path}: {', '.join(sorted(added))} added"
        if added
        else f"nothing to add to {path} (log: {log})"
    )
    return path


def _search(
    spack: Spack, place: Path, mpis: Sequence[str], log: Path, echo: Echo
) -> dict[str, Any]:
    """What Spack finds, by package, as it writes it; empty lists
    where it knew all it found already.
    """
    known = ("-C", str(place)) if place.is_dir() else ()
    with tempfile.TemporaryDirectory(prefix="mpibench-find-") as made:
        for name in ("user", "system"):
            (Path(made) / name).mkdir()
        inside = {key: value for key, value in spack.environ.items() if key not in ISOLATED}
        inside |= {
            "SPACK_USER_CONFIG_PATH": f"{made}/user",
            "SPACK_SYSTEM_CONFIG_PATH": f"{made}/system",
        }
        looking = replace(spack, environ=inside)
        for what, kind, names in (
            ("compilers", "compiler", ()),
            ("build tools, MPIs and libraries", "external", (*BUILD_TOOLS, *SITE_SOFTWARE, *mpis)),
        ):
            words = [*known, kind, "find", "--scope", "user", *names]
            output = " ".join(
                looking.run(words, log=log, what=f"looking for {what}", echo=echo).split()
            )
            for package, prefix, reason in _FAILED.findall(output):
                echo(
                    f"left out {package} ({prefix}): Spack cannot inspect it ({reason}); add it by "
                    "hand if needed"
                )
        rows = read(Path(made) / "user" / PACKAGES)
    return {name: settings for name, settings in rows.items() if settings.get("externals")}


@dataclass(frozen=True)
class External:
    """One installation that Spack found; ``entry`` as written under ``externals``."""

    package: str
    entry: Mapping[str, Any]

    @property
    def prefix(self) -> Path | None:
        """Its prefix; ``None`` if only a module knows."""
        return Path(self.entry["prefix"]) if self.entry.get("prefix") else None

    def __str__(self) -> str:
        return f"{self.entry['spec']} ({self.prefix or 'a module'})"


def _contradict(found: External) -> str:
    """Why an MPI is not what Spack takes it for, as it says itself when a
    program is compiled for it; empty if it is.
    """
    try:
        if found.prefix:
            description.check_external(
                of_entry(str(found.entry["spec"]), found.prefix), found.prefix
            )
    except BadInput as error:
        return clause(error)
    return ""


def curate(
    packages: Mapping[str, Mapping[str, Any]],
    checkout: Path,
    mpis: Iterable[str],
    contradict: Callable[[External], str] = lambda found: "",
) -> tuple[dict[str, dict[str, Any]], list[tuple[External, str]]]:
    """Split what was found into what goes into the site's scope and what does not, with the reason.

    ``spack external find`` takes every program on PATH that answers to a name: the shim of a
    version manager, the Python of a virtual environment, an MPI whose compiler is another MPI's, a
    library without its headers. A build on one of those fails late, or measures something else than
    it says.

    A package stays buildable, and so does every virtual package: Spack may still build what an
    entry does not fit. Only an MPI that is there is not built as well, because its stack is to
    measure the site's own.

    :param contradict: why an MPI is not the one that it is found as.
    """
    found = [
        External(name, row)
        for name, settings in packages.items()
        for row in settings.get("externals") or ()
    ]
    providers = set(mpis)
    kept: dict[str, dict[str, Any]] = {}
    dropped: list[tuple[External, str]] = []
    for row in found:
        others = [
            external
            for external in found
            if {external.package, row.package} <= providers and external.package != row.package
        ]
        reason = _judge(row, checkout, others, row.package in providers)
        if reason := reason or (contradict(row) if row.package in providers else ""):
            dropped.append((row, reason))
            continue
        settings = kept.setdefault(row.package, {"externals": []})
        if not any(_is_same(row.entry, other) for other in settings["externals"]):
            settings["externals"].append(dict(row.entry))
        if row.package in providers:
            settings["buildable"] = False
    return kept, dropped


def _judge(found: External, checkout: Path, mpis: Sequence[External], is_mpi: bool) -> str:
    """Why an installation is unusable; empty if it can be used.

    :param mpis: the other MPIs that were found, where it is one.
    """
    prefix = found.prefix
    # may lie outside its prefix
    compilers = ((found.entry.get("extra_attributes") or {}).get("compilers") or {}).values()
    for path in (*([prefix] if prefix else []), *map(Path, compilers)):
        if hidden := next(
            (part for part in path.parts if part.startswith(".") or part == "shims"), ""
        ):
            return f"it is in {hidden}, which belongs to a version manager"
        if path.is_relative_to(checkout) or path.resolve().is_relative_to(checkout.resolve()):
            return "it belongs to this project, which may remove it"
        for place in (path, *path.parents):
            if mark := next((name for name in MARKS if (place / name).exists()), ""):
                return MARKS[mark]
    if prefix is None:
        return ""
    if not prefix.is_dir():
        return "there is no such folder"
    shared = next(
        (other for other in mpis if other.prefix and other.prefix.resolve() == prefix.resolve()),
        None,
    )
    if shared:
        return (
            f"{shared.entry['spec'].split()[0]} has its programs there, too, but only one of them "
            "owns the names mpicc and mpirun; give each a folder of links to its programs, and an "
            "entry of its own (site_configs/template/spack/debian12)"
        )
    # Intel MPI has its programs in a folder of its version.
    if is_mpi and not any(
        os.access(folder / "mpicc", os.X_OK)
        for folder in (prefix / "bin", *prefix.glob("mpi/*/bin"))
    ):
        return "it has no bin/mpicc; install its development package"
    header = SITE_SOFTWARE.get(found.package, "")
    # A distribution of several architectures, a Python or a CUDA of
    # several targets has it one folder deeper.
    places = [
        prefix / "include",
        *(prefix / "include").glob("*/"),
        *prefix.glob("targets/*/include/"),
    ]
    if header and not any((place / header).is_file() for place in places):
        return (
            f"{prefix} has no {header}, so nothing can be built against it; install its "
            "development package"
        )
    return ""


def _is_same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether two entries are one installation by two names, as ``/``
    and ``/usr`` are where ``/bin`` is a link.
    """
    if left["spec"] != right["spec"] or not left.get("prefix") or not right.get("prefix"):
        return left == right
    return (Path(left["prefix"]) / "bin").resolve() == (Path(right["prefix"]) / "bin").resolve()


def add(path: Path, found: Mapping[str, Any]) -> None:
    """Add packages to a ``packages.yaml``, at its end and as text, so
    that what a person wrote stays to the letter.
    """
    there = read(path)
    text = yaml_file.read_text(path) if path.exists() else HEAD
    indent = re.search(r"^packages::?[ \t]*\n(?:[ \t]*(?:#.*)?\n)*( +)\S", text, re.M)
    if not there and not indent:
        text = re.sub(r"^packages::?[ \t]*(\{\})?[ \t]*$", "packages:", text, flags=re.M)
    block = yaml.safe_dump(
        {name: found[name] for name in found if name not in there}, sort_keys=True
    )
    text = text.rstrip("\n") + "\n" + textwrap.indent(block, indent[1] if indent else "  ")
    wanted = {**there, **found}
    clash = next((name for name in found if name in there), "")
    try:
        whole = yaml_file.parse_mapping(text, str(path)).get("packages") == wanted
    except BadInput:
        whole = False
    if clash or not whole:
        lines = " ".join(
            yaml.safe_dump(
                {clash: found[clash]} if clash else dict(found), default_flow_style=True, width=9999
            ).split()
        )
        where = f"has an entry for {clash}" if clash else "cannot be extended at its end"
        raise BadInput(
            "configuration-unusable", f"{path} {where}; add this to it by hand: {lines}."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file.replacing(path) as partial:
        partial.write_text(text)


def read(path: Path) -> dict[str, Any]:
    """The settings of each package in a ``packages.yaml``, each external
    with its spec; empty if there is no file.
    """
    try:
        found: dict[str, Any] = (
            ((yaml_file.read(path) or {}).get("packages") or {}) if path.exists() else {}
        )
        _ = [row["spec"] for settings in found.values() for row in settings.get("externals") or ()]
    except (AttributeError, KeyError, TypeError) as error:
        raise BadInput(
            "configuration-unusable",
            f"{path} is not a packages.yaml ({' '.join(str(error).split())}); correct or remove "
            "it.",
        ) from error
    return found


def configured_packages(text: str, where: str) -> dict[str, Any]:
    """What ``spack config get packages`` printed, by package."""
    printed = yaml_file.parse(text[text.index("packages:") :], where) if "packages:" in text else {}
    return printed.get("packages") or {}


def check_compiler(project: Project, name: str) -> str:
    """All package settings in effect in an environment, as text, after checking that they name a
    compiler and the packages that Spack does not build itself (:func:`project.list_of_site`).

    Without a compiler Spack would look for compilers itself and write what
    it finds into the environment's ``spack.yaml``.
    """
    text = project.run(
        name,
        "reading its configuration",
        "config",
        "get",
        "packages",
        remedy="correct the configuration",
    )
    printed = f"what 'spack config get packages' printed for {name}"
    try:
        packages = configured_packages(text, printed)
        # the package of the C compiler; gcc where none is named
        words = next(iter(requirements(packages.get("c") or {})), [])
        found = re.match(r"[\w-]+", words[0]) if words else None
        wanted = found[0] if found else "gcc"
        rows = [
            row.get("extra_attributes") or {}
            for row in (packages.get(wanted) or {}).get("externals") or []
        ]
        missing = [
            path
            for row in rows
            for path in (row.get("compilers") or {}).values()
            if not os.access(path, os.X_OK)
        ]
    except (AttributeError, IndexError, TypeError) as error:
        raise BadInput(
            "configuration-unusable",
            f"{printed} is no package settings ({error}); correct the site's {PACKAGES}.",
        ) from None
    if missing:
        where = next(
            (path for path in project.files(name) if missing[0] in path.read_text()),
            "Spack's own packages.yaml",
        )
        raise BadInput(
            "tool-missing",
            f"compiler {missing[0]} is named in {where}, but does not exist; correct or remove its "
            "entry.",
        )
    if not any(row.get("compilers") for row in rows):
        system = f" --system {project.system}" if project.system else ""
        raise BadInput(
            "unknown-name",
            f"Spack has no {wanted}; install it, then run 'mpibench stacks build "
            f"--find{system}', which writes it into the site's configuration scope.",
        )
    of_site = [package for package in list_of_site(project.root, name) if package != wanted]
    if absent := [
        package for package in of_site if not (packages.get(package) or {}).get("externals")
    ]:
        raise BadInput(
            "file-missing",
            f"{name} is built on {', '.join(absent)} of the site, which the site's configuration "
            f"scope lacks; add them, or let {FIND_COMPILERS} find them.",
        )
    return text


def requirements(settings: Mapping[str, Any]) -> list[list[str]]:
    """What ``require`` of a package asks for: of each requirement the specs of which one must fit.

    Spack's manual, "Package Requirements": one spec, or a list of specs
    and of ``spec``, ``any_of`` and ``one_of``.
    """
    # A key with two colons, which replaces what scopes below say, is read and
    # printed by Spack with one of them in its name.
    rows = settings.get("require:", settings.get("require")) or []
    found = []
    for row in [rows] if isinstance(rows, str) else rows:
        specs = (
            row
            if isinstance(row, str)
            else row.get("spec") or row.get("any_of") or row.get("one_of") or []
        )
        found.append([specs] if isinstance(specs, str) else list(map(str, specs)))
    return found


def find_unmet(settings: Mapping[str, Any], node: LockedSpec | None) -> str:
    """Variants that settings require of a package but its solution lacks; empty for an external,
    which cannot change.
    """
    if not node or node.external:
        return ""

    def has(word: str) -> bool:
        name, _, values = word.replace(":=", "=").partition("=")
        there = node.variants.get(name, "").partition("=")[2].split(",")
        return (not values and word in node.variants.values()) or (
            bool(values) and set(values.split(",")) <= set(there)
        )

    for specs in requirements(settings):
        missing = [
            [word for word in re.findall(r"[+~]\w+|(?<!\S)\w+:?=[\w,]+", spec) if not has(word)]
            for spec in specs
        ]
        if all(missing):
            return missing[0][0]
    return ""


def check_entries(project: Project, name: str, lock: Lock) -> None:
    """Check that entries of the site state what a change of settings requires (``common-ucx``:
    ``netmod=ucx``).

    Spack accepts an external for whatever its entry leaves open, so a stack could be called what it
    is not.
    """
    packages = configured_packages(project.configured[name], f"package settings of {name}")
    externals = {node.name for node in lock.nodes.values() if node.external}

    def says(spec: str, word: str) -> bool:  # each variant of it; versions are Spack's to compare
        there = spec.replace(":=", "=").split()
        return all(
            part in there for part in word.replace(":=", "=").split() if not part.startswith("@")
        )

    for change in list_shared(project.root, name):
        for package, settings in (
            read(project.folder(change) / PACKAGES).items() if change != COMMON else ()
        ):
            if word := find_unmet(settings, lock.find(package)):
                raise BadInput(
                    "other-release",
                    f"{name}: {package} ignores {word} of environments/{change}, because another "
                    "folder or the site replaces it with 'require::'; put "
                    f"{change.removeprefix(COMMON)} last in the name, or add the word there.",
                )
    for change in split(project.root, name)[1]:
        for package, settings in read(project.folder(change) / PACKAGES).items():
            specs = (
                [str(row.get("spec")) for row in packages[package].get("externals") or []]
                if package in externals
                else []
            )
            for words in requirements(settings):
                if specs and not any(says(spec, word) for spec in specs for word in words):
                    raise BadInput(
                        "other-release",
                        f"{name} needs {package} {' or '.join(words)}, and the site's own is "
                        f"{' or '.join(dict.fromkeys(specs))}: add the word to that entry's spec "
                        "if it applies, or let Spack build one.",
                    )
