"""YAML that people write: equal keys, other encodings, empty files and
folders are refused with file, key and line.
"""

from pathlib import Path

import pytest

from mpibench.judge import expected, policy
from mpibench.stacks import wheels
from mpibench.stacks.spack import scope
from reframe_tests.harness.sites import site
from reframe_tests.harness.vocabulary import BadInput

FOLDER = Path("site_configs") / "mysystem"
#: Each file a person writes to how it is read; with what it may begin.
READERS = {
    FOLDER / "policy.yaml": lambda root: policy.load("mysystem", root),
    FOLDER / "expected.yaml": lambda root: expected.load_file("mysystem", root),
    FOLDER / "references.yaml": lambda root: site.read_references("mysystem", root),
    Path("stacks.yaml"): wheels.read_table,
    Path("packages.yaml"): lambda root: scope.read(root / "packages.yaml"),
}


def nested(row):
    """Eight lines, each of nine times the line before: nine to the eighth values."""
    return b"".join(row % (key + 1, key + 1, b", ".join(9 * [b"*%c" % key])) for key in b"abcdefg")


def refused(root, path, content=None):
    """What is said of a file, or of one with such a content."""
    if content is not None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    with pytest.raises(BadInput) as caught:
        READERS[path](root)
    sentence = str(caught.value)
    assert path.name in sentence and "\n" not in sentence and sentence.endswith(".")
    return sentence


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.name)
def test_whatever_reads_a_file_refuses_what_is_not_yaml(tmp_path, path, monkeypatch):
    """Root may read every file, so that the answer of the kernel is given."""

    def deny(self):
        raise PermissionError(13, "Permission denied", str(self))

    twice = refused(tmp_path, path, b"# comment\nmax_age_hours: 1\nother: 2\nmax_age_hours: 3\n")
    assert "line 4 is not YAML (key 'max_age_hours' appears twice, first in line 2)" in twice
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", deny)
        assert "cannot be read (Permission denied)" in refused(tmp_path, path)
    (tmp_path / path).unlink()
    (tmp_path / path).mkdir()
    assert "cannot be read (Is a directory)" in refused(tmp_path, path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name: caf\xe9\n".encode("latin-1"), "line 1 is not YAML (byte 0xe9 is not UTF-8)"),
        (b"a: 1\nb: [\n", "line 3 is not YAML"),
        (b"a: 1\x00\n", "is not YAML"),
        (b"a: 2026-02-30\n", "line 1 is not YAML (day"),
        (b"a: 1\n---\na: 2\n", "line 2 is not YAML"),
        (b"a: 1\nb: &x [1, *x]\n", "line 2 is not YAML (*x contains itself)"),
        (b"a: &a [x]\n" + nested(b"%c: &%c [%s]\n"), "aliases expand to more than 100000 values"),
        (b"a: &a {x: 1}\n" + nested(b"%c: &%c {<<: [%s]}\n"), "its aliases expand to more than"),
        (b"a: !!python/name:os.system x\n", "could not determine a constructor"),
        (b"a: !!bool x\n", "line 1 is not YAML ('x' is no bool)"),
        (b"a: " + 600 * b"[", "nested too deeply"),
        (b"a: {b: 1, c: {d: 1, d: 1}}", "appears twice"),
        (b"1: x\n0x1: y", "appears twice"),
        (b"x: &x {a: 1}\ny: {<<: *x, <<: *x}", "appears twice"),
        (b"? [1]\n: {b: 1, b: 2}", "appears twice"),
    ],
)
def test_what_is_not_yaml(tmp_path, content, words):
    assert words in refused(tmp_path, FOLDER / "references.yaml", content)
