"""requirements*.lock: what pyproject.toml asks for, each file with
its checksum, in the same versions everywhere.
"""

import re
from collections import namedtuple

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from reframe_tests.harness.vocabulary import ROOT

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
#: Lock file to the optional dependencies it has beside those of running and building.
LOCKS = {
    "requirements.lock": (),
    "requirements-test.lock": ("test", "docs", "s3"),
    "requirements-s3.lock": ("s3",),
    "requirements-compiler.lock": ("compiler",),
}


class Pin(namedtuple("Pin", "name version marker hashes via")):
    """One entry of a lock file; ``via`` are the names that need it."""

    def holds(self, python):
        environment = {"python_version": python, "python_full_version": f"{python}.1"}
        return not self.marker or Marker(self.marker).evaluate(environment)


def read(path):
    text = path.read_text()
    head = r"(?P<name>[a-z0-9-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>.*?))?"
    entry = re.compile(
        rf"(?m)^{head} \\\n(?P<hashes>(?:    --hash=\S+(?: \\)?\n)+)(?P<via>(?:    #.*\n)*)"
    )
    rest = "".join(
        line for line in entry.sub("", text).splitlines(keepends=True) if not line.startswith("#")
    )
    assert not rest.strip(), f"{path.name} has something else: {rest[:200]}"
    for found in entry.finditer(text):
        hashes = tuple(re.findall(r"--hash=(\S+)", found["hashes"]))
        yield Pin(found["name"], found["version"], found["marker"] or "", hashes, found["via"])


def section(name):
    """Requirements of a list in pyproject.toml; the parser for TOML came with Python 3.11."""
    text = re.search(rf"(?ms)^{name} = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text())[1]
    return [Requirement(words) for words in re.findall(r'(?m)^ +"([^"]+)"', text)]


def wanted(lock):
    return [need for part in ("dependencies", "build", *LOCKS[lock]) for need in section(part)]


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("python", PYTHONS)
def test_what_the_project_asks_for_is_pinned(lock, python):
    """Once, and what users run with; if this fails after a change of dependencies: ci/lock --keep.
    What tests need themselves may be wanted on more platforms.
    """
    pins = [pin for pin in read(ROOT / lock) if pin.holds(python)]
    versions = {pin.name: pin.version for pin in pins}
    assert len(versions) == len(pins)
    environment = {"python_version": python, "python_full_version": f"{python}.1"}
    for need in wanted(lock):
        if not need.marker or need.marker.evaluate(environment):
            assert need.specifier.contains(versions[canonicalize_name(need.name)]), need
    users = [pin for pin in read(ROOT / "requirements.lock") if pin.holds(python)]
    there = {(pin.name, pin.version, pin.marker) for pin in pins}
    assert all(
        {(pin.name, pin.version, marker) for marker in (pin.marker, "")} & there for pin in users
    )


@pytest.mark.parametrize("lock", LOCKS)
def test_every_file_has_a_checksum_and_comes_from_no_place_in_particular(lock):
    """And nothing is pinned for a dependency that is gone."""
    pins = list(read(ROOT / lock))
    assert len(pins) > 20
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for pin in pins for value in pin.hashes)
    assert "://" not in (ROOT / lock).read_text()
    asked = {pin.name for pin in pins if "mpibench (pyproject.toml)" in pin.via}
    assert asked == {canonicalize_name(need.name) for need in wanted(lock)}
