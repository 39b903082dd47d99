"""A red night's first line in a chat."""

from __future__ import annotations

import json

import pytest

from mpibench_site import chat
from reframe_tests.harness.vocabulary import BadInput
from servers import serving

LINE = "FAIL: daint: slower on c3 & <c4>"
SECRET = "T0/B1/s3cret"


def test_each_chat_gets_the_line_in_its_own_form() -> None:
    with serving() as (url, kept):
        environ = {
            "MPIBENCH_CHAT": f"{url}/{SECRET} teams+{url}/teams",
            "MPIBENCH_SITE_URL": "https://results.example.org",
        }
        assert chat.send(f"{LINE}\nsecond", environ) == []
    (path, _, text), (_, _, card) = kept.posts
    said = f"{LINE} https://results.example.org"
    assert path == f"/{SECRET}" and json.loads(text) == {"text": said}
    [attached] = json.loads(card)["attachments"]
    assert attached["content"]["body"][0]["text"] == said


@pytest.mark.parametrize(("status", "to"), [(500, ""), (302, f"/{SECRET}")])
def test_a_chat_that_refuses_is_said_without_its_address(status: int, to: str) -> None:
    with serving() as (url, kept):
        kept.status = status
        kept.location = to
        kept.answer = SECRET.encode()
        [sentence] = chat.send(LINE, {"MPIBENCH_CHAT": f"{url}/{SECRET}"})
    assert str(status) in sentence and SECRET not in sentence


def test_a_chat_that_is_not_there_is_said() -> None:
    with serving() as (url, _):
        pass
    [sentence] = chat.send(LINE, {"MPIBENCH_CHAT": f"{url}/{SECRET}"})
    assert "127.0.0.1" in sentence and SECRET not in sentence


@pytest.mark.parametrize("addresses", ["", f"hooks.example.org/{SECRET}", f"ftp://a/{SECRET}"])
def test_no_address_is_bad_input(addresses: str) -> None:
    with pytest.raises(BadInput) as refused:
        chat.send(LINE, {"MPIBENCH_CHAT": addresses})
    assert SECRET not in str(refused.value)
