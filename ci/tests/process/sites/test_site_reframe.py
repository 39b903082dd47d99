"""A site's folder as ReFrame meets it."""

from __future__ import annotations

from pathlib import Path

from reframe_tests.harness.sites import site
from synthetic_site import FABRICS, edit, write_system


def test_reframe_says_the_sentence_and_no_traceback(tmp_path: Path, run_reframe) -> None:
    """A bad site folder stops ReFrame with the sentence."""
    write_system(tmp_path, edit((*FABRICS, "hdr200", "transport"), "infiniband"))
    settings = tmp_path / "site_configs" / "settings.py"
    settings.write_text(
        f"import sys; sys.path.insert(0, {str(site.ROOT)!r})\n"
        "from pathlib import Path\nfrom reframe_tests.harness.sites import site\n"
        f"site_configuration = site.load(Path({str(tmp_path)!r}))\n"
    )
    result = run_reframe("-l", config=settings)
    assert result.returncode == 1
    assert (result.stdout + result.stderr).count("fabrics.hdr200.transport") == 1, "the sentence, once"
    assert "Traceback" not in result.stdout + result.stderr


def test_the_builtin_generic_is_replaced_without_a_warning(run_reframe) -> None:
    result = run_reframe("--show-config=systems/0/descr")
    assert "Any Linux machine" in result.stdout
    assert "WARNING" not in result.stdout + result.stderr
