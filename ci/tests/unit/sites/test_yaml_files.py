"""YAML that people write: equal keys, other encodings, empty files and folders are refused with file, key and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mpibench.judge import expected, policy
from mpibench.stacks import wheels
from mpibench.stacks.spack import scope
from reframe_tests.harness import optional_file, schema, yaml_file
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.metadata import ROOT
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_site import GOOD, write_system

FOLDER = Path("site_configs") / "mysystem"
Reader = Callable[[Path], object]
#: Each file a person writes to how it is read; with what it may begin.
READERS: dict[Path, Reader] = {
    FOLDER / "policy.yaml": lambda root: policy.load("mysystem", root),
    FOLDER / "expected.yaml": lambda root: expected.load_file("mysystem", root),
    FOLDER / "references.yaml": lambda root: site.read_references("mysystem", root),
    Path("stacks.yaml"): wheels.read_table,
    Path("packages.yaml"): lambda root: scope.read(root / "packages.yaml"),
}
#: Those that are a mapping by themselves, and may be left out.
OPTIONAL = tuple(READERS)[:3]
#: Eight lines, each of nine times the line before: nine to the eighth values.
ALIASES = b"a: &a [x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (key + 1, key + 1, b", ".join(9 * [b"*%c" % key])) for key in b"abcdefg"
)
MERGES = b"a: &a {x: 1}\n" + b"".join(
    b"%c: &%c {<<: [%s]}\n" % (key + 1, key + 1, b", ".join(9 * [b"*%c" % key])) for key in b"abcdefg"
)
every = pytest.mark.parametrize("path", READERS, ids=lambda path: path.name)
optional = pytest.mark.parametrize("path", OPTIONAL, ids=lambda path: path.name)


def refused(root: Path, path: Path, content: bytes) -> str:
    """What is said of a file with such a content."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    return sentence_of(root, path)


def sentence_of(root: Path, path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        READERS[path](root)
    sentence = str(caught.value)
    assert path.name in sentence and "\n" not in sentence and sentence.endswith(".")
    return sentence


@every
def test_a_key_that_is_there_twice(tmp_path: Path, path: Path) -> None:
    said = refused(tmp_path, path, b"# comment\nmax_age_hours: 1\nother: 2\nmax_age_hours: 3\n")
    assert "line 4 is not YAML (key 'max_age_hours' is there twice, first in line 2); correct it" in said


@every
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name: caf\xe9\n".encode("latin-1"), "line 1 is not YAML (byte 0xe9 is not UTF-8); store it as UTF-8"),
        ("a: 1\nb: 2\n".encode("utf-16"), "line 1 is not YAML (byte 0xff is not UTF-8); store it as UTF-8"),
        (b"a: 1\nb: [\n", "line 3 is not YAML"),
        (b"a: 1\x00\n", "is not YAML"),
        (b"a: 2026-02-30\n", "line 1 is not YAML (day"),
        (b"a: 1\n---\na: 2\n", "line 2 is not YAML"),
        (b"a: 1\nb: &x [1, *x]\n", "line 2 is not YAML (*x contains itself)"),
        (ALIASES + b"i: [*h]\n", "line 6 is not YAML (its aliases stand for more than 100000 values)"),
        (MERGES, "line 6 is not YAML (its aliases stand for more than 100000 values)"),
        (b"a: !!python/name:os.system x\n", "line 1 is not YAML (could not determine a constructor"),
        (b"a: !!bool x\n", "line 1 is not YAML ('x' is no bool)"),
        (b"a: !!int ''\n", "line 1 is not YAML ('' is no int)"),
        (b"a: !!float x\n", "line 1 is not YAML (could not convert string to float"),
        (b"a: " + 600 * b"[", "nested too deeply"),
    ],
)
def test_what_is_not_yaml(tmp_path: Path, path: Path, content: bytes, words: str) -> None:
    if words.startswith("line 1 is not YAML (day") and path == FOLDER / "policy.yaml":
        words = "'a' was unexpected"  # a day is text there, and read by the policy itself
    assert words in refused(tmp_path, path, content)


@optional
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n  \n", "is empty"),
        (b"null\n", "is null at its top"),
        (b"--- \n", "is null at its top"),
        (b"[]\n", "is a list at its top"),
        (b"- a: 1\n", "is a list at its top"),
        (b"false\n", "is a single value at its top"),
        (b"0\n", "is a single value at its top"),
        (b"1: {}\n", "key 1 is not text"),
    ],
)
def test_what_is_no_mapping(tmp_path: Path, path: Path, content: bytes, words: str) -> None:
    assert words in refused(tmp_path, path, content)


@optional
@pytest.mark.parametrize("content", [b"# nothing yet\n", b"\xef\xbb\xbf# nothing yet\n\n", b"{}\n"])
def test_comments_alone_say_nothing(tmp_path: Path, path: Path, content: bytes) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(content)
    READERS[path](tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / FOLDER / "policy.yaml"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xef\xbb\xbfminimum_repeats: 7\n")
    assert policy.load("mysystem", tmp_path).minimum_repeats == 7


@every
def test_a_folder_of_that_name(tmp_path: Path, path: Path) -> None:
    (tmp_path / path).mkdir(parents=True)
    assert "cannot be read (Is a directory)" in sentence_of(tmp_path, path)


@every
def test_a_file_nobody_may_read(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read every file, so that the answer of the kernel is given."""

    def deny(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("a: 1\n")
    monkeypatch.setattr(Path, "read_bytes", deny)
    assert "cannot be read (Permission denied)" in sentence_of(tmp_path, path)


@pytest.mark.parametrize(
    "text",
    [
        "a: {b: 1, c: {d: 1, d: 1}}",
        "a: 1\n'a': 1",
        "1: x\n0x1: y",
        "[{a: 1, a: 2}]",
        "x: &x {a: 1}\ny: {<<: *x, <<: *x}",
        "? [1]\n: {b: 1, b: 2}",
    ],
)
def test_equal_keys_are_found_wherever_they_are(text: str) -> None:
    with refused_as("file-not-yaml", match=r"is there twice, first in line \d"):
        yaml_file.parse(text, "x")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x: &x {a: 1, b: 2}\ny: {<<: *x, a: 3}\nz: {<<: *x, a: 4}", {"a": 3, "b": 2}),
        ("y: {1: x, '1': y}", {1: "x", "1": "y"}),
        ("x: &x [1]\ny: [*x, *x]", [[1], [1]]),
    ],
)
def test_what_is_allowed_is_read(text: str, wanted: object) -> None:
    assert yaml_file.parse(text, "x")["y"] == wanted


def test_keys_that_are_no_text_are_no_matter_for_a_pattern(tmp_path: Path) -> None:
    """A key that YAML takes for a number or a truth value."""
    assert "margins_percent: key 1 is not text" in refused(tmp_path, FOLDER / "policy.yaml", b"margins_percent: {1: 3}\n")
    assert "runs: key True is not text" in refused(tmp_path, FOLDER / "expected.yaml", b"runs: {on: {}}\n")
    fault = schema.find_fault(systems.SYSTEM_SCHEMA, {"partitions": [{"extras": {"fabrics": {1: {}}}}]})
    assert fault is not None and fault.key == "partitions.0.extras.fabrics"


def test_every_bundled_file_is_read() -> None:
    files = [path for top in ("site_configs", "environments", "repo", "ci/pipelines") for path in (ROOT / top).rglob("*.y*ml")]
    assert len(files) > 15
    for path in files:
        yaml_file.read(path)


def test_nothing_reads_such_files_another_way() -> None:
    """PyYAML itself is asked in one place."""
    readers = {
        str(path.relative_to(ROOT))
        for top in ("reframe_tests", "ci/mpibench")
        for path in (ROOT / top).rglob("*.py")
        if any(word in path.read_text() for word in ("yaml.safe_load", "yaml.load(", "yaml.compose("))
    }
    assert readers == {"reframe_tests/harness/yaml_file.py"}


def test_aliases_of_usual_files_are_read() -> None:
    usual = "x: &x [1, 2]\n" + "".join(f"k{number}: *x\n" for number in range(10_000))
    assert yaml_file.parse(usual, "x")["k9999"] == [1, 2]
    large = "".join(f"k{number}: [1, 2, 3]\n" for number in range(30_000))
    assert len(yaml_file.parse(large, "x")) == 30_000, "without aliases a file may have any size"


# ---- a file that may be left out and is a link to nothing is unreadable: nobody goes on as if there were none ----

FILES: dict[str, Callable[[Path], object]] = {
    "system.py": site.configuration,
    "references.yaml": lambda root: site.read_references("mysystem", root),
    "expected.yaml": lambda root: expected.load_file("mysystem", root),
    "policy.yaml": lambda root: policy.load("mysystem", root),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("target", ["/not/mounted/here", "ring"])
def test_a_file_of_a_site(tmp_path: Path, name: str, target: str) -> None:
    path = write_system(tmp_path, GOOD).with_name(name)
    path.unlink(missing_ok=True)
    path.symlink_to(name if target == "ring" else target)
    with pytest.raises(BadInput, match=rf"{name} cannot be read") as caught:
        FILES[name](tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_a_sites_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "site_configs").mkdir()
    (tmp_path / "site_configs" / "mysystem").symlink_to("/not/mounted/here")
    with pytest.raises(BadInput, match=rf"mysystem/{name} cannot be read"):
        FILES[name](tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_what_is_left_out_is_none(tmp_path: Path, name: str) -> None:
    write_system(tmp_path, GOOD)
    FILES[name](tmp_path)


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
