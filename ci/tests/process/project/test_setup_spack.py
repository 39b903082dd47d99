"""``ci/setup-spack``: what it refuses, before it writes anything. What it
sets up is what the lane ``spack`` is run with.
"""

import subprocess

import pytest


def setup(root, *words):
    """Exit status, and what it said."""
    command = [str(root / "ci" / "setup-spack"), *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120
    )
    return done.returncode, done.stderr


@pytest.fixture
def checkouts(tmp_path):
    """Stand-ins of Spack and its packages, which are never started."""
    program = tmp_path / "spack" / "bin" / "spack"
    packages = tmp_path / "packages"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    (packages / "repos" / "spack_repo" / "builtin").mkdir(parents=True)
    return tmp_path / "spack", packages


def test_what_is_no_checkout_and_what_is_not_from_here_is_refused(root, tmp_path, checkouts):
    spack, packages = checkouts
    place = tmp_path / "place"
    assert setup(root)[0] == 2
    for words, said in (
        ((packages, packages), "is no checkout of Spack"),
        ((spack, spack), "is no checkout of spack-packages"),
    ):
        status, output = setup(root, *words, place)
        assert status == 1 and said in output
    assert not place.exists()
    by_hand = spack / "etc" / "spack" / "site" / "packages.yaml"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_text("packages: {}\n")
    status, said = setup(root, spack, packages, place)
    assert status == 1 and "has files that are not from here" in said
    assert [*by_hand.parent.iterdir()] == [by_hand] and by_hand.read_text() == "packages: {}\n"
