"""ReFrame's own queries of stored results, in the project's environment and with its settings."""

from synthetic_site import TinySite

QUERIES = (
    "--list-stored-sessions",
    "--list-stored-testcases=now-1d:now/mean:/",
    "--performance-compare=now-1d:now/now-1d:now/mean:/",
    "--describe-stored-sessions=now-1d:now",
)


def test_the_queries_of_reframe_work_with_the_settings_as_they_are(tmp_path, root):
    """The literal commands with the bundled ``settings.py``, on a database of our own."""
    tiny = TinySite(tmp_path)
    settings = {
        "RFM_CONFIG_FILES": root / "site_configs" / "settings.py",
        "RFM_SQLITE_DB_FILE": tiny.results / "results.db",
        "RFM_PREFIX": tiny.results,
    }
    status, said = tiny.reframe("-r", "--performance-report")
    assert status == 0 and "latency" in said, said
    assert "failed to generate performance report" not in said
    for query in QUERIES:
        status, said = tiny.reframe(query, **settings)
        assert status == 0, said
        assert "polars" not in said
        assert tiny.stored()[0] in said or "Writer" in said, said
    status, said = tiny.reframe("-r", "--performance-report", **settings)
    assert status == 0, said
    assert "PERFORMANCE REPORT" in said and "failed to generate" not in said, said
