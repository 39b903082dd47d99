"""Release tarballs: which file or address a word means, and that
nothing is taken whose checksum is another one.
"""

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from mpibench.stacks import suite_builds
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

CONTENT = b"a tarball"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def environ(tmp_path):
    return {suite_builds.SOURCES: str(tmp_path / "sources")}


@pytest.fixture(scope="module")
def server():
    """Serves the content at /osu-x.tar.gz and nothing at /none.tar.gz."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404 if self.path == "/none.tar.gz" else 200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *words):
            pass

    there = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=there.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{there.server_port}"
    there.shutdown()
    there.server_close()


def test_checksums_and_addresses_are_those_of_our_recipe(root):
    recipe = (
        root / "repo/spack_repo/mpibench/packages/intel_mpi_benchmarks/package.py"
    ).read_text()
    listed = dict(re.findall(r'version\("([0-9.]+)", sha256="([0-9a-f]{64})"\)', recipe))
    assert listed
    assert listed.items() <= suite_builds.CHECKSUMS["imb"].items()
    assert suite_builds.url_of("imb", "2021.11").endswith("/tags/IMB-v2021.11.tar.gz")
    assert suite_builds.url_of("imb", "2019.1").endswith("/tags/v2019.1.tar.gz")
    assert suite_builds.url_of("osu", "5.7.1").endswith("/osu-micro-benchmarks-5.7.1.tgz")
    assert all(
        re.fullmatch("[0-9a-f]{64}", digest)
        for rows in suite_builds.CHECKSUMS.values()
        for digest in rows.values()
    )


def test_a_release_is_taken_from_the_sources_folder_if_it_is_the_release(
    tmp_path, environ, monkeypatch
):
    path = tmp_path / "sources" / "osu-micro-benchmarks-7.5.tar.gz"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    with refused_as("checksum-differs"):
        suite_builds.find("osu=7.5", environ)
    assert suite_builds.find(f"osu={path}", environ).origin == str(path), "a path is as it is"
    monkeypatch.setattr(suite_builds, "CHECKSUMS", {"osu": {"7.5": DIGEST}, "imb": {}})
    found = suite_builds.find("osu=7.5", environ)
    assert (found.path, found.origin) == (path, suite_builds.url_of("osu", "7.5"))


@pytest.mark.parametrize(("path", "digest"), [("osu-x.tar.gz", "0" * 64), ("none.tar.gz", DIGEST)])
def test_what_is_not_the_release_is_not_kept(path, digest, tmp_path, environ, server):
    with pytest.raises(BadInput, match=path):
        suite_builds.find(f"osu={server}/{path}#sha256={digest}", environ, lambda text: None)
    assert not list((tmp_path / "sources").iterdir())
