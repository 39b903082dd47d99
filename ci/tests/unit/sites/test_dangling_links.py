"""A file that may be left out and is a link to nothing is unreadable: nobody goes on as if there were none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mpibench.judge import expected, policy
from reframe_tests.harness import optional_file
from reframe_tests.harness.sites import site
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_site import GOOD, write_system

READERS: dict[str, Callable[[Path], object]] = {
    "system.py": site.configuration,
    "references.yaml": lambda root: site.read_references("mysystem", root),
    "expected.yaml": lambda root: expected.load_file("mysystem", root),
    "policy.yaml": lambda root: policy.load("mysystem", root),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("target", ["/not/mounted/here", "ring"])
def test_a_file_of_a_site(tmp_path: Path, name: str, target: str) -> None:
    path = write_system(tmp_path, GOOD).with_name(name)
    path.unlink(missing_ok=True)
    path.symlink_to(name if target == "ring" else target)
    with pytest.raises(BadInput, match=rf"{name} cannot be read") as caught:
        READERS[name](tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", READERS)
def test_a_sites_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "site_configs").mkdir()
    (tmp_path / "site_configs" / "mysystem").symlink_to("/not/mounted/here")
    with pytest.raises(BadInput, match=rf"mysystem/{name} cannot be read"):
        READERS[name](tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_what_is_left_out_is_none(tmp_path: Path, name: str) -> None:
    write_system(tmp_path, GOOD)
    READERS[name](tmp_path)


@pytest.mark.parametrize("link", ["b/stack.json", "wheels/a/stack.json", "b"])
def test_metadata_of_a_stack(tmp_path: Path, link: str) -> None:
    path = tmp_path / "environments" / link
    path.parent.mkdir(parents=True)
    path.symlink_to("/not/mounted/here")
    [problem] = metadata.discover(tmp_path, {})[1]
    assert f"{link.removesuffix('/stack.json')}/stack.json cannot be read (No such file or directory)" in problem


def test_a_file_is_no_folder_of_another(tmp_path: Path) -> None:
    (tmp_path / "settings.py").touch()
    assert not optional_file.is_there(tmp_path / "settings.py" / "system.py")
