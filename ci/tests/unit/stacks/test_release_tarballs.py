"""Release tarballs: which file or address a word means, and that nothing is taken whose checksum is another one."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from mpibench.stacks import suite_builds
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

CONTENT = b"a tarball"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {suite_builds.SOURCES: str(tmp_path / "sources")}


@pytest.fixture
def server() -> Iterator[str]:
    """Serves the content at /osu-x.tar.gz, and half of it at /half.tar.gz."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404 if self.path == "/none.tar.gz" else 200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:4] if self.path == "/half.tar.gz" else CONTENT)

        def log_message(self, *words: object) -> None:
            pass

    there = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=there.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{there.server_port}"
    there.shutdown()
    there.server_close()


def test_the_sources_folder_is_in_the_users_cache_or_where_the_variable_says() -> None:
    assert suite_builds.sources_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/mpibench/sources")
    assert suite_builds.sources_folder({"MPIBENCH_SOURCES": "/y", "XDG_CACHE_HOME": "/x"}) == Path("/y")
    assert suite_builds.sources_folder({}) == Path.home() / ".cache/mpibench/sources"


def test_checksums_and_addresses_are_those_of_our_recipe(root: Path) -> None:
    recipe = (root / "repo/spack_repo/mpibench/packages/intel_mpi_benchmarks/package.py").read_text()
    listed = dict(re.findall(r'version\("([0-9.]+)", sha256="([0-9a-f]{64})"\)', recipe))
    assert listed
    assert listed.items() <= suite_builds.CHECKSUMS["imb"].items()
    assert suite_builds.url_of("imb", "2021.11").endswith("/tags/IMB-v2021.11.tar.gz")
    assert suite_builds.url_of("imb", "2019.1").endswith("/tags/v2019.1.tar.gz")
    assert suite_builds.url_of("osu", "5.7.1").endswith("/osu-micro-benchmarks-5.7.1.tgz")
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for rows in suite_builds.CHECKSUMS.values() for digest in rows.values())


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("osu", r"--build osu is not osu=VERSION or imb=VERSION, =PATH or =URL; write it so"),
        ("npb=3.4", r"--build npb=3.4 is not osu=VERSION"),
        ("osu=", r"--build osu= is not"),
        ("osu=9.9", r"no checksum of osu 9.9 is known here \(5.6.1, .*\); name its tarball, --build osu=PATH"),
        ("osu=/nowhere/x.tar.gz", r"/nowhere/x.tar.gz is not there, or cannot be read; name the tarball of a release of osu"),
        ("osu=~nosuchuser/x.tgz", r"/~nosuchuser/x.tgz is not there"),
        (f"osu=http://[bad/x.tgz#sha256={DIGEST}", r"."),
        (f"osu=http://localhost:9/\u00fc.tgz#sha256={DIGEST}", r"."),
        ("osu=/usr", r"/usr is a folder; name the tarball"),
        (
            "osu=https://example.org/x.tar.gz",
            r"what is fetched is checked; write the address .* https://...#sha256=<64 digits>",
        ),
        (f"osu=file:///etc/passwd#sha256={DIGEST}", r"write the address of a tarball as https://"),
    ],
)
def test_a_word_that_means_no_tarball_is_refused(word: str, sentence: str, environ: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=sentence):
        suite_builds.find(word, environ)


def test_a_path_is_taken_as_it_is(tmp_path: Path, environ: dict[str, str]) -> None:
    path = tmp_path / "mine.tar.gz"
    path.write_bytes(CONTENT)
    assert suite_builds.find(f"osu={path}", environ) == suite_builds.Tarball("osu", path, str(path), DIGEST)


def test_a_release_is_taken_from_the_sources_folder_if_it_is_the_release(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sources" / "osu-micro-benchmarks-7.5.tar.gz"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    with refused_as(
        "checksum-differs", match=rf"{path} has the SHA-256 {DIGEST} and the release 1cf84ac\w+; remove it, or name it as"
    ):
        suite_builds.find("osu=7.5", environ)
    monkeypatch.setattr(suite_builds, "CHECKSUMS", {"osu": {"7.5": DIGEST}, "imb": {}})
    found = suite_builds.find("osu=7.5", environ)
    assert (found.path, found.origin) == (path, suite_builds.url_of("osu", "7.5"))


def test_what_is_fetched_is_kept_once_it_is_right(tmp_path: Path, environ: dict[str, str], server: str) -> None:
    said: list[str] = []
    found = suite_builds.find(f"osu={server}/osu-x.tar.gz#sha256={DIGEST}", environ, said.append)
    assert found.path.read_bytes() == CONTENT and said == [f"{found.path} is not there: fetching {server}/osu-x.tar.gz"]
    assert suite_builds.find(f"osu={server}/osu-x.tar.gz#sha256={DIGEST}", environ, said.append) == found
    assert len(said) == 1


@pytest.mark.parametrize(
    ("path", "digest", "sentence"),
    [
        ("osu-x.tar.gz", "0" * 64, rf"has the SHA-256 {DIGEST} and not 0+; it is not kept"),
        ("half.tar.gz", DIGEST, r"half.tar.gz (has the SHA-256|cannot be fetched)"),
        ("none.tar.gz", DIGEST, r"none.tar.gz cannot be fetched into .*; put the file there by hand, or name one"),
    ],
)
def test_what_is_not_the_release_is_not_kept(
    path: str, digest: str, sentence: str, tmp_path: Path, environ: dict[str, str], server: str
) -> None:
    with pytest.raises(BadInput, match=sentence):
        suite_builds.find(f"osu={server}/{path}#sha256={digest}", environ, lambda text: None)
    assert not list((tmp_path / "sources").iterdir())


def test_no_network_and_no_place_are_a_sentence(tmp_path: Path, environ: dict[str, str]) -> None:
    word = f"osu=http://127.0.0.1:9/x.tar.gz#sha256={DIGEST}"
    with refused_as("fetch-failed", match=r"cannot be fetched into .*sources \(.*refused.*\); put the file there by hand"):
        suite_builds.find(word, environ, lambda text: None)
    (tmp_path / "file").touch()
    with refused_as("fetch-failed"):
        suite_builds.find(word, {suite_builds.SOURCES: str(tmp_path / "file" / "x")}, lambda text: None)
