"""What a merge request alters, in a real repository, and how it becomes
a comment at servers like GitLab and GitHub.
"""

import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import pytest
import yaml

import servers
from folders import write
from mpibench.judge import review
from mpibench.store.store import Store
from programs import finished, git
from synthetic_verdicts import write_session

SCRIPT = Path(__file__).parents[4] / "ci" / "pipelines" / "comment_change.py"
PLACE = ("ImbParallelTransfer", "sys:part", "openmpi-spack", "eth1g", 2, 1, "bunch")


def commit(folder, **files):
    for name, text in files.items():
        write(folder / name, text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x")


def reference(value, lower, place=PLACE):
    tree = {"Uniband.bandwidth.0004194304": [value, lower, None, "MB/s"]}
    for key in reversed(place[1:]):
        tree = {key: tree}
    index = ["$partition", "$environ", "fabric", "nodes", "ranks_per_node", "pinning"]
    return yaml.safe_dump({place[0]: {"$index": index, **tree}})


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(
        folder,
        **{
            "environments/common/packages.yaml": "a: 1\n",
            "environments/openmpi/spack.yaml": "spack:\n  include: [../common]\n  specs: "
            "[mpibench-suite ^openmpi]\n",
            "environments/other/spack.yaml": "spack:\n  specs: [zlib] # mpibench-suite\n",
            "repo/spack_repo/mpibench/packages/mpibench_suite/package.py": 'depends_on("osu-micro-benchmarks")\n',
            "repo/spack_repo/mpibench/packages/osu_micro_benchmarks/package.py": "\n",
            "site_configs/sys/references.yaml": reference(100.0, -0.05),
            "README.md": "x",
        },
    )
    git(folder, "switch", "--quiet", "--create", "change")
    return folder


def test_stacks_that_are_built_otherwise_are_named(project, tmp_path):
    def found():
        return review.review("main", Store(tmp_path / "dataset"), "now-14d:now", project)

    commit(project, **{"README.md": "y"})
    assert not found().stacks and found().finding().startswith("No references")
    for name, why in (
        (
            "repo/spack_repo/mpibench/packages/osu_micro_benchmarks/package.py",
            "the recipe of osu-micro-benchmarks changed",
        ),
        ("environments/common/packages.yaml", "environments/common changed, which it includes"),
        ("environments/openmpi/spack.yaml", "environments/openmpi changed"),
    ):
        before = (project / name).read_text()
        commit(project, **{name: f"{before}\n"})
        assert found().stacks == {"openmpi": why}
        assert "built differently: 1 stack;" in found().markdown()
        commit(project, **{name: before})


def test_a_reference_that_hides_a_slow_night_is_seen(project, tmp_path):
    """Nights at 100 MB/s and one at 80: by the reference as it was that
    one missed, by the looser one it would not.
    """
    for number, slower in enumerate((1.0, 1.0, 1.25)):
        write_session(
            tmp_path / "dataset",
            number,
            benchmarks={"Uniband": "bandwidth_mb_per_s"},
            sizes=(4194304,),
            change=lambda *_, slower=slower: slower,
        )
    row, level = _stored(tmp_path / "dataset")
    name = f"site_configs/{row[1].partition(':')[0]}/references.yaml"
    git(project, "switch", "--quiet", "main")
    commit(project, **{name: reference(level, -0.05, row)})
    for kind, lower, hides in ((review.LOOSER, -0.5, 1), (review.TIGHTER, -0.0001, 0)):
        git(project, "switch", "--quiet", "--create", f"change-{hides}", "main")
        commit(project, **{name: reference(level, lower, row)})
        found = review.review("main", Store(tmp_path / "dataset"), "20000101:20991231", project)
        [system] = found.systems
        assert system.why == "" and [*system.entries] == [kind], system
        assert system.hides == hides and (hides == 0 or system.finds == 0)
        assert (f"{hides} stored value" in found.markdown()) == bool(hides)


def _stored(dataset):
    """The only case of a dataset, and the level of its first session."""
    row = pl.read_parquet(f"{dataset}/cases/*/*/*.parquet", hive_partitioning=True).row(
        0, named=True
    )
    keys = ("stack", "fabric", "nodes", "ppn", "pinning")
    where = f"{row['system']}:{row['partition']}"
    rows = pl.read_parquet(f"{dataset}/samples/*/*/*.parquet").sort("started")
    first = rows.filter(pl.col("session") == rows["session"][0])
    level = float(first.filter(pl.col("message_bytes") == 4194304)["value"].median())
    return (row["name"].split()[0], where, *(row[key] for key in keys)), level


def test_hostile_names_are_text(project, tmp_path):
    commit(
        project,
        **{
            "site_configs/a<b>[c](d)/policy.yaml": "x: 1\n",
            "environments/e|f`g/spack.yaml": "spack: {}\n",
        },
    )
    text = review.review("main", Store(tmp_path), "latest", project).markdown()
    assert "a&lt;b&gt;\\[c\\](d)" in text and "e\\|f\\`g" in text and "<b>" not in text


class Comments(ThreadingHTTPServer):
    """Comments of one request, page by page, as the two servers give them."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), CommentHandler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.rows = [{"id": number, "body": "x"} for number in range(130)]
        self.asked = []
        self.status = 200


class CommentHandler(BaseHTTPRequestHandler):
    def do_GET(self):
        page = int(re.search(r"&page=(\d+)", self.path)[1])
        self._answer(self.server.rows[(page - 1) * 100 : page * 100])

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.status == 200:
            rows = [row for row in self.server.rows if self.path.endswith(f"/{row['id']}")]
            if self.command == "POST":
                self.server.rows.append({"id": 1000, **body})
            else:
                rows[0].update(body)
        self._answer({})

    do_PUT = do_PATCH = do_POST  # noqa: N815

    def _answer(self, what):
        token = self.headers["PRIVATE-TOKEN"] or self.headers["Authorization"]
        self.server.asked.append((self.command, self.path.partition("?")[0], token))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(what).encode())

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def server():
    there = Comments()
    threading.Thread(target=there.serve_forever, args=(0.01,), daemon=True).start()
    yield there
    there.shutdown()
    there.server_close()


def comment(folder, text, environ):
    page = write(folder / "change.md", text)
    known = {
        name: value for name, value in os.environ.items() if not name.startswith(("CI_", "GITHUB_"))
    }
    here = {**known, "no_proxy": "127.0.0.1", "COMMENT_TOKEN": "t", **environ}
    return finished(sys.executable, SCRIPT, page, env=here)


#: Server to the variables of a pipeline there (but for its address), and how it is asked.
WAYS = {
    "gitlab": (
        {"CI_PROJECT_ID": "7", "CI_MERGE_REQUEST_IID": "3"},
        ("CI_API_V4_URL", "/api/v4"),
        "/api/v4/projects/7/merge_requests/3/notes",
        "/api/v4/projects/7/merge_requests/3/notes/1000",
        "PUT",
        "t",
    ),
    "github": (
        {"GITHUB_REPOSITORY": "a/b", "GITHUB_REF": "refs/pull/3/merge"},
        ("GITHUB_API_URL", ""),
        "/repos/a/b/issues/3/comments",
        "/repos/a/b/issues/comments/1000",
        "PATCH",
        "Bearer t",
    ),
}


@pytest.mark.parametrize("kind", WAYS)
def test_a_comment_is_written_and_then_written_over(kind, server, tmp_path):
    environ, (name, path), comments, one, method, token = WAYS[kind]
    for text in ("first", "x" * 100_000):
        here = {**environ, name: f"{server.url}{path}"}
        done = comment(tmp_path, f"{review.MARK}\n{text}", here)
        assert done.returncode == 0, done.stderr
    assert len(server.rows) == 131
    body = server.rows[-1]["body"]
    assert len(body) < 65_536 and body.startswith(f"{review.MARK}\nxx") and "... cut" in body
    assert [row for row in server.asked if row[0] != "GET"] == [
        ("POST", comments, token),
        (method, one, token),
    ]


def test_a_redirect_gets_no_token_and_is_no_comment(tmp_path):
    with servers.serving() as (url, kept), servers.serving() as (elsewhere, other):
        kept.status = 301
        kept.location = f"{elsewhere}/there"
        done = comment(tmp_path, "x", {**WAYS["github"][0], "GITHUB_API_URL": url})
    assert done.returncode == 1 and "HTTP Error 301" in done.stderr
    assert other.posts == [] and other.authorizations == []
