"""Every way a provider says no, and what it becomes."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate

import pytest
from fake_provider import (
    ASK,
    CHAT,
    MESSAGES,
    PROTOCOLS,
    RESPONSES,
    FakeProvider,
    Reply,
    collect,
    error_reply,
    model_for,
    sse,
    whole_reply,
)

from agent.errors import (
    AuthenticationError,
    ContextTooLongError,
    ModelError,
    RateLimitedError,
    RequestRefusedError,
    ServerFailedError,
)

KEY = "secret-key-1234"


async def failure(reply: Reply, protocol: str = CHAT, **options) -> ModelError:
    async with FakeProvider(reply) as fake:
        model = model_for(protocol, fake.url, **options)
        with pytest.raises(ModelError) as caught:
            await collect(model.stream(ASK))
        await model.aclose()
    assert KEY not in str(caught.value)
    return caught.value


def said(message: str, kind: str = "invalid_request_error", code: str | None = None) -> dict:
    return {"error": {"message": message, "type": kind, "code": code}}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, said("bad thing"), RequestRefusedError),
        (400, said("This model's maximum context length is 8192 tokens"), ContextTooLongError),
        (401, said("no"), AuthenticationError),
        (402, said("Insufficient Balance"), RequestRefusedError),
        (403, said("no"), AuthenticationError),
        (404, said("no such model"), RequestRefusedError),
        (408, b"", ServerFailedError),
        (413, b"<html><title>413</title></html>", ContextTooLongError),
        (422, {"detail": [{"msg": "field required"}]}, RequestRefusedError),
        (429, said("slow down"), RateLimitedError),
        (429, said("no money", "insufficient_quota", "insufficient_quota"), RequestRefusedError),
        (500, b"oops", ServerFailedError),
        (502, b"<html><body>Bad gateway</body></html>", ServerFailedError),
        (503, b"", ServerFailedError),
        (529, said("Overloaded", "overloaded_error"), RateLimitedError),
    ],
)
async def test_a_status_becomes_the_error_that_says_what_to_do(protocol, status, body, expected):
    error = await failure(error_reply(status, body), protocol)
    assert type(error) is expected
    assert error.status == status
    assert error.provider == "custom"
    assert str(status) in str(error)


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
        "This endpoint's maximum context length is 262144 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input",
        "prompt is too long: 205000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "request (4031 tokens) exceeds the available context size (2048 tokens), try increasing it",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "Invalid request: Your request exceeded model token limit: 8192",
        "Range of input length should be [1, 30720]",
        "Prompt exceeds max length",
        "Input is too long for requested model.",
        "`inputs` tokens + `max_new_tokens` must be <= 4097",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "Request too large for gpt-4: Limit 10000, Requested 12000.",
        "the context window exceeds limit (2013)",
        "Please reduce the length of the messages or completion.",
    ],
)
async def test_every_dialect_of_too_long_is_understood(words):
    error = await failure(error_reply(400, said(words)))
    assert type(error) is ContextTooLongError
    assert words[:40] in str(error)


@pytest.mark.parametrize(
    "words",
    [
        "max_tokens is too large: 99999. This model supports at most 16384 completion tokens",
        "Invalid value for 'temperature'",
        "messages: roles must alternate",
        "tool_use ids were found without tool_result blocks",
        "image exceeds 5 MB maximum",
    ],
)
async def test_other_refusals_are_not_taken_for_too_long(words):
    error = await failure(error_reply(400, said(words)))
    assert type(error) is RequestRefusedError
    assert words in str(error)


async def test_too_long_by_code_alone():
    for body in (
        said("nope", code="context_length_exceeded"),
        said("nope", "exceed_context_size_error"),
        said("nope", "request_too_large"),
        said("nope", code="string_above_max_length"),
    ):
        assert type(await failure(error_reply(400, body))) is ContextTooLongError


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "1e999"}, None),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry_after_ms": "1500", "retry_after": "2"}, 1.5),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after(headers, seconds, status):
    error = await failure(error_reply(status, said("later"), **headers))
    assert error.retry_after == seconds


async def test_retry_after_as_a_date():
    date = formatdate(time.time() + 100, usegmt=True)
    error = await failure(error_reply(429, said("later"), retry_after=date))
    assert error.retry_after == pytest.approx(100, abs=20)


@pytest.mark.parametrize(
    ("provider", "advice"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
        ("google", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("house", "Set model.api_key in config.yaml"),
    ],
)
async def test_a_refused_key_says_where_to_set_it(provider, advice):
    error = await failure(error_reply(401, said("Incorrect API key")), provider=provider)
    assert advice in str(error)
    assert "Incorrect API key" in str(error)


async def test_secrets_do_not_reach_messages():
    words = f"Incorrect API key provided: {KEY}, sk-proj-abcdefghijklmnopqrstuvwxyz123456"
    for status in (400, 401, 429, 500):
        text = str(await failure(error_reply(status, said(words))))
        assert "abcdefghijklmnop" not in text


async def test_long_words_are_shortened_and_html_is_stripped():
    assert len(str(await failure(error_reply(400, said("x" * 5000))))) < 500
    page = b"<html><style>p {}</style><body>\n<h1>Bad   gateway</h1></body></html>"
    error = await failure(error_reply(502, page))
    assert str(error).endswith(": Bad gateway")


async def test_the_words_are_found_in_every_shape_of_body():
    for body in (
        {"error": "the words"},
        {"message": "the words"},
        {"detail": "the words"},
        [{"error": {"code": 400, "message": "the words", "status": "INVALID_ARGUMENT"}}],
        {"type": "error", "error": {"type": "invalid_request_error", "message": "the words"}},
        {"error": {"message": "Provider returned error", "metadata": {"raw": "the words"}}},
        b"the words",
        b'"the words"',
    ):
        error = await failure(error_reply(400, body))
        assert type(error) is RequestRefusedError
        assert "the words" in str(error)


async def test_a_redirect_is_explained():
    reply = error_reply(301, b"", location="https://elsewhere.example/v1")
    error = await failure(reply)
    assert type(error) is RequestRefusedError
    assert "redirect" in str(error)


async def test_a_missing_page_points_at_the_address():
    error = await failure(error_reply(404, b"not found"))
    assert "model.base_url" in str(error)


FAILED_MIDWAY = [
    (CHAT, {"error": {"message": "boom", "code": 502}}, ServerFailedError),
    (CHAT, {"error": {"message": "slow", "type": "rate_limit_error"}}, RateLimitedError),
    (CHAT, {"error": {"message": "maximum context length"}}, ContextTooLongError),
    (CHAT, {"error": {"message": "what", "type": "invalid_request_error"}}, RequestRefusedError),
    (CHAT, {"error": "boom"}, ServerFailedError),
    (MESSAGES, {"type": "error", "error": {"type": "overloaded_error"}}, RateLimitedError),
    (
        MESSAGES,
        {"type": "error", "error": {"type": "api_error", "message": "x"}},
        ServerFailedError,
    ),
    (RESPONSES, {"type": "error", "code": "server_error", "message": "x"}, ServerFailedError),
    (
        RESPONSES,
        {
            "type": "response.failed",
            "response": {"error": {"code": "rate_limit_exceeded", "message": "x"}},
        },
        RateLimitedError,
    ),
    (
        RESPONSES,
        {
            "type": "response.failed",
            "response": {"error": {"code": "context_length_exceeded", "message": "x"}},
        },
        ContextTooLongError,
    ),
]


@pytest.mark.parametrize(("protocol", "event", "expected"), FAILED_MIDWAY)
async def test_a_failure_reported_within_the_stream(protocol, event, expected):
    error = await failure(Reply([*whole_reply(protocol)[:5], *sse(event)]), protocol)
    assert type(error) is expected


async def test_an_error_with_status_200():
    reply = Reply(
        [b'{"error": {"message": "boom", "code": 503}}'], 200, {"content-type": "application/json"}
    )
    assert type(await failure(reply)) is ServerFailedError


async def test_a_reply_that_ends_in_an_error_is_broken():
    events = sse({"choices": [{"delta": {"content": "a"}, "finish_reason": "error"}]}, "[DONE]")
    error = await failure(Reply(events))
    assert "gave up" in str(error)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_provider_is_not_asked_without_a_key(protocol):
    provider = "anthropic" if protocol == MESSAGES else "openai"
    url = "https://api.anthropic.com" if protocol == MESSAGES else "https://api.openai.com/v1"
    model = model_for(protocol, "", base_url=url, provider=provider, api_key="  ")
    with pytest.raises(AuthenticationError, match=f"{provider.upper()}_API_KEY"):
        await collect(model.stream(ASK))


@pytest.mark.parametrize("key", ["ke\ny-12345678", "schlüssel-123"])
async def test_a_key_that_cannot_be_one_is_not_sent(key):
    async with FakeProvider() as fake:
        with pytest.raises(AuthenticationError, match="characters") as caught:
            await collect(model_for(CHAT, fake.url, api_key=key).stream(ASK))
        assert fake.received == []
    assert key not in str(caught.value)


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://x", "http://", "http://[bad", "nope"])
async def test_an_address_that_is_none_is_explained(url):
    model = model_for(CHAT, "", base_url=url)
    with pytest.raises(ModelError, match=r"base_url"):
        await collect(model.stream(ASK))


async def test_an_address_with_a_password_is_not_shown():
    model = model_for(CHAT, "", base_url="http://user:hunter2@127.0.0.1:9/v1?key=hunter3")
    with pytest.raises(ModelError) as caught:
        await asyncio.wait_for(collect(model.stream(ASK)), 20)
    assert "hunter" not in str(caught.value)
