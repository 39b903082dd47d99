"""A condition with the tuned settings of its stack."""

from __future__ import annotations

from dataclasses import replace

from ...sites import tuned_settings
from ...vocabulary import NotMeasured
from .condition import Condition


def place_of(system: str, where: Condition) -> tuned_settings.Place:
    """What tuned settings for a condition are kept under."""
    return tuned_settings.Place(system, where.stack.name, where.fabric.name, where.nodes, where.ppn, where.pinning)


def apply(system: str, where: Condition) -> Condition:
    """The condition under the tuned settings that are installed for it; what the user sets wins over them.

    :raises NotMeasured: there are none, or a file of theirs is in a folder that no variable can name.
    :raises BadInput: they are of another release, or damaged.
    """
    place = place_of(system, where)
    found = tuned_settings.find(place, where.stack)
    if any(sign in str(place.folder) for sign in "\n,"):
        raise NotMeasured(f"the folder {place.folder} has a sign in its name that no variable can hold")
    return replace(where, chosen={**found.environment(place.folder), **where.chosen}, tuned=found.id)
