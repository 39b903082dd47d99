"""The centre's own ReFrame configuration, read together with ``site_configs/settings.py``.

ReFrame 4.10 (``core/config.py``, ``update_config``) merges its configuration files in order. For
``general``, ``logging`` and ``schedulers`` a later file replaces whole keys; systems of a later
file precede the earlier ones, replace them completely and match host names first. So ours must be
the last, and repeats what the centre's files contain, completed. ReFrame's own reader reads them;
it takes a Python file that it loaded before from ``sys.modules``.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import sys
import textwrap
import traceback
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import command_line
from ..vocabulary import BadInput

#: Variable with the configuration files that ReFrame reads, separated by colons.
VARIABLE = "RFM_CONFIG_FILES"
#: What a settings.py of this project has, that of another checkout, too: it is none of a centre's.
_OURS = "reframe_tests.harness.sites"
#: Name of ReFrame's built-in configuration among the files.
_BUILTIN = "<builtin>"
#: Files of the centre that ReFrame was given in this process; the last ones
#: count. Without any: those of the environment.
GIVEN: list[tuple[Path, ...]] = []
#: Stands behind the centre's systems where host names are tried, and fits all.
_NONE = "none_of_the_centre"


@dataclass(frozen=True)
class Centre:
    """What the centre's configuration files say together.

    :param files: in the order in which ReFrame reads them.
    :param systems: its systems as they are, in the order in which ReFrame tries their host names.
    :param logging: entries of ``logging`` with what differs from ReFrame's built-in ones.
    :param general: names of the settings that it has in ``general``, for any system.
    :param modes: names of its modes.
    :param environments: names of its environments.
    """

    files: tuple[Path, ...]
    systems: tuple[Mapping[str, Any], ...]
    logging: tuple[Mapping[str, Any], ...]
    general: frozenset[str]
    modes: frozenset[str]
    environments: frozenset[str] = frozenset()

    @property
    def source(self) -> str:
        """Its files, for a sentence."""
        return " and ".join(map(str, self.files))


def take(words: Sequence[str], root: Path, environ: Mapping[str, str] = os.environ) -> None:
    """Remember which files ReFrame, which is loading ours, was given.

    :param words: its command line without the program.
    :param root: checkout whose ``settings.py`` is being loaded.
    :raises BadInput: one of them is read after ours.
    """
    if fault := find_order_fault(words, root, environ):
        raise BadInput("configuration-unusable", fault)
    GIVEN.append(tuple(name for name in _named(words, environ, root) if not _is_ours(name, root)))


def find_order_fault(
    words: Sequence[str], root: Path, environ: Mapping[str, str] = os.environ
) -> str:
    """Sentence on a file that ReFrame reads after ours, with the
    order to use; empty if there is none.
    """
    names = _named(words, environ, root)
    ours = root / "site_configs" / "settings.py"
    at = next((index for index, name in enumerate(names) if _is_ours(name, root)), len(names))
    theirs = [name for name in names if not _is_ours(name, root)]
    late = [name for name in names[at:] if name in theirs]
    if not late:
        return ""
    order = [*map(str, theirs), str(ours)]
    return (
        f"{late[0]} is read after {ours}, so ReFrame would use its systems without the fabrics to "
        f"measure: name ours last, {VARIABLE}={':'.join(order)} or "
        f"{shlex.join(word for name in order for word in ('-C', name))}."
    )


def files(root: Path, environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """The centre's configuration files: those that ReFrame was
    given, or else those of the environment.
    """
    return (
        GIVEN[-1]
        if GIVEN
        else tuple(name for name in _named((), environ, root) if not _is_ours(name, root))
    )


def read(root: Path) -> Centre | None:
    """The centre's configuration; ``None`` if ReFrame is given ours alone.

    :raises BadInput: ReFrame cannot read it; naming the file.
    """
    given = files(root)
    if not given:
        return None
    content = _read(given, tuple(_stamp(path) for path in given))
    if isinstance(content, str):
        raise BadInput("configuration-unusable", content)
    return content


def matching(centre: Centre) -> tuple[str, ...]:
    """Names of the centre's systems that ReFrame finds this
    machine to be one of; it takes the first.

    ReFrame's own detection is asked, which may be a command of
    the centre's (``autodetect_methods``).

    :raises BadInput: it fails.
    """
    config = _load(centre.files)
    if methods := os.environ.get("RFM_AUTODETECT_METHODS", ""):
        config.set_autodetect_methods(methods.split(","))
    systems: list[Any] = config["systems"]
    names: list[str] = []
    last = {
        "name": _NONE,
        "hostnames": [".*"],
        "partitions": [{"name": "p", "scheduler": "local", "launcher": "local"}],
    }
    systems[:] = [*centre.systems, last]
    while True:
        with _reading(centre.files):
            config.select_subconfig(None, ignore_resolve_errors=True)
        name = config.subconfig_system
        if name == _NONE:
            return tuple(names)
        names.append(name)
        systems[:] = [row for row in systems if row["name"] != name]


def topology_file(centre: Centre, system: str, partition: str) -> Path:
    """Where ReFrame keeps the topology that it detected of a partition
    (``frontend/autodetect.py``, ``detect_topology``).
    """
    prefix = os.environ.get("RFM_TOPOLOGY_PREFIX") or str(
        setting(centre, system, "topology_prefix")
    )
    return Path(os.path.expandvars(prefix)) / f"{system}-{partition}" / "processor.json"


def setting(centre: Centre, system: str, name: str) -> Any:
    """A setting of ``general`` for a system, ReFrame's default where the centre has none.

    :raises BadInput: the configuration cannot be used for the system.
    """
    config = _load(centre.files)
    with _reading(centre.files):
        config.select_subconfig(system, ignore_resolve_errors=True)
        return config.get(f"general/0/{name}")


def make_absolute(environ: MutableMapping[str, str]) -> None:
    """Make the names in the variable those of the same files wherever ReFrame is started.

    An empty one stays: it takes back those before it (``core/config.py``, ``find_config_files``).
    """
    if text := environ.get(VARIABLE):
        names = (
            name if not name or name == _BUILTIN else os.path.normpath(Path.cwd() / name)
            for name in text.split(":")
        )
        environ[VARIABLE] = ":".join(names)


def _named(words: Sequence[str], environ: Mapping[str, str], root: Path) -> list[Path]:
    """Configuration files of ReFrame, in its order: of the options, else of
    the variable; before them those of its path.

    While it loads ours it is in our folder (``utility``,
    ``import_module_from_file``); where it was started, the shell says.
    """
    from reframe.core.config import find_config_files

    given = command_line.arguments(words, {"-C": "config_file"})["config_file"]
    if not given and (text := environ.get(VARIABLE)) is not None:
        given = text.split(":")
    folders = path.split(":") if (path := environ.get("RFM_CONFIG_PATH")) else []
    here = Path.cwd()
    shell = environ.get("PWD", "")
    start = (
        Path(shell) if shell.startswith("/") and here == (root / "site_configs").resolve() else here
    )
    return [
        Path(os.path.normpath(start / name))
        for name in find_config_files(folders, given)
        if name != _BUILTIN
    ]


def _is_ours(path: Path, root: Path) -> bool:
    if path.resolve() == (root / "site_configs" / "settings.py").resolve():
        return True
    if path.name != "settings.py":
        return False
    with contextlib.suppress(OSError):  # ReFrame's reader says what is wrong
        return _OURS in path.read_text(encoding="utf-8", errors="replace")
    return False


def _stamp(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size
    return None


@lru_cache(maxsize=16)
def _read(given: tuple[Path, ...], stamps: tuple[object, ...]) -> Centre | str:
    """The configuration, or the sentence why there is none: a Python
    file that failed is not loaded again.
    """
    from reframe.core.settings import site_configuration as builtin

    try:
        config = _load(given)
        whole = {section: config[section] for section in config}
        _check(whole, config.schema, given)
    except BadInput as error:
        return str(error)
    first: dict[str, Mapping[str, Any]] = {}
    for system in whole["systems"]:  # ReFrame takes the first of a name
        if system not in builtin["systems"]:
            first.setdefault(system["name"], system)
    usual = builtin["logging"][0]
    entries = [
        {key: value for key, value in entry.items() if value != usual.get(key)}
        for entry in whole["logging"]
    ]
    return Centre(
        given,
        tuple(first.values()),
        tuple(entry for entry in entries if set(entry) - {"target_systems"}),
        frozenset(
            key for entry in whole.get("general", ()) for key in entry if key != "target_systems"
        ),
        frozenset(mode["name"] for mode in whole.get("modes", ())),
        frozenset(environment["name"] for environment in whole["environments"]),
    )


def _load(given: tuple[Path, ...]) -> Any:
    """ReFrame's configuration object of the files.

    :raises BadInput: naming the file.
    """
    from reframe.core.config import load_config

    with _reading(given):
        return load_config(*map(str, given))


def _check(whole: Mapping[str, Any], schema: Mapping[str, Any], given: Sequence[Path]) -> None:
    """As ReFrame's ``validate``, which names neither key nor fault.

    :raises BadInput: naming the key.
    """
    import jsonschema

    fault = jsonschema.exceptions.best_match(jsonschema.Draft7Validator(schema).iter_errors(whole))
    if fault is None:
        return
    words: list[str] = []
    node: Any = whole
    for part in fault.absolute_path:
        node = node[part]
        words.append(
            str(
                node["name"]
                if isinstance(part, int) and isinstance(node, dict) and "name" in node
                else part
            )
        )
    raise BadInput(
        "configuration-unusable",
        f"{' and '.join(map(str, given))}: key '{'.'.join(words) or 'top level'}': "
        f"{textwrap.shorten(fault.message, 200)}; correct it (ReFrame rejects it, too).",
    )


@contextlib.contextmanager
def _reading(given: Sequence[Path]) -> Iterator[None]:
    """What goes wrong with the centre's files is one sentence; what they and ReFrame print
    meanwhile, ReFrame says itself.

    :raises BadInput: with that sentence.
    """
    from reframe.core.logging import getlogger

    handlers = getattr(getlogger().logger, "handlers", [])
    for handler in handlers:
        handler.addFilter(_refuse)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (BadInput, KeyboardInterrupt):
        raise
    except (
        BaseException
    ) as error:  # sys.exit() among them, which would end whatever reads it, perhaps with status 0
        reason = textwrap.shorten(str(error), 300)
        lines = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename) in given
        ]
        place = (
            f"{lines[-1].filename}, line {lines[-1].lineno},"
            if lines
            else " and ".join(map(str, given))
        )
        raise BadInput(
            "file-unreadable",
            f"{place} cannot be used ({type(error).__name__}: {reason}); correct it, or remove it "
            f"from {VARIABLE}.",
        ) from None
    finally:
        for handler in handlers:
            handler.removeFilter(_refuse)


def _refuse(record: logging.LogRecord) -> bool:
    return False


def read_topology(path: Path) -> Mapping[str, Any]:
    """The topology that ReFrame detected earlier; empty if there is none,
    or none that can be read: it detects it again.
    """
    with contextlib.suppress(OSError, ValueError):
        topology = json.loads(path.read_text(encoding="utf-8"))
        return topology if isinstance(topology, dict) else {}
    return {}
