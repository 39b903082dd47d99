"""What every test of the harness answers ReFrame alike: which of its variants are made, and which references a case has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from reframe.core.exceptions import ReframeError, SkipTestError

from ... import upstream
from ...sites import references, selected_tests, site

#: Where a point of the space of parameters can be measured, and the places where it cannot, each with why not.
FindPlaces = Callable[[Mapping[str, Any]], tuple[Collection[str], Iterable[tuple[str, str]]]]


def map_variant(test: Any, variant_num: int | None, find_places: FindPlaces) -> tuple[int | None, int | None]:
    """Where a variant lies in the space of parameters; one that can be measured nowhere is not made.

    ReFrame asks this first where it makes an instance (:func:`.upstream.variant_index`), and then gives the instance its fifty
    variables: most of the time of ``reframe -l``, and most instances would be of no use.

    :param test: its class.
    :raises SkipTestError: it can be measured nowhere; ReFrame goes on to the next.
    """
    index, fixtures = upstream.variant_index(test, variant_num)
    # Without a group ReFrame says what is wrong, where the instance is made.
    if variant_num is None or not test.var_space["group"].is_defined() or selected_tests.is_wanted(test, variant_num):
        return index, fixtures
    point = test.param_space[index]
    useful, left_out = find_places(point)
    if not useful:
        name = test.__name__ + "".join(f" %{each}={param.format(point[each])}" for each, param in test.raw_params.items())
        selected_tests.pass_over(test, variant_num, name, left_out)
        raise SkipTestError(f"{name} can be measured nowhere on this system")
    return index, fixtures


def describe_variant(test: Any, variant_num: int, **options: Any) -> Any:
    """Parameters of a variant, made or not: ``-P``, ``--repeat`` and ``--distribute`` ask where nobody catches a skip.

    :param test: its class.
    """
    metaclass: Any = type(test)
    with selected_tests.described(test, variant_num):
        return metaclass.get_variant_info(test, variant_num, **options)


def find_references(test: Any) -> dict[str, references.Reference]:
    """References ReFrame finds for a case in the system's references.yaml; empty where it knows none.

    :param test: the case, whose ``reference`` is set.
    :raises ReframeError: for a file that cannot be read, or an entry for this case that could hold nothing. Other entries
        fail only the cases they are for; of what is for none, ``mpibench doctor`` and the night say so.
    """
    where = (type(test).__name__, test.current_partition.fullname, test.current_environ.name)
    try:
        faults = site.reference_faults(test.current_system.name)
        file = site.references_for_reframe(test.current_system.name)
    except references.ReferenceError as error:
        raise ReframeError(str(error)) from None
    for fault in faults:
        if fault.concerns((*where, test.fabric, test.nodes, test.ranks_per_node, test.pinning)):
            raise ReframeError(fault.sentence)
    if file is None:
        return {}
    test.reference = {"$ref": str(file)}
    try:
        return dict(test.reference[test])
    except KeyError:
        return {}
