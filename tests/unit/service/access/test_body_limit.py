"""Bodies of requests that are too long, or nested too deeply for a parser of JSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from starlette.exceptions import HTTPException

from zkdeployment.base.json_values import TOO_DEEP
from zkdeployment.service.access.headers import BODY_LIMIT, BodyLimit

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

DEEP = b"[" * 501


def read(*parts: bytes, content_types: tuple[bytes, ...] = (b"application/json",)) -> bytes:
    """Return the body that an application behind the limit receives for a request in parts."""
    received: list[bytes] = []
    waiting = iter(parts)

    async def application(_scope: Scope, receive: Receive, _send: Send) -> None:
        received.extend([(await receive())["body"] for _ in parts])

    async def receive() -> Message:
        return {"type": "http.request", "body": next(waiting), "more_body": True}

    async def send(_message: Message) -> None:
        raise AssertionError("the limit answers by exceptions")

    headers = [(b"content-type", each) for each in content_types]
    asyncio.run(BodyLimit(application)({"type": "http", "headers": headers}, receive, send))
    return b"".join(received)


@pytest.mark.parametrize(
    "parts",
    [
        (b"[" * 500 + b"]" * 500 + b"[" * 500,),
        (b'["' + b"[" * 600 + b'"]',),
        (b'["\\"' + b"[" * 600 + b'"]',),
        (b'["\\', b'"' + b"{" * 600 + b'"]'),
        (b'["\\', b"", b'"' + b"{" * 600 + b'"]'),
    ],
    ids=["beside each other", "in a string", "after a quote in a string", "in parts", "in parts with an empty"],
)
def test_a_body_with_few_levels_is_passed_on(parts):
    assert read(*parts) == b"".join(parts)


@pytest.mark.parametrize(
    "parts",
    [
        (DEEP,),
        (b"[" * 300, b'{"a":' * 201),
        (b'["]]"' + DEEP,),
        (b'["]\\\\"' + DEEP,),
        (b'["]\\', b'"]]"' + DEEP),
        (b'["]\\\\', b'"' + DEEP),
    ],
    ids=["at once", "in parts", "beside a string", "after a backslash", "quote in parts", "backslash in parts"],
)
def test_a_body_that_is_too_deep_is_refused(parts):
    with pytest.raises(HTTPException) as refused:
        read(*parts)
    assert (refused.value.status_code, refused.value.detail) == (422, f"body: {TOO_DEEP}")


@pytest.mark.parametrize("content_types", [(), (b"application/x+JSON",), (b"application/json", b"text/plain")])
def test_each_body_that_may_be_parsed_as_json_is_counted(content_types):
    with pytest.raises(HTTPException, match="levels"):
        read(DEEP, content_types=content_types)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_json_in_another_encoding_whose_characters_hide_brackets_is_refused(encoding):
    with pytest.raises(HTTPException, match="expected JSON in UTF-8, found a zero byte") as refused:
        read(('["\u2200",' + "[" * 900).encode(encoding))
    assert refused.value.status_code == 422


def test_a_form_may_have_brackets():
    assert read(DEEP, content_types=(b"application/x-www-form-urlencoded",)) == DEEP


def test_a_body_that_is_too_long_is_refused():
    with pytest.raises(HTTPException, match=f"at most {BODY_LIMIT} bytes") as refused:
        read(b"a" * BODY_LIMIT, b"a")
    assert refused.value.status_code == 413
