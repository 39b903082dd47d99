"""Two launchers that nobody has, from files in a folder: one of a
site, one that is an MPI's own ``mpirun``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reframe_tests.harness.machine.topology import describe

GALLEY = '''
"""galley: the launcher of a site."""

import re

from reframe_tests.harness.launchers.model import Binding, Launcher, RankNames


def count(request):
    over = LAUNCHER.oversubscribe if request.oversubscribe else ()
    return Binding(options=(f"--per-node={request.ppn}", *over))


def unbound(request):
    return count(request).adding("--free", env=request.unbinding)


def explicit(request):
    seats = "/".join(",".join(map(str, cpus)) for cpus in request.ranks)
    return count(request).adding(f"--seats={seats}", env={"GALLEY_SEATS": "strict", **request.unbinding})


LAUNCHER = Launcher(
    name="galley",
    title="the galley",
    manual="galley(1)",
    site=("galley",),
    program=("galley", "row"),
    count=count,
    unbound=unbound,
    explicit=explicit,
    total=("--oars={ranks}", "--ships={nodes}", "--pmi={pmi}"),
    exports=lambda exports: tuple(f"--env={name}" for name in exports.names),
    oversubscribe=("--crowd",),
    private=("GALLEY_",),
    identity=RankNames(("GALLEY_RANK",), ("GALLEY_SIZE",), ("GALLEY_LOCAL_RANK",), ("GALLEY_VOYAGE",)),
    stdout_lines=re.compile(r"galley: .*"),
)
'''
#: The launcher itself: so many processes on this machine, each with its number.
GALLEY_PROGRAM = """#!/bin/sh
shift
while :; do
    case $1 in --oars=*) size=${1#*=} ;; --*) ;; *) break ;; esac
    shift
done
export GALLEY_SIZE="$size" GALLEY_VOYAGE=1492
rank=0 started= status=0
while [ "$rank" -lt "$size" ]; do
    GALLEY_RANK=$rank GALLEY_LOCAL_RANK=$rank "$@" &
    started="$started $!" rank=$((rank + 1))
done
for each in $started; do wait "$each" || status=$?; done
exit "$status"
"""
TRIREME = '''
"""trireme: the mpirun of an MPI."""

from reframe_tests.harness.launchers.model import Binding, Bootstrap, Introduction, Launcher
from reframe_tests.harness.vocabulary import NotMeasured


def count(request):
    return Binding({"TRIREME_DECK": str(request.ppn)})


def explicit(request):
    raise NotMeasured("trireme seats nobody")


LAUNCHER = Launcher(
    name="trireme",
    title="the trireme",
    manual="trireme(1)",
    count=count,
    unbound=count,
    explicit=explicit,
    total=("-n", "{ranks}"),
    total_last=True,
    introduction=Introduction(r"trireme [0-9]"),
    bootstraps=(Bootstrap("trireme(1), PBS", ("pbs",), env={"TRIREME_SHELL": "tm"}),),
)
'''
SYSTEM: dict[str, Any] = {
    "name": "harbour",
    "descr": "a site with a launcher of its own",
    "hostnames": ["nowhere"],
    "partitions": [
        {
            "name": "nodes",
            "scheduler": "local",
            "launcher": "galley",
            "processor": describe(1, 4),
            "extras": {
                "fabrics": {
                    "eth": {"transport": "tcp", "scope": "cluster", "rails": [{"device": "eth0"}]}
                },
                "remote": True,
            },
        }
    ],
}


def write_launchers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a site's own files with both launchers, named to whatever is started."""
    (folder / "launchers").mkdir(parents=True)
    (folder / "launchers" / "galley.py").write_text(GALLEY)
    (folder / "launchers" / "trireme.py").write_text(TRIREME)
    monkeypatch.setenv("MPIBENCH_EXTENSIONS", str(folder))
    return folder
