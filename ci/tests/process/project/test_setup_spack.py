"""``ci/setup-spack``: what it refuses, before it writes anything. What it
sets up is what the lane ``spack`` is run with.
"""

from folders import write
from programs import finished


def test_what_is_no_checkout_and_what_is_not_from_here_is_refused(root, tmp_path):
    """By stand-ins of Spack and its packages, which are never started."""
    spack = tmp_path / "spack"
    packages = tmp_path / "packages"
    place = tmp_path / "place"
    write(spack / "bin" / "spack", "#!/bin/sh\nexit 7\n", executable=True)
    (packages / "repos" / "spack_repo" / "builtin").mkdir(parents=True)

    def refused(status, said, *words):
        done = finished(root / "ci" / "setup-spack", *words)
        assert done.returncode == status and said in done.stderr

    refused(2, "")
    refused(1, "is no checkout of Spack", packages, packages, place)
    refused(1, "is no checkout of spack-packages", spack, spack, place)
    assert not place.exists()
    by_hand = write(spack / "etc" / "spack" / "site" / "packages.yaml", "packages: {}\n")
    refused(1, "has files that are not from here", spack, packages, place)
    assert [*by_hand.parent.iterdir()] == [by_hand] and by_hand.read_text() == "packages: {}\n"
