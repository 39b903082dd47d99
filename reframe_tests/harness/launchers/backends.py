"""A site's launchers that ReFrame does not have, as launchers of its own, so that a partition may name them."""

from __future__ import annotations

import types

from ..vocabulary import BadInput
from . import registry
from .model import Launcher


def register() -> None:
    """Register each with ReFrame; to be called before it reads a configuration that names one."""
    from reframe.core.backends import getlauncher
    from reframe.core.exceptions import ConfigError

    for launcher in registry.known().values():
        for name in launcher.site:
            try:
                getlauncher(name)
            except ConfigError:
                _add(launcher, name)


def _add(launcher: Launcher, name: str) -> None:
    from reframe.core.backends import register_launcher
    from reframe.core.launchers import JobLauncher

    if not launcher.program:
        raise BadInput(f"launcher {launcher.name}: ReFrame has no launcher {name!r}; give the record its 'program'.")
    body = {"command": lambda self, job: list(launcher.program)}
    register_launcher(name)(types.new_class(name, (JobLauncher,), exec_body=lambda namespace: namespace.update(body)))
