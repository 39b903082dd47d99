"""ReFrame's own queries of stored results, in the project's environment and with its settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from synthetic_site import TinySite


@pytest.fixture
def tiny(tmp_path: Path) -> TinySite:
    return TinySite(tmp_path)


QUERIES = (
    ("--list-stored-sessions",),
    ("--list-stored-testcases=now-1d:now/mean:/",),
    ("--performance-compare=now-1d:now/now-1d:now/mean:/",),
    ("--describe-stored-sessions=now-1d:now",),
)


def test_the_queries_of_reframe_work_with_the_settings_as_they_are(
    tiny: TinySite, root: Path
) -> None:
    """The literal commands with the bundled ``settings.py``, on a database of our own."""
    settings = {
        "RFM_CONFIG_FILES": str(root / "site_configs" / "settings.py"),
        "RFM_SQLITE_DB_FILE": str(tiny.results / "results.db"),
        "RFM_PREFIX": str(tiny.results),
    }
    status, said = tiny.reframe("-r", "--performance-report")
    assert status == 0 and "latency" in said, said
    assert "failed to generate performance report" not in said
    for query in QUERIES:
        status, said = tiny.reframe(*query, **settings)
        assert status == 0, said
        assert "polars" not in said
        assert tiny.stored()[0] in said or "Writer" in said, said
    status, said = tiny.reframe("-r", "--performance-report", **settings)
    assert status == 0, said
    assert "PERFORMANCE REPORT" in said and "failed to generate" not in said, said


def test_settings_leave_the_search_path_as_reframe_expects(root: Path) -> None:
    """``temp_sys_path`` of ReFrame 4.10: what it appended must
    still be at the same position afterwards.
    """
    code = (
        "import runpy, sys\n"
        f"sys.path[:] = [p for p in sys.path if p != {str(root)!r}]\n"
        "before = list(sys.path)\n"
        "import reframe.core.logging as log, reframe.core.config as config\n"
        "site = config.load_config('<builtin>'); site.select_subconfig('generic'); "
        "log.configure_logging(site)\n"
        f"runpy.run_path({str(root / 'site_configs' / 'settings.py')!r})\n"
        "assert sys.path[:len(before)] == before, sys.path\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
