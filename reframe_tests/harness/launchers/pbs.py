"""Lets launchers that would use ssh start ranks through PBS, so that PBS accounts for every
process.
"""

from __future__ import annotations

from ..batch_systems import PBS

#: ReFrame's names of the batch systems.
SCHEDULERS = PBS.schedulers
#: Name of the script in the job's directory.
REMOTE_SHELL = "pbsdsh_rsh"
#: Stands in for ssh: runs a command on another node of the job through PBS's TM interface
#: (pbsdsh(1), -h and -o). ssh hands its words to a shell as one line, so this does too; pbsdsh
#: knows hosts by their short names.
SCRIPTS = {
    REMOTE_SHELL: """#!/bin/bash
while [[ ${1:-} == -* ]]; do shift; done
host=${1%%.*}; shift
exec pbsdsh -o -h "$host" bash -c "$*"
"""
}
