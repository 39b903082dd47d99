"""A red night's first line in a chat."""

import json

import pytest

from mpibench_site import chat
from reframe_tests.harness.vocabulary import BadInput
from servers import serving

LINE = "FAIL: daint: slower on c3 & <!channel>"
TOLD = "FAIL: daint: slower on c3 &amp; &lt;!channel&gt; https://results.example.org"
SECRET = "T0/B1/s3cret"


def test_each_chat_gets_the_line_in_its_own_form():
    with serving() as (url, kept):
        environ = {"MPIBENCH_CHAT": f"{url}/{SECRET} teams+{url}/teams"}
        environ["MPIBENCH_SITE_URL"] = "https://results.example.org"
        assert chat.send(f"{LINE}\nsecond", environ) == []
    (path, _, text), (_, _, card) = kept.posts
    assert path == f"/{SECRET}" and json.loads(text) == {"text": TOLD}
    [attached] = json.loads(card)["attachments"]
    assert attached["content"]["body"][0]["text"] == f"{LINE} https://results.example.org"


@pytest.mark.parametrize(("status", "to"), [(500, ""), (302, f"/{SECRET}")])
def test_a_chat_that_refuses_is_said_without_its_address(status, to):
    with serving() as (url, kept):
        kept.status = status
        kept.location = to
        kept.answer = SECRET.encode()
        [sentence] = chat.send(LINE, {"MPIBENCH_CHAT": f"{url}/{SECRET}"})
    assert str(status) in sentence and SECRET not in sentence


@pytest.mark.parametrize(
    "wrong",
    [
        f"hooks.example.org/{SECRET}",
        f"ftp://a/{SECRET}",
        f"https://[{SECRET}",
        f"http://a:{SECRET}",
        f"http://127.0.0.1:1/a\x01{SECRET}",
    ],
)
def test_what_is_no_address_keeps_no_other_from_its_message(wrong):
    with serving() as (url, kept):
        [sentence] = chat.send(LINE, {"MPIBENCH_CHAT": f"{wrong} {url}/good"})
    assert SECRET not in sentence and [path for path, _, _ in kept.posts] == ["/good"]


def test_no_address_is_bad_input():
    with pytest.raises(BadInput):
        chat.send(LINE, {})
