"""``mpibench notify``: what is wrong with a night, told where people talk.

``MPIBENCH_CHAT`` holds addresses of incoming webhooks, separated by blanks. Slack, Mattermost,
Rocket.Chat and Google Chat take ``{"text": ...}``; a workflow of Microsoft Teams takes an Adaptive
Card, and its address is written ``teams+https://...``. Whoever has such an address can write to the
channel, so that nothing is printed of it but the host.

Sources: Slack, "Sending messages using incoming webhooks"; Mattermost, "Incoming webhooks";
Microsoft, "Create incoming webhooks with Workflows for Microsoft Teams" and "Adaptive Cards", 1.4.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from html import escape  # as Slack asks: else < begins a link or a mention
from typing import Annotated, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import typer

from mpibench.commands.options import say
from reframe_tests.harness.printable import first_line, printable
from reframe_tests.harness.vocabulary import BadInput

from . import metrics_push

VARIABLE = "MPIBENCH_CHAT"
#: Variable with the address at which the site of results is served.
SITE = "MPIBENCH_SITE_URL"
TEAMS = "teams+"
#: Characters of a message; Slack cuts what is longer than 4,000.
LONGEST = 2000

app = typer.Typer()


def send(text: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Send a text to each address; a sentence for each that did not take it.

    :raises BadInput: the variable holds no address.
    """
    addresses = environ.get(VARIABLE, "").split()
    if not addresses:
        raise BadInput(
            "not-reached",
            f"{VARIABLE} is empty: set it to the address of an incoming webhook (https://...; of "
            f"Teams {TEAMS}https://...).",
        )
    said = " ".join(filter(None, [first_line(printable(text), LONGEST), environ.get(SITE)]))
    sentences = []
    for number, address in enumerate(addresses, 1):
        url = address.removeprefix(TEAMS)
        host = _host(url)
        if not host:
            sentences.append(
                f"address {number} of {VARIABLE} is not a webhook: write https://..., of "
                f"Teams {TEAMS}https://..."
            )
            continue
        body = json.dumps(
            _card(said) if address != url else {"text": escape(said, quote=False)}
        ).encode()
        headers = {"Content-Type": "application/json"}
        if why := metrics_push.failure(partial(_post, url, body, headers)):
            sentences.append(f"{host} did not accept the message ({why})")
    return sentences


def _host(url: str) -> str:
    """The host of a webhook's address; empty if it is none."""
    try:
        address = urlsplit(url)
        known = address.scheme in ("http", "https") and (address.port or True)
    except ValueError:
        return ""
    return (address.hostname or "") if known and url.isprintable() else ""


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """:raises OSError: as :func:`.metrics_push.request_once`, without what may hold the address."""
    try:
        metrics_push.request_once("POST", url, body, headers)
    except HTTPError as refused:
        raise OSError(f"HTTP status {refused.code}") from None
    except ValueError:  # of http.client, which quotes the address
        raise OSError("it is not an address") from None


def _card(text: str) -> dict[str, Any]:
    block = {"type": "TextBlock", "text": text, "wrap": True}
    card = {"type": "AdaptiveCard", "version": "1.4", "body": [block]}
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


@app.command(rich_help_panel="Look")
def notify(
    text: Annotated[
        str, typer.Argument(help="Text to send; default: the first line of standard input.")
    ] = "",
) -> None:
    """Send one line to a chat, such as the gate's first line of a red night.

    MPIBENCH_CHAT holds addresses of incoming webhooks (Slack, Mattermost, Rocket.Chat, Google
    Chat; of Teams teams+https://...), separated by blanks, and MPIBENCH_SITE_URL, if set, the link
    that follows the line. Exit status: 0 all took it, 1 one did not, 2 bad input.
    """
    said = text or first_line(sys.stdin.read())
    if not printable(said).strip():
        raise BadInput("bad-option", "nothing to send: give a text, or lines on standard input.")
    sentences = send(said)
    say(sentences)
    raise typer.Exit(int(bool(sentences)))
