"""What a session was measured with is stored in it: commit, Python, versions."""

import shutil

import pytest

from folders import write
from programs import git
from reframe_tests.harness.sites.session import provenance


@pytest.fixture
def checkout(tmp_path):
    """A git checkout with one commit."""
    if not shutil.which("git"):
        pytest.skip("[git] no git here")
    root = tmp_path / "checkout"
    write(root / "file", "one\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message=one")
    return root


def test_the_commit_is_what_git_says(checkout):
    commit = git(checkout, "rev-parse", "HEAD")
    assert provenance.read_commit(checkout) == commit
    git(checkout, "pack-refs", "--all")
    assert provenance.read_commit(checkout) == commit
    git(checkout, "worktree", "add", "--quiet", "-b", "other", checkout.parent / "tree")
    (checkout / "file").write_text("two\n")
    git(checkout, "commit", "--quiet", "--all", "--message=two")
    assert provenance.read_commit(checkout) == git(checkout, "rev-parse", "HEAD") != commit
    assert provenance.read_commit(checkout.parent / "tree") == commit
    git(checkout, "checkout", "--quiet", "--detach", commit)
    assert provenance.read_commit(checkout) == commit
    assert provenance.read_commit(checkout.parent) == ""


def test_changed_files_are_reported(checkout, monkeypatch):
    assert provenance.is_modified(checkout) is False
    write(checkout / "results/x", "")
    assert provenance.is_modified(checkout) is False
    (checkout / "file").write_text("changed\n")
    assert provenance.is_modified(checkout) is True
    assert provenance.is_modified(checkout.parent) is None
    monkeypatch.setenv("PATH", "")
    assert provenance.is_modified(checkout) is None


def test_versions_unlike_the_lock_are_named(checkout):
    here = provenance.installed("numpy")
    lock = checkout / "requirements.lock"
    old = "numpy==0.1 ; python_version < '3'\n"
    lock.write_text(f"{old}numpy=={here} \\\n    --hash=sha256:0\nnot-here-at-all==1\n")
    assert provenance.describe(checkout)["unlike_lock"] == []
    lock.write_text("numpy==0.1 \\\n    --hash=sha256:0\n")
    assert provenance.differences(lock) == [f"numpy {here}"]
    assert provenance.differences(checkout / "none") == []
