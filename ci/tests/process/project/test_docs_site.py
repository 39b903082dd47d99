"""The documentation site is built strictly (no dead link, page or
anchor). That its pages fetch nothing is a test of the browser's.
"""

import sys

from programs import finished
from reframe_tests.harness.vocabulary import ROOT


def build(folder):
    """``mkdocs build`` in a folder, where nothing outside this machine can be reached."""
    proxy = "http://127.0.0.1:9"  # discard: refused
    without = {"http_proxy": proxy, "https_proxy": proxy, "NO_MKDOCS_2_WARNING": "1"}
    return finished(sys.executable, "-m", "mkdocs", "build", cwd=folder, environ=without)


def test_a_dead_link_ends_the_build(tmp_path):
    """Page, anchor and omitted page: each is an error by the settings that are committed."""
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[0]
    (tmp_path / "mkdocs.yml").write_text(f"{text}\nnav:\n  - Home: index.md\n")
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "index.md"
    page.write_text("# Home\n\n[somewhere](#home)\n")
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    page.write_text("# Home\n\n[a page](absent.md) [an anchor](#nowhere)\n")
    page.with_name("forgotten.md").write_text("# In no menu\n")
    done = build(tmp_path)
    assert done.returncode != 0
    for fault in ("absent.md", "#nowhere", "forgotten.md"):
        assert fault in done.stderr, done.stderr
