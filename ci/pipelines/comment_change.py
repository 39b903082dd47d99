#!/usr/bin/env python3
"""Writes a file as a comment on the merge request of the pipeline
that runs this, over the one it wrote before.

    comment_change.py FILE

The request is that of the pipeline's own variables:

GitLab      CI_API_V4_URL, CI_PROJECT_ID, CI_MERGE_REQUEST_IID; COMMENT_TOKEN is
            a project access token that may use the API
GitHub      GITHUB_API_URL, GITHUB_REPOSITORY, GITHUB_REF
            (refs/pull/N/merge); COMMENT_TOKEN is GITHUB_TOKEN

Without a request there is nothing to comment on, and without COMMENT_TOKEN the comment is printed.
Exit status: 0 written, or nowhere to write it to; 1 refused.

Sources: GitLab, "Notes API" (merge requests); GitHub, "REST API endpoints for issue comments".
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.parse
import urllib.request
from pathlib import Path

#: First line of the comments that this writes.
MARK = "<!-- mpibench change -->"
#: GitHub takes 65,536 characters; GitLab takes more.
LONGEST = 60_000


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: the token would go to another host, and
    what was a comment would be sent as an empty GET.
    """

    def redirect_request(self, *_: object) -> None:
        return None


def ask(method: str, url: str, headers: dict[str, str], body: object = None) -> object:
    """What a server answers.

    :raises OSError: it refuses or does not answer.
    """
    data = None if body is None else json.dumps(body).encode()
    kind = {"Content-Type": "application/json", "Accept": "application/json"}
    request = urllib.request.Request(url, data, {**kind, **headers}, method=method)
    with urllib.request.build_opener(NoRedirects).open(request, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def find_request(environ: dict[str, str]) -> tuple[str, str, dict[str, str], str] | None:
    """Address of the request's comments, of one of them, headers, and the
    method that changes one; ``None``: no request.
    """
    token = environ.get("COMMENT_TOKEN", "")
    if environ.get("CI_MERGE_REQUEST_IID"):
        project = urllib.parse.quote(environ["CI_PROJECT_ID"], safe="")
        requests = f"{environ['CI_API_V4_URL']}/projects/{project}/merge_requests"
        notes = f"{requests}/{environ['CI_MERGE_REQUEST_IID']}/notes"
        return notes, notes, {"PRIVATE-TOKEN": token}, "PUT"
    pull = re.fullmatch(r"refs/pull/(\d+)/merge", environ.get("GITHUB_REF", ""))
    if pull:
        issues = f"{environ['GITHUB_API_URL']}/repos/{environ['GITHUB_REPOSITORY']}/issues"
        return (
            f"{issues}/{pull[1]}/comments",
            f"{issues}/comments",
            {"Authorization": f"Bearer {token}"},
            "PATCH",
        )
    return None


def own_comment(comments: str, headers: dict[str, str]) -> int | None:
    """Id of the comment that was written before."""
    for page in range(1, 51):
        rows = ask("GET", f"{comments}?per_page=100&page={page}", headers)
        if not isinstance(rows, list) or not rows:
            return None
        for row in rows:
            if str(row.get("body", "")).startswith(MARK):
                return int(row["id"])
    return None


def main(words: list[str], environ: dict[str, str]) -> int:
    """Exit status."""
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        text = Path(words[0]).read_text(encoding="utf-8")
    except OSError as error:
        print(f"comment_change: cannot read {words[0]}: {error.strerror}.", file=sys.stderr)
        return 1
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n\n... cut; the whole text is among the pipeline's files.\n"
    body = text if text.startswith(MARK) else f"{MARK}\n{text}"
    found = find_request(environ)
    if found is None or not environ.get("COMMENT_TOKEN"):
        print(text)
        why = (
            "this is not the pipeline of a merge request"
            if found is None
            else "COMMENT_TOKEN is not set"
        )
        print(f"comment_change: not written as a comment: {why}.", file=sys.stderr)
        return 0
    comments, one, headers, change = found
    try:
        before = own_comment(comments, headers)
        if before is None:
            ask("POST", comments, headers, {"body": body})
        else:
            ask(change, f"{one}/{before}", headers, {"body": body})
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"comment_change: {comments} did not take the comment: {error}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
