"""What a merge request alters, in a real repository, and how it becomes a comment at servers like GitLab and GitHub."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

import metrics_gateway
from mpibench.judge import review
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from synthetic_verdicts import write_session

SCRIPT = Path(__file__).parents[4] / "ci" / "pipelines" / "comment_change.py"
PLACE = ("ImbParallelTransfer", "sys:part", "openmpi-spack", "eth1g", 2, 1, "bunch")


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, timeout=60)


def commit(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x")


def reference(value: float, lower: float | None, place: tuple[Any, ...] = PLACE) -> str:
    tree: dict[Any, Any] = {"Uniband.bandwidth.0004194304": [value, lower, None, "MB/s"]}
    for key in reversed(place[1:]):
        tree = {key: tree}
    index = ["$partition", "$environ", "fabric", "nodes", "ranks_per_node", "pinning"]
    return yaml.safe_dump({place[0]: {"$index": index, **tree}})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(
        folder,
        **{
            "environments/common/packages.yaml": "a: 1\n",
            "environments/openmpi/spack.yaml": "spack:\n  include: [../common]\n  specs: [mpibench-suite ^openmpi]\n",
            "environments/other/spack.yaml": "spack:\n  specs: [zlib] # mpibench-suite\n",
            "repo/spack_repo/mpibench/packages/mpibench_suite/package.py": 'depends_on("osu-micro-benchmarks")\n',
            "repo/spack_repo/mpibench/packages/osu_micro_benchmarks/package.py": "\n",
            "site_configs/sys/references.yaml": reference(100.0, -0.05),
            "README.md": "x",
        },
    )
    git(folder, "switch", "--quiet", "--create", "change")
    return folder


def test_nothing_of_it_alters_what_is_measured(project: Path, tmp_path: Path) -> None:
    commit(project, **{"README.md": "y"})
    found = review.review("main", Store(tmp_path / "dataset"), "now-14d:now", project)
    assert found.finding().startswith("No references")


@pytest.mark.parametrize(
    ("name", "stacks"),
    [
        ("environments/openmpi/spack.yaml", {"openmpi": "environments/openmpi changed"}),
        ("environments/common/packages.yaml", {"openmpi": "environments/common changed, which it includes"}),
        (
            "repo/spack_repo/mpibench/packages/osu_micro_benchmarks/package.py",
            {"openmpi": "the recipe of osu-micro-benchmarks changed"},
        ),
    ],
)
def test_stacks_that_are_built_otherwise_are_named(project: Path, tmp_path: Path, name: str, stacks: dict[str, str]) -> None:
    commit(project, **{name: (project / name).read_text() + "\n"})
    found = review.review("main", Store(tmp_path / "dataset"), "now-14d:now", project)
    assert found.stacks == stacks
    assert "1 stacks are built otherwise" in found.markdown()


def test_a_reference_that_hides_a_slow_night_is_seen(project: Path, tmp_path: Path) -> None:
    """Nights at 100 MB/s and one at 80: by the reference as it was that one missed, by the looser one it would not."""
    for number, slower in enumerate((1.0, 1.0, 1.25)):
        write_session(
            tmp_path / "dataset",
            number,
            benchmarks={"Uniband": "bandwidth_mb_per_s"},
            sizes=(4194304,),
            change=lambda *_, slower=slower: slower,
        )
    row = _only_case(tmp_path / "dataset")
    level = _level(tmp_path / "dataset")
    name = f"site_configs/{row[1].partition(':')[0]}/references.yaml"
    git(project, "switch", "--quiet", "main")
    commit(project, **{name: reference(level, -0.05, row)})
    git(project, "switch", "--quiet", "--create", "looser")
    commit(project, **{name: reference(level, -0.5, row)})
    found = review.review("main", Store(tmp_path / "dataset"), "20000101:20991231", project)
    [system] = found.systems
    assert system.why == "" and system.effect is not None, system
    assert (system.hides, system.finds) == (1, 0)
    assert [len(names) for names in system.entries.values()] == [1] and review.LOOSER in system.entries
    assert "1 values of stored nights that missed a reference would pass" in found.markdown()
    git(project, "switch", "--quiet", "--create", "tighter", "main")
    commit(project, **{name: reference(level, -0.0001, row)})
    assert review.TIGHTER in review.review("main", Store(tmp_path / "dataset"), "20000101:20991231", project).systems[0].entries


def _only_case(dataset: Path) -> tuple[Any, ...]:
    import polars as pl

    row = pl.read_parquet(f"{dataset}/cases/*/*/*.parquet", hive_partitioning=True).row(0, named=True)
    where = f"{row['system']}:{row['partition']}"
    return row["name"].split()[0], where, row["stack"], row["fabric"], row["nodes"], row["ppn"], row["pinning"]


def _level(dataset: Path) -> float:
    import polars as pl

    rows = pl.read_parquet(f"{dataset}/samples/*/*/*.parquet").filter(pl.col("message_bytes") == 4194304)
    return float(rows.filter(pl.col("session") == rows.sort("started")["session"][0])["value"].median())


def test_without_stored_nights_it_says_so(project: Path, tmp_path: Path) -> None:
    commit(project, **{"site_configs/sys/references.yaml": reference(90.0, None)})
    text = review.review("main", Store(tmp_path / "nowhere"), "now-14d:now", project).markdown()
    assert "References: 1 looser." in text and re.search(r"Stored nights: \S", text)


@pytest.mark.parametrize("base", ["no-such-branch", "--output=x"])
def test_a_base_that_is_none_is_bad_input(project: Path, tmp_path: Path, base: str) -> None:
    with pytest.raises(BadInput):
        review.review(base, Store(tmp_path), "latest", project)


def test_hostile_names_are_text(project: Path, tmp_path: Path) -> None:
    commit(project, **{"site_configs/a<b>[c](d)/policy.yaml": "x: 1\n", "environments/e|f`g/spack.yaml": "spack: {}\n"})
    text = review.review("main", Store(tmp_path), "latest", project).markdown()
    assert "a&lt;b&gt;\\[c\\](d)" in text and "e\\|f\\`g" in text and "<b>" not in text


class Comments(ThreadingHTTPServer):
    """Comments of one request, page by page, as the two servers give them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), CommentHandler)
        self.rows: list[dict[str, Any]] = [{"id": number, "body": f"comment {number}"} for number in range(130)]
        self.asked: list[tuple[str, str, str]] = []
        self.status = 200


class CommentHandler(BaseHTTPRequestHandler):
    server: Comments

    def do_GET(self) -> None:
        page = int(re.search(r"&page=(\d+)", self.path)[1])  # type: ignore[index]
        self._answer(self.server.rows[(page - 1) * 100 : page * 100])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.status == 200:
            if self.command == "POST":
                self.server.rows.append({"id": 1000, **body})
            else:
                [row] = [row for row in self.server.rows if self.path.endswith(f"/{row['id']}")]
                row |= body
        self._answer({})

    def do_PUT(self) -> None:
        self.do_POST()

    def do_PATCH(self) -> None:
        self.do_POST()

    def _answer(self, what: object) -> None:
        token = self.headers["PRIVATE-TOKEN"] or self.headers["Authorization"]
        self.server.asked.append((self.command, self.path.partition("?")[0], token))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(what).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Comments]:
    there = Comments()
    threading.Thread(target=there.serve_forever, daemon=True).start()
    yield there
    there.shutdown()
    there.server_close()


def environ_of(kind: str, server: Comments) -> dict[str, str]:
    url = f"http://127.0.0.1:{server.server_port}"
    if kind == "gitlab":
        return {"CI_API_V4_URL": f"{url}/api/v4", "CI_PROJECT_ID": "7", "CI_MERGE_REQUEST_IID": "3", "COMMENT_TOKEN": "t"}
    return {"GITHUB_API_URL": url, "GITHUB_REPOSITORY": "a/b", "GITHUB_REF": "refs/pull/3/merge", "COMMENT_TOKEN": "t"}


def write(path: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith(("CI_", "GITHUB_"))}
    here = {**known, "no_proxy": "127.0.0.1", **environ}
    return subprocess.run([sys.executable, SCRIPT, path], env=here, capture_output=True, text=True, timeout=120)


WAYS = {
    "gitlab": ("/api/v4/projects/7/merge_requests/3/notes", "/api/v4/projects/7/merge_requests/3/notes/1000", "PUT", "t"),
    "github": ("/repos/a/b/issues/3/comments", "/repos/a/b/issues/comments/1000", "PATCH", "Bearer t"),
}


@pytest.mark.parametrize("kind", WAYS)
def test_a_comment_is_written_and_then_written_over(kind: str, server: Comments, tmp_path: Path) -> None:
    comments, one, method, token = WAYS[kind]
    path = tmp_path / "change.md"
    for text in ("first", "second"):
        path.write_text(f"{review.MARK}\n{text}")
        done = write(path, environ_of(kind, server))
        assert done.returncode == 0, done.stderr
    assert [row["body"] for row in server.rows if row["id"] == 1000] == [f"{review.MARK}\nsecond"]
    assert len(server.rows) == 131
    assert [row for row in server.asked if row[0] != "GET"] == [("POST", comments, token), (method, one, token)]


def test_a_server_that_refuses_is_a_sentence(server: Comments, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    server.status = 403
    done = write(tmp_path / "a", environ_of("gitlab", server))
    assert done.returncode == 1 and "did not take the comment: HTTP Error 403" in done.stderr and "Traceback" not in done.stderr


def test_without_a_request_or_a_token_it_is_printed(tmp_path: Path, server: Comments) -> None:
    (tmp_path / "a").write_text("text")
    for environ, why in (({}, "not the pipeline"), ({**environ_of("github", server), "COMMENT_TOKEN": ""}, "COMMENT_TOKEN")):
        done = write(tmp_path / "a", environ)
        assert done.returncode == 0 and done.stdout == "text\n" and why in done.stderr
    assert server.asked == []


def test_a_long_comment_is_cut_and_marked(server: Comments, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 100_000)
    assert write(tmp_path / "a", environ_of("github", server)).returncode == 0
    body = server.rows[-1]["body"]
    assert len(body) < 65_536 and body.startswith(review.MARK) and "... cut" in body


def test_a_redirect_gets_no_token_and_is_no_comment(tmp_path: Path) -> None:
    (tmp_path / "change.md").write_text("x")
    with metrics_gateway.serving() as (url, kept), metrics_gateway.serving() as (elsewhere, other):
        kept.status, kept.location = 301, f"{elsewhere}/there"
        request = {
            "GITHUB_REF": "refs/pull/1/merge",
            "GITHUB_API_URL": url,
            "GITHUB_REPOSITORY": "a/b",
            "COMMENT_TOKEN": "secret",
        }
        words = [sys.executable, str(SCRIPT), str(tmp_path / "change.md")]
        done = subprocess.run(words, env={**os.environ, **request}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "did not take the comment: HTTP Error 301" in done.stderr
    assert other.posts == [] and other.authorizations == []
